"""MUFU, the special function unit: a closed integer form. Twin: gpu/sm86/mufu.py.

Source: design.md 4.3, measured on an H200 over all 2^32 inputs of each function. With i the upper and x the lower bits
of the reduced argument,

    A = (C0[i] << s0) + C1[i] * x + ((C2[i] * S(x)) << s2) + bias

where S is a squarer whose partial products are truncated before they are summed; coefficients and constants are in
`isa.mufu_tables`. Nothing is rounded but by `bias`; results are A shifted right. Every NaN gives the canonical one.
Subnormal operands count as zero of their sign, except in TANH.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..formats import F16, F32, Codes, Ints, bit_length
from ..isa import mufu_tables
from ..isa.mufu_tables import TANH_BINADES, UNITS
from . import convert

_NAN = np.uint32(F32.canonical_nan)
_INFINITY = np.uint32(F32.infinity)
_SIGN = np.uint32(F32.sign_bit)
_ZERO = np.uint32(0)
_ONE = np.uint32(0x3F800000)
_TWO_16 = np.uint32(0x47800000)
_FRACTION = (1 << 23) - 1


@cache
def squares() -> NDArray[np.int64]:
    """S of every 17-bit x: about x^2 / 2^19, each partial product truncated before the sum."""
    x = np.arange(1 << 17, dtype=np.int64)
    total = np.zeros_like(x)
    for i in range(2, 17):
        total += (x >> i & 1) * (x >> (18 - i))
    return total >> 1


@cache
def _table(name: str) -> NDArray[np.int64]:
    return np.array(mufu_tables.coefficients(name), np.int64)


def _interpolate(name: str, row: Ints, x: Ints) -> Ints:
    """A >> shift of the head of this file; `row` and `x` are the upper and lower bits of the argument."""
    unit = UNITS[name]
    c0, c1, c2 = np.moveaxis(_table(unit.table)[row], -1, 0)
    square = squares()[x << (17 - unit.x_bits)]
    value: Ints = (c0 << unit.s0) + c1 * x + ((c2 * square) << unit.s2) + unit.bias
    return value >> unit.shift


def _fields(a: Codes) -> tuple[Codes, NDArray[np.bool_], Ints, Ints]:
    """(code, negative, biased exponent, fraction)."""
    a = np.asarray(a, np.uint32)
    exponent = (a >> np.uint32(23) & np.uint32(255)).astype(np.int64)
    return a, a >= _SIGN, exponent, (a & np.uint32(_FRACTION)).astype(np.int64)


def _float(exponent: Ints, significand: Ints) -> Codes:
    """Biased exponent and significand (its bit 23 is dropped) as a code."""
    return ((np.clip(exponent, 0, 255) << 23) | (significand & _FRACTION)).astype(np.uint32)


def _sign(negative: NDArray[np.bool_]) -> Codes:
    return np.where(negative, _SIGN, _ZERO)


def _finish(exponent: Ints, fraction: Ints, codes: Codes) -> Codes:
    return np.where((exponent == 255) & (fraction != 0), _NAN, codes)


def _leading(value: Ints) -> tuple[Ints, Ints]:
    """(number of bits, the 24 leading bits truncated) of positive values."""
    length = bit_length(value)
    return length, np.where(length > 24, value >> np.maximum(length - 24, 0), value << np.maximum(24 - length, 0))


def rcp(a: Codes) -> Codes:
    """1 / a; results below 2^-126 are zero of the sign."""
    _, negative, e, m = _fields(a)
    f = _interpolate("rcp", m >> 16, m & 0xFFFF)  # 24 bits, or exactly 2^24 where the fraction is 0
    carry = f >> 24
    exponent = 253 - e + carry
    codes = np.where(exponent <= 0, _ZERO, _float(exponent, f >> carry))
    codes = np.where(e == 0, _INFINITY, np.where(e == 255, _ZERO, codes)) | _sign(negative)
    return _finish(e, m, codes)


def rsq(a: Codes) -> Codes:
    """1 / sqrt a."""
    _, negative, e, m = _fields(a)
    f = m | ((e + 1 & 1) << 23)  # bit 23: the unbiased exponent is odd
    half = (e - 127) >> 1
    y = _interpolate("rsq", f >> 17, f & 0x1FFFF)
    codes = np.where(f == 0, _float(127 - half, f), _float(126 - half, y))  # even powers of two are exact
    codes = np.where(negative, _NAN, np.where(e == 255, _ZERO, codes))
    codes = np.where(e == 0, _sign(negative) | _INFINITY, codes)
    return _finish(e, m, codes)


def sqrt(a: Codes) -> Codes:
    """sqrt a; subnormals are zero of their sign."""
    _, negative, e, m = _fields(a)
    f = m | ((e + 1 & 1) << 23)
    codes = _float(127 + ((e - 127) >> 1), _interpolate("sqrt", f >> 17, f & 0x1FFFF))
    codes = np.where(negative, _NAN, np.where(e == 255, _INFINITY, codes))
    return _finish(e, m, np.where(e == 0, _sign(negative), codes))


def ex2(a: Codes) -> Codes:
    """2^a; results below 2^-126 are +0."""
    _, negative, e, m = _fields(a)
    exponent = e - 127
    fixed = np.where(e > 0, m | 1 << 23, 0)
    fixed = (fixed << np.clip(exponent, 0, 6)) >> np.clip(-exponent, 0, 31)  # |a| with 23 fraction bits, truncated
    fixed = np.where(negative, np.where(fixed & _FRACTION, ~fixed, -fixed), fixed)  # one's complement unless whole
    biased, fraction = (fixed >> 23) + 127, fixed & _FRACTION
    codes = _float(biased, _interpolate("ex2", fraction >> 17, fraction & 0x1FFFF))
    codes = np.where(biased <= 0, _ZERO, codes)
    codes = np.where(exponent >= 7, np.where(negative, _ZERO, _INFINITY), codes)  # |a| >= 128
    return _finish(e, m, codes)


def lg2(a: Codes) -> Codes:
    """log2 a."""
    _, negative, e, m = _fields(a)
    value = _interpolate("lg2", m >> 17, m & 0x1FFFF)  # log2 of 1.m with 36 fraction bits
    value = np.where((m == 0) & (e == 127), 0, value) + ((e - 127) << 36)
    below = value < 0
    value = np.where(below, ~value, value)
    length, significand = _leading(np.maximum(value, 1))
    codes = np.where(value == 0, _ZERO, _float(127 + length - 37, significand)) | _sign(below)
    codes = np.where(negative, _NAN, np.where(e == 255, _INFINITY, codes))
    return _finish(e, m, np.where(e == 0, _SIGN | _INFINITY, codes))


def _turns(a: Codes, quadrants: int) -> tuple[Codes, NDArray[np.bool_]]:
    """(magnitude code, lower half) of the sine of |a| turns plus some quadrants."""
    _, _, e, m = _fields(a)
    shift = e - 125  # |a| in quarter turns with 23 fraction bits, truncated
    fixed = np.where(e > 0, m | 1 << 23, 0)
    fixed = np.where(shift > 31, 0, fixed << np.clip(shift, 0, 31)) >> np.clip(-shift, 0, 31)
    quadrant = (fixed >> 23) + quadrants
    fraction = np.where(quadrant & 1, ~fixed, fixed) & _FRACTION
    value = _interpolate("sin", fraction >> 17, fraction & 0x1FFFF)  # 37 fraction bits
    length, significand = _leading(np.maximum(value, 1))
    codes = np.where(value <= 0, _ZERO, _float(127 + length - 38, significand))
    return codes, (quadrant >> 1 & 1) != 0


def sin(a: Codes) -> Codes:
    """Sine of a turns."""
    _, negative, e, _ = _fields(a)
    codes, lower = _turns(a, 0)
    return np.where(e == 255, _NAN, codes | _sign(negative ^ lower))


def cos(a: Codes) -> Codes:
    """Cosine of a turns."""
    _, _, e, _ = _fields(a)
    codes, lower = _turns(a, 1)
    return np.where(e == 255, _NAN, codes | _sign(lower))


def tanh(a: Codes) -> Codes:
    """tanh a; below 2^-8 the operand itself, subnormals included."""
    a, negative, e, m = _fields(a)
    first, segments, unit = np.array(TANH_BINADES, np.int64).T[:, np.clip(e - 119, 0, 10)]
    x = m >> (6 - segments) & 0x1FFFF  # the lowest 6 - segments bits are dropped
    value = _interpolate("tanh", first + (m >> (23 - segments)), x)  # in units of 2^(unit - 42)
    length, significand = _leading(np.maximum(value, 1))
    codes = _float(127 + length - 1 + unit - 42, significand)
    codes = np.where(e < 119, a & ~_SIGN, np.where(e >= 130, _ONE, codes)) | _sign(negative)
    return _finish(e, m, codes)


def ex2_f16(a: Codes) -> Codes:
    """EX2 of the widened f16 operand, truncated to f16; from 2^16 on infinity."""
    wide = ex2(convert.f2f(a, source="f16", target="f32"))
    codes = convert.f2f(wide, source="f32", target="f16", rounding="rz")
    overflow = (wide >= _TWO_16) & (wide <= _INFINITY)  # measured on sm_90: not the largest finite number of cvt.rz
    return np.where(overflow, np.uint16(F16.infinity), codes)


def tanh_f16(a: Codes) -> Codes:
    """TANH of the widened f16 operand, truncated to f16."""
    return convert.f2f(tanh(convert.f2f(a, source="f16", target="f32")), source="f32", target="f16", rounding="rz")
