"""Declarations and assignments (phobos-language.md C.1, C.4, 0.2).

Rules
 1. `let x = A[slice]` is a live view unless the slice is masked, then a zero-filled copy. `let y = t` is a read-only
    alias of a tile variable. Every other `let` is evaluated once; `var` copies.
 2. A variable's type is fixed at its declaration; assignments convert to it. The right side is read in full first.
 3. `t = dot(..)` starts its chains from +0, `t += dot(..)` from t. Where t is an operand, the product goes through a
    temporary on the FMA path and is then copied or added (C.4 step 4).
 4. `t op= e` is `t = t op (e)` with t on the left, in the join type.
 5. A dot is not stored straight into a slice that may be masked (C.2).
 6. `A[i] op= x` on a tensor element happens once per CTA and is noted as a race (G15).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..formats import PRED, Format
from ..lang import spelling as say
from ..lang import syntax as syn
from ..lang.types import ELEMENTS, show
from . import lower_expr as expr
from . import lower_ops as ops
from . import lower_slice as slices
from .lower_base import Alias, Bound, Context, Operand, Scalar, Tensor, Variable, View, index_value
from .lower_contract import contract, shapes, target_type
from .lower_ops import describe
from .program import TileType, Value

DOTS = ("dot", "dot_t")


def is_dot(ctx: Context, node: syn.Expr) -> bool:
    return isinstance(node, syn.Call) and node.function in DOTS and node.function not in ctx.module.functions


# ---- types ------------------------------------------------------------------------------------------------------


def tile_type(ctx: Context, node: syn.Type) -> TileType:
    """A declared scalar or tile type; dims are constant expressions."""
    if isinstance(node, syn.TensorType):
        ctx.fail("a variable cannot be a tensor", node, "tensors are parameters; declare a tile")
    if isinstance(node, syn.ScalarType):
        return TileType(ELEMENTS[node.name])
    assert isinstance(node, syn.TileType)
    dims = []
    for dim in node.dims:
        value = expr.index(ctx, dim, "a tile's extent")
        if not isinstance(value.const, int):
            hint = "use literals or autotune constants"
            if isinstance(dim, syn.Name):
                hint += f": {say.tune(ctx.spelling, dim.id)} makes `{dim.id}` one"
            ctx.fail("a tile's extent is not a constant", dim, hint)
        if value.const <= 0:
            ctx.fail(f"a tile's extent is {value.const}", dim, "it must be greater than 0")
        dims.append(value.const)
    result = TileType(ELEMENTS[node.element.name], tuple(dims))
    if result.size > 1 << 24:
        ctx.fail(f"a tile of {result.size} elements", node, "a tile has at most 2^24 elements")
    return result


def typed(ctx: Context, kind: TileType, node: syn.Expr) -> Operand:
    """An initializer in its declared type."""
    if not kind.shape:
        return scalar_into(ctx, node, kind.element)
    if is_dot(ctx, node):
        assert isinstance(node, syn.Call)
        return dot_into(ctx, node, kind, None, False)
    return ops.fit(ctx, expr.into(ctx, node, kind.element), kind.shape, node.span, node)


def scalar_into(ctx: Context, node: syn.Expr, element: Format) -> Scalar:
    """A scalar in a declared type; a declared integer is a sized one."""
    value = expr.scalar(ctx, node, f"a {show(element, ())}")
    result = ops.convert(ctx, value, element, node)
    assert isinstance(result, Scalar)
    if result.index:
        return Scalar(element, ctx.value(result, node.span))
    return result


# ---- declarations -----------------------------------------------------------------------------------------------


def let(ctx: Context, node: syn.Let) -> None:
    if node.type is not None:
        kind = tile_type(ctx, node.type)
        ctx.bind(node.name, Bound(node.name, named(ctx, typed(ctx, kind, node.value), node.name), node.span))
        return
    value = node.value
    if isinstance(value, syn.Name):
        found = ctx.scope.find(value.id)
        if isinstance(found, (View, Alias)) or (isinstance(found, Variable) and found.type.shape):
            target, extents = (found.target, found.shape) if isinstance(found, Alias) else (found, None)
            ctx.bind(node.name, Alias(node.name, target, node.span, extents))
            return
    if isinstance(value, syn.Call) and value.function == "flat" and _flat(ctx, node, value):
        return
    if isinstance(value, syn.Index) and isinstance(value.value, syn.Name):
        found = ctx.scope.find(value.value.id)
        if isinstance(found, Tensor):
            _let_slice(ctx, node, value, found)
            return
    ctx.bind(node.name, Bound(node.name, named(ctx, expr.evaluate(ctx, value), node.name), node.span))


def _let_slice(ctx: Context, node: syn.Let, value: syn.Index, tensor: Tensor) -> None:
    param = tensor.param
    part = expr.make_slice(ctx, value, f"tensor `{param.name}`", param.dims)
    if not part.shape or slices.masked(ctx, param, part):
        loaded = expr.element_of(ctx, slices.load(ctx, param, part, node.name), value)
        ctx.bind(node.name, Bound(node.name, loaded, node.span))
        return
    view = View(node.name, param, part.values(ctx), part.sizes, TileType(param.element, part.shape), value.span)
    ctx.views.append(view)
    ctx.bind(node.name, view)


def _flat(ctx: Context, node: syn.Let, value: syn.Call) -> bool:
    """`let f = flat(t)` of a tile variable or view is a view under another shape."""
    if len(value.args) != 1 or not isinstance(value.args[0], syn.Name) or "flat" in ctx.module.functions:
        return False
    found = ctx.scope.find(value.args[0].id)
    if isinstance(found, Alias):
        found = found.target
    if not isinstance(found, (Variable, View)) or len(found.type.shape) != 2:
        return False
    ctx.bind(node.name, Alias(node.name, found, node.span, (1, found.type.size)))
    return True


def var(ctx: Context, node: syn.Var) -> None:
    index = False
    if node.type is not None:
        kind = tile_type(ctx, node.type)
        if node.value is None:
            if not kind.shape:
                ctx.fail(f"scalar `{node.name}` has no value", node, "only a tile may be declared without one")
            value = ctx.zero(kind.element, kind.shape, node.span)
        else:
            value = ctx.value(typed(ctx, kind, node.value), node.span)
    else:
        if node.value is None:
            ctx.fail(f"`{node.name}` has neither a type nor a value", node, "give it one of the two")
        operand = expr.evaluate(ctx, node.value)
        index = isinstance(operand, Scalar) and operand.index
        value = ctx.value(operand, node.span)
        kind = value.type
    named(ctx, value, node.name)
    ctx.bind(node.name, Variable(node.name, kind, value, node.span, index))


def named(ctx: Context, operand: Operand, name: str) -> Operand:
    """Gives a value its variable's name, for messages and listings; shared values of the entry keep theirs."""
    value = operand if isinstance(operand, Value) else operand.value
    if value is not None and not value.name and not any(value is shared for shared in ctx.cache.values()):
        value.name = name
    return operand


