"""The third opinion on tensor cores: rules R1 to R10 of design.md 4.1 in exact rationals, one output element.

`Rules` says the rules as data; the right ones come from an instruction and an `Arch` record, and each wrong model in
`mutants.py` is the right one with one field changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import oracle as o
from phobos_sim.formats import F32, FORMATS, Format
from phobos_sim.isa import Arch, Instruction


@dataclass(frozen=True)
class Rules:
    """fraction_bits, width, floor: the numbers of `Arch`. The other fields are right by default."""

    operand: Format
    result: Format
    fraction_bits: int
    width: int
    floor: int
    reads_ignored_bits: bool = False
    flushes_operands: bool = False
    flushes_results: bool = False
    normalises_products: bool = False
    zero_products_set_exponent: bool = False
    addend_sets_exponent: bool = True
    aligns: str = "rz"
    ends: str = "rn or rz by result"
    f16_through_f32: bool = False
    keeps_minus_zero: bool = False
    keeps_payload: bool = False
    overflow: str = "infinity"
    addend_last: bool = False
    sequential: bool = False
    chained: bool = True
    descending: bool = False
    rounds_f16_between: bool = True


def rules_of(instruction: Instruction, arch: Arch) -> Rules:
    """The right rules of a row on an architecture."""
    options = instruction.keywords
    operand, result, k = str(options["operand"]), str(options["result"]), int(str(options["k"]))
    width = {16: arch.width16, 8: arch.width_k8, 4: arch.width_k8}[k]
    if operand == "tf32":
        chosen = arch.width_tf32_k4 if k == 4 else arch.width_tf32
        assert chosen is not None
        width = chosen
    floor = arch.floor_f16 if result == "f16" else arch.floor_f32
    return Rules(FORMATS[operand], FORMATS[result], arch.fraction_bits, width, floor)


def element(a: list[int], b: list[int], c: int, rules: Rules) -> int:
    """One output of one instruction: a and b are codes along k."""
    pairs = list(zip(a, b))
    groups = [pairs[k : k + rules.width] for k in range(0, len(pairs), rules.width)]
    if rules.descending:
        groups.reverse()
    if rules.sequential:
        for x, y in pairs:
            c = _sequential(x, y, c, rules)
        return c
    if not rules.chained:
        parts = [group(g, 0, rules) for g in groups]
        for part in parts:
            c = o.add(c, part, rules.result)
        return c
    if rules.result.name == "f16" and not rules.rounds_f16_between and len(groups) > 1:
        return _wide_chain(groups, c, rules)
    for g in groups:
        c = group(g, c, rules)
    return c


def _sequential(x: int, y: int, c: int, rules: Rules) -> int:
    wide = [o.convert(code, rules.operand, F32) for code in (x, y)]
    return o.convert(o.fused(*wide, o.convert(c, rules.result, F32), F32), F32, rules.result)


def _wide_chain(groups: list[list[tuple[int, int]]], c: int, rules: Rules) -> int:
    wide = Rules(rules.operand, F32, rules.fraction_bits, rules.width, rules.floor)
    carried = o.convert(c, rules.result, F32)
    for g in groups:
        carried = group(g, carried, wide)
    return o.convert(carried, F32, rules.result)


def _read(code: int, rules: Rules) -> o.Number:
    fmt = F32 if rules.reads_ignored_bits and rules.operand.name == "tf32" else rules.operand
    return o.decode(o.flush(code, fmt) if rules.flushes_operands else code, fmt)


def group(pairs: list[tuple[int, int]], c: int, rules: Rules) -> int:
    """R1 to R9 for one group."""
    numbers = [(_read(x, rules), _read(y, rules)) for x, y in pairs]
    addend = o.decode(o.flush(c, rules.result) if rules.flushes_operands else c, rules.result)
    special = _special(numbers, addend, c, rules)
    if special is not None:
        return special
    terms = [(_exponent(x, rules) + _exponent(y, rules), x.value * y.value) for x, y in numbers]
    if rules.normalises_products:
        terms = [(o.exponent_of(abs(v)) if v else e, v) for e, v in terms]
    exponents = [e for e, v in terms if v or rules.zero_products_set_exponent]
    own = (_addend_exponent(addend, rules), addend.value)
    if addend.value and rules.addend_sets_exponent and not rules.addend_last:
        exponents.append(own[0])
    top = max([*exponents, rules.floor])
    unit = o.power(top - rules.fraction_bits)
    total = sum((_aligned(v, unit, rules) for _, v in terms), Fraction(0))
    if rules.addend_last:
        partial = _finish(total, rules)
        return o.add(partial, c, rules.result)
    minus = rules.keeps_minus_zero and addend.negative and all(x.negative != y.negative for x, y in numbers)
    return _finish(total + _aligned(own[1], unit, rules), rules, minus)


def _exponent(x: o.Number, rules: Rules) -> int:
    """R1: a subnormal's exponent is the smallest normal's; a zero's does not matter."""
    return max(o.exponent_of(x.magnitude), rules.operand.emin) if x.magnitude else rules.operand.emin


def _addend_exponent(x: o.Number, rules: Rules) -> int:
    return max(o.exponent_of(x.magnitude), rules.result.emin) if x.magnitude else rules.result.emin


def _aligned(value: Fraction, unit: Fraction, rules: Rules) -> Fraction:
    """R5: a multiple of the unit, truncated toward zero."""
    steps = abs(value) / unit
    whole = steps.numerator // steps.denominator if rules.aligns == "rz" else o.nearest_even(steps)
    return (-whole if value < 0 else whole) * unit


def _finish(total: Fraction, rules: Rules, minus: bool = False) -> int:
    """R7 and R8."""
    mode = rules.ends if rules.ends in ("rn", "rz") else "rn" if rules.result.name == "f16" else "rz"
    negative = total < 0 or (total == 0 and minus)
    if rules.f16_through_f32 and rules.result.name == "f16":
        code = o.convert(o.encode(negative, abs(total), F32, "rz"), F32, rules.result)
    else:
        code = o.encode(negative, abs(total), rules.result, mode, rules.overflow)
    if rules.flushes_results:
        code = o.flush(code, rules.result)
    zero = code & (rules.result.sign_bit - 1) == 0
    return 0 if zero and not rules.keeps_minus_zero else code


def _special(numbers: list[tuple[o.Number, o.Number]], addend: o.Number, c: int, rules: Rules) -> int | None:
    """R9, or None where every term is finite."""
    signs = set()
    bad = addend.kind == "nan"
    for x, y in numbers:
        kinds = {x.kind, y.kind}
        bad |= "nan" in kinds or ("infinite" in kinds and (x.zero or y.zero))
        if "infinite" in kinds:
            signs.add(x.negative != y.negative)
    if addend.kind == "infinite":
        signs.add(addend.negative)
    if bad or len(signs) == 2:
        return c if rules.keeps_payload and addend.kind == "nan" else rules.result.canonical_nan
    return o.infinity(signs.pop(), rules.result) if signs else None


def integer_element(a: list[int], b: list[int], c: int, a_signed: bool, b_signed: bool, saturate: bool) -> int:
    """IMMA: the exact sum, wrapped at 32 bits or clamped."""
    left, right, s32 = (FORMATS[name] for name in ("s8" if a_signed else "u8", "s8" if b_signed else "u8", "s32"))
    total = o.to_int(c, s32) + sum(o.to_int(x, left) * o.to_int(y, right) for x, y in zip(a, b))
    return o.from_int(o.saturate(total, s32) if saturate else total, s32)
