"""The interpreter of tile programs: the reference backend of a launch.

It executes the tile program and nothing else (design.md 5.1): every operation on whole tiles of codes, CTA by CTA. CTAs
are unordered in the language, so they run x fastest, or shuffled by a seed to expose races, or watched for an
element that two CTAs write. A grid barrier makes CTAs coroutines: all run up to it before any goes on.

Rules: reductions in the order of phobos-language.md D.6, contractions as one chain over ascending k (D.2, D.3), live
values are SSA, so an operation never changes a tile in place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from .. import isa, limits
from ..errors import KernelError, LoopLimitError, Span
from ..formats import FORMATS, S32, S64, Codes, Format, dtype_of
from ..isa import Arch
from ..tile import program as tile
from ..tile.program import Program, Value
from . import execute, memory
from .memory import Grid, Memory, Slices
from .races import Watch

#: Trips of one loop before it is taken for endless; the variable PHOBOS_MAX_TRIPS overrides it.
MAX_TRIPS = 1 << 24

Steps = Generator[None, None, None]


class Observer(Protocol):
    """Watches a run, and may put other arithmetic in the place of contractions (`explain` uses both)."""

    def contract(
        self, cta: Cta, op: tile.Contract, row: isa.Instruction, a: Codes, b: Codes, seed: Codes
    ) -> Codes | None:
        """The result of a contraction (a [M, K], b [K, N] in the row's formats), or None for the instruction's own."""

    def done(self, cta: Cta, op: tile.Op, codes: Codes) -> None:
        """An operation has made its result."""

    def stored(self, cta: Cta, op: tile.Store, written: Slices) -> None:
        """A store has written these slices of its tensor."""


@dataclass
class Cta:
    """One CTA's state: its number, and the codes of every live value."""

    number: int
    grid: Grid
    arch: Arch
    memory: Memory
    dims: dict[str, int]
    max_trips: int
    observer: Observer | None = None
    watch: Watch | None = None
    values: dict[Value, Codes] = field(default_factory=dict)

    def index(self, value: Value) -> int:
        """An s64 scalar as a Python integer."""
        return _integer(self.values[value], value.element)

    def indices(self, values: Sequence[Value]) -> list[int]:
        return [self.index(v) for v in values]


def run(
    program: Program,
    tensors: dict[str, Codes],
    scalars: dict[str, int],
    grid: Grid,
    arch: str | Arch = "sm_86",
    order: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    observer: Observer | None = None,
    races: bool = False,
) -> None:
    """Runs every CTA. `tensors` are written in place: pass private copies and commit them after success.

    tensors: codes by parameter name; one memory under two names is one array object. scalars: codes by parameter name.
    order: None runs CTAs x fastest, a number shuffles them by that seed. progress: called with (CTAs done, CTAs).
    observer: sees every result. races: look for elements in which two CTAs meet. Raises LoopLimitError for a loop of
    more than PHOBOS_MAX_TRIPS trips, KernelError for a race that was looked for and for a grid barrier that not every
    CTA reaches.
    """
    state = Memory(tensors)
    watch = Watch(grid) if races else None
    limit = limits.limit(limits.MAX_TRIPS, MAX_TRIPS)
    record = isa.ARCHS[arch] if isinstance(arch, str) else arch
    dims = _dims(program, tensors)
    count = grid[0] * grid[1] * grid[2]
    numbers = range(count) if order is None else np.random.default_rng(order).permutation(count).tolist()
    waiting: list[Steps] = []
    for done, number in enumerate(numbers, 1):
        cta = Cta(number, grid, record, state, dims, limit, observer, watch)
        for parameter in program.scalars:
            cta.values[parameter.value] = _scalar(scalars[parameter.name], parameter.value.element)
        steps = _block(cta, program.body)
        if _at_barrier(steps):
            waiting.append(steps)
        elif waiting:
            raise _unbalanced(program)
        if progress is not None:
            progress(done, count)
    if waiting and len(waiting) < count:
        raise _unbalanced(program)
    while waiting:
        if watch is not None:
            watch.barrier()
        at = [_at_barrier(steps) for steps in waiting]
        if any(at) and not all(at):
            raise _unbalanced(program)
        waiting = waiting if all(at) else []


def _at_barrier(steps: Steps) -> bool:
    """Runs a CTA up to its next grid barrier (True) or to its end."""
    return next(steps, "end") is None


def _unbalanced(program: Program) -> KernelError:
    span = next(op.span for op in tile.walk(program.body) if isinstance(op, tile.GridBarrier))
    hint = "call it where all CTAs take the same path the same number of times"
    return KernelError("not every CTA reaches this grid barrier", span, hint)


def _dims(program: Program, tensors: dict[str, Codes]) -> dict[str, int]:
    """Symbolic dims by the first tensor that mentions each."""
    dims: dict[str, int] = {}
    for parameter in program.tensors:
        for dim, extent in zip(parameter.dims, tensors[parameter.name].shape):
            if isinstance(dim, str):
                dims.setdefault(dim, extent)
    return dims


def _scalar(code: int, fmt: Format) -> Codes:
    return np.array(code, dtype_of(fmt))


def _integer(codes: Codes, fmt: Format) -> int:
    value = int(codes)
    return value - (1 << fmt.bits) if fmt.kind == "signed" and value >> (fmt.bits - 1) else value


def _block(cta: Cta, block: tile.Block) -> Steps:
    """Executes a block; yields at grid barriers."""
    for op in block.ops:
        control = _CONTROL.get(type(op))
        if control is not None:
            yield from control(cta, op)
        elif isinstance(op, tile.GridBarrier):
            yield None
        elif isinstance(op, tile.Store):
            written = cta.memory.store(op.tensor, cta.indices(op.starts), op.sizes, cta.values[op.value])
            if cta.watch is not None:
                cta.watch.writes(op.tensor, cta.memory.buffers[op.tensor], written, cta.number, op.span)
            if cta.observer is not None:
                cta.observer.stored(cta, op, written)
        else:
            (result,) = op.results
            codes = _OPERATIONS[type(op)](cta, op)
            assert codes.shape == result.shape, (op, codes.shape)
            assert codes.dtype == dtype_of(result.element), (op, codes.dtype)
            cta.values[result] = codes
            if cta.observer is not None:
                cta.observer.done(cta, op, codes)


# --- control flow --------------------------------------------------------------------------------------------------


def _bind(cta: Cta, targets: Sequence[Value], codes: Sequence[Codes]) -> None:
    cta.values.update(zip(targets, codes))


def _get(cta: Cta, values: Sequence[Value]) -> list[Codes]:
    return [cta.values[v] for v in values]


def _for(cta: Cta, op: tile.For) -> Steps:
    low, high, step = cta.indices((op.lo, op.hi, op.step))
    trips = range(low, high, step) if step > 0 else range(0)
    if len(trips) > cta.max_trips:
        raise _too_many(cta, op.span)
    carried = _get(cta, op.inits)
    for value in trips:
        _bind(cta, op.body.arguments, [_scalar(value & (1 << 64) - 1, S64), *carried])
        yield from _block(cta, op.body)
        carried = _get(cta, op.body.yields)
    _bind(cta, op.outs, carried)


def _while(cta: Cta, op: tile.While) -> Steps:
    carried = _get(cta, op.inits)
    trips = 0
    while True:
        _bind(cta, op.condition.arguments, carried)
        yield from _block(cta, op.condition)
        if not cta.values[op.condition.yields[0]]:
            break
        trips += 1
        if trips > cta.max_trips:
            raise _too_many(cta, op.span)
        _bind(cta, op.body.arguments, carried)
        yield from _block(cta, op.body)
        carried = _get(cta, op.body.yields)
    _bind(cta, op.outs, carried)


def _if(cta: Cta, op: tile.If) -> Steps:
    block = op.then if cta.values[op.condition] else op.orelse
    yield from _block(cta, block)
    _bind(cta, op.outs, _get(cta, block.yields))


def _too_many(cta: Cta, span: Span) -> LoopLimitError:
    return LoopLimitError(
        f"{span}: this loop runs more than {cta.max_trips} times; if it is meant to, raise PHOBOS_MAX_TRIPS"
    )


# --- operations ----------------------------------------------------------------------------------------------------


def _constant(cta: Cta, op: tile.Constant) -> Codes:
    return _scalar(op.code, op.result.element)


def _dim(cta: Cta, op: tile.Dim) -> Codes:
    return _scalar(cta.dims[op.dim], op.result.element)


def _block_index(cta: Cta, op: tile.BlockIndex) -> Codes:
    return _scalar(memory.coordinates(cta.number, cta.grid)[op.axis], op.result.element)


def _map(cta: Cta, op: tile.Map) -> Codes:
    codes = execute.apply(isa.lookup(op.instruction), *_get(cta, op.args))
    return np.broadcast_to(codes, op.result.shape)


def _broadcast(cta: Cta, op: tile.Broadcast) -> Codes:
    return np.broadcast_to(cta.values[op.value], op.result.shape)


def _load(cta: Cta, op: tile.Load) -> Codes:
    buffer, starts = cta.memory.buffers[op.tensor], cta.indices(op.starts)
    if cta.watch is not None:
        inside, _ = memory.window(buffer.shape, starts, op.sizes)
        cta.watch.reads(op.tensor, buffer, inside, cta.number, op.span)
    return memory.read(buffer, starts, op.sizes)


def _extract(cta: Cta, op: tile.Extract) -> Codes:
    return memory.read(cta.values[op.value], cta.indices(op.starts), op.sizes)


def _insert(cta: Cta, op: tile.Insert) -> Codes:
    into = np.array(cta.values[op.into])
    memory.write(into, cta.indices(op.starts), op.sizes, cta.values[op.value])
    return into


def _widened(codes: Codes, source: Format, target: Format | None) -> Codes:
    """A contraction's operand in the instruction's format; only exact conversions happen here."""
    if target is None or source == target or target.name == "u32":  # IDP.4A takes its bytes as they are
        return codes
    exact = isa.lookup(f"cvt.{target.name}.{source.name}")  # the spelling without a rounding mode is the exact one
    return execute.apply(exact, codes)


def _contract(cta: Cta, op: tile.Contract) -> Codes:
    instruction = isa.lookup(op.instruction)
    a = _widened(cta.values[op.a], op.a.element, instruction.operands[0])
    b = _widened(cta.values[op.b], op.b.element, instruction.operands[1])
    b, seed = b.T if op.transposed else b, cta.values[op.seed]
    other = cta.observer.contract(cta, op, instruction, a, b, seed) if cta.observer is not None else None
    return execute.chain(instruction, a, b, seed, cta.arch) if other is None else other


def _combine(name: str, fmt: Format) -> isa.Instruction:
    return isa.lookup(f"max.sel.{fmt.name}" if name == "max" else name)


def _reduce(cta: Cta, op: tile.Reduce) -> Codes:
    """phobos-language.md D.6: strided partials joined by a butterfly, or one serial chain."""
    codes = cta.values[op.value]
    combine = _combine(op.combine, op.value.element)
    lanes = op.lanes or 1
    partial = np.full((len(codes), lanes), op.identity, codes.dtype)
    for start in range(0, codes.shape[1], lanes):
        step = codes[:, start : start + lanes]
        reached = step.shape[1]
        partial[:, :reached] = execute.apply(combine, partial[:, :reached], step)
    distance = lanes // 2
    while distance:
        partial = execute.apply(combine, partial, partial[:, np.arange(lanes) ^ distance])
        distance //= 2
    return partial[:, :1]


def _argmax(cta: Cta, op: tile.ArgMax) -> Codes:
    """Serial: a later element replaces the best one where it is greater, so a NaN that comes first stays."""
    codes = cta.values[op.value]
    greater = isa.lookup(f"setp.gt.{op.value.element.name}")
    best, index = codes[:, :1], np.zeros((len(codes), 1), dtype_of(S32))
    for j in range(1, codes.shape[1]):
        wins = execute.apply(greater, codes[:, j : j + 1], best)
        best, index = np.where(wins, codes[:, j : j + 1], best), np.where(wins, index.dtype.type(j), index)
    return index


def _scan(cta: Cta, op: tile.Scan) -> Codes:
    codes = cta.values[op.value]
    combine = _combine(op.combine, op.value.element)
    out = np.empty_like(codes)
    running = np.zeros(codes.shape[1:], codes.dtype)
    for row, step in enumerate(codes):
        running = execute.apply(combine, running, step)
        out[row] = running
    return out


def _iota(cta: Cta, op: tile.Iota) -> Codes:
    shape = op.result.shape
    along = np.arange(shape[op.axis], dtype=dtype_of(FORMATS[op.result.element.name]))
    return np.broadcast_to(along.reshape([-1 if axis == op.axis else 1 for axis in range(len(shape))]), shape)


def _transpose(cta: Cta, op: tile.Transpose) -> Codes:
    return cta.values[op.value].T


def _reshape(cta: Cta, op: tile.Reshape) -> Codes:
    return cta.values[op.value].reshape(op.result.shape)


def _gather(cta: Cta, op: tile.Gather) -> Codes:
    table = cta.values[op.table].reshape(-1)
    index = cta.values[op.index]
    # A negative index is a huge unsigned one, so one comparison finds all that leave the table.
    outside = index >= len(table)
    picked = table[np.where(outside, 0, index).astype(np.int64)]
    return np.where(outside, table.dtype.type(0), picked)


_CONTROL: dict[type[tile.Op], Callable[..., Steps]] = {tile.For: _for, tile.While: _while, tile.If: _if}

_OPERATIONS: dict[type[tile.Op], Callable[..., Codes]] = {
    tile.Constant: _constant,
    tile.Dim: _dim,
    tile.BlockIndex: _block_index,
    tile.Map: _map,
    tile.Broadcast: _broadcast,
    tile.Load: _load,
    tile.Extract: _extract,
    tile.Insert: _insert,
    tile.Contract: _contract,
    tile.Reduce: _reduce,
    tile.ArgMax: _argmax,
    tile.Scan: _scan,
    tile.Iota: _iota,
    tile.Transpose: _transpose,
    tile.Reshape: _reshape,
    tile.Gather: _gather,
}
