"""Tensor cores (HMMA) on integers: the rules as device code, in straight-line form and in the recorded loop form.

Twin of `reference/tensor.py`; rules R1 to R10 of design.md 4.1, by the names used below:

R1 operands: subnormals kept with the exponent of the smallest normal; tf32 ignores its low 13 bits.
R2 a product keeps its unnormalised significand; its exponent is the sum of the operands'.
R3 E is the largest exponent of the nonzero products and the nonzero addend; a zero takes no part.
R4 E is raised to the floor.
R5 each term is truncated toward zero to a multiple of 2^(E - F).
R6 the truncated terms are summed exactly.
R7 f32: truncated to 24 bits, overflow to infinity; f16: rounded to nearest even once.
R8 a zero result is +0.
R9 any NaN, inf * 0, or infinities of both signs give the canonical NaN; else an infinity stays.
R10 groups chain along ascending k.

Positive and negative terms are summed apart: 16 products below 2^27 and an addend below 2^26 stay below 2^32, while
their signed sum would not fit a signed word (sm_90: F = 25, width 16). Nothing here needs a float or a 64-bit
integer, so this is what runs where the device's floats are not to be trusted; `tensor_float` and `tensor_wide` hold
the fast forms.

`emit_loops` is the shape of the decision record (docs/adr/0003): loops marked DontUnroll over a lane's outputs, over
the groups along k, over a group's terms for the largest exponent, over its terms for the aligned sum. A group's
inputs are loaded once, and decoded as they go into a per-invocation array; loop state lives in Function variables,
and there is no OpPhi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...formats import F32, FORMATS, Format
from ...isa import Arch, Instruction
from ...spirv.builder import DONT_UNROLL, Builder, Value

#: Exponent of a zero: below every floor, so that it never sets E (R3).
NO_EXPONENT = -(1 << 14)
SIGN = 0x80000000
FLAG_NAN, FLAG_PLUS, FLAG_MINUS = 1, 2, 4


@dataclass(frozen=True)
class Rules:
    """The numbers of one HMMA on one architecture: formats, k, products per group, F, lowest group exponent."""

    operand: Format
    result: Format
    k: int
    width: int
    fraction_bits: int
    floor: int

    @property
    def largest_sum(self) -> int:
        """A bound on the magnitude of a group's sum, in units of 2^(E - F)."""
        significand = (2 << self.operand.fraction_bits) - 1
        product = significand * significand << (self.fraction_bits - 2 * self.operand.fraction_bits)
        return self.width * product + (2 << self.fraction_bits)


def rules(instruction: Instruction, arch: Arch) -> Rules:
    """The row's formats and k with the architecture's numbers."""
    options = instruction.keywords
    operand, result, k = FORMATS[str(options["operand"])], FORMATS[str(options["result"])], int(str(options["k"]))
    found = Rules(operand, result, k, arch.width(operand.name, k), arch.fraction_bits, arch.floor(result.name))
    assert found.largest_sum < 1 << 32, found
    return found


def group_width(instruction: Instruction, arch: Arch) -> int:
    """Products per group."""
    return rules(instruction, arch).width


# ---- operands and terms ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """A decoded code (R1): sign in bit 31, nominal exponent, significand with `fraction_bits` of its format."""

    sign: Value
    exponent: Value
    significand: Value
    nan: Value
    infinite: Value


@dataclass(frozen=True)
class Term:
    """A product or the addend: sign in bit 31, exponent (NO_EXPONENT for a zero), significand, FLAG_* where special."""

    sign: Value
    exponent: Value
    significand: Value
    flags: Value


def decode(e: Builder, code: Value, fmt: Format) -> Operand:
    """R1."""
    code = code >> fmt.ignored_bits if fmt.ignored_bits else code
    width = fmt.bits - fmt.ignored_bits
    top = (1 << fmt.exponent_bits) - 1
    field = (code >> fmt.fraction_bits) & top
    fraction = code & ((1 << fmt.fraction_bits) - 1)
    hidden = e.select(field.eq(0), e.u32(0), e.u32(1 << fmt.fraction_bits))
    exponent = e.max(field, 1).i - fmt.bias
    special = field.eq(top)
    empty = fraction.eq(0)
    sign = (code << (32 - width)) & SIGN
    return Operand(sign, exponent, fraction | hidden, special & ~empty, special & empty)


def product(e: Builder, a: Operand, b: Operand) -> Term:
    """R2, and R9 for one product."""
    significand = a.significand * b.significand
    sign = a.sign ^ b.sign
    empty = significand.eq(0)
    infinite = a.infinite | b.infinite
    nan = a.nan | b.nan | (infinite & empty)
    exponent = e.select(empty, e.i32(NO_EXPONENT), a.exponent + b.exponent)
    return Term(sign, exponent, significand, _flags(e, nan, infinite, sign))


