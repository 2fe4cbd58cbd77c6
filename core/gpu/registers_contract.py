"""Contractions of the register mapping: every lane owns rows of the result, b's elements come by shuffle.

a: a lane reads its own row. b of `dot` ([K, N]): lane l holds row k = l of a block, so b[k, n] is the value of
register n in lane k. b of `dot_t` ([N, K]): lane l holds row n = l, so b[k, n] is register k in lane n. Operands are
decoded once by the lane that loaded them, before they travel. Slices that only feed contractions are never tiles:
they are read inside the loop over k. k is ascending in every case, so no shape of this loop changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..spirv.builder import DONT_UNROLL, Value, Variable
from ..tile import program as tp
from .emitter import Carried
from .registers_tiles import ArrayTile, Held, LoadTile, Tile, Turning
from .sm86 import chains
from .uses import core_of

if TYPE_CHECKING:
    from .registers import RegistersEmitter

MIN_CHUNK = 8
LONE_ROW_OUTPUTS = 16  # accumulators per pass where a lane has one row: more operands than that travel in vain
Operand = tuple[Value, ...]
State = list[list[list[Variable]]]  # [row block][column][part of the core's state]


def emit(e: RegistersEmitter, op: tp.Contract) -> None:
    """out[i, j] = chain over ascending k of a[i, k] * b[k, j], from seed[i, j]."""
    fragment = e.fragments.get(op.seed)
    if fragment is not None:
        fragment.advance()
        return
    chain = Chain(e, op)
    rows = e.of(op.result)
    step = chain.columns
    if rows.registers <= e.held_limit:
        e.tiles[op.result] = chain.passes() if chain.turns else chain.unrolled()
        return
    target = _array(e, op)
    if not chain.walks_columns:
        for n0 in range(0, rows.registers, step):
            for block, codes in enumerate(chain.outputs(n0)):
                target.store(block, n0, codes)
        e.tiles[op.result] = target
        return

    def body(i: Value) -> None:
        n0 = i * step
        for block, codes in enumerate(chain.outputs(n0)):
            target.store(block, n0, codes)

    with e.counter.loop(rows.registers // step):
        e.b.loop(rows.registers // step, body, DONT_UNROLL)
    e.tiles[op.result] = target


def _array(e: RegistersEmitter, op: tp.Contract) -> ArrayTile:
    """The carried array that the result replaces, where each chunk may overwrite its own seed; else a new one."""
    argument = e.uses.in_place(op.result)
    carried = e.tiles.get(argument) if argument is not None else None
    if isinstance(carried, ArrayTile) and argument not in (op.a, op.b):
        return carried
    return e.new_array(op.result)


class Fragment(Carried):
    """An accumulator that a loop's contraction alone touches stays in the core's own state (phobos-language.md C.4)."""

    def __init__(self, e: RegistersEmitter, op: tp.Contract) -> None:
        self.e, self.op = e, op
        self.core = core_of(e.job, e.uses, op)
        self.rows = e.of(op.result)
        kinds = [part.kind for part in self.core.seed(e.b, e.zero_of(op.seed.element))]
        self.state: State = [
            [[e.b.variable(kind) for kind in kinds] for _ in range(self.rows.registers)]
            for _ in range(self.rows.blocks)
        ]

    def prepare(self, value: tp.Value) -> Callable[[], None]:
        e = self.e
        if e.fragments.get(value) is self:
            return lambda: None
        codes = e.chunk(value, self.rows.blocks, 0, self.rows.registers)

        def commit() -> None:
            for variables, block in zip(self.state, codes, strict=True):
                for parts, code in zip(variables, block, strict=True):
                    _store(parts, self.core.seed(e.b, code))

        return commit

    def enter(self, argument: tp.Value) -> None:
        e = self.e
        if argument is self.op.seed:
            e.fragments[argument] = self
        else:
            e.tiles[argument] = Held([[self.core.result(e.b, _load(parts)) for parts in block] for block in self.state])

    def advance(self) -> None:
        """One contraction of the loop's body."""
        chain = Chain(self.e, self.op)
        for n0 in range(0, self.rows.registers, chain.columns):
            chain.advance([block[n0 : n0 + chain.columns] for block in self.state], n0)
        self.e.fragments[self.op.result] = self


