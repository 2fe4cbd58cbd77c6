"""Functions, inlined at every call (phobos-language.md A.2, B.2; G is silent, so these are decisions).

Rules
 1. Parameters are read-only; a tensor, view or tile variable given by name is passed as itself, other arguments are
    evaluated once. A typed scalar parameter converts; a typed tile or tensor parameter must match, its free dims take
    the argument's extents.
 2. A function sees its parameters, and the kernel's autotune constants and dims; not the caller's names.
 3. Early returns go through a slot whose type the returns agree on; every path of a function with a value returns one.
 4. Recursion is an error, and so are more than MOST_CALLS inlined calls, so that lowering always ends.
"""

from __future__ import annotations

from ..errors import KernelError
from ..formats import PRED
from ..lang import spelling as say
from ..lang import syntax as syn
from ..lang.types import ELEMENTS, show
from . import lower_expr as expr
from . import lower_ops as ops
from . import lower_stmt as stmt
from .lower_base import (
    Alias,
    Bound,
    Context,
    Frame,
    Operand,
    Scalar,
    Scope,
    Tensor,
    Variable,
    View,
    index_constant,
    index_value,
)
from .lower_control import always_jumps, block, jumps
from .program import TileType, Value

MOST_CALLS = 4096


def inline(ctx: Context, call: syn.Call) -> Operand | None:
    """The value of a call of a module's function, or None where it returns nothing."""
    function = ctx.module.functions[call.function]
    if any(open_.function == call.function for open_ in ctx.calls):
        ctx.fail(
            f"`{call.function}` calls itself", call, "functions are inlined, so recursion never ends; write a loop"
        )
    ctx.inlined += 1
    if ctx.inlined > MOST_CALLS:
        ctx.fail(f"more than {MOST_CALLS} calls are inlined", call, "call functions fewer times, or in a loop")
    if len(call.args) != len(function.params):
        names = ", ".join(param.name for param in function.params)
        ctx.fail(
            f"`{call.function}` takes {say.count(len(function.params), 'argument')}, found {len(call.args)}",
            call,
            f"it is declared as {call.function}({names})",
        )
    scope = Scope(ctx.root)
    for param, arg in zip(function.params, call.args, strict=True):
        _bind(ctx, scope, param, arg)
    outer_scope, outer_frame = ctx.scope, ctx.frame
    ctx.scope = scope
    ctx.calls.append(call)
    try:
        return _body(ctx, function, call)
    except KernelError as problem:
        if problem.span.source is not call.span.source or f"called at {call.span}" in problem.hint:
            raise
        where = f"in `{function.name}`, called at {call.span}"
        if problem.span == call.span:
            raise
        raise KernelError(problem.message, problem.span, f"{problem.hint} ({where})".strip()) from None
    finally:
        ctx.calls.pop()
        ctx.scope, ctx.frame = outer_scope, outer_frame


def _body(ctx: Context, function: syn.Function, call: syn.Call) -> Operand | None:
    body = function.body
    early = syn.Return in jumps(body[:-1] if body and isinstance(body[-1], syn.Return) else body)
    valued = any(isinstance(n, syn.Return) and n.value is not None for s in body for n in syn.walk(s))
    if valued and not always_jumps(body):
        ctx.fail(f"`{function.name}` may end without returning a value", function, "end every path with a return")
    bare = next((n for s in body for n in syn.walk(s) if isinstance(n, syn.Return) and n.value is None), None)
    if valued and bare is not None:
        ctx.fail(f"`{function.name}` returns a value elsewhere but not here", bare, "return a value on every path")
    frame = Frame(function.name)
    if early:
        if valued:
            frame.result = _slot(ctx, function)
        frame.alive = Variable("alive", TileType(PRED), ctx.constant(PRED, 1, call.span), call.span)
    ctx.frame = frame
    with ctx.nested(ctx.blocks[-1]):
        block(ctx, body, top=True)
    if frame.result is not None:
        value = frame.result.value
        result: Operand | None = value if value.shape else Scalar(value.element, value)
        if frame.result.index:
            result = index_value(value)
    else:
        result = frame.returned[-1][0] if frame.returned else None
    if function.returns is not None and result is not None:
        result = _declared(ctx, function.returns, result, function)
    return result