def addend(e: Builder, code: Value, fmt: Format) -> Term:
    """The accumulator as a term."""
    c = decode(e, code, fmt)
    exponent = e.select(c.significand.eq(0), e.i32(NO_EXPONENT), c.exponent)
    return Term(c.sign, exponent, c.significand, _flags(e, c.nan, c.infinite, c.sign))


def _flags(e: Builder, nan: Value, infinite: Value, sign: Value) -> Value:
    signed = e.select(sign.eq(0), e.u32(FLAG_PLUS), e.u32(FLAG_MINUS))
    return e.select(nan, e.u32(FLAG_NAN), e.select(infinite, signed, e.u32(0)))


def aligned(
    e: Builder, sign: Value, exponent: Value, significand: Value, top: Value, shift: int
) -> tuple[Value, Value]:
    """R5: a term's magnitude in units of 2^(E - F), as (positive part, negative part)."""
    magnitude = (significand << shift) >> e.min((top - exponent).u, 31)
    zero = e.u32(0)
    negative = sign.ne(0)
    return e.select(negative, zero, magnitude), e.select(negative, magnitude, zero)


# ---- results -----------------------------------------------------------------------------------------------------


def finish(e: Builder, r: Rules, positive: Value, negative: Value, top: Value, flags: Value) -> Value:
    """R6 to R9: the code of a group's result."""
    below = positive < negative
    total = e.select(below, negative - positive, positive - negative)
    code = normalise(e, r, total, top - r.fraction_bits)
    sign = e.u32(r.result.sign_bit)
    code = e.select(below & code.ne(0), code | sign, code)  # R8
    minus = e.u32(r.result.infinity | r.result.sign_bit)
    special = e.select((flags & FLAG_MINUS).ne(0), minus, e.u32(r.result.infinity))
    both = FLAG_PLUS | FLAG_MINUS
    nan = (flags & FLAG_NAN).ne(0) | (flags & both).eq(both)
    special = e.select(nan, e.u32(r.result.canonical_nan), special)
    return e.select(flags.eq(0), code, special)


def normalise(e: Builder, r: Rules, total: Value, unit: Value) -> Value:
    """R7: the code of total * 2^unit, without sign; subnormal results kept, overflow to infinity."""
    fmt = r.result
    exponent = e.find_msb(total).i + unit
    lowest = e.max(exponent - fmt.fraction_bits, fmt.emin - fmt.fraction_bits)  # exponent of the result's last place
    right = lowest - unit
    left = e.max(-right, 0).u
    right = e.max(right, 0).u
    kept = (total >> right) << left
    if fmt is not F32:
        lost = total - (total >> right << right)
        # To nearest even: up where what is lost is above half a unit, or half a unit beside an odd digit.
        twice = (lost << 1) + (kept & 1)
        kept = e.select(twice > (e.u32(1) << right), kept + 1, kept)
    # The hidden bit adds one to the exponent field, and so does a carry out of rounding.
    field = (e.max(exponent, fmt.emin) - fmt.emin).u
    code = e.min((field << fmt.fraction_bits) + kept, fmt.infinity)
    code = e.select(exponent > fmt.emax, e.u32(fmt.infinity), code)
    return e.select(total.eq(0), e.u32(0), code)


# ---- straight-line form ------------------------------------------------------------------------------------------


def group(e: Builder, r: Rules, a: Sequence[Operand], b: Sequence[Operand], code: Value) -> Value:
    """One group without loops: the next accumulator code."""
    terms = [product(e, x, y) for x, y in zip(a, b, strict=True)]
    c = addend(e, code, r.result)
    top = e.max(c.exponent, r.floor)
    flags = c.flags
    for term in terms:
        top = e.max(top, term.exponent)  # R3
        flags = flags | term.flags
    positive, negative = aligned(e, c.sign, c.exponent, c.significand, top, r.fraction_bits - r.result.fraction_bits)
    shift = r.fraction_bits - 2 * r.operand.fraction_bits
    for term in terms:
        plus, minus = aligned(e, term.sign, term.exponent, term.significand, top, shift)
        positive, negative = positive + plus, negative + minus
    return finish(e, r, positive, negative, top, flags)


