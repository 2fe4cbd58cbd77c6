"""`phobos-sim run FILE`: a kernel on generated or loaded arrays."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from .options import (
    Device,
    Form,
    Json,
    Kernel,
    Settings,
    console,
    describe,
    integers,
    pairs,
    pick_kernel,
    print_launch,
    write_json,
)

if TYPE_CHECKING:
    import numpy as np

    from ..formats import Format
    from ..tile.program import Program, TensorParam

INTEGER_RANGE = 1000  # generated s32 and s64 lie in [-1000, 1000]; 8-bit ones take their whole range


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A kernel source, .py or .ph.")],
    grid: Annotated[
        str, typer.Option("--grid", metavar="X[,Y[,Z]]", help="CTAs: numbers, or formulas such as M//BM,N//BN.")
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
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write each output to DIR/NAME.npy.")] = None,
    arch: Annotated[str, typer.Option("--arch", help="Whose tensor cores.")] = "sm_86",
    form: Form = None,
    device: Device = None,
    json: Json = None,
) -> None:
    """Run a kernel and print the sha256 of what it stored.

    Arrays that no --arg names are made: random for those the kernel only reads, zeros for those it writes.
    """
    chosen = pick_kernel(file, kernel)
    constants = integers("--set", settings)
    program = chosen.program(constants)
    values = arguments(program, arg, dim, seed)
    out_console = console(json)
    with progress_bar() as progress:
        launch = chosen.launch(
            lambda meta: tuple(formula("--grid", part, meta) for part in grid.split(",")),
            *values.values(),
            device=device,
            arch=arch,
            constants=constants,
            form=form,
            progress=progress,
        )
    print_launch(out_console, launch)
    files = _save(program, values, out) if out is not None else {}
    for path in files.values():
        out_console.print(f"  wrote {path}", markup=False)
    write_json({**describe(launch), "files": files, "seed": seed}, json)


def formula(option: str, text: str, names: Mapping[str, int]) -> int:
    """The value of a formula of + - * // % ( ), numbers and names: dims and constants."""

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name):
                raise UsageError(f"{option} {text}: no dim or constant {name!r}; known: {', '.join(names) or 'none'}")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in operations:
                return operations[type(operator)](value(left), value(right))
            case _:
                raise UsageError(f"{option} {text}: only numbers, dims, constants and + - * // % ( ) can stand there")

    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        raise UsageError(f"{option} {text}: not a formula such as M//BM") from None
    except ZeroDivisionError:
        raise UsageError(f"{option} {text}: division by zero") from None


operations: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def arguments(program: Program, arg: list[str] | None, dim: list[str] | None, seed: int) -> dict[str, Any]:
    """A kernel's arguments by name, in parameter order, from --arg, --dim and --seed."""
    given = pairs("--arg", arg)
    unknown = [name for name in given if name not in program.parameters]
    if unknown:
        raise UsageError(
            f"--arg {unknown[0]}: kernel {program.name} has the parameters {', '.join(program.parameters)}"
        )
    return _arguments(program, given, integers("--dim", dim), seed)


def _arguments(program: Program, given: dict[str, str], dims: dict[str, int], seed: int) -> dict[str, Any]:
    """Arguments in parameter order; files first, since they say the dims that generated arrays need."""
    import numpy as np

    loaded = {
        t.name: _load(t, given[t.name])
        for t in program.tensors
        if given.get(t.name, "random") not in ("random", "zeros")
    }
    unknown = [name for name in dims if name not in program.dims]
    if unknown:
        raise UsageError(f"--dim {unknown[0]}: kernel {program.name} has the dims {', '.join(program.dims) or 'none'}")
    extents = dict(dims)
    for name, array in loaded.items():
        for dim, extent in zip(program.tensor(name).dims, array.shape):
            if isinstance(dim, str):
                extents.setdefault(dim, extent)
    scalars = {s.name: s.value.element for s in program.scalars}
    written = program.written()
    arguments: dict[str, Any] = {}
    for position, name in enumerate(program.parameters):
        if name in scalars:
            arguments[name] = _scalar(name, given.get(name), scalars[name])
        elif name in loaded:
            arguments[name] = loaded[name]
        else:
            tensor = program.tensor(name)
            shape = tuple(dim if isinstance(dim, int) else _extent(program, dim, extents) for dim in tensor.dims)
            how = given.get(name, "zeros" if name in written else "random")
            # one generator per parameter: an array does not change when another is loaded from a file
            rng = np.random.default_rng([seed, position])
            arguments[name] = _generate(rng, tensor.element, shape, how)
    return arguments


def _extent(program: Program, dim: str, extents: dict[str, int]) -> int:
    if dim not in extents:
        raise UsageError(f"kernel {program.name}: what is {dim}? Give --dim {dim}=N, or an array that has it")
    if extents[dim] < 0:
        raise UsageError(f"--dim {dim}={extents[dim]}: an extent is not negative")
    return extents[dim]


def _generate(rng: np.random.Generator, element: Format, shape: tuple[int, ...], how: str) -> np.ndarray:
    import numpy as np

    from ..arrays import typed
    from ..formats import dtype_of

    zeros: np.ndarray = typed(np.zeros(shape, dtype_of(element)), element)
    if how == "zeros":
        return zeros
    if element.is_float:
        return (rng.random(shape, np.float64 if element.bits == 64 else np.float32) - 0.5).astype(zeros.dtype)
    if element.name == "pred":
        return rng.random(shape) < 0.5
    info = np.iinfo(zeros.dtype)
    low, high = (info.min, info.max) if element.bits == 8 else (-INTEGER_RANGE, INTEGER_RANGE)
    return rng.integers(low, high, shape, zeros.dtype, endpoint=True)


def _load(tensor: TensorParam, name: str) -> np.ndarray:
    import numpy as np

    path = Path(name)
    if path.suffix != ".npy":
        raise UsageError(f"--arg {tensor.name}={name}: expected random, zeros or a .npy file")
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"--arg {tensor.name}={name}: cannot be read as an array: {error}") from None
    if tensor.element.name == "bf16" and array.dtype == np.uint16:
        from ..arrays import typed

        return np.asarray(typed(array, tensor.element))  # how `--out` writes bf16
    return array


def _scalar(name: str, text: str | None, element: Format) -> int | float | bool:
    if text is None:
        raise UsageError(f"what is {name}? Give --arg {name}=NUMBER ({element.name})")
    try:
        if element.name == "pred":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return float(text) if element.is_float else int(text, 0)
    except (ValueError, KeyError):
        raise UsageError(f"--arg {name}={text}: {text!r} is no {element.name}") from None


def _save(program: Program, arguments: dict[str, Any], folder: Path) -> dict[str, str]:
    """Outputs as .npy; bf16, which numpy's format does not know, as its uint16 codes."""
    import numpy as np

    files = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(program.written()):
            array = arguments[name]
            if program.tensor(name).element.name == "bf16":
                array = array.view(np.uint16)
            path = folder / f"{name}.npy"
            np.save(path, array, allow_pickle=False)
            files[name] = str(path)
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot write there: {error.strerror}") from error
    return files


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr where a person watches it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("CTAs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
