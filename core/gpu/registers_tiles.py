"""Tiles of the register mapping: where a lane finds the registers of a row block.

`block(block, at, count)` gives the codes of `count` consecutive registers. A held tile is indexed by Python ints
only; the others also by shader values, so that loops may walk them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..spirv.builder import Array, Builder, Value
from ..tile import program as tp

if TYPE_CHECKING:
    from .registers import RegistersEmitter

WIDE = 64  # elements; alignment beyond this serves no access


@dataclass(frozen=True)
class Rows:
    """A tile within a unit: its extents, and the row blocks and registers per row that each lane has of it."""

    rows: int
    columns: int
    blocks: int
    registers: int


class Tile(Protocol):
    def block(self, block: int | Value, at: int | Value, count: int) -> list[Value]:
        """Codes of `count` registers from `at` in one row block."""
        ...


@dataclass(frozen=True)
class Held:
    """SSA values, [row block][register]."""

    values: Sequence[Sequence[Value]]

    def block(self, block: int | Value, at: int | Value, count: int) -> list[Value]:
        assert isinstance(block, int) and isinstance(at, int), "a held tile has no run-time index"
        return list(self.values[block][at : at + count])


class Turning:
    """A held tile that a loop walks: its trips find their `step` registers always at the front.

    Moving values from variable to variable costs less than an array that is indexed at run time, and the loop's body is
    a fraction of the unrolled code (tile-lowering.md A4).
    """

    def __init__(self, b: Builder, values: Sequence[Sequence[Value]], step: int) -> None:
        self.variables = [[b.variable(value.kind, value) for value in block] for block in values]
        self.step = step

    def block(self, block: int | Value, at: int | Value, count: int) -> list[Value]:
        assert isinstance(block, int) and count == self.step
        return [variable.load() for variable in self.variables[block][:count]]

    def turn(self) -> None:
        """For the next trip."""
        for variables in self.variables:
            for variable, value in zip(variables, [later.load() for later in variables[self.step :]]):
                variable.store(value)


@dataclass(frozen=True)
class Column:
    """One code per row block, whatever the register: scalars."""

    of: Callable[[int | Value], Value]

    def block(self, block: int | Value, at: int | Value, count: int) -> list[Value]:
        return [self.of(block)] * count


class Lazy:
    """An expression over chunks of all row blocks, evaluated where its one reader stands."""

    def __init__(self, rows: Rows, compute: Callable[[int | Value, int], list[list[Value]]]) -> None:
        self.rows, self.compute = rows, compute
        self._last: tuple[object, int, list[list[Value]]] | None = None

    def block(self, block: int | Value, at: int | Value, count: int) -> list[Value]:
        assert isinstance(block, int)
        last = self._last
        if last is None or last[0] is not at or last[1] != count:
            last = self._last = (at, count, self.compute(at, count))
        return last[2][block]


@dataclass(frozen=True)
class ArrayTile:
    """A per-invocation array."""

    b: Builder
    array: Array
    rows: Rows

    def _index(self, block: int | Value, at: int | Value) -> Value:
        if isinstance(block, int) and isinstance(at, int):
            return self.b.u32(block * self.rows.registers + at)
        b = self.b
        return b.coerce(block, "u32") * self.rows.registers + b.coerce(at, "u32")

    def block(self, block: int | Value, at: int | Value, count: int) -> list[Value]:
        if isinstance(block, int) and isinstance(at, int):
            return [self.array.load(self._index(block, at + i)) for i in range(count)]
        index = self._index(block, at)
        return [self.array.load(index + i if i else index) for i in range(count)]

    def store(self, block: int, at: int | Value, codes: Sequence[Value]) -> None:
        if isinstance(at, int):
            for i, code in enumerate(codes):
                self.array.store(self._index(block, at + i), code)
            return
        index = self._index(block, at)
        for i, code in enumerate(codes):
            self.array.store(index + i if i else index, code)


class LoadTile:
    """A slice of a tensor, read or written where it is needed, by the widest access; `maps` apply to its codes."""

    def __init__(self, emitter: RegistersEmitter, op: tp.Load | tp.Store, maps: tuple[str, ...] = ()) -> None:
        self.e, self.op, self.maps = emitter, op, maps
        shape = tuple(s for s in op.sizes if s is not None)
        owner = op.result if isinstance(op, tp.Load) else op
        self.rows = emitter.geometry(owner, shape) if shape else Rows(1, 1, 1, 1)
        self.tensor = emitter.tensor(op.tensor)
        kept = [i for i, size in enumerate(op.sizes) if size is not None]
        self.row_axis = kept[-2] if len(kept) > 1 else None
        self.column_axis = kept[-1] if kept else None
        self.offsets = {i: emitter.offset(owner, position, shape[position]) for position, i in enumerate(kept)}
        proved = all(emitter.facts.inside[op])
        contiguous = self.column_axis is None or self.column_axis == len(op.sizes) - 1
        self.direct = proved and contiguous
        run = WIDE if emitter.layout.g == 1 else emitter.layout.w
        cut = emitter.plan.shape(owner, shape)[-1] if shape else 1
        self.aligned = math.gcd(emitter.facts.aligned[op], cut if cut > 1 else WIDE, run)

    def mapped(self, key: str) -> LoadTile:
        return LoadTile(self.e, self.op, (*self.maps, key))

    # ---- addresses -------------------------------------------------------------------------------------------

    def _coordinates(self, row: Value, column: Value) -> list[Value]:
        """Tensor coordinates (index kind) of a row and a column of the unit's slice."""
        e, out = self.e, []
        for i, start in enumerate(self.op.starts):
            at = e.env[start]
            offset = self.offsets.get(i)
            if offset is not None:
                at = at + e.as_index(offset)
            if i == self.row_axis and self.rows.rows > 1:
                at = at + e.as_index(row)
            if i == self.column_axis and self.rows.columns > 1:
                at = at + e.as_index(column)
            out.append(at)
        return out

    def _index(self, row: Value, column: Value) -> Value:
        return self.e.locate(self.op, self.tensor, self._coordinates(row, column))[0]

    def _runs(self, at: int | Value, count: int) -> list[tuple[Value, int]]:
        """(first column, length) of the contiguous stretches that registers [at, at + count) cover."""
        e, w = self.e, self.e.layout.w
        if self.rows.columns == 1:
            return [(e.b.u32(0), 1)]
        if e.layout.g == 1:
            return [(e.column(at), count)]
        return [(e.column(at + i if i else at), w) for i in range(0, count, w)]

    # ---- reading ---------------------------------------------------------------------------------------------

    def block(self, block: int | Value, at: int | Value, count: int) -> list[Value]:
        row, out = self.e.row(self.rows, block), []
        for column, length in self._runs(at, count):
            if self.direct:
                out += self.tensor.load_run(
                    self._index(row, column), length, math.gcd(self.aligned, length), self.e.target
                )
            else:
                assert isinstance(self.op, tp.Load)
                for i in range(length):
                    out.append(self.e.read(self.op, self._coordinates(row, column + i if i else column)))
        for key in self.maps:
            out = [self.e.instruction(key, code) for code in out]
        return out

    def words(self, block: int | Value, at: int | Value, count: int) -> list[Value] | None:
        """The same registers as packed 32-bit words; None where they are not to be had so."""
        bits = self.tensor.bits
        if not self.direct or self.maps or bits >= 32 or self.rows.columns == 1 or self.e.layout.g > 1:
            return None
        width = self.tensor.widest_words(count, self.aligned, self.e.target)
        if not width:
            return None
        index = self._index(self.e.row(self.rows, block), self.e.column(at))
        return self.tensor.load_words(index, count * bits // 32, width)

    # ---- writing ---------------------------------------------------------------------------------------------

    def _owner(self, rows: Rows, block: int) -> Value | None:
        """The condition that this lane holds the element and no other lane does; None where that is so everywhere."""
        e, per = self.e, self.e.layout.rows_per_block
        owner: Value | None = None
        if rows.rows == 1 and per > 1:
            owner = e.row_in_block.eq(0)
        elif rows.rows > 1 and (block + 1) * per > rows.rows:
            owner = e.row_in_block < rows.rows - block * per
        if rows.columns == 1 and e.layout.g > 1:
            first = e.q.eq(0)
            owner = first if owner is None else owner & first
        return owner

    def write(self, rows: Rows, block: int, at: int | Value, codes: Sequence[Value]) -> None:
        e = self.e
        row, owner, position = e.row(rows, block), self._owner(rows, block), 0
        for column, length in self._runs(at, len(codes)):
            mine = codes[position : position + length]
            position += length
            if self.direct and owner is None:
                self.tensor.store_run(self._index(row, column), mine, math.gcd(self.aligned, length), e.target)
            elif self.direct and owner is not None:
                with e.b.if_(owner):
                    self.tensor.store_run(self._index(row, column), mine, math.gcd(self.aligned, length), e.target)
            else:
                assert isinstance(self.op, tp.Store)
                for i, code in enumerate(mine):
                    e.write(self.op, self._coordinates(row, column + i if i else column), code, owner)
