"""`dot` and `dot_t`: which instruction runs the chain, and why (phobos-language.md C.5, D.2, D.3).

Rules
 1. Tensor cores run a float product iff @tensorcore is there, both operands are f16 or f32, the accumulator is f32 (or
    f16 in the GEMM-loop pattern), M, N and K are multiples of 16, the CTA's warps tile the grid of 16x16 fragments, and
    the target is no operand. Operands are then rounded to f16 (HMMA.16816).
 2. Otherwise one fused multiply-add chain per output over operands widened to the accumulator: FFMA, HFMA2,
    HFMA2.BF16_V2 or DFMA.
 3. 8-bit integers by dot_t: IMMA.8816 where M % 8 == N % 8 == K % 16 == 0, else IDP.4A where K % 4 == 0, else IMAD.
    Other integer products: IMAD (i64: mad.lo.s64). All are exact and wrap.
 4. A chain starts from the seed: +0, or the old value of the target of `+=`.
 5. A float accumulator is at least as wide as each operand, so that widening is exact (C.3).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..formats import BF16, F16, F32, F64, S32, S64, Format
from ..lang import syntax as syn
from ..lang.types import accumulator, show
from .lower_base import Context
from .lower_ops import convert
from .program import Contract, TileType, Value

FMA = {F32: "FFMA", F16: "HFMA2", BF16: "HFMA2.BF16_V2", F64: "DFMA"}
HMMA = {F32: "HMMA.16816.F32", F16: "HMMA.16816.F16"}
ALIAS = "the target aliases an operand"


@dataclass(frozen=True)
class Path:
    """A chosen instruction, the format it takes its operands in, and why. `fell_back`: tensor cores were asked for."""

    instruction: str
    operands: tuple[Format, Format]
    reason: str
    fell_back: bool = False


@dataclass(frozen=True)
class Shape:
    """Extents of one contraction."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


