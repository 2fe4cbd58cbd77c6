"""Numbers taken apart: one code decoded, exact sums rounded with every dropped bit named, text in and out.

Everything is Python integers: a value is ``integer * 2^unit``, exactly. Written apart from `formats.round_pack`, from
the definition of the formats alone, so that an explanation is an opinion of its own (a test compares the two).

Rules
 1. R1 of design.md 4.1: a subnormal has the exponent of the smallest normal and no hidden bit; tf32 does not read its
    low 13 bits.
 2. A rounding keeps `fraction_bits` places below the leading one, but none below the smallest subnormal; ``rn`` goes
    to the nearest, ties to even, ``rz`` toward zero. What lies beyond the largest finite number is an infinity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from ..errors import UsageError
from ..formats import F32, FORMATS, TF32, Format

#: Most k of a dot that is explained: some 20 s of Python integers.
MAX_K = 1 << 16


@dataclass(frozen=True)
class Number:
    """A decoded code. kind: zero, subnormal, normal, infinity or nan; ``significand * 2^unit`` where it is finite.

    exponent: the place of the hidden bit (of the smallest normal number for subnormals and zero).
    """

    format: str
    code: int
    kind: str
    negative: bool
    exponent: int
    significand: int

    @property
    def unit(self) -> int:
        """Exponent of the significand's lowest place."""
        return self.exponent - FORMATS[self.format].fraction_bits

    @property
    def finite(self) -> bool:
        return self.kind not in ("infinity", "nan")

    @property
    def hex(self) -> str:
        return f"{self.code:0{FORMATS[self.format].bits // 4}x}"

    @property
    def text(self) -> str:
        """The value in decimal, as few digits as name the code."""
        return decimal_text(self)

    def __str__(self) -> str:
        return f"{self.hex} ({self.text})"


def decode(code: int, fmt: Format) -> Number:
    """R1. `formats.F32` on a tf32 word decodes all of its bits."""
    kept = code >> fmt.ignored_bits
    fraction = kept & ((1 << fmt.fraction_bits) - 1)
    field = kept >> fmt.fraction_bits & ((1 << fmt.exponent_bits) - 1)
    negative = bool(code >> (fmt.bits - 1) & 1)
    if field == (1 << fmt.exponent_bits) - 1:
        return Number(fmt.name, code, "nan" if fraction else "infinity", negative, fmt.emax + 1, fraction)
    if field == 0:
        return Number(fmt.name, code, "subnormal" if fraction else "zero", negative, fmt.emin, fraction)
    return Number(fmt.name, code, "normal", negative, field - fmt.bias, fraction | 1 << fmt.fraction_bits)


@dataclass(frozen=True)
class Rounding:
    """How an exact value became a code.

    leading: place of its leading one (None for zero). last: place of the result's lowest bit. kept: the result's
    significand in units of 2^last, before the rounding moved it. dropped: what lay below, in units of 2^unit, and how
    many places that is. direction: ``exact``, ``toward zero``, ``away from zero``, ``overflow`` or ``flushed``. tie:
    half exactly.
    """

    mode: str
    negative: bool
    unit: int
    leading: int | None
    last: int
    kept: int
    dropped: int
    places: int
    direction: str
    tie: bool
    code: int


def round_exact(
    total: int, unit: int, fmt: Format, mode: str = "rn", *, negative_zero: bool = False, flush: bool = False
) -> Rounding:
    """``total * 2^unit`` rounded once to a format. A zero total has the sign that `negative_zero` says.

    flush: .FTZ: rounded as if the exponent had no end; what is below the smallest normal number then is zero of its
    sign.
    """
    negative, magnitude = total < 0, abs(total)
    if magnitude == 0:
        sign = fmt.sign_bit if negative_zero else 0
        return Rounding(mode, negative_zero, unit, None, fmt.emin - fmt.fraction_bits, 0, 0, 0, "exact", False, sign)
    leading = magnitude.bit_length() - 1 + unit
    last = (leading if flush else max(leading, fmt.emin)) - fmt.fraction_bits
    places = max(last - unit, 0)
    kept, dropped = magnitude >> places, magnitude & ((1 << places) - 1)
    kept <<= max(unit - last, 0)
    half = 1 << (places - 1) if places else 0
    tie = bool(places) and dropped == half
    up = mode == "rn" and bool(places) and (dropped > half or (tie and kept & 1 == 1))
    tiny = flush and (kept + up) << max(last - fmt.emin, 0) < 1 << max(fmt.emin - last, 0)
    code = 0 if tiny else magnitude_code(kept + up, last, fmt)
    direction = "exact" if not dropped else "away from zero" if up else "toward zero"
    if tiny:
        direction = "flushed"
    elif code >= fmt.infinity:
        code, direction = fmt.infinity, "overflow"
    sign = fmt.sign_bit if negative else 0
    return Rounding(mode, negative, unit, leading, last, kept, dropped, places, direction, tie, code | sign)


