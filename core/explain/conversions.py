"""Conversions taken apart: the exact value, what the target cannot hold, and which way it was rounded.

Rules (design.md 4.2, phobos-language.md D.1, docs/adr/0008): F2F rounds once; a NaN becomes canonical, but from and to
f64 it keeps its sign and leading payload bits, quieted, and bf16 to f32 is a shift; F2I truncates or rounds, saturates,
NaN gives 0 (the lowest integer from f64 or to s64); I2F rounds once, to bf16 through f32; I2I keeps the low bits; the
language's i8(x), u8(x) saturate to 16 bits and keep the low byte; cvt.rna.tf32 adds half of the dropped unit to a
finite magnitude, then masks. Written in Python integers apart from `reference.convert`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..formats import BF16, F32, F64, FORMATS, TF32, Format
from ..isa import Arch, Instruction
from . import numbers
from .numbers import Number, Rounding
from .report import Report


@dataclass(frozen=True)
class Integers:
    """The integer steps of a conversion to integers: the rounded value, what it was clamped to, and the bits kept of
    that.
    """

    rounded: int
    clamped: int
    low: int
    to: str

    @property
    def saturated(self) -> bool:
        return self.rounded != self.clamped


@dataclass(frozen=True, repr=False)
class ConversionExplanation(Report):
    """One conversion. value: the operand's exact value as ``total * 2^unit`` (None: not finite); rounding: to a float
    target; integers: to an integer target; special: why there was nothing to round.
    """

    instruction: Instruction
    arch: Arch
    source: Format
    target: Format
    operand: int
    total: int | None
    unit: int
    rounding: Rounding | None
    integers: Integers | None
    special: str
    code: int
    expected: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def number(self) -> Number | None:
        """The operand decoded, where it is a float."""
        return numbers.decode(self.operand, self.source) if self.source.is_float else None

    def document(self) -> Any:
        from .describe_single import conversion

        return conversion(self)

    def to_dict(self) -> dict[str, Any]:
        from .describe_json import conversion

        return conversion(self)


def explain_conversion(
    instruction: Instruction, arch: Arch, code: int, *, expected: int | None = None, notes: tuple[str, ...] = ()
) -> ConversionExplanation:
    """code: the operand's, in the format of the instruction's source."""
    source, target = instruction.operands[0], instruction.result
    assert source is not None and target is not None
    total, unit = _value(code, source)
    rounding, integers, special, result = _CASES[instruction.function](code, total, unit, source, target, instruction)
    return ConversionExplanation(
        instruction, arch, source, target, code, total, unit, rounding, integers, special, result, expected, notes
    )


def _value(code: int, fmt: Format) -> tuple[int | None, int]:
    if not fmt.is_float:
        return numbers.integer_value(code, fmt), 0
    number = numbers.decode(code, fmt)
    if not number.finite:
        return None, 0
    return -number.significand if number.negative else number.significand, number.unit


_Outcome = tuple[Rounding | None, Integers | None, str, int]


def _f2f(code: int, total: int | None, unit: int, source: Format, target: Format, row: Instruction) -> _Outcome:
    number = numbers.decode(code, source)
    if number.kind == "nan":
        return None, None, *_nan(code, number, source, target)
    if total is None:
        return None, None, "an infinity stays one", numbers.infinity(number.negative, target)
    mode = str(row.keywords.get("rounding", "rn"))
    rounding = numbers.round_exact(total, unit, target, mode, negative_zero=number.negative)
    code = rounding.code
    if rounding.direction == "overflow" and mode == "rz":
        code = target.largest | (target.sign_bit if number.negative else 0)
        return rounding, None, f"beyond the largest {target.name}: toward zero that is the largest finite number", code
    return rounding, None, "", code


def _nan(code: int, number: Number, source: Format, target: Format) -> tuple[str, int]:
    """(what happens to a NaN, its code)."""
    if source == BF16 and target == F32:
        return "bf16 to f32 is a shift: a NaN keeps its bits", code << 16
    if source == BF16 and target == F64:
        number, source = numbers.decode(code << 16, F32), F32
    if F64 in (source, target) and target != BF16:
        shift = target.fraction_bits - source.fraction_bits
        payload = number.significand << shift if shift >= 0 else number.significand >> -shift
        sign = target.sign_bit if number.negative else 0
        quiet = 1 << (target.fraction_bits - 1)
        return "a NaN keeps its sign and leading payload bits, quieted", sign | target.infinity | quiet | payload
    return f"every NaN becomes the canonical NaN of {target.name}", target.canonical_nan


def _rna_tf32(code: int, total: int | None, unit: int, source: Format, target: Format, row: Instruction) -> _Outcome:
    mask = F32.sign_bit * 2 - (1 << TF32.ignored_bits)
    if total is None:
        return None, None, "infinities and NaN are only masked: the low 13 bits are cleared", code & mask
    half = 1 << (TF32.ignored_bits - 1)
    result = (code + half) & mask
    field = max((code >> F32.fraction_bits) & 255, 1)
    last = field - F32.bias - TF32.fraction_bits
    dropped = code & ((1 << TF32.ignored_bits) - 1)
    direction = "exact" if not dropped else "away from zero" if dropped >= half else "toward zero"
    if result & (F32.sign_bit - 1) == F32.infinity:
        direction = "overflow"
    significand = abs(total)
    rounding = Rounding(
        "rna", total < 0, unit, significand.bit_length() - 1 + unit if significand else None, last,
        significand >> TF32.ignored_bits, dropped, TF32.ignored_bits, direction, dropped == half, result,
    )  # fmt: skip
    return rounding, None, "", result


def _f2i(code: int, total: int | None, unit: int, source: Format, target: Format, row: Instruction) -> _Outcome:
    return _to_integer(code, total, unit, source, target, target, str(row.keywords["rounding"]))


def _low_byte(code: int, total: int | None, unit: int, source: Format, target: Format, row: Instruction) -> _Outcome:
    wide = FORMATS["s16" if target.name == "s8" else "u16"]
    return _to_integer(code, total, unit, source, wide, target, "rzi")


def _to_integer(
    code: int, total: int | None, unit: int, source: Format, wide: Format, target: Format, mode: str
) -> _Outcome:
    number = numbers.decode(code, source)
    mask = (1 << target.bits) - 1
    if number.kind == "nan":
        value = wide.lowest_integer if source == F64 or wide.bits == 64 else 0
        return None, None, f"a NaN gives {value}", value & mask
    if total is None:
        value = wide.lowest_integer if number.negative else wide.largest
        return None, None, f"an infinity gives the end of {wide.name}, {value}", value & mask
    places = max(-unit, 0)
    magnitude = abs(total) << max(unit, 0)
    whole, dropped = magnitude >> places, magnitude & ((1 << places) - 1)
    half = 1 << (places - 1) if places else 0
    tie = bool(places) and dropped == half
    if mode == "rni" and places and (dropped > half or (tie and whole & 1)):
        whole += 1
    value = -whole if total < 0 else whole
    clamped = max(wide.lowest_integer, min(wide.largest, value))
    direction = "exact" if not dropped else "away from zero" if whole > magnitude >> places else "toward zero"
    rounding = Rounding(
        mode, total < 0, min(unit, 0), None, 0, magnitude >> places, dropped, places, direction, tie, clamped & mask
    )
    return rounding, Integers(value, clamped, clamped & mask, wide.name), "", clamped & mask


def _i2f(code: int, total: int | None, unit: int, source: Format, target: Format, row: Instruction) -> _Outcome:
    assert total is not None
    if target == BF16:  # sm_86 has no such conversion
        wide = numbers.decode(numbers.round_exact(total, 0, F32).code, F32)
        through = -wide.significand if wide.negative else wide.significand
        rounding = numbers.round_exact(through, wide.unit, target)
        return rounding, None, f"through f32: {total} becomes {wide} first", rounding.code
    rounding = numbers.round_exact(total, 0, target)
    return rounding, None, "", rounding.code


def _i2i(code: int, total: int | None, unit: int, source: Format, target: Format, row: Instruction) -> _Outcome:
    assert total is not None
    low = total & ((1 << target.bits) - 1)
    return None, Integers(total, total, low, target.name), "", low


_CASES = {
    "f2f": _f2f, "rna_tf32": _rna_tf32, "f2i": _f2i, "low_byte": _low_byte, "i2f": _i2f, "i2i": _i2i,
}  # fmt: skip
