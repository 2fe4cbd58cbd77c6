"""PTX operations that become a few instructions, and the language's functions. Twin: gpu/sm86/sequences.py.

Rules: design.md 4.2 (what the CUDA 13.0 compiler emits for sm_86), phobos-language.md D.1 for exp, log, pow and %.
The three `.rn` operations are correctly rounded whatever their seed, so they are computed as such.
"""

from __future__ import annotations

import numpy as np

from .. import formats
from ..formats import BF16, F16, F32, Codes
from . import arithmetic, convert, mufu, single


def _code(code: int) -> Codes:
    return np.array(code, np.uint32)


_TWO_24 = _code(0x4B800000)
_TWO_12 = _code(0x45800000)
_TWO_M12 = _code(0x39800000)
_TWO_126 = _code(0x7E800000)
_SMALLEST_NORMAL = _code(0x00800000)
_QUARTER = _code(0x3E800000)
_HALF = _code(0x3F000000)
_ONE = _code(0x3F800000)
_MINUS_126 = _code(0xC2FC0000)
_MINUS_24 = _code(0xC1C00000)
_INVERSE_2PI = _code(0x3E22F983)
_LOG2_E = _code(0x3FB8AA3B)
_LN_2 = _code(0x3F317218)
_MAGNITUDE = _code(0x7FFFFFFF)


def _below(a: Codes, limit: Codes) -> Codes:
    return single.fsetp(np.asarray(a) & _MAGNITUDE, limit, compare="lt")


def _above(a: Codes, limit: Codes) -> Codes:
    return single.fsetp(np.asarray(a) & _MAGNITUDE, limit, compare="gt")


def ex2_approx(a: Codes) -> Codes:
    """2^a; below -126 the square of MUFU.EX2(a * 0.5)."""
    halve = single.fsetp(a, _MINUS_126, compare="lt")
    power = mufu.ex2(np.where(halve, single.fmul(a, _HALF), a))
    return np.where(halve, single.fmul(power, power), power)


def lg2_approx(a: Codes) -> Codes:
    """log2 a; a subnormal is scaled by 2^24 and 24 subtracted."""
    small = _below(a, _SMALLEST_NORMAL)
    log = mufu.lg2(np.where(small, single.fmul(a, _TWO_24), a))
    return np.where(small, single.fadd(log, _MINUS_24), log)


def rcp_approx(a: Codes) -> Codes:
    """1 / a; a subnormal is scaled by 2^24, a magnitude above 2^126 by 0.25, before and after."""
    scale = np.where(_below(a, _SMALLEST_NORMAL), _TWO_24, np.where(_above(a, _TWO_126), _QUARTER, _ONE))
    plain = scale == _ONE
    inverse = mufu.rcp(np.where(plain, a, single.fmul(a, scale)))
    return np.where(plain, inverse, single.fmul(inverse, scale))


def _root(a: Codes, root: Codes, small: Codes, scale: Codes) -> Codes:
    return np.where(small, single.fmul(root, scale), root)


def rsqrt_approx(a: Codes) -> Codes:
    """1 / sqrt a; a subnormal is scaled by 2^24 and the result by 2^12."""
    small = _below(a, _SMALLEST_NORMAL)
    return _root(a, mufu.rsq(np.where(small, single.fmul(a, _TWO_24), a)), small, _TWO_12)


def sqrt_approx(a: Codes) -> Codes:
    """sqrt a; a subnormal is scaled by 2^24 and the result by 2^-12."""
    small = _below(a, _SMALLEST_NORMAL)
    return _root(a, mufu.sqrt(np.where(small, single.fmul(a, _TWO_24), a)), small, _TWO_M12)


def sin_approx(a: Codes) -> Codes:
    """Sine of a radians: FMUL.RZ to turns, MUFU.SIN."""
    return mufu.sin(single.fmul(a, _INVERSE_2PI, rounding="rz"))


def cos_approx(a: Codes) -> Codes:
    """Cosine of a radians: FMUL.RZ to turns, MUFU.COS."""
    return mufu.cos(single.fmul(a, _INVERSE_2PI, rounding="rz"))


def div_approx(a: Codes, b: Codes) -> Codes:
    """a * MUFU.RCP(b), both scaled by 2^24 where b is subnormal."""
    small = _below(b, _SMALLEST_NORMAL)
    a, b = (np.where(small, single.fmul(x, _TWO_24), x) for x in (a, b))
    return single.fmul(a, mufu.rcp(b))


def div_full(a: Codes, b: Codes, *, ftz: bool = False) -> Codes:
    """a * MUFU.RCP(b), both scaled by 0.25 where |b| is above 2^126 and by 2^24 where it is below 2^-126."""
    scale = np.where(_below(b, _SMALLEST_NORMAL), _TWO_24, np.where(_above(b, _TWO_126), _QUARTER, _ONE))
    a, b = (np.where(scale == _ONE, x, single.fmul(x, scale, ftz=ftz)) for x in (a, b))
    return single.fmul(a, mufu.rcp(b), ftz=ftz)


def div_rn(a: Codes, b: Codes) -> Codes:
    """a / b, correctly rounded."""
    return arithmetic.divide(a, b, F32)


def rcp_rn(a: Codes) -> Codes:
    """1 / a, correctly rounded."""
    return arithmetic.divide(_ONE, a, F32)


def sqrt_rn(a: Codes) -> Codes:
    """sqrt a, correctly rounded."""
    return arithmetic.square_root(a, F32)


def exp(a: Codes) -> Codes:
    """The language's exp: FMUL by f32(log2 e), MUFU.EX2."""
    return mufu.ex2(single.fmul(a, _LOG2_E))


def log(a: Codes) -> Codes:
    """The language's log: MUFU.LG2, FMUL by f32(ln 2)."""
    return single.fmul(mufu.lg2(a), _LN_2)


def pow(a: Codes, b: Codes) -> Codes:
    """The language's pow: MUFU.EX2(b * MUFU.LG2(a)) (decision G8)."""
    return mufu.ex2(single.fmul(b, mufu.lg2(a)))


def rem(a: Codes, b: Codes) -> Codes:
    """The language's %: the steps of phobos-language.md D.1, not C's fmod."""
    whole = single.frnd(div_rn(a, b), rounding="rzi")
    rest = single.ffma(single.fneg(whole), b, a)
    return np.where(formats.is_inf(b, F32), a, rest)


def hdiv(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """f16 or bf16 division: widened, divided, rounded."""
    return _narrow(div_rn(_wide(a, fmt), _wide(b, fmt)), fmt)


def hrem(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """f16 or bf16 %: widened, the f32 steps, rounded."""
    return _narrow(rem(_wide(a, fmt), _wide(b, fmt)), fmt)


def _wide(a: Codes, fmt: str) -> Codes:
    assert fmt in (F16.name, BF16.name), fmt
    return convert.f2f(a, source=fmt, target="f32")


def _narrow(a: Codes, fmt: str) -> Codes:
    return convert.f2f(a, source="f32", target=fmt)
