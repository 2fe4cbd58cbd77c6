"""The report of one dot: the result and what stands beside it, why they differ, and the groups bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction

from ..formats import Format
from ..isa import ARCHS
from . import describe_group, numbers
from .document import Block, Details, Document, Heading, Table, Text, listed, plural
from .explanation import DotExplanation, absorbed
from .groups import Group
from .ladders import EXACT, IEEE, IEEE_F16, MEANING, UNFUSED, WIDE, Ladder

#: Names of the ladders' starts as heads of columns.
SHORT = {
    IEEE: "IEEE chain",
    EXACT: "exact dot",
    IEEE_F16: "f16 chain",
    WIDE: "f32 accumulator",
    UNFUSED: "multiply, add",
}
LEGEND = (
    "A column is a binary place, a row one number; dots are places that the number does not have. "
    "The bar │ ends the window: what stands to its right is lost."
)
LEGEND_CHAIN = (
    "A column is a binary place, a row one number; dots are places that the number does not have. "
    "The bar │ stands behind the result's lowest place: what the sum has to its right is rounded."
)
#: More groups than this are not all drawn, unless asked for.
MOST_DRAWN = 4
#: Rows of the table of all groups that are shown unless asked for.
MOST_ROWS = 12


def document(explanation: DotExplanation, groups: str) -> Document:
    """groups: ``some`` or ``all``."""
    title = f"{explanation.instruction.key} on {explanation.arch.name}: {explanation.result}"
    return Document(title, tuple(_blocks(explanation, groups)))


def _blocks(e: DotExplanation, groups: str) -> Iterator[Block]:
    yield from summary(e)
    ladders = [*e.ladders, *([e.arch_ladder] if e.arch_ladder is not None else [])]
    if any(ladder.changed for ladder in ladders):
        yield Heading("One rule changed at a time")
        if any(ladder.changed for ladder in e.ladders):
            yield _ladders(e.ladders, e.operands.result)
        if e.arch_ladder is not None and e.arch_ladder.changed:
            yield _ladders((e.arch_ladder,), e.operands.result)
    yield from _groups(e, groups)
    yield from _evidence(e)


def summary(e: DotExplanation) -> Iterator[Block]:
    """The result, what stands beside it, and why they differ; no bits."""
    for note in e.notes:
        yield Text(note, "Note:")
    if e.expected is not None:
        yield _expected(e)
    yield _beside(e)
    ladders = [*e.ladders, *([e.arch_ladder] if e.arch_ladder is not None else [])]
    said: set[str] = set()
    for ladder in ladders:
        if ladder.changed:
            yield Text(sentence(ladder, said), f"{_upper(ladder.start)}:")
    quiet = [ladder.start for ladder in ladders if not ladder.changed]
    if e.order.first is not None:
        yield Text(_order(e), f"{_upper(e.order_name)}:")
    elif not e.single:
        quiet.append(e.order_name)
    if quiet:
        yield Text("no rule makes a difference here.", f"{_upper(' / '.join(quiet))}: the same bits;")
    if not e.single:
        yield Text(" ".join(_absorbed(e)), "Absorbed:")


def _expected(e: DotExplanation) -> Text:
    fmt = e.operands.result
    assert e.expected is not None
    other = numbers.decode(e.expected, fmt)
    if e.expected == e.dot.code:
        return Text(f"{other} was given: the same.", "Compared:")
    steps = numbers.steps_between(e.expected, e.dot.code, fmt)
    away = "one of the two is a NaN" if steps is None else f"{_away(steps)} the result"
    matches = [item.name for item in e.beside[1:] if item.number.code == e.expected]
    named = [match if match in ARCHS else f"the {match}" for match in matches]
    same = f" It is what {' and '.join(named)} would give." if matches else " None of the models below gives it."
    return Text(f"{other} was given, {away}.{same}", "Compared:")


def _away(steps: int) -> str:
    side = "above" if steps > 0 else "below"
    return "of the same value as" if steps == 0 else f"{abs(steps):,} ulp {side}"


def _beside(e: DotExplanation) -> Table:
    """Result, ladder starts, other architecture, other order."""
    rows: list[tuple[str, ...]] = []
    marked = []
    for item in e.beside:
        code = item.number.code
        if code == e.dot.code:
            away = "same bits"
        elif item.steps is None:
            away = "NaN"
        elif item.steps == 0:
            away = "other sign of zero"
        else:
            away = f"{item.steps:+,} ulp"
        if code != e.dot.code:
            marked.append(len(rows))
        rows.append((item.name, item.number.hex, item.number.text, away, error_text(item.error)))
    rows[0] = (*rows[0][:3], "the result", rows[0][4])
    if e.exact is not None:
        rows.append(("exact sum", "", exact_text(e.exact), "", ""))
    return Table(("", "code", "value", "vs result", "error (ulp)"), tuple(rows), tuple(marked), (3, 4), (0, 2))


def error_text(error: Fraction | None) -> str:
    """Distance from the exact sum in ulp, three decimals."""
    if error is None:
        return ""
    if error == 0:
        return "0"
    text = f"{float(error):+.3f}" if abs(error) < 10**6 else f"{float(error):+.2e}"
    return text if float(text) else f"{float(error):+.1e}"


def exact_text(value: Fraction) -> str:
    """An exact binary fraction in decimal: all digits if there are few, else 17 and an ellipsis."""
    if value == 0:
        return "0"
    digits = Context(prec=4000, Emin=-9999, Emax=9999)
    exact = digits.divide(Decimal(value.numerator), Decimal(value.denominator))
    short = Context(prec=17, Emin=-9999, Emax=9999).plus(exact)
    text = str(short.normalize(digits))
    return text if short == exact else f"{text}…"


def _upper(text: str) -> str:
    """The first letter a capital, but for names such as sm_90 and k."""
    return text if text.startswith(("sm_", "k ")) else text[0].upper() + text[1:]


def sentence(ladder: Ladder, said: set[str]) -> str:
    """Which rule makes the two differ (one does); said: rules explained before, to which this one is added."""
    changed = ladder.changed
    group = ladder.parting_group()
    alone = len(ladder.steps[-1].dot.groups) == 1
    where = "" if group is None or alone else f", first in group {group}"
    meaning = "" if changed[0] in said else " " + " ".join([f"{MEANING[changed[0]]}.", *particulars(ladder)])
    said.add(changed[0])
    if ladder.same:
        back = " and ".join(f"“{rule}”" for rule in changed[1:])
        return f"the same bits in the end. “{changed[0]}” changes them{where}, {back} changes them back.{meaning}"
    more = f" Further changes on the way: {listed([f'“{rule}”' for rule in changed[1:]])}." if len(changed) > 1 else ""
    return f"the first rule that changes the bits is “{changed[0]}”{where}.{meaning}{more}"


def particulars(ladder: Ladder) -> Iterator[str]:
    """What the first rule does to these numbers."""
    assert ladder.change is not None
    before, step = ladder.change
    at = ladder.parting_group()
    if step.rule == "exact sum per group":
        gone = absorbed(before.dot)
        names = listed([f"k={k}" for k in gone])
        yield (
            f"Here {names} {'leaves' if len(gone) == 1 else 'leave'} the chain's sum unchanged."
            if gone
            else (f"Here that is {len(before.dot.groups)} roundings against {len(step.dot.groups)}.")
        )
    elif step.rule == "rounding between groups":
        cut = next((g for g in step.dot.groups if g.rounding is not None and g.rounding.dropped), None)
        if cut is not None:
            yield f"Here it first rounds after group {cut.index}, to {cut.result}."
    elif at is not None and step.rule in ("kept window", "kept bits", "truncation of terms", "floor"):
        group = step.dot.groups[at]
        cut_terms = [term.name for term in group.terms if term.lost]
        if step.rule == "kept bits":
            yield f"Here F is {step.dot.rules.bits}, on {ladder.start} {before.dot.rules.bits}."
        if cut_terms:
            reach = "reaches" if len(cut_terms) == 1 else "reach"
            yield f"Here the window ends at 2^{group.lowest}; {listed(cut_terms)} {reach} below it."
    elif step.rule == "group width":
        yield f"Here {step.dot.rules.width} products, {before.dot.rules.width} on {ladder.start}."
    elif at is not None and step.rule in ("final truncation", "f16 rounding between groups"):
        yield f"Here it makes {step.dot.groups[at].result} instead of {before.dot.groups[at].result}."


def _order(e: DotExplanation) -> str:
    meaning = MEANING["order of k"]
    if not e.tensor:
        meaning = "the chain rounds after every product, so it matters what came before"
    before = e.order.steps[0]
    other = numbers.decode(before.code, e.operands.result)
    return f"{other}. The products are the same ones; what differs is “order of k”. {meaning}."


def _absorbed(e: DotExplanation) -> Iterator[str]:
    """How many products leave no trace, here and in the chains."""
    gone = e.absorbed
    if e.products == 0:
        yield "no product is nonzero."
        return
    verb = "is" if len(gone) == 1 or e.products == 1 else "are"
    names = f" ({listed([f'k={k}' for k in gone])})" if gone else ""
    how = "keeps nothing of it" if len(gone) == 1 else "keeps nothing of them"
    how = f"the window {how}" if e.tensor else "the running sum does not change"
    how = f": {how}" if gone else ""
    yield f"{len(gone)} of {plural(e.products, 'nonzero product')} {verb} absorbed{names}{how}."
    if e.tensor and e.cut:
        verb = "loses" if len(e.cut) == 1 else "lose"
        yield f"{plural(len(e.cut), 'other')} {verb} some bits to the window ({listed([f'k={k}' for k in e.cut])})."
    addends = [g.index for g in e.dot.groups if any(t.k is None and t.absorbed for t in g.terms)]
    if addends:
        yield f"The addend itself is absorbed in {plural(len(addends), 'group')} ({listed([str(i) for i in addends])})."
    for ladder in e.ladders:
        if ladder.start in (IEEE, IEEE_F16) and e.tensor:
            count = len(absorbed(ladder.steps[0].dot))
            verb = "leaves" if count == 1 else "leave"
            yield f"In the {ladder.start} {count or 'none'} of them {verb} the running sum unchanged."


def _ladders(ladders: tuple[Ladder, ...], fmt: Format) -> Table:
    """Ladders side by side: a row per rule, a column per start; an arrow where a rule changes the bits."""
    rules = list(dict.fromkeys(step.rule for ladder in ladders for step in ladder.steps[1:]))
    # the narrow f16 ladder lacks a late step: keep the order of the longest
    order = {step.rule: i for step_list in ladders for i, step in enumerate(step_list.steps)}
    rules.sort(key=lambda rule: order[rule])
    rows = [("start", *(numbers.decode(ladder.steps[0].code, fmt).hex for ladder in ladders))]
    marked = []
    for rule in rules:
        cells = [_rung(ladder, rule, fmt) for ladder in ladders]
        if any("◄" in cell for cell in cells):
            marked.append(len(rows))
        rows.append((f"+ {rule}", *cells))
    return Table(("from", *(SHORT.get(ladder.start, ladder.start) for ladder in ladders)), tuple(rows), tuple(marked))


def _rung(ladder: Ladder, rule: str, fmt: Format) -> str:
    for before, step in zip(ladder.steps, ladder.steps[1:]):
        if step.rule == rule:
            changes = step.code != before.code
            return numbers.decode(step.code, fmt).hex + (
                " ◄ first" if changes and rule == ladder.first else " ◄" if changes else ""
            )
    return ""


def _groups(e: DotExplanation, wanted: str) -> Iterator[Block]:
    """The groups that matter, drawn; all of them as a table where there are many."""
    noun = "group" if e.tensor else "step"
    groups = e.dot.groups
    chosen = list(groups) if wanted == "all" or len(groups) <= MOST_DRAWN else _interesting(e)
    yield Heading(f"{plural(len(groups), noun)}, bit by bit")
    yield Text(LEGEND if e.tensor else LEGEND_CHAIN)
    if len(groups) > 1:
        yield _overview(e, wanted == "all")
    quiet = []
    for group in chosen:
        if not any(not t.zero for t in group.terms if t.k is not None) and not group.special:
            quiet.append(group)
            continue
        ks = [t.k for t in group.terms if t.k is not None]
        span = f"k = {ks[0]}" if len(ks) == 1 else f"k = {ks[0]} to {ks[-1]}"
        yield Heading(f"{noun.capitalize()} {group.index} ({span})", 3)
        yield from describe_group.blocks(group, e.dot, e.tensor)
    for group in quiet:
        yield Text(
            f"has only zero products: the addend passes through, result {group.result}.",
            f"{noun.capitalize()} {group.index}",
        )
    if len(chosen) < len(groups):
        rest = plural(len(groups) - len(chosen), f"{noun} is", f"{noun}s are")
        yield Text(f'{rest} not drawn; --groups all (document(groups="all")) draws every one.')
    if e.dot.narrowing is not None:
        yield Text(f"The accumulator is rounded to {e.operands.result.name}: {e.result}.")


def _interesting(e: DotExplanation) -> list[Group]:
    """Where a ladder's first rule bites, where most is lost, and the last one."""
    groups = e.dot.groups
    picked = [ladder.parting_group() for ladder in [*e.ladders, e.arch_ladder] if ladder is not None]
    by_loss = max(groups, key=lambda g: (len(g.absorbed), sum(bool(t.lost) for t in g.terms)))
    special = next((g.index for g in groups if g.special), None)
    wanted = {i for i in (*picked, special, len(groups) - 1) if i is not None}
    if any(t.lost for t in by_loss.terms):
        wanted.add(by_loss.index)
    return [groups[i] for i in sorted(wanted)[:MOST_DRAWN]]


