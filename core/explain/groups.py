"""Groups of products, summed under rules that can each be set: the engine behind every explanation of a dot.

A *group* is some products and one addend. `Rules` says how a group is summed and what happens between groups; with an
architecture's numbers it is that tensor core (R1 to R10 of design.md 4.1), with one product a group and no window it is
a chain of fused multiply-adds, with all products in one group the correctly rounded dot. A ladder is a row of `Rules`
that changes one of them a step.

Independent of `reference.tensor`: Python integers, one term after the other, every intermediate number kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..formats import F64, FORMATS, Format
from . import numbers
from .numbers import Number, Rounding


@dataclass(frozen=True)
class Rules:
    """How a dot is summed.

    width: products per group (None: all of them). bits: F, places kept below 2^E (None: all). terms: how a term is cut
    to the window, ``rn`` or ``rz``. final: how a group's sum is rounded. floor: lowest E (None: no floor). plus_zero: a
    zero result is +0 always (else its sign is IEEE 754's). one_nan: the canonical NaN (else a payload is kept, as IEEE
    754 recommends). between: format of the accumulator between groups. tf32_low_bits: R1 not applied, a tf32 word is
    read whole. fused: product and addend are rounded once. flush: subnormal operands, addends and results are zero
    (.FTZ).
    """

    width: int | None
    bits: int | None = None
    terms: str = "rn"
    final: str = "rn"
    floor: int | None = None
    plus_zero: bool = False
    one_nan: bool = False
    between: str = "f32"
    tf32_low_bits: bool = True
    fused: bool = True
    flush: bool = False


@dataclass(frozen=True)
class Term:
    """One term of a group. k: its place in the dot, None for the addend; a, b: a product's factors.

    The term is ``significand * 2^unit`` with its sign; exponent: the sum of the factors' (R2), not that of the leading
    one. kept: its signed integer in units of the group's lowest place. lost: what was cut off, in units of 2^unit.
    """

    k: int | None
    a: Number | None
    b: Number | None
    negative: bool
    significand: int
    exponent: int
    unit: int
    kept: int
    lost: int

    @property
    def name(self) -> str:
        return "addend" if self.k is None else f"k={self.k}"

    @property
    def zero(self) -> bool:
        return self.significand == 0

    @property
    def absorbed(self) -> bool:
        """A nonzero term of which nothing is left in the sum."""
        return self.significand != 0 and self.kept == 0


@dataclass(frozen=True)
class Group:
    """One group. E: its exponent (None: no window, or no term but zeros); raw: before the floor; set_by: names of the
    terms that have it.

    lowest: place of the unit of the sum. total: the integer sum. rounding: what became of it (None where `special`
    says why the result is an infinity or a NaN). result: code in the format of the accumulator.
    """

    index: int
    addend: Number
    terms: tuple[Term, ...]
    E: int | None
    raw: int | None
    set_by: tuple[str, ...]
    lowest: int
    total: int
    rounding: Rounding | None
    special: str
    result: Number

    @property
    def absorbed(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.absorbed)

    @property
    def floored(self) -> bool:
        return self.E is not None and self.raw is not None and self.raw < self.E


@dataclass(frozen=True)
class Dot:
    """A dot under some rules. narrowing: the accumulator rounded to the result's format where the two differ."""

    rules: Rules
    groups: tuple[Group, ...]
    narrowing: Rounding | None
    code: int


def dot(a: Sequence[int], b: Sequence[int], c: int, operand: Format, result: Format, rules: Rules) -> Dot:
    """a, b: codes along k; c: the addend's code in the result's format."""
    fmt = numbers.operand_format(operand, not rules.tf32_low_bits)
    left, right = [_number(x, fmt, rules) for x in a], [_number(x, fmt, rules) for x in b]
    width = rules.width or max(len(left), 1)
    wide = FORMATS[rules.between]
    starts = range(0, max(len(left), 1), width)
    # the whole dot in one group is rounded once, to the result itself
    inner = result if rules.width is None else wide
    accumulator = _number(_widened(c, result, inner, rules.one_nan), inner, rules)
    groups = []
    for index, start in enumerate(starts):
        pairs = [(k, left[k], right[k]) for k in range(start, min(start + width, len(left)))]
        groups.append(_group(index, pairs, accumulator, inner, rules))
        accumulator = groups[-1].result
    if inner == result:
        return Dot(rules, tuple(groups), None, accumulator.code)
    code, rounding = _narrowed(accumulator, result, rules)
    return Dot(rules, tuple(groups), rounding, code)


