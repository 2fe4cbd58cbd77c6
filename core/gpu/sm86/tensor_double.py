"""HMMA with f16 operands and f32 results on f64 multiply-adds that round toward zero, for a block of outputs.

A group's sum is the low word of an f64 accumulator M + T with M = 2^(52 + E - F). The last place of such a number is
the unit 2^(E - F), so that a multiply-add which rounds toward zero truncates the product that it adds (R5). It adds
magnitudes: for a negative product T is complemented before and after, ~(~T + p) = T - p. A complement is an exclusive
or with a word of ones, and of two in a row one remains: the `turns`, where the sign differs from the last product's.

1. Magnitudes of f16 are exact with 11 bits in the high word and a low word of 0. A zero is held as 2^-127: its
   products, at most 2^-111, are below every unit.
2. T is below 2^31 in magnitude (`serves`), so its low word says all. What carries into the high word is the same in
   both numbers of the subtraction that takes M away.
3. Nominal exponents are small integers in f16 floats, two to a word: 1024 + e in a, e in b. The largest of their sums
   then has its value in its low bits, and -64 for a zero stays below every product of two others (R3).
4. Where all products are zero, E is -30 or the addend's own. The addend then stays as it is: it is 0, at least 2^-30,
   or the result of an earlier group, whose unit was 2^-53 or more. What else a seed may be is odd (`is_odd`).
5. T 2^(E - F) is exact in f64, and a mask leaves its 24 leading bits (R7). No finite sum is near f32's limits.
6. R9: as in `tensor_float`, the f32 sum of all terms tells what is infinite or NaN, where anything staged or seeded is.

A state is an f64 whose words are shifted from the f32 code's (`of_code`): every code has one, and comes back. All else
that a shader computes in f64 would round toward zero as well, so only one that has nothing else may do this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...formats import F16, F32
from ...spirv.builder import DONT_UNROLL, Builder, Value, Variable
from .tensor import SIGN, Rules
from .tensor_float import FloatCore, State, unpack_half

OFFSET = (1023 - 127) << 20  # between the exponent fields of f64 and f32, in a high word
FIELD = 0x7FF00000
KEPT = 0xE0000000  # of a low word: the last three bits of f32's fraction
LOWEST = -30  # of E
NOTHING = 0x6400  # 1024 in f16: no product
ZERO = 0x6380  # 960 in f16: 1024 - 64
LOW_HALVES = 0x00010001
MAGNITUDES = 0x7FFF7FFF  # of two f16 codes


class Lines(Protocol):
    """What is staged of one operand, for one group: of each of a block's rows or columns."""

    def exponents(self, j: int | Value) -> list[Value]:
        """f16x2 of the k's 2j and 2j + 1."""
        ...

    def magnitudes(self, k: int | Value) -> list[Value]:
        """High words of f64."""
        ...

    def turns(self, k: int | Value) -> list[Value]:
        """Ones where the sign is another than that of k - 1, or than plus for the first k."""
        ...

    def ends(self) -> list[Value]:
        """Ones where the last k's sign is minus; in a the top bit is the other way round."""
        ...


def serves(r: Rules) -> bool:
    return r.operand is F16 and r.result is F32 and r.largest_sum < 1 << 31


# ---- toward zero -------------------------------------------------------------------------------------------------


def round_toward_zero(e: Builder) -> None:
    """Makes the shader's f64 arithmetic round so."""
    e.truncates_f64 = True


def add(e: Builder, x: Value, total: Value) -> Value:
    return x + total


def multiply_add(e: Builder, x: Value, y: Value, total: Value) -> Value:
    return e.ext("Fma", "f64", x, y, total)


# ---- numbers of two words ----------------------------------------------------------------------------------------


def of_words(e: Builder, low: Value, high: Value) -> Value:
    return e.bitcast(e.vector(low, high), "f64")


def words(e: Builder, x: Value) -> tuple[Value, Value]:
    """(low, high)."""
    pair = e.bitcast(x, "u32x2")
    return e.extract(pair, 0), e.extract(pair, 1)


def of_code(e: Builder, code: Value) -> Value:
    """The state of an f32 code."""
    return of_words(e, code << 29, ((code & ~SIGN) >> 3) + OFFSET | code & SIGN)


def code_of(e: Builder, state: Value) -> Value:
    """Zero of a sum, 0.0, is the one state that `of_code` does not make."""
    low, high = words(e, state)
    magnitude = high & ~SIGN
    return e.select(magnitude < OFFSET, e.u32(0), (magnitude - OFFSET) << 3 | low >> 29 | high & SIGN)


class DoubleCore(FloatCore):
    """`FloatCore` with states in f64; its steps are `advance`."""

    def seed(self, e: Builder, code: Value) -> State:
        return (of_code(e, super().seed(e, code)[0]),)

    def result(self, e: Builder, acc: State) -> Value:
        return super().result(e, (code_of(e, acc[0]),))

    def is_odd(self, e: Builder, acc: State) -> Value:
        """Whether an addend is infinite, NaN, or nonzero and below 2^`LOWEST`."""
        magnitude = code_of(e, acc[0]) & ~SIGN
        small = (magnitude - 1) < ((127 + LOWEST) << 23) - 1  # and not 0
        return (magnitude >= F32.infinity) | small


# ---- one group ---------------------------------------------------------------------------------------------------


