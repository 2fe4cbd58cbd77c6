"""Expressions: untyped, and into a typed target (phobos-language.md C.3, C.4, D.5).

Rules
 1. Untyped: every operator makes a tile; a unary function narrows to its operand's type at once.
 2. Typed target, form 7: the tree of + - * / %, tmax, unary functions and conversions is evaluated as written; leaves
    keep their types, scalars take the target's, a unary function stays f32; one conversion at the end. Anything else
    in it (a dot, a reduction, where, a comparison, a function call) is an opaque operand, evaluated untyped before.
 3. A subscript or a unary minus anywhere in that tree turns form 7 off: the two sides of the outermost operator are
    evaluated untyped and converted to the target's type before it (form 8). Under an integer target this holds only
    where both sides are integers; otherwise the untyped result is converted once.
 4. s1*t1 + s2*t2 with named tiles and scalars that are literals or names is evaluated in f32 (f64 where an operand or
    the target is f64; form 6, G12).
 5. Literals are f32; integers are index scalars.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ..formats import F32, F64, PRED, Format
from ..lang import spelling as say
from ..lang import syntax as syn
from ..lang.builtins import BUILTINS, LATER_STAGE, PER_THREAD_CONTEXT
from ..lang.types import ELEMENTS
from . import lower_builtins as builtins
from . import lower_ops as ops
from . import lower_slice as slices
from .lower_base import Alias, Bound, Context, Operand, Scalar, Tensor, Variable, View, index_constant, index_value
from .lower_contract import contract, own_type
from .lower_ops import describe
from .program import Block, If, Load, TileType, Value

CONVERSIONS = frozenset(ELEMENTS) - {"bool"}
TREE_CALLS = CONVERSIONS | frozenset(ops.MATH) | {"tmax"}


# ---- names ------------------------------------------------------------------------------------------------------


def name(ctx: Context, node: syn.Name) -> Operand:
    """The current value of a name."""
    found = ctx.scope.find(node.id)
    if found is None:
        unknown_name(ctx, node)
    if isinstance(found, Tensor):
        ctx.fail(
            f"tensor `{node.id}` is used without subscripts",
            node,
            f"a tensor is memory: read a slice of it, as {node.id}[{', '.join(['i:+n'] * len(found.param.dims))}]",
        )
    return read(ctx, found, node)


def read(ctx: Context, binding: Variable | Bound | View | Alias, node: syn.Node) -> Operand:
    """The value that a binding has now; a live view loads."""
    if isinstance(binding, Bound):
        return binding.operand
    if isinstance(binding, Alias):
        tile = read(ctx, binding.target, node)
        assert isinstance(tile, Value)
        return tile if binding.shape is None else builtins.reshape(ctx, tile, binding.shape, node)
    if isinstance(binding, View):
        return _read_view(ctx, binding, node)
    if binding.type.shape:
        return binding.value
    return index_value(binding.value) if binding.index else Scalar(binding.type.element, binding.value)


def _read_view(ctx: Context, view: View, node: syn.Node) -> Value:
    if view.written is not None:
        ctx.note(
            "live-view",
            f"`{view.name}` is a live view of `{view.tensor.name}`, which is written at {view.written}: this use may "
            f"see the new contents; copy it with {say.var(ctx.spelling, view.name)} to keep the old ones",
            node.span,
        )
        view.written = None
    result = Value(view.type, view.name)
    ctx.emit(Load(node.span, result, view.tensor.name, view.starts, view.sizes))
    return result


def unknown_name(ctx: Context, node: syn.Name) -> NoReturn:
    if node.id == "ctx":
        ctx.fail("`ctx` is not a value", node, "write ctx.block.x")
    if node.id in ctx.module.outside:
        ctx.fail(
            f"`{node.id}` is a Python name of the module, which a kernel cannot see",
            node,
            f"make it a constant with {say.tune(ctx.spelling, node.id)}, or pass it as a parameter",
        )
    if node.id in BUILTINS:
        ctx.fail(f"`{node.id}` is a builtin, not a value", node, f"call it: {BUILTINS[node.id].signature}")
    close = say.closest(node.id, ctx.scope.visible())
    declare = f"declare it with {say.let(ctx.spelling, node.id)}, or tune it with {say.tune(ctx.spelling, node.id)}"
    ctx.fail(f"`{node.id}` is not defined", node, close + declare)


# ---- untyped and tree evaluation --------------------------------------------------------------------------------


def evaluate(ctx: Context, node: syn.Expr, target: Format | None = None) -> Operand:
    """An expression's value; with `target`, as a tree under a target of that element type (rule 2)."""
    match node:
        case syn.IntLit():
            return index_constant(node.value)
        case syn.FloatLit():
            with np.errstate(over="ignore"):
                return Scalar(F32, None, float(np.float32(node.value)))
        case syn.BoolLit():
            return Scalar(PRED, None, node.value)
        case syn.Name():
            return name(ctx, node)
        case syn.Member():
            return _member(ctx, node)
        case syn.Unary():
            return ops.unary(ctx, node.op, evaluate(ctx, node.operand), node)
        case syn.Binary():
            return _binary(ctx, node, target)
        case syn.Index():
            return _index(ctx, node)
        case syn.Call():
            return _call(ctx, node, target)
    raise AssertionError(node)


