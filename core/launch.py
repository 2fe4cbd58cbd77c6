"""One launch: binds arguments to a kernel, checks the contract, runs it on a device, commits outputs on success.

Launch contract (design.md section 10): element type, rank and C-contiguity of every array, one value per symbolic dim,
`@aligned` promises, no partial overlap of arrays (the same array twice is fine), a grid within CUDA's limits. Whatever
goes wrong, no argument has been written.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays, choose, isa, log
from .errors import LaunchError, UsageError
from .formats import Format
from .tile.program import Contract, Program, ScalarParam, TensorParam

if TYPE_CHECKING:
    from .autotune import Tuning
    from .gpu.device import Device
    from .lang.kernel import Kernel

GRID_LIMITS = (2**31 - 1, 65535, 65535)  # CUDA's
FORMS = (None, "loops", "registers", "shared")
INSTRUCTIONS = (None, "native", "integer")
EXACT, COOPERATIVE = MODES = ("exact", "cooperative")


@dataclass(frozen=True)
class Path:
    """How one `dot` was computed: where it stands, the instruction, and why that one."""

    place: str
    instruction: str
    reason: str


@dataclass
class Launch:
    """What a launch did.

    seconds: on the device. tuning: the search of `@ph.kernel(key=...)`, None where there was none.
    inexact: instruction -> what computed its dots instead, under `mode="cooperative"`; empty: every bit is the arch's.
    outputs: codes of each written tensor, held until `sha256` is first read; that is of each output's bytes, C order,
    little-endian.
    """

    kernel: str
    device: str
    form: str | None
    arch: str
    grid: tuple[int, int, int]
    constants: dict[str, int]
    paths: tuple[Path, ...]
    seconds: float
    notes: list[str] = field(default_factory=list)
    tuning: Tuning | None = None
    inexact: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def exact(self) -> bool:
        """Whether the outputs are what the arch computes; False only for what `mode="cooperative"` gave up."""
        return not self.inexact

    @cached_property
    def sha256(self) -> dict[str, str]:
        """Of each output by name, as it was when the launch ended."""
        outputs, self.outputs = self.outputs, {}
        return {name: _digest(codes) for name, codes in outputs.items()}


def _digest(codes: np.ndarray) -> str:
    little = np.ascontiguousarray(codes).astype(codes.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(little.data).hexdigest()


@dataclass(frozen=True)
class Bound:
    """A kernel's arguments as codes: what a backend needs."""

    program: Program
    tensors: dict[str, np.ndarray]
    scalars: dict[str, int]
    dims: dict[str, int]
    grid: tuple[int, int, int]
    aliases: dict[str, str]


@dataclass(frozen=True)
class How:
    """How a launch runs: its keyword arguments, checked. device: None is the reference backend."""

    device: Device | None
    arch: str = "sm_86"
    form: str | None = None
    instructions: str | None = None
    order: int | None = None
    races: bool = False
    progress: Callable[[int, int], None] | None = None
    mode: str = EXACT

    @property
    def may_search(self) -> bool:
        """Whether a kernel with a key searches its space: variants are held to equal bits, which debug modes and
        `mode="cooperative"` have not to offer."""
        return not self.races and self.order is None and self.mode == EXACT

    @property
    def device_name(self) -> str:
        return choose.REFERENCE if self.device is None else f"vulkan:{self.device.name}"


@dataclass(frozen=True)
class Outcome:
    """What a run gave: codes of the written tensors, in memory of their own, and what there is to say about it."""

    outputs: dict[str, np.ndarray]
    form: str | None
    seconds: float
    notes: tuple[str, ...] = ()
    inexact: dict[str, str] = field(default_factory=dict)


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
    races: bool = False,
    expected: Any = None,
    progress: Callable[[int, int], None] | None = None,
    mode: str = EXACT,
) -> Launch:
    """Runs a kernel (see `Kernel.launch`).

    Raises LaunchError, UsageError, KernelError (status 2), UnavailableError (4) or DifferenceError (1); nothing is
    written then.
    """
    how = _checked(device, arch, form, instructions, order, races, progress, mode)
    tuning: Tuning | None = None
    if constants is None and kernel.attributes.key is not None and how.may_search:
        from . import autotune

        bound, outcome, tuning = autotune.run(kernel, grid, args, how, expected)
    else:
        bound = prepare(kernel.program(constants), args, grid, how)
        outcome = execute(bound, how)
        if expected is not None:
            from . import expectation

            expectation.check(expectation.read(bound, expected), outcome.outputs, bound)
    for name, codes in outcome.outputs.items():
        bound.tensors[name][...] = codes
    return _report(bound, outcome, how, tuning)


def _report(bound: Bound, outcome: Outcome, how: How, tuning: Tuning | None) -> Launch:
    program = bound.program
    said = [] if how.order is None else [f"CTAs in an order shuffled by seed {how.order}"]
    said += [] if tuning is None else [tuning.headline]
    done = Launch(
        kernel=program.name,
        device=how.device_name,
        form=outcome.form,
        arch=how.arch,
        grid=bound.grid,
        constants=dict(program.constants),
        paths=tuple(_path(c, outcome.inexact) for c in program.contractions()),
        seconds=outcome.seconds,
        notes=[*outcome.notes, *said, *(f"{note.span}: {note.message}" for note in program.notes)],
        tuning=tuning,
        inexact=outcome.inexact,
        outputs=outcome.outputs,
    )
    for launches in _observers:
        done.sha256  # noqa: B018 (now, so that a list of launches holds no arrays)
        launches.append(done)
    return done


