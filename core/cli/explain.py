"""`phobos-sim explain`: one result taken apart bit by bit, and which rule makes it differ from IEEE arithmetic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from .options import Json, console, write_json

if TYPE_CHECKING:
    from ..explain.document import Document
    from ..explain.report import Report
    from ..isa import Instruction

Markdown = Annotated[
    str | None, typer.Option("--markdown", metavar="FILE", help="Write the report as Markdown; - is stdout.")
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the report as one self-contained page.")
]


def command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="INSTRUCTION",
            help="HMMA.16816.F32, FFMA, MUFU.EX2, cvt.rn.f16.f32, ...; or a recorded result, "
            "SET:INSTRUCTION:INDEX; or a corner vector, FILE.txt:NAME.",
        ),
    ],
    a: Annotated[
        str | None,
        typer.Option(
            "--a",
            metavar="NUMBERS",
            help="First operand: codes of full width (3c00) or decimals (1.5), along k and "
            "separated by commas; 3c00*8 repeats, 1.5@9 puts it at k = 9, the rest is +0.",
        ),
    ] = None,
    b: Annotated[str | None, typer.Option("--b", metavar="NUMBERS", help="Second operand, likewise.")] = None,
    c: Annotated[str | None, typer.Option("--c", metavar="NUMBER", help="The addend; 0 if left out.")] = None,
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.npz", help="Take a [M, K], b [K, N], c [M, N] from a file.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="I,J", help="Which element of the product of --from.")
    ] = None,
    arch: Annotated[str | None, typer.Option("--arch", help="Whose instruction: sm_86 (default), sm_90, ...")] = None,
    other: Annotated[str | None, typer.Option("--other", metavar="ARCH", help="The architecture shown beside.")] = None,
    order: Annotated[
        str | None,
        typer.Option("--order", metavar="K,K,...", help="Another order of k to compare with; default: reversed."),
    ] = None,
    expected: Annotated[
        str | None, typer.Option("--expected", metavar="NUMBER", help="A result to compare with, from a card, say.")
    ] = None,
    groups: Annotated[
        str, typer.Option("--groups", help="Which groups are drawn: some (those that matter) or all.")
    ] = "some",
    json: Json = None,
    markdown: Markdown = None,
    html: Html = None,
) -> None:
    """Take one result apart: groups, windows, lost bits, and the first rule that makes it differ from IEEE arithmetic.

    For example: phobos-sim explain HMMA.16816.F32 --a 1,0c00*3 --b 1,0c00*3 --c 2.0
    """
    from .. import isa
    from ..execute import find
    from ..explain import dispatch, numbers, sources

    if groups not in ("some", "all"):
        raise UsageError(f"--groups {groups}: expected some or all")
    notes: list[str] = []
    if sources.is_reference(what):
        if any(x is not None for x in (a, b, c, file, at)):
            raise UsageError(
                f"{what} names a recorded result, which has its operands; leave out --a, --b, --c, --from and --at"
            )
        found = sources.reference(what)
        row, operands, given = found.instruction, list(found.operands), found.expected
        arch = arch or found.arch
        notes.append(f"{found.note}.")
    else:
        row = find(what, arch or "sm_86")
        given = None
        operands = _operands(row, (a, b, c), file, at, notes)
    row = find(row.key, arch or "sm_86")
    if other is not None:
        find("FFMA", other)
    if expected is not None:
        assert row.result is not None
        read = numbers.read_number(expected, row.result)
        given = read.code
        notes += [read.note] if read.note else []
    explanation = dispatch.dispatch(
        row, isa.ARCHS[arch or "sm_86"], operands, other, _order(order), given, tuple(notes)
    )
    from ..explain.explanation import DotExplanation

    document = explanation.document(groups) if isinstance(explanation, DotExplanation) else explanation.document()
    show(explanation, document, json, markdown, html)


def _operands(
    row: Instruction, given: tuple[str | None, ...], file: Path | None, at: str | None, notes: list[str]
) -> list[Any]:
    """Operands from the command line or from a file."""
    from ..explain import dispatch, sources

    if file is not None:
        if any(x is not None for x in given):
            raise UsageError("--from FILE.npz has the operands; leave out --a, --b and --c")
        if at is None:
            raise UsageError("--from FILE.npz: which element? Give --at I,J")
        return list(sources.element(row, file, at))
    if at is not None:
        raise UsageError("--at names an element of --from FILE.npz; give that too")
    used = list(given)
    while used and used[-1] is None:
        used.pop()
    if not used or any(x is None for x in used):
        names = ", ".join(f"--{name}" for name in "abc"[: len(row.operands)])
        raise UsageError(f"{row.key} takes {names} (or --from FILE.npz --at I,J)")
    if len(used) > len(row.operands):
        raise UsageError(
            f"{row.key} takes {len(row.operands)} operand{'s' if len(row.operands) > 1 else ''}, found {len(used)}"
        )
    operands = []
    for position, text in enumerate(text for text in used if text is not None):
        codes, said = dispatch.read(row, position, text)
        operands.append(codes)
        notes += [note for note in said if note not in notes]
    return operands


def _order(text: str | None) -> list[int] | None:
    if text is None or text == "reversed":
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--order {text}: expected reversed, or a permutation such as 1,0,2,3") from None


def show(report: Report, document: Document, json: str | None, markdown: str | None, html: Path | None) -> None:
    """The report where it was asked for: stdout for people unless a machine reads there, and the files named."""
    from ..explain import html as pages
    from ..explain import markdown as texts
    from ..explain import terminal

    if markdown == "-" and json == "-":
        raise UsageError("--json - and --markdown - cannot both go to stdout")
    out = console("-" if "-" in (json, markdown) else None)
    out.soft_wrap = False
    if not out.is_terminal:
        out.width = 120
    for item in terminal.render(document):
        out.print(item)
    write_json(report.to_dict(), json)
    if markdown == "-":
        sys.stdout.write(texts.render(document))
    elif markdown is not None:
        _write(Path(markdown), texts.render(document), "--markdown")
    if html is not None:
        _write(html, pages.page(document), "--html")
        out.print(f"wrote {html}", markup=False)


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot write there: {error.strerror}") from error
