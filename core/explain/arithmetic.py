"""Other arithmetic for whole contractions: the sequential IEEE chain, and the correctly rounded dot.

Rules
 1. ``ieee``: one f32 fused multiply-add per k in the place of a tensor core, operands widened exactly. ``exact``: the
    exact sum, rounded once to nearest even, in the place of every float contraction but f64's.
 2. A chain that goes on (`acc += dot(a, b)` in a loop) is one chain: the accumulator is carried unrounded (exact) or in
    f32 (ieee with an f16 result) from one contraction to the next, so the tiling does not show. What a program reads is
    rounded.
 3. NaN results are canonical, as an FFMA's are; zeros have IEEE 754's sign.

Products of two operands of at most 24 bits are exact in float64. A sum of two float64 rounded to odd and then to f32 is
rounded once (53 >= 24 + 2), so the chain needs no integers. The exact sum is kept in four float64 parts by error-free
additions; the few elements where a bit falls out of the last one are summed again as rationals.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import formats
from ..formats import F32, TF32, Codes, Format
from ..isa import Instruction
from . import numbers

Floats = NDArray[np.float64]
State = TypeVar("State")


class ByIdentity(Generic[State]):
    """Facts about arrays that go with the array object itself and vanish with it."""

    def __init__(self) -> None:
        self._facts: dict[int, tuple[weakref.ref[Codes], State]] = {}

    def put(self, codes: Codes, state: State) -> None:
        key = id(codes)
        self._facts[key] = (weakref.ref(codes, lambda _: self._facts.pop(key, None)), state)

    def get(self, codes: Codes) -> State | None:
        found = self._facts.get(id(codes))
        return found[1] if found is not None and found[0]() is codes else None


def values(codes: Codes, fmt: Format) -> Floats:
    """Codes as float64, exactly; not for f64's NaN payloads."""
    codes = np.ascontiguousarray(codes)
    with np.errstate(invalid="ignore"):
        if fmt.name == "f16":
            return codes.view(np.float16).astype(np.float64)
        if fmt.name == "bf16":
            codes = codes.astype(np.uint32) << np.uint32(16)
        if fmt is TF32:  # R1: the low bits are not read
            codes = codes & np.uint32(0xFFFFE000)
        return codes.view(np.float32).astype(np.float64)


def to_codes(numbers_: Floats, fmt: Format) -> Codes:
    """float64 to a 16- or 32-bit float, to nearest even; NaN canonical. A value rounded to odd is rounded once."""
    nan = np.isnan(numbers_)
    with np.errstate(all="ignore"):
        if fmt.name == "f16":
            codes: Codes = numbers_.astype(np.float16).view(np.uint16)
        elif fmt.name == "bf16":
            codes = _to_bf16(numbers_)
        else:
            codes = numbers_.astype(np.float32).view(np.uint32)
    return np.where(nan, codes.dtype.type(fmt.canonical_nan), codes)


def _to_bf16(numbers_: Floats) -> Codes:
    negative, exponent, significand = formats.split(np.ascontiguousarray(numbers_).view(np.uint64), formats.F64)
    codes = formats.round_pack(negative, exponent - 52, significand, formats.BF16)
    infinite = np.isinf(numbers_)
    sign = np.signbit(numbers_).astype(np.uint16) << np.uint16(15)
    return np.where(infinite, np.uint16(formats.BF16.infinity) | sign, codes)


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a + b rounded, and what that lost, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def to_odd(total: Floats, lost: Floats) -> Floats:
    """A float64 sum and what it lost, rounded to odd: the last bit is one wherever something was lost."""
    bits = total.view(np.int64)
    away = (lost > 0) == (total > 0)
    moved = np.where(away, bits + 1, bits - 1)
    odd = np.where((lost != 0) & (bits & 1 == 0) & (total != 0), moved, bits).view(np.float64)
    return np.where((total == 0) & (lost != 0), lost, odd)


