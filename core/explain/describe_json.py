"""Explanations as plain JSON values: codes are hexadecimal text, values are decimal text, integers are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..formats import FORMATS, Format
from .groups import Dot, Group, Term
from .ladders import MEANING, Ladder
from .numbers import Number, Rounding, decode, integer_value

if TYPE_CHECKING:
    from .conversions import ConversionExplanation
    from .explanation import DotExplanation
    from .mufu import MufuExplanation


def dot(e: DotExplanation) -> dict[str, Any]:
    """A `DotExplanation`."""
    fmt = e.operands.result
    digits = e.operands.operand.bits // 4
    return {
        "kind": "dot",
        "instruction": e.instruction.key,
        "arch": e.arch.name,
        "a": [f"{code:0{digits}x}" for code in e.operands.a],
        "b": [f"{code:0{digits}x}" for code in e.operands.b],
        "c": decode(e.operands.c, fmt).hex,
        "result": number(e.result),
        "expected": None if e.expected is None else decode(e.expected, fmt).hex,
        "rule": e.rule,
        "beside": [
            {
                "name": b.name,
                **number(b.number),
                "steps": b.steps,
                "error_ulp": None if b.error is None else float(b.error),
            }
            for b in e.beside
        ],
        "ladders": [ladder(one, fmt.name) for one in e.ladders],
        "arch_ladder": None if e.arch_ladder is None else ladder(e.arch_ladder, fmt.name),
        "order": {"name": e.order_name, "rule": e.order.first, "code": decode(e.order.steps[0].code, fmt).hex},
        "products": e.products,
        "absorbed": list(e.absorbed),
        "cut": list(e.cut),
        "groups": [group(g) for g in e.dot.groups],
        "narrowing": rounding(e.dot.narrowing),
        "notes": list(e.notes),
    }


def number(n: Number) -> dict[str, Any]:
    return {"code": n.hex, "value": n.text, "kind": n.kind}


def ladder(one: Ladder, result: str) -> dict[str, Any]:
    fmt = FORMATS[result]
    return {
        "from": one.start,
        "first": one.first,
        "meaning": MEANING.get(one.first or ""),
        "changed": list(one.changed),
        "same": one.same,
        "group": one.parting_group(),
        "steps": [
            {"rule": step.rule, **number(decode(step.code, fmt)), "rules": rules(step.dot)} for step in one.steps
        ],
    }


def rules(one: Dot) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(one.rules)


def group(g: Group) -> dict[str, Any]:
    return {
        "index": g.index,
        "addend": number(g.addend),
        "E": g.E,
        "largest_exponent": g.raw,
        "floored": g.floored,
        "set_by": list(g.set_by),
        "lowest_place": g.lowest,
        "terms": [term(t) for t in g.terms],
        "sum": g.total,
        "rounding": rounding(g.rounding),
        "special": g.special or None,
        "result": number(g.result),
    }


def term(t: Term) -> dict[str, Any]:
    return {
        "name": t.name,
        "k": t.k,
        "a": None if t.a is None else number(t.a),
        "b": None if t.b is None else number(t.b),
        "negative": t.negative,
        "significand": t.significand,
        "exponent": t.exponent,
        "unit": t.unit,
        "kept": t.kept,
        "lost": t.lost,
        "absorbed": t.absorbed,
    }


def rounding(r: Rounding | None) -> dict[str, Any] | None:
    if r is None:
        return None
    return {
        "mode": r.mode,
        "leading_place": r.leading,
        "lowest_place": r.last,
        "kept": r.kept,
        "dropped": r.dropped,
        "dropped_places": r.places,
        "direction": r.direction,
        "tie": r.tie,
    }


def mufu(e: MufuExplanation) -> dict[str, Any]:
    """A `MufuExplanation`."""
    one = e.steps.pass_
    return {
        "kind": "mufu",
        "instruction": e.instruction.key,
        "arch": e.arch.name,
        "operand": number(e.operand),
        "result": number(e.result),
        "expected": e.expected,
        "correctly_rounded": number(decode(e.best, e.format)),
        "steps_from_correctly_rounded": e.off,
        "error_ulp": None if e.error is None else float(e.error),
        "argument": list(e.steps.reduced),
        "interpolation": None if one is None else {
            "segment": one.segment, "segments": one.segments, "x": one.x, "x_bits": one.x_bits,
            "c0": one.c0, "c1": one.c1, "c2": one.c2, "square": one.square, "true_square": float(one.true_square),
            "summands": list(one.parts), "sum": one.A, "shift": one.shift, "value": one.value,
        },
        "finish": e.steps.finish or None,
        "special": e.steps.special or None,
        "narrowing": rounding(e.narrowing),
        "notes": list(e.notes),
    }  # fmt: skip


def conversion(e: ConversionExplanation) -> dict[str, Any]:
    """A `ConversionExplanation`."""
    return {
        "kind": "conversion",
        "instruction": e.instruction.key,
        "arch": e.arch.name,
        "source": e.source.name,
        "target": e.target.name,
        "operand": code_text(e.operand, e.source),
        "result": code_text(e.code, e.target),
        "expected": e.expected,
        "rounding": rounding(e.rounding),
        "integers": None if e.integers is None else {
            "rounded": e.integers.rounded, "clamped": e.integers.clamped, "saturated": e.integers.saturated,
            "saturates_to": e.integers.to, "kept": e.integers.low,
        },
        "special": e.special or None,
        "notes": list(e.notes),
    }  # fmt: skip


def code_text(code: int, fmt: Format) -> dict[str, Any]:
    if fmt.is_float:
        return number(decode(code, fmt))
    return {"code": f"{code:0{max(1, fmt.bits // 4)}x}", "value": str(integer_value(code, fmt)), "kind": "integer"}
