"""What a report says, before anyone decides how it looks: a list of blocks that every renderer understands.

An explanation builds a `Document`; `terminal`, `markdown` and `html` turn it into text. JSON is made from the facts
themselves (`to_dict` of each explanation), not from the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

#: Kinds of cells of a bit row. Each looks different in colour; without colour the bar │ separates kept from lost.
CELLS = ("blank", "kept", "lost", "sign", "bar", "sum", "dropped", "place")


@dataclass(frozen=True)
class Heading:
    """A section's title; level 1 is the report's."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph. lead: words at its start that stand out."""

    text: str
    lead: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of text. marked: indices of rows that stand out. right: columns that are aligned to the right. fold: columns
    that may be folded where a line is too short for all.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    fold: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class BitRow:
    """One number drawn bit by bit: a label, runs of (characters, kind of cell), and a remark."""

    label: str
    runs: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True)
class Bits:
    """Bit rows under one another, aligned by place."""

    rows: tuple[BitRow, ...]
    caption: str = ""


@dataclass(frozen=True)
class Bars:
    """A histogram: (label, count) in order."""

    caption: str
    bars: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Heat:
    """Where in an array something lies: cells[row][column] is a share from 0 to 1 of one block of the array.

    shape: the array's. block: how many of its rows and columns one cell stands for.
    """

    caption: str
    cells: tuple[tuple[float, ...], ...]
    shape: tuple[int, int]
    block: tuple[int, int]


@dataclass(frozen=True)
class Source:
    """A line of a kernel's source with its place."""

    place: str
    line: str


@dataclass(frozen=True)
class Details:
    """Blocks that a reader may want: folded away where the renderer can.

    brief: what a terminal shows instead (None: all of them).
    """

    summary: str
    blocks: tuple[Block, ...]
    brief: tuple[Block, ...] | None = None


Block = Heading | Text | Table | Bits | Bars | Heat | Source | Details


@dataclass(frozen=True)
class Document:
    """A report: its title, and blocks in reading order."""

    title: str
    blocks: tuple[Block, ...] = field(default=())


def draw(
    negative: bool | None,
    integer: int,
    unit: int,
    top: int,
    bottom: int,
    cut: int | None,
    kind: str = "kept",
    low: str = "lost",
) -> tuple[tuple[str, str], ...]:
    """Runs of the binary places from `top` down to `bottom` of ``integer * 2^unit``.

    cut: a bar stands below the place 2^cut, and what lies beyond it is `low`. A row that goes on below `bottom` ends in
    an ellipsis. negative: its sign, None for no sign at all.
    """
    runs: list[tuple[str, str]] = [(" " if negative is None else "-" if negative else "+", "sign")]
    leading = integer.bit_length() - 1 + unit
    for place in range(top, bottom - 1, -1):
        inside = unit <= place <= leading and integer != 0
        # places above the leading one and below the unit are empty, not zero
        cell = (
            ("01"[integer >> (place - unit) & 1], kind if cut is None or place >= cut else low)
            if inside
            else ("·", "blank")
        )
        runs.append(cell)
        if place == cut:
            runs.append(("│", "bar"))
    if integer and unit < bottom and integer & ((1 << (bottom - unit)) - 1):
        runs.append(("…", low))
    return merge(runs)


def ruler(top: int, bottom: int, cut: int | None) -> BitRow:
    """The places' exponents, a label every eight columns and one that ends at the cut; the bar stands where `draw` puts
    it.
    """
    cells = [" "] * (top - bottom + 2)  # column 0 is the sign's

    def put(label: str, start: int) -> None:
        end = start + len(label)
        around = cells[max(start - 1, 0) : end + 1]
        if start >= 0 and end <= len(cells) and set(around) == {" "}:
            cells[start:end] = label

    split = len(cells) if cut is None else top - cut + 2
    if cut is not None:
        put(str(cut), split - len(str(cut)))
    for place in range(top, bottom - 1, -1):
        start = top - place + 1
        if place % 8 == 0 and not start < split < start + len(str(place)):
            put(str(place), start)
    text = "".join(cells)
    if cut is None:
        return BitRow("place 2^", ((text, "place"),))
    return BitRow("place 2^", ((text[:split], "place"), ("│", "bar"), (text[split:], "place")))


def merge(runs: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Neighbouring runs of one kind become one."""
    merged: list[tuple[str, str]] = []
    for text, kind in runs:
        if merged and merged[-1][1] == kind:
            merged[-1] = (merged[-1][0] + text, kind)
        else:
            merged.append((text, kind))
    return tuple(merged)


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 product``, ``3 products``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def listed(items: Sequence[str], most: int = 8) -> str:
    """Names in a row, the rest counted."""
    if len(items) <= most:
        return ", ".join(items)
    return f"{', '.join(items[:most])} and {len(items) - most} more"