def _number(code: int, fmt: Format, rules: Rules) -> Number:
    number = numbers.decode(code, fmt)
    if rules.flush and number.kind == "subnormal":
        return numbers.decode(code & fmt.sign_bit, fmt)
    return number


def _widened(code: int, fmt: Format, target: Format, one_nan: bool) -> int:
    """A code in a format that holds all of its values."""
    number = numbers.decode(code, fmt)
    if fmt == target or number.kind == "nan":
        return code if fmt == target else _payload(number, target, one_nan)
    if number.kind == "infinity":
        return numbers.infinity(number.negative, target)
    total = -number.significand if number.negative else number.significand
    rounding = numbers.round_exact(total, number.unit, target, negative_zero=number.negative)
    assert rounding.direction == "exact", (code, fmt, target)
    return rounding.code


def _payload(number: Number, target: Format, one_nan: bool) -> int:
    """A NaN in another format: canonical, or quiet with the head of its payload (IEEE 754, 6.2)."""
    if one_nan:
        return target.canonical_nan
    source = FORMATS[number.format]
    shift = target.fraction_bits - source.fraction_bits
    payload = number.significand << shift if shift >= 0 else number.significand >> -shift
    quiet = payload | 1 << (target.fraction_bits - 1)
    return (target.infinity | quiet << target.ignored_bits) | (target.sign_bit if number.negative else 0)


def _narrowed(number: Number, result: Format, rules: Rules) -> tuple[int, Rounding | None]:
    if number.kind == "nan":
        return _payload(number, result, rules.one_nan), None
    if number.kind == "infinity":
        return numbers.infinity(number.negative, result), None
    total = -number.significand if number.negative else number.significand
    rounding = numbers.round_exact(total, number.unit, result, negative_zero=number.negative and not rules.plus_zero)
    code = rounding.code
    if rules.plus_zero and code == result.sign_bit:
        code = 0
    return code, replace(rounding, code=code)


# --- one group -------------------------------------------------------------------------------------------------------


def _group(index: int, pairs: list[tuple[int, Number, Number]], addend: Number, fmt: Format, rules: Rules) -> Group:
    """R2 to R9 on one group; pairs: (k, factor, factor)."""
    special, code = _special(pairs, addend, fmt, rules)
    terms = [_product(k, a, b) for k, a, b in pairs]
    if not rules.fused:
        terms = [_rounded_product(term, fmt, rules) for term in terms]
    if addend.finite:
        terms.append(_term(None, None, None, addend.negative, addend.significand, addend.exponent, addend.unit))
    nonzero = [term for term in terms if not term.zero]
    raw = max((term.exponent for term in nonzero), default=None)  # R3
    E = raw if raw is None or rules.floor is None else max(raw, rules.floor)  # R4
    if rules.bits is None:
        lowest = min((term.unit for term in nonzero), default=0)
        E = None
    else:
        lowest = (0 if E is None else E) - rules.bits
    terms = [_cut(term, lowest, rules.terms) for term in terms]  # R5
    total = sum(term.kept for term in terms)  # R6
    set_by = tuple(term.name for term in nonzero if term.exponent == raw)
    rounding = None
    if not special:
        negative_zero = not rules.plus_zero and bool(terms) and all(term.negative and term.kept == 0 for term in terms)
        rounding = numbers.round_exact(
            total, lowest, fmt, rules.final, negative_zero=negative_zero, flush=rules.flush
        )  # R7
        code = rounding.code
        if rules.plus_zero and code == fmt.sign_bit:  # R8
            code = 0
        rounding = replace(rounding, code=code)
    result = numbers.decode(code, fmt)
    return Group(index, addend, tuple(terms), E, raw, set_by, lowest, total, rounding, special, result)


