"""Operators on scalars and tiles: which instruction, in which type (phobos-language.md C.3, D.1, D.5).

Rules
 1. tile op tile: both are converted to the join, each conversion one rounding step.
 2. tile op scalar, untyped: the scalar takes the tile's type, except that a float beside an integer tile joins (C.3).
 3. tile op scalar under a float target: the scalar takes the target's type (D.5), except that an integer beside an
    integer tile takes the tile's (integer arithmetic stays integer). Under an integer target an integer beside an
    integer takes the target's type, a scalar beside a float tile takes the tile's (decision extending G12).
 4. scalar op scalar: floats join, an integer meets a float as that float, integers join; a constant that fits meets a
    sized integer (i32(x)) in that integer's type, so i32 arithmetic wraps at 32 bits.
 5. Index arithmetic on constants is done when compiling, in wrapping 64-bit.
"""

from __future__ import annotations

import math
from typing import NoReturn

from ..errors import Span
from ..formats import F32, F64, PRED, S32, S64, Format
from ..lang import syntax as syn
from ..lang.types import conversion, instruction, join, show
from .lower_base import Context, Linear, Operand, Scalar, constant_code, index_constant
from .program import TileType, Value

MATH = {
    "exp": "exp.f32",
    "log": "log.f32",
    "sqrt": "sqrt.approx.f32",
    "tanh": "tanh.approx.f32",
    "round": "cvt.rni.f32.f32",
}


def element(operand: Operand) -> Format:
    return operand.format if isinstance(operand, Scalar) else operand.element


def shape(operand: Operand) -> tuple[int, ...]:
    return () if isinstance(operand, Scalar) else operand.shape


def describe(operand: Operand) -> str:
    """An operand's type in words."""
    if isinstance(operand, Scalar):
        return "an integer" if operand.index else f"the scalar {show(operand.format, ())}"
    return f"the tile {show(operand.element, operand.shape)}"


