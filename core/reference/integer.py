"""Integers, predicates and select. Rules: phobos-language.md 0.2. Twin: gpu/sm86/integer.py.

+ - * wrap, / and % truncate, x/0 and x%0 are all ones, the lowest integer divided by -1 is itself, and a shift
count is unsigned: at or above the width it gives 0, or the sign for >> of a signed format. `fmt` names the format.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import formats
from ..formats import FORMATS, Codes
from . import arithmetic


def iadd(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a + b, wrapped."""
    return np.add(a, b, dtype=FORMATS[fmt].dtype)


def isub(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a - b, wrapped."""
    return np.subtract(a, b, dtype=FORMATS[fmt].dtype)


def imul(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """The low half of a * b."""
    return np.multiply(a, b, dtype=FORMATS[fmt].dtype)


def imad(a: Codes, b: Codes, c: Codes, *, fmt: str) -> Codes:
    """The low half of a * b, plus c, wrapped."""
    return iadd(imul(a, b, fmt=fmt), c, fmt=fmt)


def _magnitude(a: Codes, fmt: str) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    value = formats.signed(a, FORMATS[fmt])
    negative = value < 0
    word = value.astype(np.uint64)
    return negative, np.where(negative, np.uint64(0) - word, word)


def _with_sign(negative: NDArray[np.bool_], magnitude: NDArray[np.uint64], fmt: str) -> Codes:
    return np.where(negative, np.uint64(0) - magnitude, magnitude).astype(FORMATS[fmt].dtype)


def idiv(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a / b truncated toward zero; x / 0 is all ones."""
    (sign_a, x), (sign_b, y) = _magnitude(a, fmt), _magnitude(b, fmt)
    quotient = _with_sign(sign_a ^ sign_b, x // np.maximum(y, np.uint64(1)), fmt)
    return np.where(y == 0, ~np.zeros((), FORMATS[fmt].dtype), quotient)


def irem(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a - trunc(a / b) * b, with the sign of a; x % 0 is all ones (measured: docs/adr/0008)."""
    (sign_a, x), (_, y) = _magnitude(a, fmt), _magnitude(b, fmt)
    rest = _with_sign(sign_a, x % np.maximum(y, np.uint64(1)), fmt)
    return np.where(y == 0, ~np.zeros((), FORMATS[fmt].dtype), rest)


def iand(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """Bitwise and."""
    return np.asarray(a) & b


def ior(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """Bitwise or."""
    return np.asarray(a) | b


def ixor(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """Bitwise exclusive or."""
    return np.asarray(a) ^ b


def ishl(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a shifted left by the unsigned count b; 0 from the width on."""
    f = FORMATS[fmt]
    count = np.asarray(b).astype(np.uint64)
    shifted = np.asarray(a).astype(np.uint64) << np.minimum(count, np.uint64(63))
    return np.where(count < f.bits, shifted, np.uint64(0)).astype(f.dtype)


def ishr(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a shifted right by the unsigned count b, arithmetic for signed formats; 0 or the sign from the width on."""
    f = FORMATS[fmt]
    count = np.minimum(np.asarray(b).astype(np.uint64), np.uint64(63)).astype(np.int64)
    return (formats.signed(a, f) >> count).astype(np.uint64).astype(f.dtype)


def ineg(a: Codes, *, fmt: str) -> Codes:
    """0 - a, wrapped."""
    return isub(np.zeros((), FORMATS[fmt].dtype), a, fmt=fmt)


def inot(a: Codes, *, fmt: str) -> Codes:
    """Every bit flipped."""
    return ~np.asarray(a)


def imnmx(a: Codes, b: Codes, *, fmt: str, maximum: bool) -> Codes:
    """The smaller or larger of a and b."""
    x, y = formats.signed(a, FORMATS[fmt]), formats.signed(b, FORMATS[fmt])
    return np.where(x >= y if maximum else x <= y, a, b)


def isetp(a: Codes, b: Codes, *, fmt: str, compare: str) -> NDArray[np.bool_]:
    """a `compare` b."""
    x, y = formats.signed(a, FORMATS[fmt]), formats.signed(b, FORMATS[fmt])
    return np.asarray(arithmetic.RELATIONS[compare](x, y))


def imax_select(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a > b ? a : b."""
    return imnmx(a, b, fmt=fmt, maximum=True)


def select(p: Codes, a: Codes, b: Codes) -> Codes:
    """p ? a : b, bits copied."""
    return np.where(p, a, b)


def idp4a(a: Codes, b: Codes, c: Codes, *, a_signed: bool, b_signed: bool) -> Codes:
    """c plus the four products of the bytes of a and b, wrapped at 32 bits."""
    total = np.asarray(c).astype(np.int64)
    for shift in (0, 8, 16, 24):
        x, y = ((np.asarray(w) >> np.uint32(shift)).astype(np.uint8) for w in (a, b))
        left = formats.signed(x, FORMATS["s8" if a_signed else "u8"])
        total = total + left * formats.signed(y, FORMATS["s8" if b_signed else "u8"])
    return total.astype(np.uint64).astype(np.uint32)
