"""f64: DADD, DMUL, DFMA, division, remainder, DSETP. Twin: gpu/sm86/double.py.

numpy's float64 is IEEE 754 double precision, round to nearest even, so sums, products and quotients are numpy's, but
for NaN (measured on an H200, docs/adr/0008): a NaN operand is passed on, quieted, with its sign; of several, the one
that `_nan` names first; an invalid operation gives fff8000000000000. numpy has no fused multiply-add: `dfma` gets it
from error-free transformations (Boldo and Melquiond: the error terms rounded to odd) where no step can leave the normal
range, and from Python's integers elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import formats
from ..formats import F64, Codes
from . import arithmetic

Floats = NDArray[np.float64]

#: Exponents between which every step of the transformation is exact: products and their low parts stay normal.
_SAFE = 400
_QUIET = np.uint64(1 << 51)
_SPLITTER = 134217729.0  # 2^27 + 1: halves of 26 bits each


def _floats(codes: Codes) -> Floats:
    return np.ascontiguousarray(codes, np.uint64).view(np.float64).reshape(np.shape(codes))


def _codes(values: Floats) -> Codes:
    return np.ascontiguousarray(values, np.float64).view(np.uint64).reshape(np.shape(values))


def _nan(codes: Codes, *operands: Codes) -> Codes:
    """Where the result is a NaN: the first operand that is one, quieted, else the default NaN."""
    nan = np.full(np.shape(codes), F64.canonical_nan, np.uint64)
    for operand in reversed(operands):
        nan = np.where(formats.is_nan(operand, F64), operand | _QUIET, nan)
    return np.where(formats.is_nan(codes, F64), nan, codes)


def _by_numpy(operation: Callable[[Any, Any], Any], a: Codes, b: Codes) -> Codes:
    with np.errstate(all="ignore"):
        return _codes(operation(_floats(a), _floats(b)))


def dadd(a: Codes, b: Codes) -> Codes:
    """a + b, rounded to nearest even."""
    return _nan(_by_numpy(np.add, a, b), b, a)


def dsub(a: Codes, b: Codes) -> Codes:
    """a - b, rounded to nearest even."""
    return _nan(_by_numpy(np.subtract, a, b), b, a)


def dmul(a: Codes, b: Codes) -> Codes:
    """a * b, rounded to nearest even."""
    return _nan(_by_numpy(np.multiply, a, b), b, a)


def dfma(a: Codes, b: Codes, c: Codes) -> Codes:
    """a * b + c with one rounding to nearest even."""
    a, b, c = np.broadcast_arrays(a, b, c)
    exponents = [formats.split(x, F64)[1] for x in (a, b, c)]
    safe = np.logical_and.reduce([np.abs(e) < _SAFE for e in exponents])
    for x in (a, b, c):
        safe &= ~formats.is_zero(x, F64)
    out = np.empty(a.shape, np.uint64)
    out[safe] = _codes(_fused_by_errors(*(_floats(x[safe]) for x in (a, b, c))))
    out[~safe] = [_fused_exactly(int(x), int(y), int(z)) for x, y, z in zip(a[~safe], b[~safe], c[~safe])]
    return _nan(out, b, c, a)


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    p = a * b
    a_high = a * _SPLITTER - (a * _SPLITTER - a)
    b_high = b * _SPLITTER - (b * _SPLITTER - b)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _round_to_odd(a: Floats, b: Floats) -> Floats:
    """a + b with the last place made odd where it is not exact."""
    s, error = _two_sum(a, b)
    bits = s.view(np.int64)
    # toward the error: one step down in magnitude where the error pulls back, else as truncated; then the odd place
    inward = (error != 0) & ((error < 0) != (s < 0))
    bits = bits - inward
    return np.asarray(bits | (error != 0)).view(np.float64)


def _fused_by_errors(a: Floats, b: Floats, c: Floats) -> Floats:
    product, product_low = _two_product(a, b)
    upper, upper_low = _two_sum(c, product_low)
    top, top_low = _two_sum(product, upper)
    return top + _round_to_odd(top_low, upper_low)


def _fused_exactly(a: int, b: int, c: int) -> int:
    """One fused multiply-add on codes in Python's integers."""
    if any(_is_special(x) for x in (a, b, c)):
        return _fused_special(a, b, c)
    (sign_a, ea, ma), (sign_b, eb, mb), (sign_c, ec, mc) = (_parts(x) for x in (a, b, c))
    lowest = min(ea + eb, ec)
    product, addend = (ma * mb) << (ea + eb - lowest), mc << (ec - lowest)
    value = (-product if sign_a ^ sign_b else product) + (-addend if sign_c else addend)
    negative = (sign_a ^ sign_b) & sign_c if value == 0 else value < 0
    magnitude = abs(value)
    excess = max(magnitude.bit_length() - 60, 0)
    head = (magnitude >> excess) | (magnitude & ((1 << excess) - 1) != 0)
    return int(formats.round_pack(bool(negative), lowest + excess, head, F64))


def _parts(code: int) -> tuple[int, int, int]:
    field, fraction = code >> 52 & 0x7FF, code & ((1 << 52) - 1)
    return code >> 63, max(field, 1) - 1075, fraction | (1 << 52 if field else 0)


def _is_special(code: int) -> bool:
    return code >> 52 & 0x7FF == 0x7FF


def _fused_special(a: int, b: int, c: int) -> int:
    magnitudes = [x & (F64.sign_bit - 1) for x in (a, b, c)]
    if any(m > F64.infinity for m in magnitudes):
        return F64.canonical_nan
    product_infinite = F64.infinity in magnitudes[:2]
    negative = (a ^ b) >> 63
    if product_infinite and (0 in magnitudes[:2] or (magnitudes[2] == F64.infinity and c >> 63 != negative)):
        return F64.canonical_nan
    return F64.infinity | (negative if product_infinite else c >> 63) << 63


def ddiv(a: Codes, b: Codes) -> Codes:
    """a / b, correctly rounded."""
    return _nan(_by_numpy(np.divide, a, b), a, b)


def drem(a: Codes, b: Codes) -> Codes:
    """The language's %: the steps of phobos-language.md D.1 in f64."""
    quotient = ddiv(a, b)
    with np.errstate(all="ignore"):
        whole = _nan(_codes(np.trunc(_floats(quotient))), quotient)
    rest = dfma(b, dneg(whole), a)
    return np.where(formats.is_inf(b, F64), a, rest)


def dneg(a: Codes) -> Codes:
    """DADD of the flipped operand and -0: the sign flipped, but a NaN passed on, quieted, with its own."""
    return np.where(formats.is_nan(a, F64), np.asarray(a) | _QUIET, arithmetic.flip(a, F64))


def dsetp(a: Codes, b: Codes, *, compare: str) -> NDArray[np.bool_]:
    """a `compare` b, false where either is a NaN."""
    return arithmetic.compare(a, b, F64, compare)


def dmax_select(a: Codes, b: Codes) -> Codes:
    """a > b ? a : b, bits copied."""
    return np.where(arithmetic.compare(a, b, F64, "gt"), a, b)
