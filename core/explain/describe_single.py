"""Reports of single operations: MUFU and conversions."""

from __future__ import annotations

from collections.abc import Iterator

from ..formats import Format
from . import numbers
from .conversions import ConversionExplanation
from .describe_dot import error_text, exact_text
from .describe_group import LOST_PLACES, point
from .document import BitRow, Bits, Block, Details, Document, Heading, Table, Text, draw, plural, ruler
from .mufu import Interpolation, MufuExplanation

_NAMES = {
    "ex2": "2^a", "lg2": "log2 a", "rcp": "1 / a", "rsq": "1 / sqrt a", "sqrt": "sqrt a", "tanh": "tanh a",
    "sin": "the sine of a turns", "cos": "the cosine of a turns",
}  # fmt: skip


def _expected(given: int | None, code: int, fmt: Format) -> Iterator[Block]:
    if given is None:
        return
    if given == code:
        yield Text(f"{numbers.value_text(given, fmt)} was given: the same.", "Compared:")
        return
    steps = numbers.steps_between(given, code, fmt) if fmt.is_float else given - code
    away = (
        "one of the two is a NaN"
        if steps is None
        else f"{abs(steps):,} {'ulp' if fmt.is_float else ''} away".replace("  ", " ")
    )
    yield Text(f"{numbers.value_text(given, fmt)} was given, {away}.", "Compared:")


def _evidence(e: MufuExplanation | ConversionExplanation) -> Iterator[Block]:
    evidence = e.instruction.evidence.get(e.arch.name)
    if evidence is not None:
        text = Text(f"{evidence.maturity}: {evidence.text}.", f"{e.instruction.key} on {e.arch.name} is")
        yield Details("How well this is known", (text,))


# --- MUFU ------------------------------------------------------------------------------------------------------------


def mufu(e: MufuExplanation) -> Document:
    title = f"{e.instruction.key} on {e.arch.name}: {_NAMES[e.function]} of {e.operand} is {e.result}"
    return Document(title, tuple(_mufu_blocks(e)))


def _mufu_blocks(e: MufuExplanation) -> Iterator[Block]:
    for note in e.notes:
        yield Text(note, "Note:")
    yield from _expected(e.expected, e.code, e.format)
    best = numbers.decode(e.best, e.format)
    off = e.off
    away = "same bits" if e.code == e.best else "NaN" if off is None else f"{-off:+,} ulp"
    rows = [(e.instruction.key, e.result.hex, e.result.text, "the result", error_text(e.error))]
    best_error = None if e.exact is None or not best.finite else numbers.fraction_of(best) - e.exact
    if best_error is not None and e.exact is not None:
        from .explanation import ulp

        best_error /= ulp(e.exact, e.format)
    rows.append(("correctly rounded", best.hex, best.text, away, error_text(best_error)))
    if e.exact is not None:
        rows.append(("true value", "", exact_text(e.exact), "", ""))
    yield Table(
        ("", "code", "value", "vs result", "error (ulp)"), tuple(rows), (1,) if e.code != e.best else (), (3, 4), (0, 2)
    )
    if e.steps.special:
        yield Text(f"{e.steps.special}.", "Special case:")
    for line in e.steps.reduced:
        yield Text(f"{line}.", "Argument:")
    if e.steps.pass_ is not None:
        yield from _interpolation(e.steps.pass_, e.instruction)
    if e.steps.finish:
        yield Text(f"{e.steps.finish}.", "Result:")
    if e.narrowing is not None:
        bits = plural(e.narrowing.places, "bit")
        yield Text(f"{bits} of the f32 result {e.steps.code:08x} are cut off (toward zero): {e.result}.", "To f16:")
    yield from _evidence(e)


def _interpolation(one: Interpolation, instruction: object) -> Iterator[Block]:
    yield Heading(f"Segment {one.segment} of {one.segments}")
    yield Text(
        "A = (C0 << s0) + C1 x + ((C2 S(x)) << s2) + bias; the lowest places of A are cut off, "
        "nothing is rounded but by the bias."
    )
    lost = float(one.true_square) - one.square
    rows = (
        ("x", f"{one.x:#x}", f"{one.x_bits} bits"),
        ("C0, C1, C2", f"{one.c0}, {one.c1}, {one.c2}", "this segment's coefficients"),
        ("S(x)", str(one.square), f"x² / 2^19 is {float(one.true_square):.4g}: the squarer cuts {lost:.4g} off"),
        ("A", str(one.A), f"the sum; {plural(one.shift, 'place')} cut off: {one.value}" if one.shift else "the sum"),
    )
    yield Table(("", "number", ""), rows)
    names = ("C0 << s0", "C1 x", "C2 S << s2", "bias")
    tops = [abs(part).bit_length() - 1 for part in (*one.parts, one.A) if part]
    top = max(tops, default=0)
    cut = one.shift if one.shift else None
    bits = [BitRow(name, draw(part < 0, abs(part), 0, top, 0, cut)) for name, part in zip(names, one.parts) if part]
    bits.append(BitRow("A", draw(one.A < 0, abs(one.A), 0, top, 0, cut, "sum", "dropped")))
    yield Bits((ruler(top, 0, cut), *bits))


