"""A score as JSON, JUnit XML, Markdown and a table in the terminal. The page is in `page`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from .. import __version__, isa
from .evaluate import RowScore, Score

if TYPE_CHECKING:
    from rich.console import Console


def to_json(score: Score) -> dict[str, Any]:
    """The whole score as plain data; the page and CI read it."""
    return {
        "tool": f"phobos-sim {__version__}",
        "engine": score.engine,
        "passed": score.passed,
        "results": score.results,
        "equal": score.equal,
        "duplicates": [list(pair) for pair in score.duplicates],
        "sets": summaries(score),
        "rows": [_row(row) for row in score.rows],
    }


def _row(row: RowScore) -> dict[str, Any]:
    data = asdict(row)
    for name in ("first", "worst"):
        found = getattr(row, name)
        data[name] = None if found is None else {**asdict(found), "text": str(found)}
    data["passed"] = row.passed
    data["explain"] = explain_command(row)
    return data


def summaries(score: Score) -> list[dict[str, Any]]:
    """Per set: rows, results, and its blind spots: mutants that no row of the set tells from the truth."""
    out = []
    for name in dict.fromkeys(row.set for row in score.rows):
        rows = [row for row in score.rows if row.set == name]
        killed = {mutant for row in rows for mutant in row.killed}
        listed = killed | {mutant for row in rows for mutant in row.survivors}
        out.append(
            {
                "set": name,
                "arch": sorted({row.arch for row in rows}),
                "card": sorted({row.card for row in rows}),
                "origin": sorted({row.origin for row in rows}),
                "rows": len(rows),
                "results": sum(row.results for row in rows if not row.unavailable),
                "equal": sum(row.equal for row in rows),
                "passed": all(row.passed for row in rows),
                "killed": len(killed),
                "mutants": len(listed),
                "blind_spots": sorted(listed - killed),
                "row_killed": sum(len(row.killed) for row in rows),
                "row_mutants": sum(len(row.killed) + len(row.survivors) for row in rows),
            }
        )
    return out


def unavailable(score: Score) -> dict[str, list[str]]:
    """Reason -> rows that the engine could not run for it."""
    found: dict[str, list[str]] = {}
    for row in score.rows:
        if row.unavailable:
            reason = row.unavailable.removeprefix(f"{row.instruction}: ")
            found.setdefault(reason, []).append(row.row)
    return found


def blind_spots(score: Score, name: str) -> list[str]:
    """Sentences: wrong models that no row of the set tells from the truth, then those that single rows miss."""
    rows = [row for row in score.rows if row.set == name and row.kind != "corners"]
    killed = {mutant for row in rows for mutant in row.killed}
    everywhere = sorted({mutant for row in rows for mutant in row.survivors} - killed)
    lines = [f"{name} cannot see: {'; '.join(everywhere)}"] if everywhere else []
    for row in rows:
        own = [mutant for mutant in row.survivors if mutant in killed]
        if own:
            lines.append(f"  nor, in {row.row}: {'; '.join(own)}")
    return lines


def explain_command(row: RowScore) -> str:
    """The command that takes the first difference apart (else, for tensor cores, a result that is not the correctly
    rounded one); empty where there is none."""
    operands, expected = explained(row)
    if not operands:
        return ""
    words = " ".join(f"--{name} {value}" for name, value in zip("abc", operands))
    return f"phobos-sim explain {row.instruction} --arch {row.rules} {words} --expected {expected}"


def explained(row: RowScore) -> tuple[tuple[str, ...], str]:
    """Operands and recorded code of the result that is worth explaining; empty where nothing is."""
    if row.kind == "gemm" or not _explainable(row.instruction):
        return (), ""
    if row.first is not None:
        return row.first_operands, f"0x{row.first.expected:0{row.first.digits}x}"
    return row.sample_operands, row.sample_code


def _explainable(instruction: str) -> bool:
    """Whether `sim.explain` takes this instruction apart (a sequence is explained one instruction at a time)."""
    from ..explain.dispatch import ONE_STEP
    from ..explain.explanation import CHAINS

    row = isa.lookup(instruction)
    one_step = (
        row.function in ONE_STEP and row.keywords.get("rounding", "rn") == "rn" and not row.key.startswith("sub.")
    )
    return row.family in ("tensor", "mufu", "convert") or row.key in CHAINS or one_step


def kill_text(row: RowScore) -> str:
    total = len(row.killed) + len(row.survivors)
    return f"{len(row.killed)}/{total}" if total else "-"


def rounded_text(row: RowScore) -> str:
    return f"{100 * row.rounded[0] / row.rounded[1]:.1f} %" if row.rounded else "-"


def verdict(row: RowScore) -> str:
    if row.unavailable:
        return "not here"
    return "equal" if row.passed else f"{row.results - row.equal} differ"


def headline(score: Score) -> str:
    """One sentence: how many results, on what, how many rows differ and who saw it."""
    wrong = [row for row in score.rows if not row.passed]
    text = f"{score.equal} of {score.results} results equal in {len(score.rows)} rows on {score.engine}"
    if wrong:
        silicon = sum(row.origin == "silicon" for row in wrong)
        text += (
            f"; {len(wrong)} rows differ: {silicon} recorded on silicon, {len(wrong) - silicon} derived from the rules"
        )
    missing = sum(bool(row.unavailable) for row in score.rows)
    return text + (f"; {missing} rows not available here" if missing else "")


# --- terminal --------------------------------------------------------------------------------------------------------


def show(score: Score, console: Console, everything: bool) -> None:
    """The table; without `everything`, equal rows of a set are one line."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("set / instruction", overflow="fold")
    for name in ("results", "verdict", "kill", "exact dot"):
        table.add_column(name, justify="left" if name == "verdict" else "right", no_wrap=True)
    table.add_column("maturity")
    for summary in summaries(score):
        rows = [row for row in score.rows if row.set == summary["set"]]
        colour, word = (
            ("green", "equal") if summary["passed"] else ("red", f"{summary['results'] - summary['equal']} differ")
        )
        about = [
            ", ".join(summary["card"]),
            " ".join(summary["arch"]),
            ", ".join(summary["origin"]),
            f"{len(rows)} rows",
        ]
        card = ", ".join(about)
        table.add_row(
            f"[bold]{escape(summary['set'])}[/]\n  [dim]{escape(card)}[/]",
            str(summary["results"]),
            f"[{colour}]{word}[/]",
            f"{summary['killed']}/{summary['mutants']}" if summary["mutants"] else "-",
        )
        for row in rows:
            if everything or not row.passed or row.unavailable:
                colour = "yellow" if row.unavailable else "green" if row.passed else "red"
                table.add_row(
                    f"  {escape(row.row)}",
                    str(row.results),
                    f"[{colour}]{verdict(row)}[/]",
                    kill_text(row),
                    rounded_text(row),
                    row.maturity,
                )
    console.print(table)
    for row in score.rows:
        if not row.passed:
            console.print(
                f"[red]{escape(row.set)} {escape(row.row)}[/] ({row.origin}): {escape(_difference(row))}",
                highlight=False,
            )
            if command := explain_command(row):
                console.print(f"    {escape(command)}", highlight=False, soft_wrap=True)
    for reason, names in unavailable(score).items():
        console.print(
            f"not available here, {len(names)} rows: {reason}: {', '.join(names)}", markup=False, style="yellow"
        )
    for again, first in score.duplicates:
        console.print(f"{again} is the same file as {first}; scored once", markup=False)
    for summary in summaries(score):
        for line in blind_spots(score, summary["set"]):
            console.print(line, markup=False)
    console.print(headline(score), markup=False, style="bold")