# ---- assignments ------------------------------------------------------------------------------------------------


def assign(ctx: Context, node: syn.Assign) -> None:
    target = node.target
    base = target.value if isinstance(target, syn.Index) else target
    assert isinstance(base, syn.Name)
    found = ctx.scope.find(base.id)
    if found is None:
        _undeclared(ctx, node, base)
    if isinstance(found, Tensor):
        if isinstance(target, syn.Name):
            ctx.fail(
                f"tensor `{base.id}` is assigned as a whole", target, f"store to a slice of it: {base.id}[i:+n] = ..."
            )
        _assign_tensor(ctx, node, target, found)
        return
    if not isinstance(found, Variable):
        _read_only(ctx, base, found)
    if isinstance(target, syn.Index):
        _assign_part(ctx, node, target, found)
    elif found.type.shape:
        found.value = _assign_tile(ctx, node, found)
        named(ctx, found.value, found.name)
    else:
        found.value = _assign_scalar(ctx, node, found)


def _undeclared(ctx: Context, node: syn.Assign, base: syn.Name) -> NoReturn:
    if isinstance(node.target, syn.Index) or node.op != "=":
        expr.unknown_name(ctx, base)
    ctx.fail(
        f"`{base.id}` is assigned but not declared",
        base,
        f"{say.closest(base.id, ctx.scope.visible())}declare it with {say.let(ctx.spelling, base.id)} "
        f"(never changes) or {say.var(ctx.spelling, base.id)}",
    )


