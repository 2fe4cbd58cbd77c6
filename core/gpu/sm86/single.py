"""f32 instructions: FADD, FMUL, FFMA, FMNMX, FNEG, FRND, FSETP. Twin: `reference.single`.

Rules (design.md 4.2; tile-lowering.md B for the forms of FFMA):
1. Arithmetic rounds to nearest even, keeps subnormals and gives the canonical NaN 7fffffff; copies keep bits. A
   negation is an addition of -0.
2. .FTZ flushes subnormal operands to zero of their sign, and results that are below 2^-126 after rounding with an
   exponent without end (docs/adr/0008): a device's subnormal result tells, but for 2^-126 itself.
3. FMNMX orders -0 below +0; one NaN gives the other operand, two give the canonical NaN; .NAN gives it for one.
4. FSETP is ordered: false where a NaN takes part, also NE.

Forms: ``native`` is the device's float operation, right where the probe says so; ``double`` computes in f64, where the
product of two f32 is exact; the plain name is the integer form.
"""

from __future__ import annotations

from collections.abc import Callable

from ...formats import F32, Format
from ...spirv.builder import Builder, Value
from . import arithmetic, soft

FORMS = {
    "fadd": ("native",),
    "fsub": ("native",),
    "fmul": ("native",),
    "fmul rz": ("double",),
    "ffma": ("native", "double"),
    "frnd": ("native",),
    "fsetp": ("native",),
    "fmax_select": ("native",),
}
#: What a form needs of the device beside f32.
NEEDS = {"double": ("float64", "int64")}

SIGN = 0x80000000


def _canonical(e: Builder, result: Value) -> Value:
    """Code of a float result, NaN made canonical."""
    return soft.canonical(e, F32, result.bits)


def _flushed(e: Builder, ftz: bool, *codes: Value) -> tuple[Value, ...]:
    return tuple(soft.flush(e, F32, code) for code in codes) if ftz else codes


def _finish(e: Builder, ftz: bool, code: Value) -> Value:
    return soft.flush(e, F32, code) if ftz else code


def _finish_rounded(e: Builder, ftz: bool, code: Value, exact: Callable[[], Value]) -> Value:
    """Rule 2 for an inexact result of the device: the integer form decides at 2^-126."""
    if not ftz:
        return code
    return e.select((code & 0x7FFFFFFF).eq(0x00800000), exact(), soft.flush(e, F32, code))


def fadd(e: Builder, a: Value, b: Value, *, ftz: bool = False) -> Value:
    """FADD: a + b."""
    a, b = _flushed(e, ftz, a, b)
    return _finish(e, ftz, arithmetic.add(e, F32, a, b))


def fadd_native(e: Builder, a: Value, b: Value, *, ftz: bool = False) -> Value:
    a, b = _flushed(e, ftz, a, b)
    return _finish(e, ftz, _canonical(e, a.f + b.f))


def fsub(e: Builder, a: Value, b: Value, *, ftz: bool = False) -> Value:
    """FADD with its second operand negated: a - b."""
    return fadd(e, a, b ^ SIGN, ftz=ftz)


def fsub_native(e: Builder, a: Value, b: Value, *, ftz: bool = False) -> Value:
    a, b = _flushed(e, ftz, a, b)
    return _finish(e, ftz, _canonical(e, a.f - b.f))


def fmul(e: Builder, a: Value, b: Value, *, ftz: bool = False, rounding: str = "rn") -> Value:
    """FMUL: a * b; .RZ rounds toward zero."""
    a, b = _flushed(e, ftz, a, b)
    return arithmetic.multiply(e, F32, a, b, rounding, flush=ftz)


def fmul_native(e: Builder, a: Value, b: Value, *, ftz: bool = False) -> Value:
    a, b = _flushed(e, ftz, a, b)
    return _finish_rounded(e, ftz, _canonical(e, a.f * b.f), lambda: fmul(e, a, b, ftz=True))


def fmul_double(e: Builder, a: Value, b: Value, *, ftz: bool = False, rounding: str = "rn") -> Value:
    """.RZ: the f64 product is exact; one ulp back where its conversion went away from zero."""
    assert rounding == "rz", rounding
    a, b = _flushed(e, ftz, a, b)
    exact = e.convert(a.f, "f64") * e.convert(b.f, "f64")
    nearest = e.convert(exact, "f32")
    size = exact.bits & 0x7FFFFFFFFFFFFFFF
    away = (e.convert(nearest, "f64").bits & 0x7FFFFFFFFFFFFFFF) > size
    finite = size < 0x7FF0000000000000
    result = nearest.bits - e.select(away & finite, e.u32(1), e.u32(0))
    return _finish_rounded(e, ftz, soft.canonical(e, F32, result), lambda: fmul(e, a, b, ftz=True, rounding=rounding))


