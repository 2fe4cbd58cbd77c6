"""PTX operations that become a few instructions, and the language's functions. Twin: `reference.sequences`.

Rules (design.md 4.2, measured with the CUDA 13.0 compiler for sm_86; phobos-language.md D.1 for exp, log, pow and %):
1. A sequence is made of other rows, each by the form that the probe found for it (`USES`); it has no forms of its own.
2. div.rn, rcp.rn and sqrt.rn are correctly rounded. Their forms: ``native`` is the device's operation; ``seeded``
   takes the device's quotient or root of two significands, which Vulkan bounds to a few units, and puts it right in
   integers; the integer form makes one bit a step and needs no float.
"""

from __future__ import annotations

from ...formats import F32, FORMATS
from ...spirv.builder import Builder, Value
from . import arithmetic, soft
from .resolve import use
from .soft import Number

FORMS = {"div_rn": ("native", "seeded"), "rcp_rn": ("native", "seeded"), "sqrt_rn": ("native", "seeded")}
USES = {
    "ex2_approx": ("setp.lt.f32", "FMUL", "MUFU.EX2"),
    "lg2_approx": ("FMUL", "MUFU.LG2", "FADD"),
    "rcp_approx": ("FMUL", "MUFU.RCP"),
    "rsqrt_approx": ("FMUL", "MUFU.RSQ"),
    "sqrt_approx": ("FMUL", "MUFU.SQRT"),
    "sin_approx": ("FMUL.RZ", "MUFU.SIN"),
    "cos_approx": ("FMUL.RZ", "MUFU.COS"),
    "div_approx": ("FMUL", "MUFU.RCP"),
    "div_full": ("FMUL", "MUFU.RCP"),
    "div_full True": ("FMUL.FTZ", "MUFU.RCP"),
    "exp": ("FMUL", "MUFU.EX2"),
    "log": ("MUFU.LG2", "FMUL"),
    "pow": ("MUFU.LG2", "FMUL", "MUFU.EX2"),
    "rem": ("div.rn.f32", "cvt.rzi.f32.f32", "FFMA"),
    "hdiv f16": ("cvt.f32.f16", "div.rn.f32", "cvt.rn.f16.f32"),
    "hdiv bf16": ("cvt.f32.bf16", "div.rn.f32", "cvt.rn.bf16.f32"),
    "hrem f16": ("cvt.f32.f16", "rem.f32", "cvt.rn.f16.f32"),
    "hrem bf16": ("cvt.f32.bf16", "rem.f32", "cvt.rn.bf16.f32"),
}

_TWO_24 = 0x4B800000
_TWO_12 = 0x45800000
_TWO_M12 = 0x39800000
_TWO_126 = 0x7E800000
_SMALLEST_NORMAL = 0x00800000
_QUARTER = 0x3E800000
_HALF = 0x3F000000
_ONE = 0x3F800000
_MINUS_126 = 0xC2FC0000
_MINUS_24 = 0xC1C00000
_INVERSE_2PI = 0x3E22F983
_LOG2_E = 0x3FB8AA3B
_LN_2 = 0x3F317218


def _subnormal(e: Builder, a: Value) -> Value:
    """|a| < 2^-126, zeros included: FSETP, which on magnitudes is an integer comparison."""
    return soft.magnitude(e, F32, a) < _SMALLEST_NORMAL


def _huge(e: Builder, a: Value) -> Value:
    """|a| > 2^126 and no NaN."""
    size = soft.magnitude(e, F32, a)
    return (size > _TWO_126) & (size <= F32.infinity)


def _scale(e: Builder, a: Value) -> tuple[Value, Value]:
    """(2^24 where a is subnormal, 0.25 above 2^126, else 1; whether it is not 1)."""
    small, large = _subnormal(e, a), _huge(e, a)
    scale = e.select(small, e.u32(_TWO_24), e.select(large, e.u32(_QUARTER), e.u32(_ONE)))
    return scale, small | large


def ex2_approx(e: Builder, a: Value) -> Value:
    """2^a; below -126 the square of MUFU.EX2(a * 0.5)."""
    halve = use(e, "setp.lt.f32", a, e.u32(_MINUS_126))
    power = use(e, "MUFU.EX2", e.select(halve, use(e, "FMUL", a, e.u32(_HALF)), a))
    return e.select(halve, use(e, "FMUL", power, power), power)


def lg2_approx(e: Builder, a: Value) -> Value:
    """log2 a; a subnormal is scaled by 2^24 and 24 subtracted."""
    small = _subnormal(e, a)
    log = use(e, "MUFU.LG2", e.select(small, use(e, "FMUL", a, e.u32(_TWO_24)), a))
    return e.select(small, use(e, "FADD", log, e.u32(_MINUS_24)), log)


