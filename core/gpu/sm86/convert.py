"""Conversions: F2F, F2I, I2F, I2I and the language's low byte. Twin: `reference.convert`.

Rules (design.md 4.2, phobos-language.md D.1):
1. F2F rounds once; NaN become canonical, also where the conversion is exact, but for those that `pack` names.
2. F2I truncates or rounds to nearest even, then saturates; NaN gives 0, but the lowest integer from f64 or to s64.
3. I2F rounds to nearest even directly to the target, to bf16 through f32 (sm_86 has no such conversion); I2I extends
   by sign or by zero, or keeps the low bits.
4. The language's i8(x) and u8(x) saturate to 16 bits and keep the low byte.
"""

from __future__ import annotations

from ...formats import BF16, F16, F32, F64, FORMATS, Format
from ...spirv.builder import BITS, Builder, Value
from . import soft
from .pack import kept_payload, narrow, narrow_f64, narrow_native, widen, widen_f64, widen_native
from .soft import Number

FORMS = {
    **{f"f2f {pair}": ("native",) for pair in ("f16 f32", "f32 f16 rn", "f16 bf16", "bf16 f16")},
    **{f"f2f {pair}": ("native",) for pair in ("f32 f64", "f16 f64", "bf16 f64", "f64 f32")},
    "f2i": ("native",),
    "low_byte": ("native",),
    **{f"i2f {source} {target}": ("native",) for source in ("s8", "u8", "s32") for target in ("f32", "f64", "f16")},
    **{f"i2f {source} bf16": ("native",) for source in ("s8", "u8")},
    **{f"i2f s64 {target}": ("native",) for target in ("f32", "f64")},
    "i2f u32 f32": ("native",),
}


def word(fmt: Format) -> str:
    """Kind of the words that hold codes of a format."""
    return "u64" if fmt.bits == 64 else "u32"


# ---- F2F ---------------------------------------------------------------------------------------------------------


def f2f(e: Builder, a: Value, *, source: str, target: str, rounding: str = "rn") -> Value:
    """A float in another format."""
    s, t = FORMATS[source], FORMATS[target]
    if t is F64:
        return widen_f64(e, s, a)
    if s is F64:
        return narrow_f64(e, t, a)
    if t is F32:
        return widen(e, s, a)
    overflow = "infinity" if rounding == "rn" else "largest"
    return narrow(e, t, a if s is F32 else widen(e, s, a), rounding, overflow)


def f2f_native(e: Builder, a: Value, *, source: str, target: str, rounding: str = "rn") -> Value:
    assert rounding == "rn", rounding
    s, t = FORMATS[source], FORMATS[target]
    if s is F64:
        return kept_payload(e, s, t, a, e.convert(a.f, "f32").bits)
    single = a if s is F32 else widen_native(e, s, a)
    if t is F64:
        return kept_payload(e, s, t, a, e.convert(single.f, "f64").bits)
    return single if t is F32 else narrow_native(e, t, single)


def rna_tf32(e: Builder, a: Value) -> Value:
    """f32 to tf32: half of the dropped unit added to a finite magnitude, low 13 bits cleared."""
    finite = soft.magnitude(e, F32, a) < F32.infinity
    return (a + e.select(finite, e.u32(0x1000), e.u32(0))) & 0xFFFFE000


# ---- F2I ---------------------------------------------------------------------------------------------------------


def f2i(e: Builder, a: Value, *, source: str, target: str, rounding: str) -> Value:
    """A float as an integer: rule 2."""
    s, t = FORMATS[source], FORMATS[target]
    kind = "u64" if 64 in (s.bits, t.bits) else "u32"
    whole = _integer_magnitude(e, s, a, kind, rounding)
    negative = soft.sign_of(e, s, a).ne(0)
    below = -t.lowest_integer
    limit = e.select(negative, e.const(below, kind), e.const(t.largest, kind))
    whole = e.select(whole < limit, whole, limit)
    value = e.select(negative, -whole, whole)
    return _finish_integer(e, s, t, a, value)


def _finish_integer(e: Builder, s: Format, t: Format, a: Value, value: Value) -> Value:
    """The NaN rule, and the word of the target: high bits of narrow codes are zero."""
    nan = e.const(t.lowest_integer if FORMATS["f64"] is s or t.bits == 64 else 0, value.kind)
    code = e.convert(e.select(soft.is_nan(e, s, a), nan, value), word(t))
    return code if t.bits >= 32 else code & ((1 << t.bits) - 1)


