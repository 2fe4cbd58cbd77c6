"""The third opinion on MUFU and the approximate PTX sequences: plain Python integers, from the rules in design.md 4.3.

The squarer is written as one product and conditional sums, unlike the reference's table; MUFU is defined by integers,
so there are no rationals here.
"""

from __future__ import annotations

import oracle as o
from phobos_sim.formats import F16, F32
from phobos_sim.isa.mufu_tables import TANH_BINADES, UNITS, coefficients

NAN, INF, SIGN, ONE = 0x7FFFFFFF, 0x7F800000, 0x80000000, 0x3F800000


def square(x: int) -> int:
    """17 bits -> 15: high part squared, cross and low terms truncated one by one."""
    h, low = x >> 9, x & 511
    total = h * h
    total += sum(low >> (9 - j) for j in range(1, 8) if h >> j & 1)
    total += sum(h >> (9 - j) for j in range(2, 9) if low >> j & 1)
    return total >> 1


def table(name: str) -> tuple[tuple[int, int, int], ...]:
    return coefficients(name)


def interpolate(name: str, row: int, x: int) -> int:
    unit = UNITS[name]
    c0, c1, c2 = table(unit.table)[row]
    value = c0 * 2**unit.s0 + c1 * x + c2 * square(x << (17 - unit.x_bits)) * 2**unit.s2 + unit.bias
    return value >> unit.shift


def fields(a: int) -> tuple[int, int, int]:
    return a & SIGN, a >> 23 & 255, a & 0x7FFFFF


def is_nan(a: int) -> bool:
    return a & ~SIGN > INF


def build(exponent: int, significand: int) -> int:
    return (exponent << 23) + (significand & 0x7FFFFF)


def leading(value: int, unit: int) -> int:
    """A positive integer in units of 2^unit, truncated to f32."""
    length = value.bit_length()
    return build(127 + unit + length - 1, value << 24 >> length)


def rcp(a: int) -> int:
    sign, e, m = fields(a)
    if is_nan(a):
        return NAN
    if e in (0, 255):
        return sign | (INF if e == 0 else 0)
    f = interpolate("rcp", m >> 16, m & 0xFFFF)
    exponent = 253 - e
    if f == 1 << 24:
        f, exponent = f >> 1, exponent + 1
    return sign | (build(exponent, f) if exponent > 0 else 0)


def rsq(a: int) -> int:
    sign, e, m = fields(a)
    if is_nan(a) or (sign and e):
        return NAN
    if e in (0, 255):
        return sign | INF if e == 0 else 0
    odd = (e - 127) % 2
    half = (e - 127) // 2
    if m == 0 and not odd:
        return build(127 - half, 0)
    f = odd << 23 | m
    return build(126 - half, interpolate("rsq", f >> 17, f & 0x1FFFF))


