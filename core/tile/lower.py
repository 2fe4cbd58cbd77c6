"""From the syntax tree and bound constants to the tile program.

`lower` binds autotune constants, dims and parameters, checks promises, and lowers the body; the rules of the language
are in the siblings:
 lower_base      names, scalars, emission              lower_expr      expressions, typed targets
 lower_ops       operators, conversions                lower_stmt      let, var, assignment
 lower_slice     subscripts, masks, loads and stores   lower_control   if, for, while, jumps
 lower_contract  dot and dot_t, path choice            lower_gemm      the GEMM-loop pattern
 lower_builtins  reductions and the other builtins     lower_function  inlining

Rules
 1. A dim named like an autotune constant is that constant; every other dim is symbolic, in order of first mention
    (phobos-language.md C.1, C.7). Symbolic dims have known divisor 4 (C.2).
 2. Integer parameters are index scalars, computed in 64 bits; their codes have the declared width (C.1, 0.2).
 3. @aligned promises hold for symbolic dims at launch, for constant ones here (A.3).
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import Span
from ..formats import PRED
from ..lang import spelling as say
from ..lang import syntax as syn
from ..lang.attributes import Attributes, read_attributes
from ..lang.types import ELEMENTS
from . import lower_expr as expr
from .lower_base import Bound, Context, Frame, Scalar, Scope, Tensor, Variable, index_constant, index_value
from .lower_control import block, jumps
from .lower_function import inline
from .program import Block, Op, Program, Promise, ScalarParam, TensorParam, TileType, Value, walk

DIM_DIVISOR = 4


def lower(module: syn.Module, kernel: syn.Kernel, constants: Mapping[str, int]) -> Program:
    """The tile program of a kernel with its autotune constants bound. Raises KernelError."""
    attributes = read_attributes(kernel, module.spelling)
    scope = Scope()
    ctx = Context(
        module, kernel, attributes, dict(constants), {}, scope, scope, Frame(kernel.name, kernel=True), inline
    )
    for message, span in attributes.notes:
        ctx.note("attribute", message, span)
    for tunable in attributes.tunables:
        value = index_constant(constants[tunable.name])
        scope.names[tunable.name] = Bound(tunable.name, value, tunable.span, "an autotune constant")
    _check_names(ctx, kernel, attributes)
    _check_key(ctx, kernel, attributes)
    body = Block()
    ctx.blocks.append(ctx.entry)
    tensors = _tensors(ctx, kernel)
    dims = _dims(ctx, tensors)
    promises = _promises(ctx, attributes, tensors, dims)
    ctx.scope = Scope(scope)
    scalars = _parameters(ctx, kernel, tensors)
    last = kernel.body[-1] if kernel.body else None
    early = syn.Return in jumps(kernel.body[:-1] if isinstance(last, syn.Return) else kernel.body)
    if early:
        ctx.frame.alive = Variable("alive", TileType(PRED), ctx.constant(PRED, 1, kernel.span), kernel.span)
    with ctx.nested(body):
        block(ctx, kernel.body, top=True)
    return Program(
        name=kernel.name,
        tensors=tensors,
        scalars=scalars,
        parameters=tuple(param.name for param in kernel.params),
        constants=dict(constants),
        dims=dims,
        threads=attributes.threads,
        promises=promises,
        body=Block(ops=[*_used(ctx.entry, body), *body.ops]),
        notes=ctx.notes,
    )


def _used(entry: Block, body: Block) -> list[Op]:
    """The entry's operations whose results something reads."""
    read = {id(value) for op in [*entry.ops, *walk(body)] for value in op.operands}
    read |= {id(value) for op in walk(body) for inner in op.blocks for value in inner.yields}
    return [op for op in entry.ops if any(id(value) in read for value in op.results)]


def _dim_names(kernel: syn.Kernel) -> set[str]:
    """Names that stand in the shapes of tensor parameters."""
    return {
        node.id
        for param in kernel.params
        if isinstance(param.type, syn.TensorType)
        for dim in param.type.dims
        for node in syn.walk(dim)
        if isinstance(node, syn.Name)
    }


def _check_key(ctx: Context, kernel: syn.Kernel, attributes: Attributes) -> None:
    """A tuning key names what a search does not vary: dims, scalar parameters, constants with one value."""
    choices = {tunable.name: tunable.choices for tunable in attributes.tunables}
    tensors = {param.name for param in kernel.params if isinstance(param.type, syn.TensorType)}
    known = _dim_names(kernel) | {param.name for param in kernel.params} - tensors
    for attr in kernel.attrs:
        for arg in attr.args if attr.name == "key" else ():
            name = arg.value.id  # type: ignore[attr-defined]  # read_attributes has checked it
            if len(set(choices.get(name, ()))) > 1:
                ctx.fail(f"the search varies `{name}`, so it cannot be part of the key", arg, "leave it out")
            if name in tensors:
                ctx.fail(f"`{name}` is a tensor; a key has numbers", arg, "name its dims")
            if name not in known and name not in choices:
                hint = f"{say.closest(name, known)}choose from {', '.join(sorted(known)) or 'nothing'}"
                ctx.fail(f"the key names `{name}`, which is no dim and no scalar parameter", arg, hint)