def _path(contract: Contract, inexact: Mapping[str, str]) -> Path:
    """How a dot was computed, and what it is not where the launch gave exactness up."""
    place, name = str(contract.span), inexact.get(contract.instruction)
    if name is None:
        return Path(place, contract.path, contract.reason)
    return Path(place, f"INEXACT {name}", f"mode='cooperative', in place of {contract.path}")


def _checked(
    device: str | None,
    arch: str,
    form: str | None,
    instructions: str | None,
    order: Any,
    races: bool,
    progress: Any,
    mode: str,
) -> How:
    """The keyword arguments of a launch, each a value that exists."""
    if form not in FORMS:
        raise UsageError(f"unknown form {form!r}; forms are None (measured choice), 'loops', 'registers' and 'shared'")
    if instructions not in INSTRUCTIONS:
        raise UsageError(f"unknown instructions {instructions!r}; choose None, 'native' or 'integer'")
    if arch not in isa.ARCHS:
        raise UsageError(f"unknown arch {arch!r}; known are {', '.join(isa.ARCHS)}")
    if not isinstance(races, bool):
        raise UsageError(f"races is True or False, found {races!r}")
    if mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}; modes are 'exact' and 'cooperative' (fast, and not the arch's bits)")
    if mode != EXACT and form == "loops":
        raise UsageError("form='loops' is the recorded exact form; mode='cooperative' takes another, or drop the mode")
    how = How(choose.resolve(device), arch, form, instructions, _seed(order), races, progress, mode)
    if how.device is not None and (order is not None or races):
        asked = "races=True" if races else f"order={order!r}"
        raise UsageError(
            f"{asked} is a debug mode of the reference backend, and this launch would run on {how.device_name}; "
            "pass device='reference'"
        )
    for name, value in (("form", form), ("instructions", instructions)):
        if how.device is None and value is not None:
            raise UsageError(f"{name}={value!r} is a choice of shaders; the reference backend has none")
    if how.device is None and mode != EXACT:
        raise UsageError(f"mode={mode!r} is for Vulkan devices; the reference backend is exact always")
    return how


def _seed(order: Any) -> int | None:
    """The seed of a CTA order: None for x fastest."""
    if order is None:
        return None
    if order == "shuffled":
        return int(np.random.default_rng().integers(1 << 31))
    if isinstance(order, tuple) and len(order) == 2 and order[0] == "shuffled":
        seed = order[1]
        if hasattr(seed, "__index__") and not isinstance(seed, bool) and seed >= 0:
            return int(seed)
    raise UsageError(
        f"unknown order {order!r}; choose None (x fastest), 'shuffled' or ('shuffled', SEED) with a seed of at least 0"
    )


# ---- running -----------------------------------------------------------------------------------------------------


def prepare(program: Program, args: Sequence[Any], grid: Any, how: How) -> Bound:
    """A program with its arguments bound, after every check that needs no device."""
    check_arch(program, how.arch)
    bound = bind(program, args, grid)
    _say(program)
    return bound


def execute(bound: Bound, how: How) -> Outcome:
    """Runs it; the arguments are not written."""
    if how.device is None:
        return _on_reference(bound, how)
    from .gpu.run import run

    result = run(how.device, bound, isa.ARCHS[how.arch], how.form, how.instructions, how.progress, how.mode)
    return Outcome(result.outputs, result.form, result.seconds, tuple(result.notes), result.inexact)


def _on_reference(bound: Bound, how: How) -> Outcome:
    from .reference.program import run

    copies: dict[str, np.ndarray] = {}
    for name, codes in bound.tensors.items():
        first = bound.aliases[name]
        copies[name] = copies[first].reshape(codes.shape) if first in copies else codes.copy()
    started = perf_counter()
    run(
        bound.program, copies, bound.scalars, bound.grid,
        arch=how.arch, order=how.order, progress=how.progress, races=how.races,
    )  # fmt: skip
    seconds = perf_counter() - started
    return Outcome({name: copies[name] for name in sorted(bound.program.written())}, None, seconds)


_said: weakref.WeakSet[Program] = weakref.WeakSet()
_texts: set[str] = set()


def _say(program: Program) -> None:
    """What lowering noted: warnings once, whatever the constants; the path of every dot under PHOBOS_LOG=debug."""
    if program not in _said:
        _said.add(program)
        for note in program.notes:
            text = f"{note.span}: {note.message}"
            if note.kind not in ("path", "info") and text not in _texts:
                _texts.add(text)
                log.info(text)
    if log.level() < log.LEVELS["debug"]:
        return
    for note in program.notes:
        if note.kind in ("path", "info"):
            log.debug(f"{note.span}: {note.message}")
    for contract in program.contractions():
        log.debug(f"dot at {contract.span}: {contract.path} path: {contract.reason}")


# ---- observing ---------------------------------------------------------------------------------------------------

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
    for name, codes in tensors.items():
        aliases[name] = next((aliases[other] for other in aliases if _is_same(codes, tensors[other])), name)
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


def _is_same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.ctypes.data == b.ctypes.data and a.nbytes == b.nbytes > 0 and a.dtype == b.dtype
