"""Floating arithmetic on integer words: what every integer form is made of.

The twin of `formats.split`, `formats.shift_right_sticky` and `formats.round_pack`, written as SPIR-V. Needs no float,
no fused operation and (below f64) no 64-bit integer, so it is right on drivers that flush subnormals. Only OpSelect,
never a branch: branches multiply SwiftShader's compile time, and lavapipe executes both sides anyway.

Rules:
1. A `Number` is ``significand * 2^(exponent - bias - position)`` of a format: `position` is where the leading bit
   stands when `exponent` is the biased exponent of the value. Formats up to 32 bits use u32 words, f64 uses u64 words.
2. Bits that a shift loses are kept as a one in the lowest place (round to odd), so that the one rounding at the end is
   right (J. Hauser, Berkeley SoftFloat, "jamming").
3. Rounding, overflow and subnormal results live in `round_pack` alone.
"""

from __future__ import annotations

from typing import NamedTuple

from ...formats import Format
from ...spirv.builder import BITS, Builder, Value


class Number(NamedTuple):
    """A finite value under way. sign: word with the sign at the format's sign bit; exponent: i32, biased."""

    sign: Value
    exponent: Value
    significand: Value
    position: int


class Wide(NamedTuple):
    """A `Number` whose significand has two words."""

    sign: Value
    exponent: Value
    high: Value
    low: Value
    position: int  # of the leading bit in `high`


def word(fmt: Format) -> str:
    """Kind of the words that hold codes and significands of a format."""
    return "u64" if fmt.bits == 64 else "u32"


def _bits(x: Value) -> int:
    return BITS[x.kind]


# ---- codes -------------------------------------------------------------------------------------------------------


def sign_of(e: Builder, fmt: Format, code: Value) -> Value:
    return code & fmt.sign_bit


def magnitude(e: Builder, fmt: Format, code: Value) -> Value:
    return code & (fmt.sign_bit - 1)


def is_nan(e: Builder, fmt: Format, code: Value) -> Value:
    return magnitude(e, fmt, code) > fmt.infinity


def is_inf(e: Builder, fmt: Format, code: Value) -> Value:
    return magnitude(e, fmt, code).eq(fmt.infinity)


def canonical(e: Builder, fmt: Format, code: Value) -> Value:
    """The code, with every NaN replaced by the one that arithmetic produces (design.md 4.2)."""
    return e.select(is_nan(e, fmt, code), e.const(fmt.canonical_nan, code.kind), code)


def flush(e: Builder, fmt: Format, code: Value) -> Value:
    """Subnormals become zero of their sign (.FTZ)."""
    subnormal = magnitude(e, fmt, code) < (1 << fmt.fraction_bits)
    return e.select(subnormal, sign_of(e, fmt, code), code)


def order_key(e: Builder, fmt: Format, code: Value) -> Value:
    """A signed integer in the order of the values, with -0 just below +0; NaN lie outside the infinities."""
    if fmt.bits < 32:
        code = code << (32 - fmt.bits)
    top = code.i >> (_bits(code) - 1)
    return (code ^ (top.u >> 1)).i


def value_key(e: Builder, fmt: Format, code: Value) -> Value:
    """A signed integer in the order of the values, equal for both zeros."""
    size = magnitude(e, fmt, code)
    return e.select(sign_of(e, fmt, code).ne(0), -size.i, size.i)


def compare(e: Builder, how: str, a: Value, b: Value) -> Value:
    """``eq ne lt le gt ge`` of two values of one kind."""
    results = {"eq": a.eq, "ne": a.ne, "lt": a.__lt__, "le": a.__le__, "gt": a.__gt__, "ge": a.__ge__}
    return results[how](b)


def float_compare(e: Builder, fmt: Format, how: str, a: Value, b: Value) -> Value:
    """Ordered comparison of codes: false where either is NaN."""
    ordered = ~(is_nan(e, fmt, a) | is_nan(e, fmt, b))
    return compare(e, how, value_key(e, fmt, a), value_key(e, fmt, b)) & ordered


