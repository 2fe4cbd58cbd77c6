"""Conversions: F2F, F2I, I2F, I2I and the language's low byte. Rules: design.md 4.2, phobos-language.md D.1.

Formats come as names. F2F rounds once and makes a NaN canonical; from and to f64 it keeps the NaN's leading payload
bits, quieted, and bf16 to f32 is a shift (docs/adr/0008). F2I saturates; I2F goes directly to its target, but to bf16
through f32, as sm_86 has no such conversion.
Twin: gpu/sm86/convert.py.
"""

from __future__ import annotations

import numpy as np

from .. import formats
from ..formats import F32, FORMATS, Codes, Format
from . import arithmetic


def f2f(a: Codes, *, source: str, target: str, rounding: str = "rn") -> Codes:
    """A float in another float format; toward zero (``rz``) a finite overflow gives the largest finite number."""
    if source == "bf16" and target != "f16":
        wide = np.asarray(a).astype(np.uint32) << np.uint32(16)
        return wide if target == "f32" else f2f(wide, source="f32", target=target)
    s, t = FORMATS[source], FORMATS[target]
    negative, exponent, significand = formats.split(a, s)
    overflow = "largest" if rounding == "rz" else "infinity"
    codes = formats.round_pack(negative, exponent - s.fraction_bits, significand, t, mode=rounding, overflow=overflow)
    infinity = np.where(negative, codes.dtype.type(t.infinity | t.sign_bit), codes.dtype.type(t.infinity))
    codes = np.where(formats.is_inf(a, s), infinity, codes)
    if "f64" in (source, target) and target != "bf16":  # f64 to bf16 is a sequence whose last step is f32 to bf16
        return np.where(formats.is_nan(a, s), _kept_payload(a, s, t), codes)
    return arithmetic.canonical(formats.is_nan(a, s), codes, t)


def _kept_payload(a: Codes, s: Format, t: Format) -> Codes:
    """A NaN of `s` as a NaN of `t`: sign, quiet bit, and as many leading payload bits as there are places."""
    drop = s.fraction_bits - t.fraction_bits
    fraction = np.asarray(a).astype(np.uint64) & np.uint64((1 << s.fraction_bits) - 1)
    moved = fraction >> np.uint64(drop) if drop > 0 else fraction << np.uint64(-drop)
    sign = formats.sign_of(a, s).astype(np.uint64) << np.uint64(t.bits - 1)
    return (moved | np.uint64(t.infinity | 1 << (t.fraction_bits - 1)) | sign).astype(t.dtype)


def rna_tf32(a: Codes) -> Codes:
    """f32 to tf32, ties away from zero: half of the dropped unit is added to a finite magnitude, then the mask."""
    finite = ~(formats.is_nan(a, F32) | formats.is_inf(a, F32))
    half = np.where(finite, np.uint32(0x1000), np.uint32(0))
    return (np.asarray(a) + half) & np.uint32(0xFFFFE000)


def f2i(a: Codes, *, source: str, target: str, rounding: str) -> Codes:
    """A float as an integer, truncated (``rzi``) or rounded to nearest even (``rni``), saturated.

    NaN gives 0, but the lowest integer where the source is f64 or the target s64 (PTX ISA).
    """
    s, t = FORMATS[source], FORMATS[target]
    negative, magnitude = arithmetic.round_to_integer(a, s, rounding)
    magnitude = np.minimum(magnitude, np.where(negative, np.uint64(-t.lowest_integer), np.uint64(t.largest)))
    value = np.where(negative, np.uint64(0) - magnitude, magnitude)
    nan = 1 << (t.bits - 1) if source == "f64" or t.bits == 64 else 0
    return np.where(formats.is_nan(a, s), np.uint64(nan), value).astype(t.dtype)


def low_byte(a: Codes, *, source: str, target: str) -> Codes:
    """The language's i8(x) and u8(x): truncated, saturated to 16 bits, the low byte kept (300.0 gives 44)."""
    wide = "s16" if target == "s8" else "u16"
    return f2i(a, source=source, target=wide, rounding="rzi").astype(np.uint8)


def i2f(a: Codes, *, source: str, target: str) -> Codes:
    """An integer as a float, rounded once to nearest even; to bf16 rounded to f32 before."""
    if target == "bf16":
        return f2f(i2f(a, source=source, target="f32"), source="f32", target="bf16")
    s = FORMATS[source]
    value = formats.signed(a, s)
    magnitude = np.where(value < 0, np.uint64(0) - value.astype(np.uint64), value.astype(np.uint64))
    # 2^62 and above: two places lower with the lost bits sticky, as round_pack's significand must stay below
    large = magnitude >> np.uint64(62) != 0
    lower = (magnitude >> np.uint64(2)) | (magnitude & np.uint64(3) != 0)
    significand = np.where(large, lower, magnitude).astype(np.int64)
    return formats.round_pack(value < 0, 2 * large.astype(np.int64), significand, FORMATS[target])


def i2i(a: Codes, *, source: str, target: str) -> Codes:
    """An integer (or predicate) in another width: sign or zero extended, or the low bits."""
    return formats.signed(a, FORMATS[source]).astype(np.uint64).astype(FORMATS[target].dtype)