def scalar(ctx: Context, node: syn.Expr, what: str) -> Scalar:
    """A scalar expression."""
    value = evaluate(ctx, node)
    if not isinstance(value, Scalar):
        ctx.fail(f"{what} is a scalar, found {describe(value)}", node, "take one element of a tile: t[i, j]")
    return value


def index(ctx: Context, node: syn.Expr, what: str) -> Scalar:
    """An integer scalar, as an index."""
    value = scalar(ctx, node, what)
    if not value.format.is_integer:
        ctx.fail(f"{what} is an integer, found {describe(value)}", node, "convert it: i32(x) truncates toward zero")
    return ops.to_index(ctx, value, node)


def condition(ctx: Context, node: syn.Expr, what: str) -> Scalar:
    """A uniform condition."""
    value = scalar(ctx, node, what)
    if value.format != PRED:
        ctx.fail(f"{what} is {describe(value)}, not a bool", node, "compare: x != 0")
    return value


def _member(ctx: Context, node: syn.Member) -> Operand:
    path = [node.name]
    base: syn.Expr = node.value
    while isinstance(base, syn.Member):
        path.append(base.name)
        base = base.value
    path.reverse()
    if not (isinstance(base, syn.Name) and base.id == "ctx" and ctx.scope.find("ctx") is None):
        ctx.fail(f"`.{node.name}`: values have no members", node, "the only members are ctx.block.x, .y and .z")
    if path[0] in PER_THREAD_CONTEXT:
        ctx.fail(
            f"ctx.{path[0]} tells threads of a CTA apart, which this simulator does not do yet",
            node,
            f"{LATER_STAGE} will bring it; a tile operation works on the whole CTA's tile",
        )
    if len(path) != 2 or path[0] != "block" or path[1] not in ("x", "y", "z"):
        ctx.fail(f"there is no ctx.{'.'.join(path)}", node, "write ctx.block.x, ctx.block.y or ctx.block.z")
    return index_value(ctx.block_index("xyz".index(path[1]), node.span))


def _binary(ctx: Context, node: syn.Binary, target: Format | None) -> Operand:
    inner = target if node.op in syn.ARITHMETIC else None
    left = evaluate(ctx, node.left, inner)
    if node.op in syn.LOGICAL and any(isinstance(n, syn.Call) for n in syn.walk(node.right)):
        return _short_circuit(ctx, node, left)
    right = evaluate(ctx, node.right, inner)
    return ops.binary(ctx, node.op, left, right, node, inner)


def _short_circuit(ctx: Context, node: syn.Binary, left: Operand) -> Operand:
    """`a && f(x)`: the call happens only where its value counts."""
    word = "and" if ctx.spelling == "python" else "&&"
    if not isinstance(left, Scalar) or left.format != PRED:
        right = evaluate(ctx, node.right)
        return ops.binary(ctx, node.op, left, right, node)
    then, orelse = Block(), Block()
    with ctx.nested(then if node.op == "&&" else orelse) as block:
        right = condition(ctx, node.right, f"the right side of `{word}`")
        block.yields.append(ctx.value(right, node.span))
    other = orelse if node.op == "&&" else then
    other.yields.append(ctx.constant(PRED, 0 if node.op == "&&" else 1, node.span))
    out = Value(TileType(PRED))
    ctx.emit(If(node.span, ctx.value(left, node.span), then, orelse, (out,)))
    return Scalar(PRED, out)


# ---- subscripts -------------------------------------------------------------------------------------------------


def make_slice(ctx: Context, node: syn.Index, what: str, dims: tuple[int | str, ...]) -> slices.Slice:
    """Evaluates and checks subscripts."""
    bounds = []
    for sub in node.subs:
        first: syn.Expr | None
        match sub:
            case syn.Point():
                first, second = sub.index, None
            case syn.Range():
                first, second = sub.start, sub.stop
            case syn.Window():
                first, second = sub.start, sub.length
            case _:
                raise AssertionError(sub)
        values = [None if part is None else index(ctx, part, "a subscript") for part in (first, second)]
        bounds.append(slices.Bounds(sub, *values))
    return slices.make_slice(ctx, node, what, dims, bounds)