# ---- shifts and leading bits -------------------------------------------------------------------------------------


def leading_bit(e: Builder, x: Value) -> Value:
    """Position of the leading one as i32; -1 for zero."""
    if x.kind == "u32":
        return e.find_msb(x).i
    high, low = e.convert(x >> 32, "u32"), e.convert(x, "u32")
    return e.select(high.ne(0), e.find_msb(high).i + 32, e.find_msb(low).i)


def shift_right_sticky(e: Builder, x: Value, distance: Value) -> Value:
    """x >> distance (0 <= distance < width) with lost bits kept as a one in the lowest place."""
    shifted = x >> distance
    return shifted | _one_where(e, (shifted << distance).ne(x), x.kind)


def _one_where(e: Builder, condition: Value, kind: str) -> Value:
    return e.select(condition, e.const(1, kind), e.const(0, kind))


def sticky_word(e: Builder, high: Value, low: Value) -> Value:
    """`high` with a one in its lowest place where `low` is not zero."""
    return high | _one_where(e, low.ne(0), high.kind)


def _between(e: Builder, x: Value, low: int, high: int) -> Value:
    return e.min(e.max(x, low), high)


# ---- taking apart ------------------------------------------------------------------------------------------------


def exponent_field(e: Builder, fmt: Format, code: Value) -> Value:
    """The biased exponent field as i32."""
    return e.convert(magnitude(e, fmt, code) >> fmt.fraction_bits, "i32")


def unpack(e: Builder, fmt: Format, code: Value, position: int) -> Number:
    """A code as a number whose hidden bit stands at `position`; subnormals keep the smallest exponent (R1)."""
    size = magnitude(e, fmt, code)
    field = e.convert(size >> fmt.fraction_bits, "i32")
    hidden = e.select(field.eq(0), e.const(0, code.kind), e.const(1 << fmt.fraction_bits, code.kind))
    significand = (size & ((1 << fmt.fraction_bits) - 1)) | hidden
    return Number(sign_of(e, fmt, code), e.max(field, 1), significand << (position - fmt.fraction_bits), position)


def normalised(e: Builder, x: Number) -> Number:
    """The same number with its leading bit at `position`, so that subnormal operands lose nothing later."""
    lift = x.position - leading_bit(e, x.significand)
    lift = e.min(lift, _bits(x.significand) - 1)  # a zero has no leading bit
    return Number(x.sign, x.exponent - lift, x.significand << lift.u, x.position)


# ---- putting together --------------------------------------------------------------------------------------------


def round_pack(
    e: Builder, fmt: Format, x: Number, rounding: str = "rn", overflow: str = "infinity", flush: bool = False
) -> Value:
    """The code of a number, rounded once: ``rn`` to nearest even, ``rz`` toward zero; overflow: infinity or largest.

    flush: .FTZ, rounded as if the exponent had no end, then zero of the sign below the smallest normal number.
    The top bit of `x.significand` is clear; its lowest bit may be sticky if it has at least two bits more than the
    format keeps. A zero has an exponent below every format's, and keeps its sign.
    """
    kind, width = x.significand.kind, _bits(x.significand)
    head = width - 2  # leading bit here: one place left for the carry of the rounding
    guard = head - fmt.fraction_bits
    lead = leading_bit(e, x.significand)
    moved = x.significand << e.min(head - lead, width - 1).u
    exponent = x.exponent + (lead - x.position)
    # Subnormal results: the exponent stays at 1, the significand goes right.
    if not flush:
        moved = shift_right_sticky(e, moved, _between(e, 1 - exponent, 0, width - 1).u)
    # flush: -1 is the smallest normal number if the rounding carries, -2 stands for everything below
    field = _between(e, exponent - 1, -2 if flush else 0, (1 << fmt.exponent_bits) - 2)
    if rounding == "rn":
        moved = moved + ((moved >> guard) & 1) + ((1 << (guard - 1)) - 1)
    code = (e.convert(field.u, kind) << fmt.fraction_bits) + (moved >> guard)  # the hidden bit adds one to the field
    limit_code = e.const(fmt.infinity if overflow == "infinity" else fmt.largest, kind)
    limited = e.select(code < limit_code, code, limit_code)
    if flush:
        tiny = (field < 1) & (code.i < (1 << fmt.fraction_bits))  # the field too: an overflow looks negative
        limited = e.select(tiny, e.const(0, kind), limited)
    return limited | x.sign