def _overview(e: DotExplanation, full: bool) -> Table:
    rows = []
    for g in e.dot.groups:
        ks = [t.k for t in g.terms if t.k is not None]
        dropped = "" if g.rounding is None or not g.rounding.dropped else g.rounding.direction
        row = [str(g.index), f"{ks[0]}-{ks[-1]}" if len(ks) > 1 else str(ks[0]), g.addend.text]
        if e.tensor:
            cut = sum(bool(t.lost) and not t.absorbed for t in g.terms)
            row += [str(g.E) if g.E is not None else "", listed(g.set_by, 2), str(len(g.absorbed)), str(cut)]
        rows.append((*row, dropped or ("special" if g.special else "exact"), g.result.hex, g.result.text))
    if not full and len(rows) > MOST_ROWS:
        hidden = len(rows) - MOST_ROWS
        rows = [*rows[: MOST_ROWS // 2], ("…", *[""] * (len(rows[0]) - 2), f"{hidden} more"), *rows[-MOST_ROWS // 2 :]]
    middle = ("E", "set by", "absorbed", "cut") if e.tensor else ()
    columns = ("group" if e.tensor else "step", "k", "addend", *middle, "final step", "code", "value")
    return Table(columns, tuple(rows), (), (0,))


def _evidence(e: DotExplanation) -> Iterator[Block]:
    evidence = e.instruction.evidence.get(e.arch.name)
    lines: list[Block] = []
    if evidence is not None:
        lines.append(Text(f"{evidence.maturity}: {evidence.text}.", f"{e.instruction.key} on {e.arch.name} is"))
    if e.tensor:
        lines.append(Text(f"{e.arch.evidence.maturity}: {e.arch.evidence.text}.", f"The numbers of {e.arch.name} are"))
    if lines:
        yield Details("How well this is known", tuple(lines))