def fused(a: Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c rounded once to f32, as float64; a and b have at most 24 bits."""
    with np.errstate(all="ignore"):
        product = a * b
        total, lost = two_sum(product, c)
        lost = np.where(np.isfinite(total), lost, 0.0)
        return to_odd(total, lost).astype(np.float32).astype(np.float64)


# --- the two kinds of arithmetic -------------------------------------------------------------------------------------


@dataclass
class Arithmetic:
    """What stands in the place of a contraction. `contract` returns None where the instruction's own result stays."""

    name: str
    contract: Callable[[Instruction, Codes, Codes, Codes], Codes | None]


def ieee() -> Arithmetic:
    """Sequential f32 fused multiply-adds in the place of tensor cores."""
    wide: ByIdentity[Floats] = ByIdentity()

    def contract(row: Instruction, a: Codes, b: Codes, seed: Codes) -> Codes | None:
        if row.family != "tensor":
            return None
        operand, result = _formats(row)
        left, right = values(a, operand), values(b, operand)
        running = wide.get(seed)
        running = values(seed, result) if running is None else running
        for k in range(left.shape[1]):
            running = fused(left[:, k, None], right[None, k], running)
        codes = to_codes(running, result)
        if result != F32:
            wide.put(codes, running)
        return codes

    return Arithmetic("ieee", contract)


def _formats(row: Instruction) -> tuple[Format, Format]:
    operand, result = row.operands[0], row.result
    assert operand is not None and result is not None
    return operand, result


@dataclass
class Sum:
    """An exact sum: four float64 parts, the largest first, and where a bit fell out of the last (`spilled`).

    plain: the same in float64 alone, which has the right infinities and NaN. negative_zero: every term was -0. parts:
    the operands of all contractions so far and the seed they started from, for the elements that spilled.
    """

    parts: tuple[Floats, Floats, Floats, Floats]
    spilled: NDArray[np.bool_]
    plain: Floats
    negative_zero: NDArray[np.bool_]
    history: tuple[tuple[Floats, Floats], ...]
    seed: Floats

    def add(self, left: Floats, right: Floats) -> Sum:
        """The sum after a contraction: left [M, K], right [K, N]."""
        first, second, third, fourth = self.parts
        spilled, plain, negative = self.spilled, self.plain, self.negative_zero
        with np.errstate(all="ignore"):
            for k in range(left.shape[1]):
                term = left[:, k, None] * right[None, k]
                plain = plain + term
                negative = negative & (term == 0) & np.signbit(term)
                term = np.where(np.isfinite(term), term, 0.0)
                first, rest = two_sum(first, term)
                second, rest = two_sum(second, rest)
                third, rest = two_sum(third, rest)
                fourth, rest = two_sum(fourth, rest)
                spilled = spilled | (rest != 0)
        parts = (first, second, third, fourth)
        return Sum(parts, spilled, plain, negative, (*self.history, (left, right)), self.seed)

    def rounded(self, fmt: Format) -> Codes:
        """The codes of the sum, rounded once."""
        first, second, third, fourth = self.parts
        for _ in range(3):  # until the parts do not overlap
            third, fourth = two_sum(third, fourth)
            second, third = two_sum(second, third)
            first, second = two_sum(first, second)
        # what lies below the second part only tells it from a tie
        odd = to_odd(first, to_odd(second, to_odd(third, fourth)))
        finite = np.isfinite(self.plain)
        codes = to_codes(np.where(finite, odd, self.plain), fmt)
        for index in np.argwhere(self.spilled & finite):
            codes[tuple(index)] = self._again(tuple(index), fmt)
        zero = finite & (odd == 0) & ~self.spilled
        return np.where(zero, np.where(self.negative_zero, fmt.sign_bit, 0).astype(codes.dtype), codes)

    def _again(self, index: tuple[Any, ...], fmt: Format) -> int:
        """One element by rationals."""
        i, j = index
        total = Fraction(float(self.seed[i, j]))
        for left, right in self.history:
            total += sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(left[i], right[:, j])), Fraction(0))
        return numbers.round_fraction(total, fmt)


def exact() -> Arithmetic:
    """Every float contraction correctly rounded once."""
    sums: ByIdentity[Sum] = ByIdentity()

    def contract(row: Instruction, a: Codes, b: Codes, seed: Codes) -> Codes | None:
        operand, result = _formats(row)
        if not result.is_float or result.bits > 32:
            return None
        total = sums.get(seed)
        total = (_start(values(seed, result)) if total is None else total).add(values(a, operand), values(b, operand))
        codes = total.rounded(result)
        sums.put(codes, total)
        return codes

    return Arithmetic("exact", contract)


def _start(seed: Floats) -> Sum:
    zeros = np.zeros(seed.shape)
    first = np.where(np.isfinite(seed), seed, 0.0)
    parts = (first, zeros, zeros, zeros)
    negative = (seed == 0) & np.signbit(seed)
    return Sum(parts, np.zeros(seed.shape, np.bool_), seed, negative, (), seed)