def _check_names(ctx: Context, kernel: syn.Kernel, attributes: Attributes) -> None:
    """Parameters, dims and constants share one space of names."""
    seen: dict[str, Span] = {}
    tuned = {tunable.name for tunable in attributes.tunables}
    dims = _dim_names(kernel)
    for param in kernel.params:
        if param.name in seen:
            ctx.fail(f"parameter `{param.name}` is given twice", param, "rename one of the two")
        seen[param.name] = param.span
        if param.name in tuned:
            ctx.fail(f"`{param.name}` is a parameter and an autotune constant", param, "rename one of the two")
        if param.name in dims:
            hint = "a launch takes dims from the arrays' shapes: leave the parameter out, or rename one of the two"
            ctx.fail(f"`{param.name}` is a parameter and a dim of a tensor", param, hint)


def _tensors(ctx: Context, kernel: syn.Kernel) -> tuple[TensorParam, ...]:
    tensors = []
    for param in kernel.params:
        match param.type:
            case syn.TensorType(element=element, dims=dims):
                extents = tuple(_extent(ctx, dim) for dim in dims)
                tensors.append(TensorParam(param.name, ELEMENTS[element.name], extents, param.span))
            case syn.TileType():
                ctx.fail(
                    f"parameter `{param.name}` is a tile",
                    param.type,
                    "a kernel takes tensors and scalars; load a slice",
                )
            case None:
                ctx.fail(f"parameter `{param.name}` has no type", param, "give it a scalar or tensor type")
    return tuple(tensors)


def _extent(ctx: Context, dim: syn.Expr) -> int | str:
    """A dim as a constant or the name of a symbolic dim (rule 1)."""
    if isinstance(dim, syn.Name) and ctx.scope.find(dim.id) is None:
        return dim.id
    free = [n for n in syn.walk(dim) if isinstance(n, syn.Name) and ctx.scope.find(n.id) is None]
    if free:
        ctx.fail(
            f"a dim computed from `{free[0].id}` has no name",
            dim,
            f"give the dim a name of its own, or make `{free[0].id}` a constant with "
            f"{say.tune(ctx.spelling, free[0].id)}",
        )
    value = expr.index(ctx, dim, "a dim").const
    if not isinstance(value, int) or value <= 0:
        ctx.fail(f"a dim is {value}", dim, "extents are greater than 0")
    return value


def _dims(ctx: Context, tensors: tuple[TensorParam, ...]) -> tuple[str, ...]:
    """The symbolic dims in order of first mention, bound as index scalars."""
    names: dict[str, Span] = {}
    for tensor in tensors:
        for dim in tensor.dims:
            if isinstance(dim, str):
                names.setdefault(dim, tensor.span)
    for name, span in names.items():
        scalar = index_value(ctx.dim(name, span), DIM_DIVISOR)
        ctx.scope.names[name] = Bound(name, scalar, span, "a dim")
    return tuple(names)


def _promises(
    ctx: Context, attributes: Attributes, tensors: tuple[TensorParam, ...], dims: tuple[str, ...]
) -> tuple[Promise, ...]:
    """The @aligned promises with their multiples bound (rule 3)."""
    promises = []
    for entry in attributes.aligned:
        multiple = ctx.constants[entry.multiple] if isinstance(entry.multiple, str) else entry.multiple
        if multiple <= 0:
            ctx.fail(f"@aligned: `{entry.dim}` is promised a multiple of {multiple}", entry.span, "it must be > 0")
        if entry.dim in dims:
            ctx.promises[entry.dim] = multiple
            promises.append(Promise(entry.dim, multiple, entry.span))
            continue
        if entry.dim in ctx.constants:
            if ctx.constants[entry.dim] % multiple:
                value = ctx.constants[entry.dim]
                ctx.fail(
                    f"@aligned promises a multiple of {multiple} for `{entry.dim}`, which is {value}",
                    entry.span,
                    "change the constant or the promise",
                )
            continue
        listed = ", ".join(dims) or "none"
        ctx.fail(
            f"@aligned names `{entry.dim}`, which is no dim of a tensor parameter",
            entry.span,
            f"{say.closest(entry.dim, dims)}dims: {listed}",
        )
    return tuple(promises)


def _parameters(ctx: Context, kernel: syn.Kernel, tensors: tuple[TensorParam, ...]) -> tuple[ScalarParam, ...]:
    """Binds the parameters: tensors as memory, integers as index scalars (rule 2), other scalars as themselves."""
    by_name = {tensor.name: tensor for tensor in tensors}
    scalars = []
    for param in kernel.params:
        if param.name in by_name:
            ctx.bind(param.name, Tensor(by_name[param.name]))
            continue
        assert isinstance(param.type, syn.ScalarType)
        element = ELEMENTS[param.type.name]
        scalar = ScalarParam(param.name, Value(TileType(element), param.name), param.span)
        scalars.append(scalar)
        if not element.is_integer:
            operand = Scalar(element, scalar.value)
        elif element.bits == 64:
            operand = index_value(scalar.value)
        else:
            operand = index_value(ctx.parameter(scalar))
        ctx.bind(param.name, Bound(param.name, operand, param.span, "a parameter"))
    return tuple(scalars)