def fit(e: Builder, fmt: Format, x: Number, source: Format) -> Number:
    """A number of another format as one of `fmt`: the sign moved, the exponent rebiased."""
    sign = x.sign
    if source.bits > fmt.bits:
        sign = e.convert(sign >> (source.bits - fmt.bits), x.significand.kind)
    elif source.bits < fmt.bits:
        sign = e.convert(sign, x.significand.kind) << (fmt.bits - source.bits)
    return Number(sign, x.exponent + (fmt.bias - source.bias), x.significand, x.position)


# ---- sums and products -------------------------------------------------------------------------------------------

_NOTHING = -(1 << 13)  # exponent of a zero: below that of every other term


def add_numbers(e: Builder, x: Number, y: Number) -> Number:
    """The sum of two numbers whose leading bits are at most at the same `position`, three below the word's top bit.

    Exact but for a sticky bit. Unless the exponents are equal, the number with the larger one must have its leading
    bit in place. A zero sum is +0 unless both terms are negative.
    """
    assert x.position == y.position <= _bits(x.significand) - 3
    first = x.exponent >= y.exponent
    big, small = _ordered(e, first, x.significand, y.significand)
    exponent = e.max(x.exponent, y.exponent)
    distance = e.min(exponent - e.min(x.exponent, y.exponent), _bits(big) - 1)
    small = shift_right_sticky(e, small, distance.u)
    differ = (x.sign ^ y.sign).ne(0)
    total = big + e.select(differ, -small, small)
    negative = total.i < 0
    sign = _ordered(e, first, x.sign, y.sign)[0]
    zero = total.eq(0)
    sign = e.select(zero, x.sign & y.sign, e.select(negative, _flipped(e, sign, x, y), sign))
    exponent = e.select(zero, e.i32(_NOTHING), exponent)
    return Number(sign, exponent, e.select(negative, -total, total), x.position)


def _flipped(e: Builder, sign: Value, x: Number | Wide, y: Number | Wide) -> Value:
    """The other sign of two that differ."""
    return (x.sign ^ y.sign) ^ sign


def _ordered(e: Builder, first: Value, a: Value, b: Value) -> tuple[Value, Value]:
    return e.select(first, a, b), e.select(first, b, a)