def _index(ctx: Context, node: syn.Index) -> Operand:
    if isinstance(node.value, syn.Name):
        found = ctx.scope.find(node.value.id)
        if isinstance(found, Tensor):
            part = make_slice(ctx, node, f"tensor `{node.value.id}`", found.param.dims)
            return element_of(ctx, slices.load(ctx, found.param, part), node)
    base = evaluate(ctx, node.value)
    if isinstance(base, Scalar):
        ctx.fail(f"{describe(base)} has no axes to index", node, "only tensors and tiles take subscripts")
    what = f"tile `{node.value.id}`" if isinstance(node.value, syn.Name) else "this tile"
    part = make_slice(ctx, node, what, base.shape)
    return element_of(ctx, slices.extract(ctx, base, part), node)


def element_of(ctx: Context, value: Value, node: syn.Node) -> Operand:
    """A loaded tile, or a loaded element as a scalar: integers are index scalars (C.1)."""
    if value.shape:
        return value
    loaded = Scalar(value.element, value)
    return ops.to_index(ctx, loaded, node) if value.element.is_integer else loaded


# ---- calls ------------------------------------------------------------------------------------------------------


def _call(ctx: Context, node: syn.Call, target: Format | None) -> Operand:
    function = node.function
    if function in ctx.module.functions:
        result = ctx.inline(ctx, node)
        if result is None:
            ctx.fail(f"`{function}` returns nothing", node, "give it a return, or call it on a line of its own")
        return result
    if function not in BUILTINS:
        if function == "bool":
            ctx.fail("nothing converts to bool", node, "compare: x != 0")
        builtins.unknown(ctx, node, [*BUILTINS, *ctx.module.functions])
    row = BUILTINS[function]
    if len(node.args) != row.arity:
        takes = f"{function} takes {say.count(row.arity, 'argument')}"
        ctx.fail(f"{takes}, found {len(node.args)}", node, f"{row.signature}: {row.meaning}")
    if function in ops.MATH:
        inner = evaluate(ctx, node.args[0], target)
        return ops.math_function(ctx, function, inner, node, narrow=target is None)
    if function in CONVERSIONS:
        return _conversion(ctx, node, target)
    if function == "tmax":
        a, b = (evaluate(ctx, arg, target) for arg in node.args)
        return ops.maximum(ctx, a, b, node, target)
    if function == "extent":
        return _extent(ctx, node)
    if function == "grid_barrier":
        return _grid_barrier(ctx, node)
    args = [evaluate(ctx, arg) for arg in node.args]
    if function in ("dot", "dot_t"):
        a, b = tiles(ctx, node, args)
        return contract(ctx, node, a, b, own_type(ctx, node, a, b))
    if function == "where":
        return ops.select(ctx, args[0], args[1], args[2], node)
    if function == "pow":
        return ops.power(ctx, args[0], args[1], node)
    return builtins.HANDLERS[function](ctx, node, *args)


def tiles(ctx: Context, node: syn.Call, args: list[Operand]) -> tuple[Value, Value]:
    """The two operands of a contraction."""
    for arg, operand in zip(node.args, args, strict=True):
        if isinstance(operand, Scalar):
            ctx.fail(f"{node.function} multiplies tiles, found {describe(operand)}", arg, "write * for scalars")
    a, b = args
    assert isinstance(a, Value) and isinstance(b, Value)
    return a, b


def _conversion(ctx: Context, node: syn.Call, target: Format | None) -> Operand:
    operand = evaluate(ctx, node.args[0], target)
    result = ops.convert(ctx, operand, ELEMENTS[node.function], node)
    if isinstance(result, Scalar) and result.index:  # i64(index): a sized integer from here on
        return Scalar(result.format, ctx.value(result, node.span))
    return result


def _extent(ctx: Context, node: syn.Call) -> Operand:
    axis = index(ctx, node.args[1], "the axis of extent").const
    first = node.args[0]
    found = ctx.scope.find(first.id) if isinstance(first, syn.Name) else None
    dims: tuple[int | str, ...]
    if isinstance(found, Tensor):
        dims = found.param.dims
    else:
        operand = evaluate(ctx, first)
        dims = ops.shape(operand)
    if not isinstance(axis, int) or not 0 <= axis < len(dims):
        ctx.fail(f"extent takes an axis between 0 and {len(dims) - 1}", node.args[1], "the axis is a literal")
    dim = dims[axis]
    return index_constant(dim) if isinstance(dim, int) else index_value(ctx.dim(dim, node.span), 4)


