"""Reports in a terminal: rich tables and bit rows; everything that colour says is also said by a sign or a word."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import document as doc

if TYPE_CHECKING:
    from rich.table import Table

STYLES = {
    "blank": "bright_black", "kept": "green", "lost": "red", "sign": "bold", "bar": "yellow", "sum": "bold cyan",
    "dropped": "red", "place": "bright_black",
}  # fmt: skip
#: Shares of a heat map's cell, from none to all.
SHADES = " ·░▒▓█"


def render(document: doc.Document) -> Iterator[Any]:
    """Rich renderables of a report."""
    from rich.text import Text

    yield Text(document.title, style="bold")
    for block in document.blocks:
        yield from _block(block)


def text(document: doc.Document, width: int = 160) -> str:
    """The report as text without colour."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False, legacy_windows=False)
    for item in render(document):
        console.print(item)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _block(block: doc.Block) -> Iterator[Any]:
    from rich.text import Text

    match block:
        case doc.Heading(words, level):
            yield Text()
            yield Text(words, style="bold" if level < 3 else "bold blue")
        case doc.Text(words, lead):
            yield Text.assemble((f"{lead} " if lead else "", "bold"), words)
        case doc.Table():
            yield _table(block)
        case doc.Bits(rows, caption):
            yield _bits(rows, caption)
        case doc.Bars(caption, bars):
            yield Text(caption, style="bold")
            yield _bars(bars)
        case doc.Heat():
            yield _heat(block)
        case doc.Source(place, line):
            yield Text.assemble((f"  {place}  ", "bright_black"), line)
        case doc.Details(summary, blocks, brief):
            shown = blocks if brief is None else brief
            if not shown:
                return
            yield Text()
            yield Text(summary, style="bold")
            for inner in shown:
                yield from _block(inner)


def _table(block: doc.Table) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, column in enumerate(block.columns):
        justify = "right" if i in block.right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=i not in block.fold)  # type: ignore[arg-type]
    for i, row in enumerate(block.rows):
        style = "yellow" if i in block.marked else ""
        table.add_row(*(Text(cell, style=style) for cell in row))
    return table


def _bits(rows: tuple[doc.BitRow, ...], caption: str) -> Any:
    from rich.text import Text

    out = Text(no_wrap=True, overflow="ignore")
    if caption:
        out.append(caption + "\n")
    width = max(len(row.label) for row in rows)
    body = max(sum(len(part) for part, _ in row.runs) for row in rows)
    for i, row in enumerate(rows):
        out.append(f"  {row.label:>{width}} ")
        for part, kind in row.runs:
            out.append(part, STYLES[kind])
        if row.note:
            out.append(" " * (body - sum(len(part) for part, _ in row.runs) + 1) + row.note, "yellow")
        if i + 1 < len(rows):
            out.append("\n")
    return out


def _bars(bars: tuple[tuple[str, int], ...], length: int = 40) -> Any:
    from rich.text import Text

    out = Text(no_wrap=True)
    most = max((count for _, count in bars), default=0) or 1
    width = max((len(label) for label, _ in bars), default=0)
    digits = max((len(f"{count:,}") for _, count in bars), default=0)
    for i, (label, count) in enumerate(bars):
        full = count * length / most
        bar = "█" * round(full) or ("▏" if count else "")
        out.append(f"  {label:>{width}} {count:>{digits},} ")
        out.append(bar, "cyan")
        if i + 1 < len(bars):
            out.append("\n")
    return out


def _heat(block: doc.Heat) -> Any:
    from rich.text import Text

    out = Text(no_wrap=True, overflow="ignore")
    out.append(f"{block.caption}\n")
    rows, columns = block.block
    out.append(f"  one cell is {rows} x {columns} elements; differing: {legend()}\n", "bright_black")
    out.append("  ┌" + "─" * len(block.cells[0]) + "┐\n")
    for row in block.cells:
        out.append("  │")
        for share in row:
            out.append(shade(share), "red")
        out.append("│\n")
    out.append("  └" + "─" * len(block.cells[0]) + "┘")
    return out


def shade(share: float) -> str:
    """One character for a share: blank only for none, full only for all."""
    if share <= 0:
        return SHADES[0]
    return SHADES[-1] if share >= 1 else SHADES[1 + min(3, int(share * 4))]


def legend() -> str:
    names = ("none", "up to 25 %", "up to 50 %", "up to 75 %", "below 100 %", "all")
    return ", ".join(f"{sign!r} {name}" for sign, name in zip(SHADES, names))
