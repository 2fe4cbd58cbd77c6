"""MUFU taken apart: the reduced argument, the segment and its coefficients, the squarer, and what is cut off.

Source: design.md 4.3. With i the upper and x the lower bits of the reduced argument,

    A = (C0[i] << s0) + C1[i] * x + ((C2[i] * S(x)) << s2) + bias

S(x) is about x^2 / 2^19: a squarer whose partial products are cut before they are summed. Written in Python integers
apart from `reference.mufu`, with the same tables (`isa.mufu_tables`); a test compares the two. Beside the result stands
the correctly rounded value of `exact`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..formats import F16, F32, Format
from ..isa import Arch, Instruction
from ..isa.mufu_tables import TANH_BINADES, UNITS, coefficients
from . import exact, numbers
from .explanation import ulp
from .numbers import Number, Rounding
from .report import Report

FRACTION = 1 << 23


@dataclass(frozen=True)
class Interpolation:
    """One pass through the unit. segment of segments, x with x_bits; c0, c1, c2; square: S(x); parts: the four summands
    of A.

    A: their sum; shift: places cut off it; value: what is left.
    """

    segment: int
    segments: int
    x: int
    x_bits: int
    c0: int
    c1: int
    c2: int
    square: int
    parts: tuple[int, int, int, int]
    A: int
    shift: int

    @property
    def value(self) -> int:
        return self.A >> self.shift

    @property
    def true_square(self) -> Fraction:
        """x^2 / 2^19 of the 17-bit x, which S(x) falls short of."""
        x = self.x << (17 - self.x_bits)
        return Fraction(x * x, 1 << 19)


@dataclass(frozen=True)
class Steps:
    """How a result came about. reduced: what became of the argument, in words; special: why there was nothing to
    compute.
    """

    code: int
    reduced: tuple[str, ...] = ()
    pass_: Interpolation | None = None
    finish: str = ""
    special: str = ""


@dataclass(frozen=True, repr=False)
class MufuExplanation(Report):
    """One MUFU result. steps: in f32; narrowing: the truncation to f16 of the .F16 forms; best: the correctly rounded
    code.
    """

    instruction: Instruction
    arch: Arch
    operand: Number
    function: str
    steps: Steps
    narrowing: Rounding | None
    code: int
    best: int
    exact: Fraction | None
    expected: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def result(self) -> Number:
        return numbers.decode(self.code, self.format)

    @property
    def format(self) -> Format:
        assert self.instruction.result is not None
        return self.instruction.result

    @property
    def off(self) -> int | None:
        """Steps between the result and the correctly rounded value (None: one is a NaN)."""
        return numbers.steps_between(self.code, self.best, self.format)

    @property
    def error(self) -> Fraction | None:
        """Result minus true value, in ulp of the true value."""
        if self.exact is None or not self.result.finite:
            return None
        return (numbers.fraction_of(self.result) - self.exact) / ulp(self.exact, self.format)

    def document(self) -> Any:
        from .describe_single import mufu

        return mufu(self)

    def to_dict(self) -> dict[str, Any]:
        from .describe_json import mufu

        return mufu(self)


def explain_mufu(
    instruction: Instruction, arch: Arch, code: int, *, expected: int | None = None, notes: tuple[str, ...] = ()
) -> MufuExplanation:
    """code: of the operand's format (f32, or f16 for the .F16 forms)."""
    source, target = instruction.operands[0], instruction.result
    assert source is not None and target is not None
    operand = numbers.decode(code, source)
    function = instruction.function.removesuffix("_f16")
    steps = compute(function, _as_f32(operand))
    final, narrowing = steps.code, None
    if target == F16:
        final, narrowing = _to_f16(steps.code, function)
    return MufuExplanation(
        instruction, arch, operand, function, steps, narrowing, final, exact.code(function, operand, target),
        None if not operand.finite else exact.value(function, operand), expected, notes,
    )  # fmt: skip


def _as_f32(operand: Number) -> Number:
    if operand.format == "f32":
        return operand
    if operand.kind == "nan":
        return numbers.decode(F32.canonical_nan, F32)
    if operand.kind == "infinity":
        return numbers.decode(numbers.infinity(operand.negative, F32), F32)
    total = -operand.significand if operand.negative else operand.significand
    return numbers.decode(numbers.round_exact(total, operand.unit, F32, negative_zero=operand.negative).code, F32)


def _to_f16(code: int, function: str) -> tuple[int, Rounding | None]:
    """Truncated; EX2 from 2^16 on is infinity."""
    wide = numbers.decode(code, F32)
    if wide.kind == "nan":
        return F16.canonical_nan, None
    if wide.kind == "infinity":
        return numbers.infinity(wide.negative, F16), None
    total = -wide.significand if wide.negative else wide.significand
    rounding = numbers.round_exact(total, wide.unit, F16, "rz", negative_zero=wide.negative)
    return rounding.code, rounding