def sqrt(a: int) -> int:
    sign, e, m = fields(a)
    if e == 0:
        return sign
    if is_nan(a) or sign:
        return NAN
    if e == 255:
        return INF
    f = (e - 127) % 2 << 23 | m
    return build(127 + (e - 127) // 2, interpolate("sqrt", f >> 17, f & 0x1FFFF))


def ex2(a: int) -> int:
    sign, e, m = fields(a)
    if is_nan(a):
        return NAN
    if e >= 134:
        return 0 if sign else INF
    fixed = (m | 1 << 23) * 2**e >> 127 if e else 0
    if sign:
        fixed = -fixed if fixed % 2**23 == 0 else -fixed - 1
    exponent, fraction = fixed // 2**23 + 127, fixed % 2**23
    return build(exponent, interpolate("ex2", fraction >> 17, fraction & 0x1FFFF)) if exponent > 0 else 0


def lg2(a: int) -> int:
    sign, e, m = fields(a)
    if e == 0:
        return SIGN | INF
    if is_nan(a) or sign:
        return NAN
    if e == 255:
        return INF
    if a == ONE:
        return 0
    value = (e - 127) * 2**36 + interpolate("lg2", m >> 17, m & 0x1FFFF)
    if value < 0:
        return SIGN | (leading(-value - 1, -36) if value != -1 else 0)
    return leading(value, -36) if value else 0


def sine(a: int, quadrants: int, odd: bool) -> int:
    sign, e, m = fields(a)
    if e == 255:
        return NAN
    fixed = (m | 1 << 23) * 2**e >> 125 if e else 0
    quadrant, fraction = fixed // 2**23 + quadrants, fixed % 2**23
    if quadrant % 2:
        fraction = 2**23 - 1 - fraction
    value = interpolate("sin", fraction >> 17, fraction & 0x1FFFF)
    negative = (quadrant % 4 >= 2) != (odd and sign != 0)
    return (leading(value, -37) if value > 0 else 0) | (SIGN if negative else 0)


def sin(a: int) -> int:
    return sine(a, 0, True)


def cos(a: int) -> int:
    return sine(a, 1, False)


def tanh(a: int) -> int:
    sign, e, m = fields(a)
    if is_nan(a):
        return NAN
    if e < 119:
        return a
    if e >= 130:
        return sign | ONE
    first, segments, unit = TANH_BINADES[e - 119]
    return sign | leading(interpolate("tanh", first + (m >> (23 - segments)), m >> (6 - segments) & 0x1FFFF), unit - 42)


def narrow(function, a: int) -> int:
    """An f16 form: the f32 function truncated, an overflow is infinity."""
    x = o.decode(function(o.convert(a, F16, F32)), F32)
    if x.kind == "nan":
        return F16.canonical_nan
    return o.infinity(x.negative, F16) if x.kind == "infinite" else o.encode(x.negative, x.magnitude, F16, "rz")


# --- sequences -----------------------------------------------------------------------------------------------------

TWO_24, QUARTER, HALF, LOG2_E, LN_2 = 0x4B800000, 0x3E800000, 0x3F000000, 0x3FB8AA3B, 0x3F317218


def mul(a: int, b: int) -> int:
    return o.multiply(a, b, F32)


def small(a: int) -> bool:
    return fields(a)[1] == 0


def large(a: int) -> bool:
    """Magnitude above 2^126, infinite included."""
    return 0x7E800000 < a & ~SIGN <= INF


def scale(b: int) -> int:
    return TWO_24 if small(b) else QUARTER if large(b) else ONE


def ex2_approx(a: int) -> int:
    if o.compare(a, 0xC2FC0000, F32, "lt"):
        root = ex2(mul(a, HALF))
        return mul(root, root)
    return ex2(a)


def lg2_approx(a: int) -> int:
    return o.add(lg2(mul(a, TWO_24)), 0xC1C00000, F32) if small(a) else lg2(a)


def rcp_approx(a: int) -> int:
    factor = scale(a)
    return rcp(a) if factor == ONE else mul(rcp(mul(a, factor)), factor)


def rsqrt_approx(a: int) -> int:
    return mul(rsq(mul(a, TWO_24)), 0x45800000) if small(a) else rsq(a)


def sqrt_approx(a: int) -> int:
    return mul(sqrt(mul(a, TWO_24)), 0x39800000) if small(a) else sqrt(a)


def turns(a: int) -> int:
    return o.multiply(a, 0x3E22F983, F32, "rz")


def div_approx(a: int, b: int) -> int:
    return mul(mul(a, TWO_24), rcp(mul(b, TWO_24))) if small(b) else mul(a, rcp(b))


def div_full(a: int, b: int, ftz: bool) -> int:
    def times(x: int, y: int) -> int:
        return o.multiply(x, y, F32, ftz=ftz)

    factor = scale(b)
    if factor != ONE:
        a, b = times(a, factor), times(b, factor)
    return times(a, rcp(b))


TABLE = {
    **{f"mufu.{f.__name__}": f for f in (rcp, rsq, sqrt, ex2, lg2, sin, cos, tanh)},
    "mufu.ex2_f16": lambda a: narrow(ex2, a),
    "mufu.tanh_f16": lambda a: narrow(tanh, a),
    **{f"sequences.{f.__name__}": f for f in (ex2_approx, lg2_approx, rcp_approx, rsqrt_approx, sqrt_approx)},
    "sequences.sin_approx": lambda a: sin(turns(a)),
    "sequences.cos_approx": lambda a: cos(turns(a)),
    "sequences.div_approx": div_approx,
    "sequences.div_full": div_full,
    "sequences.exp": lambda a: ex2(mul(a, LOG2_E)),
    "sequences.log": lambda a: mul(lg2(a), LN_2),
    "sequences.pow": lambda a, b: ex2(mul(b, lg2(a))),
}