# --- conversions -----------------------------------------------------------------------------------------------------


def conversion(e: ConversionExplanation) -> Document:
    operand, result = numbers.value_text(e.operand, e.source), numbers.value_text(e.code, e.target)
    title = f"{e.instruction.key} on {e.arch.name}: {e.source.name} {operand} becomes {e.target.name} {result}"
    return Document(title, tuple(_conversion_blocks(e)))


def _conversion_blocks(e: ConversionExplanation) -> Iterator[Block]:
    for note in e.notes:
        yield Text(note, "Note:")
    yield from _expected(e.expected, e.code, e.target)
    if e.special:
        yield Text(f"{e.special}.", "Special case:")
    if e.total == 0 and e.number is not None:
        yield Text("a zero stays one" + (" and keeps its sign." if e.target.is_float else "."), "Special case:")
    if e.total and e.rounding is not None:
        leading = abs(e.total).bit_length() - 1 + e.unit
        yield Text(f"{point(e.total < 0, abs(e.total), e.unit, leading)}, exactly.", "Operand:")
        yield _conversion_bits(e)
        yield Text(_how(e), "Rounding:")
    if e.integers is not None:
        yield from _integers(e)
    yield from _evidence(e)


def _how(e: ConversionExplanation) -> str:
    r = e.rounding
    assert r is not None
    if r.direction == "overflow":
        return f"the value is beyond the largest {e.target.name}: {numbers.value_text(e.code, e.target)}."
    subnormal = e.target.is_float and r.leading is not None and r.leading < e.target.emin
    lowest = f"{e.target.name} has its lowest place here at 2^{r.last}" + (" (a subnormal result)" if subnormal else "")
    if not r.dropped:
        return f"{lowest}; nothing lies below: exact."
    mode = {
        "rn": "to nearest, ties to even", "rz": "toward zero", "rni": "to the nearest integer, ties to even",
        "rzi": "toward zero, to an integer",
        "rna": "half of that place is added and the rest cut off: to nearest, ties away from zero",
    }[r.mode]  # fmt: skip
    tie = " It is a tie." if r.tie and r.mode in ("rn", "rni", "rna") else ""
    return f"{lowest}; {plural(r.places, 'bit')} below it ({mode}).{tie} It moves {r.direction}."


def _conversion_bits(e: ConversionExplanation) -> Bits:
    """Operand above result, aligned; the bar stands behind the target's lowest place."""
    assert e.total is not None and e.rounding is not None
    magnitude = abs(e.total)
    top = magnitude.bit_length() - 1 + e.unit
    deepest = (magnitude & -magnitude).bit_length() - 1 + e.unit
    cut = e.rounding.last
    number = numbers.decode(e.code, e.target) if e.target.is_float else None
    if number is not None and number.finite and number.significand:  # a carry may reach the next place
        top = max(top, number.significand.bit_length() - 1 + number.unit)
    wide = max(top, cut)
    bottom = max(min(deepest, cut), cut - 2 * LOST_PLACES, wide - 120)
    shown = cut if bottom < cut <= wide else None
    rows = [ruler(wide, bottom, shown), BitRow("operand", draw(e.total < 0, magnitude, e.unit, wide, bottom, shown))]
    if number is not None:
        if number.finite and number.significand:
            rows.append(
                BitRow("result", draw(number.negative, number.significand, number.unit, wide, bottom, shown, "sum"))
            )
    elif e.integers is not None and not e.integers.saturated:
        value = e.integers.rounded
        if abs(value).bit_length() - 1 <= wide:
            rows.append(BitRow("integer", draw(value < 0, abs(value), 0, wide, bottom, shown, "sum")))
    return Bits(tuple(rows))


def _integers(e: ConversionExplanation) -> Iterator[Block]:
    done = e.integers
    assert done is not None
    value = numbers.integer_value(e.code, e.target)
    if done.saturated:
        yield Text(
            f"{done.rounded} is outside {done.to}: it becomes the end of the range, {done.clamped}.", "Saturation:"
        )
    if done.clamped != value:
        digits = f"{done.clamped & ((1 << 64) - 1):016x}" if done.clamped < 0 else f"{done.clamped:x}"
        yield Text(f"the low {e.target.bits} bits of {done.clamped} ({digits}) are kept: {value}.", "Low bits:")
    elif e.rounding is None:
        yield Text(f"{value} fits {e.target.name}: the value stays.", "Low bits:")
