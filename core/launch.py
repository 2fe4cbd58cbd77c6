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

from . import choose, isa, log
from .binding import Bound, bind, check_arch
from .errors import UsageError
from .tile.program import Contract, Program

if TYPE_CHECKING:
    from .autotune import Tuning
    from .gpu.device import Device
    from .lang.kernel import Kernel

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
    inexact: place of a dot -> what computed it instead, under `mode="cooperative"`; empty: every bit is the arch's.
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
    place = str(contract.span)
    name = inexact.get(place)
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
    if not isinstance(arch, str) or arch not in isa.ARCHS:
        raise UsageError(f"unknown arch {arch!r}; known are {', '.join(isa.ARCHS)}")
    if not isinstance(races, bool):
        raise UsageError(f"races is True or False, found {races!r}")
    if progress is not None and not callable(progress):
        raise UsageError(f"progress is a function of (done, all), found {progress!r}")
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