def _term(k: Any, a: Any, b: Any, negative: bool, significand: int, exponent: int, unit: int) -> Term:
    return Term(k, a, b, negative, significand, exponent, unit, 0, 0)


def _product(k: int, a: Number, b: Number) -> Term:
    """R2: exact, unnormalised; specials take no part in the sum (R9 decides)."""
    significand = a.significand * b.significand if a.finite and b.finite else 0
    negative = a.negative != b.negative
    return _term(k, a, b, negative, significand, a.exponent + b.exponent, a.unit + b.unit)


def _rounded_product(term: Term, fmt: Format, rules: Rules) -> Term:
    """A multiplication of its own before the addition; an overflow is met as a special by `_special`."""
    total = -term.significand if term.negative else term.significand
    code = numbers.round_exact(total, term.unit, fmt, negative_zero=term.negative).code
    number = _number(code, fmt, rules)
    significand = number.significand if number.finite else 0
    return _term(term.k, term.a, term.b, term.negative, significand, number.exponent, number.unit)


def _cut(term: Term, lowest: int, mode: str) -> Term:
    """R5: the term in units of 2^lowest, and what it lost."""
    distance = term.unit - lowest
    if distance >= 0:
        kept, lost = term.significand << distance, 0
    else:
        places = -distance
        kept, lost = term.significand >> places, term.significand & ((1 << places) - 1)
        half = 1 << (places - 1)
        if mode == "rn" and (lost > half or (lost == half and kept & 1)):
            kept += 1
    return replace(term, kept=-kept if term.negative else kept, lost=lost)


def _special(pairs: list[tuple[int, Number, Number]], addend: Number, fmt: Format, rules: Rules) -> tuple[str, int]:
    """R9: (why the result is no finite sum, its code), or ("", 0)."""
    factors = [n for _, a, b in pairs for n in (a, b)]
    if fmt is F64:  # DFMA passes a NaN on: the second factor's, else the addend's, else the first factor's
        order = [*(b for _, _, b in pairs), addend, *(a for _, a, _ in pairs)]
    else:
        order = [addend, *factors]
    nans = [number for number in order if number.kind == "nan"]
    if nans:
        where = "the addend" if nans[0] is addend else "an operand"
        return f"{where} is a NaN", fmt.canonical_nan if rules.one_nan else _payload(nans[0], fmt, False)
    infinities = [("the addend", addend.negative)] if addend.kind == "infinity" else []
    for k, a, b in pairs:
        kinds = {a.kind, b.kind}
        if kinds == {"infinity", "zero"}:
            return f"k={k} is infinity times zero", _invalid(fmt, rules)
        if "infinity" in kinds or (not rules.fused and _overflows(a, b, fmt)):
            infinities.append((f"k={k}", a.negative != b.negative))
    if not infinities:
        return "", 0
    names = ", ".join(name for name, _ in infinities)
    if len({negative for _, negative in infinities}) == 2:
        return f"infinities of both signs meet ({names})", _invalid(fmt, rules)
    plural = "are infinite" if len(infinities) > 1 else "is infinite"
    return f"{names} {plural}", numbers.infinity(infinities[0][1], fmt)


def _invalid(fmt: Format, rules: Rules) -> int:
    """The NaN of an invalid operation: canonical, or IEEE 754's usual default, quiet and nothing else."""
    return fmt.canonical_nan if rules.one_nan or fmt is F64 else fmt.infinity | 1 << (fmt.fraction_bits - 1)


def _overflows(a: Number, b: Number, fmt: Format) -> bool:
    if not (a.finite and b.finite):
        return False
    code = numbers.round_exact(a.significand * b.significand, a.unit + b.unit, fmt).code
    return code == fmt.infinity
