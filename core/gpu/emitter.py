"""The part of shader emission that both mappings share: parameters, scalars, control flow.

A subclass says where tiles live and who computes them (`registers`: lanes of one subgroup hold them; `shared`: a
workgroup keeps them in memory). Scalars are uniform over the CTA and are computed by every invocation. An index scalar
(s64) is a 32-bit value where `tile.facts` proved that enough, else a 64-bit one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .. import isa
from ..errors import UnavailableError
from ..formats import Format
from ..isa import Arch
from ..spirv.builder import DONT_UNROLL, Builder, Value, Variable
from ..tile import program as tp
from ..tile.facts import Facts
from . import sm86
from .access import Tensor, stored_bits
from .target import Target
from .trips import TripCounter, Trips

# Words of the push constants; dims and scalar arguments follow.
ZERO, BASE, LIMIT, GRID_X, GRID_Y, FIRST_PARAMETER = range(6)
MAX_PUSH_WORDS = 32
#: Mesa asks of an address, once per path of its expression, whether it is the same in every invocation: time is
#: exponential in its depth where all leaves are. So float arguments, constants and whatever enters a tile are mixed
#: with a zero that varies, and so is a scalar with more paths to its leaves than this; short ones stay uniform.
MAX_PATHS = 1000


@dataclass(frozen=True)
class Job:
    """What to emit: a program under the facts of a launch, for one target.

    aliases: tensor -> name of the first tensor that is the same array. counted: whether all loops of the kernel count
    their trips in the shader, not only those whose count is unknown at launch. plain: contractions whose operands were
    found to be finite and of moderate size, which a faster core may assume (`chains.is_plain`).
    """

    program: tp.Program
    facts: Facts
    target: Target
    arch: Arch
    form: str
    aliases: dict[str, str] = field(default_factory=dict)
    counted: bool = False
    plain: frozenset[tp.Contract] = frozenset()


@dataclass
class Shader:
    """One emitted shader and how to dispatch it.

    bindings: tensor names in binding order, then "scratch", "tables", "status" where used. units: how many units of
    work a CTA is cut into; a workgroup serves `units_per_group`. scratch_words: per workgroup. counts: whether loops
    count their trips in the shader. owner: the program, kept so that its identity stays its own while the shader is
    cached.
    """

    code: bytes
    bindings: tuple[str, ...]
    parameters: tuple[str, ...]
    push_words: int
    units: int
    units_per_group: int
    subgroup_size: int | None
    scratch_words: int
    trips: Trips
    description: str
    counts: bool = False
    owner: tp.Program | None = None


def kind_of(fmt: Format) -> str:
    """Value kind that carries a format's codes."""
    return "bool" if fmt.bits == 1 else "u64" if fmt.bits == 64 else "u32"


