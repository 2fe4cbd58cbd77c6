"""The register mapping: a unit of work is one subgroup, its lanes hold the tiles, nothing goes to memory in between.

`tile.regions` cuts a CTA into units and says which lane holds which element. Up to 32 registers per row a tile is
held in SSA values; wider tiles are expressions over chunks of columns, kept in per-invocation arrays only where they
are read twice. Elements cross lanes by shuffles alone, so no barrier exists and any number of units may share a
workgroup.
"""

from __future__ import annotations

from collections.abc import Callable

from ..spirv.builder import DONT_UNROLL, Value
from ..tile import program as tp
from ..tile.regions import Plan, matrix
from . import registers_contract
from .emitter import Carried, Emitter, Job, Shader, kind_of
from .registers_tiles import ArrayTile, Column, Held, Lazy, LoadTile, Rows, Tile
from .uses import Uses

# Registers per row up to which a tile is unrolled into SSA values. Beside a contraction's arithmetic the unrolled code
# is small, and arrays would cost it more (docs/performance.md).
HELD, HELD_BY_CONTRACTIONS = 32, 64
CHUNK = 8
GROUP_INVOCATIONS = 256


class RegistersEmitter(Emitter):
    """Emits the register mapping of a plan."""

    def __init__(self, job: Job, plan: Plan, units_per_group: int) -> None:
        super().__init__(job, plan.layout.lanes * units_per_group)
        self.plan, self.layout = plan, plan.layout
        self.units_per_group = units_per_group
        self.uses = Uses(job.program.body)
        self.tiles: dict[tp.Value, Tile] = {}
        self.fragments: dict[tp.Value, registers_contract.Fragment] = {}
        self.carried_arrays: list[ArrayTile] = []
        b = self.b
        self.lane = b.builtin("SubgroupLocalInvocationId")
        group = b.builtin("WorkgroupId", 0)
        unit = self.base + (group * units_per_group + b.builtin("SubgroupId") if units_per_group > 1 else group)
        slab = self.place(unit, plan.units)
        self.offsets_of: dict[object, Value] = {}
        for (cls, size), count in zip(plan.cuts.items(), plan.slabs, strict=True):
            self.offsets_of[cls] = (slab % count) * size
            slab = slab // count
        g = self.layout.g
        self.row_in_block = self.lane if g == 1 else self.lane // g
        self.q = b.u32(0) if g == 1 else self.lane % g
        self.held_limit = HELD_BY_CONTRACTIONS if job.program.contractions() else HELD
        # Indices that no compiler can see make lavapipe use one permutation instead of two (spirv-notes.md section 2).
        self.lane_numbers = [self.uniform_zero + i if i else self.uniform_zero for i in range(self.layout.lanes)]

    def lane_number(self, i: int) -> Value:
        return self.lane_numbers[i]

    # ---- geometry --------------------------------------------------------------------------------------------

    def geometry(self, value: tp.Value | tp.Store, shape: tuple[int, ...]) -> Rows:
        rows, columns = matrix(self.plan.shape(value, shape))
        return Rows(rows, columns, self.plan.row_blocks(rows), self.plan.per_row(columns))

    def of(self, value: tp.Value) -> Rows:
        return self.geometry(value, value.shape)

    def offset(self, owner: tp.Value | tp.Store, axis: int, extent: int) -> Value | None:
        """First coordinate of this unit's slab along an axis, None where the axis is not cut."""
        cls = self.plan.classes.of(owner, axis) if extent > 1 else None
        return self.offsets_of.get(cls)

    def row(self, rows: Rows, block: int | Value) -> Value:
        """The row of a row block that this lane holds; a lane beyond the last row repeats it."""
        b, per = self.b, self.layout.rows_per_block
        if rows.rows == 1:
            return b.u32(0)
        if isinstance(block, Value):
            return block * per + self.row_in_block
        row = self.row_in_block + block * per if block else self.row_in_block
        return b.min(row, rows.rows - 1) if (block + 1) * per > rows.rows else row

    def column(self, register: int | Value) -> Value:
        """First column of the run of `w` registers that starts at `register` (a multiple of w where g > 1)."""
        b, g, w = self.b, self.layout.g, self.layout.w
        if g == 1:
            return b.coerce(register, "u32")
        if isinstance(register, int):
            return self.q * w + register * g
        return register * g + self.q * w

    def each_chunk(self, rows: Rows, body: Callable[[int | Value, int], None], multiple: int = 1) -> None:
        """`body(first register, count)` over a row's registers: once where they are few, else in a loop."""
        n = rows.registers
        if n <= self.held_limit:
            body(0, n)
            return
        unit = multiple if self.layout.g == 1 else max(multiple, self.layout.w)
        fits = [width for width in range(unit, self.held_limit + 1, unit) if n % width == 0]
        if not fits:
            body(0, n)
            return
        width = min(fits, key=lambda width: abs(width - CHUNK))
        with self.counter.loop(n // width):
            self.b.loop(n // width, lambda i: body(i * width, width), DONT_UNROLL)

    # ---- tiles -----------------------------------------------------------------------------------------------

    def operand(self, value: tp.Value) -> Tile:
        """A tile, or a scalar as a tile that is the same everywhere."""
        if value.shape == ():
            code = self.code_of_scalar(value)
            return Column(lambda block: code)
        return self.tiles[value]

    def chunk(self, value: tp.Value, blocks: int, at: int | Value, count: int) -> list[list[Value]]:
        """Codes of an operand for a result's registers [at, at + count) of every row block; extents of 1 stretch."""
        tile = self.operand(value)
        own = Rows(1, 1, 1, 1) if value.shape == () else self.of(value)
        out = []
        for block in range(blocks):
            mine = block if own.blocks > 1 else 0
            if own.registers == 1:
                out.append(tile.block(mine, 0, 1) * count)
            elif own.blocks == 1 and block:
                out.append(out[0])
            else:
                out.append(tile.block(mine, at, count))
        return out

    def define(self, value: tp.Value, compute: Callable[[int | Value, int], list[list[Value]]]) -> None:
        """Binds a tile to a computation over chunks: held, or kept as an expression for one reader, or stored."""
        rows = self.of(value)
        if rows.registers <= self.held_limit:
            self.tiles[value] = Held(compute(0, rows.registers))
            return
        lazy = Lazy(rows, compute)
        self.tiles[value] = lazy if self.uses.is_inline(value) else self.store_array(value, lazy)

    def store_array(self, value: tp.Value, tile: Tile, into: ArrayTile | None = None) -> ArrayTile:
        """Evaluates a tile into a per-invocation array."""
        rows = self.of(value)
        target = into or self.new_array(value)

        def body(at: int | Value, count: int) -> None:
            for block in range(rows.blocks):
                target.store(block, at, tile.block(block, at, count))

        self.each_chunk(rows, body)
        return target

    def new_array(self, value: tp.Value) -> ArrayTile:
        rows = self.of(value)
        array = self.b.array(kind_of(value.element), rows.blocks * rows.registers)
        return ArrayTile(self.b, array, rows)

    # ---- operations ------------------------------------------------------------------------------------------

    def tile_op(self, op: tp.Op) -> None:
        match op:
            case tp.Map(result=result, instruction=key, args=args):
                self.map(result, key, args)
            case tp.Broadcast(result=result, value=value):
                blocks = self.of(result).blocks
                self.define(result, lambda at, n: self.chunk(value, blocks, at, n))
            case tp.Iota():
                self.iota(op)
            case tp.Load():
                self.load(op)
            case tp.Store():
                self.store(op)
            case tp.Contract():
                registers_contract.emit(self, op)
            case tp.Reduce():
                self.reduce(op)
            case _:
                raise NotImplementedError(type(op).__name__)

    def map(self, result: tp.Value, key: str, args: tuple[tp.Value, ...]) -> None:
        source = self.tiles.get(args[0])
        if len(args) == 1 and isinstance(source, LoadTile) and self.uses.feeds_only_contractions(result):
            self.tiles[result] = source.mapped(key)
            return
        rows = self.of(result)

        def compute(at: int | Value, count: int) -> list[list[Value]]:
            operands = [self.chunk(a, rows.blocks, at, count) for a in args]
            return [
                [self.instruction(key, *(o[block][i] for o in operands)) for i in range(count)]
                for block in range(rows.blocks)
            ]

        self.define(result, compute)

    def iota(self, op: tp.Iota) -> None:
        rows, shape = self.of(op.result), op.result.shape
        offset = self.offset(op.result, op.axis, shape[op.axis])
        along_rows = len(shape) == 2 and op.axis == 0

        def compute(at: int | Value, count: int) -> list[list[Value]]:
            out = []
            for block in range(rows.blocks):
                if along_rows:
                    local = [self.row(rows, block)] * count
                else:
                    local = self.columns(rows, at, count)
                out.append([x if offset is None else x + offset for x in local])
            return out

        self.define(op.result, compute)

    def columns(self, rows: Rows, at: int | Value, count: int) -> list[Value]:
        """The column of each register in [at, at + count)."""
        b, w = self.b, self.layout.w
        if rows.columns == 1:
            return [b.u32(0)]
        if self.layout.g == 1:
            first = b.coerce(at, "u32")
            return [first + i if i else first for i in range(count)]
        out = []
        for i in range(0, count, w):
            first = self.column(at + i if i or isinstance(at, int) else at)
            out += [first + j if j else first for j in range(w)]
        return out

    def load(self, op: tp.Load) -> None:
        tile = LoadTile(self, op)
        rows = self.of(op.result)
        written = {self.alias(t) for t in self.program.written()}
        if self.alias(op.tensor) in written:
            self.define(op.result, lambda at, n: [tile.block(i, at, n) for i in range(rows.blocks)])
            if isinstance(self.tiles[op.result], Lazy):
                self.tiles[op.result] = self.store_array(op.result, self.tiles[op.result])
        elif rows.registers > self.held_limit or self.uses.feeds_only_contractions(op.result):
            self.tiles[op.result] = tile  # read again by every reader: cheaper than a round trip through an array
        else:
            self.define(op.result, lambda at, n: [tile.block(i, at, n) for i in range(rows.blocks)])

    def store(self, op: tp.Store) -> None:
        shape = tuple(s for s in op.sizes if s is not None)
        rows = self.geometry(op, shape) if shape else Rows(1, 1, 1, 1)
        target = LoadTile(self, op)

        def body(at: int | Value, count: int) -> None:
            codes = self.chunk(op.value, rows.blocks, at, count)
            for block in range(rows.blocks):
                target.write(rows, block, at, codes[block])

        self._order(op)
        self.each_chunk(rows, body)
        self._order(op)

    def _order(self, op: tp.Store) -> None:
        """Several lanes may read an element that one of them stores: all wait before and after, where any reads it."""
        loads = (other.tensor for other in tp.walk(self.program.body) if isinstance(other, tp.Load))
        if any(self.alias(name) == self.alias(op.tensor) for name in loads):
            self.b.barrier("subgroup", "buffer")

    def reduce(self, op: tp.Reduce) -> None:
        b, fmt = self.b, op.value.element
        rows, g, w = self.of(op.value), self.layout.g, self.layout.w
        lanes = op.lanes or 1
        per_lane = lanes // g
        kind = kind_of(fmt)
        identity = self.constant(fmt, op.identity)
        partial = [[b.variable(kind, identity) for _ in range(per_lane)] for _ in range(rows.blocks)]

        def combine(x: Value, y: Value) -> Value:
            return self.instruction(f"max.sel.{fmt.name}" if op.combine == "max" else op.combine, x, y)

        def body(at: int | Value, count: int) -> None:
            codes = self.chunk(op.value, rows.blocks, at, count)
            for block in range(rows.blocks):
                current = [v.load() for v in partial[block]]
                for i, code in enumerate(codes[block]):
                    current[i % per_lane] = combine(current[i % per_lane], code)
                for variable, value in zip(partial[block], current, strict=True):
                    variable.store(value)

        self.each_chunk(rows, body, multiple=per_lane)
        if rows.columns == 1 and g > 1:
            raise NotImplementedError("a reduction over one column that lanes share")
        out = []
        for block in range(rows.blocks):
            parts = [v.load() for v in partial[block]]
            m = lanes // 2
            while m >= 1:  # p[i] = op(p[i], p[i ^ m]), lower index first
                if m >= g * w:
                    half = m // g
                    parts = [combine(parts[i], parts[i + half]) for i in range(half)]
                elif m >= w and g > 1:
                    step = m // w
                    low = (self.q & step).eq(0)
                    other = [b.shuffle_xor(p, step) for p in parts]
                    parts = [
                        combine(b.select(low, p, o), b.select(low, o, p)) for p, o in zip(parts, other, strict=True)
                    ]
                else:
                    parts = [combine(parts[i], parts[i + m]) for i in range(m)]
                m //= 2
            out.append([parts[0]])
        self.tiles[op.result] = Held(out)

    # ---- carried tiles, the whole shader ---------------------------------------------------------------------

    def tile_slot(self, value: tp.Value, loop: tp.For | None, position: int) -> Carried:
        contract = None if loop is None else self.uses.accumulates(loop, position)
        # a loop without a trip leaves the code as it is
        runs = loop is not None and self.facts.runs[loop]
        if contract is not None and runs and self.of(value).registers <= self.held_limit:
            return registers_contract.Fragment(self, contract)
        return RegisterSlot(self, value)

    def emit(self) -> Shader:
        self.block(self.program.body)
        layout, cuts = self.layout, ", ".join(str(size) for size in self.plan.cuts.values())
        return Shader(
            code=self.b.module(),
            bindings=tuple(self.bindings),
            parameters=tuple(self.offsets),
            push_words=self.push_words,
            units=self.plan.units,
            units_per_group=self.units_per_group,
            subgroup_size=layout.lanes if self.target.required_subgroup_size else None,
            scratch_words=0,
            trips=self.counter.root,
            counts=self.spent is not None,
            description=f"{self.units_per_group} units of {layout.lanes} lanes per workgroup, "
            f"{layout.g} lanes per row, {self.plan.units} units per CTA"
            f"{f' (slabs of {cuts})' if cuts else ''}, tiles in registers",
        )


class RegisterSlot(Carried):
    """A carried tile: one Function variable per register, or a per-invocation array."""

    def __init__(self, emitter: RegistersEmitter, value: tp.Value) -> None:
        self.emitter, self.value = emitter, value
        self.rows = emitter.of(value)
        self.kind = kind_of(value.element)
        b = emitter.b
        self.held = self.rows.registers <= emitter.held_limit
        if self.held:
            self.variables = [
                [b.variable(self.kind) for _ in range(self.rows.registers)] for _ in range(self.rows.blocks)
            ]
        else:
            self.array = emitter.new_array(value)
            emitter.carried_arrays.append(self.array)

    def prepare(self, value: tp.Value) -> Callable[[], None]:
        e, rows = self.emitter, self.rows
        if self.held:
            codes = e.chunk(value, rows.blocks, 0, rows.registers)

            def commit() -> None:
                for variables, block in zip(self.variables, codes, strict=True):
                    for variable, code in zip(variables, block, strict=True):
                        variable.store(code)

            return commit
        tile = e.tiles[value]
        if tile is self.array:
            return lambda: None
        if not isinstance(tile, ArrayTile) or any(tile is c for c in e.carried_arrays):
            # read before any slot changes
            tile = e.store_array(value, tile)
        source = tile

        def copy() -> None:
            e.store_array(self.value, source, self.array)

        return copy

    def enter(self, argument: tp.Value) -> None:
        if self.held:
            self.emitter.tiles[argument] = Held([[v.load() for v in block] for block in self.variables])
        else:
            self.emitter.tiles[argument] = self.array