# --- the unit --------------------------------------------------------------------------------------------------------


def interpolate(name: str, row: int, x: int) -> Interpolation:
    """The head of this file, with every number kept."""
    unit = UNITS[name]
    c0, c1, c2 = coefficients(unit.table)[row]
    square = squared(x << (17 - unit.x_bits))
    parts = (c0 << unit.s0, c1 * x, (c2 * square) << unit.s2, unit.bias)
    return Interpolation(row, unit.rows, x, unit.x_bits, c0, c1, c2, square, parts, sum(parts), unit.shift)


def squared(x: int) -> int:
    """S of a 17-bit x: a row for every bit i of x from 2 on, x moved right by 18 - i places before the rows are
    added.
    """
    return sum(x >> (18 - bit) for bit in range(2, 17) if x >> bit & 1) >> 1


def compute(function: str, x: Number) -> Steps:
    """The f32 function, specials included."""
    if x.kind == "nan":
        return Steps(F32.canonical_nan, special="the operand is a NaN")
    flushed = x.kind == "subnormal" and function != "tanh"
    kind = "zero" if flushed else x.kind
    steps = _FUNCTIONS[function](x, kind)
    if flushed:
        steps = replace(steps, special=f"a subnormal operand counts as zero of its sign; {steps.special}".rstrip("; "))
    return steps


def _sign(x: Number) -> int:
    return F32.sign_bit if x.negative else 0


def _pack(biased: int, significand: int) -> int:
    return (max(0, min(biased, 255)) << 23) | (significand & (FRACTION - 1))


def _special_of(name: str, x: Number, kind: str) -> Steps | None:
    """The special cases that are the true function's own."""
    if kind in ("zero", "infinity") or (name in ("lg2", "rsq", "sqrt") and x.negative):
        stand_in = numbers.decode(_sign(x), F32) if kind == "zero" else x
        words = {"zero": "zero", "infinity": "infinite"}.get(kind, "negative")
        return Steps(exact.code(name, stand_in, F32), special=f"the operand is {words}")
    return None


def _fraction_of(x: Number) -> int:
    return x.significand & (FRACTION - 1)


def _rcp(x: Number, kind: str) -> Steps:
    if (special := _special_of("rcp", x, kind)) is not None:
        return special
    m = _fraction_of(x)
    done = interpolate("rcp", m >> 16, m & 0xFFFF)
    carry = done.value >> 24
    biased = 253 - (x.exponent + 127) + carry
    words = (f"significand 1.m with m = {m:#08x} of 2^23; the upper 7 bits choose the segment, the lower 16 are x",)
    if biased <= 0:
        return Steps(_sign(x), words, done, "the result would be below 2^-126: zero of its sign")
    finish = f"significand {done.value >> carry:#08x} of 24 bits, exponent {biased - 127}"
    return Steps(_pack(biased, done.value >> carry) | _sign(x), words, done, finish)


def _even(x: Number) -> tuple[int, int, tuple[str, ...]]:
    """(f, half the exponent, words) of the square roots: f has the exponent's parity above the fraction."""
    odd = x.exponent & 1
    f = _fraction_of(x) | odd << 23
    words = (
        f"exponent {x.exponent}, {'odd' if odd else 'even'}: half of it is {x.exponent >> 1}, "
        "the parity chooses the half of the table",
        "the upper 7 bits of parity and fraction choose the segment, the lower 17 are x",
    )
    return f, x.exponent >> 1, words


def _rsq(x: Number, kind: str) -> Steps:
    if (special := _special_of("rsq", x, kind)) is not None:
        return special
    f, half, words = _even(x)
    if f == 0:
        return Steps(_pack(127 - half, 0), words, None, "an even power of two: exact")
    done = interpolate("rsq", f >> 17, f & 0x1FFFF)
    finish = f"significand {done.value & 0xFFFFFF:#08x} of 24 bits, exponent {-1 - half}"
    return Steps(_pack(126 - half, done.value), words, done, finish)


def _sqrt(x: Number, kind: str) -> Steps:
    if (special := _special_of("sqrt", x, kind)) is not None:
        return special
    f, half, words = _even(x)
    done = interpolate("sqrt", f >> 17, f & 0x1FFFF)
    finish = f"significand {done.value & 0xFFFFFF:#08x} of 24 bits, exponent {half}"
    return Steps(_pack(127 + half, done.value), words, done, finish)


def _shifted(integer: int, places: int) -> int:
    return integer << places if places >= 0 else integer >> -places


