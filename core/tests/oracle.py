"""The third opinion: exact rationals, one element at a time, written from the rules and from neither backend.

Slow and obvious on purpose. A code becomes a sign and a `Fraction`, the operation is done exactly, and `encode` rounds
the result once. Names follow the instruction table (family.function); `evaluate` runs one row on Python integers.
`mutants.py` replaces single functions of this module to get models that are wrong in one way, so inner calls go through
module names.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from phobos_sim.formats import F16, F32, F64, FORMATS, S8, Format

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Number:
    """What a float code means: kind ``finite``, ``infinite`` or ``nan``; the magnitude is exact."""

    kind: str
    negative: bool
    magnitude: Fraction

    @property
    def value(self) -> Fraction:
        return -self.magnitude if self.negative else self.magnitude

    @property
    def zero(self) -> bool:
        return self.kind == "finite" and self.magnitude == 0


def power(exponent: int) -> Fraction:
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def decode(code: int, fmt: Format) -> Number:
    negative = code >> (fmt.bits - 1) == 1
    field = (code >> (fmt.fraction_bits + fmt.ignored_bits)) % (1 << fmt.exponent_bits)
    fraction = (code >> fmt.ignored_bits) % (1 << fmt.fraction_bits)
    if field == (1 << fmt.exponent_bits) - 1:
        return Number("nan" if fraction else "infinite", negative, Fraction(0))
    if field == 0:
        return Number("finite", negative, fraction * power(fmt.emin - fmt.fraction_bits))
    return Number("finite", negative, (fraction + 2**fmt.fraction_bits) * power(field - fmt.bias - fmt.fraction_bits))


def exponent_of(magnitude: Fraction) -> int:
    """floor(log2) of a positive rational."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if power(guess) <= magnitude else guess - 1


def nearest_even(value: Fraction) -> int:
    whole = value.numerator // value.denominator
    rest = value - whole
    return whole + (rest > HALF or (rest == HALF and whole % 2 == 1))


def encode(negative: bool, magnitude: Fraction, fmt: Format, mode: str = "rn", overflow: str = "infinity") -> int:
    """The code of a sign and an exact magnitude, rounded once."""
    sign = int(negative) << (fmt.bits - 1)
    if magnitude == 0:
        return sign
    exponent = max(exponent_of(magnitude), fmt.emin)
    steps = magnitude / power(exponent - fmt.fraction_bits)
    whole = nearest_even(steps) if mode == "rn" else steps.numerator // steps.denominator
    if whole == 2 ** (fmt.fraction_bits + 1):
        whole, exponent = whole // 2, exponent + 1
    if exponent > fmt.bias:
        return sign | (fmt.infinity if overflow == "infinity" else fmt.infinity - (1 << fmt.ignored_bits))
    if whole < 2**fmt.fraction_bits:
        return sign | whole << fmt.ignored_bits
    field = exponent + fmt.bias
    return sign | ((field << fmt.fraction_bits) + whole - 2**fmt.fraction_bits) << fmt.ignored_bits