def rcp_approx(e: Builder, a: Value) -> Value:
    """1 / a; a subnormal is scaled by 2^24, a magnitude above 2^126 by 0.25, before and after."""
    scale, scaled = _scale(e, a)
    inverse = use(e, "MUFU.RCP", e.select(scaled, use(e, "FMUL", a, scale), a))
    return e.select(scaled, use(e, "FMUL", inverse, scale), inverse)


def rsqrt_approx(e: Builder, a: Value) -> Value:
    """1 / sqrt a; a subnormal is scaled by 2^24 and the result by 2^12."""
    return _root(e, "MUFU.RSQ", a, _TWO_12)


def sqrt_approx(e: Builder, a: Value) -> Value:
    """sqrt a; a subnormal is scaled by 2^24 and the result by 2^-12."""
    return _root(e, "MUFU.SQRT", a, _TWO_M12)


def _root(e: Builder, mufu: str, a: Value, scale: int) -> Value:
    small = _subnormal(e, a)
    root = use(e, mufu, e.select(small, use(e, "FMUL", a, e.u32(_TWO_24)), a))
    return e.select(small, use(e, "FMUL", root, e.u32(scale)), root)


def sin_approx(e: Builder, a: Value) -> Value:
    """Sine of a radians: FMUL.RZ to turns, MUFU.SIN."""
    return use(e, "MUFU.SIN", use(e, "FMUL.RZ", a, e.u32(_INVERSE_2PI)))


def cos_approx(e: Builder, a: Value) -> Value:
    """Cosine of a radians: FMUL.RZ to turns, MUFU.COS."""
    return use(e, "MUFU.COS", use(e, "FMUL.RZ", a, e.u32(_INVERSE_2PI)))


def div_approx(e: Builder, a: Value, b: Value) -> Value:
    """a * MUFU.RCP(b), both scaled by 2^24 where b is subnormal."""
    small = _subnormal(e, b)
    x, y = (e.select(small, use(e, "FMUL", code, e.u32(_TWO_24)), code) for code in (a, b))
    return use(e, "FMUL", x, use(e, "MUFU.RCP", y))


def div_full(e: Builder, a: Value, b: Value, *, ftz: bool = False) -> Value:
    """a * MUFU.RCP(b), both scaled by 0.25 where |b| is above 2^126 and by 2^24 where it is below 2^-126."""
    multiply = "FMUL.FTZ" if ftz else "FMUL"
    scale, scaled = _scale(e, b)
    x, y = (e.select(scaled, use(e, multiply, code, scale), code) for code in (a, b))
    return use(e, multiply, x, use(e, "MUFU.RCP", y))


def div_rn(e: Builder, a: Value, b: Value) -> Value:
    """a / b, correctly rounded."""
    return arithmetic.divide(e, F32, a, b)


def div_rn_native(e: Builder, a: Value, b: Value) -> Value:
    return soft.canonical(e, F32, (a.f / b.f).bits)


def div_rn_seeded(e: Builder, a: Value, b: Value) -> Value:
    """The device divides two significands in [1, 2); the quotient, a few units off, is put right in integers."""
    x, y = (soft.normalised(e, soft.unpack(e, F32, code, 23)) for code in (a, b))
    less = x.significand < y.significand
    numerator = x.significand << e.select(less, e.u32(1), e.u32(0))  # now 1 <= numerator / significand < 2
    seed = e.convert(numerator.i, "f32") / e.convert(y.significand.i, "f32")
    quotient = e.convert(seed * e.f32(2.0**23), "u32")
    remainder = ((numerator << 23) - quotient * y.significand).i  # modulo 2^32, where it is small
    divisor = y.significand.i
    for _ in range(SEED_UNITS):
        low, high = remainder < 0, remainder >= divisor
        quotient = quotient + e.select(low, e.u32(-1), e.select(high, e.u32(1), e.u32(0)))
        remainder = remainder + e.select(low, divisor, e.select(high, -divisor, e.i32(0)))
    # two more bits: one of the quotient and the sticky one
    doubled = remainder << 1
    more = doubled >= divisor
    rest = doubled - e.select(more, divisor, e.i32(0))
    digits = (quotient << 2) | e.select(more, e.u32(2), e.u32(0)) | e.select(rest.ne(0), e.u32(1), e.u32(0))
    exponent = x.exponent - y.exponent + F32.bias - e.select(less, e.i32(1), e.i32(0))
    return arithmetic.quotient_code(e, F32, a, b, Number(x.sign ^ y.sign, exponent, digits, 25))