def _ex2(x: Number, kind: str) -> Steps:
    if kind == "infinity":
        return Steps(0 if x.negative else F32.infinity, special="the operand is infinite")
    if kind == "normal" and x.exponent >= 7:
        return Steps(0 if x.negative else F32.infinity, special="the operand's magnitude is 128 or more")
    fixed = _shifted(x.significand, x.exponent) if kind == "normal" else 0
    words = [f"|a| with 23 fraction bits, cut: {fixed:#x}"]
    if x.negative:
        whole = fixed % FRACTION == 0
        fixed = -fixed if whole else ~fixed
        words.append("negative: " + ("its negative" if whole else "its one's complement, one unit below its negative"))
    whole_part, fraction = fixed >> 23, fixed & (FRACTION - 1)
    words.append(
        f"integer part {whole_part}, fraction {fraction:#08x}: the upper 6 bits choose the segment, the lower 17 are x"
    )
    done = interpolate("ex2", fraction >> 17, fraction & 0x1FFFF)
    if whole_part + 127 <= 0:
        return Steps(0, tuple(words), done, "the result would be below 2^-126: +0")
    finish = f"significand {done.value & 0xFFFFFF:#08x} of 24 bits, exponent {whole_part}"
    return Steps(_pack(whole_part + 127, done.value), tuple(words), done, finish)


def _normalised(value: int, unit: int) -> tuple[int, str]:
    """(code, words) of value * 2^unit, cut to 24 bits; value > 0."""
    length = value.bit_length()
    significand = value >> (length - 24) if length > 24 else value << (24 - length)
    exponent = length - 1 + unit
    cut = max(length - 24, 0)
    words = f"{length} bits, leading one at 2^{exponent}; {cut} low bits are cut off"
    return _pack(exponent + 127, significand), words


def _lg2(x: Number, kind: str) -> Steps:
    if (special := _special_of("lg2", x, kind)) is not None:
        return special
    m = _fraction_of(x)
    words = (
        f"exponent {x.exponent}; log2 of 1.m with m = {m:#08x}: "
        "the upper 6 bits choose the segment, the lower 17 are x",
    )
    if m == 0:
        done, log = None, 0
        if x.exponent:
            done = interpolate("lg2", 0, 0)
            log = done.value
    else:
        done = interpolate("lg2", m >> 17, m & 0x1FFFF)
        log = done.value
    total = log + (x.exponent << 36)
    negative = total < 0
    total = ~total if negative else total
    if total == 0:
        return Steps(F32.sign_bit if negative else 0, words, done, "the sum is zero")
    code, how = _normalised(total, -36)
    sign = "; negative: one's complement" if negative else ""
    return Steps(
        code | (F32.sign_bit if negative else 0), words, done, f"plus the exponent, with 36 fraction bits{sign}; {how}"
    )


def _turns(x: Number, kind: str, quadrants: int) -> Steps:
    if kind == "infinity":
        return Steps(F32.canonical_nan, special="the operand is infinite")
    shift = x.exponent + 2
    fixed = 0 if kind == "zero" or shift > 31 else _shifted(x.significand, shift)
    quadrant = (fixed >> 23) + quadrants
    fraction = (~fixed if quadrant & 1 else fixed) & (FRACTION - 1)
    done = interpolate("sin", fraction >> 17, fraction & 0x1FFFF)
    lower = bool(quadrant >> 1 & 1)
    words = (
        f"|a| in quarter turns with 23 fraction bits, cut: {fixed:#x}; quadrant {quadrant & 3}",
        ("fraction, complemented in this quadrant" if quadrant & 1 else "fraction")
        + f": {fraction:#08x}, the upper 6 bits choose the segment, the lower 17 are x",
    )
    negative = lower != (x.negative and quadrants == 0)
    sign = F32.sign_bit if negative else 0
    if done.value <= 0:
        return Steps(sign, words, done, "the interpolated value is not positive: zero")
    code, how = _normalised(done.value, -37)
    return Steps(code | sign, words, done, how)


def _sin(x: Number, kind: str) -> Steps:
    return _turns(x, kind, 0)


def _cos(x: Number, kind: str) -> Steps:
    return _turns(x, kind, 1)


def _tanh(x: Number, kind: str) -> Steps:
    biased = 0 if kind in ("zero", "subnormal") else x.exponent + 127
    if kind == "infinity" or biased >= 130:
        return Steps(0x3F800000 | _sign(x), special="the operand's magnitude is 8 or more: one of its sign")
    if biased < 119:
        return Steps(x.code, special="the operand's magnitude is below 2^-8: the operand itself")
    first, bits, unit = TANH_BINADES[biased - 119]
    m = _fraction_of(x)
    row = first + (m >> (23 - bits))
    done = interpolate("tanh", row, m >> (6 - bits) & 0x1FFFF)
    words = (
        f"exponent {x.exponent}: its binade has {1 << bits} segments from {first} on; the upper {bits} bits of the "
        f"fraction choose one, the next 17 are x, the lowest {6 - bits} are dropped",
    )
    code, how = _normalised(done.value, unit - 42)
    return Steps(code | _sign(x), words, done, how)


_FUNCTIONS = {
    "rcp": _rcp, "rsq": _rsq, "sqrt": _sqrt, "ex2": _ex2, "lg2": _lg2, "sin": _sin, "cos": _cos, "tanh": _tanh,
}  # fmt: skip
