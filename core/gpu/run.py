"""Runs a bound kernel on a Vulkan device: choose the form, compile once, split the launch, bring outputs back.

A launch is split over dispatches where a device needs it: at grid barriers and by the trips of loops (parts), and the
grid by maxComputeWorkGroupCount and by the scratch memory that tiles take. Shaders are cached by everything they depend
on; extents, grid and trip counts are not among it.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from .. import isa, limits, log
from ..errors import LoopLimitError, UnavailableError
from ..formats import F16
from ..isa import Arch
from ..tile import program as tp
from . import cooperative, mapping, measure, parts, probe
from .access import stored_bits
from .emitter import Job, Shader
from .parts import Part, Ready
from .sm86 import chains, mufu
from .target import Target

if TYPE_CHECKING:
    from ..binding import Bound
    from .device import Device
    from .memory import Buffer

SCRATCH_BYTES = 64 << 20
KEPT_SHADERS = 256
#: Trips of a while loop before a GPU takes it for endless, in seconds that a display survives.
MAX_TRIPS = 1 << 22


@dataclass
class Result:
    """Outputs as codes by tensor name, the form that ran, seconds on the device, and what to tell the user.

    inexact: place of a dot -> what computed it instead, where `mode` allowed that.
    """

    outputs: dict[str, np.ndarray]
    form: str
    seconds: float
    notes: list[str] = field(default_factory=list)
    inexact: dict[str, str] = field(default_factory=dict)


_shaders: OrderedDict[object, Shader] = OrderedDict()
_launches: OrderedDict[object, Ready] = OrderedDict()
_lock = threading.Lock()


def run(
    device: Device,
    bound: Bound,
    arch: Arch,
    form: str | None,
    instructions: str | None,
    progress: Callable[[int, int], None] | None = None,
    mode: str = "exact",
    default: str | None = None,
    double: bool | None = None,
) -> Result:
    """Executes the launch; raises before anything is written.

    mode: `cooperative` gives exactness up (`inexact`). default: the mapping for `form` None, if not the measured one.
    double: whether dots may be computed in f64, if not as measured.
    """
    target = probe.target_for(device, instructions_of(bound.program), instructions)
    if mode == "cooperative":
        target = cooperative.target_for(device, target, bound.program, arch)
    program = bound.program
    if form in (None, "shared") and _multiplies_halves(program, target):
        target = replace(target, double_dots=measure.prefers_double(device) if double is None else double)
    changed = {bound.aliases[name] for name in program.written()}
    written = frozenset(name for name, first in bound.aliases.items() if first in changed)

    def preferred() -> str:
        return default or measure.preferred(device, measure.kind_of(program))

    def attempt(form: str | None) -> tuple[dict[str, Buffer], str, float, list[str]]:
        def prepare(part: Part, counted: bool = False) -> Ready:
            return _ready(part, target, arch, form, default, preferred, written, counted)

        buffers: dict[str, Buffer] = {}
        notes: list[str] = []
        seconds, used = 0.0, ""
        for part, ready in parts.of(bound, prepare, target):
            for note in ready.choice.notes:
                log.debug(note)
            seconds += _Dispatch(device, part, ready, target, buffers).run(progress)
            notes += [n for n in (ready.shader.description, *ready.choice.notes) if n not in notes]
            used = ready.choice.form
        return buffers, used, seconds, notes

    try:
        buffers, used, seconds, notes = attempt(form)
    except LoopLimitError:
        if form is not None:
            raise
        buffers, used, seconds, notes = attempt("shared")  # each of its many invocations makes fewer trips
    inexact = cooperative.stand_ins(program, target, used)
    notes[:0] = cooperative.notes(program, target, used, arch, inexact)
    used = f"{used}, inexact" if inexact else used
    return Result(_outputs(bound, target, buffers), used, seconds, notes, inexact)


def _outputs(bound: Bound, target: Target, buffers: dict[str, Buffer]) -> dict[str, np.ndarray]:
    """Codes of every written tensor."""
    out = {}
    for name in sorted(bound.program.written()):
        codes = bound.tensors[name]
        if bound.aliases[name] not in buffers:  # no part that ran touches it
            out[name] = codes.copy()
            continue
        bits = stored_bits(bound.program.tensor(name).element, target)
        raw = buffers[bound.aliases[name]].read(np.dtype(f"uint{bits}"), codes.size)
        data = raw.astype(codes.dtype) if raw.dtype.itemsize != codes.dtype.itemsize else raw.view(codes.dtype)
        out[name] = data.reshape(codes.shape)
    return out


def _ready(
    part: Part,
    target: Target,
    arch: Arch,
    form: str | None,
    default: str | None,
    preferred: Callable[[], str],
    written: frozenset[str],
    counted: bool,
) -> Ready:
    """Mapping and shader of a part; one like an earlier one takes over what was found then.

    The key holds all that these depend on; of the data that is what `_plain` sees in it.
    """
    bound, plain = part.bound, _plain(part.bound, target, written)
    key = (
        bound.program,
        target,
        tuple(target.forms.items()),
        arch.name,
        form,
        default,
        bound.grid,
        part.count,
        tuple(bound.dims.items()),
        tuple((name, codes.shape) for name, codes in bound.tensors.items()),
        tuple(parts.integers(bound).items()),
        tuple(bound.aliases.items()),
        plain,
        counted,
    )
    with _lock:
        if key in _launches:
            _launches.move_to_end(key)
            return _launches[key]
    choice = mapping.choose(bound.program, target, bound.aliases, part.count, form, preferred)
    job = Job(bound.program, parts.analyse(bound), target, arch, choice.form, bound.aliases, counted, plain)
    found = Ready(choice, _shader(job, choice), job.facts)
    with _lock:
        _launches[key] = found
        while len(_launches) > KEPT_SHADERS:
            _launches.popitem(last=False)
    return found


def _plain(bound: Bound, target: Target, written: frozenset[str]) -> frozenset[tp.Contract]:
    """Contractions whose operands, as they lie in memory, need none of the special cases: a scan costs less than those.

    On a CPU device only: elsewhere staging finds out (`sm86.tensor_block`). `written`: arrays whose contents change
    during the launch, so that what lies in memory before it says nothing.
    """
    if not target.is_cpu:
        return frozenset()
    makers = bound.program.makers
    seen: dict[tuple[str, str], bool] = {}

    def is_plain(contract: tp.Contract, value: tp.Value) -> bool:
        maker = makers.get(value)
        if not isinstance(maker, tp.Load) or maker.tensor in written or parts.is_hidden(maker.tensor):
            return False
        key = (contract.instruction, maker.tensor)
        if key not in seen:
            seen[key] = chains.is_plain(isa.lookup(contract.instruction), bound.tensors[maker.tensor])
        return seen[key]

    return frozenset(c for c in bound.program.contractions() if is_plain(c, c.a) and is_plain(c, c.b))


def _shader(job: Job, choice: mapping.Choice) -> Shader:
    key = (
        id(job.program),
        job.counted,
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


def _multiplies_halves(program: tp.Program, target: Target) -> bool:
    """Whether there is a choice of dots in f64 or not (`sm86.tensor_double`)."""
    if target.inexact or not measure.can_double(target):
        return False
    rows = [isa.lookup(c.instruction) for c in program.contractions()]
    return any(r.family == "tensor" and r.operands[0] is F16 and target.form_of(r.key) != "integer" for r in rows)


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


class _Dispatch:
    """Buffers of one part and the dispatches over its CTAs. `buffers`: those of the launch, by name."""

    def __init__(self, device: Device, part: Part, ready: Ready, target: Target, buffers: dict[str, Buffer]) -> None:
        self.device, self.part, self.bound, self.ready, self.target = device, part, part.bound, ready, target
        self.shader = shader = ready.shader
        self.pipeline = device.pipeline(shader.code, len(shader.bindings), shader.push_words, shader.subgroup_size)
        self.buffers = {}
        for name, codes in self.bound.tensors.items():
            first = self.bound.aliases[name]
            if first not in buffers:
                buffers[first] = self._upload(name, codes)
            self.buffers[name] = buffers[first]
        self.status = None
        if "tables" in shader.bindings:
            if "tables" not in buffers:
                buffers["tables"] = device.buffer(mufu.table_words())
            self.buffers["tables"] = buffers["tables"]
        if "status" in shader.bindings:
            self.buffers["status"] = self.status = device.buffer(np.zeros(4, np.uint32))
        self.trips = self._trips()

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
        if data.nbytes and not parts.is_hidden(name):
            buffer.write(np.ascontiguousarray(data))
        return buffer

    def _trips(self) -> int:
        """Trips that loops which are counted in the shader may make."""
        if self.status is None:
            return 0
        budget = self.target.loop_budget
        return limits.limit(limits.MAX_TRIPS, MAX_TRIPS) if budget is None else max(0, budget - self.ready.total)

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

    def run(self, progress: Callable[[int, int], None] | None) -> float:
        """Dispatches all CTAs of the part; seconds on the device."""
        x, y, _ = self.bound.grid
        shader, per_group = self.shader, self.shader.units_per_group
        groups = self.part.count * shader.units // per_group
        first_unit = self.part.first * shader.units
        limit = self.target.max_groups[0]
        if shader.scratch_words:
            limit = max(1, min(limit, SCRATCH_BYTES // (4 * shader.scratch_words)))
            self.buffers["scratch"] = self.device.buffer(4 * shader.scratch_words * min(limit, groups))
        bound = [self.buffers[name] for name in shader.bindings]
        parameters = self._parameters()
        seconds = 0.0
        for at in range(0, groups, limit):
            count = min(limit, groups - at)
            push = [0, first_unit + at * per_group, self.trips, x, y, *parameters]
            seconds += self.device.run([(self.pipeline, bound, push, (count, 1, 1))])
            self._check_status()
            if progress is not None:
                progress(at + count, groups)
        return seconds

    def _check_status(self) -> None:
        if self.status is None:
            return
        line = int(self.status.read(np.dtype(np.uint32), 1)[0])
        if line:
            place = f"{self.bound.program.body.ops[0].span.source.path}:{line}"
            did_not_end = f"{place}: a loop of kernel {self.bound.program.name} did not end within"
            if self.target.loop_budget is None:
                raise LoopLimitError(f"{did_not_end} {self.trips} trips; if it is meant to, raise {limits.MAX_TRIPS}")
            raise LoopLimitError(
                f"{did_not_end} the {self.target.loop_budget} trips that {self.target.name} can count in one dispatch. "
                f"Bound the loop, or use device='reference' ({limits.MAX_TRIPS})."
            )
