"""HMMA on floats (`tensor_float`) for the whole block of outputs that an invocation of a GPU owns.

The operands are words of two f16 codes and words of their two exponents, which were found when they were staged. One
pass over the exponents gives every output's E, one over the codes its sum. Where no operand is infinite or NaN, which
staging has found too, and no addend is odd (`FloatCore.is_odd`), which only a seed can be, that is all. Else float sums
decide, and the passes are loops: a shader takes as many registers as its hungriest path, and the fewer it takes, the
more invocations a GPU keeps in flight (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable

from ...formats import F16
from ...spirv.builder import DONT_UNROLL, Builder, Value, Variable
from .tensor_float import SMALL, FloatCore, SignedSum, unpack_half

#: (which, j) -> words of all rows or columns for the k's 2j and 2j + 1: 0 the codes, 1 the exponents.
Words = Callable[[int, "int | Value"], list[Value]]
CODES, EXPONENTS = 0, 1


def serves(core: FloatCore) -> bool:
    """Whether a group's sum fits a signed word, which one running total needs."""
    return core.rules.operand is F16 and core.rules.largest_sum < 1 << 31


def over(e: Builder, core: FloatCore, count: int, body: Callable[[int | Value], None]) -> None:
    """`body` for 0..count-1: written out where nothing is special, else in a loop, which takes fewer registers."""
    if core.plain:
        for i in range(count):
            body(i)
    else:
        e.loop(count, body, DONT_UNROLL)


def advance(e: Builder, core: FloatCore, states: list[list[Variable]], a: Words, b: Words) -> None:
    """One group: states[row][column] to the next. core.plain, .calm: nothing is infinite, NaN or odd."""
    places = [(i, j) for i in range(len(states)) for j in range(len(states[0]))]
    words = core.width // 2

    acc = {(i, j): (states[i][j].load(),) for i, j in places}
    tops = {at: e.variable("u32", (254 + SMALL) << 23) for at in places}

    def largest(word: int | Value) -> None:
        for x, y in zip(_fields(a(EXPONENTS, word)), _fields(b(EXPONENTS, word)), strict=True):
            for i, j in places:
                tops[i, j].store(e.max(tops[i, j].load(), x[i] + y[j]))

    over(e, core, words, largest)
    top = {at: core.raised(e, acc[at], tops[at].load()) for at in places}
    scales = {at: core.scale(e, top[at]) for at in places}
    totals = {at: e.variable("i32", e.convert(core.addend(acc[at]) * scales[at], "i32")) for at in places}
    sums = {} if core.plain else {at: e.variable("f32", core.addend(acc[at])) for at in places}

    def add(word: int | Value) -> None:
        for x, y in zip(_values(e, a(CODES, word)), _values(e, b(CODES, word)), strict=True):
            for i, j in places:
                product = x[i] * y[j]
                totals[i, j].store(totals[i, j].load() + e.convert(product * scales[i, j], "i32"))
                if sums:
                    sums[i, j].store(sums[i, j].load() + product)

    over(e, core, words, add)
    for i, j in places:
        total = SignedSum(e, core.rules)
        total.add(totals[i, j].load())
        float_sum = sums[i, j].load() if sums else core.addend(acc[i, j])
        states[i][j].store(core.next_state(e, acc[i, j], total, top[i, j], float_sum)[0])


def _fields(words: list[Value]) -> tuple[list[Value], list[Value]]:
    """The exponent fields of the low codes, and of the high ones."""
    return [word << 16 for word in words], [word & 0xFFFF0000 for word in words]


def _values(e: Builder, words: list[Value]) -> tuple[list[Value], list[Value]]:
    pairs = [unpack_half(e, word) for word in words]
    return [e.extract(pair, 0) for pair in pairs], [e.extract(pair, 1) for pair in pairs]
