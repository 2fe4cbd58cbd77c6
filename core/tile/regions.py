"""From a tile program to units of work: how a CTA is cut, and which lane of a unit holds which element.

The register mapping serves one unit by one subgroup. A *layout* (g lanes per row, W consecutive columns per lane) puts
column c of row r on lane q = (c / W) % g of the row's group, register (c / (g W)) W + c % W; rows fill the lane groups
in order. g = 1 is lane = row, which contractions need: the a operand and the result of a lane's row are its own, and b
travels by shuffles. A reduction with L strided partial results admits exactly the layouts with g = 1, or g W dividing
L, so that every partial is summed by one lane in ascending order (tile-lowering.md A7 rule 1).

Bits never depend on a layout: whatever `plan` returns, each element is computed by the same chain of instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .order import out_of_order
from .partition import Axis, Classes, classes, memory_allows
from .program import (
    ArgMax,
    Contract,
    Extract,
    Gather,
    GridBarrier,
    Insert,
    Load,
    Op,
    Program,
    Reduce,
    Reshape,
    Scan,
    Store,
    Transpose,
    Value,
    walk,
)

UNSUPPORTED = (ArgMax, Scan, Transpose, Reshape, Extract, Insert, Gather, GridBarrier)
MAX_REGISTERS = 512  # per lane and tile, beyond which tiles belong in memory
WIDEST = 8
MOST_BLOCKS = 4  # row blocks of a lane; what is left of its outputs are columns, which use its loads of a again


class NoMapping(Exception):
    """A program that the register mapping cannot hold; the message says why."""


@dataclass(frozen=True)
class Layout:
    """lanes: subgroup size. g: lanes per row. w: consecutive columns per lane."""

    lanes: int
    g: int
    w: int

    @property
    def rows_per_block(self) -> int:
        return self.lanes // self.g


@dataclass
class Plan:
    """How a program is served by units of one subgroup.

    cuts: axis class -> extent of a slab; slabs: how many slabs each class has, in the same order.
    """

    layout: Layout
    classes: Classes
    cuts: dict[Axis, int] = field(default_factory=dict)
    slabs: tuple[int, ...] = ()

    @property
    def units(self) -> int:
        n = 1
        for count in self.slabs:
            n *= count
        return n

    def shape(self, value: Value | Store, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A tile's (or store's) shape within a unit."""
        out = []
        for axis, extent in enumerate(shape):
            cls = self.classes.of(value, axis) if extent > 1 else None
            out.append(self.cuts.get(cls, extent) if cls is not None else extent)
        return tuple(out)

    def registers(self, value: Value) -> int:
        """Registers per lane of a tile, for each of its row blocks; and the row blocks."""
        rows, columns = matrix(self.shape(value, value.shape))
        return self.row_blocks(rows) * self.per_row(columns)

    def row_blocks(self, rows: int) -> int:
        return 1 if rows == 1 else -(-rows // self.layout.rows_per_block)

    def per_row(self, columns: int) -> int:
        return 1 if columns == 1 else columns // self.layout.g


def matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """A shape of rank 1 or 2 as (rows, columns)."""
    if len(shape) == 1:
        return 1, shape[0]
    return shape[0], shape[1]


def plan(program: Program, lanes: int, aliases: dict[str, str], outputs: int = 16) -> Plan:
    """The register plan of a program, or NoMapping with the reason.

    outputs: accumulators per lane that pay for its contraction's arithmetic on the device.
    """
    found = classes(program)
    ops = list(walk(program.body))
    for op in ops:
        if isinstance(op, UNSUPPORTED):
            raise NoMapping(f"{type(op).__name__} moves elements between lanes")
        for value in op.results:
            if len(value.shape) > 2:
                raise NoMapping(f"a tile of rank {len(value.shape)}")
    contracts = [op for op in ops if isinstance(op, Contract)]
    reduces = [op for op in ops if isinstance(op, Reduce)]
    allowed = _Allowed(program, found, aliases)
    unordered = out_of_order(program, aliases)
    if unordered:
        raise NoMapping(unordered)
    while contracts:
        try:
            result = _contraction_plan(found, lanes, contracts, reduces, allowed, outputs)
            _check_fit(result, ops)
            return result
        except NoMapping:
            if outputs <= WIDEST:
                raise
            outputs //= 2  # operands that are computed take registers too
    if reduces:
        result = _reduction_plan(found, lanes, reduces, allowed)
    else:
        result = _pointwise_plan(found, lanes, ops, allowed)
    _check_fit(result, ops)
    return result


class _Allowed:
    """Which classes may be cut."""

    def __init__(self, program: Program, found: Classes, aliases: dict[str, str]) -> None:
        self.program, self.found, self.aliases = program, found, aliases

    def __call__(self, axis: Axis | None) -> bool:
        if axis is None or not self.found.is_free(axis):
            return False
        return memory_allows(self.program, self.found, self.found.root(axis), self.aliases)


def _slab(extent: int, wanted: int, step: int) -> int:
    """The largest slab of at most `wanted` that divides the extent and is a multiple of `step`; the extent if none."""
    for size in range(min(wanted, extent), 0, -1):
        if extent % size == 0 and size % step == 0:
            return size
    return extent


def _classes(found: Classes, axes: list[tuple[Value, int]]) -> set[Axis]:
    return {cls for value, axis in axes if (cls := found.of(value, axis)) is not None}


def _finish(found: Classes, layout: Layout, cuts: dict[Axis, int]) -> Plan:
    real = {cls: size for cls, size in cuts.items() if size < found.extent[cls]}
    return Plan(layout, found, real, tuple(found.extent[cls] // size for cls, size in real.items()))


def _contraction_plan(
    found: Classes, lanes: int, contracts: list[Contract], reduces: list[Reduce], allowed: _Allowed, outputs: int
) -> Plan:
    """lane = row. A unit has 8 columns and as many row blocks as make up `outputs`, then more columns; one block where
    dots are many."""
    cuts: dict[Axis, int] = {}
    rows = _classes(found, [(c.result, 0) for c in contracts])
    columns = _classes(found, [(c.result, 1) for c in contracts])
    blocks = max(1, min(MOST_BLOCKS, outputs // WIDEST)) if len(contracts) == 1 else 1
    for cls in rows:
        if allowed(cls) and len(rows) == 1:
            cuts[cls] = _slab(found.extent[cls], blocks * lanes, lanes)
            blocks = max(1, cuts[cls] // lanes)
    for cls in columns:
        if allowed(cls) and len(columns) == 1 and not reduces:
            cuts[cls] = _slab(found.extent[cls], outputs // blocks, 1)
    return _finish(found, Layout(lanes, 1, WIDEST), cuts)


def _reduction_plan(found: Classes, lanes: int, reduces: list[Reduce], allowed: _Allowed) -> Plan:
    """Rows of a slab share the subgroup: as few lanes per row as fill it, as wide accesses as the partials allow."""
    serial = any(r.lanes is None for r in reduces)
    partials = min((r.lanes for r in reduces if r.lanes), default=1)
    rows = max(r.value.shape[0] for r in reduces)
    columns = {r.value.shape[1] for r in reduces}
    g = 1
    if not serial:
        while g * rows < lanes and g * 2 <= min(partials, lanes):
            g *= 2
    w = WIDEST
    while w > 1 and g > 1 and partials % (g * w):
        w //= 2
    if serial:
        w = 1
    while w == WIDEST and g < lanes and g * 2 * w <= partials and not serial:
        g *= 2
    while w > 1 and any(c % (g * w) for c in columns):
        w //= 2
    if any(c % (g * w) for c in columns):
        raise NoMapping(f"rows of {sorted(columns)} columns do not divide over {g} lanes")
    cuts: dict[Axis, int] = {}
    for cls in _classes(found, [(r.value, 0) for r in reduces]):
        if allowed(cls):
            cuts[cls] = _slab(found.extent[cls], lanes // g, 1)
    return _finish(found, Layout(lanes, g, w), cuts)


def _pointwise_plan(found: Classes, lanes: int, ops: list[Op], allowed: _Allowed) -> Plan:
    """All lanes share a row; slabs are one access wide where the last axis may be cut."""
    last: dict[Axis, int] = {}
    first: dict[Axis, int] = {}
    for op in ops:
        for value in op.results:
            if not value.shape:
                continue
            cls = found.of(value, len(value.shape) - 1)
            if cls is not None:
                last[cls] = value.shape[-1]
            row = found.of(value, 0) if len(value.shape) == 2 else None
            if row is not None:
                first[row] = value.shape[0]
    columns = set(last.values())
    g, w = lanes, WIDEST
    while w > 1 and any(c % (g * w) for c in columns):
        w //= 2
    while g > 1 and any(c % (g * w) for c in columns):
        g //= 2
    if any(c % (g * w) for c in columns):
        raise NoMapping(f"rows of {sorted(columns)} columns do not divide over lanes")
    cuts: dict[Axis, int] = {}
    if len(last) == 1 and not set(last) & set(first):
        for cls, extent in last.items():
            if allowed(cls):
                cuts[cls] = _slab(extent, g * w, g * w)
    for cls in first:
        if cls not in last and allowed(cls):
            cuts[cls] = _slab(found.extent[cls], max(1, lanes // g), 1)
    return _finish(found, Layout(lanes, g, w), cuts)


def _check_fit(result: Plan, ops: list[Op]) -> None:
    for op in ops:
        for value in op.results:
            if value.shape == () or isinstance(op, Load):
                continue
            _, columns = matrix(result.shape(value, value.shape))
            if columns > 1 and columns % (result.layout.g * (result.layout.w if result.layout.g > 1 else 1)):
                raise NoMapping(f"{columns} columns do not divide over the lanes")
            if result.registers(value) > MAX_REGISTERS:
                raise NoMapping(f"a tile takes {result.registers(value)} registers per lane")
