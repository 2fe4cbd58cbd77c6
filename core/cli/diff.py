"""`phobos-sim diff FILE`: a kernel run under two kinds of arithmetic, and what differs, where, from which line on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .explain import Html, Markdown, show
from .options import Device, Json, Kernel, Settings, integers, pairs, pick_kernel, progress_bar


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A kernel source, .py or .ph.")],
    grid: Annotated[
        str, typer.Option("--grid", metavar="X[,Y[,Z]]", help="CTAs: numbers, or formulas such as M//BM,N//BN.")
    ],
    against: Annotated[
        list[str],
        typer.Option(
            "--against",
            metavar="SIDE",
            help="ieee: contractions as sequential IEEE f32 chains; exact: each correctly rounded once; sm_90, ...: "
            "another card's tensor cores; reference: a device against it; FILE.npz: outputs by name. May be repeated.",
        ),
    ],
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
    arch: Annotated[str, typer.Option("--arch", help="Whose tensor cores on the first side.")] = "sm_86",
    device: Device = None,
    json: Json = None,
    markdown: Markdown = None,
    html: Html = None,
) -> None:
    """Run a kernel twice and show what differs; exit status 1 if a stored element does.

    Arrays that no --arg names are made as `run` makes them: random for those the kernel only reads, from --seed, floats
    uniform in [-0.5, 0.5).
    """
    from ..explain import difference
    from .arguments import arguments
    from .grids import formula

    chosen = pick_kernel(file, kernel)
    constants = integers("--set", settings)
    made = arguments(chosen.program(constants), pairs("--arg", arg), integers("--dim", dim), seed)
    with progress_bar(chosen.name) as progress:
        result = difference.diff(
            chosen,
            lambda meta: tuple(formula("--grid", part, meta) for part in grid.split(",")),
            *made.values(),
            against=against if len(against) > 1 else against[0],
            arch=arch,
            constants=constants,
            device=device,
            progress=progress,
        )
    show(result, result.document(), json, markdown, html)
    if not result.identical:
        raise typer.Exit(1)
