"""Reports as Markdown: tables, and bit rows in code blocks (a CI summary or an issue shows them as they are)."""

from __future__ import annotations

from collections.abc import Iterator

from . import document as doc
from .terminal import legend, shade


def render(document: doc.Document, level: int = 2) -> str:
    """The report, its title at this level of heading."""
    lines = [f"{'#' * level} {_escape(document.title)}", ""]
    for block in document.blocks:
        lines += _block(block, level)
    return "\n".join(lines).rstrip() + "\n"


def _block(block: doc.Block, level: int) -> Iterator[str]:
    match block:
        case doc.Heading(words, inner):
            yield from (f"{'#' * min(6, level + inner - 1)} {_escape(words)}", "")
        case doc.Text(words, lead):
            yield from (f"**{_escape(lead)}** {_escape(words)}" if lead else _escape(words), "")
        case doc.Table(columns, rows, marked, right):
            yield "| " + " | ".join(_escape(column) or " " for column in columns) + " |"
            yield "|" + "|".join("---:" if i in right else "---" for i in range(len(columns))) + "|"
            for i, row in enumerate(rows):
                cells = [_escape(cell) for cell in row]
                yield "| " + " | ".join(f"**{cell}**" if i in marked and cell else cell for cell in cells) + " |"
            yield ""
        case doc.Bits(rows, caption):
            yield from ("```text", *([caption] if caption else []), *bit_lines(rows), "```", "")
        case doc.Bars(caption, bars):
            yield from (f"{_escape(caption)}:", "", "| | count |", "|---|---:|")
            yield from (f"| {_escape(label)} | {count:,} |" for label, count in bars)
            yield ""
        case doc.Heat(caption, shares, _, size):
            yield from (
                f"{_escape(caption)} (one cell is {size[0]} x {size[1]} elements; {legend()}):",
                "",
                "```text",
            )
            yield from ("|" + "".join(shade(share) for share in row) + "|" for row in shares)
            yield from ("```", "")
        case doc.Source(place, line):
            yield from (f"`{place}`", "", "```python", line, "```", "")
        case doc.Details(summary, blocks, _):
            yield from ("<details>", f"<summary>{_escape(summary)}</summary>", "")
            for block in blocks:
                yield from _block(block, level)
            yield from ("</details>", "")


def bit_lines(rows: tuple[doc.BitRow, ...]) -> Iterator[str]:
    """Bit rows as lines of text."""
    width = max(len(row.label) for row in rows)
    texts = ["".join(part for part, _ in row.runs) for row in rows]
    body = max(map(len, texts))
    for row, text in zip(rows, texts):
        yield f"{row.label:>{width}} {text:<{body}} {row.note}".rstrip()


def _escape(text: str) -> str:
    for sign in ("\\", "|", "*", "_", "<", "`"):
        text = text.replace(sign, "\\" + sign)
    return text