def _read_only(ctx: Context, base: syn.Name, found: Bound | View | Alias) -> NoReturn:
    what = found.what if isinstance(found, Bound) else "a let"
    hint = f"declare it as a variable: {say.var(ctx.spelling, base.id)}"
    if what != "a let":
        hint = f"copy it into a variable of another name: {say.var(ctx.spelling, 'copy').replace('...', base.id)}"
    ctx.fail(f"`{base.id}` is {what} and cannot be assigned to", base, hint)


def _assign_scalar(ctx: Context, node: syn.Assign, found: Variable) -> Value:
    value = expr.scalar(ctx, node.value, f"the value of scalar `{found.name}`")
    if node.op != "=":
        old = index_value(found.value) if found.index else Scalar(found.type.element, found.value)
        value = ops.scalar_binary(ctx, node.op[:-1], old, value, node)
    return ctx.value(ops.convert(ctx, value, found.type.element, node.value), node.span)


def _assign_tile(ctx: Context, node: syn.Assign, found: Variable) -> Value:
    kind, value = found.type, node.value
    if node.op in ("=", "+=") and is_dot(ctx, value):
        assert isinstance(value, syn.Call)
        alias = any(isinstance(arg, syn.Name) and _refers(ctx, arg, found) for arg in value.args)
        return dot_into(ctx, value, kind, found.value if node.op == "+=" else None, alias)
    return updated(ctx, node, lambda: found.value, kind)


def updated(ctx: Context, node: syn.Assign, old: Callable[[], Value], kind: TileType) -> Value:
    """The new contents of a tile-shaped target: `old()` reads the present ones where the operator needs them."""
    if node.op == "=":
        return ops.fit(ctx, expr.into(ctx, node.value, kind.element), kind.shape, node.value.span, node.value)
    op = node.op[:-1]
    right = expr.toward(ctx, node.value, kind.element) if op in syn.ARITHMETIC else expr.evaluate(ctx, node.value)
    result = ops.binary(ctx, op, old(), right, node, kind.element)
    assert isinstance(result, Value)
    if result.shape != kind.shape:
        ops.fit(ctx, right, kind.shape, node.span, node.value)
    return ctx.value(ops.convert(ctx, result, kind.element, node), node.span)


def _refers(ctx: Context, node: syn.Name, variable: Variable) -> bool:
    found = ctx.scope.find(node.id)
    return found is variable or (isinstance(found, Alias) and found.target is variable)


def dot_into(ctx: Context, call: syn.Call, kind: TileType, seed: Value | None, alias: bool) -> Value:
    """A product into a target of a declared type (rule 3): `seed` is the old value under `+=`."""
    if len(call.args) != 2:
        ctx.fail(f"{call.function} takes 2 arguments, found {len(call.args)}", call, f"{call.function}(a, b)")
    a, b = expr.tiles(ctx, call, [expr.evaluate(ctx, arg) for arg in call.args])
    shape = shapes(ctx, call, a, b)
    if (shape.m, shape.n) != kind.shape:
        ctx.fail(
            f"the product is {shape.m}x{shape.n}, the target is {show(kind.element, kind.shape)}",
            call,
            f"{show(a.element, a.shape)} and {show(b.element, b.shape)} give [{shape.m}, {shape.n}]",
        )
    acc = target_type(ctx, call, a, b, kind.element)
    if seed is not None and acc == kind.element and not alias:
        return contract(ctx, call, a, b, acc, seed)
    product: Operand = contract(ctx, call, a, b, acc, alias=alias)
    if seed is not None:
        product = ops.binary(ctx, "+", seed, product, call, kind.element)
    return ctx.value(ops.convert(ctx, product, kind.element, call), call.span)