def magnitude_code(significand: int, last: int, fmt: Format) -> int:
    """Code of ``significand * 2^last``, whose significand has at most one bit too many (a carry); may pass infinity."""
    if significand >> (fmt.fraction_bits + 1):
        assert significand & 1 == 0, significand
        significand, last = significand >> 1, last + 1
    hidden = significand >> fmt.fraction_bits
    field = (last + fmt.fraction_bits + fmt.bias) if hidden else 0
    if field >= (1 << fmt.exponent_bits) - 1:
        return fmt.infinity
    return ((field << fmt.fraction_bits) | (significand & ((1 << fmt.fraction_bits) - 1))) << fmt.ignored_bits


def infinity(negative: bool, fmt: Format) -> int:
    return fmt.infinity | (fmt.sign_bit if negative else 0)


def fraction_of(number: Number) -> Fraction:
    """The exact value of a finite number."""
    return Fraction(-number.significand if number.negative else number.significand) * Fraction(2) ** number.unit


def round_fraction(value: Fraction, fmt: Format, mode: str = "rn") -> int:
    """Code of a rational, rounded once; zero is +0."""
    if value == 0:
        return 0
    # enough places below the result's last, and the rest sticky
    size = abs(value.numerator).bit_length() - value.denominator.bit_length()
    unit = max(size - fmt.fraction_bits, fmt.emin - fmt.fraction_bits) - 8
    scaled = abs(value) / Fraction(2) ** unit
    whole = scaled.numerator // scaled.denominator
    whole = whole << 1 | (whole * scaled.denominator != scaled.numerator)
    return round_exact(-whole if value < 0 else whole, unit - 1, fmt, mode).code


def steps_between(a: int, b: int, fmt: Format) -> int | None:
    """Representable steps from b to a (positive: a is farther up); None where one is a NaN."""
    x, y = decode(a, fmt), decode(b, fmt)
    if x.kind == "nan" or y.kind == "nan":
        return None
    return _order(a, fmt) - _order(b, fmt)


def _order(code: int, fmt: Format) -> int:
    magnitude = (code & (fmt.sign_bit - 1)) >> fmt.ignored_bits
    return -magnitude if code & fmt.sign_bit else magnitude


# --- text ------------------------------------------------------------------------------------------------------------


def decimal_text(number: Number) -> str:
    """Decimal value of a number, the shortest that rounds back to it."""
    if number.kind == "nan":
        return "nan"
    sign = "-" if number.negative else ""
    if number.kind == "infinity":
        return f"{sign}inf"
    if number.kind == "zero":
        return f"{sign}0"
    fmt = FORMATS[number.format]
    exact = float(abs(fraction_of(number)))
    for digits in range(1, 18):
        text = f"{exact:.{digits}g}"
        if round_fraction(Fraction(text), fmt) == number.code & (fmt.sign_bit - 1) & ~((1 << fmt.ignored_bits) - 1):
            return sign + repr(float(text)).removesuffix(".0")
    return sign + repr(exact)


def value_text(code: int, fmt: Format) -> str:
    """``3f800000 (1)``."""
    return str(decode(code, fmt)) if fmt.is_float else f"{code:0{fmt.bits // 4}x} ({integer_value(code, fmt)})"


def integer_value(code: int, fmt: Format) -> int:
    """An integer code as a value."""
    return code - (1 << fmt.bits) if fmt.kind == "signed" and code >> (fmt.bits - 1) else code


