"""`phobos-sim check FILE`: run a module's own `check(torch)`, with CUDA tensors on the CPU.

The module is written for a machine with a card: it makes tensors with ``device="cuda"`` and calls
``torch.cuda.synchronize()``. It runs unchanged: a torch function mode puts every such tensor on the CPU, a stand-in
for ``torch.cuda`` has nothing to wait for, and its kernels run on this package's devices.
"""

from __future__ import annotations
import __future__

import gc
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from ..errors import UnavailableError, UsageError
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
        check = _execute(file).get("check")
        if not callable(check):
            raise UsageError(f"{file}: no function check(torch) in it")
        with observed() as launches, _cuda_on_cpu(torch):
            outcome = check(_Torch(torch))
    ok, message = outcome if isinstance(outcome, tuple) else (outcome, "")
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


def _execute(file: Path) -> dict[str, Any]:
    """Run the module's top level with `phobos.lang` bound to this package, whatever else owns that name."""
    from .. import lang

    shim = ModuleType("phobos")
    shim.lang = lang  # type: ignore[attr-defined]
    sys.modules["phobos"], sys.modules["phobos.lang"] = shim, lang
    # annotations name free dims (tensor[f16][M, K]) and must never be evaluated, with or without the future import
    try:
        code = compile(file.read_text(), str(file), "exec", flags=__future__.annotations.compiler_flag)
    except SyntaxError as error:
        raise UsageError(f"{file}:{error.lineno}:{error.offset}: {error.msg}") from error
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

    class CudaOnCpu(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.cuda:
                return args[0]
            arguments = [on_cpu(value) for value in args]
            return func(*arguments, **{name: on_cpu(value) for name, value in (kwargs or {}).items()})

    return CudaOnCpu()
