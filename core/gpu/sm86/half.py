"""f16 and bf16 instructions, one lane of the pair: HADD2, HMUL2, HFMA2, HMNMX2, HSETP2. Twin: `reference.half`.

Rules (design.md 4.2; tile-lowering.md C for the forms):
1. Sums, products and fused multiply-adds are rounded once to nearest even; subnormals are kept; NaN is 7fff.
2. ``native``: f32 holds every product of two f16 and rounds sums so finely that the second rounding to 16 bits is
   harmless (24 >= 2 * 11 + 2 bits); a fused multiply-add rounds its f32 sum to odd first. No step meets an f32
   subnormal, and f32 is narrowed in integers, so it is right on drivers that flush.
3. A product of two bf16 may leave the range of f32: HFMA2.BF16_V2 sums in f64 (``double``), or in integers.
4. sm_86 has no bf16 sum or product of its own: HFMA2.BF16_V2 with 1.0, -1.0 or -0.0 gives the plain sum, difference and
   product.
"""

from __future__ import annotations

from ...formats import BF16, F16, FORMATS
from ...spirv.builder import Builder, Value
from . import arithmetic, soft
from .pack import narrow_f64, narrow_native, widen_native
from .single import choose_number, odd_sum

FORMS = {
    "hadd2": ("native",),
    "hsub2": ("native",),
    "hmul2": ("native",),
    "hfma2 f16": ("native",),
    "hfma2 bf16": ("double",),
}
NEEDS = {"double": ("float64", "int64")}


def _floats(e: Builder, fmt: str, *codes: Value) -> tuple[Value, ...]:
    """The codes as f32 values, exact."""
    return tuple(widen_native(e, FORMATS[fmt], code).f for code in codes)


def hadd2(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a + b."""
    return arithmetic.add(e, FORMATS[fmt], a, b)


def hadd2_native(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    x, y = _floats(e, fmt, a, b)
    return narrow_native(e, FORMATS[fmt], (x + y).bits)


def hsub2(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a - b."""
    return hadd2(e, a, hneg2(e, b, fmt=fmt), fmt=fmt)


def hsub2_native(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    x, y = _floats(e, fmt, a, b)
    return narrow_native(e, FORMATS[fmt], (x - y).bits)


def hmul2(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a * b."""
    return arithmetic.multiply(e, FORMATS[fmt], a, b)


def hmul2_native(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    x, y = _floats(e, fmt, a, b)
    return narrow_native(e, FORMATS[fmt], (x * y).bits)


def hfma2(e: Builder, a: Value, b: Value, c: Value, *, fmt: str) -> Value:
    """a * b + c, rounded once."""
    return arithmetic.fma(e, FORMATS[fmt], a, b, c)


def hfma2_native(e: Builder, a: Value, b: Value, c: Value, *, fmt: str) -> Value:
    """f16: the exact f32 product plus c, rounded to odd, then to f16."""
    assert fmt == F16.name, fmt
    x, y, z = _floats(e, fmt, a, b, c)
    return narrow_native(e, F16, odd_sum_f32(e, x * y, z))


def odd_sum_f32(e: Builder, x: Value, y: Value) -> Value:
    """Bits of the f32 sum of two f32, rounded to odd (the f32 twin of `single.odd_sum`)."""
    total = x + y
    back = total - x
    error = (x - (total - back)) + (y - back)
    bits, error_bits = total.bits, error.bits
    inexact = e.ext("FAbs", "f32", error) > 0.0
    step = (bits ^ error_bits).i >> 31
    zero = e.u32(0)
    return (bits + e.select(inexact, step.u, zero)) | e.select(inexact, e.u32(1), zero)


def hfma2_double(e: Builder, a: Value, b: Value, c: Value, *, fmt: str) -> Value:
    """bf16: the exact f64 product plus c, rounded to odd, then from its high word to bf16."""
    assert fmt == BF16.name, fmt
    x, y, z = (e.convert(v, "f64") for v in _floats(e, fmt, a, b, c))
    return narrow_f64(e, BF16, odd_sum(e, x * y, z))


def hmnmx2(e: Builder, a: Value, b: Value, *, fmt: str, maximum: bool, nan: bool = False) -> Value:
    """The smaller or larger operand, bits copied; -0 is below +0."""
    f = FORMATS[fmt]
    key_a, key_b = soft.order_key(e, f, a), soft.order_key(e, f, b)
    chosen = e.select((key_a > key_b) if maximum else (key_a < key_b), a, b)
    return choose_number(e, f, a, b, chosen, nan)


def hneg2(e: Builder, a: Value, *, fmt: str) -> Value:
    """HADD2 of the flipped operand and -0: the sign flipped, a NaN canonical."""
    return soft.canonical(e, FORMATS[fmt], a ^ FORMATS[fmt].sign_bit)


def hsetp2(e: Builder, a: Value, b: Value, *, fmt: str, compare: str) -> Value:
    """An ordered comparison; the result is a predicate."""
    return soft.float_compare(e, FORMATS[fmt], compare, a, b)


def hmax_select(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """a > b ? a : b, bits copied."""
    return e.select(hsetp2(e, a, b, fmt=fmt, compare="gt"), a, b)
