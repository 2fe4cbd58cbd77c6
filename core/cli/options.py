"""Options that several verbs share, and where their output goes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from ..lang.kernel import Kernel as PhobosKernel
    from ..launch import Launch

Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="reference, vulkan, vulkan:INDEX or vulkan:PART-OF-NAME; default: PHOBOS_DEVICE, else the best one.",
    ),
]
Json = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is stdout.")]
Kernel = Annotated[str | None, typer.Option("--kernel", metavar="NAME", help="Which kernel of the file.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="CONST=VALUE", help="An @autotune constant; may be repeated.")
]
Form = Annotated[
    str | None, typer.Option("--form", metavar="NAME", help="loops, registers or shared; default: the measured choice.")
]

Mode = Annotated[
    str,
    typer.Option("--mode", metavar="NAME", help="exact; or cooperative: fast, and NOT the bits of the architecture."),
]


def console(json_target: str | None = None) -> Console:
    """Where people read: stdout, or stderr where stdout carries the JSON."""
    from rich.console import Console

    return Console(stderr=json_target == "-", highlight=False, soft_wrap=True)


def write_json(data: Any, target: str | None) -> None:
    """Write `data` to the file named by --json, to stdout for ``-``, nowhere for None."""
    if target is None:
        return
    text = json.dumps(data, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        raise UsageError(f"--json {target}: cannot write there: {error.strerror}") from error


def check_json(target: str | None) -> None:
    """UsageError for a --json file that cannot be written, before any work is done."""
    if target is not None and target != "-" and (Path(target).is_dir() or not Path(target).absolute().parent.is_dir()):
        raise UsageError(f"--json {target}: cannot write there: {'a folder' if Path(target).is_dir() else 'no folder'}")


def source_file(path: Path) -> Path:
    """The path, if it is a readable kernel source."""
    if not path.is_file():
        from ..lang.load import no_source

        raise no_source(path)
    if path.suffix not in (".py", ".ph"):
        raise UsageError(f"{path}: a kernel source ends in .py or .ph, this ends in {path.suffix or 'nothing'!r}")
    return path


def describe(launch: Launch) -> dict[str, Any]:
    """A launch as JSON."""
    from dataclasses import asdict, replace

    return {**asdict(replace(launch, outputs={})), "exact": launch.exact, "sha256": launch.sha256}


def print_launch(out: Console, launch: Launch) -> None:
    """What a launch did, for people."""
    form = f", form {launch.form}" if launch.form else ""
    out.print(f"{launch.kernel}: device {launch.device}{form}, {launch.seconds:.3g} s", markup=False)
    if not launch.exact:
        out.print("  INEXACT: not the bits of the architecture (mode cooperative)", markup=False)
    for path in launch.paths:
        out.print(f"  {path.place}: {path.instruction}: {path.reason}", markup=False)
    for name, digest in launch.sha256.items():
        out.print(f"  sha256 {name} {digest}", markup=False)


def pick_kernel(file: Path, name: str | None) -> PhobosKernel:
    """The named kernel of a source, or its only one."""
    from ..lang.load import load

    module = load(source_file(file))
    if name is None:
        if len(module.kernels) == 1:
            return next(iter(module.kernels.values()))
        listed = ", ".join(module.kernels) or "none"
        raise UsageError(f"{file} has {len(module.kernels)} kernels ({listed}); choose one with --kernel")
    if name not in module.kernels:
        raise UsageError(f"{file} has no kernel {name!r}; it has: {', '.join(module.kernels) or 'none'}")
    return module.kernels[name]


def pairs(option: str, values: list[str] | None) -> dict[str, str]:
    """`NAME=VALUE` arguments as a dict; a repeated or malformed one is wrong use."""
    result: dict[str, str] = {}
    for item in values or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} {item}: expected NAME=VALUE")
        if name in result:
            raise UsageError(f"{option} {item}: {name} was already given as {result[name]}")
        result[name.strip()] = value.strip()
    return result


def integers(option: str, values: list[str] | None) -> dict[str, int]:
    """`NAME=INTEGER` arguments as a dict."""
    result = {}
    for name, value in pairs(option, values).items():
        try:
            result[name] = int(value, 0)
        except ValueError:
            raise UsageError(f"{option} {name}={value}: {value!r} is not an integer") from None
    return result


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr where a person watches it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
