"""Subscripts: starts, static lengths, and which slices are masked (phobos-language.md C.2).

Rules
 1. The shape of A[s :+ n] is n, of A[a : b] b - a, of A[:e] e, of A[:] the extent; lengths are constants.
 2. Point subscripts give one element; they do not mix with slices (G24).
 3. Every slice reads zero outside its tensor and drops stores there, so masking never decides values. It decides
    whether a `let` is a live view or a copy, membership in the GEMM pattern, and the error for a dot that is stored
    straight into a masked slice.
 4. A static extent E is in bounds iff E % n == 0 and div(start) % n == 0. A dynamic one is in bounds iff the start
    uses the variable of an enclosing loop (which is split there), or n <= 1 and the start is constant 0, or the
    @aligned promise and div(start) are multiples of n. The tail of a split loop counts as masked for rule 3's error.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..lang import syntax as syn
from ..lang.types import show
from .lower_base import Context, Linear, Scalar, index_constant
from .program import Extract, Insert, Load, Store, TensorParam, TileType, Value


@dataclass(frozen=True)
class Slice:
    """Evaluated subscripts: one start per axis; a size of None is a point."""

    starts: tuple[Scalar, ...]
    sizes: tuple[int | None, ...]
    node: syn.Index

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for size in self.sizes if size is not None)

    def values(self, ctx: Context) -> tuple[Value, ...]:
        return tuple(ctx.value(start, self.node.span) for start in self.starts)


@dataclass(frozen=True)
class Bounds:
    """One evaluated subscript: (index,) of a point, start and stop of a range, start and length of a window."""

    sub: syn.Sub
    first: Scalar | None
    second: Scalar | None


def make_slice(ctx: Context, node: syn.Index, what: str, dims: tuple[int | str, ...], bounds: list[Bounds]) -> Slice:
    """Checks subscripts against the axes they select from; `what` names the tensor or tile."""
    if len(bounds) != len(dims):
        ctx.fail(
            f"{what} has {len(dims)} axes, found {len(bounds)} subscripts",
            node,
            "give one subscript for each axis; `:` takes a whole one",
        )
    starts, sizes = [], []
    for bound, dim in zip(bounds, dims, strict=True):
        start, size = _axis(ctx, bound, dim)
        starts.append(start)
        sizes.append(size)
    if None in sizes and any(size is not None for size in sizes):
        point = next(b.sub for b, size in zip(bounds, sizes, strict=True) if size is None)
        ctx.fail(
            "an element subscript stands beside a slice", point, "write i:+1 to keep the axis, or index every axis"
        )
    return Slice(tuple(starts), tuple(sizes), node)


def _axis(ctx: Context, bound: Bounds, dim: int | str) -> tuple[Scalar, int | None]:
    sub, first, second = bound.sub, bound.first, bound.second
    if isinstance(sub, syn.Point):
        assert first is not None
        return first, None
    if isinstance(sub, syn.Window):
        assert first is not None and second is not None
        return first, _length(ctx, second.linear, sub.length, "the length of this slice")
    assert isinstance(sub, syn.Range)
    start = first if first is not None else index_constant(0)
    if second is None:
        if isinstance(dim, str):
            ctx.fail(
                f"`:` takes all of dim `{dim}`, whose extent is only known at launch",
                sub,
                f"take a window of constant length, or tune `{dim}` so that it is a constant",
            )
        return start, dim
    assert start.linear is not None and second.linear is not None and sub.stop is not None
    what = "the length of this slice" if first is not None else "the end of this slice"
    return start, _length(ctx, second.linear.plus(start.linear, -1), sub.stop, what)


def _length(ctx: Context, linear: Linear | None, node: syn.Expr, what: str) -> int:
    if linear is None or linear.terms:
        ctx.fail(
            f"{what} is not a constant",
            node,
            "tile shapes are literals or autotune constants; A[i:+n] with such an n gives a tile",
        )
    if linear.constant <= 0:
        ctx.fail(f"{what} is {linear.constant}", node, "it must be greater than 0")
    if linear.constant > 1 << 24:
        ctx.fail(f"{what} is {linear.constant}", node, "a tile has at most 2^24 elements")
    return linear.constant


def masked(ctx: Context, param: TensorParam, part: Slice, *, split_loops: bool = True) -> bool:
    """Whether any axis of a slice may leave the tensor, by rule 4."""
    return any(
        _axis_masked(ctx, dim, start, size, split_loops)
        for dim, start, size in zip(param.dims, part.starts, part.sizes, strict=True)
        if size is not None
    )


def _axis_masked(ctx: Context, dim: int | str, start: Scalar, size: int, split_loops: bool) -> bool:
    if isinstance(dim, int):
        return not (dim % size == 0 and start.divisor % size == 0)
    if split_loops and start.loops:
        return False
    if size <= 1 and start.const == 0:
        return False
    promise = ctx.promises.get(dim, 0)
    return not (promise > 0 and promise % size == 0 and start.divisor % size == 0)


# ---- movement ---------------------------------------------------------------------------------------------------


def load(ctx: Context, param: TensorParam, part: Slice, name: str = "") -> Value:
    """Reads a slice (or an element) of a tensor."""
    result = Value(TileType(param.element, part.shape), name)
    ctx.emit(Load(part.node.span, result, param.name, part.values(ctx), part.sizes))
    return result


def store(ctx: Context, param: TensorParam, part: Slice, value: Value, span_of: syn.Node) -> None:
    """Writes a value of the tensor's element type to a slice; live views of the tensor are marked."""
    assert value.element == param.element, show(value.element, value.shape)
    ctx.emit(Store(span_of.span, param.name, part.values(ctx), part.sizes, value))
    mark_written(ctx, param.name, span_of)


def mark_written(ctx: Context, tensor: str, node: syn.Node) -> None:
    """A later use of a live view of this tensor will see the new contents."""
    for view in ctx.views:
        if view.tensor.name == tensor and view.written is None:
            view.written = node.span


def extract(ctx: Context, tile: Value, part: Slice) -> Value:
    """Reads a slice (or an element) of a tile."""
    result = Value(TileType(tile.element, part.shape))
    ctx.emit(Extract(part.node.span, result, tile, part.values(ctx), part.sizes))
    return result


def insert(ctx: Context, tile: Value, part: Slice, value: Value, node: syn.Node) -> Value:
    """The tile with a slice replaced."""
    result = Value(tile.type, tile.name)
    ctx.emit(Insert(node.span, result, tile, part.values(ctx), part.sizes, value))
    return result
