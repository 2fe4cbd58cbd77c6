"""The score as one self-contained page: no network, no file beside it, light and dark, usable by keyboard."""

from __future__ import annotations

import json
from importlib import resources

from .. import isa
from .evaluate import RowScore, Score
from .report import explained, headline, to_json

#: What people come for first: matrix units, then the functions that only a model of the chip reproduces.
_ORDER = ("tensor", "integer_tensor", "mufu", "sequences", "single", "half", "double", "convert", "integer")

#: Explanations in a page at most: each is a few thousand characters.
EXPLANATIONS = 120


def explanation(row: RowScore) -> str:
    """The bit-by-bit explanation of a row's first difference (else of a result that is not the correctly rounded
    one) as text; empty where there is none."""
    from ..errors import UsageError
    from ..explain import explain

    operands, expected = explained(row)
    if not operands:
        return ""
    codes = [[int(word, 16) for word in operand.split(",")] for operand in operands]
    try:
        return str(explain(row.instruction, *codes, arch=row.rules, expected=int(expected, 16)))
    except UsageError:
        return ""


def to_html(score: Score) -> str:
    """The page. Its data is the JSON report with the names of mutants, which repeat, replaced by numbers."""
    from jinja2 import Environment

    data = to_json(score)
    names: dict[str, int] = {}
    shown = 0
    for found, row in zip(score.rows, data["rows"]):
        wanted = not found.passed or found.sample_code
        row["explanation"] = explanation(found) if wanted and shown < EXPLANATIONS else ""
        shown += bool(row["explanation"])
        for key in ("killed", "survivors"):
            row[key] = [names.setdefault(name, len(names)) for name in row[key]]
    data["mutants_by_number"] = list(names)
    scored = {row.instruction for row in score.rows}
    table = sorted((row for row in isa.INSTRUCTIONS if row.key in scored), key=lambda row: _ORDER.index(row.family))
    data["families"] = {row.key: row.family for row in table}
    data["semantics"] = {row.key: row.semantics for row in table}
    data["archs"] = [name for name in isa.ARCHS if any(row.arch == name for row in score.rows)]
    template = resources.files(__package__).joinpath("score.html").read_text(encoding="utf-8")
    # inside a script element only "</" and "<!--" could end or confuse it
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    environment = Environment(autoescape=True)
    return environment.from_string(template).render(headline=headline(score), passed=score.passed, data=text)
