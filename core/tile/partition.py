"""Which axes of a CTA's tiles are independent, so that one CTA can be cut into units that never meet.

Two tile axes belong to one class when an operation walks them together: elementwise operands, a contraction's rows,
a loop's carried values. A class may be cut when no operation mixes elements along it: a contraction's k, a row
reduction's columns, a scan, a transposition of unknown use pin theirs. Cutting never changes a bit, since every
element is still computed by the same chain; it only says that its owner is another unit (tile-lowering.md A7 rule 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .order import accesses, same_window
from .program import (
    ArgMax,
    Broadcast,
    Contract,
    Extract,
    For,
    Gather,
    If,
    Insert,
    Iota,
    Load,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Scan,
    Store,
    Transpose,
    Value,
    While,
)

Axis = tuple[object, int]  # (value or store, axis)


@dataclass
class Classes:
    """Axis classes of a program: `of(value, axis)` is None for an axis of extent 1."""

    parent: dict[Axis, Axis] = field(default_factory=dict)
    extent: dict[Axis, int] = field(default_factory=dict)
    pinned: set[Axis] = field(default_factory=set)

    def root(self, axis: Axis) -> Axis:
        while self.parent.get(axis, axis) != axis:
            axis = self.parent[axis]
        return axis

    def of(self, value: Value | Store, axis: int) -> Axis | None:
        shape = _shape(value)
        if shape[axis] == 1:
            return None
        found = self.root((value, axis))
        self.extent[found] = shape[axis]
        return found

    def unite(self, a: Axis | None, b: Axis | None) -> None:
        if a is None or b is None:
            return
        a, b = self.root(a), self.root(b)
        if a != b:
            self.parent[b] = a
            if b in self.pinned:
                self.pinned.add(a)

    def pin(self, axis: Axis | None) -> None:
        if axis is not None:
            self.pinned.add(self.root(axis))

    def is_free(self, axis: Axis | None) -> bool:
        return axis is not None and self.root(axis) not in self.pinned


def classes(program: Program) -> Classes:
    """Unites the axes that operations walk together and pins those that they mix.

    A class that has both axes of a tile is pinned as well: its slabs would be the blocks on the diagonal alone.
    """
    found = Classes()
    for op in program.ops:
        _visit(found, op)
    for op in program.ops:
        stores = (op,) if isinstance(op, Store) else ()
        arguments = [argument for block in op.blocks for argument in block.arguments]
        for owner in (*stores, *op.results, *arguments):
            axes = [found.of(owner, axis) for axis in range(len(_shape(owner)))]
            for axis in axes:
                if axes.count(axis) > 1:
                    found.pin(axis)
    return found


def _shape(owner: Value | Store) -> tuple[int, ...]:
    return owner.shape if isinstance(owner, Value) else tuple(size for size in owner.sizes if size is not None)


def _pointwise(c: Classes, result: Value, args: Iterable[Value]) -> None:
    for arg in args:
        if arg.shape == ():
            continue
        for axis in range(len(result.shape)):
            c.unite(c.of(result, axis), c.of(arg, axis))


def _pin_all(c: Classes, *values: Value) -> None:
    for value in values:
        for axis in range(len(value.shape)):
            c.pin(c.of(value, axis))


def _visit(c: Classes, op: Op) -> None:
    match op:
        case Map(result=result, args=args):
            _pointwise(c, result, args)
        case Broadcast(result=result, value=value):
            _pointwise(c, result, (value,))
        case Store(value=value):
            for axis in range(len(value.shape)):
                c.unite(c.of(op, axis), c.of(value, axis))
        case Contract(result=result, a=a, b=b, seed=seed, transposed=transposed):
            k_axis = 1 if transposed else 0
            _pointwise(c, result, (seed,))
            c.unite(c.of(result, 0), c.of(a, 0))
            c.unite(c.of(result, 1), c.of(b, 1 - k_axis))
            c.unite(c.of(a, 1), c.of(b, k_axis))
            c.pin(c.of(a, 1))
            c.pin(c.of(b, k_axis))
        case Reduce(result=result, value=value) | ArgMax(result=result, value=value):
            c.unite(c.of(result, 0), c.of(value, 0))
            c.pin(c.of(value, 1))
        case Scan(result=result, value=value):
            _pointwise(c, result, (value,))
            c.pin(c.of(value, 0))
        case Transpose(result=result, value=value):
            c.unite(c.of(result, 0), c.of(value, 1))
            c.unite(c.of(result, 1), c.of(value, 0))
        case Reshape(result=result, value=value):
            _pin_all(c, result, value)
        case Extract(result=result, value=value):
            _pin_all(c, result, value)
        case Insert(result=result, into=into, value=value):
            _pin_all(c, result, into, value)
        case Gather(result=result, table=table, index=index):
            _pointwise(c, result, (index,))
            _pin_all(c, table)
        case For(inits=inits, body=body, outs=outs):
            for init, argument, following, out in zip(inits, body.arguments[1:], body.yields, outs, strict=True):
                for other in (init, argument, following):
                    _pointwise(c, out, (other,))
        case While(inits=inits, condition=condition, body=body, outs=outs):
            groups = zip(inits, condition.arguments, body.arguments, body.yields, outs, strict=True)
            for init, a, b, following, out in groups:
                for other in (init, a, b, following):
                    _pointwise(c, out, (other,))
        case If(then=then, orelse=orelse, outs=outs):
            for out, a, b in zip(outs, then.yields, orelse.yields, strict=True):
                _pointwise(c, out, (a, b))
        case Load() | Iota():
            pass


def memory_allows(program: Program, c: Classes, axis: Axis, aliases: dict[str, str]) -> bool:
    """Whether cutting a class keeps the order of effects within a CTA (tile.order rule 3).

    All accesses to one window of an array that the program writes must be cut along the class on the same tensor axis;
    then each unit meets only its own elements. A window that the class does not cut may be stored by every unit, since
    they store the same codes, but not read.
    """
    for ops in accesses(program, aliases).values():
        for i, op in enumerate(ops):
            for other in ops[: i + 1]:
                if not same_window(program, op, other):
                    continue
                cut = _cut(c, op, axis)
                if cut != _cut(c, other, axis) or (not cut and (isinstance(op, Load) or isinstance(other, Load))):
                    return False
    return True


def _cut(c: Classes, op: Load | Store, axis: Axis) -> tuple[int, ...]:
    """The tensor axes on which a class cuts a slice."""
    owner = op.result if isinstance(op, Load) else op
    kept = [i for i, size in enumerate(op.sizes) if size is not None]
    return tuple(i for position, i in enumerate(kept) if c.of(owner, position) == axis)
