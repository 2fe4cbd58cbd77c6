"""One launch: binds arguments to a kernel, checks the contract, runs it on a device, commits outputs on success.

Launch contract (design.md section 10): element type, rank and C-contiguity of every array, one value per symbolic dim,
`@aligned` promises, no partial overlap of arrays (the same array twice is fine), a grid within CUDA's limits. Whatever
goes wrong, no argument has been written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays, choose, isa, log
from .errors import LaunchError, UsageError
from .formats import Format
from .tile.program import Program, ScalarParam, TensorParam

if TYPE_CHECKING:
    from .lang.kernel import Kernel

GRID_LIMITS = (2**31 - 1, 65535, 65535)  # CUDA's
FORMS = (None, "loops", "registers", "shared")
INSTRUCTIONS = (None, "native", "integer")


@dataclass(frozen=True)
class Path:
    """How one `dot` was computed: where it stands, the instruction, and why that one."""

    place: str
    instruction: str
    reason: str


@dataclass
class Launch:
    """What a launch did. seconds: on the device. sha256: of each output's bytes, C order, little-endian."""

    kernel: str
    device: str
    form: str | None
    arch: str
    grid: tuple[int, int, int]
    constants: dict[str, int]
    paths: tuple[Path, ...]
    seconds: float
    sha256: dict[str, str]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bound:
    """A kernel's arguments as codes: what a backend needs."""

    program: Program
    tensors: dict[str, np.ndarray]
    scalars: dict[str, int]
    dims: dict[str, int]
    grid: tuple[int, int, int]
    aliases: dict[str, str]