def _grid_barrier(ctx: Context, node: syn.Call) -> Operand:
    first = node.args[0]
    found = ctx.scope.find(first.id) if isinstance(first, syn.Name) else None
    if not isinstance(found, Tensor):
        ctx.fail("grid_barrier takes a tensor parameter", first, "grid_barrier(bar), bar an i32 tensor of 2 elements")
    return builtins.grid_barrier(ctx, node, found.param.dims, found.param.element, found.param.name)


# ---- typed targets ----------------------------------------------------------------------------------------------


def into(ctx: Context, node: syn.Expr, target: Format) -> Operand:
    """An expression in a target's element type: one conversion at the end (rules 2 to 4)."""
    return ops.convert(ctx, toward(ctx, node, target), target, node)


def toward(ctx: Context, node: syn.Expr, target: Format) -> Operand:
    """The value of an expression under a typed target, before its last conversion."""
    scaled = _scaled_add(ctx, node, target)
    if scaled is not None:
        return scaled
    if not _has_subscript_or_minus(ctx, node):
        return evaluate(ctx, node, target)
    if isinstance(node, syn.Binary) and node.op in syn.ARITHMETIC:
        left, right = evaluate(ctx, node.left), evaluate(ctx, node.right)
        both = (left, right)
        scalars = all(isinstance(side, Scalar) for side in both)
        bools = target == PRED or any(ops.element(side) == PRED for side in both)
        floats = any(ops.element(side).is_float for side in both)
        if not (scalars or bools or (target.is_integer and floats)):
            left, right = (
                ops.convert(ctx, side, target, part) for side, part in zip(both, (node.left, node.right), strict=True)
            )
        return ops.binary(ctx, node.op, left, right, node)
    return evaluate(ctx, node)


def _has_subscript_or_minus(ctx: Context, node: syn.Expr) -> bool:
    """Whether form 7 is off: a subscript or unary minus in the tree, opaque operands aside."""
    if isinstance(node, syn.Index):
        return True
    if isinstance(node, syn.Unary):
        return node.op == "-"
    if isinstance(node, syn.Binary) and node.op in syn.ARITHMETIC:
        return _has_subscript_or_minus(ctx, node.left) or _has_subscript_or_minus(ctx, node.right)
    if isinstance(node, syn.Call) and node.function in TREE_CALLS and node.function not in ctx.module.functions:
        return any(_has_subscript_or_minus(ctx, arg) for arg in node.args)
    return False


def _scaled_add(ctx: Context, node: syn.Expr, target: Format) -> Operand | None:
    """s1*t1 + s2*t2 in f32 or f64 (rule 4), or None where the expression has another form."""
    if not (target.is_float and isinstance(node, syn.Binary) and node.op == "+"):
        return None
    terms = []
    for side in (node.left, node.right):
        if not (isinstance(side, syn.Binary) and side.op == "*" and isinstance(side.right, syn.Name)):
            return None
        factor = side.left
        literal = isinstance(factor, (syn.FloatLit, syn.IntLit))
        if not literal and not (isinstance(factor, syn.Name) and _is_scalar(ctx, factor)):
            return None
        tile = _tile_element(ctx, side.right)
        if tile is None or not tile.is_float:
            return None
        terms.append((side, factor, tile))
    work = F64 if F64 in (target, *(tile for _, _, tile in terms)) else F32
    products = []
    for side, factor, _ in terms:
        assert isinstance(side, syn.Binary)
        s = ops.convert(ctx, evaluate(ctx, factor), work, factor)
        t = ops.convert(ctx, evaluate(ctx, side.right), work, side.right)
        products.append(ops.apply(ctx, "*", s, t, side))
    return ops.apply(ctx, "+", products[0], products[1], node)


def _is_scalar(ctx: Context, node: syn.Name) -> bool:
    found = ctx.scope.find(node.id)
    if isinstance(found, Bound):
        return isinstance(found.operand, Scalar) and found.operand.format != PRED
    return isinstance(found, Variable) and not found.type.shape and found.type.element != PRED


def _tile_element(ctx: Context, node: syn.Name) -> Format | None:
    """The element format of a named tile or view, else None."""
    found = ctx.scope.find(node.id)
    if isinstance(found, Alias):
        found = found.target
    if isinstance(found, Bound) and isinstance(found.operand, Value):
        return found.operand.element
    if isinstance(found, (Variable, View)) and found.type.shape:
        return found.type.element
    return None
