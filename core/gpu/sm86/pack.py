"""Between f32 and the 16-bit formats: widening and narrowing of codes.

Rules:
1. Widening is exact; narrowing rounds once, to nearest even or toward zero; NaN become canonical; infinities stay. bf16
   to f32 is a shift, and from and to f64 a NaN keeps its sign and leading payload bits, quieted (docs/adr/0008); f64 to
   bf16 is a sequence that ends with f32 to bf16.
2. The native forms scale f16 subnormals with one f32 operation on normal numbers (tile-lowering.md C), so they are
   right on drivers that flush; packHalf2x16 and OpFConvert are not used: they are slow on lavapipe and wrong on
   SwiftShader.
"""

from __future__ import annotations

from ...formats import BF16, F16, F32, F64, Format
from ...spirv.builder import Builder, Value
from . import soft
from .soft import Number


def widen(e: Builder, fmt: Format, code: Value) -> Value:
    """f16 or bf16 code -> f32 code, on integers."""
    if fmt is BF16:
        return code << 16
    size = code & 0x7FFF
    lead = e.find_msb(size)
    # the leading one adds one to the exponent field, here and below
    small = (size << (23 - lead)) + ((lead + 102) << 23)
    small = e.select(size.eq(0), e.u32(0), small)
    return _f16_specials(e, code, size, small)


def widen_native(e: Builder, fmt: Format, code: Value) -> Value:
    """As `widen`, with a float multiplication for subnormals."""
    if fmt is BF16:
        return code << 16
    size = code & 0x7FFF
    small = (e.convert(size.i, "f32") * e.f32(2.0**-24)).bits
    return _f16_specials(e, code, size, small)


def _f16_specials(e: Builder, code: Value, size: Value, small: Value) -> Value:
    normal = (size << 13) + ((127 - 15) << 23)
    value = e.select(size < 0x400, small, normal)
    value = e.select(size.eq(F16.infinity), e.u32(F32.infinity), value) | ((code & F16.sign_bit) << 16)
    return e.select(size > F16.infinity, e.u32(F32.canonical_nan), value)


def narrow(e: Builder, fmt: Format, code: Value, rounding: str = "rn", overflow: str = "infinity") -> Value:
    """f32 code -> f16 or bf16 code, on integers."""
    if fmt is BF16 and rounding == "rn":
        return _narrow_bf16(e, code)
    number = soft.fit(e, fmt, soft.unpack(e, F32, code, 29), F32)
    result = soft.round_pack(e, fmt, number, rounding, overflow)
    return _narrow_specials(e, fmt, F32, code, result, number.sign)


def _narrow_specials(e: Builder, fmt: Format, source: Format, code: Value, result: Value, sign: Value) -> Value:
    result = e.select(soft.is_inf(e, source, code), sign | fmt.infinity, result)
    return e.select(soft.is_nan(e, source, code), e.u32(fmt.canonical_nan), result)


def _narrow_bf16(e: Builder, code: Value) -> Value:
    """The upper half, rounded: overflow carries into infinity by itself."""
    rounded = (code + (((code >> 16) & 1) + 0x7FFF)) >> 16
    return e.select(e.is_nan(code), e.u32(BF16.canonical_nan), rounded)


def narrow_native(e: Builder, fmt: Format, code: Value) -> Value:
    """As `narrow` to nearest even, with a float addition for subnormal results."""
    if fmt is BF16:
        return _narrow_bf16(e, code)
    size = code & 0x7FFFFFFF
    normal = (size + (((size >> 13) & 1) + (0xFFF - (112 << 23)))) >> 13
    small = (size.f + e.f32(0.5)).bits - 0x3F000000  # the places of a subnormal f16 are those of f32 at one half
    result = e.select(size < 0x38800000, small, normal)
    result = e.select(size >= 0x477FF000, e.u32(F16.infinity), result)  # from the tie above the largest number on
    result = result | ((code & 0x80000000) >> 16)
    return e.select(size > F32.infinity, e.u32(F16.canonical_nan), result)


def narrow_f64(e: Builder, fmt: Format, code: Value) -> Value:
    """f64 code -> f32, f16 or bf16 code, to nearest even, on integers: 30 bits and a sticky one decide."""
    size = soft.magnitude(e, F64, code)
    field = e.convert(size >> 52, "i32")
    head = e.convert(size >> 23, "u32") & ((1 << 29) - 1)  # 29 of the 52 fraction bits
    rest = e.convert(size, "u32") & ((1 << 23) - 1)
    # an f64 subnormal is far below every other format: it only needs to be not zero
    hidden = e.select(field.eq(0), e.u32(0), e.u32(1 << 29))
    significand = soft.sticky_word(e, head | hidden, rest)
    number = soft.fit(e, fmt, Number(soft.sign_of(e, F64, code), field, significand, 29), F64)
    result = _narrow_specials(e, fmt, F64, code, soft.round_pack(e, fmt, number), number.sign)
    return result if fmt is BF16 else kept_payload(e, F64, fmt, code, result)


def kept_payload(e: Builder, source: Format, target: Format, code: Value, result: Value) -> Value:
    """The NaN rule between f64 and another format; `result` where the code is none."""
    drop = source.fraction_bits - target.fraction_bits
    fraction = code & ((1 << source.fraction_bits) - 1)
    sign = soft.sign_of(e, source, code)
    if drop > 0:
        fraction, sign = e.convert(fraction >> drop, "u32"), e.convert(sign >> (source.bits - target.bits), "u32")
    else:
        fraction, sign = e.convert(fraction, "u64") << -drop, e.convert(sign, "u64") << (target.bits - source.bits)
    nan = fraction | sign | (target.infinity | 1 << (target.fraction_bits - 1))
    return e.select(soft.is_nan(e, source, code), nan, result)


def widen_f64(e: Builder, fmt: Format, code: Value) -> Value:
    """f16, bf16 or f32 code -> f64 code, on integers."""
    x = soft.normalised(e, soft.unpack(e, fmt, code, fmt.fraction_bits))
    number = soft.fit(e, F64, x, fmt)
    fraction = e.convert(number.significand, "u64") << (52 - fmt.fraction_bits)
    value = (e.convert((number.exponent - 1).u, "u64") << 52) + fraction
    sign = e.convert(soft.sign_of(e, fmt, code), "u64") << (64 - fmt.bits)
    value = e.select(soft.magnitude(e, fmt, code).eq(0), e.const(0, "u64"), value)
    value = e.select(soft.is_inf(e, fmt, code), e.const(F64.infinity, "u64"), value) | sign
    return kept_payload(e, fmt, F64, code, value)
