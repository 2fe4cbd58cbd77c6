"""Runs a bound kernel on a Vulkan device: choose the form, compile once, split the launch, bring outputs back.

A launch is split over dispatches where a device needs it: the grid by maxComputeWorkGroupCount and by the scratch
memory that tiles take, and the trips of the outermost loop by lavapipe's 65,535 (docs/adr/0004). Shaders are cached by
everything they depend on; extents, grid and trip counts are not among it.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from .. import isa, log
from ..errors import LoopLimitError, UnavailableError
from ..formats import dtype_of
from ..isa import Arch
from ..tile import facts as facts_of
from ..tile import phases
from ..tile import program as tp
from . import mapping, measure, probe
from .access import stored_bits
from .emitter import STAGE_FIRST, STAGE_LAST, Job, Shader
from .sm86 import chains, mufu
from .target import Target

if TYPE_CHECKING:
    from ..launch import Bound
    from .device import Device
    from .memory import Buffer

SCRATCH_BYTES = 64 << 20
KEPT_SHADERS = 256


@dataclass
class Result:
    """Outputs as codes by tensor name, the form that ran, seconds on the device, and what to tell the user."""

    outputs: dict[str, np.ndarray]
    form: str
    seconds: float
    notes: list[str] = field(default_factory=list)


_shaders: OrderedDict[object, Shader] = OrderedDict()
_launches: OrderedDict[object, tuple[mapping.Choice, Shader, Plan]] = OrderedDict()
_lock = threading.Lock()


def run(
    device: Device,
    bound: Bound,
    arch: Arch,
    form: str | None,
    instructions: str | None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Executes the launch; raises before anything is written."""
    target = probe.target_for(device, instructions_of(bound.program), instructions)
    buffers: dict[str, Buffer] = {}
    notes: list[str] = []
    seconds, used = 0.0, ""
    program = bound.program

    def preferred() -> str:
        return measure.preferred(device, measure.kind_of(program))

    changed = {bound.aliases[name] for name in program.written()}
    written = frozenset(name for name, first in bound.aliases.items() if first in changed)
    for part in _parts(bound):
        hidden = frozenset(part.tensors) - frozenset(bound.tensors)
        choice, shader, plan = _ready(part, target, arch, form, preferred, written | hidden)
        for note in choice.notes:
            log.debug(note)
        binding = _Binding(device, part, shader, target, buffers)
        seconds += binding.dispatch(plan, progress)
        notes += [n for n in (shader.description, *choice.notes) if n not in notes]
        used = choice.form
    return Result(_outputs(bound, target, buffers), used, seconds, notes)


def _integers(bound: Bound) -> dict[str, int]:
    return {s.name: _signed(bound.scalars[s.name], s) for s in bound.program.scalars if s.value.element.is_integer}


def _parts(bound: Bound) -> Iterator[Bound]:
    """The launch itself, or its phases where the kernel waits for its whole grid (tile.phases)."""
    if not phases.has_barrier(bound.program):
        yield bound
        return
    schedule = _schedule(bound.program)
    ctas = math.prod(bound.grid)
    hidden = {name: np.empty((ctas, *t.shape), dtype_of(t.element)) for name, t in schedule.hidden.items()}
    tensors = {**bound.tensors, **hidden}
    aliases = {**bound.aliases, **{name: name for name in hidden}}
    dims = {**bound.dims, phases.GRID_X: bound.grid[0], phases.GRID_Y: bound.grid[1], phases.CTAS: ctas}
    extents = {name: codes.shape for name, codes in bound.tensors.items()}
    facts = facts_of.analyse(bound.program, extents, bound.dims, bound.grid, _integers(bound))

    def part(phase: phases.Phase, trip: int | None = None) -> Bound:
        scalars = dict(bound.scalars)
        if phase.scalar is not None and trip is not None:
            scalars[phase.scalar] = trip & 0xFFFFFFFFFFFFFFFF
        own = {t.name: tensors[t.name] for t in phase.program.tensors}
        firsts = {aliases[name] for name in own} - set(own)
        own_aliases = {name: name if aliases[name] in firsts else aliases[name] for name in own}
        return replace(bound, program=phase.program, tensors=own, scalars=scalars, dims=dims, aliases=own_aliases)

    for step in schedule.steps:
        if isinstance(step, phases.Phase):
            yield part(step)
            continue
        if step.op not in facts.bounds:
            raise UnavailableError(
                f"{step.op.span}: a loop with grid_barrier whose count only the kernel knows; use device='reference'"
            )
        for trip in range(*facts.bounds[step.op]):
            for phase in step.phases:
                yield part(phase, trip)


