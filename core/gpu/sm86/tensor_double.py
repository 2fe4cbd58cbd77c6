"""HMMA with f16 operands on f64 multiply-adds that round toward zero, for a block of outputs.

A group's sum is the low word of an f64 accumulator M + T with M = 2^(52 + E - F). The last place of such a number is
the unit 2^(E - F), so that a multiply-add which rounds toward zero truncates the product that it adds (R5). It adds
magnitudes: for a negative product T is complemented before and after, ~(~T + p) = T - p. A complement is an exclusive
or with a word of ones, and of two in a row one remains: the `turns`, where the sign differs from the last product's.

1. Magnitudes of f16 are exact with 11 bits in the high word and a low word of 0. A zero is held as 2^-127: its
   products, at most 2^-111, are below every unit.
2. T is below 2^31 in magnitude (`tensor_block.serves`), so its low word says all. What carries into the high word does
   no harm: `finish` subtracts a number with the same high word.
3. Nominal exponents are small integers in f16 floats, two to a word: 1024 + e in a, e in b. The largest of their sums
   then has its value in its low bits, and -64 for a zero stays below every product of two others (R3).
4. f32 results (`DoubleCore`): a state is an f64 whose words are shifted from the f32 code's (`of_code`), so that every
   code has one and comes back. T 2^(E - F) is exact in f64, and a mask leaves its 24 leading bits (R7). No finite sum
   is near f32's limits. Where all products are zero, E is -30 or the addend's own. The addend then stays as it is: it
   is 0, at least 2^-30, or the result of an earlier group, whose unit was 2^-53 or more. What else a seed may be is odd
   (`is_odd`).
5. f16 results (`DoubleHalfCore`): states and all that follows the sum are `tensor_float`'s.
6. R9: as in `tensor_float`, the f32 sum of all terms tells what is infinite or NaN, where anything staged or seeded is.

All else that a shader computes in f64 would round toward zero as well, so only one that has nothing else may do this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...formats import F32
from ...spirv.builder import Builder, Value, Variable
from .tensor import SIGN, Rules
from .tensor_block import over
from .tensor_float import FloatCore, SignedSum, State, unpack_half

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

    def exponents(self, pair: int | Value) -> list[Value]:
        """f16x2 of the k's 2 pair and 2 pair + 1."""
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
    """f32 results. The steps of this core are `advance`."""

    smallest = LOWEST

    def seed(self, e: Builder, code: Value) -> State:
        return (of_code(e, super().seed(e, code)[0]),)

    def result(self, e: Builder, acc: State) -> Value:
        return super().result(e, (code_of(e, acc[0]),))

    def addend(self, acc: State) -> Value:
        return code_of(acc[0].b, acc[0]).f

    def start(self, e: Builder, acc: State, top: Value) -> tuple[Value, Value]:
        """(M + T of the addend, what `finish` wants to know). top: the products' largest exponent, see `_top`."""
        _, high = words(e, acc[0])
        largest = (top << 20) + (((1023 + LOWEST - NOTHING) << 20) & 0xFFFFFFFF)
        exponent = e.max(largest, high & FIELD) + ((52 - self.rules.fraction_bits) << 20)
        sign = (high.i >> 31).u
        low, high = words(e, add(e, e.ext("FAbs", "f64", acc[0]), of_words(e, sign, exponent)))
        return of_words(e, low ^ sign, high), top

    def finish(self, e: Builder, acc: State, total: Value, flipped: Value, top: Value, float_sum: Value) -> State:
        """The next state. flipped: T in two's complement with its top bit the other way round; total: has M."""
        high = words(e, total)[1]
        low, high = words(e, of_words(e, flipped, high) - of_words(e, e.u32(SIGN), high))  # M + T + 2^31, M + 2^31
        state = of_words(e, low & KEPT, high)
        if self.plain:
            return (state,)
        state = e.select((top & 0xFFFF).eq(NOTHING), acc[0], state)
        special = (float_sum.bits & ~SIGN) >= F32.infinity
        return (e.select(special, of_code(e, float_sum.bits), state),)


