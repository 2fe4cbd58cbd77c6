"""One group as blocks: who set E, the terms with their bits, the sum, what the final step dropped."""

from __future__ import annotations

from collections.abc import Iterator

from ..formats import FORMATS
from .document import BitRow, Bits, Block, Table, Text, draw, listed, merge, plural, ruler
from .groups import Dot, Group, Term

#: Most places drawn below the window, and in a row without a window.
LOST_PLACES = 24
WIDE_PLACES = 72


def blocks(group: Group, dot: Dot, tensor: bool) -> Iterator[Block]:
    """A group of a tensor core, or a step of a chain of multiply-adds."""
    nonzero = [term for term in group.terms if not term.zero]
    zeros = [term.name for term in group.terms if term.zero and term.k is not None]
    if group.special:
        yield Text(f"No sum is formed: {group.special}. Result {group.result}.", "R9." if tensor else "")
        return
    yield Text(" ".join(_opening(group, dot, tensor, zeros)))
    if nonzero:
        yield _terms(nonzero, tensor, dot)
        yield picture(group, dot)
    yield Text(" ".join(_ending(group, tensor)))


def _opening(group: Group, dot: Dot, tensor: bool, zeros: list[str]) -> Iterator[str]:
    if zeros and tensor:
        who = f"The zero product {zeros[0]} takes" if len(zeros) == 1 else f"{len(zeros)} zero products take"
        yield f"{who} no part (R3)."
    if group.raw is None:
        yield "Every term is zero."
        return
    if group.E is None:
        return
    verb = "set by" if len(group.set_by) == 1 else "shared by"
    if group.floored:
        names = listed(group.set_by)
        yield f"The largest exponent is {group.raw} ({verb} {names}); the floor raises E to {group.E} (R4)."
    else:
        yield f"E = {group.E}, the largest exponent, {verb} {listed(group.set_by)} (R3)."
    yield f"The window keeps places down to 2^{group.lowest} (F = {dot.rules.bits})."
    if group.absorbed:
        names = listed([term.name for term in group.absorbed])
        yield f"Absorbed entirely: {names}."


def _terms(terms: list[Term], tensor: bool, dot: Dot) -> Table:
    columns = ["term", "a", "b", "exactly"]
    columns += ["kept", "lost"] if tensor else []
    rows = []
    for term in terms:
        row = [term.name, str(term.a or ""), str(term.b or ""), binary(term)]
        if tensor:
            row += [str(term.kept), _lost(term)]
        rows.append(tuple(row))
    marked = tuple(i for i, term in enumerate(terms) if tensor and term.lost)
    return Table(tuple(columns), tuple(rows), marked, (4,) if tensor else (), (1, 2))


def binary(term: Term) -> str:
    """``-1.0101 × 2^-3``: the significand with its point where the exponent says, not normalised."""
    return point(term.negative, term.significand, term.unit, term.exponent)


def point(negative: bool, integer: int, unit: int, exponent: int) -> str:
    """An integer times 2^unit in binary, with the point behind the place 2^exponent."""
    places = exponent - unit
    if places < 0:
        integer, places = integer << -places, 0
    whole, fraction = integer >> places, integer & ((1 << places) - 1)
    digits = f"{fraction:0{places}b}".rstrip("0") if places else ""
    return f"{'-' if negative else ''}{whole:b}{'.' + digits if digits else ''} × 2^{exponent}"


def _lost(term: Term) -> str:
    if not term.lost:
        return ""
    if term.absorbed:
        return "all of it"
    leading = term.lost.bit_length() - 1 + term.unit
    return point(False, term.lost, term.unit, leading)