@functools.lru_cache(maxsize=64)
def _schedule(program: tp.Program) -> phases.Schedule:
    return phases.schedule(program)


def _outputs(bound: Bound, target: Target, buffers: dict[str, Buffer]) -> dict[str, np.ndarray]:
    """Codes of every written tensor."""
    out = {}
    for name in sorted(bound.program.written()):
        codes = bound.tensors[name]
        bits = stored_bits(bound.program.tensor(name).element, target)
        raw = buffers[bound.aliases[name]].read(np.dtype(f"uint{bits}"), codes.size)
        data = raw.astype(codes.dtype) if raw.dtype.itemsize != codes.dtype.itemsize else raw.view(codes.dtype)
        out[name] = data.reshape(codes.shape)
    return out


@dataclass(frozen=True)
class Plan:
    """Pieces of the split loop's trips, (begin, end) each; one empty piece where no loop is split."""

    pieces: tuple[tuple[int, int], ...]


def _ready(
    bound: Bound, target: Target, arch: Arch, form: str | None, preferred: Callable[[], str], written: frozenset[str]
) -> tuple[mapping.Choice, Shader, Plan]:
    """Mapping, shader and pieces of a launch; a launch like an earlier one takes over what was found then.

    The key holds all that these depend on; of the data that is what `_plain` sees in it.
    """
    integers, plain = _integers(bound), _plain(bound, target, written)
    extents = {name: codes.shape for name, codes in bound.tensors.items()}
    key = (
        bound.program, target, tuple(target.forms.items()), arch.name, form, bound.grid, tuple(bound.dims.items()),
        tuple(extents.items()), tuple(integers.items()), tuple(bound.aliases.items()), plain,
    )  # fmt: skip
    with _lock:
        if key in _launches:
            _launches.move_to_end(key)
            return _launches[key]
    facts = facts_of.analyse(bound.program, extents, bound.dims, bound.grid, integers)
    choice = mapping.choose(bound.program, target, bound.aliases, math.prod(bound.grid), form, preferred)
    job = Job(bound.program, facts, target, arch, choice.form, bound.aliases, plain=plain)
    found = (choice, *_prepare(job, choice))
    with _lock:
        _launches[key] = found
        while len(_launches) > KEPT_SHADERS:
            _launches.popitem(last=False)
    return found