class DoubleHalfCore(FloatCore):
    """f16 results. See `DoubleCore`."""

    def start(self, e: Builder, acc: State, top: Value) -> tuple[Value, Value]:
        field = self.raised(e, acc, (top << 23) + (((254 + LOWEST - NOTHING) << 23) & 0xFFFFFFFF))
        low = e.convert(self.addend(acc) * self.scale(e, field), "i32").u
        return of_words(e, low, (field >> 3) + ((1023 - 254 + 52 - self.rules.fraction_bits) << 20)), field

    def finish(self, e: Builder, acc: State, total: Value, flipped: Value, top: Value, float_sum: Value) -> State:
        summed = SignedSum(e, self.rules)
        summed.add((flipped ^ SIGN).i)
        return self.next_state(e, acc, summed, top, float_sum)


Core = DoubleCore | DoubleHalfCore


def core_of(r: Rules, plain: bool) -> Core:
    return DoubleCore(r, plain) if r.result is F32 else DoubleHalfCore(r, plain)


# ---- one group ---------------------------------------------------------------------------------------------------


def advance(e: Builder, core: Core, states: list[list[Variable]], a: Lines, b: Lines) -> None:
    """states[row][column] to the next. core.plain: nothing is infinite, NaN or odd."""
    places = [(i, j) for i in range(len(states)) for j in range(len(states[0]))]
    acc = {(i, j): (states[i][j].load(),) for i, j in places}
    nothing = e.bitcast(e.u32(NOTHING << 16 | NOTHING), "f16x2")
    largest = {at: e.variable("f16x2", nothing) for at in places}

    def compare(pair: int | Value) -> None:
        x, y = a.exponents(pair), b.exponents(pair)
        for i, j in places:
            largest[i, j].store(e.max(largest[i, j].load(), x[i] + y[j]))

    over(e, core, core.width // 2, compare)
    starts = {at: core.start(e, acc[at], _top(e, largest[at].load())) for at in places}
    totals = {at: e.variable("f64", total) for at, (total, _) in starts.items()}
    sums = {} if core.plain else {at: e.variable("f32", core.addend(acc[at])) for at in places}
    signs = _Signs(e, len(states), len(states[0])) if sums else None

    def accumulate(k: int | Value) -> None:
        x, y, s, t = a.magnitudes(k), b.magnitudes(k), a.turns(k), b.turns(k)
        p, q = ([of_words(e, e.u32(0), high) for high in side] for side in (x, y))
        for i, j in places:
            low, high = words(e, totals[i, j].load())
            totals[i, j].store(multiply_add(e, p[i], q[j], of_words(e, low ^ s[i] ^ t[j], high)))
        if signs is not None:
            u, v = signs.values((x, y), (s, t))
            for i, j in places:
                sums[i, j].store(sums[i, j].load() + u[i] * v[j])

    over(e, core, core.width, accumulate)
    s, t = a.ends(), b.ends()
    for i, j in places:
        total = totals[i, j].load()
        flipped = words(e, total)[0] ^ s[i] ^ t[j]
        float_sum = sums[i, j].load() if sums else core.addend(acc[i, j])
        states[i][j].store(core.finish(e, acc[i, j], total, flipped, starts[i, j][1], float_sum)[0])


def _top(e: Builder, largest: Value) -> Value:
    """The larger half, in the low half of a word: 1024 in f16 and the largest exponent less `LOWEST`."""
    half = e.max(e.extract(largest, 0), e.extract(largest, 1))
    return e.bitcast(e.vector(half, half), "u32")


class _Signs:
    """Signs of both operands as k goes on, for their values in f32."""

    def __init__(self, e: Builder, rows: int, columns: int) -> None:
        self.signs = tuple([e.variable("u32", 0) for _ in range(n)] for n in (rows, columns))

    def values(
        self, magnitudes: tuple[list[Value], list[Value]], turns: tuple[list[Value], list[Value]]
    ) -> list[list[Value]]:
        found = []
        for signs, highs, changes in zip(self.signs, magnitudes, turns, strict=True):
            for sign, change in zip(signs, changes, strict=True):
                sign.store(sign.load() ^ change)
            found.append([((high - OFFSET) << 3 | v.load() & SIGN).f for high, v in zip(highs, signs, strict=True)])
        return found


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
