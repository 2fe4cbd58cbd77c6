"""Number formats: what a code of each width means, and the one place where each is rounded.

Every value in this package is an unsigned integer *code*. A `Format` says how wide the code is and, for floating
formats, where its fields are. Rounding and packing live here once per format, so the reference, the device code's
tests and the reports cannot disagree about what a format is.

A finite nonzero code means ``(-1)^sign * significand * 2^(exponent - fraction_bits)``; `split` gives the three parts,
with the exponent of the smallest normal number and no hidden bit for subnormals (design.md 4.1, R1). `round_pack` goes
the other way from any integer significand. All functions are vectorised and use integers only.
"""

# numpy types the operators of its arrays as Any, so each return here would need a cast
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[Any]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Format:
    """One number format.

    bits: storage width of a code. kind: ``float``, ``signed``, ``unsigned`` or ``predicate``.
    exponent_bits, fraction_bits: field widths of a floating format (fraction without the hidden bit).
    ignored_bits: low bits of the storage word that the hardware does not read (tf32: 13).
    """

    name: str
    bits: int
    kind: str
    exponent_bits: int = 0
    fraction_bits: int = 0
    ignored_bits: int = 0

    def __post_init__(self) -> None:
        if self.kind == "float":
            total = 1 + self.exponent_bits + self.fraction_bits + self.ignored_bits
            assert total == self.bits, f"{self.name}: fields add up to {total}, storage has {self.bits} bits"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite number."""
        return self.bias

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def largest(self) -> int:
        """Code of the largest finite number, or of the largest integer."""
        if self.is_float:
            return self.infinity - (1 << self.ignored_bits)
        return (1 << (self.bits - 1 if self.kind == "signed" else self.bits)) - 1

    @property
    def lowest_integer(self) -> int:
        """The most negative value of an integer format (a value, not a code)."""
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def canonical_nan(self) -> int:
        """The NaN that arithmetic makes of an invalid operation: all ones but the sign.

        f64 has another one, and passes a NaN operand on (`reference.double`, measured on an H200: docs/adr/0008).
        """
        return 0xFFF8000000000000 if self.bits == 64 else (1 << (self.bits - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << (self.fraction_bits + self.ignored_bits)

    @property
    def dtype(self) -> str:
        """Name of the numpy dtype that holds its codes: unsigned of the storage width, ``bool`` for predicates."""
        return "bool" if self.kind == "predicate" else f"uint{self.bits}"

    def __repr__(self) -> str:
        return self.name


F16 = Format("f16", 16, "float", 5, 10)
BF16 = Format("bf16", 16, "float", 8, 7)
TF32 = Format("tf32", 32, "float", 8, 10, 13)
F32 = Format("f32", 32, "float", 8, 23)
F64 = Format("f64", 64, "float", 11, 52)
S8 = Format("s8", 8, "signed")
U8 = Format("u8", 8, "unsigned")
S16 = Format("s16", 16, "signed")
S32 = Format("s32", 32, "signed")
U16 = Format("u16", 16, "unsigned")
U32 = Format("u32", 32, "unsigned")
S64 = Format("s64", 64, "signed")
U64 = Format("u64", 64, "unsigned")
PRED = Format("pred", 1, "predicate")

FORMATS = {f.name: f for f in (F16, BF16, TF32, F32, F64, S8, U8, S16, U16, S32, U32, S64, U64, PRED)}


def dtype_of(fmt: Format) -> np.dtype[Any]:
    """numpy dtype of the codes of a format."""
    return np.dtype(fmt.dtype)


def _magnitude(codes: Codes, fmt: Format) -> Ints:
    """The code without its sign and without bits that the hardware ignores, as int64."""
    mask = (fmt.sign_bit - 1) & ~((1 << fmt.ignored_bits) - 1)
    return (np.asarray(codes) & np.array(mask, fmt.dtype)).astype(np.int64)


def sign_of(codes: Codes, fmt: Format) -> NDArray[np.bool_]:
    """True where the sign bit is set."""
    return (np.asarray(codes) & np.array(fmt.sign_bit, fmt.dtype)) != 0


def is_nan(codes: Codes, fmt: Format) -> NDArray[np.bool_]:
    """True for every NaN payload (ignored bits cannot make one: R1)."""
    return _magnitude(codes, fmt) > fmt.infinity


def is_inf(codes: Codes, fmt: Format) -> NDArray[np.bool_]:
    return _magnitude(codes, fmt) == fmt.infinity


def is_zero(codes: Codes, fmt: Format) -> NDArray[np.bool_]:
    return _magnitude(codes, fmt) == 0


def is_subnormal(codes: Codes, fmt: Format) -> NDArray[np.bool_]:
    magnitude = _magnitude(codes, fmt)
    return (magnitude != 0) & (magnitude < (1 << (fmt.fraction_bits + fmt.ignored_bits)))


def split(codes: Codes, fmt: Format) -> tuple[NDArray[np.bool_], Ints, Ints]:
    """(negative, exponent, significand) of each code; infinities and NaN have exponent emax + 1.

    Finite values are ``significand * 2^(exponent - fraction_bits)``.
    """
    magnitude = _magnitude(codes, fmt) >> fmt.ignored_bits
    field = magnitude >> fmt.fraction_bits
    fraction = magnitude & ((1 << fmt.fraction_bits) - 1)
    normal = (field != 0).astype(np.int64)
    return sign_of(codes, fmt), field + (1 - normal) - fmt.bias, fraction | (normal << fmt.fraction_bits)


def pack(negative: Any, exponent: Any, significand: Any, fmt: Format) -> Codes:
    """The inverse of `split` for values that fit: no rounding, no overflow."""
    significand = np.asarray(significand, np.int64)
    normal = significand >> fmt.fraction_bits  # the hidden bit adds one to the exponent field below
    field = (np.asarray(exponent, np.int64) + fmt.bias - 1) * (normal != 0)
    return _with_sign(negative, ((field << fmt.fraction_bits) + significand) << fmt.ignored_bits, fmt)


def bit_length(values: Any) -> Ints:
    """Number of bits of nonnegative int64 values (0 for 0)."""
    values = np.asarray(values, np.int64)
    # Only the leading one matters; with the place below it cleared, the conversion cannot round up to the next power
    # of two, and the exponent field of the double counts the bits.
    leading = (values & ~(values >> 1)).astype(np.float64)
    return np.maximum((leading.view(np.int64) >> 52) - 1022, 0)


def shift_right_sticky(values: Ints, distance: Any) -> Ints:
    """values >> distance with every lost bit kept as a one in the lowest place; any distance >= 0."""
    distance = np.minimum(np.asarray(distance, np.int64), 63)
    shifted = values >> distance
    return shifted | ((shifted << distance) != values)


def round_pack(
    negative: Any,
    exponent: Any,
    significand: Any,
    fmt: Format,
    *,
    mode: str = "rn",
    overflow: str = "infinity",
    flush: bool = False,
) -> Codes:
    """Code of ``(-1)^negative * significand * 2^exponent``, rounded once.

    significand: nonnegative int64 below 2^62; where it is the head of a longer number, its lowest bit must be sticky
        and it must have at least two bits more than the format keeps.
    mode: ``rn`` nearest even, ``rz`` toward zero. overflow: ``infinity``, or ``largest`` finite number. flush: .FTZ,
        rounded as if the exponent had no end, then zero of the sign below the smallest normal number.
    A zero significand gives a zero of the sign.
    """
    significand = np.asarray(significand, np.int64)
    length = bit_length(significand)
    normal = significand << (62 - length)  # the leading one in place 61
    top = np.where(significand == 0, fmt.emin, np.minimum(exponent + length - 1, fmt.emax + 1))
    below = np.zeros_like(top) if flush else np.maximum(fmt.emin - top, 0)  # places that a subnormal loses
    drop = np.minimum(below + (61 - fmt.fraction_bits), 63)
    kept = normal >> drop
    if mode == "rn":
        kept = (normal + ((np.int64(1) << (drop - 1)) - 1 + (kept & 1))) >> drop  # up from a half, if even not at it
    else:
        assert mode == "rz", mode
    if fmt.bits == 64:
        kept = np.where(top > fmt.emax, 1 << fmt.fraction_bits, kept)  # an overflowing f64 stays inside int64
    # The hidden bit of `kept` adds the last one to the exponent field, and a carry moves on into it.
    field = top + below + (fmt.bias - 1)
    if flush:
        tiny = (field << fmt.fraction_bits) + kept < 1 << fmt.fraction_bits
        field, kept = np.where(tiny, 0, field), np.where(tiny, 0, kept)
    magnitude = np.minimum((field << fmt.fraction_bits) + kept, _limit(fmt, overflow)) << fmt.ignored_bits
    return _with_sign(negative, magnitude, fmt)


def _limit(fmt: Format, overflow: str) -> int:
    return (fmt.infinity if overflow == "infinity" else fmt.largest) >> fmt.ignored_bits


def _with_sign(negative: Any, magnitude: Ints, fmt: Format) -> Codes:
    sign = np.asarray(negative).astype(fmt.dtype) << np.array(fmt.bits - 1, fmt.dtype)
    codes: Codes = magnitude.astype(fmt.dtype) | sign
    return codes


def signed(codes: Codes, fmt: Format) -> Ints:
    """Integer codes as int64 values (two's complement for signed formats; predicates as 0 and 1)."""
    codes = np.asarray(codes)
    if fmt.kind == "signed":
        return codes.view(f"int{fmt.bits}").astype(np.int64)
    return codes.astype(np.int64)


def ordered(codes: Codes, fmt: Format) -> Ints:
    """Integers in the order of the values, one apart for neighbours; both zeros are 0. For distances in ulp.

    f64 distances can exceed int64; use `distance`.
    """
    if not fmt.is_float:
        return signed(codes, fmt)
    magnitude = _magnitude(codes, fmt) >> fmt.ignored_bits
    return np.where(sign_of(codes, fmt), -magnitude, magnitude)


def distance(a: Codes, b: Codes, fmt: Format) -> NDArray[np.uint64]:
    """Number of representable steps between two codes that are not NaN (infinity is one step past the largest)."""
    x, y = ordered(a, fmt), ordered(b, fmt)
    high, low = np.maximum(x, y), np.minimum(x, y)
    return high.astype(np.uint64) - low.astype(np.uint64)  # wraps to the true difference, which is below 2^64


def special_values(fmt: Format) -> tuple[int, ...]:
    """Codes where implementations part: zeros, subnormal and normal edges, ones, ties, largest, infinities, NaNs."""
    if fmt.kind == "predicate":
        return (0, 1)
    if fmt.is_integer:
        top = fmt.sign_bit
        codes = {0, 1, 2, 3, 7, 0x55 & (2 * top - 1), top - 2, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1}
        return tuple(sorted(codes))
    one = fmt.bias << fmt.fraction_bits
    hidden = 1 << fmt.fraction_bits
    magnitudes = {
        0, 1, 2, 3, hidden // 2, hidden - 1, hidden, hidden + 1, 2 * hidden - 1, 2 * hidden,  # around subnormals
        one - 1, one, one + 1, one + hidden // 2, one + hidden, one - hidden, one + hidden // 2 + 1,  # 1, 1.5, 2, 0.5
        one + fmt.fraction_bits * hidden, one + (fmt.fraction_bits + 1) * hidden,  # where integers end
        (fmt.infinity >> fmt.ignored_bits) - hidden, (fmt.infinity >> fmt.ignored_bits) - 1,  # largest
        (fmt.infinity >> fmt.ignored_bits), (fmt.infinity >> fmt.ignored_bits) + 1,  # infinity, a signalling NaN
        (fmt.infinity >> fmt.ignored_bits) + hidden // 2, (fmt.infinity >> fmt.ignored_bits) + hidden // 2 + 3,
        (fmt.sign_bit >> fmt.ignored_bits) - 1,  # quiet NaN, one with a payload, the canonical NaN
    }  # fmt: skip
    ignored = (1 << fmt.ignored_bits) - 1  # bits that the hardware does not read, set beside a zero and an infinity
    read_as_others = {ignored, fmt.infinity | ignored, fmt.infinity | 1, fmt.canonical_nan & (fmt.sign_bit - 1)}
    positive = tuple(sorted({m << fmt.ignored_bits for m in magnitudes} | read_as_others))
    return positive + tuple(c | fmt.sign_bit for c in positive)
