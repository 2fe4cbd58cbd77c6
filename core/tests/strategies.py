"""Hypothesis strategies on codes: they start from the special values, then subnormals, ties and cancellations."""

from __future__ import annotations

from hypothesis import strategies as st
from phobos_sim import formats
from phobos_sim.formats import F32, Format
from phobos_sim.isa import Instruction


def codes(fmt: Format) -> st.SearchStrategy[int]:
    """One operand."""
    special = st.sampled_from(formats.special_values(fmt))
    raw = st.integers(0, (1 << fmt.bits) - 1)
    if not fmt.is_float:
        return special | raw
    return special | _float(fmt, 0, 2) | _float(fmt, fmt.bias - 3, fmt.bias + 3) | _float(fmt, 1, 2 * fmt.bias) | raw


def _float(fmt: Format, low: int, high: int) -> st.SearchStrategy[int]:
    """Exponent field from a range, a significand of few bits (exact ties) or of many."""
    fraction = st.integers(0, (1 << fmt.fraction_bits) - 1)
    short = st.builds(lambda f, s: f >> s << s, fraction, st.integers(0, fmt.fraction_bits))
    return st.builds(
        lambda sign, e, f: (sign << (fmt.bits - 1)) | ((e << fmt.fraction_bits) | f) << fmt.ignored_bits,
        st.integers(0, 1), st.integers(low, high), short | fraction,
    )  # fmt: skip


@st.composite
def operands(draw: st.DrawFn, instruction: Instruction) -> tuple[int, ...]:
    """One tuple of operands; the last one is often made to cancel the first."""
    kinds = [fmt or F32 for fmt in instruction.operands]
    values = [draw(codes(fmt)) for fmt in kinds]
    if len(values) > 1 and kinds[0] == kinds[-1] and kinds[0].is_float and draw(st.booleans()):
        fmt = kinds[0]
        related = (values[0] ^ fmt.sign_bit * draw(st.integers(0, 1))) + draw(st.integers(-2, 2))
        values[-1] = related % (1 << fmt.bits)
        if len(values) == 3:
            values[1] = (fmt.bias << (fmt.fraction_bits + fmt.ignored_bits)) + draw(st.integers(-2, 2))
    return tuple(values)


def batches(instruction: Instruction, size: int = 8) -> st.SearchStrategy[list[tuple[int, ...]]]:
    """A few tuples at once: one call of the vectorised side per example."""
    return st.lists(operands(instruction), min_size=1, max_size=size)


@st.composite
def dots(draw: st.DrawFn, operand: Format, result: Format, k: int) -> tuple[list[int], list[int], int]:
    """One output element of a matrix instruction: a and b along k, and the addend.

    Exponents cluster, so that alignment, cancellation and the floor matter; some positions repeat with the sign
    flipped. Everything but the addend comes from one list of numbers (0 is a zero operand), which keeps drawing quick.
    """
    words = draw(st.lists(st.integers(0, (1 << 40) - 1), min_size=2 * k, max_size=2 * k))
    centre = draw(st.integers(1, 2 * operand.bias))
    a = [_operand(word, centre, operand) for word in words[:k]]
    b = [_operand(word, operand.bias, operand) for word in words[k:]]
    if draw(st.booleans()):
        i, j = draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))
        a[j], b[j] = a[i] ^ operand.sign_bit, b[i]
    return a, b, draw(st.just(0) | codes(result))


def _operand(word: int, centre: int, fmt: Format) -> int:
    """A code from 40 random bits: zero, near an exponent (mostly), a special value, or raw bits."""
    kind, sign, offset, bits = word & 15, word >> 4 & 1, word >> 5 & 15, word >> 9
    if kind == 0:
        return sign << (fmt.bits - 1)
    if kind == 1:
        specials = formats.special_values(fmt)
        return specials[bits % len(specials)]
    if kind == 2:
        return (bits << 1 | sign) % (1 << fmt.bits)
    exponent = min(max(centre + offset - 12, 0), 2 * fmt.bias)
    fraction = bits % (1 << fmt.fraction_bits) >> (offset if kind < 6 else 0) << (offset if kind < 6 else 0)
    return (sign << (fmt.bits - 1)) | ((exponent << fmt.fraction_bits) | fraction) << fmt.ignored_bits