def ffma(e: Builder, a: Value, b: Value, c: Value, *, ftz: bool = False) -> Value:
    """FFMA: a * b + c, rounded once."""
    a, b, c = _flushed(e, ftz, a, b, c)
    return arithmetic.fma(e, F32, a, b, c, flush=ftz)


def ffma_native(e: Builder, a: Value, b: Value, c: Value, *, ftz: bool = False) -> Value:
    """OpExtInst Fma, where the device fuses it."""
    a, b, c = _flushed(e, ftz, a, b, c)
    fused = _canonical(e, e.ext("Fma", "f32", a.f, b.f, c.f))
    return _finish_rounded(e, ftz, fused, lambda: ffma(e, a, b, c, ftz=True))


def ffma_double(e: Builder, a: Value, b: Value, c: Value, *, ftz: bool = False) -> Value:
    """The exact product plus c in f64, rounded to odd, then to f32 (tile-lowering.md B, form 2)."""
    a, b, c = _flushed(e, ftz, a, b, c)
    odd = odd_sum(e, e.convert(a.f, "f64") * e.convert(b.f, "f64"), e.convert(c.f, "f64"))
    fused = _canonical(e, e.convert(e.bitcast(odd, "f64"), "f32"))
    return _finish_rounded(e, ftz, fused, lambda: ffma(e, a, b, c, ftz=True))


def odd_sum(e: Builder, x: Value, y: Value) -> Value:
    """Bits of the f64 sum of two f64, rounded to odd: an inexact sum takes its neighbour with the odd code."""
    total = x + y
    back = total - x
    error = (x - (total - back)) + (y - back)  # exact (Knuth's TwoSum); NaN where the sum is not finite
    bits, error_bits = total.bits, error.bits
    inexact = e.ext("FAbs", "f64", error) > 0.0
    # Toward zero by one where the error has the other sign, then the lowest bit set.
    step = (bits ^ error_bits).i >> 63
    zero = e.const(0, "u64")
    return (bits + e.select(inexact, step.u, zero)) | e.select(inexact, e.const(1, "u64"), zero)


def fmnmx(e: Builder, a: Value, b: Value, *, maximum: bool, nan: bool = False, ftz: bool = False) -> Value:
    """FMNMX: the smaller or larger operand, bits copied."""
    a, b = _flushed(e, ftz, a, b)
    key_a, key_b = soft.order_key(e, F32, a), soft.order_key(e, F32, b)
    chosen = e.select((key_a > key_b) if maximum else (key_a < key_b), a, b)
    return choose_number(e, F32, a, b, chosen, nan)


def choose_number(e: Builder, fmt: Format, a: Value, b: Value, chosen: Value, nan: bool) -> Value:
    """Rule 3 for NaN operands."""
    a_nan, b_nan = soft.is_nan(e, fmt, a), soft.is_nan(e, fmt, b)
    quiet = e.u32(fmt.canonical_nan)
    if nan:
        return e.select(a_nan | b_nan, quiet, chosen)
    return e.select(a_nan, e.select(b_nan, quiet, b), e.select(b_nan, a, chosen))


def fneg(e: Builder, a: Value) -> Value:
    """FADD of the flipped operand and -0: the sign flipped, a NaN canonical."""
    return soft.canonical(e, F32, a ^ SIGN)


def frnd(e: Builder, a: Value, *, rounding: str) -> Value:
    """FRND: the nearest integer (rni: ties to even) or the integer part (rzi); keeps the sign of zero."""
    size = soft.magnitude(e, F32, a)
    field = (size >> 23).i
    distance = e.min(e.max(150 - field, 0), 23).u  # fraction bits below the point
    unit = e.u32(1) << distance
    if rounding == "rni":
        below_one = e.select(size > 0x3F000000, e.u32(0x3F800000), e.u32(0))  # one half is a tie: to zero
        size_rounded = size + (((size >> distance) & 1) + ((unit >> 1) - 1))
    else:
        below_one = e.u32(0)
        size_rounded = size
    whole = size_rounded & ~(unit - 1)
    whole = e.select(field < 127, below_one, e.select(field >= 150, size, whole))
    return soft.canonical(e, F32, whole | (a & SIGN))


def frnd_native(e: Builder, a: Value, *, rounding: str) -> Value:
    return _canonical(e, e.ext("RoundEven" if rounding == "rni" else "Trunc", "f32", a.f))


def fsetp(e: Builder, a: Value, b: Value, *, compare: str) -> Value:
    """FSETP: an ordered comparison; the result is a predicate."""
    return soft.float_compare(e, F32, compare, a, b)


def fsetp_native(e: Builder, a: Value, b: Value, *, compare: str) -> Value:
    return soft.compare(e, compare, a.f, b.f)


def fmax_select(e: Builder, a: Value, b: Value) -> Value:
    """a > b ? a : b, bits copied: the language's maximum."""
    return e.select(fsetp(e, a, b, compare="gt"), a, b)


def fmax_select_native(e: Builder, a: Value, b: Value) -> Value:
    return e.select(a.f > b.f, a, b)