class Emitter:
    """Walks a tile program and emits one shader; see the subclasses for tiles."""

    def __init__(self, job: Job, local_size: int) -> None:
        self.job, self.program, self.facts, self.target = job, job.program, job.facts, job.target
        self.local_size = local_size
        self.b = Builder(job.target, (local_size, 1, 1))
        self.env: dict[tp.Value, Value] = {}
        self.bindings: list[str] = [t.name for t in self.program.tensors]
        self.index_kind = "u32" if self.facts.index32 else "u64"
        self.counter = TripCounter()
        self.counting = job.counted
        self._parameters()
        loops = [op for op in tp.walk(self.program.body) if isinstance(op, tp.For | tp.While)]
        unknown = any(isinstance(op, tp.While) or self.facts.trips[op] is None for op in loops)
        counts = job.target.loop_budget is not None and (job.counted or unknown)
        self.spent = self.b.variable("u32", 0) if counts else None  # trips of counted loops
        # On other devices a while loop is watched: a GPU that never ends takes the display with it.
        watched = job.target.loop_budget is None and any(isinstance(op, tp.While) for op in loops)
        self.ended = self.b.variable("bool", False) if watched else None

    # ---- parameters ------------------------------------------------------------------------------------------

    def _parameters(self) -> None:
        program, b = self.program, self.b
        self.offsets: dict[str, int] = {}
        words = FIRST_PARAMETER
        for dim in program.dims:
            self.offsets[f"dim {dim}"] = words
            words += 1
        for scalar in program.scalars:
            self.offsets[f"scalar {scalar.name}"] = words
            words += 2 if scalar.value.element.bits == 64 else 1
        if words > MAX_PUSH_WORDS:
            raise UnavailableError(
                f"kernel {program.name} has {len(program.dims)} symbolic dims and {len(program.scalars)} scalar "
                f"parameters; "
                f"a shader takes {MAX_PUSH_WORDS - FIRST_PARAMETER} words of them. Use device='reference', or pass "
                "scalars in a tensor."
            )
        self.push_words = words
        b.push_constants(words)
        self.uniform_zero = b.push(ZERO)
        #: Opaque, and not the same in every invocation as far as a driver can tell: see `constant` and `MAX_PATHS`.
        self.zero = b.builtin("LocalInvocationIndex") & self.uniform_zero
        self.paths: dict[tp.Value, int] = {}
        self.base = b.push(BASE)
        self.dims = {d: b.push(self.offsets[f"dim {d}"]) for d in program.dims}
        for scalar in program.scalars:
            self.env[scalar.value] = self._scalar_parameter(scalar)

    def _scalar_parameter(self, scalar: tp.ScalarParam) -> Value:
        b, at = self.b, self.offsets[f"scalar {scalar.name}"]
        low, fmt = b.push(at), scalar.value.element
        if fmt.bits == 64:
            if fmt.name == "s64" and self.index_kind == "u32":
                return low
            low = b.bitcast(b.vector(low, b.push(at + 1)), "u64")
        if fmt.is_float:
            return self.opaque(low)
        return low.ne(0) if fmt.bits == 1 else low

    def tensor(self, name: str) -> Tensor:
        param = self.program.tensor(name)
        extents = tuple(self.dims[d] if isinstance(d, str) else self.b.u32(d) for d in param.dims)
        readonly = not any(self.alias(t) == self.alias(name) for t in self.program.written())
        bits = stored_bits(param.element, self.target)
        return Tensor(self.b, self.bindings.index(name), param.element, bits, extents, readonly)

    def alias(self, name: str) -> str:
        return self.job.aliases.get(name, name)

    def extra_binding(self, name: str) -> int:
        if name not in self.bindings:
            self.bindings.append(name)
        return self.bindings.index(name)

    # ---- scalars ---------------------------------------------------------------------------------------------

    def scalar(self, value: tp.Value) -> Value:
        return self.env[value]

    def zero_of(self, fmt: Format) -> Value:
        """Code 0 of a format; opaque for a float, as constants are."""
        kind = kind_of(fmt)
        if fmt.is_float:
            return self.b.convert(self.zero, kind)
        return self.b.false() if fmt.bits == 1 else self.b.const_bits(0, kind)

    def opaque(self, value: Value) -> Value:
        """The same bits, of which a driver knows nothing."""
        return value | self.b.convert(self.zero, value.kind)

    def as_u32(self, value: Value) -> Value:
        return self.b.convert(value, "u32")

    def as_index(self, value: Value) -> Value:
        """A u32 local coordinate in the kind of index scalars."""
        return self.b.convert(value, self.index_kind)

    def code_of_scalar(self, value: tp.Value) -> Value:
        """A scalar's code in the natural width of its format (an index scalar becomes 64 bits wide)."""
        found = self.env[value]
        if value.element.name == "s64" and found.kind != "u64":
            found = self.b.convert(found.i, "i64").u
        return found if found.kind == "bool" else self.opaque(found)

    def instruction(self, key: str, *values: Value) -> Value:
        """One table row applied to codes."""
        row = isa.lookup(key)
        if row.family == "mufu" or any(s.startswith("MUFU") for s in row.expansion):
            self.b.mufu_binding = self.extra_binding("tables")
        result = sm86.emit(self.b, row, *values)
        made = row.result is not None and row.result.is_float and not any(o is None or o.is_float for o in row.operands)
        # what drivers know of an integer, they would know of the float: opaque again, see `constant`
        return self.opaque(result) if made else result

    def scalar_map(self, op: tp.Map) -> Value:
        result = self._scalar_map(op)
        paths = 2 * sum(self.paths.get(a, 1) for a in op.args)
        if paths > MAX_PATHS and result.kind != "bool":
            result, paths = self.opaque(result), 1
        self.paths[op.result] = paths
        return result

    def _scalar_map(self, op: tp.Map) -> Value:
        key = op.instruction
        if self.index_kind == "u32" and "s64" in key:
            key = key.replace("s64", "s32")
            if key.startswith("cvt.s32.s32"):
                return self.env[op.args[0]]
            return self.instruction(key, *(self.env[a] for a in op.args))
        return self.instruction(key, *(self.env[a] for a in op.args))

    def block_index(self, axis: int) -> Value:
        return self.as_index(self.cta[axis])

    def place(self, unit: Value, units: int) -> Value:
        """Sets `self.cta` from a linear unit number (slabs of a CTA fastest, then x, y, z); returns the slab number."""
        b = self.b
        slab = unit % units if units > 1 else b.u32(0)
        cta = unit // units if units > 1 else unit
        grid_x, grid_y = b.push(GRID_X), b.push(GRID_Y)
        self.cta = (cta % grid_x, cta // grid_x % grid_y, cta // grid_x // grid_y)
        return slab

    # ---- operations ------------------------------------------------------------------------------------------

    def block(self, block: tp.Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: tp.Op) -> None:
        match op:
            case tp.Constant(result=result, code=code):
                self.env[result] = self.constant(result.element, code)
            case tp.Dim(result=result, dim=dim):
                self.env[result] = self.as_index(self.dims[dim])
            case tp.BlockIndex(result=result, axis=axis):
                self.env[result] = self.block_index(axis)
            case tp.Map(result=result) if result.shape == ():
                self.env[result] = self.scalar_map(op)
            case tp.Load(result=result) if result.shape == ():
                self.env[result] = self.load_point(op)
            case tp.Extract(result=result) if result.shape == ():
                self.env[result] = self.extract_point(op)
            case tp.For():
                self.for_(op)
            case tp.While():
                self.while_(op)
            case tp.If():
                self.if_(op)
            case tp.GridBarrier():
                raise UnavailableError(
                    f"{op.span}: grid_barrier inside a loop or a branch: the host must know the count"
                )
            case _:
                self.tile_op(op)

    def constant(self, fmt: Format, code: int) -> Value:
        """A constant of the kernel. Floats are opaque: drivers fold x * 0, x / 0, operations on two constants."""
        b = self.b
        kind = self.index_kind if fmt.name == "s64" else kind_of(fmt)
        if kind == "bool":
            return b.const(code, "bool")
        value = b.const_bits(_low(code, kind), kind)
        return self.opaque(value) if fmt.is_float else value

    def tile_op(self, op: tp.Op) -> None:
        raise NotImplementedError

    def load_point(self, op: tp.Load) -> Value:
        """One element of a tensor, the same in every invocation."""
        return self.as_scalar(op.result, self.read(op, [self.env[s] for s in op.starts]))

    def extract_point(self, op: tp.Extract) -> Value:
        """One element of a tile, the same in every invocation."""
        raise NotImplementedError

    def as_scalar(self, value: tp.Value, code: Value) -> Value:
        """A code in the kind that scalars of its format have."""
        return self.as_u32(code) if value.element.name == "s64" and self.index_kind == "u32" else code

    def read(self, op: tp.Load, coordinates: list[Value]) -> Value:
        """One element at coordinates (index kind), masked where the slice may leave the tensor."""
        b, tensor = self.b, self.tensor(op.tensor)
        index, inside = self.locate(op, tensor, coordinates)
        if inside is None:
            return tensor.load(index)
        return b.select(inside, tensor.load(b.select(inside, index, b.u32(0))), self.zero_of(tensor.format))

    def write(self, op: tp.Store, coordinates: list[Value], code: Value, owner: Value | None = None) -> None:
        """Stores one element; dropped outside the tensor, and where this invocation is not its owner."""
        tensor = self.tensor(op.tensor)
        index, inside = self.locate(op, tensor, coordinates)
        condition = owner if inside is None else inside if owner is None else inside & owner
        if condition is None:
            tensor.store(index, code)
        else:
            with self.b.if_(condition):
                tensor.store(index, code)

    def locate(self, op: tp.Load | tp.Store, tensor: Tensor, coordinates: list[Value]) -> tuple[Value, Value | None]:
        """Linear element index (u32) and the condition that the coordinates lie in the tensor, None where proved."""
        inside: Value | None = None
        index: Value | None = None
        for coordinate, extent, proved in zip(coordinates, tensor.extents, self.facts.inside[op], strict=True):
            if not proved:
                test = coordinate < self.as_index(extent)
                inside = test if inside is None else inside & test
            low = self.as_u32(coordinate)
            index = low if index is None else index * extent + low
        return (index if index is not None else self.b.u32(0)), inside

    # ---- control flow ----------------------------------------------------------------------------------------

    def for_(self, op: tp.For) -> None:
        carried = [self.carry(init, op, i) for i, init in enumerate(op.inits)]
        induction, *arguments = op.body.arguments
        lo, hi, step = (self.env[v] for v in (op.lo, op.hi, op.step))

        def body(value: Value) -> None:
            self.env[induction] = value
            with self.nested():
                for argument, slot in zip(arguments, carried, strict=True):
                    slot.enter(argument)
                self.block(op.body)
                self.update(carried, op.body.yields)

        counted = self.target.loop_budget is not None and (self.counting or self.facts.trips[op] is None)
        if counted:
            with self.counted() as inside:
                self._turns(op, (lo, hi, step), body, inside)
        else:
            with self.counter.loop(op):
                self._turns(op, (lo, hi, step), body, None)
        for out, slot in zip(op.outs, carried, strict=True):
            slot.enter(out)

    def _turns(
        self, op: tp.For, bounds: tuple[Value, Value, Value], body: Callable[[Value], None], counted: Trips | None
    ) -> None:
        b = self.b
        lo, hi, step = bounds

        def loop() -> None:
            counter = b.variable(lo.kind, lo)

            def trip() -> Value:
                value = counter.load()
                body(value)
                counter.store(value + step)
                again = step < hi - value  # unsigned: value + step may leave the signed range
                return again if counted is None else self.goes_on(op, again, counted)

            b.do_while(trip, DONT_UNROLL)

        if self.facts.runs[op]:
            loop()
        else:
            with b.if_((lo.i < hi.i) & (step.i > 0)):
                loop()

    def while_(self, op: tp.While) -> None:
        b = self.b
        carried = [self.carry(init) for init in op.inits]

        def holds() -> Value:
            with self.nested():
                for argument, slot in zip(op.condition.arguments, carried, strict=True):
                    slot.enter(argument)
                self.block(op.condition)
            return self.env[op.condition.yields[0]]

        watch = None if self.ended is None else b.variable("u32", 0)

        def trip(inside: Trips) -> Value:
            with self.nested():
                for argument, slot in zip(op.body.arguments, carried, strict=True):
                    slot.enter(argument)
                self.block(op.body)
                self.update(carried, op.body.yields)
            again = self.goes_on(op, holds(), inside)
            return again if watch is None else self.watched(op, again, watch)

        first = holds()
        if self.ended is not None:
            first = first & ~self.ended.load()
        with b.if_(first), self.counted() as inside:
            b.do_while(lambda: trip(inside), DONT_UNROLL)
        for out, slot in zip(op.outs, carried, strict=True):
            slot.enter(out)

    @contextmanager
    def counted(self) -> Iterator[Trips]:
        """A loop that counts its trips in the shader, and so do the kernel's loops inside it."""
        before, self.counting = self.counting, True
        with self.counter.loop(1) as inside:
            yield inside
        self.counting = before

    def goes_on(self, op: tp.Op, again: Value, inside: Trips) -> Value:
        """The condition of a counted loop's next trip: `again`, unless the device cannot count further.

        Then the status word gets the line of the loop, and the host raises LoopLimitError.
        """
        if self.target.loop_budget is None:
            return again
        b = self.b
        assert self.spent is not None
        total = self.spent.load() + (1 + inside.known)
        self.spent.store(total)
        over = b.push(LIMIT) < total
        with b.if_(again & over):
            b.buffer(self.extra_binding("status")).store(0, b.u32(op.span.line))
        return b.select(over, b.false(), again)

    def watched(self, op: tp.While, again: Value, trips: Variable) -> Value:
        """The condition of a while loop's next trip: `again`, unless it made as many as are allowed; see `goes_on`."""
        b, ended = self.b, self.ended
        assert ended is not None
        made = trips.load() + 1
        trips.store(made)
        with b.if_(again & (made >= b.push(LIMIT))):
            ended.store(b.true())
            b.buffer(self.extra_binding("status")).store(0, b.u32(op.span.line))
        return again & ~ended.load()

    def if_(self, op: tp.If) -> None:
        carried = [self.carry_type(out) for out in op.outs]

        def arm(block: tp.Block) -> Callable[[], None]:
            def emit() -> None:
                with self.nested():
                    self.block(block)
                    self.update(carried, block.yields)

            return emit

        self.b.if_else(self.env[op.condition], arm(op.then), arm(op.orelse))
        for out, slot in zip(op.outs, carried, strict=True):
            slot.enter(out)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Emits what may run or not: where it puts values of the code around it holds in here alone."""
        yield

    # ---- carried values --------------------------------------------------------------------------------------

    def carry(self, init: tp.Value, loop: tp.For | None = None, position: int = 0) -> Carried:
        slot = self.carry_type(init, loop, position)
        slot.set(init)
        return slot

    def carry_type(self, value: tp.Value, loop: tp.For | None = None, position: int = 0) -> Carried:
        return ScalarSlot(self, value) if value.shape == () else self.tile_slot(value, loop, position)

    def tile_slot(self, value: tp.Value, loop: tp.For | None, position: int) -> Carried:
        """A place for a carried tile; `loop` and the position among its carried values where it is one's."""
        raise NotImplementedError

    def update(self, slots: Sequence[Carried], values: Sequence[tp.Value]) -> None:
        """Assigns all slots at once: every new value is read before any slot changes."""
        pending = [slot.prepare(value) for slot, value in zip(slots, values, strict=True)]
        for commit in pending:
            commit()


class Carried:
    """A place that a value passes through between trips or out of a branch."""

    def set(self, value: tp.Value) -> None:
        self.prepare(value)()

    def prepare(self, value: tp.Value) -> Callable[[], None]:
        raise NotImplementedError

    def enter(self, argument: tp.Value) -> None:
        raise NotImplementedError


class ScalarSlot(Carried):
    """A scalar in a Function variable."""

    def __init__(self, emitter: Emitter, value: tp.Value) -> None:
        self.emitter = emitter
        kind = emitter.index_kind if value.element.name == "s64" else kind_of(value.element)
        self.variable = emitter.b.variable(kind)

    def prepare(self, value: tp.Value) -> Callable[[], None]:
        found = self.emitter.env[value]
        return lambda: self.variable.store(found)

    def enter(self, argument: tp.Value) -> None:
        self.emitter.env[argument] = self.variable.load()


def _low(code: int, kind: str) -> int:
    return code & (0xFFFFFFFF if kind == "u32" else 0xFFFFFFFFFFFFFFFF)