def warp_grid(threads: int, shape: Shape) -> tuple[int, int] | None:
    """A grid of warps that tiles the 16x16 fragments of the output, or None (rule f of C.5's gate)."""
    warps, rows, columns = threads // 32, shape.m // 16, shape.n // 16
    fitting = [
        (wm, warps // wm)
        for wm in range(1, warps + 1)
        if warps % wm == 0 and rows % wm == 0 and columns % (warps // wm) == 0
    ]
    return fitting[0] if fitting else None


def refusal(
    tensorcore: bool, threads: int, a: Format, b: Format, acc: Format, shape: Shape, alias: bool, gemm: bool
) -> str | None:
    """Why tensor cores do not run this float product, or None where they do (rule 1)."""
    if not tensorcore:
        return "not @tensorcore"
    for fmt in (a, b):
        if fmt not in (F16, F32):
            return f"element type {show(fmt, ())}"
    if acc != F32 and not (acc == F16 and gemm):
        return f"result type {show(acc, ())}" + (" outside the GEMM loop" if acc == F16 else "")
    odd = [f"{name} = {extent}" for name, extent in zip("MNK", (shape.m, shape.n, shape.k), strict=True) if extent % 16]
    if odd:
        return f"{', '.join(odd)} not a multiple of 16"
    if warp_grid(threads, shape) is None:
        return f"no warp grid: {threads // 32} warps do not tile {shape.m // 16}x{shape.n // 16} fragments"
    return ALIAS if alias else None


def choose(
    ctx: Context, a: Format, b: Format, acc: Format, shape: Shape, transposed: bool, alias: bool, gemm: bool
) -> Path:
    """The path of one contraction (rules 1 to 3)."""
    if acc.is_integer:
        return _integer_path(a, b, acc, shape, transposed)
    tensorcore = ctx.attributes.tensorcore is not None
    why_not = refusal(tensorcore, ctx.threads, a, b, acc, shape, alias, gemm)
    if why_not is not None:
        return Path(FMA[acc], (acc, acc), why_not, tensorcore)
    grid = warp_grid(ctx.threads, shape)
    assert grid is not None
    rounded = [show(fmt, ()) for fmt in (a, b) if fmt != F16]
    how = f"; {' and '.join(rounded)} rounded to f16" if rounded else ""
    reason = f"@tensorcore, {grid[0]}x{grid[1]} warps{how}"
    return Path(HMMA[acc], (F16, F16), reason)


def _integer_path(a: Format, b: Format, acc: Format, shape: Shape, transposed: bool) -> Path:
    if acc == S64:
        return Path("mad.lo.s64", (S64, S64), "64-bit integers")
    names = f"{a.name.upper()}.{b.name.upper()}"
    if a.bits != 8 or b.bits != 8:
        return Path("IMAD", (S32, S32), f"element types {show(a, ())} and {show(b, ())}")
    if not transposed:
        return Path("IMAD", (S32, S32), "dot of 8-bit integers is scalar; dot_t has the packed paths")
    if shape.m % 8 == 0 and shape.n % 8 == 0 and shape.k % 16 == 0:
        return Path(f"IMMA.8816.{names}", (a, b), "whole 8x8 blocks, K a multiple of 16")
    if shape.k % 4 == 0:
        partial = shape.m % 8 or shape.n % 8
        why = "the output is not whole 8x8 blocks, K a multiple of 4" if partial else "K is a multiple of 4, not of 16"
        return Path(f"IDP.4A.{names}", (a, b), why, True)
    return Path("IMAD", (S32, S32), "K is not a multiple of 4", True)


def shapes(ctx: Context, call: syn.Call, a: Value, b: Value) -> Shape:
    """M, N and K of a contraction, checked."""
    for operand, node in zip((a, b), call.args, strict=True):
        if len(operand.shape) != 2:
            ctx.fail(
                f"{call.function} takes tiles of rank 2, found {show(operand.element, operand.shape)}",
                node,
                "slice with two subscripts: A[i:+m, k:+n]",
            )
    m, k = a.shape
    n, other = b.shape if call.function == "dot_t" else b.shape[::-1]
    if k != other:
        rule = "[M, K] x [N, K]" if call.function == "dot_t" else "[M, K] x [K, N]"
        twin = "dot" if call.function == "dot_t" else "dot_t"
        fits = f"; {twin} would fit" if a.shape[1] == b.shape[1 if twin == "dot_t" else 0] else ""
        ctx.fail(
            f"{call.function} contracts {k} columns with {other} "
            f"{'columns' if call.function == 'dot_t' else 'rows'}: {show(a.element, a.shape)} and "
            f"{show(b.element, b.shape)}",
            call,
            f"{call.function} is {rule}{fits}",
        )
    return Shape(m, n, k)


def own_type(ctx: Context, call: syn.Call, a: Value, b: Value) -> Format:
    """The element type of a product with no declared target: f16 products are f32 under @tensorcore (G3)."""
    acc = accumulator(a.element, b.element)
    if acc is None:
        ctx.fail(
            f"{call.function} multiplies numbers, found {show(a.element, a.shape)} and {show(b.element, b.shape)}",
            call,
            "convert first: f32(c)",
        )
    return F32 if acc == F16 and ctx.attributes.tensorcore is not None else acc


def target_type(ctx: Context, call: syn.Call, a: Value, b: Value, target: Format) -> Format:
    """The accumulator of a product with a declared target: the target, or i32 (i64) for integer operands (rule 5)."""
    natural = own_type(ctx, call, a, b)
    if natural.is_integer:
        return S64 if target == S64 and natural == S64 else natural
    if not target.is_float:
        ctx.fail(
            f"a product of {show(a.element, ())} and {show(b.element, ())} goes into {show(target, ())}",
            call,
            "make the target a float tile, and convert that",
        )
    for operand in (a, b):
        fmt = operand.element
        if fmt.is_float and (fmt.bits > target.bits or (fmt.bits == target.bits and fmt != target)):
            held = f"every value of the operand {show(fmt, operand.shape)}"
            hint = f"accumulate in {show(natural, ())} and store that: the store rounds once"
            ctx.fail(f"the accumulator {show(target, ())} does not hold {held}", call, hint)
    return target


def contract(
    ctx: Context,
    call: syn.Call,
    a: Value,
    b: Value,
    acc: Format,
    seed: Value | None = None,
    *,
    alias: bool = False,
) -> Value:
    """The product a x b in format `acc`, its chains started from `seed` or +0."""
    shape = shapes(ctx, call, a, b)
    transposed = call.function == "dot_t"
    path = choose(ctx, a.element, b.element, acc, shape, transposed, alias, id(call) in ctx.gemm)
    if path.fell_back:
        ctx.note("path", f"{call.function} falls back to {path.instruction}: {path.reason}", call.span)
    x, y = (convert(ctx, v, fmt, node) for v, fmt, node in zip((a, b), path.operands, call.args, strict=True))
    assert isinstance(x, Value) and isinstance(y, Value)
    extents = (shape.m, shape.n)
    start = ctx.zero(acc, extents, call.span) if seed is None else seed
    assert start.type == TileType(acc, extents), (start.type, acc, extents)
    result = Value(TileType(acc, extents))
    ctx.emit(Contract(call.span, result, path.instruction, x, y, start, transposed, path.instruction, path.reason))
    return result
