"""The report of a kernel on two sides: shares and distances, where they part, where the differences lie, one dot
explained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from . import describe_dot, numbers
from .comparison import Comparison
from .document import Bars, Block, Details, Document, Heading, Heat, Source, Table, Text, plural
from .lockstep import Parting

if TYPE_CHECKING:
    from .difference import Difference


def document(d: Difference) -> Document:
    """One comparison."""
    return Document(f"{d.kernel}: {d.here} against {d.there}", tuple(_blocks(d)))


def documents(all_: Sequence[Difference]) -> Document:
    """Several: one table, then each by itself."""
    first = all_[0]
    sides = ", ".join(one.there for one in all_)
    blocks: list[Block] = [_overview(all_)]
    for one in all_:
        blocks.append(Heading(f"{one.here} against {one.there}"))
        blocks += list(_body(one, several=True))
    return Document(f"{first.kernel}: {first.here} against {sides}", tuple(blocks))


def _blocks(d: Difference) -> Iterator[Block]:
    yield _overview([d])
    yield from _body(d)


def _overview(all_: Sequence[Difference]) -> Table:
    """Shares and distances, a row per array and other side."""
    columns = ("against", "array", "elements", "differ", "share", "median ulp", "worst ulp", "there larger")
    rows = []
    for d in all_:
        for one in d.outputs:
            rows.append(
                (
                    d.there,
                    f"{one.name} ({one.element.name})",
                    f"{one.total:,}",
                    f"{one.differing:,}",
                    share(one),
                    *_far(one),
                )
            )
    return Table(columns, tuple(rows), (), tuple(range(2, 8)), (0, 1))


def share(one: Comparison) -> str:
    """The share that differs; never 0 % or 100 % where that is not so."""
    if not one.differing:
        return "0 %"
    if not one.equal:
        return "100 %"
    percent = min(max(100 * one.differing / one.total, 0.01), 99.99)
    return f"{percent:.2f} %"


def _far(one: Comparison) -> tuple[str, str, str]:
    if not one.differing:
        return "", "", ""
    median = "" if one.median is None else f"{one.median:,.0f}" if one.median >= 1 else "<1"
    furthest = "NaN" if one.furthest is None else f"{one.furthest:,}"
    return median, furthest, f"{100 * one.above / one.differing:.1f} %"


def _body(d: Difference, several: bool = False) -> Iterator[Block]:
    """several: a terminal shows only what tells the sides apart; a page and Markdown have everything, folded."""
    for note in d.notes:
        yield Text(note, "Note:")
    if d.fits:
        rows = tuple((name, f"{100 * part:.2f} %" if part < 1 else "100 %") for name, part in d.fits)
        yield Table(("arithmetic", "elements of the file that it makes"), rows, (0,), (1,))
    if all(not one.differing for one in d.outputs) and d.first is None:
        yield Text("every stored element has the same bits on both sides.", "Equal:")
    if d.first is not None:
        yield from _first(d, d.first)
    for one in d.outputs:
        if one.differing and several:
            yield Details(f"{one.name} ({one.element.name})", tuple(_array(d, one))[1:], ())
        elif one.differing:
            yield from _array(d, one)
    if d.explanation is not None:
        inner = describe_dot.document(d.explanation, "some")
        yield Details(
            f"The dot of the worst element: {inner.title}", inner.blocks, tuple(describe_dot.summary(d.explanation))
        )


def _first(d: Difference, parting: Parting) -> Iterator[Block]:
    """The first operation at which the sides part, by source line."""
    yield Heading("Where they part first", 3)
    yield Source(str(parting.span), parting.span.source.line(parting.span.line).strip())
    where = f"CTA {parting.cta}" + (f", run {parting.turn + 1} of this operation" if parting.turn else "")
    if parting.flow:
        yield Text(f"{where}: the two sides take different branches from here on.", f"{_kind(parting)}:")
        return
    assert parting.element is not None
    fmt = parting.element
    here, there = numbers.value_text(parting.here, fmt), numbers.value_text(parting.there, fmt)
    name = parting.name or "the result"
    at = f"[{', '.join(map(str, parting.index))}]" if parting.index else ""
    some = f" {parting.differing:,} of {parting.size:,} elements differ here." if parting.size > 1 else ""
    yield Text(f"{where}: {name}{at} is {here} on {d.here}, {there} on {_other(d)}.{some}", f"{_kind(parting)}:")
    if d.lines:
        rows = tuple((place, what, line, f"{count:,}") for place, what, line, count in d.lines)
        yield Text(f"{plural(sum(count for *_, count in d.lines), 'CTA')} part; by the line of their first difference:")
        yield Table(("line", "operation", "source", "CTAs"), rows, (), (3,), (0, 2))
    if d.compared:
        yield Text(f"{d.values_differing:,} of {plural(d.compared, 'intermediate value')} differ in some element.")


def _other(d: Difference) -> str:
    """Who made the second values: with a file, the arithmetic that fits it best."""
    return d.fits[0][0] if d.fits else d.there


def _kind(parting: Parting) -> str:
    from ..tile.program import Contract, Map

    return parting.op.instruction if isinstance(parting.op, Contract | Map) else type(parting.op).__name__


def _array(d: Difference, one: Comparison) -> Iterator[Block]:
    yield Heading(f"{one.name} ({one.element.name})", 3)
    extra = {kind: count for kind, count in one.kinds.items() if kind != "value"}
    kinds = "".join(f", {count:,} by {kind}" for kind, count in extra.items())
    median = f"median over all elements {one.median_all:,.0f} ulp"
    yield Text(f"{one.differing:,} of {one.total:,} elements differ ({share(one)}{kinds}); {median}.")
    yield Bars("Distance of the differing elements", one.histogram)
    rows = []
    for element in one.worst:
        steps = "NaN" if element.steps is None else f"{element.steps:+,}"
        index = ", ".join(map(str, element.index))
        rows.append(
            (f"[{index}]", *(numbers.value_text(code, one.element) for code in (element.here, element.there)), steps)
        )
    yield Table(("worst elements", d.here, d.there, "ulp"), tuple(rows), (), (3,))
    if one.heat:
        yield Heat(f"Where the differing elements of {one.name} lie", one.heat, one.heat_shape, one.heat_block)
