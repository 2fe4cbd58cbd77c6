"""Addition, multiplication, fused multiply-add, division and square root in any floating format, on integers.

One definition for f32, f16 and bf16; the family files name the instructions. IEEE 754 round to nearest even (or toward
zero), subnormals kept, every NaN result canonical (design.md 4.2). A term is (negative, exponent of its lowest place,
significand); two terms are summed in a 62-bit window below the larger one's top, the smaller one's lost bits sticky.
"""

# numpy types the operators of its arrays as Any, so each return here would need a cast
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import formats
from ..formats import Codes, Format, Ints

#: Exponent of a zero term: it never sets the window.
_NOTHING = -(1 << 20)
#: The window's width: both terms are below 2^61 in it, so their sum is below 2^62.
_WINDOW = 61


RELATIONS: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


class Term(NamedTuple):
    """(-1)^negative * significand * 2^exponent, with the significand below 2^width."""

    negative: NDArray[np.bool_]
    exponent: Ints
    significand: Ints
    width: int


def term(codes: Codes, fmt: Format) -> Term:
    """A finite code as a term (specials give a number that the caller overrides)."""
    negative, exponent, significand = formats.split(codes, fmt)
    return Term(negative, exponent - fmt.fraction_bits, significand, fmt.fraction_bits + 1)


def product(a: Codes, b: Codes, fmt: Format) -> Term:
    """The exact product as a term."""
    x, y = term(a, fmt), term(b, fmt)
    return Term(x.negative ^ y.negative, x.exponent + y.exponent, x.significand * y.significand, x.width + y.width)


def _into(t: Term, lowest: Ints) -> Ints:
    """The term's significand in units of 2^lowest, lost bits sticky, with its sign."""
    distance = t.exponent - lowest
    raised = t.significand << np.minimum(np.maximum(distance, 0), _WINDOW)
    shifted = formats.shift_right_sticky(raised, np.maximum(-distance, 0))
    return np.where(t.negative, -shifted, shifted)


def total(x: Term, y: Term, fmt: Format, flushed: bool = False) -> Codes:
    """x + y rounded once. An exact zero is -0 only where both terms are negative.

    The window is wide enough: bits are lost only from a term that lies so far below the other one that no
    cancellation brings the rounding place near the sticky one (the smallest normal product keeps 12 places between).
    """
    tops = [np.where(t.significand == 0, _NOTHING, t.exponent + t.width) for t in (x, y)]
    lowest = np.maximum(*tops) - _WINDOW
    value = _into(x, lowest) + _into(y, lowest)
    negative = np.where(value == 0, x.negative & y.negative, value < 0)
    return formats.round_pack(negative, lowest, np.abs(value), fmt, flush=flushed)


def canonical(nan: NDArray[np.bool_], codes: Codes, fmt: Format) -> Codes:
    """The canonical NaN where `nan` is set."""
    return np.where(nan, codes.dtype.type(fmt.canonical_nan), codes)


def _all_finite(fmt: Format, *codes: Codes) -> bool:
    """No infinity and no NaN anywhere: then the finite path is all there is to do."""
    mask, infinity = np.array(fmt.sign_bit - 1, fmt.dtype), np.array(fmt.infinity, fmt.dtype)
    return not any(((c & mask) >= infinity).any() for c in codes)


def _infinity(where: NDArray[np.bool_], negative: NDArray[np.bool_], codes: Codes, fmt: Format) -> Codes:
    signed = np.where(negative, codes.dtype.type(fmt.infinity | fmt.sign_bit), codes.dtype.type(fmt.infinity))
    return np.where(where, signed, codes)


def flush(codes: Codes, fmt: Format) -> Codes:
    """.FTZ of operands: subnormals become zero of their sign."""
    return np.where(formats.is_subnormal(codes, fmt), codes & codes.dtype.type(fmt.sign_bit), codes)


def flip(codes: Codes, fmt: Format) -> Codes:
    """The sign bit flipped, also of a NaN: an operand modifier."""
    return np.bitwise_xor(codes, np.array(fmt.sign_bit, fmt.dtype))


def negate(codes: Codes, fmt: Format) -> Codes:
    """neg: the flipped operand plus -0, an addition; so a NaN becomes canonical (docs/adr/0008)."""
    return canonical(formats.is_nan(codes, fmt), flip(codes, fmt), fmt)


def add(a: Codes, b: Codes, fmt: Format) -> Codes:
    """a + b, rounded to nearest even."""
    codes = total(term(a, fmt), term(b, fmt), fmt)
    if _all_finite(fmt, a, b):
        return codes
    inf_a, inf_b = formats.is_inf(a, fmt), formats.is_inf(b, fmt)
    sign_a, sign_b = formats.sign_of(a, fmt), formats.sign_of(b, fmt)
    codes = _infinity(inf_a | inf_b, np.where(inf_a, sign_a, sign_b), codes, fmt)
    nan = formats.is_nan(a, fmt) | formats.is_nan(b, fmt) | (inf_a & inf_b & (sign_a != sign_b))
    return canonical(nan, codes, fmt)


def multiply(a: Codes, b: Codes, fmt: Format, mode: str = "rn", flushed: bool = False) -> Codes:
    """a * b, rounded once; toward zero a finite overflow gives the largest finite number. flushed: .FTZ of results."""
    p = product(a, b, fmt)
    overflow = "largest" if mode == "rz" else "infinity"
    codes = formats.round_pack(p.negative, p.exponent, p.significand, fmt, mode=mode, overflow=overflow, flush=flushed)
    if _all_finite(fmt, a, b):
        return codes
    inf = formats.is_inf(a, fmt) | formats.is_inf(b, fmt)
    nan = formats.is_nan(a, fmt) | formats.is_nan(b, fmt) | (inf & (formats.is_zero(a, fmt) | formats.is_zero(b, fmt)))
    return canonical(nan, _infinity(inf, p.negative, codes, fmt), fmt)