def _prepare(job: Job, choice: mapping.Choice) -> tuple[Shader, Plan]:
    """The shader, and the pieces its outermost loop must be cut into for the device's loop budget."""
    program, facts, target = job.program, job.facts, job.target
    shader = _shader(job, choice)
    budget = target.loop_budget
    total = shader.trips.total(facts)
    if budget is None or (total is not None and total <= budget):
        return shader, Plan(((0, 0),))
    loops = [op for op in program.body.ops if isinstance(op, tp.For) and (facts.trips[op] or 0) > 1]
    for loop in sorted(loops, key=lambda op: -(facts.trips[op] or 0)):
        split = _shader(replace(job, split=loop), choice)
        outside = split.trips.total(facts, loop, 0)
        inside = split.trips.inside(loop)
        body = inside.total(facts) if inside else None
        if outside is None or body is None or outside + 1 + body > budget:
            continue
        per_piece = max(1, (budget - outside) // (1 + body))
        trips = facts.trips[loop] or 0
        pieces = tuple((at, min(at + per_piece, trips)) for at in range(0, trips, per_piece))
        log.debug(f"{loop.span}: {trips} trips in {len(pieces)} dispatches ({target.name} counts {budget} in all)")
        return split, Plan(pieces)
    where = loops[0].span if loops else program.body.ops[0].span
    if total is None and not loops:
        return shader, Plan(((0, 0),))  # counted in the shader, which reports through the status word
    raise LoopLimitError(
        f"{where}: kernel {program.name} needs {total or 'an unknown number of'} loop trips per invocation; "
        f"{target.name} stops silently after {budget}, and no outer loop can be split. "
        "Use device='reference', or smaller tiles."
    )


def _plain(bound: Bound, target: Target, written: frozenset[str]) -> frozenset[tp.Contract]:
    """Contractions whose operands, as they lie in memory, need none of the special cases: a scan costs less than those.

    On a CPU device only: elsewhere the special cases are hidden behind memory. `written`: arrays whose contents change
    during the launch, so that what lies in memory before it says nothing.
    """
    if not target.is_cpu:
        return frozenset()
    makers = {value: op for op in tp.walk(bound.program.body) for value in op.results}
    seen: dict[tuple[str, str], bool] = {}

    def is_plain(contract: tp.Contract, value: tp.Value) -> bool:
        maker = makers.get(value)
        if not isinstance(maker, tp.Load) or maker.tensor in written:
            return False
        key = (contract.instruction, maker.tensor)
        if key not in seen:
            seen[key] = chains.is_plain(isa.lookup(contract.instruction), bound.tensors[maker.tensor])
        return seen[key]

    return frozenset(c for c in bound.program.contractions() if is_plain(c, c.a) and is_plain(c, c.b))


def _shader(job: Job, choice: mapping.Choice) -> Shader:
    key = (
        id(job.program),
        id(job.split),
        tuple(c in job.plain for c in job.program.contractions()),
        job.facts.key,
        job.target,
        tuple(sorted(job.target.forms.items())),
        job.arch.name,
        choice.key,
        tuple(sorted(job.aliases.items())),
    )
    with _lock:
        if key in _shaders:
            _shaders.move_to_end(key)
            return _shaders[key]
    shader = mapping.emit(job, choice)
    shader.owner = job.program
    with _lock:
        _shaders[key] = shader
        while len(_shaders) > KEPT_SHADERS:
            _shaders.popitem(last=False)
    return shader


@functools.lru_cache(maxsize=KEPT_SHADERS)
def instructions_of(program: tp.Program) -> tuple[str, ...]:
    """Keys of every instruction that a program's shader may contain."""
    keys: dict[str, None] = {}
    for op in tp.walk(program.body):
        match op:
            case tp.Map(instruction=key) | tp.Contract(instruction=key):
                keys[key] = None
                if key == "FFMA":  # with f16-valued operands it is FMUL, then FADD
                    keys |= dict.fromkeys(("FMUL", "FADD"))
                if "s64" in key and isinstance(op, tp.Map):  # index arithmetic in 32 bits
                    keys[key.replace("s64", "s32")] = None
            case tp.Reduce(combine=key, value=value):
                keys[f"max.sel.{value.element.name}" if key == "max" else key] = None
            case tp.Scan(combine=key):
                keys[key] = None
            case tp.ArgMax(value=value):
                keys[f"setp.gt.{value.element.name}"] = None
    return tuple(key for key in keys if not key.startswith("cvt.s32.s32"))


def _signed(code: int, scalar: tp.ScalarParam) -> int:
    fmt = scalar.value.element
    return code - (1 << fmt.bits) if fmt.kind == "signed" and code >> (fmt.bits - 1) else code


class _Binding:
    """Buffers of one launch and the dispatches over them."""

    def __init__(
        self, device: Device, bound: Bound, shader: Shader, target: Target, buffers: dict[str, Buffer]
    ) -> None:
        self.device, self.bound, self.shader, self.target = device, bound, shader, target
        self.pipeline = device.pipeline(shader.code, len(shader.bindings), shader.push_words, shader.subgroup_size)
        self.buffers = {}
        for name, codes in bound.tensors.items():
            first = bound.aliases[name]
            if first not in buffers:
                buffers[first] = self._upload(name, codes)
            self.buffers[name] = buffers[first]
        self.status = None
        if "tables" in shader.bindings:
            self.buffers["tables"] = device.buffer(mufu.table_words())
        if "status" in shader.bindings:
            self.buffers["status"] = self.status = device.buffer(np.zeros(4, np.uint32))

    def _upload(self, name: str, codes: np.ndarray) -> Buffer:
        fmt = self.bound.program.tensor(name).element
        bits = stored_bits(fmt, self.target)
        data = codes.view(np.uint8) if codes.dtype == np.bool_ else codes
        if data.dtype.itemsize * 8 != bits:
            data = data.astype(np.uint32)
        if data.nbytes > self.target.max_buffer_bytes:
            raise UnavailableError(
                f"argument {name} of kernel {self.bound.program.name} takes {data.nbytes} bytes; "
                f"{self.target.name} binds at most {self.target.max_buffer_bytes} (maxStorageBufferRange). "
                "Launch it in parts, or use device='reference'."
            )
        buffer = self.device.buffer(max(64, -(-data.nbytes // 64) * 64))
        if data.nbytes:
            buffer.write(np.ascontiguousarray(data))
        return buffer

    def _parameters(self) -> list[int]:
        words: list[int] = []
        for name in self.shader.parameters:
            kind, _, what = name.partition(" ")
            if kind == "dim":
                words.append(self.bound.dims[what])
                continue
            code = self.bound.scalars[what]
            words.append(code & 0xFFFFFFFF)
            scalar = next(s for s in self.bound.program.scalars if s.name == what)
            if scalar.value.element.bits == 64:
                words.append(code >> 32)
        return words

    def dispatch(self, plan: Plan, progress: Callable[[int, int], None] | None) -> float:
        x, y, z = self.bound.grid
        units = x * y * z * self.shader.units
        per_group = self.shader.units_per_group
        groups = units // per_group
        limit = self.target.max_groups[0]
        if self.shader.scratch_words:
            limit = max(1, min(limit, SCRATCH_BYTES // (4 * self.shader.scratch_words)))
            scratch = self.device.buffer(4 * self.shader.scratch_words * min(limit, groups))
            self.buffers["scratch"] = scratch
        bound = [self.buffers[name] for name in self.shader.bindings]
        parameters = self._parameters()
        seconds, done = 0.0, 0
        for at in range(0, groups, limit):
            count = min(limit, groups - at)
            batch = []
            for i, (begin, end) in enumerate(plan.pieces):
                stage = (STAGE_FIRST if i == 0 else 0) | (STAGE_LAST if i == len(plan.pieces) - 1 else 0)
                push = [0, at * per_group, begin, end, stage, x, y, *parameters]
                batch.append((self.pipeline, bound, push, (count, 1, 1)))
            seconds += self.device.run(batch)
            self._check_status()
            done += count
            if progress is not None:
                progress(done, groups)
        return seconds

    def _check_status(self) -> None:
        if self.status is None:
            return
        line = int(self.status.read(np.dtype(np.uint32), 1)[0])
        if line:
            source = self.bound.program.body.ops[0].span.source.path
            raise LoopLimitError(
                f"{source}:{line}: a loop of kernel {self.bound.program.name} ran 60,000 trips without end; "
                f"{self.target.name} cannot count further. Bound the loop, or use device='reference' "
                "(PHOBOS_MAX_TRIPS)."
            )
