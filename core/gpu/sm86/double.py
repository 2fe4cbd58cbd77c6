"""f64 instructions: DADD, DMUL, DFMA, division, remainder, DSETP. Twin: `reference.double`.

Rules:
1. IEEE 754 round to nearest even. A NaN operand is passed on, quieted, with its sign; of several the one that
   `_passed` is given first. An invalid operation gives fff8000000000000 (measured on an H200: docs/adr/0008).
2. Codes are uint64 words, so every form needs 64-bit integers; ``native`` needs shaderFloat64 too. A device without
   them cannot run f64 (design.md 5): the emitters raise and name the operation.
3. ``%`` is the f32 sequence of phobos-language.md D.1 in f64: q = a / b, then a - trunc(q) * b with one rounding.
"""

from __future__ import annotations

from ...formats import F64
from ...spirv.builder import Builder, Value
from . import arithmetic, soft
from .resolve import use

FORMS = {
    "dadd": ("native",),
    "dsub": ("native",),
    "dmul": ("native",),
    "dfma": ("native",),
    "ddiv": ("native",),
    "dsetp": ("native",),
    "dmax_select": ("native",),
}
NEEDS = {"native": ("float64", "int64"), "integer": ("int64",)}
USES = {"drem": ("div.rn.f64", "DFMA")}

SIGN = 1 << 63


QUIET = 1 << 51


def _passed(e: Builder, code: Value, *operands: Value) -> Value:
    """Rule 1 where the result is a NaN: the first operand that is one, else the default NaN."""
    nan = e.const(F64.canonical_nan, "u64")
    for operand in reversed(operands):
        nan = e.select(soft.is_nan(e, F64, operand), operand | QUIET, nan)
    return e.select(soft.is_nan(e, F64, code), nan, code)


def dadd(e: Builder, a: Value, b: Value) -> Value:
    """DADD: a + b."""
    return _passed(e, arithmetic.add(e, F64, a, b), b, a)


def dadd_native(e: Builder, a: Value, b: Value) -> Value:
    return _passed(e, (a.f + b.f).bits, b, a)


def dsub(e: Builder, a: Value, b: Value) -> Value:
    """DADD with its second operand negated: a - b."""
    return _passed(e, arithmetic.add(e, F64, a, b ^ SIGN), b, a)


def dsub_native(e: Builder, a: Value, b: Value) -> Value:
    return _passed(e, (a.f - b.f).bits, b, a)


def dmul(e: Builder, a: Value, b: Value) -> Value:
    """DMUL: a * b."""
    return _passed(e, arithmetic.multiply(e, F64, a, b), b, a)


def dmul_native(e: Builder, a: Value, b: Value) -> Value:
    return _passed(e, (a.f * b.f).bits, b, a)


def dfma(e: Builder, a: Value, b: Value, c: Value) -> Value:
    """DFMA: a * b + c, rounded once."""
    return _passed(e, arithmetic.fma(e, F64, a, b, c), b, c, a)


def dfma_native(e: Builder, a: Value, b: Value, c: Value) -> Value:
    """OpExtInst Fma, where the device fuses it (lavapipe does not)."""
    return _passed(e, e.ext("Fma", "f64", a.f, b.f, c.f).bits, b, c, a)


def ddiv(e: Builder, a: Value, b: Value) -> Value:
    """a / b, correctly rounded."""
    return _passed(e, arithmetic.divide(e, F64, a, b), a, b)


def ddiv_native(e: Builder, a: Value, b: Value) -> Value:
    return _passed(e, (a.f / b.f).bits, a, b)


def drem(e: Builder, a: Value, b: Value) -> Value:
    """The language's %: rule 3; a where b is infinite."""
    quotient = use(e, "div.rn.f64", a, b)
    whole = truncated(e, quotient)
    result = use(e, "DFMA", b, dneg(e, whole), a)
    return e.select(soft.is_inf(e, F64, b), a, result)


def truncated(e: Builder, a: Value) -> Value:
    """FRND.F64.TRUNC: the integer part; keeps the sign of zero."""
    size = soft.magnitude(e, F64, a)
    field = soft.exponent_field(e, F64, a)
    distance = e.min(e.max(1075 - field, 0), 52).u
    whole = size & (e.const(-1, "u64") << distance)
    whole = e.select(field < 1023, e.const(0, "u64"), whole)
    return _passed(e, whole | (a & SIGN), a)


def dneg(e: Builder, a: Value) -> Value:
    """DADD of the flipped operand and -0: the sign flipped, but a NaN passed on with its own."""
    return e.select(soft.is_nan(e, F64, a), a | QUIET, a ^ SIGN)


def dsetp(e: Builder, a: Value, b: Value, *, compare: str) -> Value:
    """DSETP: an ordered comparison; the result is a predicate."""
    return soft.float_compare(e, F64, compare, a, b)


def dsetp_native(e: Builder, a: Value, b: Value, *, compare: str) -> Value:
    return soft.compare(e, compare, a.f, b.f)


def dmax_select(e: Builder, a: Value, b: Value) -> Value:
    """a > b ? a : b, bits copied."""
    return e.select(dsetp(e, a, b, compare="gt"), a, b)


def dmax_select_native(e: Builder, a: Value, b: Value) -> Value:
    return e.select(a.f > b.f, a, b)