def _slot(ctx: Context, function: syn.Function) -> Variable:
    """The variable that early returns write, typed by a dry run of the body (rule 3)."""
    probe = Frame(function.name)
    ctx.frame = probe
    probe.alive = Variable("alive", TileType(PRED), ctx.constant(PRED, 1, function.span), function.span)
    with ctx.dry():
        block(ctx, function.body, top=True)
    operands = [(operand, span) for operand, span in probe.returned if operand is not None]
    first = operands[0][0]
    kind, index = _kind(first), isinstance(first, Scalar) and first.index
    for operand, span in operands:
        if _kind(operand) != kind:
            ctx.fail(
                f"`{function.name}` returns {ops.describe(operand)} here and {ops.describe(first)} in line "
                f"{operands[0][1].line}",
                span,
                "convert, so that every return has one type",
            )
    return Variable("result", kind, ctx.zero(kind.element, kind.shape, function.span), function.span, index)


def _kind(operand: Operand) -> TileType:
    return TileType(operand.format) if isinstance(operand, Scalar) else operand.type


def _declared(ctx: Context, returns: syn.Type, result: Operand, node: syn.Node) -> Operand:
    kind = stmt.tile_type(ctx, returns)
    if ops.shape(result) != kind.shape:
        ctx.fail(f"the result is {ops.describe(result)}, declared {show(kind.element, kind.shape)}", returns, "")
    return ops.convert(ctx, result, kind.element, node)


def _bind(ctx: Context, scope: Scope, param: syn.Param, arg: syn.Expr) -> None:
    """Binds one parameter in the function's scope (rule 1); the argument is evaluated in the caller's."""
    found = ctx.scope.find(arg.id) if isinstance(arg, syn.Name) else None
    if isinstance(found, Tensor):
        if param.type is not None:
            _match(ctx, scope, param, found.param.element.name, tuple(found.param.dims), arg, syn.TensorType)
        scope.names[param.name] = found
        return
    if isinstance(found, (Alias, View)) or (isinstance(found, Variable) and found.type.shape):
        target, extents = (found.target, found.shape) if isinstance(found, Alias) else (found, None)
        if param.type is not None:
            shape = extents or target.type.shape
            _match(ctx, scope, param, target.type.element.name, shape, arg, syn.TileType)
        scope.names[param.name] = Alias(param.name, target, param.span, extents)
        return
    operand = expr.evaluate(ctx, arg)
    if isinstance(operand, Value):
        if param.type is not None:
            _match(ctx, scope, param, operand.element.name, operand.shape, arg, syn.TileType)
    elif param.type is not None:
        if not isinstance(param.type, syn.ScalarType):
            ctx.fail(f"`{param.name}` takes a tile, found {ops.describe(operand)}", arg, "pass a tile or a slice")
        operand = ops.convert(ctx, operand, ELEMENTS[param.type.name], arg)
    scope.names[param.name] = Bound(param.name, operand, param.span, "a parameter")


def _match(
    ctx: Context, scope: Scope, param: syn.Param, element: str, dims: tuple[int | str, ...], arg: syn.Expr, kind: type
) -> None:
    """Checks a tile or tensor argument against the declared type and binds its free dims."""
    declared, what = param.type, "tensor" if kind is syn.TensorType else "tile"
    names = {fmt.name: name for name, fmt in ELEMENTS.items()}
    given = f"{what} {names[element]}[{', '.join(map(str, dims))}]"
    if not isinstance(declared, kind) or not isinstance(declared, (syn.TileType, syn.TensorType)):
        ctx.fail(f"`{param.name}` does not take a {what}, found {given}", arg, "pass what the function declares")
    if ELEMENTS[declared.element.name].name != element or len(declared.dims) != len(dims):
        ctx.fail(
            f"`{param.name}` takes {declared.element.name} of rank {len(declared.dims)}, found {given}",
            arg,
            f"convert it first: {declared.element.name}(x)",
        )
    for dim, extent in zip(declared.dims, dims, strict=True):
        bound = index_constant(extent) if isinstance(extent, int) else _symbolic(ctx, extent)
        if isinstance(dim, syn.Name) and dim.id not in ctx.constants and dim.id not in scope.names:
            scope.names[dim.id] = Bound(dim.id, bound, dim.span, "a dim")
            continue
        outer, ctx.scope = ctx.scope, scope
        want = expr.index(ctx, dim, "a dim")
        ctx.scope = outer
        if (want.const, want.linear) != (bound.const, bound.linear):
            need = want.const if want.const is not None else "another dim"
            ctx.fail(f"`{param.name}` has extent {extent} where {need} is declared", arg, f"found {given}")


def _symbolic(ctx: Context, dim: str) -> Scalar:
    found = ctx.root.find(dim)
    assert isinstance(found, Bound) and isinstance(found.operand, Scalar)
    return found.operand
