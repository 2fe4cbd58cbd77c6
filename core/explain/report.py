"""What every explanation and difference can do: show itself as text, Markdown, HTML and JSON, and in a notebook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from .document import Document


class Report:
    """Base of the results of `sim.explain` and `sim.diff`.

    `str()` is the report as plain text, `_repr_html_` what a notebook shows; rich prints it in colour.
    """

    def document(self) -> Document:
        """The report as blocks that every renderer understands."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain JSON values; codes are hexadecimal text."""
        raise NotImplementedError

    def json(self) -> str:
        """The facts as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def markdown(self) -> str:
        """The report as Markdown."""
        from .markdown import render

        return render(self.document())

    def html(self) -> str:
        """The report as one self-contained page: no script, no other file."""
        from .html import page

        return page(self.document())

    def _repr_html_(self) -> str:
        from .html import fragment

        return fragment(self.document())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from .terminal import render

        yield from render(self.document())

    def __str__(self) -> str:
        from .terminal import text

        return text(self.document())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.document().title}>"