#: How far a seed may be off, in units of its 24-bit result. Vulkan: OpFDiv within 2.5 ulp; Sqrt as 1 / InverseSqrt, 2
#: ulp and 2.5 ulp, so within 5; one more for the scaling and one for the truncation.
SEED_UNITS = 4
ROOT_UNITS = 7


def rcp_rn(e: Builder, a: Value) -> Value:
    """1 / a, correctly rounded."""
    return div_rn(e, e.u32(_ONE), a)


def rcp_rn_native(e: Builder, a: Value) -> Value:
    return div_rn_native(e, e.u32(_ONE), a)


def rcp_rn_seeded(e: Builder, a: Value) -> Value:
    return div_rn_seeded(e, e.u32(_ONE), a)


def sqrt_rn(e: Builder, a: Value) -> Value:
    """sqrt a, correctly rounded."""
    return arithmetic.square_root(e, F32, a)


def sqrt_rn_native(e: Builder, a: Value) -> Value:
    return soft.canonical(e, F32, e.ext("Sqrt", "f32", a.f).bits)


def sqrt_rn_seeded(e: Builder, a: Value) -> Value:
    """As `div_rn_seeded`, of a significand in [1, 4)."""
    x, exponent = arithmetic.even_exponent(e, F32, a)
    seed = e.ext("Sqrt", "f32", e.convert(x.i, "f32")) * e.f32_bits(_ROOT_SCALE)
    root = e.convert(seed, "u32")
    remainder = ((x << 23) - root * root).i  # modulo 2^32, where it is small
    for _ in range(ROOT_UNITS):
        twice = (root << 1).i
        low, high = remainder < 0, remainder > twice
        # (root - 1)^2 = root^2 - 2 root + 1; (root + 1)^2 = root^2 + 2 root + 1
        step = e.select(low, twice - 1, e.select(high, -1 - twice, e.i32(0)))
        root = root + e.select(low, e.u32(-1), e.select(high, e.u32(1), e.u32(0)))
        remainder = remainder + step
    # the next bit of the root is set where the remainder exceeds the root
    more = remainder > root.i
    digits = (root << 2) | e.select(more, e.u32(2), e.u32(0)) | e.select(remainder.ne(0), e.u32(1), e.u32(0))
    return arithmetic.root_code(e, F32, a, Number(e.u32(0), exponent, digits, 25))


_ROOT_SCALE = 0x453504F3  # 2^11.5


def exp(e: Builder, a: Value) -> Value:
    """The language's exp: FMUL by f32(log2 e), MUFU.EX2."""
    return use(e, "MUFU.EX2", use(e, "FMUL", a, e.u32(_LOG2_E)))


def log(e: Builder, a: Value) -> Value:
    """The language's log: MUFU.LG2, FMUL by f32(ln 2)."""
    return use(e, "FMUL", use(e, "MUFU.LG2", a), e.u32(_LN_2))


def pow(e: Builder, a: Value, b: Value) -> Value:
    """The language's pow: MUFU.EX2(b * MUFU.LG2(a)) (decision G8)."""
    return use(e, "MUFU.EX2", use(e, "FMUL", b, use(e, "MUFU.LG2", a)))


def rem(e: Builder, a: Value, b: Value) -> Value:
    """The language's %: q = a / b, then a - trunc(q) * b with one rounding; a where b is infinite."""
    whole = use(e, "cvt.rzi.f32.f32", use(e, "div.rn.f32", a, b))
    rest = use(e, "FFMA", whole ^ 0x80000000, b, a)
    return e.select(soft.is_inf(e, F32, b), a, rest)


def hdiv(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """f16 or bf16 division: widened, divided, rounded."""
    return _narrow(e, use(e, "div.rn.f32", _wide(e, a, fmt), _wide(e, b, fmt)), fmt)


def hrem(e: Builder, a: Value, b: Value, *, fmt: str) -> Value:
    """f16 or bf16 %: widened, the f32 steps, rounded."""
    return _narrow(e, use(e, "rem.f32", _wide(e, a, fmt), _wide(e, b, fmt)), fmt)


def _wide(e: Builder, a: Value, fmt: str) -> Value:
    return use(e, f"cvt.f32.{FORMATS[fmt].name}", a)


def _narrow(e: Builder, a: Value, fmt: str) -> Value:
    return use(e, f"cvt.rn.{FORMATS[fmt].name}.f32", a)
