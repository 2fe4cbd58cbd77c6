"""The third opinion on ladders: a dot under the rules that a step names, in exact rationals, from the words alone.

`element` takes the ladder's start and the names of the rules put in so far; nothing of `explain` is used.
"""

from __future__ import annotations

from collections.abc import Set
from fractions import Fraction

import oracle as o
from phobos_sim.formats import F16, F32, FORMATS, TF32, Format
from phobos_sim.isa import Arch, Instruction

IEEE, EXACT, HALF = "sequential IEEE chain", "correctly rounded dot", "sequential f16 chain"


def element(
    a: list[int], b: list[int], c: int, instruction: Instruction, arch: Arch, start: str, rules: Set[str]
) -> int:
    """One element of a matrix instruction (k any multiple of its own); rules: names of the ladder's steps so far."""
    operand, result = FORMATS[str(instruction.keywords["operand"])], FORMATS[str(instruction.keywords["result"])]
    fmt = F32 if operand == TF32 and "tf32 operand bits" not in rules else operand
    grouped = bool(rules & {"exact sum per group", "rounding between groups"})
    k = int(str(instruction.keywords["k"]))
    width = arch.width(operand.name, k) if grouped else len(a) if start == EXACT else 1
    narrow = result == F16 and (start == HALF or "f16 rounding between groups" in rules)
    accumulator = result if narrow or (start == EXACT and not grouped) else F32
    carried = _wider(c, result, accumulator, rules)
    for at in range(0, len(a), width):
        pairs = [(x, y) for x, y in zip(a[at : at + width], b[at : at + width])]
        carried = _group(pairs, carried, fmt, accumulator, arch.fraction_bits, arch.floor(result.name), rules)
    return carried if accumulator == result else _narrower(carried, accumulator, result, rules)


def _group(
    pairs: list[tuple[int, int]], c: int, fmt: Format, result: Format, bits: int, floor: int, rules: Set[str]
) -> int:
    numbers = [(o.decode(x, fmt), o.decode(y, fmt)) for x, y in pairs]
    addend = o.decode(c, result)
    special = _special(pairs, numbers, c, addend, fmt, result, rules)
    if special is not None:
        return special
    signs = [x.negative != y.negative for x, y in numbers] + [addend.negative]
    values = [x.value * y.value for x, y in numbers] + [addend.value]
    if "kept window" in rules:
        exponents = [_exponent(x, fmt) + _exponent(y, fmt) for x, y in numbers] + [_exponent(addend, result)]
        present = [e for e, v in zip(exponents, values) if v]
        top = max(present, default=0)
        if "floor" in rules:
            top = max(top, floor)
        place = o.power(top - bits)
        values = [_cut(v, place, "truncation of terms" in rules) for v in values]
    total = sum(values, Fraction(0))
    if "sign of zero" in rules:
        negative = total < 0
    else:
        negative = total < 0 or (all(signs) and not any(values))
    code = o.encode(negative, abs(total), result, "rz" if "final truncation" in rules else "rn")
    return 0 if "sign of zero" in rules and code == result.sign_bit else code


def _exponent(x: o.Number, fmt: Format) -> int:
    return max(o.exponent_of(x.magnitude), fmt.emin) if x.magnitude else fmt.emin


def _cut(value: Fraction, place: Fraction, truncate: bool) -> Fraction:
    steps = abs(value) / place
    whole = steps.numerator // steps.denominator if truncate else o.nearest_even(steps)
    return (-whole if value < 0 else whole) * place


def _special(
    pairs: list[tuple[int, int]], numbers: list[tuple[o.Number, o.Number]], c: int, addend: o.Number, fmt: Format,
    result: Format, rules: Set[str],
) -> int | None:  # fmt: skip
    invalid = result.canonical_nan if "NaN" in rules else result.infinity | 1 << (result.fraction_bits - 1)
    if addend.kind == "nan":
        return _nan(c, result, result, rules)
    for codes, pair in zip(pairs, numbers):
        for code, number in zip(codes, pair):
            if number.kind == "nan":
                return _nan(code, fmt, result, rules)
    signs = {addend.negative} if addend.kind == "infinite" else set()
    for x, y in numbers:
        if "infinite" in (x.kind, y.kind):
            if x.zero or y.zero:
                return invalid
            signs.add(x.negative != y.negative)
    if len(signs) == 2:
        return invalid
    return o.infinity(signs.pop(), result) if signs else None


def _nan(code: int, source: Format, target: Format, rules: Set[str]) -> int:
    """IEEE 754: quiet, with the sign and the head of the payload; by the rule, one NaN."""
    if "NaN" in rules:
        return target.canonical_nan
    fraction = code >> source.ignored_bits & ((1 << source.fraction_bits) - 1)
    moved = fraction * 2**target.fraction_bits // 2**source.fraction_bits
    sign = target.sign_bit if code & source.sign_bit else 0
    return sign | target.infinity | moved | 1 << (target.fraction_bits - 1)


def _wider(code: int, source: Format, target: Format, rules: Set[str]) -> int:
    number = o.decode(code, source)
    if source == target or number.kind != "nan":
        return code if source == target else _finite(number, target)
    return _nan(code, source, target, rules)


def _finite(number: o.Number, target: Format) -> int:
    if number.kind == "infinite":
        return o.infinity(number.negative, target)
    return o.encode(number.negative, number.magnitude, target)


def _narrower(code: int, source: Format, target: Format, rules: Set[str]) -> int:
    number = o.decode(code, source)
    if number.kind == "nan":
        return _nan(code, source, target, rules)
    narrowed = _finite(number, target)
    return 0 if "sign of zero" in rules and narrowed == target.sign_bit else narrowed
