"""`phobos-sim run FILE`: a kernel on generated or loaded arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from .options import (
    Device,
    Form,
    Json,
    Kernel,
    Mode,
    Settings,
    check_json,
    console,
    describe,
    integers,
    pairs,
    pick_kernel,
    progress_bar,
    write_json,
)

if TYPE_CHECKING:
    from ..launch import Launch
    from ..tile.program import Program


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A kernel source, .py or .ph.")],
    grid: Annotated[
        str | None,
        typer.Option("--grid", metavar="X[,Y[,Z]]", help="CTAs: numbers, or formulas such as M//BM,N//BN."),
    ] = None,
    kernel: Kernel = None,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=N", help="Extent of a symbolic dim; may be repeated.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=random|zeros|FILE.npy|NUMBER", help="An argument; may be repeated."),
    ] = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the generated arrays.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write each output to DIR/NAME.npy.")] = None,
    arch: Annotated[str, typer.Option("--arch", help="Whose tensor cores.")] = "sm_86",
    form: Form = None,
    mode: Mode = "exact",
    shuffle: Annotated[
        int | None,
        typer.Option("--shuffle", metavar="SEED", help="Run the CTAs in a shuffled order, on the reference."),
    ] = None,
    races: Annotated[
        bool, typer.Option("--races", help="Report two CTAs that meet in one element, on the reference.")
    ] = False,
    device: Device = None,
    json: Json = None,
) -> None:
    """Run a kernel and print the sha256 of what it stored.

    Arrays that no --arg names are made: random for those the kernel only reads, zeros for those it writes. A kernel
    with a key searches its @autotune space, unless --set chooses.
    """
    from .arguments import arguments
    from .grids import ask, formula

    chosen = pick_kernel(file, kernel)
    constants = integers("--set", settings) or None
    program = chosen.program(constants)
    if grid is None:
        raise ask(chosen, program)
    if shuffle is not None and shuffle < 0:
        raise UsageError(f"--shuffle {shuffle}: a seed is not negative")
    made = arguments(program, pairs("--arg", arg), integers("--dim", dim), seed)
    check_json(json)
    _make_folder(out)
    with progress_bar(chosen.name) as progress:
        launch = chosen.launch(
            lambda meta: tuple(formula("--grid", part, meta) for part in grid.split(",")),
            *made.values(),
            device="reference" if device is None and (races or shuffle is not None) else device,
            arch=arch,
            constants=constants,
            form=form,
            order=None if shuffle is None else ("shuffled", shuffle),
            races=races,
            progress=progress,
            mode=mode,
        )
    files = _save(program, made, out) if out is not None else {}
    _print(launch, program, made, files, json)
    write_json({**describe(launch), "files": files, "seed": seed}, json)


# ---- what is written ---------------------------------------------------------------------------------------------


def _make_folder(folder: Path | None) -> None:
    """Before the launch, so that a long one is not lost."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot be made: {error.strerror}") from error


def _save(program: Program, made: dict[str, Any], folder: Path) -> dict[str, str]:
    """Outputs as .npy; bf16, which numpy's format does not know, as its uint16 codes."""
    import numpy as np

    files = {}
    try:
        for name in sorted(program.written()):
            array = made[name]
            if program.tensor(name).element.name == "bf16":
                array = array.view(np.uint16)
            path = folder / f"{name}.npy"
            np.save(path, array, allow_pickle=False)
            files[name] = str(path)
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot write there: {error.strerror}") from error
    return files


def _print(launch: Launch, program: Program, made: dict[str, Any], files: dict[str, str], json: str | None) -> None:
    """What a launch did, for people."""
    from ..lang.types import NAMES

    out = console(json)
    ctas = " x ".join(map(str, launch.grid))
    form = f", form {launch.form}" if launch.form else ""
    lines = [f"{launch.kernel}: device {launch.device}{form}, {ctas} CTAs, {launch.seconds:.3g} s"]
    if launch.constants:
        lines.append("constants " + " ".join(f"{name}={value}" for name, value in launch.constants.items()))
    lines += [f"dot at {path.place}: {path.instruction}: {path.reason}" for path in launch.paths]
    rows = [("output", "type", "shape", "sha256", "file" if files else "")]
    for name, digest in launch.sha256.items():
        shape = " x ".join(map(str, made[name].shape))
        rows.append((name, NAMES[program.tensor(name).element], shape, digest, files.get(name, "")))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    headline = launch.tuning.headline if launch.tuning is not None else None
    lines += [f"note: {note}" for note in launch.notes if note != headline]
    lines += str(launch.tuning).splitlines() if launch.tuning is not None else []
    for number, line in enumerate(lines):
        out.print(f"  {line}" if number else line, markup=False)
