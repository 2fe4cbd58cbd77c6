"""`phobos-sim check FILE`: run a module's own `check(torch)`, with CUDA tensors on the CPU.

The module is written for a machine with a card: it makes tensors with ``device="cuda"`` and calls
``torch.cuda.synchronize()``. It runs unchanged: a torch function mode puts every such tensor on the CPU, a stand-in
for ``torch.cuda`` has nothing to wait for, and its kernels run on this package's devices.
"""

from __future__ import annotations
import __future__

import gc
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from ..errors import PhobosError, UnavailableError, UsageError
from .options import Device, Json, console, describe, print_launch, source_file, write_json


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file with kernels and a check(torch).")],
    device: Device = None,
    json: Json = None,
) -> None:
    """Run the file's check(torch) on this machine; exit status 1 if it says no."""
    from .. import choose
    from ..launch import observed

    source_file(file)
    if file.suffix != ".py":
        raise UsageError(f"{file}: check runs a Python module's check(torch); a .ph file has none (try `run`)")
    torch = _import_torch()
    with choose.use(device) if device else nullcontext():
        with _blame(file):
            check = _execute(file).get("check")
        if not callable(check):
            raise UsageError(f"{file}: no function check(torch) in it")
        try:
            inspect.signature(check).bind(torch)
        except TypeError as error:
            raise UsageError(f"{file}: check(torch) is called with one argument: {error}") from error
        with observed() as launches, _cuda_on_cpu(torch):
            ok, message = _verdict(file, check, _Torch(torch))
    out = console(json)
    if message:
        out.print(str(message), markup=False)
    for launch in launches:
        print_launch(out, launch)
    data = {"file": str(file), "ok": bool(ok), "message": str(message), "launches": [describe(one) for one in launches]}
    write_json(data, json)
    if not ok:
        raise typer.Exit(1)


def _import_torch() -> Any:
    gc.disable()  # torch's objects stay: every full collection among them takes 0.1 s, and importing makes many
    try:
        import torch
    except ImportError as error:
        raise UnavailableError(
            f"check needs torch, which cannot be imported here ({error}); nothing else of phobos-sim uses it.\n"
            f"  {sys.executable} -m pip install torch==2.13.0   (a CPU build is enough)"
        ) from error
    finally:
        gc.enable()
    gc.freeze()
    return torch


def _verdict(file: Path, check: Callable[[Any], Any], torch: Any) -> tuple[bool, object]:
    """What check(torch) says: a bool, or (bool, message); an assertion of its own that fails is a no."""
    try:
        with _blame(file):
            outcome = check(torch)
    except AssertionError as error:
        place = _place(file, error)
        if place is None:
            raise
        return False, f"{file}:{place}: AssertionError: {error}"
    if not isinstance(outcome, tuple):
        outcome = (outcome, "")
    if len(outcome) != 2:
        raise UsageError(f"{file}: check(torch) returns a bool or (bool, message), found {len(outcome)} values")
    return bool(outcome[0]), outcome[1]


@contextmanager
def _blame(file: Path) -> Iterator[None]:
    """An exception out of the module is the module's, a UsageError with its place, and no defect of this program."""
    try:
        yield
    except (PhobosError, AssertionError, typer.Exit):
        raise
    except Exception as error:
        place = _place(file, error)
        if place is None:
            raise
        raise UsageError(f"{file}:{place}: {type(error).__name__}: {error}") from error


def _place(file: Path, error: Exception) -> int | None:
    """The line of the module that raised or passed on the exception; None where it is this package's own."""
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    innermost = frames[-1][0]
    if Path(__file__).parents[1] in innermost.parents and innermost not in (Path(__file__), file):
        return None
    return next((line for path, line in reversed(frames) if path == file), None)


def _execute(file: Path) -> dict[str, Any]:
    """Run the module's top level with `phobos.lang` bound to this package, whatever else owns that name."""
    from .. import lang

    shim = ModuleType("phobos")
    shim.lang = lang  # type: ignore[attr-defined]
    sys.modules["phobos"], sys.modules["phobos.lang"] = shim, lang
    # annotations name free dims (tensor[f16][M, K]) and must never be evaluated, with or without the future import
    try:
        code = compile(file.read_bytes(), str(file), "exec", flags=__future__.annotations.compiler_flag)
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, before Python 3.12
        place = f":{error.lineno}:{error.offset}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{file}{place}: {error.msg if isinstance(error, SyntaxError) else error}") from error
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    exec(code, module.__dict__)
    return module.__dict__


class _Torch:
    """`torch` as the module sees it: the installed one, with `torch.cuda` replaced."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.cuda = _Cuda()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


class _Cuda:
    """`torch.cuda` of one device that is always there and never busy."""

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def synchronize(self, device: object = None) -> None:
        """Launches are finished when they return."""

    def empty_cache(self) -> None:
        """Nothing is kept."""

    def manual_seed(self, seed: int) -> None:
        """The CPU generator is seeded by torch.manual_seed."""

    manual_seed_all = manual_seed

    def __getattr__(self, name: str) -> Any:
        raise UnavailableError(f"torch.cuda.{name}: the stand-in of `phobos-sim check` has no such function")


def _cuda_on_cpu(torch: Any) -> Any:
    """A torch function mode that rewrites every CUDA device argument to the CPU."""
    from torch.overrides import TorchFunctionMode

    def on_cpu(value: Any) -> Any:
        if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
            return "cpu"
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        return value

    class CudaOnCpu(TorchFunctionMode):  # type: ignore[misc, unused-ignore]  # torch may be there or not
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.cuda:
                return args[0]
            arguments = [on_cpu(value) for value in args]
            return func(*arguments, **{name: on_cpu(value) for name, value in (kwargs or {}).items()})

    return CudaOnCpu()