def _assign_part(ctx: Context, node: syn.Assign, target: syn.Index, found: Variable) -> None:
    """An element or a slice of a tile variable."""
    if not found.type.shape:
        ctx.fail(f"scalar `{found.name}` has no axes to index", target, "only tensors and tiles take subscripts")
    part = expr.make_slice(ctx, target, f"tile `{found.name}`", found.type.shape)
    kind = TileType(found.type.element, part.shape)
    if not part.shape:
        value = _element(ctx, node, kind.element, lambda: slices.extract(ctx, found.value, part))
    elif node.op in ("=", "+=") and is_dot(ctx, node.value):
        assert isinstance(node.value, syn.Call)
        alias = any(isinstance(arg, syn.Name) and _refers(ctx, arg, found) for arg in node.value.args)
        seed = slices.extract(ctx, found.value, part) if node.op == "+=" else None
        value = dot_into(ctx, node.value, kind, seed, alias)
    else:
        value = updated(ctx, node, lambda: slices.extract(ctx, found.value, part), kind)
    found.value = slices.insert(ctx, found.value, part, value, node)


def _assign_tensor(ctx: Context, node: syn.Assign, target: syn.Index, tensor: Tensor) -> None:
    """A store to an element or a slice of a tensor."""
    param = tensor.param
    part = expr.make_slice(ctx, target, f"tensor `{param.name}`", param.dims)
    kind = TileType(param.element, part.shape)

    def old() -> Value:
        return slices.load(ctx, param, part)

    if not part.shape:
        if node.op != "=":
            ctx.note("race", f"`{param.name}[...] {node.op}` happens once per CTA; CTAs that meet here race", node.span)
        value = _element(ctx, node, kind.element, old)
    elif node.op in ("=", "+=") and is_dot(ctx, node.value):
        assert isinstance(node.value, syn.Call)
        if slices.masked(ctx, param, part, split_loops=False):
            ctx.fail(
                f"a {node.value.function} goes straight into a slice of `{param.name}` that may be cut off at its edge",
                node,
                "accumulate into a tile first and store that, or promise whole tiles with "
                f"{say.attribute(ctx.spelling, 'aligned', 'DIM=...')}",
            )
        value = dot_into(ctx, node.value, kind, old() if node.op == "+=" else None, False)
    else:
        value = updated(ctx, node, old, kind)
    slices.store(ctx, param, part, value, node)


def _element(ctx: Context, node: syn.Assign, element: Format, old: Callable[[], Value]) -> Value:
    """The new value of one element of a tensor or tile."""
    value = expr.scalar(ctx, node.value, "the value of one element")
    if node.op != "=":
        present = Scalar(element, old())
        if element.is_integer and not value.format.is_float:
            present = ops.to_index(ctx, present, node)
        value = ops.scalar_binary(ctx, node.op[:-1], present, value, node)
    if (element == PRED) != (value.format == PRED):
        ctx.fail(
            f"{describe(value)} is stored in an element of type {show(element, ())}", node.value, "compare: x != 0"
        )
    return ctx.value(ops.convert(ctx, value, element, node.value), node.span)


def expression(ctx: Context, node: syn.ExprStmt) -> None:
    """An expression for its effect: a function of the module, or a barrier."""
    value = node.value
    if isinstance(value, syn.Call) and value.function in ctx.module.functions:
        ctx.inline(ctx, value)
        return
    expr.evaluate(ctx, value)
    if not (isinstance(value, syn.Call) and value.function in ("grid_barrier", "barrier")):
        ctx.note("unused", "the value of this expression is not used", node.span)
