"""Integers, predicates, select and IDP. Twin: `reference.integer`.

Rules (phobos-language.md 0.2):
1. + - * wrap at the width of the format; codes below 32 bits are words whose high bits are zero.
2. Division truncates; x / 0 and x % 0 are all ones; the lowest integer divided by -1 is itself, remainder 0. The
   device only ever divides magnitudes by something that is not zero.
3. A shift count is unsigned: from the width on it gives 0, or the sign for >> of a signed format.
There is one form: integer operations are exact on every device.
"""

from __future__ import annotations

from ...formats import FORMATS, Format
from ...spirv.builder import BITS, Builder, Value
from . import soft
from .convert import extended


def _code(fmt: Format, value: Value) -> Value:
    """The low bits of a word as a code."""
    value = value.u
    return value if fmt.bits >= 32 else value & ((1 << fmt.bits) - 1)


def iadd(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a + b, wrapped."""
    return _code(FORMATS[fmt], a + b)


def isub(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a - b, wrapped."""
    return _code(FORMATS[fmt], a - b)


def imul(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """The low half of a * b."""
    return _code(FORMATS[fmt], a * b)


def imad(e: Builder, a: Value, b: Value, c: Value, *, fmt: str) -> Value:
    """The low half of a * b, plus c, wrapped."""
    return _code(FORMATS[fmt], a * b + c)


def _sign_and_size(e: Builder, fmt: Format, a: Value) -> tuple[Value, Value]:
    """(negative, magnitude) of a code."""
    value = _value(e, fmt, a)
    if fmt.kind == "unsigned":
        return e.false(), value
    negative = value < 0
    return negative, e.select(negative, -value, value).u


def _value(e: Builder, fmt: Format, a: Value) -> Value:
    """A code as a word that compares as the format does."""
    return a.u if fmt.kind == "unsigned" else extended(e, fmt, a)


def idiv(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a / b truncated toward zero; x / 0 is all ones."""
    f = FORMATS[fmt]
    (sign_a, x), (sign_b, y) = _sign_and_size(e, f, a), _sign_and_size(e, f, b)
    quotient = x // _divisor(e, y)
    quotient = e.select(sign_a ^ sign_b, -quotient, quotient)
    return _code(f, e.select(y.eq(0), e.const(-1, a.kind), quotient))


def irem(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a - trunc(a / b) * b; x % 0 is all ones."""
    f = FORMATS[fmt]
    (sign_a, x), (_, y) = _sign_and_size(e, f, a), _sign_and_size(e, f, b)
    rest = x % _divisor(e, y)
    rest = e.select(sign_a, -rest, rest)
    return _code(f, e.select(y.eq(0), e.const(-1, a.kind), rest))


def _divisor(e: Builder, y: Value) -> Value:
    return e.select(y.eq(0), e.const(1, y.kind), y)


def iand(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """Bitwise and."""
    return a & b


def ior(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """Bitwise or."""
    return a | b


def ixor(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """Bitwise exclusive or."""
    return a ^ b


def ishl(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a shifted left: rule 3."""
    f = FORMATS[fmt]
    return e.select(b.u < f.bits, _code(f, a << _count(e, f, b)), e.const(0, a.kind))


def ishr(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a shifted right: rule 3."""
    f = FORMATS[fmt]
    beyond = b.u >= f.bits
    value = _value(e, f, a)
    # one place less than the width leaves the sign alone
    shifted = value >> e.select(beyond, e.u32(BITS[a.kind] - 1), _count(e, f, b))
    if f.kind == "unsigned":
        shifted = e.select(beyond, e.const(0, a.kind), shifted)
    return _code(f, shifted)


def _count(e: Builder, f: Format, b: Value) -> Value:
    """A shift count as a word below the word's width."""
    return e.convert(b.u, "u32") & (max(f.bits, 32) - 1)


def ineg(e: Builder, a: Value, *, fmt: str) -> Value:
    """0 - a, wrapped."""
    return _code(FORMATS[fmt], -a)


def inot(e: Builder, a: Value, *, fmt: str) -> Value:
    """Every bit flipped."""
    return ~a if fmt == "pred" else _code(FORMATS[fmt], ~a)


def imnmx(e: Builder, a: Value, b: Value, *, fmt: str, maximum: bool) -> Value:
    """The smaller or larger of a and b."""
    x, y = (_value(e, FORMATS[fmt], code) for code in (a, b))
    return e.select((x > y) if maximum else (x < y), a, b)


def isetp(e: Builder, a: Value, b: Value, *, fmt: str, compare: str) -> Value:
    """a `compare` b; the result is a predicate."""
    if fmt == "pred":
        return soft.compare(e, compare, a, b)
    x, y = (_value(e, FORMATS[fmt], code) for code in (a, b))
    return soft.compare(e, compare, x, y)


def imax_select(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a > b ? a : b."""
    return imnmx(e, a, b, fmt=fmt, maximum=True)


def select(e: Builder, p: Value, a: Value, b: Value) -> Value:
    """p ? a : b, bits copied."""
    return e.select(p, a, b)


def idp4a(e: Builder, a: Value, b: Value, c: Value, *, a_signed: bool, b_signed: bool) -> Value:
    """IDP.4A: c plus the four products of the bytes of a and b, wrapped."""
    total = c
    for place in (24, 16, 8, 0):
        total = total + _byte(a, place, a_signed) * _byte(b, place, b_signed)
    return total


def _byte(word: Value, place: int, signed: bool) -> Value:
    """One byte of a word, extended by its sign or by zero."""
    top = word << (24 - place)
    return (top.i >> 24).u if signed else top >> 24