def encode_ftz(negative: bool, magnitude: Fraction, fmt: Format, mode: str = "rn", overflow: str = "infinity") -> int:
    """.FTZ: rounded as if the exponent had no end; then a magnitude below the smallest normal number is zero."""
    if magnitude == 0:
        return int(negative) << (fmt.bits - 1)
    place = power(exponent_of(magnitude) - fmt.fraction_bits)
    steps = magnitude / place
    rounded = (nearest_even(steps) if mode == "rn" else steps.numerator // steps.denominator) * place
    return encode(negative, rounded if rounded >= power(fmt.emin) else Fraction(0), fmt, mode, overflow)


def not_a_number(fmt: Format, *operands: int) -> int:
    """What arithmetic makes of an undefined result: one NaN; in f64 the first operand that is one, quieted."""
    for operand in operands if fmt == F64 else ():
        if decode(operand, fmt).kind == "nan":
            return operand | 1 << 51
    return fmt.canonical_nan


def infinity(negative: bool, fmt: Format) -> int:
    return fmt.infinity | int(negative) << (fmt.bits - 1)


def flush(code: int, fmt: Format) -> int:
    number = decode(code, fmt)
    subnormal = number.kind == "finite" and 0 < number.magnitude < power(fmt.emin)
    return code & fmt.sign_bit if subnormal else code


def kept(code: int, fmt: Format) -> int:
    """What an instruction without .FTZ does to a subnormal: nothing."""
    return code


def negate(code: int, fmt: Format) -> int:
    return not_a_number(fmt, code) if decode(code, fmt).kind == "nan" else code ^ fmt.sign_bit


def fused(a: int, b: int, c: int, fmt: Format, mode: str = "rn", overflow: str = "infinity", ftz: bool = False) -> int:
    if ftz:
        a, b, c = (flush(code, fmt) for code in (a, b, c))
    x, y, z = (decode(kept(code, fmt), fmt) for code in (a, b, c))
    sign = x.negative != y.negative
    infinite = "infinite" in (x.kind, y.kind)
    if "nan" in (x.kind, y.kind, z.kind) or (infinite and (x.zero or y.zero)):
        return not_a_number(fmt, b, c, a)
    if infinite:
        clash = z.kind == "infinite" and z.negative != sign
        return not_a_number(fmt) if clash else infinity(sign, fmt)
    if z.kind == "infinite":
        return infinity(z.negative, fmt)
    total = x.value * y.value + z.value
    negative = (sign and z.negative) if total == 0 else total < 0
    return kept((encode_ftz if ftz else encode)(negative, abs(total), fmt, mode, overflow), fmt)


def multiply(a: int, b: int, fmt: Format, mode: str = "rn", ftz: bool = False) -> int:
    """a * b + a zero of the product's sign, which leaves the product's own zero."""
    zero = (a ^ b) & fmt.sign_bit
    return fused(a, b, zero, fmt, mode, "largest" if mode == "rz" else "infinity", ftz)


def add(a: int, b: int, fmt: Format, ftz: bool = False) -> int:
    return fused(a, fmt.bias << fmt.fraction_bits, b, fmt, ftz=ftz)


def divide(a: int, b: int, fmt: Format) -> int:
    x, y = decode(kept(a, fmt), fmt), decode(kept(b, fmt), fmt)
    negative = x.negative != y.negative
    if "nan" in (x.kind, y.kind) or (x.kind == y.kind == "infinite") or (x.zero and y.zero):
        return not_a_number(fmt, a, b)
    if x.kind == "infinite" or y.zero:
        return infinity(negative, fmt)
    if y.kind == "infinite":
        return int(negative) << (fmt.bits - 1)
    return kept(encode(negative, x.magnitude / y.magnitude, fmt), fmt)


def square_root(a: int, fmt: Format) -> int:
    x = decode(kept(a, fmt), fmt)
    if x.kind == "nan" or (x.negative and not x.zero):
        return not_a_number(fmt, a)
    if x.kind == "infinite" or x.zero:
        return a
    scale = 400  # the root to 200 places below the point, then a sticky one
    scaled = x.magnitude * power(scale)
    root = isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(root) ** 2 == scaled
    return encode(False, (root + (0 if exact else HALF)) * power(-scale // 2), fmt)


def extremum(a: int, b: int, fmt: Format, maximum: bool, nan: bool) -> int:
    x, y = decode(a, fmt), decode(b, fmt)
    if x.kind == "nan" or y.kind == "nan":
        both = x.kind == y.kind
        return not_a_number(fmt, a, b) if nan or both else (b if x.kind == "nan" else a)
    return (max if maximum else min)((order(a, fmt), a), (order(b, fmt), b))[1]


def order(code: int, fmt: Format) -> tuple[Fraction, bool]:
    """Sorts by value, -0 below +0."""
    number = decode(code, fmt)
    magnitude = power(fmt.bias + 2) if number.kind == "infinite" else number.magnitude
    return (-magnitude if number.negative else magnitude, not number.negative)


def unordered(relation: str) -> bool:
    """What a comparison with a NaN says."""
    return False


def compare(a: int, b: int, fmt: Format, relation: str) -> bool:
    if "nan" in (decode(a, fmt).kind, decode(b, fmt).kind):
        return unordered(relation)
    return related(order(a, fmt)[0], order(b, fmt)[0], relation)


def related(x: Fraction | int, y: Fraction | int, relation: str) -> bool:
    sign = (x > y) - (x < y)
    return sign in {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1)}[relation]


def pick(first: bool, a: int, b: int) -> int:
    """A select copies bits."""
    return a if first else b


# --- integers ------------------------------------------------------------------------------------------------------


def to_int(code: int, fmt: Format) -> int:
    return code - (1 << fmt.bits) if fmt.kind == "signed" and code >> (fmt.bits - 1) else code


def from_int(value: int, fmt: Format) -> int:
    return value % (1 << fmt.bits)


def truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def divide_int(a: int, b: int, fmt: Format) -> int:
    x, y = to_int(a, fmt), to_int(b, fmt)
    return from_int(-1 if y == 0 else truncated_quotient(x, y), fmt)


def remainder_int(a: int, b: int, fmt: Format) -> int:
    x, y = to_int(a, fmt), to_int(b, fmt)
    return from_int(-1 if y == 0 else x - truncated_quotient(x, y) * y, fmt)


def count(code: int, fmt: Format) -> int:
    """A shift count: unsigned, and everything from the width on is the same."""
    return min(code, fmt.bits)


def shift_left(a: int, b: int, fmt: Format) -> int:
    return from_int(a << count(b, fmt), fmt)


def shift_right(a: int, b: int, fmt: Format) -> int:
    return from_int(to_int(a, fmt) >> count(b, fmt), fmt)


def dot4(a: int, b: int, c: int, a_fmt: Format, b_fmt: Format) -> int:
    total = c
    for shift in (0, 8, 16, 24):
        total += to_int(a >> shift & 255, a_fmt) * to_int(b >> shift & 255, b_fmt)
    return total % (1 << 32)


# --- conversions ---------------------------------------------------------------------------------------------------


def convert(a: int, source: Format, target: Format, rounding: str = "rn") -> int:
    x = decode(kept(a, source), source)
    if x.kind == "nan":
        return converted_nan(a, source, target)
    if x.kind == "infinite":
        return infinity(x.negative, target)
    return encode(x.negative, x.magnitude, target, rounding, "largest" if rounding == "rz" else "infinity")


def converted_nan(a: int, source: Format, target: Format) -> int:
    """bf16 is the upper half of an f32; f64 keeps leading payload bits, quieted; everything else has one NaN."""
    if source.name == "bf16" and target != F16:
        return a << 16 if target == F32 else converted_nan(a << 16, F32, target)
    if F64 not in (source, target) or target.name == "bf16":
        return target.canonical_nan
    payload = Fraction(a % (1 << source.fraction_bits), 1 << source.fraction_bits) * (1 << target.fraction_bits)
    sign = a >> (source.bits - 1) << (target.bits - 1)
    return sign | target.infinity | 1 << (target.fraction_bits - 1) | int(payload)


def away_tf32(a: int) -> int:
    x = decode(a, F32)
    return (a if x.kind != "finite" else a + 0x1000) % (1 << 32) // 0x2000 * 0x2000


def round_integral(a: int, fmt: Format, rounding: str) -> int:
    x = decode(a, fmt)
    if x.kind == "nan":
        return not_a_number(fmt, a)
    return a if x.kind == "infinite" else encode(x.negative, Fraction(whole(x.magnitude, rounding)), fmt)


def whole(magnitude: Fraction, rounding: str) -> int:
    return nearest_even(magnitude) if rounding == "rni" else magnitude.numerator // magnitude.denominator


def saturate(value: int, fmt: Format) -> int:
    lowest = -(1 << (fmt.bits - 1)) if fmt.kind == "signed" else 0
    highest = (1 << (fmt.bits - (fmt.kind == "signed"))) - 1
    return min(max(value, lowest), highest)


def to_integer(a: int, source: Format, target: Format, rounding: str) -> int:
    x = decode(a, source)
    if x.kind == "nan":
        return nan_as_integer(source, target)
    magnitude = 1 << 2000 if x.kind == "infinite" else whole(x.magnitude, rounding)
    return from_int(saturate(-magnitude if x.negative else magnitude, target), target)


def nan_as_integer(source: Format, target: Format) -> int:
    return 1 << (target.bits - 1) if source == F64 or target.bits == 64 else 0


def low_byte(a: int, source: Format, target: Format) -> int:
    return to_integer(a, source, FORMATS["s16" if target == S8 else "u16"], "rzi") % 256


def to_float(a: int, source: Format, target: Format) -> int:
    value = to_int(a, source)
    if target.name == "bf16":  # sm_86 has no such conversion: through f32
        return convert(encode(value < 0, Fraction(abs(value)), F32), F32, target)
    return encode(value < 0, Fraction(abs(value)), target)


def resize(a: int, source: Format, target: Format) -> int:
    return from_int(to_int(a, source), target)


def remainder(a: int, b: int, fmt: Format) -> int:
    """phobos-language.md D.1, step by step."""
    t = round_integral(divide(a, b, fmt), fmt, "rzi")
    return a if decode(b, fmt).kind == "infinite" else fused(b, negate(t, fmt), a, fmt)


def bitwise(a: int, b: int, table: int) -> int:
    """A two-input bit table, as LOP3 has it: bit 2x + y of `table` is the outcome of bits x of a and y of b."""
    return sum((table >> (2 * (a >> i & 1) + (b >> i & 1)) & 1) << i for i in range(64))