def _integer_magnitude(e: Builder, fmt: Format, a: Value, kind: str, rounding: str) -> Value:
    """|a| rounded to an integer of `kind`; all ones where it has more bits."""
    width, point = BITS[kind], fmt.bias + fmt.fraction_bits
    size = soft.magnitude(e, fmt, a)
    field = e.convert(size >> fmt.fraction_bits, "i32")
    hidden = e.select(field.eq(0), e.const(0, a.kind), e.const(1 << fmt.fraction_bits, a.kind))
    significand = e.convert((size & ((1 << fmt.fraction_bits) - 1)) | hidden, kind)
    left = e.min(e.max(field - point, 0), width - 1 - fmt.fraction_bits).u
    right = e.min(e.max(point - field, 0), fmt.fraction_bits + 2).u
    if rounding == "rni":
        doubled, right = significand << 1, right + 1  # so that there is always a place to round at
        half = e.const(1, kind) << (right - 1)
        significand = doubled + ((doubled >> right) & 1) + (half - 1)
    whole = (significand >> right) << left
    beyond = min(fmt.bias + width, (1 << fmt.exponent_bits) - 1)  # an infinite f16 too
    return e.select(field >= beyond, e.const(-1, kind), whole)


def f2i_native(e: Builder, a: Value, *, source: str, target: str, rounding: str) -> Value:
    """OpConvertFToS inside the range, constants outside."""
    s, t = FORMATS[source], FORMATS[target]
    x = a.f if s in (F32, F64) else widen_native(e, s, a).f
    if rounding == "rni":
        x = e.ext("RoundEven", x.kind, x)
    return _finish_integer(e, s, t, a, _truncated(e, x, t))


def _truncated(e: Builder, x: Value, t: Format) -> Value:
    """A float truncated and saturated to an integer format, as a word of at least 32 bits."""
    bits = max(t.bits, 32)
    kind = f"{'u' if t.kind == 'unsigned' and t.bits == 32 else 'i'}{bits}"
    lowest = 0 if kind[0] == "u" else -(1 << (bits - 1))
    highest = (1 << (bits if kind[0] == "u" else bits - 1)) - 1
    value = e.convert(x, kind)
    value = e.select(x >= float(highest + 1), e.const(highest, kind), value)
    value = e.select(x < float(lowest), e.const(lowest, kind), value)
    if t.bits < 32:
        value = e.min(e.max(value, t.lowest_integer), t.largest)
    return value.u


def low_byte(e: Builder, a: Value, *, source: str, target: str) -> Value:
    """Rule 4: 300.0 gives 44."""
    return f2i(e, a, source=source, target=_wide(target), rounding="rzi") & 0xFF


def low_byte_native(e: Builder, a: Value, *, source: str, target: str) -> Value:
    return f2i_native(e, a, source=source, target=_wide(target), rounding="rzi") & 0xFF


def _wide(target: str) -> str:
    return "s16" if target == "s8" else "u16"


# ---- I2F ---------------------------------------------------------------------------------------------------------


def extended(e: Builder, fmt: Format, a: Value) -> Value:
    """An integer code as a signed word: narrow signed codes are extended by their sign."""
    if fmt.kind == "signed" and fmt.bits < 32:
        return (a << (32 - fmt.bits)).i >> (32 - fmt.bits)
    return a.i


def i2f(e: Builder, a: Value, *, source: str, target: str) -> Value:
    """An integer as a float, rounded to nearest even."""
    s, t = FORMATS[source], FORMATS[target]
    if t is BF16:
        return narrow(e, t, i2f(e, a, source=source, target="f32"))
    value = extended(e, s, a)
    kind = "u64" if 64 in (s.bits, t.bits) else "u32"
    if s.kind == "signed":
        negative = value < 0
        size = e.convert(e.select(negative, -value, value).u, kind)
        sign = e.select(negative, e.const(t.sign_bit, kind), e.const(0, kind))
    else:
        size, sign = e.convert(value.u, kind), e.const(0, kind)
    # `round_pack` wants the top bit clear, and a low exponent for zero
    full = (size >> (BITS[kind] - 1)).ne(0)
    exponent = e.select(full, e.i32(t.bias + 1), e.select(size.eq(0), e.i32(-BITS[kind]), e.i32(t.bias)))
    number = Number(sign, exponent, e.select(full, (size >> 1) | (size & 1), size), 0)
    return e.convert(soft.round_pack(e, t, number), word(t))


def i2f_native(e: Builder, a: Value, *, source: str, target: str) -> Value:
    """OpConvertSToF; to 16 bits through f32, which is exact wherever the target does not overflow."""
    s, t = FORMATS[source], FORMATS[target]
    value = a.u if source == "u32" else extended(e, s, a)
    if t in (F16, BF16):
        return narrow_native(e, t, e.convert(value, "f32").bits)
    return e.convert(value, t.name).bits


def i2i(e: Builder, a: Value, *, source: str, target: str) -> Value:
    """An integer (or predicate) in another width."""
    t = FORMATS[target]
    if source == "pred":
        return e.select(a, e.const(1, word(t)), e.const(0, word(t)))
    s = FORMATS[source]
    value = extended(e, s, a)
    value = value.u if s.kind == "unsigned" else value
    wide = e.convert(value, word(t)) if t.bits != 64 else e.convert(value, "i64" if s.kind == "signed" else "u64")
    return wide.u if t.bits >= 32 else wide.u & ((1 << t.bits) - 1)
