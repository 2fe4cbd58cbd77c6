"""Binding: a kernel's arguments, checked against the launch contract and turned into codes.

Launch contract (design.md section 10): element type, rank and C-contiguity of every array, one value per symbolic dim,
`@aligned` promises, no partial overlap of arrays (the same array twice is fine), a grid within CUDA's limits. Nothing
is written here; a `Bound` is all that a backend needs to know of a launch.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import arrays, isa
from .errors import LaunchError, UsageError
from .formats import Format
from .tile.program import Program, ScalarParam, TensorParam

GRID_LIMITS = (2**31 - 1, 65535, 65535)  # CUDA's


@dataclass(frozen=True)
class Bound:
    """A kernel's arguments as codes: what a backend needs."""

    program: Program
    tensors: dict[str, np.ndarray]
    scalars: dict[str, int]
    dims: dict[str, int]
    grid: tuple[int, int, int]
    aliases: dict[str, str]


def bind(program: Program, args: Sequence[Any], grid: Any) -> Bound:
    """Checks the launch contract and turns arguments into codes."""
    if len(args) != len(program.parameters):
        raise LaunchError(
            f"kernel {program.name} takes {len(program.parameters)} arguments ({', '.join(program.parameters)}), "
            f"found {len(args)}"
        )
    named = dict(zip(program.parameters, args, strict=True))
    tensors = {t.name: _tensor(program, t, named[t.name]) for t in program.tensors}
    scalars = {s.name: _scalar(program, s, named[s.name]) for s in program.scalars}
    dims = _dims(program, tensors)
    for promise in program.promises:
        if dims.get(promise.dim, 0) % promise.multiple:
            raise LaunchError(
                f"{promise.span}: @aligned promises that {promise.dim} is a multiple of {promise.multiple}, "
                f"found {promise.dim} = {dims[promise.dim]}; pad the array or drop the promise"
            )
    return Bound(program, tensors, scalars, dims, _grid(program, grid, dims), _aliases(program, tensors))


def _tensor(program: Program, param: TensorParam, array: Any) -> np.ndarray:
    where = f"argument {param.name} of kernel {program.name}"
    codes, fmt = arrays.as_codes(array, where=where)
    if fmt != param.element and not _reads_as(fmt, param.element):
        raise LaunchError(f"{where}: {param.span} declares {param.element.name}, found {fmt.name}; convert the array")
    if codes.ndim != len(param.dims):
        raise LaunchError(f"{where}: rank {len(param.dims)} expected, found shape {codes.shape}")
    if not codes.flags.c_contiguous:
        raise LaunchError(f"{where}: a C-contiguous (row-major) array is needed; pass numpy.ascontiguousarray(...)")
    if not codes.flags.writeable and param.name in program.written():
        raise LaunchError(f"{where}: the kernel writes it, but the array is read-only; pass a copy")
    return codes


def _reads_as(found: Format, wanted: Format) -> bool:
    """bf16 and tf32 arrive as their own formats; f32 words may serve a tf32 parameter."""
    return found.name == "f32" and wanted.name == "tf32"


def _scalar(program: Program, param: ScalarParam, value: Any) -> int:
    return arrays.scalar_code(value, param.value.element, where=f"argument {param.name} of kernel {program.name}")


def _dims(program: Program, tensors: Mapping[str, np.ndarray]) -> dict[str, int]:
    dims: dict[str, int] = {}
    source: dict[str, str] = {}
    for param in program.tensors:
        for axis, (dim, extent) in enumerate(zip(param.dims, tensors[param.name].shape, strict=True)):
            where = f"axis {axis} of {param.name}"
            if isinstance(dim, int):
                if dim != extent:
                    raise LaunchError(f"kernel {program.name}: {where} is {dim} in the declaration, found {extent}")
            elif dims.setdefault(dim, extent) != extent:
                raise LaunchError(f"kernel {program.name}: {dim} is {dims[dim]} ({source[dim]}) and {extent} ({where})")
            else:
                source.setdefault(dim, where)
    return dims


def _grid(program: Program, grid: Any, dims: Mapping[str, int]) -> tuple[int, int, int]:
    if callable(grid):
        grid = grid(_Meta(program.name, {**dims, **program.constants}))
    if not isinstance(grid, tuple | list):
        grid = (grid,)
    if not 1 <= len(grid) <= 3:
        raise LaunchError(f"kernel {program.name}: a grid has 1 to 3 extents, found {tuple(grid)!r}")
    out = []
    for axis, (extent, limit) in enumerate(zip(grid, GRID_LIMITS, strict=False)):
        n = _integer(extent)
        if n is None:
            raise LaunchError(
                f"kernel {program.name}: grid extent {'xyz'[axis]} is {extent!r}; give an int (// divides)"
            )
        if n <= 0:
            raise LaunchError(
                f"kernel {program.name}: the grid is empty: {'xyz'[axis]} = {n}; every extent must be at least 1"
            )
        if n > limit:
            raise LaunchError(f"kernel {program.name}: grid extent {'xyz'[axis]} = {n} is above CUDA's limit {limit}")
        out.append(n)
    x, y, z = (*out, 1, 1)[:3]
    return x, y, z


class _Meta(dict[str, int]):
    """What a grid function is given: dims and constants by name."""

    def __init__(self, kernel: str, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self._kernel = kernel

    def __missing__(self, name: object) -> int:
        raise LaunchError(
            f"kernel {self._kernel}: the grid function asks for {name!r}, which is neither dim nor constant; "
            f"there are {', '.join(self) or 'none'}"
        )


def _integer(value: Any) -> int | None:
    """An int or what serves as one (numpy integers); None for a bool and everything else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _aliases(program: Program, tensors: Mapping[str, np.ndarray]) -> dict[str, str]:
    """tensor -> first tensor that is the same array; partial overlap is an error where one of the two is written."""
    aliases: dict[str, str] = {}
    firsts_at: dict[tuple[int, int, np.dtype], str] = {}
    for name, codes in tensors.items():
        place = (codes.__array_interface__["data"][0], codes.nbytes, codes.dtype)
        aliases[name] = firsts_at.setdefault(place, name) if codes.nbytes else name
    firsts = list(dict.fromkeys(aliases.values()))
    written = {aliases[name] for name in program.written()}
    for i, name in enumerate(firsts):
        for other in firsts[:i]:
            if (name in written or other in written) and np.may_share_memory(tensors[name], tensors[other]):
                raise LaunchError(
                    f"kernel {program.name}: {other} and {name} overlap in memory without being the same array, "
                    "and one of them is written; pass a copy"
                )
    return aliases


def check_arch(program: Program, arch: str) -> None:
    """An instruction that an architecture does not have is an error for that architecture."""
    capability = isa.ARCHS[arch].capability
    for contract in program.contractions():
        row = isa.lookup(contract.instruction)
        if not row.since <= capability <= row.until:
            raise UsageError(f"{contract.span}: {row.key} does not exist on {arch}; it needs sm_{row.since} or later")
