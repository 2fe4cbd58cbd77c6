"""f32: FADD, FMUL, FFMA, FMNMX, FSETP, FRND. Rules: design.md 4.2; arithmetic: `arithmetic`.

Twin: gpu/sm86/single.py.
"""

from __future__ import annotations

import numpy as np

from .. import formats
from ..formats import F32, Codes
from . import arithmetic


def _flushed(ftz: bool, *codes: Codes) -> tuple[Codes, ...]:
    return tuple(arithmetic.flush(c, F32) for c in codes) if ftz else codes


def fadd(a: Codes, b: Codes, *, ftz: bool = False) -> Codes:
    """a + b, rounded to nearest even."""
    a, b = _flushed(ftz, a, b)
    return _flushed(ftz, arithmetic.add(a, b, F32))[0]  # a sum that small is exact


def fsub(a: Codes, b: Codes, *, ftz: bool = False) -> Codes:
    """a - b: FADD with the sign of b flipped."""
    return fadd(a, arithmetic.flip(b, F32), ftz=ftz)


def fmul(a: Codes, b: Codes, *, ftz: bool = False, rounding: str = "rn") -> Codes:
    """a * b, rounded to nearest even (``rn``) or toward zero (``rz``)."""
    a, b = _flushed(ftz, a, b)
    return arithmetic.multiply(a, b, F32, rounding, ftz)


def ffma(a: Codes, b: Codes, c: Codes, *, ftz: bool = False) -> Codes:
    """a * b + c with one rounding to nearest even."""
    a, b, c = _flushed(ftz, a, b, c)
    return arithmetic.fused(a, b, c, F32, ftz)


def fmnmx(a: Codes, b: Codes, *, maximum: bool, nan: bool = False, ftz: bool = False) -> Codes:
    """The smaller or larger operand; -0 is below +0."""
    a, b = _flushed(ftz, a, b)
    return arithmetic.minimum_maximum(a, b, F32, maximum, nan)


def fneg(a: Codes) -> Codes:
    """FADD of the flipped operand and -0: the sign flipped, a NaN canonical."""
    return arithmetic.negate(a, F32)


def frnd(a: Codes, *, rounding: str) -> Codes:
    """The nearest integer, ties to even (``rni``), or the integer part (``rzi``); keeps the sign of zero."""
    negative, whole = arithmetic.round_to_integer(a, F32, rounding)
    codes = formats.round_pack(negative, 0, whole & np.uint64((1 << 24) - 1), F32)
    _, exponent, _ = formats.split(a, F32)
    codes = np.where(exponent >= F32.fraction_bits, a, codes)  # already an integer, or infinite
    return arithmetic.canonical(formats.is_nan(a, F32), codes, F32)


def fsetp(a: Codes, b: Codes, *, compare: str) -> Codes:
    """a `compare` b, false where either is a NaN."""
    return arithmetic.compare(a, b, F32, compare)


def fmax_select(a: Codes, b: Codes) -> Codes:
    """a > b ? a : b, bits copied."""
    return np.where(arithmetic.compare(a, b, F32, "gt"), a, b)
