"""Operands that tell a right instruction from a nearly right one: the inputs of the probe, of tests and of
verification.

Deterministic for a row, a count and a seed, on every machine and version of numpy: the numbers come from a counter
through splitmix64 (S. Vigna's finaliser), never from numpy's generators, and float arithmetic is not used.

Classes of values: special values of the format; raw random bits; random near one; few significand bits, any exponent
(ties, exact products); the neighbourhood of subnormals. Classes of operand tuples: independent; cancellation (the last
operand is minus the result, or next to it); alignment (exponents apart by about the significand's width, so that the
last bits decide); results at the edge of the subnormal or of the largest numbers; for conversions, values around the
target's limits and ties.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..formats import FORMATS, S32, Codes, Format, dtype_of
from ..isa import Instruction

Words = NDArray[np.uint64]


class Source:
    """A stream of random words named by a text and a seed."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.state = np.uint64(zlib.crc32(name.encode()) << 32 | (seed * 2654435761) & 0xFFFFFFFF)

    def words(self, count: int) -> Words:
        """`count` random 64-bit words."""
        with np.errstate(over="ignore"):
            z = self.state + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
            self.state = z[-1] if count else self.state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def below(self, limit: int, count: int) -> NDArray[np.int64]:
        """`count` integers in [0, limit)."""
        return (self.words(count) % np.uint64(limit)).astype(np.int64)