def launch(
    kernel: Kernel,
    grid: Any,
    args: Sequence[Any],
    *,
    device: str | None = None,
    arch: str = "sm_86",
    constants: Mapping[str, int] | None = None,
    form: str | None = None,
    instructions: str | None = None,
    order: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Launch:
    """Runs a kernel (see `Kernel.launch`).

    order: CTA order of the reference backend, for finding races. progress: called with (done, all) units of work.
    Raises LaunchError, UsageError, KernelError (status 2) or UnavailableError (4); nothing is written then.
    """
    if form not in FORMS:
        raise UsageError(f"unknown form {form!r}; forms are None (measured choice), 'loops', 'registers' and 'shared'")
    if instructions not in INSTRUCTIONS:
        raise UsageError(f"unknown instructions {instructions!r}; choose None, 'native' or 'integer'")
    if arch not in isa.ARCHS:
        raise UsageError(f"unknown arch {arch!r}; known are {', '.join(isa.ARCHS)}")
    program = kernel.program(constants)
    check_arch(program, arch)
    bound = bind(program, args, grid)
    chosen = choose.resolve(device)
    for note in program.notes:
        (log.debug if note.kind in ("path", "info") else log.info)(f"{note.span}: {note.message}")
    for contract in program.contractions():
        log.debug(f"dot at {contract.span}: {contract.path} path: {contract.reason}")
    started = perf_counter()
    notes: list[str] = []
    if chosen is None:
        outputs, used_form, seconds = _on_reference(bound, arch, form, instructions, order, progress), None, None
    else:
        if order is not None:
            raise UsageError("a CTA order is chosen on the reference backend only; pass device='reference'")
        from .gpu.run import run

        result = run(chosen, bound, isa.ARCHS[arch], form, instructions, progress)
        outputs, used_form, seconds = result.outputs, result.form, result.seconds
        notes += result.notes
    elapsed = perf_counter() - started if seconds is None else seconds
    digests = {}
    for name, codes in outputs.items():
        bound.tensors[name][...] = codes
        digests[name] = hashlib.sha256(
            np.ascontiguousarray(codes).astype(codes.dtype.newbyteorder("<"), copy=False)
        ).hexdigest()
    done = Launch(
        kernel=program.name,
        device=choose.REFERENCE if chosen is None else f"vulkan:{chosen.name}",
        form=used_form,
        arch=arch,
        grid=bound.grid,
        constants=dict(program.constants),
        paths=tuple(Path(str(c.span), c.path, c.reason) for c in program.contractions()),
        seconds=elapsed,
        sha256=digests,
        notes=[*notes, *(note.message for note in program.notes)],
    )
    for launches in _observers:
        launches.append(done)
    return done


_observers: list[list[Launch]] = []


@contextmanager
def observed() -> Iterator[list[Launch]]:
    """Collects the launches made within, also those of `kernel[grid](...)`, which returns None."""
    launches: list[Launch] = []
    _observers.append(launches)
    try:
        yield launches
    finally:
        _observers.remove(launches)


def _on_reference(
    bound: Bound, arch: str, form: str | None, instructions: str | None, order: Any, progress: Any
) -> dict:
    if form is not None:
        raise UsageError(f"form={form!r} is a choice of shaders; the reference backend has none")
    if instructions is not None:
        raise UsageError(f"instructions={instructions!r} is a choice of shaders; the reference backend has none")
    from .reference.program import run

    copies: dict[str, np.ndarray] = {}
    for name, codes in bound.tensors.items():
        first = bound.aliases[name]
        copies[name] = copies[first] if first in copies else codes.copy()
    run(bound.program, copies, bound.scalars, bound.grid, arch=arch, order=order, progress=progress)
    return {name: copies[name] for name in sorted(bound.program.written())}


def check_arch(program: Program, arch: str) -> None:
    """An instruction that an architecture does not have is an error for that architecture."""
    capability = isa.ARCHS[arch].capability
    for contract in program.contractions():
        row = isa.lookup(contract.instruction)
        if not row.since <= capability <= row.until:
            raise UsageError(f"{contract.span}: {row.key} does not exist on {arch}; it needs sm_{row.since} or later")


# ---- binding -----------------------------------------------------------------------------------------------------


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
        grid = grid({**dims, **program.constants})
    if not isinstance(grid, tuple | list):
        grid = (grid,)
    if not 1 <= len(grid) <= 3:
        raise LaunchError(f"kernel {program.name}: a grid has 1 to 3 extents, found {tuple(grid)!r}")
    out = []
    for axis, (extent, limit) in enumerate(zip(grid, GRID_LIMITS, strict=False)):
        if isinstance(extent, bool) or not hasattr(extent, "__index__"):
            raise LaunchError(
                f"kernel {program.name}: grid extent {'xyz'[axis]} is {extent!r}; give an int (// divides)"
            )
        n = extent.__index__()
        if n <= 0:
            raise LaunchError(
                f"kernel {program.name}: the grid is empty: {'xyz'[axis]} = {n}; every extent must be at least 1"
            )
        if n > limit:
            raise LaunchError(f"kernel {program.name}: grid extent {'xyz'[axis]} = {n} is above CUDA's limit {limit}")
        out.append(n)
    x, y, z = (*out, 1, 1)[:3]
    return x, y, z


def _aliases(program: Program, tensors: Mapping[str, np.ndarray]) -> dict[str, str]:
    """tensor -> first tensor that is the same array; partial overlap is an error where one of the two is written."""
    aliases: dict[str, str] = {}
    written = program.written()
    for name, codes in tensors.items():
        aliases[name] = name
        for other in aliases:
            if other == name or not np.may_share_memory(codes, tensors[other]):
                continue
            same = codes.ctypes.data == tensors[other].ctypes.data and codes.nbytes == tensors[other].nbytes
            if same and codes.dtype == tensors[other].dtype:
                aliases[name] = aliases[other]
                break
            if (name in written or other in written) and codes.nbytes and tensors[other].nbytes:
                raise LaunchError(
                    f"kernel {program.name}: {other} and {name} overlap in memory without being the same array, "
                    "and one of them is written; pass a copy"
                )
    return aliases
