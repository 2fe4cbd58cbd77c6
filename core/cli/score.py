"""`phobos-sim score [SET...]`: hold this simulator, or another program, against recordings of real silicon."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from .options import Device, Json, console, write_json


def command(
    sets: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SET...]", help="Recordings: npz files, corner text files, or folders; default: recordings/."
        ),
    ] = None,
    device: Device = None,
    arch: Annotated[str | None, typer.Option("--arch", metavar="ARCH", help="Only sets of this architecture.")] = None,
    under: Annotated[
        str | None, typer.Option("--as", metavar="ARCH", help="Use this architecture's rules instead of the set's own.")
    ] = None,
    instruction: Annotated[
        str | None, typer.Option("--instruction", metavar="NAME", help="Only this instruction.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="COMMAND", help="Score this program (JSON lines) or MODULE:FUNCTION instead."
        ),
    ] = None,
    kill: Annotated[bool, typer.Option("--kill/--no-kill", help="Compute the kill scores too.")] = True,
    everything: Annotated[bool, typer.Option("--all", help="A line per row, also for equal ones.")] = False,
    json: Json = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Append Markdown, as $GITHUB_STEP_SUMMARY wants.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write one self-contained page.")] = None,
) -> None:
    """Compare recorded results with this simulator's, code by code; exit status 1 if any differs."""
    from .. import isa
    from ..recordings import home
    from ..scoreboard import report
    from ..scoreboard.engines import Engine, Simulator
    from ..scoreboard.engines import against as other
    from ..scoreboard.evaluate import Options, score

    for name, value in (("--arch", arch), ("--as", under)):
        if value is not None and value not in isa.ARCHS:
            raise UsageError(f"{name} {value}: known are {', '.join(isa.ARCHS)}")
    if against and device:
        raise UsageError(
            "--against and --device exclude each other: one names what is scored instead of this simulator"
        )
    if not sets and not home().is_dir():
        raise UsageError(
            f"no recordings here ({home()} is no folder): name a set, or set PHOBOS_RECORDINGS to the recordings/ "
            "of a checkout (docs/recordings.md)"
        )
    paths = sets or [home()]
    text = console(json)
    engine: Engine = other(against) if against else Simulator(device)
    try:
        with _Bar(text, paths) as progress:
            outcome = score(paths, engine, Options(arch, under, kill, instruction), progress)
    finally:
        engine.close()
    report.show(outcome, text, everything)
    write_json(report.to_json(outcome), json)
    if junit:
        _write(junit, report.to_junit(outcome))
    if markdown:
        _write(markdown, report.to_markdown(outcome), append=True)
    if html:
        from ..scoreboard.page import to_html

        _write(html, to_html(outcome))
        text.print(f"page: {html}", markup=False)
    if not outcome.passed:
        raise typer.Exit(1)


def _write(path: Path, content: str, append: bool = False) -> None:
    try:
        with path.open("a" if append else "w", encoding="utf-8") as file:
            file.write(content)
    except OSError as fault:
        raise UsageError(f"{path}: cannot write there: {fault.strerror}") from None


class _Bar:
    """A progress bar over all results; nothing where the output is no terminal."""

    def __init__(self, text, paths: list[Path]) -> None:  # type: ignore[no-untyped-def]
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        from ..scoreboard.evaluate import count

        quiet = not text.is_terminal or os.environ.get("PHOBOS_LOG") == "off"
        self._progress = Progress(
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=text,
            transient=True,
            disable=quiet,
        )
        self._task = self._progress.add_task("checking", total=None if quiet else count(paths))

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, what: str, results: int) -> None:
        self._progress.update(self._task, description=what, advance=results)