@dataclass(frozen=True)
class Read:
    """A code that a user wrote, and what should be said about how it was read."""

    code: int
    note: str = ""


def read_number(text: str, fmt: Format) -> Read:
    """A user's number as a code: hexadecimal of the format's full width (``3c00``) or with 0x, else decimal.

    A decimal for a tf32 operand fills the whole 32-bit register. Digits alone are a decimal where the format is an
    integer's. UsageError for what is neither. A note where the decimal is no number of the format, or where a code of
    digits only could be taken for a decimal.
    """
    word = text.strip().lower()
    digits = max(1, fmt.bits // 4)
    bare = re.fullmatch(rf"[0-9a-f]{{{digits}}}", word) and not (fmt.is_integer and word.isdigit())
    if re.fullmatch(r"0x[0-9a-f]+", word) or bare:
        code = int(word, 16)
        if code >> fmt.bits:
            raise UsageError(f"{text}: a code of {fmt.name} has {fmt.bits} bits ({digits} hexadecimal digits)")
        if re.fullmatch(r"[1-9]\d*(e\d+)?", word):
            decimal = word.replace("e", ".0e") if "e" in word else f"{word}.0"
            return Read(
                code, f"{text} was read as the code 0x{word}, {value_text(code, fmt)}; the decimal is {decimal}"
            )
        return Read(code)
    if not fmt.is_float:
        return _read_integer(text, fmt)
    fmt = F32 if fmt is TF32 else fmt  # a decimal fills the register; R1 says what is read of it
    if word.lstrip("+-") in ("inf", "infinity", "nan"):
        return Read(fmt.canonical_nan if "nan" in word else infinity(word.startswith("-"), fmt))
    try:
        value = Fraction(word)
    except (ValueError, ZeroDivisionError):
        raise UsageError(
            f"{text}: neither a decimal (1.5, -2e-3, 1/3, inf) nor a code of {fmt.name} "
            f"({digits} hexadecimal digits, or 0x...)"
        ) from None
    code = round_fraction(value, fmt)
    code |= fmt.sign_bit if word.startswith("-") else 0
    number = decode(code, fmt)
    if number.finite and fraction_of(number) == value:
        return Read(code)
    return Read(code, f"{text} is no {fmt.name}; the nearest is {number}")


def _read_integer(text: str, fmt: Format) -> Read:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{text}: neither an integer nor a code of {fmt.name} (0x...)") from None
    if not fmt.lowest_integer <= value <= fmt.largest:
        raise UsageError(f"{text}: {fmt.name} holds {fmt.lowest_integer} to {fmt.largest}")
    return Read(value & ((1 << fmt.bits) - 1))


def read_vector(text: str, fmt: Format, length: int | None = None) -> tuple[list[int], list[str]]:
    """Codes along k in the notation of the corner vectors: ``3c00*8,0c00@9``; +0 where none is named, ``-`` for none.

    length: how many k there are at least; None: as many as are named. Returns the codes and the notes.
    """
    codes: dict[int, int] = {}
    notes: list[str] = []
    at = 0
    for item in re.split(r"[,\s]+", text.strip()) if text.strip() not in ("-", "") else ():
        if not item:
            continue
        word, mark, place = item.partition("@")
        word, times, count = word.partition("*")
        if (mark and not place.isdigit()) or (times and not count.isdigit()):
            raise UsageError(f"{item}: expected NUMBER, NUMBER*COUNT, NUMBER@K or NUMBER*COUNT@K")
        at = int(place) if mark else at
        if at + (int(count) if times else 1) > MAX_K:
            raise UsageError(f"{item}: k ends at {MAX_K} here; explain a part of the dot")
        read = read_number(word, fmt)
        if read.note and read.note not in notes:
            notes.append(read.note)
        for _ in range(int(count) if times else 1):
            codes[at] = read.code
            at += 1
    size = max([length or 0, *(k + 1 for k in codes)])
    return [codes.get(k, 0) for k in range(size)], notes


def operand_format(fmt: Format, ignore: bool) -> Format:
    """The format that a word is decoded in: tf32 as f32 where its low bits are not ignored."""
    return F32 if fmt is TF32 and not ignore else fmt
