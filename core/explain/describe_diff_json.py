"""Differences as plain JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import describe_json
from .comparison import Comparison
from .lockstep import Parting

if TYPE_CHECKING:
    from .difference import Difference


def difference(d: Difference) -> dict[str, Any]:
    """A `Difference`."""
    return {
        "kind": "difference",
        "kernel": d.kernel,
        "here": d.here,
        "there": d.there,
        "identical": d.identical,
        "outputs": [array(one) for one in d.outputs],
        "first": None if d.first is None else parting(d.first),
        "lines": [
            {"place": place, "operation": what, "source": line, "ctas": count} for place, what, line, count in d.lines
        ],
        "values_compared": d.compared,
        "values_differing": d.values_differing,
        "fits": [{"arithmetic": name, "share": share} for name, share in d.fits],
        "explanation": None if d.explanation is None else describe_json.dot(d.explanation),
        "notes": list(d.notes),
    }


def array(one: Comparison) -> dict[str, Any]:
    return {
        "name": one.name,
        "output": one.output,
        "format": one.element.name,
        "stored": one.stored,
        "shape": list(one.shape),
        "elements": one.total,
        "differing": one.differing,
        "share": one.differing / one.total if one.total else 0.0,
        "kinds": one.kinds,
        "histogram": [{"distance": label, "count": count} for label, count in one.histogram],
        "median_ulp": one.median,
        "median_ulp_of_all": one.median_all,
        "worst_ulp": one.furthest,
        "there_larger": one.above,
        "worst": [
            {
                "index": list(element.index),
                "here": describe_json.code_text(element.here, one.element),
                "there": describe_json.code_text(element.there, one.element),
                "ulp": element.steps,
            }
            for element in one.worst
        ],
        "heat": {"block": list(one.heat_block), "shares": [list(row) for row in one.heat]},
    }


def parting(p: Parting) -> dict[str, Any]:
    values = None
    if p.element is not None:
        values = {
            "name": p.name,
            "index": list(p.index),
            "here": describe_json.code_text(p.here, p.element),
            "there": describe_json.code_text(p.there, p.element),
            "differing": p.differing,
            "elements": p.size,
        }
    return {
        "place": str(p.span),
        "line": p.span.line,
        "source": p.span.source.line(p.span.line).strip(),
        "operation": type(p.op).__name__,
        "instruction": getattr(p.op, "instruction", None),
        "cta": list(p.cta),
        "turn": p.turn,
        "branches": p.flow,
        "value": values,
    }
