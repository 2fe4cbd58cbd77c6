"""`phobos-sim import SOURCE DIR --out DIR`: convert public recordings to this project's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from .options import Json, console, write_json

SOURCES = ("matlab-tensor-core",)


def command(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"Whose layout: {', '.join(SOURCES)}.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A checkout of it, or one card's folder.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the converted sets.")],
    json: Json = None,
) -> None:
    """Convert recordings that others published; what they measured stays theirs and keeps its licence."""
    if source not in SOURCES:
        raise UsageError(f"{source}: not a source this program reads; one of {', '.join(SOURCES)}")
    from ..recordings.matlab import import_sets

    text = console(json)
    done = import_sets(folder, out)
    for item in done:
        left = f"; left out: {', '.join(item.left_out)}" if item.left_out else ""
        text.print(f"{item.path}: {item.results} results{left}", markup=False)
    text.print(f"now: phobos-sim score {out}", markup=False)
    write_json(
        [{"path": str(item.path), "results": item.results, "left_out": list(item.left_out)} for item in done], json
    )
