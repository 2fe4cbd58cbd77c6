"""Reports as HTML: one self-contained page, or a fragment for a notebook. No script, no other file, no colour alone."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from . import document as doc
from .markdown import bit_lines


def page(document: doc.Document) -> str:
    """A page of its own; it follows the reader's light or dark setting."""
    return str(_template().module.page(document))


def fragment(document: doc.Document) -> str:
    """The same for a page that exists already: styles are confined to the report."""
    return str(_template().module.fragment(document))


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["padding"] = _padding
    environment.filters["plain"] = lambda rows: "\n".join(bit_lines(rows))
    environment.filters["width"] = lambda share: f"{100 * share:.2f}"
    environment.globals["css"] = _read("report.css")
    return environment.from_string(_read("report.html.j2"))


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _padding(row: doc.BitRow, rows: tuple[doc.BitRow, ...]) -> str:
    """Blanks between a row's bits and its remark."""
    longest = max(sum(len(part) for part, _ in r.runs) for r in rows)
    return " " * (longest - sum(len(part) for part, _ in row.runs) + 1)
