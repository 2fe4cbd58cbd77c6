"""The workgroup mapping: a CTA is one workgroup, tiles live in memory, a barrier follows every region.

Every operation of the tile program has a form here. A tile is an expression over its coordinates; it is written to
memory (Workgroup arrays while they fit, else a scratch buffer) where more than one reader, or a reader that walks it
more than once, needs it. A region is one parallel loop over the elements of a tile; invocation `lid` takes elements
lid, lid + size, ... The same code runs with one subgroup and subgroup barriers on a CPU device, where a workgroup
barrier is dear, and with 128 or 256 invocations on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..formats import Format
from ..spirv import cooperative as matrices
from ..spirv.builder import BITS, DONT_UNROLL, Array, Value
from ..tile import program as tp
from . import cooperative, shared_contract, shared_cooperative, shared_reduce
from .emitter import Carried, Emitter, Job, Shader, kind_of
from .uses import Uses

Coordinates = tuple[Value, ...]


@dataclass
class Expression:
    """A tile as a function of its coordinates (u32 each)."""

    type: tp.TileType
    at: Callable[[Coordinates], Value]


@dataclass
class Slot:
    """Memory of one tile: a Workgroup array or a stretch of the scratch buffer."""

    kind: str
    words: int
    array: Array
    base: Value | None = None  # scratch: first element of this workgroup's stretch
    start: int = 0  # first element of this tile within that

    @property
    def offset(self) -> Value | None:
        """First element of this tile in the scratch buffer, computed where it is needed: a slot may outlive an arm."""
        return None if self.base is None else self.base + self.start


class SharedEmitter(Emitter):
    """Emits the workgroup mapping."""

    def __init__(self, job: Job, local_size: int, scope: str) -> None:
        super().__init__(job, local_size)
        if job.form == cooperative.FORM:
            matrices.use(self.b)
        self.scope = scope
        self.tiles: dict[tp.Value, Expression] = {}
        self.slots: dict[tp.Value, Slot] = {}
        self.free: list[Slot] = []
        self.fragments: dict[tp.Value, shared_contract.Fragment | shared_cooperative.Fragment] = {}
        self.halves: dict[int, list[Array]] = {}  # staged operands of matrices by size, free for another
        self.streamed: set[tp.Value] = set()  # slices that contractions read from their tensors
        self.kept: list[Slot] = []  # carried tiles: never freed by a reader
        self.shared_left = job.target.shared_bytes
        self.scratch_end = 0
        self.late_scratch = self.b.id()
        self.dots_in_f64 = False
        self.uses = Uses(job.program.body)
        self.lid = self.b.builtin("LocalInvocationIndex")
        group = self.b.builtin("WorkgroupId", 0)
        self.place(self.base + group, 1)
        self.group = group
        words = group * Value(self.b, self.late_scratch, "u32")
        self.scratch_base = {"u32": words, "u64": words >> 1, "f16": words << 1}

    # ---- regions ---------------------------------------------------------------------------------------------

    def parallel(self, count: int, body: Callable[[Value], None], barrier: bool = True) -> None:
        """`body(e)` for every e below `count`, spread over the invocations; then a barrier, if wanted."""
        b, size = self.b, self.local_size
        if count <= size:
            if count == size:
                body(self.lid)
            else:
                with b.if_(self.lid < count):
                    body(self.lid)
        else:
            trips = -(-count // size)
            with self.counter.loop(trips):

                def trip(i: Value) -> None:
                    e = self.lid + i * size
                    if count % size == 0:
                        body(e)
                    else:
                        with b.if_(e < count):
                            body(e)

                b.loop(trips, trip, DONT_UNROLL)
        if barrier:
            self.barrier()

    def serial(self, count: int, body: Callable[[Value], None]) -> None:
        """`body(i)` for i in 0..count-1 in this invocation."""
        with self.counter.loop(count):
            self.b.loop(count, body, DONT_UNROLL)

    def barrier(self) -> None:
        self.b.barrier(self.scope, "both")

    def split(self, e: Value, shape: tuple[int, ...]) -> Coordinates:
        """Coordinates of a linear element number."""
        out: list[Value] = []
        for extent in reversed(shape[1:]):
            out.append(e % extent)
            e = e // extent
        return (e, *reversed(out)) if shape else ()

    # ---- memory ----------------------------------------------------------------------------------------------

    def allocate(self, fmt: Format, size: int, kind: str = "") -> Slot:
        """Memory for `size` codes, as elements of a kind (that of the codes, but for matrices of the device's own)."""
        kind = kind or ("u32" if kind_of(fmt) == "bool" else kind_of(fmt))
        for slot in self.free:
            if slot.kind == kind and slot.words == size:
                self.free.remove(slot)
                return slot
        size_bytes = size * BITS[kind] // 8
        if size_bytes <= self.shared_left:
            self.shared_left -= size_bytes
            return Slot(kind, size, self.b.shared(kind, size))
        start = self.scratch_end + self.scratch_end % (2 if kind == "u64" else 1)
        self.scratch_end = start + -(-size_bytes // 4)
        first = start // 2 if kind == "u64" else start * 2 if kind == "f16" else start
        array = self.b.buffer(self.extra_binding("scratch"), kind)
        return Slot(kind, size, array, self.scratch_base.get(kind, self.scratch_base["u32"]), first)

    def slot_in(self, array: Array, size: int) -> Slot:
        """Memory for `size` codes in an array that has served its purpose."""
        return Slot(array.kind, size, array)

    def read_slot(self, slot: Slot, fmt: Format, e: Value) -> Value:
        value = slot.array.load(e if slot.offset is None else slot.offset + e)
        if slot.kind[0] == "f":
            return self.b.convert(value.bits, "u32")
        return value.ne(0) if fmt.bits == 1 else value

    def write_slot(self, slot: Slot, fmt: Format, e: Value, code: Value) -> None:
        if fmt.bits == 1:
            code = self.b.select(code, self.b.u32(1), self.b.u32(0))
        if slot.kind[0] == "f":
            code = self.b.convert(code, f"u{BITS[slot.kind]}").f
        slot.array.store(e if slot.offset is None else slot.offset + e, code)

    def stored(self, type_: tp.TileType, slot: Slot) -> Expression:
        return Expression(type_, lambda at: self.read_slot(slot, type_.element, _linear(at, type_.shape)))

    def materialise(self, value: tp.Value, slot: Slot | None = None) -> None:
        """Writes a tile to memory, so that any invocation may read any element."""
        if value in self.slots:
            return
        expression, shape, fmt = self.tiles[value], value.shape, value.element
        slot = slot or self.allocate(fmt, value.type.size)
        self.parallel(value.type.size, lambda e: self.write_slot(slot, fmt, e, expression.at(self.split(e, shape))))
        self.bind_slot(value, slot)

    def bind_slot(self, value: tp.Value, slot: Slot) -> None:
        self.slots[value] = slot
        self.tiles[value] = self.stored(value.type, slot)

    def at(self, value: tp.Value, coordinates: Coordinates) -> Value:
        """An operand's code at coordinates of a result: scalars and extents of 1 stretch."""
        if value.shape == ():
            return self.code_of_scalar(value)
        zero = self.b.u32(0)
        own = tuple(zero if n == 1 else c for n, c in zip(value.shape, coordinates, strict=True))
        return self.tiles[value].at(own)

    # ---- operations ------------------------------------------------------------------------------------------

    def op(self, op: tp.Op) -> None:
        super().op(op)
        for value in self.uses.dies.get(op, ()):  # its memory may serve the next tile: a barrier has passed
            slot = self.slots.get(value)
            if slot is not None and not any(slot is kept for kept in self.kept):
                self.free.append(slot)

    def define(
        self, value: tp.Value, at: Callable[[Coordinates], Value], lazy: bool = True, free: bool = False
    ) -> None:
        """Binds a tile to an expression; keeps it lazy only for one pointwise reader of the same shape, next to it.

        free: the expression costs nothing and never changes, so it needs no memory, whoever reads it.
        """
        self.tiles[value] = Expression(value.type, at)
        self.slots.pop(value, None)
        if not free and not (lazy and self.uses.is_inline(value)):
            self.materialise(value)

    def tile_op(self, op: tp.Op) -> None:
        b = self.b
        match op:
            case tp.Map(result=result, instruction=key, args=(source,)) if source in self.streamed:
                self.tiles[result] = Expression(
                    result.type, lambda at: self.instruction(key, self.tiles[source].at(at))
                )
                self.streamed |= {result} if self.uses.feeds_only_contractions(result) else set()
            case tp.Map(result=result, instruction=key, args=args):
                self.define(result, lambda at: self.instruction(key, *(self.at(a, at) for a in args)))
            case tp.Broadcast(result=result, value=value):
                self.define(result, lambda at: self.at(value, at), free=value.shape == ())
            case tp.Iota(result=result, axis=axis):
                self.define(result, lambda at: at[axis])
            case tp.Load(result=result) if self.uses.feeds_only_contractions(result) and self.staged(op):
                self.tiles[result] = Expression(result.type, lambda at: self.load_at(op, at))
                self.streamed.add(result)
            case tp.Load(result=result):
                written = {self.alias(t) for t in self.program.written()}
                self.define(result, lambda at: self.load_at(op, at), lazy=self.alias(op.tensor) not in written)
            case tp.Store():
                self.store(op)
            case tp.Contract():
                shared_contract.emit(self, op)
            case tp.Reduce():
                shared_reduce.reduce(self, op)
            case tp.ArgMax():
                shared_reduce.argmax(self, op)
            case tp.Scan():
                shared_reduce.scan(self, op)
            case tp.Transpose(result=result, value=value):
                self.define(result, lambda at: self.tiles[value].at((at[1], at[0])))
            case tp.Reshape(result=result, value=value):
                self.define(result, lambda at: self.tiles[value].at(self.split(_linear(at, result.shape), value.shape)))
            case tp.Extract():
                self.define(op.result, lambda at: self.extract(op, at))
            case tp.Insert():
                self.define(op.result, lambda at: self.insert(op, at))
            case tp.Gather(result=result, table=table, index=index):
                size = table.type.size

                def gather(at: Coordinates) -> Value:
                    code = self.at(index, at)
                    inside = code < b.const(size, code.kind)  # before 64 bits are cut
                    i = b.select(inside, b.convert(code, "u32"), b.u32(0))
                    return b.select(
                        inside, self.tiles[table].at(self.split(i, table.shape)), self.zero_of(table.element)
                    )

                self.define(result, gather)
            case _:
                raise NotImplementedError(type(op).__name__)

    def slice_coordinates(
        self, starts: tuple[tp.Value, ...], sizes: tuple[int | None, ...], at: Coordinates
    ) -> list[Value]:
        """Tensor coordinates (index kind) of a slice's local coordinates."""
        local = iter(at)
        out = []
        for start, size in zip(starts, sizes, strict=True):
            base = self.env[start]
            out.append(base if size is None else base + self.as_index(next(local)))
        return out

    def staged(self, op: tp.Load) -> bool:
        """Whether contractions may read a slice from its tensor: nothing writes it, no loop form asks for tiles."""
        return self.job.form != "loops" and self.alias(op.tensor) not in {self.alias(t) for t in self.program.written()}

    def direct_load(self, value: tp.Value, run: int) -> Callable[[Value, Value], list[Value]] | None:
        """(row, first column) -> packed words of `run` elements of an unmasked slice; None where that cannot be.

        Whenever it is asked, and wherever the words are read: of a tensor that nothing writes.
        """
        op = self.uses.definer.get(value)
        if not isinstance(op, tp.Load) or not self.staged(op) or op.sizes[-1] is None or len(value.shape) != 2:
            return None
        tensor, aligned = self.tensor(op.tensor), math.gcd(self.facts.aligned[op], value.shape[1])
        words = tensor.widest_words(run, aligned, self.target) if tensor.bits < 32 else 0
        if not words or value.shape[1] % run or not all(self.facts.inside[op]):
            return None

        def load(row: Value, column: Value) -> list[Value]:
            index, _ = self.locate(op, tensor, self.slice_coordinates(op.starts, op.sizes, (row, column)))
            return tensor.load_words(index, run * tensor.bits // 32, words)

        return load

    def load_at(self, op: tp.Load, at: Coordinates) -> Value:
        return self.read(op, self.slice_coordinates(op.starts, op.sizes, at))

    def store(self, op: tp.Store) -> None:
        shape = tuple(s for s in op.sizes if s is not None)
        tensor_format = self.program.tensor(op.tensor).element
        assert op.value.element == tensor_format, op

        def element(e: Value) -> None:
            at = self.split(e, shape)
            self.write(op, self.slice_coordinates(op.starts, op.sizes, at), self.at(op.value, at))

        self.parallel(math.prod(shape), element)

    def load_point(self, op: tp.Load) -> Value:
        value = super().load_point(op)
        if self.alias(op.tensor) in {self.alias(t) for t in self.program.written()}:
            self.barrier()  # every invocation has read it before any goes on to a store
        return value

    def extract_point(self, op: tp.Extract) -> Value:
        value = self.as_scalar(op.result, self.extract(op, ()))
        self.barrier()  # every invocation has read it before any overwrites the tile
        return value

    def extract(self, op: tp.Extract, at: Coordinates) -> Value:
        return self.tile_element(op, op.value, self.slice_coordinates(op.starts, op.sizes, at))

    def tile_element(self, op: tp.Op, tile: tp.Value, coordinates: list[Value]) -> Value:
        """One element of a tile at index-kind coordinates; code 0 outside, unless proved inside."""
        b = self.b
        inside: Value | None = None
        for coordinate, extent, proved in zip(coordinates, tile.shape, self.facts.inside[op], strict=True):
            if not proved:
                test = coordinate < b.const(extent, coordinate.kind)
                inside = test if inside is None else inside & test
        own = tuple(self.as_u32(c) for c in coordinates)
        if inside is None:
            return self.tiles[tile].at(own)
        own = tuple(b.select(inside, c, b.u32(0)) for c in own)
        return b.select(inside, self.tiles[tile].at(own), self.zero_of(tile.element))

    def insert(self, op: tp.Insert, at: Coordinates) -> Value:
        b = self.b
        inside = b.true()
        local: list[Value] = []
        for coordinate, start, size in zip(at, op.starts, op.sizes, strict=True):
            offset = self.as_index(coordinate) - self.env[start]
            inside = inside & (offset < b.const(size or 1, offset.kind))
            if size is not None:
                local.append(self.as_u32(offset))
        clamped = tuple(b.select(inside, c, b.u32(0)) for c in local)
        return b.select(inside, self.at(op.value, clamped), self.tiles[op.into].at(at))

    @contextmanager
    def nested(self) -> Iterator[None]:
        before = dict(self.tiles), dict(self.slots)
        yield
        self.tiles, self.slots = before

    # ---- carried tiles ---------------------------------------------------------------------------------------

    def tile_slot(self, value: tp.Value, loop: tp.For | None, position: int) -> Carried:
        if loop is not None and self.facts.runs[loop]:
            contract = self.uses.accumulates(loop, position)
            fragment = shared_contract.Fragment.of(self, contract) if contract is not None else None
            if fragment is not None:
                return fragment
        return TileSlot(self, value.type)

    def update(self, slots: Sequence[Carried], values: Sequence[tp.Value]) -> None:
        """A carried tile that another one takes is copied aside first: the first may be overwritten before."""
        own = {id(slot.slot) for slot in slots if isinstance(slot, TileSlot)}
        copies: list[Slot] = []
        for slot, value in zip(slots, values, strict=True):
            source = self.slots.get(value)
            if isinstance(slot, TileSlot) and source is not None and source is not slot.slot and id(source) in own:
                copy = self.allocate(value.element, value.type.size)
                self.copy(value.type, source, copy)
                self.bind_slot(value, copy)
                copies.append(copy)
        super().update(slots, values)
        self.free += copies

    def copy(self, kind: tp.TileType, source: Slot, target: Slot) -> None:
        fmt = kind.element
        self.parallel(kind.size, lambda e: self.write_slot(target, fmt, e, self.read_slot(source, fmt, e)))

    def inherits(self, value: tp.Value) -> Slot | None:
        """The memory of the carried tile that `value` replaces, where it may be overwritten in place."""
        argument = self.uses.in_place(value)
        return None if argument is None else self.slots.get(argument)

    # ---- the whole shader ------------------------------------------------------------------------------------

    def emit(self) -> Shader:
        self.block(self.program.body)
        b = self.b
        words = self.scratch_end + self.scratch_end % 2
        b.late_constant(self.late_scratch, words)
        return Shader(
            code=b.module(),
            bindings=tuple(self.bindings),
            parameters=tuple(self.offsets),
            push_words=self.push_words,
            units=1,
            units_per_group=1,
            subgroup_size=self._subgroup_size(),
            scratch_words=words,
            trips=self.counter.root,
            counts=self.spent is not None,
            description=f"workgroups of {self.local_size}, tiles in memory, {self.scope} barriers"
            + (", dots in f64" if self.dots_in_f64 else ""),
        )

    def _subgroup_size(self) -> int | None:
        """Demanded where barriers are a subgroup's; and for accumulators, as narrow subgroups leave more registers."""
        target = self.target
        if self.scope == "subgroup" or self.job.form == cooperative.FORM:
            return target.subgroup_size
        if not (target.is_narrow and target.required_subgroup_size and self.program.contractions()):
            return None
        fits = self.local_size <= target.lanes * target.max_subgroups
        return target.lanes if fits and self.job.form != "loops" else None


class TileSlot(Carried):
    """A carried tile: one stretch of memory that the loop overwrites."""

    def __init__(self, emitter: SharedEmitter, type_: tp.TileType) -> None:
        self.emitter, self.type = emitter, type_
        self.slot = emitter.allocate(type_.element, type_.size)
        emitter.kept.append(self.slot)

    def prepare(self, value: tp.Value) -> Callable[[], None]:
        e = self.emitter
        if e.slots.get(value) is self.slot:
            return lambda: None
        e.materialise(value)
        source = e.slots[value]
        return lambda: e.copy(self.type, source, self.slot)

    def set(self, value: tp.Value) -> None:
        self.prepare(value)()

    def enter(self, argument: tp.Value) -> None:
        self.emitter.bind_slot(argument, self.slot)


def _linear(at: Coordinates, shape: tuple[int, ...]) -> Value:
    index = at[0]
    for coordinate, extent in zip(at[1:], shape[1:], strict=True):
        index = index * extent + coordinate
    return index