def fused(a: Codes, b: Codes, c: Codes, fmt: Format, flushed: bool = False) -> Codes:
    """a * b + c with one rounding to nearest even. flushed: .FTZ of results."""
    p = product(a, b, fmt)
    codes = total(p, term(c, fmt), fmt, flushed)
    if _all_finite(fmt, a, b, c):
        return codes
    inf_p, inf_c = formats.is_inf(a, fmt) | formats.is_inf(b, fmt), formats.is_inf(c, fmt)
    sign_c = formats.sign_of(c, fmt)
    codes = _infinity(inf_p | inf_c, np.where(inf_p, p.negative, sign_c), codes, fmt)
    nan = formats.is_nan(a, fmt) | formats.is_nan(b, fmt) | formats.is_nan(c, fmt)
    nan |= inf_p & (formats.is_zero(a, fmt) | formats.is_zero(b, fmt)) | (inf_p & inf_c & (p.negative != sign_c))
    return canonical(nan, codes, fmt)


def _normalised(t: Term) -> Term:
    """The same value with the leading one at the top of the width; a zero stays 0."""
    shift = t.width - formats.bit_length(t.significand)
    return Term(t.negative, t.exponent - shift, t.significand << shift, t.width)


def divide(a: Codes, b: Codes, fmt: Format) -> Codes:
    """a / b, correctly rounded to nearest even."""
    x, y = _normalised(term(a, fmt)), _normalised(term(b, fmt))
    extra = fmt.fraction_bits + 4  # the quotient has at least this many bits, two more than are kept
    divisor = np.where(y.significand == 0, 1, y.significand)
    quotient, remainder = np.divmod(x.significand << extra, divisor)
    negative = x.negative ^ y.negative
    codes = formats.round_pack(negative, x.exponent - y.exponent - extra, quotient | (remainder != 0), fmt)
    inf_a, inf_b = formats.is_inf(a, fmt), formats.is_inf(b, fmt)
    zero_a, zero_b = formats.is_zero(a, fmt), formats.is_zero(b, fmt)
    codes = _infinity(inf_a | zero_b, negative, codes, fmt)
    codes = np.where(inf_b, codes.dtype.type(fmt.sign_bit) * negative.astype(codes.dtype), codes)
    nan = formats.is_nan(a, fmt) | formats.is_nan(b, fmt) | (inf_a & inf_b) | (zero_a & zero_b)
    return canonical(nan, codes, fmt)


def square_root(a: Codes, fmt: Format) -> Codes:
    """sqrt a, correctly rounded to nearest even; -0 stays, other negatives give NaN."""
    x = _normalised(term(a, fmt))
    least = fmt.fraction_bits + 5  # then the root has at least fraction_bits + 3 bits
    extra = least + ((x.exponent - least) & 1)  # an even exponent halves
    radicand = x.significand << extra
    root = np.sqrt(radicand.astype(np.float64)).astype(np.int64)  # an estimate, one off at most, put right below
    root = root - (root * root > radicand)
    root = root + ((root + 1) * (root + 1) <= radicand)
    codes = formats.round_pack(x.negative, (x.exponent - extra) >> 1, root | (root * root != radicand), fmt)
    codes = _infinity(formats.is_inf(a, fmt), x.negative, codes, fmt)
    return canonical(formats.is_nan(a, fmt) | (x.negative & ~formats.is_zero(a, fmt)), codes, fmt)


def minimum_maximum(a: Codes, b: Codes, fmt: Format, maximum: bool, nan: bool) -> Codes:
    """FMNMX: -0 is below +0; one NaN gives the other operand (`nan`: the canonical NaN), two the canonical NaN."""
    keys = []
    for codes in (a, b):
        magnitude = formats.ordered(codes, fmt)
        keys.append(np.where(formats.sign_of(codes, fmt), magnitude - 1, magnitude))
    first = keys[0] >= keys[1] if maximum else keys[0] <= keys[1]
    nan_a, nan_b = formats.is_nan(a, fmt), formats.is_nan(b, fmt)
    picked = np.where((first & ~nan_a) | nan_b, a, b)
    return canonical((nan_a | nan_b) if nan else (nan_a & nan_b), picked, fmt)


def compare(a: Codes, b: Codes, fmt: Format, relation: str) -> NDArray[np.bool_]:
    """a `relation` b as numbers (both zeros equal); false where either is a NaN, also for ne."""
    x, y = formats.ordered(a, fmt), formats.ordered(b, fmt)
    outcome: NDArray[np.bool_] = RELATIONS[relation](x, y)
    return outcome & ~formats.is_nan(a, fmt) & ~formats.is_nan(b, fmt)


def round_to_integer(a: Codes, fmt: Format, rounding: str) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """(negative, magnitude) of a value rounded to an integer; from 2^63 on, and infinite, 2^63.

    rounding: ``rni`` nearest even, ``rzi`` toward zero.
    """
    negative, exponent, significand = formats.split(a, fmt)
    drop = fmt.fraction_bits - exponent
    whole = (significand << np.minimum(np.maximum(-drop, 0), 62)) >> np.minimum(np.maximum(drop, 0), 63)
    if rounding == "rni":
        half = np.int64(1) << np.minimum(np.maximum(drop - 1, 0), 62)
        lost = significand & ((half << 1) - 1)
        whole = whole + ((drop > 0) & (drop < 63) & (lost + (whole & 1) > half))
    else:
        assert rounding == "rzi", rounding
    large = (exponent >= 63) | (exponent > fmt.emax)
    return negative, np.where(large, np.uint64(1 << 63), whole.astype(np.uint64))