def multiply_high(e: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """(low, high) words of the product of two u32 or two u64."""
    if x.kind == "u32":
        return e.mul_hi(x, y)
    mask = e.const(0xFFFFFFFF, "u64")
    x0, x1, y0, y1 = x & mask, x >> 32, y & mask, y >> 32
    low, mid0, mid1 = x0 * y0, x0 * y1, x1 * y0
    carry = (low >> 32) + (mid0 & mask) + (mid1 & mask)
    high = x1 * y1 + (mid0 >> 32) + (mid1 >> 32) + (carry >> 32)
    return (low & mask) | (carry << 32), high


def narrow_product(e: Builder, fmt: Format, a: Value, b: Value) -> Number:
    """The exact product of two finite codes of a 16-bit format; otherwise as `product`."""
    x, y = (normalised(e, unpack(e, fmt, code, 14)) for code in (a, b))
    significand = x.significand * y.significand
    exponent = x.exponent + y.exponent + (1 - fmt.bias)
    exponent = e.select(significand.eq(0), e.i32(_NOTHING), exponent)
    return Number(x.sign ^ y.sign, exponent, significand, 29)


def product(e: Builder, fmt: Format, a: Value, b: Value) -> Wide:
    """The exact product of two finite codes in two words; leading bit at `position` or one below; zero is far below."""
    head = BITS[word(fmt)] - 2
    x, y = (normalised(e, unpack(e, fmt, code, head)) for code in (a, b))
    low, high = multiply_high(e, x.significand, y.significand)
    # value = high:low * 2^(ea + eb - 2 bias - 2 head), and the high word starts `head + 2` places up
    exponent = x.exponent + y.exponent + (1 - fmt.bias)
    exponent = e.select(high.eq(0), e.i32(_NOTHING), exponent)
    return Wide(x.sign ^ y.sign, exponent, high, low, head - 1)


def add_wide(e: Builder, x: Wide, y: Wide) -> Number:
    """The sum of two numbers of two words, normalised and reduced to one word with a sticky bit. As `add_numbers`."""
    width = _bits(x.high)
    first = x.exponent >= y.exponent
    high, small_high = _ordered(e, first, x.high, y.high)
    low, small_low = _ordered(e, first, x.low, y.low)
    exponent = e.max(x.exponent, y.exponent)
    distance = e.min(exponent - e.min(x.exponent, y.exponent), 2 * width - 1)
    small_high, small_low = _shift_pair(e, small_high, small_low, distance)
    differ = (x.sign ^ y.sign).ne(0)
    flip = e.select(differ, e.const(-1, x.high.kind), e.const(0, x.high.kind))
    # x + ~y + 1 where the signs differ
    with_carry = low + (small_low ^ flip)
    total_low = with_carry - flip
    carry = _one_where(e, with_carry < low, low.kind) + _one_where(e, total_low < with_carry, low.kind)
    total_high = high + (small_high ^ flip) + carry
    negative = total_high.i < 0
    sign = _ordered(e, first, x.sign, y.sign)[0]
    zero = (total_high | total_low).eq(0)
    sign = e.select(zero, x.sign & y.sign, e.select(negative, _flipped(e, sign, x, y), sign))
    exponent = e.select(zero, e.i32(_NOTHING), exponent)
    # negate the pair
    back_low = -total_low
    back_high = ~total_high + _one_where(e, total_low.eq(0), total_low.kind)
    total_high, total_low = e.select(negative, back_high, total_high), e.select(negative, back_low, total_low)
    return _narrow(e, Wide(sign, exponent, total_high, total_low, x.position))


def _shift_pair(e: Builder, high: Value, low: Value, distance: Value) -> tuple[Value, Value]:
    """high:low >> distance (below twice the width) with a sticky lowest bit."""
    width = _bits(high)
    zero = e.const(0, high.kind)
    far = distance >= width
    near = distance & (width - 1)
    low1, high1 = e.select(far, high, low), e.select(far, zero, high)
    shifted = (low1 >> near.u) | ((high1 << 1) << (width - 1 - near).u)
    lost = (low1 & ~(e.const(-1, low.kind) << near.u)) | e.select(far, low, zero)
    return high1 >> near.u, sticky_word(e, shifted, lost)


def _narrow(e: Builder, x: Wide) -> Number:
    """Two words to one: leading bit moved up into the high word, the rest sticky."""
    width = _bits(x.high)
    empty = x.high.eq(0)  # then the low word moves up by one place less than its width, so that its top bit stays free
    high = e.select(empty, x.low >> 1, x.high)
    low = e.select(empty, x.low << (width - 1), x.low)
    exponent = x.exponent - e.select(empty, e.i32(width - 1), e.i32(0))
    lift = e.min(width - 2 - leading_bit(e, high), width - 1)
    moved = (high << lift.u) | ((low >> 1) >> (width - 1 - lift).u)
    rest = low << lift.u
    return Number(x.sign, exponent - lift + (width - 2 - x.position), sticky_word(e, moved, rest), width - 2)


def addend(e: Builder, fmt: Format, code: Value) -> Number:
    """A finite code as the term beside a product; zero is far below every product."""
    x = normalised(e, unpack(e, fmt, code, BITS[word(fmt)] - 3))
    exponent = e.select(x.significand.eq(0), e.i32(_NOTHING), x.exponent)
    return Number(x.sign, exponent, x.significand, x.position)
