"""The correctly rounded dot product: what an ideal unit with one IEEE rounding would give.

Rules
 1. The exact sum of all products and the addend is rounded once, to nearest even, in the result's format.
 2. Products of 16-bit and tf32 operands are exact in float64. Sums are kept as three non-overlapping float64 parts by
    error-free additions; where these do not decide the rounding, the sum is recomputed with exact rationals.
 3. Specials are IEEE 754's: NaN (canonical), infinities, +0 for an exact zero unless every term is -0.
The report's share of results that equal this says how much of a set a plain exact dot would already explain.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .. import formats
from ..formats import FORMATS, Codes, Format

Floats = NDArray[np.float64]


def dot(a: Codes, b: Codes, c: Codes, operand: str, result: str) -> Codes:
    """a [t, m, k], b [t, k, n], c [t, m, n] -> [t, m, n], correctly rounded."""
    fmt, out = FORMATS[operand], FORMATS[result]
    left, right = values(a, fmt)[:, :, None, :], np.swapaxes(values(b, fmt), 1, 2)[:, None, :, :]
    with np.errstate(all="ignore"):
        terms = np.concatenate([left * right, values(c, out)[..., None]], axis=-1)
        plain = terms.sum(axis=-1)
        finite = np.isfinite(terms).all(axis=-1)
        odd, undecided = _sum_to_odd(np.where(finite[..., None], terms, 0.0))
    codes = _round(np.where(finite, odd, plain), out)
    for index in np.argwhere(undecided & finite):
        codes[tuple(index)] = _exactly(terms[tuple(index)], out)
    negative_zero = finite & (terms == 0).all(axis=-1) & np.signbit(terms).all(axis=-1)
    zero = formats.is_zero(codes, out) & (odd == 0) & finite
    codes = np.where(zero, np.where(negative_zero, out.sign_bit, 0).astype(codes.dtype), codes)
    return codes


def values(codes: Codes, fmt: Format) -> Floats:
    """Codes as float64, exactly."""
    negative, exponent, significand = formats.split(codes, fmt)
    magnitude = np.ldexp(significand.astype(np.float64), np.minimum(exponent, fmt.emax + 1) - fmt.fraction_bits)
    magnitude = np.where(formats.is_inf(codes, fmt), np.inf, magnitude)
    magnitude = np.where(formats.is_nan(codes, fmt), np.nan, magnitude)
    return np.where(negative, -magnitude, magnitude)


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a + b rounded, and the exact error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _sum_to_odd(terms: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The exact sum over the last axis rounded to odd in float64, and where that could not be decided."""
    high = np.zeros(terms.shape[:-1])
    middle = np.zeros_like(high)
    rest = np.zeros_like(high)
    for k in range(terms.shape[-1]):
        high, error = _two_sum(high, terms[..., k])
        middle, lost = _two_sum(middle, error)
        rest += np.abs(lost)
    high, middle = _two_sum(high, middle)
    bits = high.view(np.int64)
    away = (middle > 0) == (high > 0)  # the part below the last place points away from zero
    odd = np.where((middle != 0) & (bits & 1 == 0), bits + np.where(away, 1, -1), bits)
    undecided = (rest != 0) & (np.abs(middle) <= 4 * rest)
    undecided |= (rest != 0) & (high == 0)
    return np.where(high == 0, high, odd.view(np.float64)), undecided


def _round(numbers: Floats, out: Format) -> Codes:
    """float64 (rounded to odd, so a second rounding is harmless) to the result's format, to nearest even."""
    with np.errstate(all="ignore"):
        if out.name == "f16":
            codes: Codes = numbers.astype(np.float16).view(np.uint16)
        else:
            codes = numbers.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(numbers), codes.dtype.type(out.canonical_nan), codes)


def _exactly(terms: Floats, out: Format) -> int:
    """The same by rationals, one result at a time."""
    total = sum((Fraction(float(term)) for term in terms), Fraction(0))
    if total == 0:
        return 0
    magnitude = abs(total)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 60
    scaled = magnitude / Fraction(2) ** exponent
    whole = scaled.numerator // scaled.denominator
    sticky = int(whole * scaled.denominator != scaled.numerator)
    packed = formats.round_pack(np.array([total < 0]), np.array([exponent]), np.array([whole | sticky]), out)
    return int(packed[0])