def hard(instruction: Instruction, count: int, seed: int = 0) -> list[Codes]:
    """`count` operand tuples of an elementwise row, one array of codes per operand."""
    source = Source(instruction.key, seed)
    formats = [fmt or S32 for fmt in instruction.operands]
    parts = [_independent(source, formats, count - count // 2)]
    rest = count - count // 2
    make = _BY_FUNCTION.get(instruction.function)
    parts.append(make(source, instruction, count - rest) if make else _independent(source, formats, count - rest))
    return [np.concatenate(columns) for columns in zip(*parts)]


# ---- single values -----------------------------------------------------------------------------------------------


def values(source: Source, fmt: Format, count: int) -> Codes:
    """Codes of all classes of single values, mixed."""
    if fmt.bits == 1:
        return source.below(2, count).astype(np.bool_)
    specials = np.array(special_codes(fmt), np.uint64)
    chosen = specials[source.below(len(specials), count)]
    columns = [chosen, source.words(count)]
    if fmt.is_float:
        columns += [near_one(source, fmt, count), few_bits(source, fmt, count), small(source, fmt, count)]
    else:
        columns += [_small_integers(source, count)]
    return _code(_mixed(source, columns, count), fmt)


def special_codes(fmt: Format) -> tuple[int, ...]:
    """Zeros, edges of the subnormal and the normal range, ones, ends of the integers, infinities, NaN of every kind.

    Kept apart from `formats.special_values`, which may grow: a change here makes the probe's digests stale.
    """
    top = 1 << (fmt.bits - 1)
    if not fmt.is_float:
        positive = [0, 1, 2, 3, 7, 0x55, top - 2, top - 1]
        return tuple(sorted({code & (2 * top - 1) for x in positive for code in (x, -x, ~x)}))
    hidden, one = 1 << fmt.fraction_bits, fmt.bias << fmt.fraction_bits
    infinity = fmt.infinity >> fmt.ignored_bits
    magnitudes = {
        0, 1, 2, 3, hidden // 2, hidden - 1, hidden, hidden + 1, 2 * hidden - 1, 2 * hidden,
        one - hidden, one - 1, one, one + 1, one + hidden // 2, one + hidden // 2 + 1, one + hidden,
        one + fmt.fraction_bits * hidden, one + (fmt.fraction_bits + 1) * hidden,
        infinity - hidden, infinity - 1, infinity, infinity + 1, infinity + hidden // 2, infinity + hidden // 2 + 3,
        (top >> fmt.ignored_bits) - 1,
    }  # fmt: skip
    positive = [m << fmt.ignored_bits for m in sorted(magnitudes)]
    return tuple(positive + [code | top for code in positive])


def _code(words: Words, fmt: Format) -> Codes:
    return (words & np.uint64((1 << fmt.bits) - 1)).astype(dtype_of(fmt))


def _mixed(source: Source, columns: list[Words], count: int) -> Words:
    return np.stack(columns)[source.below(len(columns), count), np.arange(count)]


def _join(fmt: Format, sign: Words, field: Words, fraction: Words) -> Words:
    """Sign (lowest bit), biased exponent and fraction as a word; bits that the hardware ignores are zero."""
    mask = np.uint64((1 << fmt.fraction_bits) - 1)
    word = (sign & np.uint64(1)) << np.uint64(fmt.exponent_bits) | field
    return (word << np.uint64(fmt.fraction_bits) | fraction & mask) << np.uint64(fmt.ignored_bits)


def near_one(source: Source, fmt: Format, count: int) -> Words:
    """Random significands, exponents -2 to 2."""
    field = source.below(5, count).astype(np.uint64) + np.uint64(fmt.bias - 2)
    return _join(fmt, source.words(count), field, source.words(count))


def few_bits(source: Source, fmt: Format, count: int) -> Words:
    """One to three significand bits set (or all but those), any exponent."""
    field = source.below((1 << fmt.exponent_bits) - 1, count).astype(np.uint64)
    return _join(fmt, source.words(count), field, _sparse(source, fmt, count))


def _sparse(source: Source, fmt: Format, count: int) -> Words:
    fraction = np.zeros(count, np.uint64)
    for _ in range(3):
        fraction |= np.uint64(1) << source.below(fmt.fraction_bits, count).astype(np.uint64)
    return np.where(source.below(4, count) == 0, ~fraction, fraction)


def small(source: Source, fmt: Format, count: int) -> Words:
    """Subnormals and numbers near them."""
    field = source.below(4, count).astype(np.uint64) // np.uint64(2)
    fraction = source.words(count) >> source.below(64, count).astype(np.uint64)
    return _join(fmt, source.words(count), field, fraction)


def _small_integers(source: Source, count: int) -> Words:
    """Random magnitudes of every length, of both signs."""
    size = source.words(count) >> source.below(64, count).astype(np.uint64)
    return np.where(source.below(2, count) == 0, size, np.uint64(0) - size)


def _independent(source: Source, formats: list[Format], count: int) -> list[Codes]:
    return [values(source, fmt, count) for fmt in formats]


# ---- tuples ------------------------------------------------------------------------------------------------------


def _fields(fmt: Format, codes: Words) -> tuple[NDArray[np.int64], Words]:
    """(biased exponent, fraction) of words."""
    field = (codes >> np.uint64(fmt.fraction_bits)) & np.uint64((1 << fmt.exponent_bits) - 1)
    return field.astype(np.int64), codes & np.uint64((1 << fmt.fraction_bits) - 1)


def _with_field(source: Source, fmt: Format, field: NDArray[np.int64], sparse: bool = False) -> Words:
    """Random or sparse significands with the exponent field given, kept inside the finite ones."""
    count = field.size
    inside = np.clip(field, 0, (1 << fmt.exponent_bits) - 2).astype(np.uint64)
    fraction = _sparse(source, fmt, count) if sparse else source.words(count)
    return _join(fmt, source.words(count), inside, fraction)


def _finite(source: Source, fmt: Format, count: int) -> Words:
    """Random or sparse significands, exponents over the whole finite range."""
    field = source.below((1 << fmt.exponent_bits) - 1, count)
    halves = np.arange(count) % 2 == 0
    return np.where(halves, _with_field(source, fmt, field), _with_field(source, fmt, field, sparse=True))


def _sums(source: Source, instruction: Instruction, count: int) -> list[Codes]:
    """Pairs next to each other in size (cancellation), or apart by about the significand's width (the last bit)."""
    fmt = instruction.operands[0]
    assert fmt is not None
    a = _finite(source, fmt, count)
    field, _ = _fields(fmt, a)
    flip = source.words(count) << np.uint64(fmt.bits - 1)
    near = (a + source.below(5, count).astype(np.uint64) - np.uint64(2)) ^ flip
    apart = _with_field(source, fmt, field - fmt.fraction_bits + source.below(5, count) - 3, sparse=True)
    columns = [_code(a, fmt), _code(np.where(source.below(2, count) == 0, near, apart), fmt)]
    swap = source.below(2, count) == 0
    return [np.where(swap, *columns), np.where(swap, *columns[::-1])]


def _products(source: Source, instruction: Instruction, count: int) -> list[Codes]:
    """Products at the edges of the range and at ties."""
    fmt = instruction.operands[0]
    assert fmt is not None
    a = _finite(source, fmt, count)
    b = _partner(source, fmt, a, +1)
    kind = source.below(8, count)
    for wanted, make in ((0, _tie_factors), (1, _tie_factors), (2, _nearly_normal_factors)):
        x, y = make(source, fmt, count)
        a, b = np.where(kind == wanted, x, a), np.where(kind == wanted, y, b)
    return [_code(a, fmt), _code(b, fmt)]


def _quotients(source: Source, instruction: Instruction, count: int) -> list[Codes]:
    """Quotients at the edges of the range, and of equal or similar operands."""
    fmt = instruction.operands[0]
    assert fmt is not None
    a = _finite(source, fmt, count)
    similar = a + source.below(5, count).astype(np.uint64) - np.uint64(2)
    edge = _partner(source, fmt, a, -1)
    return [_code(a, fmt), _code(np.where(source.below(4, count) == 0, similar, edge), fmt)]


def _partner(source: Source, fmt: Format, a: Words, direction: int) -> Words:
    """A factor (or divisor, -1) that brings the result near the smallest, the largest or a middling number."""
    field, _ = _fields(fmt, a)
    count = a.size
    wanted = np.stack([
        source.below(6, count) - fmt.fraction_bits - 3,  # below the smallest subnormal
        source.below(fmt.fraction_bits + 4, count) - fmt.fraction_bits,  # subnormal
        source.below(4, count) + (1 << fmt.exponent_bits) - 4,  # the largest
        source.below(9, count) + fmt.bias - 4,
    ])[source.below(4, count), np.arange(count)]  # fmt: skip
    partner = wanted - field + fmt.bias if direction > 0 else field - wanted + fmt.bias
    return np.where(
        source.below(2, count) == 0, _with_field(source, fmt, partner), _with_field(source, fmt, partner, sparse=True)
    )


def _fused(source: Source, instruction: Instruction, count: int) -> list[Codes]:
    """Addends that cancel the product but for its lower half, or that only break a tie far below it."""
    fmt = instruction.operands[0]
    assert fmt is not None
    a = _finite(source, fmt, count)
    b = _partner(source, fmt, a, +1)
    tie_a, tie_b = _tie_factors(source, fmt, count)
    tie = source.below(3, count) == 0
    a, b = np.where(tie, tie_a, a), np.where(tie, tie_b, b)
    nearly = source.below(8, count) == 0
    nearly_a, nearly_b = _nearly_normal_factors(source, fmt, count)
    a, b = np.where(nearly, nearly_a, a), np.where(nearly, nearly_b, b)
    (field_a, m_a), (field_b, m_b) = _fields(fmt, a), _fields(fmt, b)
    bits = fmt.fraction_bits
    hidden = np.uint64(1 << bits)
    # the leading bits of the product, as an addend of the other sign: what remains is its lower half
    half = bits + 1 - (bits + 1) // 2
    top = ((m_a | hidden) >> np.uint64(half)) * ((m_b | hidden) >> np.uint64(half))
    shift = 2 * bits - 2 * half - bits  # places between the product's fraction and the addend's
    carry = (top >> np.uint64(2 * bits - 2 * half + 1)).astype(np.int64)
    fraction = top << np.uint64(-shift) if shift < 0 else top >> np.uint64(shift)
    fraction = fraction >> carry.astype(np.uint64)
    field = field_a + field_b - fmt.bias + carry
    sign = ~(a ^ b) >> np.uint64(fmt.bits - 1)
    top_field = (1 << fmt.exponent_bits) - 2
    cancel = _join(fmt, sign, np.clip(field, 0, top_field).astype(np.uint64), fraction)
    cancel = cancel + source.below(3, count).astype(np.uint64)
    far = _with_field(source, fmt, field - source.below(3 * bits + 20, count), sparse=True)
    c = np.where(tie | (source.below(2, count) == 0), far, cancel)
    c = np.where(nearly, source.words(count) << np.uint64(fmt.bits - 1), c)  # a zero
    return [_code(a, fmt), _code(b, fmt), _code(c, fmt)]


def _tie_factors(source: Source, fmt: Format, count: int) -> tuple[Words, Words]:
    """Factors (1 + 2^-i) and (1 + 2^-j) whose product ends exactly one place below the significand."""
    bits = fmt.fraction_bits
    i = source.below(bits - 1, count) + 1
    j = bits + 1 - i
    spread = source.below(9, count) - 4
    one = np.uint64(1)
    a = _join(fmt, source.words(count), (spread + fmt.bias).astype(np.uint64), one << (bits - i).astype(np.uint64))
    low = source.below(8, count) == 0  # some of them with results that are subnormal
    field = np.where(low, 2 - spread, spread + fmt.bias)
    field = np.maximum(field, 0)
    b = _join(fmt, source.words(count), field.astype(np.uint64), one << (bits - j).astype(np.uint64))
    return a, b


def _nearly_normal_factors(source: Source, fmt: Format, count: int) -> tuple[Words, Words]:
    """Factors whose product is less than one subnormal place below the smallest normal number, so that it rounds to it.

    A device that flushes may do so before it rounds.
    """
    places = np.uint64((1 << fmt.fraction_bits) - 1)
    field = source.below(fmt.bias - 1, count) + 1
    a = _join(fmt, source.words(count), field.astype(np.uint64), places - source.below(2, count).astype(np.uint64))
    b = _join(fmt, source.words(count), (fmt.bias - field).astype(np.uint64), np.zeros(count, np.uint64))
    return a, b


def _rounded(source: Source, instruction: Instruction, count: int) -> list[Codes]:
    """Floats whose integer part, or whose leading bits in the target format, end at or next to a tie."""
    options = instruction.keywords
    fmt = instruction.operands[0]
    assert fmt is not None
    target = FORMATS[str(options.get("target", fmt.name))]
    if target.is_float and target is not fmt:
        return [_code(_narrowing_ties(source, fmt, target, count), fmt)]
    around = np.array([0, 6, 7, 8, 14, 15, 16, 23, 24, 30, 31, 32, 51, 52, 53, 61, 62, 63, 64])
    field = around[source.below(len(around), count)] + fmt.bias - source.below(3, count)
    words = _with_field(source, fmt, field, sparse=True)
    # also right below a power of two, and halves
    step = source.below(5, count).astype(np.uint64) - np.uint64(2)
    return [_code(np.where(source.below(3, count) == 0, words, words + step), fmt)]


def _narrowing_ties(source: Source, fmt: Format, target: Format, count: int) -> Words:
    """Values halfway between two of the target, or next to such, over its whole range and a little beyond."""
    if fmt.fraction_bits <= target.fraction_bits:
        return _finite(source, fmt, count)
    span = (1 << target.exponent_bits) + 2 * target.fraction_bits
    exponent = source.below(span, count) - target.bias - target.fraction_bits - 2
    field = np.clip(exponent + fmt.bias, 0, (1 << fmt.exponent_bits) - 2)
    lost = fmt.fraction_bits - target.fraction_bits + np.clip(target.emin - exponent, 0, target.fraction_bits)
    tie = (source.words(count) | np.uint64(1)) << (np.minimum(lost, fmt.fraction_bits) - 1).astype(np.uint64)
    words = _join(fmt, source.words(count), field.astype(np.uint64), tie)
    return words + source.below(3, count).astype(np.uint64) - np.uint64(1)


def _integers(source: Source, instruction: Instruction, count: int) -> list[Codes]:
    """Integers of every length whose low bits make ties in a float format."""
    fmt = instruction.operands[0]
    assert fmt is not None
    target = FORMATS[str(instruction.keywords["target"])]
    length = source.below(fmt.bits, count)
    lost = np.clip(length - target.fraction_bits - 1 if target.is_float else length * 0, 0, 62).astype(np.uint64)
    head = (source.words(count) >> (np.uint64(63) - length.astype(np.uint64))) | np.uint64(1)
    tie = (head >> lost << lost) + (np.uint64(1) << lost) // np.uint64(2)
    words = tie + source.below(3, count).astype(np.uint64) - np.uint64(1)
    return [_code(np.where(source.below(2, count) == 0, words, np.uint64(0) - words), fmt)]


def _comparisons(source: Source, instruction: Instruction, count: int) -> list[Codes]:
    """Equal codes, neighbours, zeros of both signs."""
    fmt = instruction.operands[0]
    assert fmt is not None
    a = values(source, fmt, count).astype(np.uint64)
    near = a + source.below(3, count).astype(np.uint64) - np.uint64(1)
    other = np.where(source.below(3, count) == 0, a ^ np.uint64(fmt.sign_bit), near)
    return [_code(a, fmt), _code(other, fmt)]


def _roots(source: Source, instruction: Instruction, count: int) -> list[Codes]:
    """Squares and their neighbours, of 12-bit numbers at any exponent; subnormals."""
    fmt = instruction.operands[0]
    assert fmt is not None
    root = source.below(1 << 12, count) | 1 << 11
    square = root * root  # leading bit at 22 or 23
    bits = 22 + (square >> 23)
    fraction = (square << (fmt.fraction_bits - bits)).astype(np.uint64)
    even = source.below((1 << fmt.exponent_bits) // 2 - 2, count) * 2 + 1 + (bits & 1)
    words = _join(fmt, np.zeros(count, np.uint64), even.astype(np.uint64), fraction)
    return [_code(words + source.below(3, count).astype(np.uint64) - np.uint64(1), fmt)]


_BY_FUNCTION: dict[str, Callable[[Source, Instruction, int], list[Codes]]] = {
    **dict.fromkeys(("fadd", "fsub", "hadd2", "hsub2", "dadd", "dsub"), _sums),
    **dict.fromkeys(("fmul", "hmul2", "dmul"), _products),
    **dict.fromkeys(("ffma", "hfma2", "dfma"), _fused),
    **dict.fromkeys(("div_rn", "ddiv", "hdiv", "div_approx", "div_full", "rem", "hrem", "drem"), _quotients),
    **dict.fromkeys(("frnd", "f2f", "f2i", "low_byte"), _rounded),
    **dict.fromkeys(("i2f",), _integers),
    **dict.fromkeys(("fsetp", "fmax_select", "hsetp2", "hmax_select", "dsetp", "dmax_select"), _comparisons),
    **dict.fromkeys(("fmnmx", "hmnmx2", "isetp", "imnmx", "imax_select"), _comparisons),
    **dict.fromkeys(("sqrt_rn",), _roots),
}
