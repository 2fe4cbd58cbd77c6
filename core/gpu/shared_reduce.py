"""Reductions of the workgroup mapping, in the orders that phobos-language.md D.6 and E.2 prescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..formats import Format
from ..spirv.builder import Value
from ..tile import program as tp
from .emitter import kind_of

if TYPE_CHECKING:
    from .shared import Coordinates, SharedEmitter


def combine(e: SharedEmitter, key: str, fmt: Format, x: Value, y: Value) -> Value:
    """One step of a fold: an instruction, or the language's max."""
    return e.instruction(f"max.sel.{fmt.name}" if key == "max" else key, x, y)


def reduce(e: SharedEmitter, op: tp.Reduce) -> None:
    """[R, C] -> [R, 1]: L strided partial results per row in parallel, then a fold by one invocation per row."""
    b, fmt = e.b, op.value.element
    rows, columns = op.value.shape
    lanes = op.lanes or 1
    e.materialise(op.value)
    partial = e.allocate(fmt, rows * lanes)

    def strided(i: Value) -> None:
        row, lane = i // lanes, i % lanes
        total = b.variable(kind_of(fmt), e.constant(fmt, op.identity))

        def step(j: Value) -> None:
            column = lane + j * lanes
            before = total.load()
            if columns % lanes == 0:
                total.store(combine(e, op.combine, fmt, before, e.tiles[op.value].at((row, column))))
                return
            inside = column < columns
            item = e.tiles[op.value].at((row, b.select(inside, column, b.u32(0))))
            total.store(b.select(inside, combine(e, op.combine, fmt, before, item), before))

        e.serial(-(-columns // lanes), step)
        e.write_slot(partial, fmt, i, total.load())

    e.parallel(rows * lanes, strided)

    def fold(row: Value) -> Value:
        parts = [e.read_slot(partial, fmt, row * lanes + i) for i in range(lanes)]
        while len(parts) > 1:  # p[i] = op(p[i], p[i ^ m]) for m = L/2 .. 1: only the lower halves reach p[0]
            half = len(parts) // 2
            parts = [combine(e, op.combine, fmt, parts[i], parts[i + half]) for i in range(half)]
        return parts[0]

    e.define(op.result, lambda at: fold(at[0]), lazy=False)
    e.free.append(partial)


def argmax(e: SharedEmitter, op: tp.ArgMax) -> None:
    """[R, C] -> [R, 1]: one invocation walks a row; the first of the largest wins."""
    b, fmt = e.b, op.value.element
    e.materialise(op.value)
    source = e.tiles[op.value]

    def row(at: Coordinates) -> Value:
        best = b.variable(kind_of(fmt), source.at((at[0], b.u32(0))))
        where = b.variable("u32", 0)

        def step(j: Value) -> None:
            item, before = source.at((at[0], j)), best.load()
            larger = e.instruction(f"setp.gt.{fmt.name}", item, before)
            best.store(b.select(larger, item, before))
            where.store(b.select(larger, j, where.load()))

        e.serial(op.value.shape[1], step)
        return where.load()

    e.define(op.result, row, lazy=False)


def scan(e: SharedEmitter, op: tp.Scan) -> None:
    """Prefix sums down the rows, one invocation per column."""
    b, fmt = e.b, op.value.element
    rows, columns = op.value.shape
    e.materialise(op.value)
    slot = e.allocate(fmt, op.result.type.size)

    def column(c: Value) -> None:
        total = b.variable(kind_of(fmt), e.constant(fmt, 0))

        def step(r: Value) -> None:
            following = combine(e, op.combine, fmt, total.load(), e.tiles[op.value].at((r, c)))
            total.store(following)
            e.write_slot(slot, fmt, r * columns + c, following)

        e.serial(rows, step)

    e.parallel(columns, column)
    e.bind_slot(op.result, slot)
