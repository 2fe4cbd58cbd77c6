"""Builtins on evaluated operands (phobos-language.md E.1, E.2, D.6).

Rules
 1. rowsum and rowmax: L strided partials and a butterfly for f32, serial otherwise; L from rows and CTA threads (D.6).
    rowmax starts from the finite floor -3.0e38 (f16: -65504), rowsum from +0.
 2. cumsum: serial down the rows from +0 in the element type. tril keeps column <= row, else +0.
 3. iota(n) is i32 [1, n]; rowargmax is i32 [R, 1], ties to the lowest index; gather reads 0 outside its table (G7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..formats import BF16, F16, F32, F64, PRED, S32, S64, Format
from ..lang import syntax as syn
from ..lang.builtins import LATER_STAGE, PER_THREAD, REMOVED
from ..lang.spelling import closest
from ..lang.types import show
from .lower_base import Context, Operand, Scalar, index_constant, index_value
from .lower_ops import apply, convert, describe, meet, scalar_binary, select
from .program import ArgMax, Gather, GridBarrier, Iota, Reduce, Reshape, Scan, TileType, Transpose, Value

# code of the value that rowmax starts from: -3.0e38 rounded to the format, f16: -65504
FLOOR = {F32: 0xFF61B1E6, F16: 0xFBFF, BF16: 0xFF62, F64: 0xC7EC363CBF21F28A}


def lanes(rows: int, threads: int, fmt: Format) -> int | None:
    """Strided partial results of a row reduction, or None for the serial order (D.6)."""
    per = threads // rows
    if per < 2 or fmt != F32:
        return None
    count = 1
    while count * 2 <= min(per, 32):
        count *= 2
    while count >= 2 and rows * count % 32:
        count //= 2
    return count if count >= 2 else None


def rank2(ctx: Context, call: syn.Call, operand: Operand, floats: bool = False) -> Value:
    """The operand as a tile of rank 2 (of floats, where asked)."""
    if isinstance(operand, Scalar) or len(operand.shape) != 2:
        ctx.fail(
            f"{call.function} takes a tile of rank 2, found {describe(operand)}",
            call.args[0],
            "slice with two subscripts: A[i:+m, j:+n]",
        )
    if floats and not operand.element.is_float:
        ctx.fail(
            f"{call.function} takes floats, found {describe(operand)}",
            call.args[0],
            f"convert first: {call.function}(f32(t))",
        )
    return operand


def _reduce(ctx: Context, call: syn.Call, operand: Operand) -> Operand:
    tile = rank2(ctx, call, operand, floats=True)
    rows, fmt = tile.shape[0], tile.element
    result = Value(TileType(fmt, (rows, 1)))
    combine, identity = ("max", FLOOR[fmt]) if call.function == "rowmax" else (f"add.rn.{fmt.name}", 0)
    ctx.emit(Reduce(call.span, result, combine, tile, lanes(rows, ctx.threads, fmt), identity))
    return result


def _rowargmax(ctx: Context, call: syn.Call, operand: Operand) -> Operand:
    tile = rank2(ctx, call, operand)
    if tile.element == PRED:
        ctx.fail(f"rowargmax takes numbers, found {describe(tile)}", call.args[0], "convert first: i32(c)")
    result = Value(TileType(S32, (tile.shape[0], 1)))
    ctx.emit(ArgMax(call.span, result, tile))
    return result


def _cumsum(ctx: Context, call: syn.Call, operand: Operand) -> Operand:
    tile = rank2(ctx, call, operand, floats=True)
    result = Value(tile.type)
    ctx.emit(Scan(call.span, result, f"add.rn.{tile.element.name}", tile))
    return result


def _tril(ctx: Context, call: syn.Call, operand: Operand) -> Operand:
    tile = rank2(ctx, call, operand)
    if tile.element == PRED:
        ctx.fail(f"tril takes numbers, found {describe(tile)}", call.args[0], "convert first: i32(c)")
    rows, columns = tile.shape
    row, column = Value(TileType(S32, (rows, 1))), Value(TileType(S32, (1, columns)))
    ctx.emit(Iota(call.span, row, 0))
    ctx.emit(Iota(call.span, column, 1))
    kept = ctx.map("setp.le.s32", TileType(PRED, tile.shape), column, row, span=call.span)
    zero = ctx.constant(tile.element, 0, call.span)
    return ctx.map("selp", tile.type, kept, tile, zero, span=call.span)


def _transpose(ctx: Context, call: syn.Call, operand: Operand) -> Operand:
    tile = rank2(ctx, call, operand)
    result = Value(TileType(tile.element, tile.shape[::-1]))
    ctx.emit(Transpose(call.span, result, tile))
    return result


def _flat(ctx: Context, call: syn.Call, operand: Operand) -> Operand:
    tile = rank2(ctx, call, operand)
    return reshape(ctx, tile, (1, tile.type.size), call)


def reshape(ctx: Context, tile: Value, shape: tuple[int, ...], node: syn.Node) -> Value:
    """The same elements in row-major order under another shape."""
    if tile.shape == shape:
        return tile
    result = Value(TileType(tile.element, shape))
    ctx.emit(Reshape(node.span, result, tile))
    return result


def _iota(ctx: Context, call: syn.Call, operand: Operand) -> Operand:
    count = operand.const if isinstance(operand, Scalar) and operand.index else None
    if count is None:
        ctx.fail(f"iota takes a constant, found {describe(operand)}", call.args[0], "a literal or an autotune constant")
    if not 0 < count <= 1 << 24:
        ctx.fail(f"iota of {count} elements", call.args[0], "the count lies between 1 and 2^24")
    result = Value(TileType(S32, (1, int(count))))
    ctx.emit(Iota(call.span, result, 1))
    return result


def _gather(ctx: Context, call: syn.Call, table: Operand, index: Operand) -> Operand:
    for operand, node in zip((table, index), call.args, strict=True):
        if isinstance(operand, Scalar):
            ctx.fail(f"gather takes two tiles, found {describe(operand)}", node, "slice a tensor: T[0:+n]")
    assert isinstance(table, Value) and isinstance(index, Value)
    if not index.element.is_integer:
        ctx.fail(f"the indices of gather are integers, found {describe(index)}", call.args[1], "convert with i32(x)")
    wide = index if index.element in (S32, S64) else convert(ctx, index, S32, call)
    assert isinstance(wide, Value)
    result = Value(TileType(table.element, index.shape))
    ctx.emit(Gather(call.span, result, table, wide))
    return result


def _argsel(ctx: Context, call: syn.Call, va: Operand, vb: Operand, ia: Operand, ib: Operand) -> Operand:
    """va >= vb ? ia : ib, elementwise."""
    if isinstance(va, Scalar) and isinstance(vb, Scalar):
        return select(ctx, scalar_binary(ctx, ">=", va, vb, call), ia, ib, call)
    return select(ctx, apply(ctx, ">=", *meet(ctx, "argsel", va, vb, call, None), call), ia, ib, call)


def _program_id(ctx: Context, call: syn.Call, axis: Operand) -> Operand:
    const = axis.const if isinstance(axis, Scalar) else None
    if const not in (0, 1, 2) or isinstance(const, (bool, float)):
        ctx.fail(f"program_id takes 0, 1 or 2, found {describe(axis)}", call.args[0], "or write ctx.block.x")
    assert isinstance(const, int)
    return index_value(ctx.block_index(const, call.span))


def _barrier(ctx: Context, call: syn.Call) -> Operand:
    return index_constant(0)


Handler = Callable[..., Operand]

HANDLERS: dict[str, Handler] = {
    "rowmax": _reduce,
    "rowsum": _reduce,
    "rowargmax": _rowargmax,
    "cumsum": _cumsum,
    "tril": _tril,
    "transpose": _transpose,
    "flat": _flat,
    "iota": _iota,
    "gather": _gather,
    "argsel": _argsel,
    "program_id": _program_id,
    "barrier": _barrier,
}


def grid_barrier(ctx: Context, call: syn.Call, param_dims: tuple[int | str, ...], fmt: Format, name: str) -> Operand:
    """grid_barrier(bar): bar is an i32 tensor of at least two elements, unchanged afterwards (E.1)."""
    size = 1
    for dim in param_dims:
        size *= dim if isinstance(dim, int) else 1 << 20
    if fmt != S32 or size < 2:
        ctx.fail(
            f"grid_barrier takes an i32 tensor of at least 2 elements, `{name}` is {show(fmt, ())}",
            call.args[0],
            "add a parameter `bar` of type i32 tensor with 2 elements, zeroed",
        )
    ctx.emit(GridBarrier(call.span))
    return index_constant(0)


def unknown(ctx: Context, call: syn.Call, known: list[str]) -> NoReturn:
    """A call of something that is no builtin and no function."""
    name = call.function
    if name in PER_THREAD:
        ctx.fail(
            f"`{name}` works on single threads, which this simulator does not run yet",
            call,
            f"{LATER_STAGE} will bring it; tile operations cover what whole CTAs do",
        )
    if name in REMOVED:
        ctx.fail(f"`{name}` left the language in version 0.2", call, "write the product with dot_t and scale it")
    advice = {"max": "tmax(a, b) takes the larger", "min": "where(a < b, a, b) takes the smaller"}
    advice |= {"abs": "tmax(x, 0 - x) is the magnitude", "relu": "tmax(x, 0.0) is a relu", "bool": "compare: x != 0"}
    hint = advice.get(name) or closest(name, known).strip() or "define it as a function of this module"
    ctx.fail(f"`{name}` is neither a builtin nor a function of this module", call, hint)