class IntegerCore:
    """A contraction core (`chains`) on integers only: exact on any device, the last choice for speed."""

    form = "integer"
    outputs = 4

    def __init__(self, r: Rules) -> None:
        self.rules, self.width = r, r.width

    def operand(self, e: Builder, code: Value, side: int | None = None) -> tuple[Value, ...]:
        """Decoding is cheap beside the rest, so an operand is its code: one word to shuffle."""
        return (code,)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[tuple[Value, ...]]:
        """Elements of a 32-bit word, ascending."""
        if self.rules.operand.bits == 32:
            return [(word,)]
        return [(word & 0xFFFF,), (word >> 16,)]

    def seed(self, e: Builder, code: Value) -> tuple[Value, ...]:
        return (code,)

    def step(
        self, e: Builder, acc: tuple[Value, ...], a: Sequence[tuple[Value, ...]], b: Sequence[tuple[Value, ...]]
    ) -> tuple[Value, ...]:
        r = self.rules
        x = [decode(e, code, r.operand) for (code,) in a]
        y = [decode(e, code, r.operand) for (code,) in b]
        return (group(e, r, x, y, acc[0]),)

    def result(self, e: Builder, acc: tuple[Value, ...]) -> Value:
        return acc[0]


# ---- the recorded loop form --------------------------------------------------------------------------------------

Load = Callable[[Value, Value], Value]


def loops_trips(instruction: Instruction, arch: Arch, outputs: int, groups: int) -> int:
    """Loop trips that one invocation of `emit_loops` makes; lavapipe stops an invocation at 65,535."""
    return outputs * (1 + groups * (1 + 2 * group_width(instruction, arch)))


def emit_loops(
    e: Builder,
    instruction: Instruction,
    arch: Arch,
    outputs: int | Value,
    groups: int | Value,
    load_a: Load,
    load_b: Load,
    load_c: Callable[[Value], Value],
    store: Callable[[Value, Value], None],
) -> None:
    """`outputs` chains of `groups` groups each (both at least 1), for one invocation, as four DontUnroll loops.

    load_a(output, k), load_b(output, k): operand codes; load_c(output): the seed's code; store(output, code).
    `output` and `k` are u32 indices, `k` from 0 to groups * width - 1.
    """
    r = rules(instruction, arch)
    state = _LoopState(e, r)

    def per_output(output: Value) -> None:
        state.code.store(load_c(output))

        def per_group(g: Value) -> None:
            _loop_group(e, r, state, output, g * r.width, load_a, load_b)

        _loop(e, groups, per_group)
        store(output, state.code.load())

    _loop(e, outputs, per_output)


class _LoopState:
    """Function variables and the per-invocation array of the loop form."""

    def __init__(self, e: Builder, r: Rules) -> None:
        self.code = e.variable("u32")
        self.top = e.variable("i32")
        self.flags = e.variable("u32")
        self.positive = e.variable("u32")
        self.negative = e.variable("u32")
        self.significands = e.array("u32", r.width)  # sign in bit 31
        self.exponents = e.array("i32", r.width)


def _loop_group(e: Builder, r: Rules, s: _LoopState, output: Value, k: Value, load_a: Load, load_b: Load) -> None:
    c = addend(e, s.code.load(), r.result)
    s.top.store(e.max(c.exponent, r.floor))
    s.flags.store(c.flags)

    def largest(i: Value) -> None:
        x, y = (decode(e, load(output, k + i), r.operand) for load in (load_a, load_b))
        term = product(e, x, y)
        s.significands.store(i, term.significand | term.sign)
        s.exponents.store(i, term.exponent)
        s.flags.store(s.flags.load() | term.flags)
        s.top.store(e.max(s.top.load(), term.exponent))

    _loop(e, r.width, largest)
    top = s.top.load()
    plus, minus = aligned(e, c.sign, c.exponent, c.significand, top, r.fraction_bits - r.result.fraction_bits)
    s.positive.store(plus)
    s.negative.store(minus)

    def add(i: Value) -> None:
        word = s.significands.load(i)
        shift = r.fraction_bits - 2 * r.operand.fraction_bits
        plus, minus = aligned(e, word & SIGN, s.exponents.load(i), word & (SIGN - 1), top, shift)
        s.positive.store(s.positive.load() + plus)
        s.negative.store(s.negative.load() + minus)

    _loop(e, r.width, add)
    s.code.store(finish(e, r, s.positive.load(), s.negative.load(), top, s.flags.load()))


def _loop(e: Builder, count: int | Value, body: Callable[[Value], None]) -> None:
    """`body(i)` for i below count (at least 1): bottom-tested, DontUnroll, also for a single trip."""
    counter = e.variable("u32", 0)

    def trip() -> Value:
        i = counter.load()
        body(i)
        following = i + 1
        counter.store(following)
        return following < count

    e.do_while(trip, DONT_UNROLL)
