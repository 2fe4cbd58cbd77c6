"""Contractions of the register mapping: every lane owns rows of the result, b's elements come by shuffle.

a: a lane reads its own row. b of `dot` ([K, N]): lane l holds row k = l of a block, so b[k, n] is the value of
register n in lane k. b of `dot_t` ([N, K]): lane l holds row n = l, so b[k, n] is register k in lane n. Operands are
decoded once by the lane that loaded them, before they travel. Slices that only feed contractions are never tiles:
they are read inside the loop over k. k is ascending in every case, so no shape of this loop changes a bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import isa
from ..spirv.builder import DONT_UNROLL, Value, Variable
from ..tile import program as tp
from .registers_tiles import ArrayTile, Held, LoadTile, Tile
from .sm86 import chains

if TYPE_CHECKING:
    from .registers import RegistersEmitter

OUTPUTS = 16  # accumulators per lane and pass over k: more only grows the loop body (spirv-notes.md section 4.8)
Operand = tuple[Value, ...]


def emit(e: RegistersEmitter, op: tp.Contract) -> None:
    """out[i, j] = chain over ascending k of a[i, k] * b[k, j], from seed[i, j]."""
    chain = _Chain(e, op)
    rows = e.of(op.result)
    step = chain.columns
    if rows.registers <= e.held_limit:
        out: list[list[Value]] = [[] for _ in range(rows.blocks)]
        for n0 in range(0, rows.registers, step):
            for block, codes in zip(out, chain.outputs(n0), strict=True):
                block += codes
        e.tiles[op.result] = Held(out)
        return
    target = _array(e, op)

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


class _Chain:
    """One contraction: its core, its operands and the blocking of its loops."""

    def __init__(self, e: RegistersEmitter, op: tp.Contract) -> None:
        self.e, self.op, self.lanes = e, op, e.layout.lanes
        self.a, self.b = e.tiles[op.a], e.tiles[op.b]
        self.rows = e.of(op.result)
        self.depth = e.of(op.a).columns
        self.core = chains.core(
            isa.lookup(op.instruction),
            e.job.arch,
            e.target,
            a_exact16=e.uses.is_f16(op.a),
            b_exact16=e.uses.is_f16(op.b),
        )
        self.columns = self._columns()
        self.chunk = self._chunk()

    def _columns(self) -> int:
        """Columns per pass: `OUTPUTS` accumulators; for dot_t whole row blocks of b where it has them."""
        n, wanted = self.rows.registers, max(1, OUTPUTS // self.rows.blocks)
        if self.op.transposed and n > self.lanes:
            wanted = max(wanted, self.lanes)
        step = self.lanes if self.op.transposed and n > self.lanes and n % self.lanes == 0 else 1
        return next(c for c in range(min(n, wanted), 0, -1) if n % c == 0 and c % step == 0)

    def _chunk(self) -> int:
        """k's per trip: whole steps of the core and whole row blocks of b, 16 where that divides."""
        unit = self.core.width if self.op.transposed else max(self.core.width, self.lanes)
        wanted = max(unit, 16)
        return wanted if self.depth % wanted == 0 else unit if self.depth % unit == 0 else self.depth

    def outputs(self, n0: int | Value) -> list[list[Value]]:
        """Result codes of columns [n0, n0 + columns) in every row block."""
        e, core, b = self.e, self.core, self.e.b
        seeds = e.chunk(self.op.seed, self.rows.blocks, n0, self.columns)
        states = [[core.seed(b, code) for code in block] for block in seeds]
        if self.depth > self.chunk and self.depth % self.chunk == 0 and _walks(self.a) and _walks(self.b):
            states = self._loop(states, n0)
        else:
            for k0 in range(0, self.depth, self.chunk):
                states = self._step(states, k0, n0, min(self.chunk, self.depth - k0))
        return [[core.result(b, state) for state in block] for block in states]

    def _loop(self, states: list[list[Operand]], n0: int | Value) -> list[list[Operand]]:
        b = self.e.b
        kept: list[list[list[Variable]]] = [
            [[b.variable(part.kind, part) for part in state] for state in block] for block in states
        ]

        def body(i: Value) -> None:
            before = [[tuple(v.load() for v in state) for state in block] for block in kept]
            after = self._step(before, i * self.chunk, n0, self.chunk)
            for variables, values in zip(kept, after, strict=True):
                for state, new in zip(variables, values, strict=True):
                    for variable, value in zip(state, new, strict=True):
                        variable.store(value)

        with self.e.counter.loop(self.depth // self.chunk):
            b.loop(self.depth // self.chunk, body, DONT_UNROLL)
        return [[tuple(v.load() for v in state) for state in block] for block in kept]

    def _step(self, states: list[list[Operand]], k0: int | Value, n0: int | Value, count: int) -> list[list[Operand]]:
        """Advances all accumulators by `count` k's from k0."""
        e, core = self.e, self.core
        blocks = range(self.rows.blocks)
        a = [_operands(e, core, self.a, block, k0, count, side=0) for block in blocks]
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