class Chain:
    """One contraction: its core, its operands and the blocking of its loops."""

    def __init__(self, e: RegistersEmitter, op: tp.Contract) -> None:
        self.e, self.op, self.lanes = e, op, e.layout.lanes
        self.a, self.b = e.tiles[op.a], e.tiles[op.b]
        self.rows = e.of(op.result)
        self.depth = e.of(op.a).columns
        self.core = core_of(e.job, e.uses, op)
        self.columns = self._columns()
        self.chunk = self._chunk()

    def _columns(self) -> int:
        """Columns per pass: the accumulators that pay; for dot_t whole row blocks of b where it has them."""
        n, blocks = self.rows.registers, self.rows.blocks
        outputs = min(self.core.outputs, LONE_ROW_OUTPUTS) if blocks == 1 else self.core.outputs
        wanted = max(1, outputs // blocks)
        if self.op.transposed and n > self.lanes:
            wanted = max(wanted, self.lanes)
        step = self.lanes if self.op.transposed and n > self.lanes and n % self.lanes == 0 else 1
        return next(c for c in range(min(n, wanted), 0, -1) if n % c == 0 and c % step == 0)

    @property
    def walks_columns(self) -> bool:
        """Whether a loop may walk the passes: in dot_t their columns must be whole row blocks of b."""
        return not self.op.transposed or self.columns % self.lanes == 0

    def _chunk(self) -> int:
        """k's per trip: whole steps of the core and whole row blocks of b; a wider body only fills the code caches."""
        return max(self.core.width, MIN_CHUNK if self.op.transposed else self.lanes)

    @property
    def turns(self) -> bool:
        """Whether one loop makes all passes over held columns, so that a pass is written out once."""
        return self.rows.registers > self.columns and self.walks_columns and _walks(self.b)

    def passes(self) -> Held:
        """All columns, in a loop that finds the seeds of its pass at the front and puts results at the end."""
        e, n = self.e, self.rows.registers
        seeds = e.chunk(self.op.seed, self.rows.blocks, 0, n)
        variables = [[e.b.variable(code.kind, code) for code in block] for block in seeds]

        def body(i: Value) -> None:
            codes = [[variable.load() for variable in block] for block in variables]
            after = self.results([block[: self.columns] for block in codes], i * self.columns)
            for block, old, new in zip(variables, codes, after, strict=True):
                for variable, code in zip(block, [*old[self.columns :], *new], strict=True):
                    variable.store(code)

        with e.counter.loop(n // self.columns):
            e.b.loop(n // self.columns, body, DONT_UNROLL)
        return Held([[variable.load() for variable in block] for block in variables])

    def unrolled(self) -> Held:
        """All columns, pass by pass."""
        out: list[list[Value]] = [[] for _ in range(self.rows.blocks)]
        for n0 in range(0, self.rows.registers, self.columns):
            for block, codes in zip(out, self.outputs(n0), strict=True):
                block += codes
        return Held(out)

    def outputs(self, n0: int | Value) -> list[list[Value]]:
        """Result codes of columns [n0, n0 + columns) in every row block."""
        return self.results(self.e.chunk(self.op.seed, self.rows.blocks, n0, self.columns), n0)

    def results(self, seeds: list[list[Value]], n0: int | Value) -> list[list[Value]]:
        """The same from their seeds."""
        core, b = self.core, self.e.b
        states = [[core.seed(b, code) for code in block] for block in seeds]
        if self._trips():
            kept: State = [[[b.variable(part.kind, part) for part in state] for state in block] for block in states]
            self.advance(kept, n0)
            states = [[_load(parts) for parts in block] for block in kept]
        else:
            states = self._straight(states, n0, 0)
        return [[core.result(b, state) for state in block] for block in states]

    def _trips(self) -> int:
        """Trips of a loop over k, 0 where none pays or an operand cannot be read at an index that the shader knows."""
        trips = self.depth // self.chunk
        return trips if trips > 1 and (_walks(self.a) or isinstance(self.a, Held)) and _walks(self.b) else 0

    def advance(self, kept: State, n0: int | Value) -> None:
        """Takes the accumulators of columns [n0, n0 + columns), in variables, over all of k."""

        def trip(step: Callable[[list[list[Operand]]], list[list[Operand]]]) -> None:
            after = step([[_load(parts) for parts in block] for block in kept])
            for variables, values in zip(kept, after, strict=True):
                for parts, state in zip(variables, values, strict=True):
                    _store(parts, state)

        trips = self._trips()
        if trips:
            turning = Turning(self.e.b, self.a.values, self.chunk) if isinstance(self.a, Held) else None

            def body(i: Value) -> None:
                trip(lambda states: self._step(states, i * self.chunk, n0, self.chunk, turning))
                if turning is not None:
                    turning.turn()

            with self.e.counter.loop(trips):
                self.e.b.loop(trips, body, DONT_UNROLL)
        if trips * self.chunk < self.depth:
            trip(lambda states: self._straight(states, n0, trips * self.chunk))

    def _straight(self, states: list[list[Operand]], n0: int | Value, first: int) -> list[list[Operand]]:
        for k0 in range(first, self.depth, self.chunk):
            states = self._step(states, k0, n0, min(self.chunk, self.depth - k0))
        return states

    def _step(
        self, states: list[list[Operand]], k0: int | Value, n0: int | Value, count: int, turning: Turning | None = None
    ) -> list[list[Operand]]:
        """Advances all accumulators by `count` k's from k0."""
        e, core = self.e, self.core
        blocks = range(self.rows.blocks)
        a = [_operands(e, core, turning or self.a, block, k0, count, side=0) for block in blocks]
        held = self._load_b(k0, n0, count)
        for g in range(0, count, core.width):
            ks = range(g, g + core.width)
            for n in range(self.columns):
                w = [self._travel(held, k, n) for k in ks]
                for block in blocks:
                    states[block][n] = core.step(e.b, states[block][n], [a[block][k] for k in ks], w)
        return states

    def _load_b(self, k0: int | Value, n0: int | Value, count: int) -> list[list[Operand]]:
        """The row blocks of b that this trip needs, decoded, as each lane holds them."""
        e, lanes = self.e, self.lanes
        row0, rows = (n0, self.columns) if self.op.transposed else (k0, count)
        at, run = (k0, count) if self.op.transposed else (n0, self.columns)
        first = row0 // lanes if isinstance(row0, int) else row0 >> (lanes.bit_length() - 1)
        self.row_shift = row0 % lanes if isinstance(row0, int) else 0
        blocks = range(-(-(self.row_shift + rows) // lanes))
        return [_operands(e, self.core, self.b, first + j if j else first, at, run, side=1) for j in blocks]

    def _travel(self, held: list[list[Operand]], k: int, n: int) -> Operand:
        """b[k, n] for every lane, from the lane that holds it."""
        e = self.e
        row, register = (n, k) if self.op.transposed else (k, n)
        row += self.row_shift
        operand = held[row // self.lanes][register]
        if e.of(self.op.b).rows == 1:
            return operand
        lane = e.lane_number(row % self.lanes)
        return tuple(e.b.shuffle(part, lane) for part in operand)


def _operands(
    e: RegistersEmitter, core: chains.Core, tile: Tile, block: int | Value, at: int | Value, count: int, side: int
) -> list[Operand]:
    """Decoded operands of consecutive registers; packed words are decoded as words."""
    words = tile.words(block, at, count) if isinstance(tile, LoadTile) else None
    if words is None:
        return [core.operand(e.b, code, side) for code in tile.block(block, at, count)]
    return [operand for word in words for operand in core.operands_of_word(e.b, word, side)]


def _walks(tile: Tile) -> bool:
    return isinstance(tile, LoadTile | ArrayTile)


def _load(parts: list[Variable]) -> Operand:
    return tuple(variable.load() for variable in parts)


def _store(parts: list[Variable], state: Operand) -> None:
    for variable, value in zip(parts, state, strict=True):
        variable.store(value)
