"""`phobos-sim record --out DIR`: record every instruction on this machine's NVIDIA card.

Needs the card's driver; no CUDA toolkit. The folder that comes out is what `phobos-sim score DIR` reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from .options import Json, console, write_json


def command(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the recording; an unfinished one goes on.")
    ],
    card: Annotated[int, typer.Option("--card", metavar="N", help="Which NVIDIA card of this machine.")] = 0,
    via: Annotated[
        str, typer.Option("--via", help="cuda (every row), or vulkan (cooperative matrix rows only).")
    ] = "cuda",
    capability: Annotated[
        int | None, typer.Option("--capability", metavar="86", help="Of the card, for --via vulkan without libcuda.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Run every row twice and compare.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the inputs; the published sets use 1.")] = 1,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who records, for the manifest.")] = "anonymous",
    licence: Annotated[str, typer.Option("--licence", help="Under which the recording may be used.")] = "MIT",
    json: Json = None,
) -> None:
    """Record this machine's NVIDIA card: one kernel per instruction, inputs of every class, corner vectors, GEMMs."""
    from ..recordings import home
    from ..recordings.corners import read
    from ..recordings.recorder.record import Who, record

    if seed < 0:
        raise UsageError(f"--seed {seed}: expected a number from 0 on")
    text = console(json)
    corners = [corner for path in sorted((home() / "corners").glob("*.txt")) for corner in read(path)]
    with open_recorder(via, card, capability) as recorder:
        text.print(
            f"recording {recorder.name}, sm_{recorder.capability}, driver {recorder.driver_version}", markup=False
        )
        with _bar(text) as progress:
            done = record(out, recorder, corners, seed=seed, who=Who(by, licence), verify=verify, progress=progress)
        for name, reason in done.skipped:
            text.print(f"not recorded: {name}: {reason}", markup=False)
        for name, reason in done.failed:
            text.print(f"refused by the card: {name}: {reason}", markup=False)
        total = sum(path.stat().st_size + path.with_suffix(".json").stat().st_size for path in done.files)
        archive = pack(out, done.files)
        text.print(f"{len(done.files)} sets, {total / 1e6:.1f} MB in {out}; all in one file: {archive}", markup=False)
        text.print(f"now: phobos-sim score {out}", markup=False)
        write_json(
            {
                "card": recorder.name,
                "arch": f"sm_{recorder.capability}",
                "driver": recorder.driver_version,
                "files": [str(path) for path in done.files],
                "skipped": [list(item) for item in done.skipped],
                "failed": [list(item) for item in done.failed],
            },
            json,
        )
    if done.failed:
        raise typer.Exit(1)


def pack(out: Path, files: tuple[Path, ...]) -> Path:
    """All files of a recording in `<out>.zip`, the same bytes every time."""
    from zipfile import ZIP_STORED, ZipFile, ZipInfo

    target = out.with_name(out.name + ".zip")
    with ZipFile(target, "w", ZIP_STORED) as archive:
        for path in (path for file in files for path in (file, file.with_suffix(".json"))):
            archive.writestr(ZipInfo(f"{out.name}/{path.name}", (1980, 1, 1, 0, 0, 0)), path.read_bytes())
    return target


def open_recorder(via: str, card: int, capability: int | None = None):  # type: ignore[no-untyped-def]
    """The recorder of one card, as a context manager."""
    if via == "cuda":
        from ..recordings.recorder.cuda import CudaRecorder

        return CudaRecorder(card)
    if via == "vulkan":
        from ..recordings.recorder.cooperative import VulkanRecorder

        return VulkanRecorder(card, capability)
    raise UsageError(f"--via {via}: expected cuda or vulkan")


class _bar:
    """A progress bar as the callback `record` takes."""

    def __init__(self, text) -> None:  # type: ignore[no-untyped-def]
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._progress = Progress(
            BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), console=text, transient=True
        )
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> _bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        self._progress.update(self._task, description=what, completed=done, total=total)