def broadcast(ctx: Context, operands: list[Operand], node: syn.Node) -> tuple[int, ...]:
    """The common shape of tiles and scalars (equal ranks, extent 1 stretches)."""
    shapes = [shape(operand) for operand in operands if not isinstance(operand, Scalar)]
    if not shapes:
        return ()
    if len({len(entry) for entry in shapes}) != 1:
        kinds = " and ".join(describe(operand) for operand in operands)
        ctx.fail(f"{kinds} have different ranks", node, "give both the same rank: X[i:+1, :] has two axes, X[:] one")
    result = []
    for extents in zip(*shapes, strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            kinds = " and ".join(describe(operand) for operand in operands)
            ctx.fail(f"{kinds} do not fit together", node, "extents must be equal, or 1 to stretch")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def convert(ctx: Context, operand: Operand, target: Format, node: syn.Node) -> Operand:
    """The operand in another element format; a constant is converted when compiling where that is exact work."""
    source = element(operand)
    if source == target:
        return operand
    steps = conversion(target, source)
    if steps is None:
        ctx.fail(f"{describe(operand)} does not convert to bool", node, "compare: x != 0")
    if isinstance(operand, Scalar) and operand.const is not None:
        code = constant_code(target, operand.const)
        if code is not None and not (target.is_integer and source.is_float):
            if target == F64 or (target == F32 and not isinstance(operand.const, int)):
                return Scalar(target, None, operand.const)
            return Scalar(target, ctx.constant(target, code, node.span))
    value = ctx.value(operand, node.span)
    for step in steps:
        result = S32 if step == "cvt.s32.pred" else target  # s32 is on the way from bool to a float
        value = ctx.map(step, TileType(result, value.shape), value, span=node.span, name=value.name)
    return Scalar(target, value) if isinstance(operand, Scalar) else value


def to_index(ctx: Context, operand: Scalar, node: syn.Node) -> Scalar:
    """An integer scalar as an index."""
    if operand.index:
        return operand
    value = ctx.value(convert(ctx, operand, S64, node), node.span)
    return Scalar(S64, value, None, 1, Linear(0, ((value, 1),)), operand.loops, True)


# ---- binary operators -------------------------------------------------------------------------------------------


def adapt(scalar: Scalar, beside: Format, target: Format | None) -> Format:
    """The format that a scalar takes beside a tile (rules 2 and 3)."""
    s_int, t_int = scalar.format.is_integer, beside.is_integer
    if target is not None and target.is_float and not (s_int and t_int):
        return target
    if target is not None and target.is_integer and s_int and t_int:
        return target
    if t_int and not s_int:
        return scalar.format
    return beside


def binary(ctx: Context, op: str, a: Operand, b: Operand, node: syn.Node, target: Format | None = None) -> Operand:
    """a op b; `target` is the element type of a typed target (rule 3), None in an untyped context."""
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return scalar_binary(ctx, op, a, b, node)
    if op in syn.LOGICAL:
        word = {"&&": "&", "||": "|"}[op]
        python = {"&&": "and", "||": "or"}[op]
        said = python if ctx.spelling == "python" else op
        hint = f"write (a) {word} (b) for tiles, both sides in parentheses"
        ctx.fail(f"`{said}` is for scalars, found {describe(a)} and {describe(b)}", node, hint)
    a, b = meet(ctx, op, a, b, node, target)
    return apply(ctx, op, a, b, node)


def meet(
    ctx: Context, op: str, a: Operand, b: Operand, node: syn.Node, target: Format | None
) -> tuple[Operand, Operand]:
    """Both operands in the type in which the operator works; at least one is a tile."""
    ea, eb = element(a), element(b)
    if PRED in (ea, eb):
        if ea != eb:
            ctx.fail(
                f"`{op}` between {describe(a)} and {describe(b)}", node, "turn the bool into a number: i32(c) or f32(c)"
            )
        return a, b
    if isinstance(a, Scalar):
        a = convert(ctx, a, adapt(a, eb, target), node)
    elif isinstance(b, Scalar):
        b = convert(ctx, b, adapt(b, ea, target), node)
    common = join(element(a), element(b))
    assert common is not None
    return convert(ctx, a, common, node), convert(ctx, b, common, node)


def apply(ctx: Context, op: str, a: Operand, b: Operand, node: syn.Node) -> Value:
    """The operator on operands of one format; the result is a tile, a bool tile for comparisons."""
    fmt = element(a)
    key = instruction(op, fmt)
    if key is None:
        no_operator(ctx, op, a, b, node)
    extents = broadcast(ctx, [a, b], node)
    result = PRED if op in syn.COMPARISONS else fmt
    return ctx.map(key, TileType(result, extents), ctx.value(a, node.span), ctx.value(b, node.span), span=node.span)


def no_operator(ctx: Context, op: str, a: Operand, b: Operand, node: syn.Node) -> NoReturn:
    if PRED in (element(a), element(b)):
        hint = "bools meet in == != & | and !; turn one into a number with i32(c)"
    else:
        hint = "bit operators are for integers; convert with i32(x)"
    ctx.fail(f"`{op}` does not apply to {describe(a)} and {describe(b)}", node, hint)


def scalar_binary(ctx: Context, op: str, a: Scalar, b: Scalar, node: syn.Node) -> Scalar:
    """a op b on scalars (rules 4 and 5)."""
    if op in syn.LOGICAL and not a.format == b.format == PRED:
        bad = a if a.format != PRED else b
        ctx.fail(f"`{op}` joins conditions, found {describe(bad)}", node, "compare first: x != 0")
    if PRED in (a.format, b.format) and a.format != b.format:
        both = "and" if ctx.spelling == "python" else "&&"
        chain = f"comparisons do not chain: write a < b {both} b < c"
        hint = chain if op in syn.COMPARISONS else "convert with i32(c)"
        ctx.fail(f"`{op}` between {describe(a)} and {describe(b)}", node, hint)
    if op in ("/", "%") and any(isinstance(s.const, int) and s.const < 0 for s in (a, b)):
        ctx.note("division", f"`{op}` of integers truncates toward zero; Python's // and % round down", node.span)
    if isinstance(a.const, int) and isinstance(b.const, int) and a.format == b.format:
        folded = fold(op, a, b)
        if folded is not None:
            return folded
    common = scalar_join(a, b)
    key = instruction(op, common)
    if key is None:
        no_operator(ctx, op, a, b, node)
    x, y = convert(ctx, a, common, node), convert(ctx, b, common, node)
    result = PRED if op in syn.COMPARISONS else common
    value = ctx.map(key, TileType(result), ctx.value(x, node.span), ctx.value(y, node.span), span=node.span)
    if result != S64 or not (a.index or b.index):
        return Scalar(result, value)
    return derive(op, a, b, value)


def scalar_join(a: Scalar, b: Scalar) -> Format:
    for sized, other in ((a, b), (b, a)):
        if other.index and isinstance(other.const, int) and sized.format.is_integer and not sized.index:
            low = -(1 << (sized.format.bits - 1)) if sized.format.kind == "signed" else 0
            if low <= other.const < low + (1 << sized.format.bits):
                return sized.format
    common = join(a.format, b.format)
    assert common is not None
    return common


def fold(op: str, a: Scalar, b: Scalar) -> Scalar | None:
    """The constant a op b (rule 5), or None where the run-time instruction defines it (shifts out of range)."""
    x, y = a.const, b.const
    assert x is not None and y is not None
    if a.format == PRED:
        table = {"&&": x and y, "||": x or y, "&": x and y, "|": x or y, "^": x != y, "==": x == y, "!=": x != y}
        return Scalar(PRED, None, bool(table[op])) if op in table else None
    compare = {"==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}
    if op in compare:
        return Scalar(PRED, None, compare[op])
    assert isinstance(x, int) and isinstance(y, int)
    if op in ("/", "%"):
        if y == 0:
            result = -1  # both, as the instructions give (docs/adr/0008)
        else:
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            result = quotient if op == "/" else x - quotient * y
    elif op in ("<<", ">>"):
        if not 0 <= y < 64:
            return None
        result = x << y if op == "<<" else x >> y
    else:
        result = {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[op]
    return index_constant((result + (1 << 63)) % (1 << 64) - (1 << 63))


def derive(op: str, a: Scalar, b: Scalar, value: Value) -> Scalar:
    """What is known of an index expression: divisor (C.2), linear form, loop variables."""
    loops, linear, divisor = a.loops | b.loops, Linear(0, ((value, 1),)), 1
    la, lb = a.linear, b.linear
    if op in ("+", "-"):
        divisor = math.gcd(a.divisor, b.divisor)
        if la is not None and lb is not None:
            linear = la.plus(lb, 1 if op == "+" else -1)
    elif op == "*":
        divisor = a.divisor * b.divisor
        if isinstance(a.const, int) and lb is not None:
            linear = lb.times(a.const)
        elif isinstance(b.const, int) and la is not None:
            linear = la.times(b.const)
    return Scalar(S64, value, None, divisor, linear, loops, True)


# ---- unary operators, functions, selection ----------------------------------------------------------------------


def unary(ctx: Context, op: str, a: Operand, node: syn.Node) -> Operand:
    """-x (a scalar's sign flip, 0 - t for a tile), !x (bool), ~x (integers)."""
    fmt = element(a)
    if op == "!" and fmt != PRED:
        ctx.fail(f"`!` negates conditions, found {describe(a)}", node, "compare: x == 0")
    if op == "~" and not fmt.is_integer:
        ctx.fail(f"`~` is for integers, found {describe(a)}", node, "write ! for conditions, i32(x) for numbers")
    if op == "-" and fmt == PRED:
        ctx.fail(f"`-` does not apply to {describe(a)}", node, "write ! to negate a condition")
    if isinstance(a, Scalar) and a.const is not None:
        folded = fold_unary(op, a)
        if folded is not None:
            return folded
    value = ctx.value(a, node.span)
    if op == "-" and isinstance(a, Value):
        zero = ctx.constant(fmt, 0, node.span)
        key = instruction("-", fmt)
        assert key is not None
        return ctx.map(key, a.type, zero, value, span=node.span)
    key = {"-": f"neg.{fmt.name}", "!": "not.pred", "~": f"not.{fmt.name}"}[op]
    result = ctx.map(key, value.type, value, span=node.span)
    if isinstance(a, Value):
        return result
    if not a.index:
        return Scalar(fmt, result)
    linear = a.linear.times(-1) if op == "-" and a.linear else Linear(0, ((result, 1),))
    return Scalar(fmt, result, None, a.divisor if op == "-" else 1, linear, a.loops, True)


def fold_unary(op: str, a: Scalar) -> Scalar | None:
    if a.format == PRED:
        return Scalar(PRED, None, not a.const)
    if isinstance(a.const, float):
        return Scalar(a.format, None, -a.const)
    assert isinstance(a.const, int)
    return index_constant(-a.const if op == "-" else ~a.const) if a.index else None


def math_function(ctx: Context, name: str, a: Operand, node: syn.Node, narrow: bool) -> Operand:
    """exp, log, sqrt, tanh, round through f32 (D.4); narrowed back to the operand's type unless inside a typed tree."""
    fmt = element(a)
    if not fmt.is_float:
        ctx.fail(f"{name} takes floats, found {describe(a)}", node, f"convert first: {name}(f32(x))")
    wide = ctx.value(convert(ctx, a, F32, node), node.span)
    value = ctx.map(MATH[name], wide.type, wide, span=node.span)
    result: Operand = Scalar(F32, value) if isinstance(a, Scalar) else value
    return convert(ctx, result, fmt, node) if narrow else result


def power(ctx: Context, a: Operand, b: Operand, node: syn.Node) -> Operand:
    """pow(a, b) = ex2(b * lg2(a)) through f32 (G8), narrowed to the join."""
    for operand in (a, b):
        if element(operand) == PRED:
            ctx.fail(f"pow takes numbers, found {describe(operand)}", node, "convert first: f32(c)")
    if not (element(a).is_float or element(b).is_float):
        ctx.fail(f"pow takes floats, found {describe(a)} and {describe(b)}", node, "convert first: pow(f32(x), y)")
    scalars = isinstance(a, Scalar) and isinstance(b, Scalar)
    if scalars:
        common = join(element(a), element(b))
    else:
        a, b = meet(ctx, "pow", a, b, node, None)
        common = element(a)
    assert common is not None
    extents = broadcast(ctx, [a, b], node)
    x, y = (ctx.value(convert(ctx, operand, F32, node), node.span) for operand in (a, b))
    value = ctx.map("pow.f32", TileType(F32, extents), x, y, span=node.span)
    return convert(ctx, Scalar(F32, value) if scalars else value, common, node)


def maximum(ctx: Context, a: Operand, b: Operand, node: syn.Node, target: Format | None = None) -> Operand:
    """tmax(a, b) = a > b ? a : b in the join."""
    for operand in (a, b):
        if element(operand) == PRED:
            ctx.fail(f"tmax takes numbers, found {describe(operand)}", node, "write | for conditions")
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        if isinstance(a.const, int) and isinstance(b.const, int):
            return index_constant(max(a.const, b.const))
        common = scalar_join(a, b)
        x, y = convert(ctx, a, common, node), convert(ctx, b, common, node)
    else:
        x, y = meet(ctx, "tmax", a, b, node, target)
    fmt, extents = element(x), broadcast(ctx, [x, y], node)
    args = ctx.value(x, node.span), ctx.value(y, node.span)
    value = ctx.map(f"max.sel.{fmt.name}", TileType(fmt, extents), *args, span=node.span)
    if not (isinstance(a, Scalar) and isinstance(b, Scalar)):
        return value
    if fmt == S64:
        return Scalar(S64, value, None, 1, Linear(0, ((value, 1),)), a.loops | b.loops, True)
    return Scalar(fmt, value)


def select(ctx: Context, c: Operand, a: Operand, b: Operand, node: syn.Node) -> Operand:
    """where(c, a, b): bits copied, after both arms met in one type."""
    if element(c) != PRED:
        ctx.fail(f"the condition of where is {describe(c)}", node, "give a comparison, as where(x < 0, a, b)")
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        if (a.format == PRED) != (b.format == PRED):
            ctx.fail(f"where chooses between {describe(a)} and {describe(b)}", node, "give both arms one kind")
        common = a.format if a.format == PRED else scalar_join(a, b)
        x, y = convert(ctx, a, common, node), convert(ctx, b, common, node)
    else:
        x, y = meet(ctx, "where", a, b, node, None)
    extents = broadcast(ctx, [c, x, y], node)
    args = (ctx.value(operand, node.span) for operand in (c, x, y))
    value = ctx.map("selp", TileType(element(x), extents), *args, span=node.span)
    if extents:
        return value
    if element(x) == S64:
        return Scalar(S64, value, None, 1, Linear(0, ((value, 1),)), frozenset(), True)
    return Scalar(element(x), value)


def fit(ctx: Context, operand: Operand, extents: tuple[int, ...], span: Span, node: syn.Node) -> Value:
    """The operand stretched to a target's shape; the target never stretches (C.3)."""
    value = ctx.value(operand, span)
    if value.shape == extents or not value.shape:
        return ctx.stretch(value, extents, span)
    fits = len(value.shape) == len(extents)
    if not fits or any(have not in (1, want) for have, want in zip(value.shape, extents, strict=True)):
        ctx.fail(
            f"a value of shape [{', '.join(map(str, value.shape))}] does not fit the target's "
            f"[{', '.join(map(str, extents))}]",
            node,
            "extents must be equal, or 1 to stretch",
        )
    return ctx.stretch(value, extents, span)