def _ending(group: Group, tensor: bool) -> Iterator[str]:
    rounding = group.rounding
    assert rounding is not None
    if group.total == 0:
        yield f"The sum is zero: result {group.result}" + (" (R8)." if tensor else ".")
        return
    unit = f"{group.total} × 2^{group.lowest}"
    if not tensor:
        unit = point(group.total < 0, abs(group.total), group.lowest, rounding.leading or 0)
    yield f"Sum {unit}, leading one at 2^{rounding.leading}."
    fmt = FORMATS[group.result.format]
    if rounding.direction == "overflow":
        yield f"It is beyond the largest {fmt.name}: result {group.result}."
        return
    if rounding.direction == "flushed":
        yield f"Rounded with an exponent without end it is below 2^{fmt.emin}: zero of its sign (.FTZ)."
        return
    if rounding.leading is not None and rounding.leading < fmt.emin:
        yield f"The result is subnormal: its lowest place is 2^{rounding.last}."
    if not rounding.dropped:
        yield f"It fits: result {group.result}."
        return
    dropped = f"{rounding.dropped:0{rounding.places}b}"
    digits = dropped if len(dropped) <= 32 else f"{dropped[:32]}…"
    rule = " (R7)" if tensor else ""
    how = {"rz": "cut off, toward zero", "rn": "rounded to nearest"}[rounding.mode]
    tie = ", a tie, to even" if rounding.tie and rounding.mode == "rn" else ""
    move = "" if rounding.mode == "rz" else f", {rounding.direction}"
    yield (
        f"The result's lowest place is 2^{rounding.last}; {plural(rounding.places, 'bit')} below it ({digits}): "
        f"{how}{tie}{move}{rule}. "
        f"Result {group.result}."
    )


# --- the picture -----------------------------------------------------------------------------------------------------


def picture(group: Group, dot: Dot) -> Bits:
    """Terms, sum and result as aligned bit rows; the bar stands at the end of the window."""
    terms = [term for term in group.terms if not term.zero]
    tops = [term.significand.bit_length() - 1 + term.unit for term in terms]
    if group.total:
        tops.append(abs(group.total).bit_length() - 1 + group.lowest)
    window = dot.rules.bits is not None
    top = max([*tops, *([group.E] if group.E is not None else [])])
    deepest = min(term.unit + _trailing_zeros(term.significand) for term in terms)
    if window:
        bottom = max(min(deepest, group.lowest), group.lowest - LOST_PLACES)
        cut: int | None = group.lowest
    else:
        bottom = max(deepest, top - WIDE_PLACES)
        if group.rounding is not None and group.rounding.last > deepest:
            cut = group.rounding.last if group.rounding.last > bottom else None
        else:
            cut = None
        bottom = min(bottom, top - 8)
    rows = [ruler(top, bottom, cut)]
    rows += [_term_row(term, group, top, bottom, cut if window else None, window) for term in terms]
    rows += _result_rows(group, top, bottom, cut, window)
    return Bits(tuple(_with_bar(row, top, cut) for row in rows))


def _trailing_zeros(integer: int) -> int:
    return (integer & -integer).bit_length() - 1


def _with_bar(row: BitRow, top: int, cut: int | None) -> BitRow:
    """A row of a picture without a window gets its bar where the rounding cuts, but loses nothing itself."""
    if cut is None or any(kind == "bar" for _, kind in row.runs):
        return row
    at = top - cut + 2
    runs: list[tuple[str, str]] = []
    seen = 0
    for text, kind in row.runs:
        if seen <= at <= seen + len(text) and not any(k == "bar" for _, k in runs):
            runs += [(text[: at - seen], kind), ("│", "bar"), (text[at - seen :], kind)]
        else:
            runs.append((text, kind))
        seen += len(text)
    return BitRow(row.label, merge([run for run in runs if run[0]]), row.note)


def _term_row(term: Term, group: Group, top: int, bottom: int, cut: int | None, window: bool) -> BitRow:
    notes = []
    if window and term.name in group.set_by and not group.floored:
        notes.append("sets E")
    if term.absorbed:
        notes.append("absorbed")
    elif term.lost:
        notes.append("cut")
    below = term.significand.bit_length() - 1 + term.unit < bottom
    if below:
        notes.append(f"begins at 2^{term.significand.bit_length() - 1 + term.unit}")
    runs = draw(term.negative, term.significand, term.unit, top, bottom, cut)
    return BitRow(term.name, runs, ", ".join(notes))


def _result_rows(group: Group, top: int, bottom: int, cut: int | None, window: bool) -> Iterator[BitRow]:
    rounding = group.rounding
    assert rounding is not None
    yield BitRow("sum", draw(group.total < 0, abs(group.total), group.lowest, top, bottom, cut, "sum", "dropped"))
    if group.total == 0 or rounding.direction == "overflow":
        return
    result = group.result
    yield BitRow("result", draw(result.negative, result.significand, result.unit, top, bottom, None, "sum"))
    if rounding.dropped and window:
        yield BitRow("dropped", draw(None, rounding.dropped, rounding.unit, top, bottom, None, "dropped"))