def advance(e: Builder, core: DoubleCore, states: list[list[Variable]], a: Lines, b: Lines) -> None:
    """states[row][column] to the next. core.plain: nothing is infinite, NaN or odd."""
    places = [(i, j) for i in range(len(states)) for j in range(len(states[0]))]
    nothing = e.bitcast(e.u32(NOTHING << 16 | NOTHING), "f16x2")
    largest = {at: e.variable("f16x2", nothing) for at in places}

    def over(count: int, body: Callable[[int | Value], None]) -> None:
        if core.plain:
            for k in range(count):
                body(k)
        else:
            e.loop(count, body, DONT_UNROLL)

    def compare(j: int | Value) -> None:
        x, y = a.exponents(j), b.exponents(j)
        for i, j_ in places:
            largest[i, j_].store(e.max(largest[i, j_].load(), x[i] + y[j_]))

    over(core.width // 2, compare)
    tops = {at: _top(e, largest[at].load()) for at in places}
    totals = {(i, j): e.variable("f64", _start(e, core.rules, states[i][j].load(), tops[i, j])) for i, j in places}
    special = None if core.plain else _Special(e, states)

    def accumulate(k: int | Value) -> None:
        x, y, s, t = a.magnitudes(k), b.magnitudes(k), a.turns(k), b.turns(k)
        p, q = ([of_words(e, e.u32(0), high) for high in side] for side in (x, y))
        for i, j in places:
            low, high = words(e, totals[i, j].load())
            totals[i, j].store(multiply_add(e, p[i], q[j], of_words(e, low ^ s[i] ^ t[j], high)))
        if special is not None:
            special.add((x, y), (s, t))

    over(core.width, accumulate)
    s, t = a.ends(), b.ends()
    for i, j in places:
        low, high = words(e, totals[i, j].load())
        # T in two's complement with its top bit flipped, so that M + T + 2^31 less M + 2^31 is T
        low, high = words(e, of_words(e, low ^ s[i] ^ t[j], high) - of_words(e, e.u32(SIGN), high))
        state = of_words(e, low & KEPT, high)
        if special is not None:
            state = special.choose(i, j, tops[i, j], state)
        states[i][j].store(state)


def _top(e: Builder, largest: Value) -> Value:
    """The larger half, in the low half of a word."""
    half = e.max(e.extract(largest, 0), e.extract(largest, 1))
    return e.bitcast(e.vector(half, half), "u32")


def _start(e: Builder, r: Rules, state: Value, top: Value) -> Value:
    """R3 to R5 for the addend: M + T."""
    _, high = words(e, state)
    largest = (top << 20) + (((1023 + LOWEST - NOTHING) << 20) & 0xFFFFFFFF)
    exponent = e.max(largest, high & FIELD) + ((52 - r.fraction_bits) << 20)
    sign = (high.i >> 31).u
    low, high = words(e, add(e, e.ext("FAbs", "f64", state), of_words(e, sign, exponent)))
    return of_words(e, low ^ sign, high)


class _Special:
    """What a group needs where something may be infinite, NaN or odd: sums in f32, and the addends as they were."""

    def __init__(self, e: Builder, states: list[list[Variable]]) -> None:
        self.e, self.states = e, states
        self.sums = [[e.variable("f32", code_of(e, v.load()).f) for v in row] for row in states]
        self.signs = tuple([e.variable("u32", 0) for _ in range(n)] for n in (len(states), len(states[0])))

    def add(self, magnitudes: tuple[list[Value], list[Value]], turns: tuple[list[Value], list[Value]]) -> None:
        values = []
        for signs, highs, changes in zip(self.signs, magnitudes, turns, strict=True):
            for sign, change in zip(signs, changes, strict=True):
                sign.store(sign.load() ^ change)
            values.append([((high - OFFSET) << 3 | v.load() & SIGN).f for high, v in zip(highs, signs, strict=True)])
        for x, row in zip(values[0], self.sums, strict=True):
            for y, total in zip(values[1], row, strict=True):
                total.store(total.load() + x * y)

    def choose(self, i: int, j: int, top: Value, state: Value) -> Value:
        e, code = self.e, self.sums[i][j].load().bits
        state = e.select((top & 0xFFFF).eq(NOTHING), self.states[i][j].load(), state)
        return e.select((code & ~SIGN) >= F32.infinity, of_code(e, code), state)


# ---- staging -----------------------------------------------------------------------------------------------------


def exponents(e: Builder, word: Value, side: int) -> Value:
    """The f16x2 of a word of two codes, as a word; see 3 of the module's text."""
    magnitude = word & MAGNITUDES
    field = magnitude >> 10 & 0x001F001F
    nonzero, normal = ((x + MAGNITUDES) >> 15 & LOW_HALVES for x in (magnitude, field))
    found = nonzero * (NOTHING + 1 - ZERO) + field - normal + ZERO * LOW_HALVES
    if side == 0:
        return found
    less = e.bitcast(found, "f16x2") - e.bitcast(e.u32(NOTHING * LOW_HALVES), "f16x2")
    return e.bitcast(less, "u32")


def specials(word: Value) -> Value:
    """Nonzero where one of two codes is infinite or NaN."""
    return (word & MAGNITUDES) + 0x04000400 & 0x80008000


def magnitudes(e: Builder, word: Value) -> list[Value]:
    """High words of two codes' magnitudes in f64."""
    pair = unpack_half(e, word & MAGNITUDES)
    return [(e.extract(pair, i).bits >> 3) + OFFSET for i in range(2)]


def turns(e: Builder, codes: Sequence[Value]) -> list[Value]:
    """Of a group's codes, two a word."""
    found, before = [], e.u32(0)
    for word in codes:
        changed = word ^ (word << 16 | before >> 16)
        found += [((changed << 16).i >> 31).u, (changed.i >> 31).u]
        before = word
    return found


def end(codes: Sequence[Value], side: int) -> Value:
    sign = (codes[-1].i >> 31).u
    return sign if side else sign ^ SIGN
