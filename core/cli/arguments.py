"""Arguments of a kernel from the command line: arrays that are made or loaded, scalars, and the dims that follow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..lang.types import NAMES

if TYPE_CHECKING:
    import numpy as np

    from ..formats import Format
    from ..tile.program import Program, TensorParam

INTEGER_RANGE = 1000  # generated s32 and s64 lie in [-1000, 1000]; 8-bit ones take their whole range
MADE = ("random", "zeros")


def arguments(program: Program, given: dict[str, str], dims: dict[str, int], seed: int) -> dict[str, Any]:
    """Arguments in parameter order; files first, since they say the dims that generated arrays need.

    given: ``random``, ``zeros``, a .npy file or a number by parameter. dims: extents by name. Raises UsageError.
    """
    import numpy as np

    _check_names(program, given, dims)
    if seed < 0:
        raise UsageError(f"--seed {seed}: a seed is not negative")
    loaded = {t.name: _load(t, given[t.name]) for t in program.tensors if given.get(t.name, "zeros") not in MADE}
    extents = _extents(program, loaded, dims)
    scalars = {s.name: s.value.element for s in program.scalars}
    written = program.written()
    made: dict[str, Any] = {}
    for position, name in enumerate(program.parameters):
        if name in scalars:
            made[name] = _scalar(name, given.get(name), scalars[name])
        elif name in loaded:
            made[name] = loaded[name]
        else:
            tensor = program.tensor(name)
            shape = tuple(dim if isinstance(dim, int) else _extent(program, dim, extents) for dim in tensor.dims)
            how = given.get(name, "zeros" if name in written else "random")
            # one generator per parameter: an array does not change when another is loaded from a file
            rng = np.random.default_rng([seed, position])
            made[name] = _made(rng, tensor, shape, how)
    return made


def _check_names(program: Program, given: dict[str, str], dims: dict[str, int]) -> None:
    for name in given:
        if name not in program.parameters:
            raise UsageError(f"--arg {name}: kernel {program.name} has the parameters {', '.join(program.parameters)}")
    for name, extent in dims.items():
        if name in program.constants:
            raise UsageError(f"--dim {name}: {name} is an @autotune constant; write --set {name}={extent}")
        if name not in program.dims:
            raise UsageError(f"--dim {name}: kernel {program.name} has the dims {', '.join(program.dims) or 'none'}")
        if extent < 0:
            raise UsageError(f"--dim {name}={extent}: an extent is not negative")


def _extents(program: Program, loaded: dict[str, np.ndarray], dims: dict[str, int]) -> dict[str, int]:
    """Extents by name: those given, and those of the files."""
    extents = dict(dims)
    for name, array in loaded.items():
        dims_of = program.tensor(name).dims
        if array.ndim != len(dims_of):
            wanted = ", ".join(map(str, dims_of))
            raise UsageError(
                f"--arg {name}: argument {name} has rank {len(dims_of)}, [{wanted}]; the file holds {array.shape}"
            )
        for dim, extent in zip(dims_of, array.shape, strict=True):
            if isinstance(dim, str) and extents.setdefault(dim, extent) != extent and dim in dims:
                raise UsageError(f"--dim {dim}={dims[dim]}: the file for {name} has {dim} = {extent}")
    return extents


def _extent(program: Program, dim: str, extents: dict[str, int]) -> int:
    if dim not in extents:
        raise UsageError(f"kernel {program.name}: what is {dim}? Give --dim {dim}=N, or an array that has it")
    return extents[dim]


def _made(rng: np.random.Generator, tensor: TensorParam, shape: tuple[int, ...], how: str) -> np.ndarray:
    try:
        return _generate(rng, tensor.element, shape, how)
    except (MemoryError, ValueError, OverflowError):
        raise UsageError(
            f"{tensor.name} would be an array of {' x '.join(map(str, shape))} {NAMES[tensor.element]}, which does not "
            "fit this machine's memory; give smaller dims"
        ) from None


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

    from ..arrays import read_npy

    path = Path(name)
    if path.suffix != ".npy":
        raise UsageError(f"--arg {tensor.name}={name}: expected random, zeros or a .npy file")
    array = read_npy(path, where=f"--arg {tensor.name}={name}")
    if array.ndim:
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if tensor.element.name == "bf16" and array.dtype == np.uint16:
        from ..arrays import typed

        return np.asarray(typed(array, tensor.element))  # how `--out` writes bf16
    return array


def _scalar(name: str, text: str | None, element: Format) -> int | float | bool:
    if text is None:
        raise UsageError(f"what is {name}? Give --arg {name}=NUMBER ({NAMES[element]})")
    try:
        if element.name == "pred":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return float(text) if element.is_float else int(text, 0)
    except (ValueError, KeyError):
        raise UsageError(f"--arg {name}={text}: {name} is a scalar, and {text!r} is no {NAMES[element]}") from None