def failures(score: Score) -> list[str]:
    """A sentence per row that differs."""
    return [f"{row.set} {row.row} ({row.origin}): {_difference(row)}" for row in score.rows if not row.passed]


def _difference(row: RowScore) -> str:
    if row.fault:
        return row.fault
    kinds = ", ".join(f"{number} {kind}" for kind, number in row.counts.items())
    text = f"{row.results - row.equal} of {row.results} ({kinds}); first {row.first} ({row.first_place})"
    return text + ("" if row.worst == row.first else f"; worst {row.worst}")


# --- files for CI ----------------------------------------------------------------------------------------------------


def to_junit(score: Score) -> str:
    """One test case a row, one suite a set."""
    root = ElementTree.Element("testsuites", name="phobos-sim score")
    for name in dict.fromkeys(row.set for row in score.rows):
        rows = [row for row in score.rows if row.set == name]
        failures, skipped = sum(not row.passed for row in rows), sum(bool(row.unavailable) for row in rows)
        suite = ElementTree.SubElement(
            root, "testsuite", name=name, tests=str(len(rows)), failures=str(failures), skipped=str(skipped), errors="0"
        )
        for row in rows:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{name}.{row.arch}", name=f"{row.row} on {score.engine}"
            )
            if row.unavailable:
                ElementTree.SubElement(case, "skipped", message=row.unavailable)
            elif not row.passed:
                failure = ElementTree.SubElement(
                    case, "failure", message=f"{row.results - row.equal} of {row.results} codes differ", type=row.origin
                )
                failure.text = f"{_difference(row)}\n{explain_command(row)}"
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def to_markdown(score: Score) -> str:
    """For a CI summary: the headline, sets, and every row that is not equal."""
    mark = "✅" if score.passed else "❌"
    lines = [
        f"### {mark} phobos-sim score: {headline(score)}",
        "",
        "| set | arch | card | origin | rows | results | equal | kill score |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for item in summaries(score):
        kill = f"{item['killed']}/{item['mutants']}"
        lines.append(
            _line(
                item["set"],
                " ".join(item["arch"]),
                ", ".join(item["card"]),
                ", ".join(item["origin"]),
                item["rows"],
                item["results"],
                item["equal"],
                kill,
            )
        )
    wrong = [row for row in score.rows if not row.passed]
    if wrong:
        head = ("row that differs", "arch", "origin", "differ", "first difference")
        lines += ["", _line(*head), "| --- | --- | --- | ---: | --- |"]
        for row in wrong:
            share = f"{row.results - row.equal} of {row.results}"
            lines.append(_line(f"{row.set} {row.row}", row.arch, row.origin, share, f"{row.first} ({row.first_place})"))
    spots = [f"- {item['set']}: {'; '.join(item['blind_spots'])}" for item in summaries(score) if item["blind_spots"]]
    if spots:
        lines += [
            "",
            "<details><summary>What each set cannot see (surviving wrong models)</summary>",
            "",
            *spots,
            "",
            "</details>",
        ]
    return "\n".join(lines) + "\n"


def _line(*cells: object) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
