"""The GEMM-loop pattern (phobos-language.md C.4, D.3), which decides two things about bits.

Rules
 1. The pattern: `var acc: tile<f32|f16>[m, n] = constant`; a for loop of two untyped slice bindings of f16 or f32
    tensors and `acc += dot(a, b)` of exactly those; then `C[slice] = acc | s*acc | acc*s`, or `let p = C[..]` and
    `C[slice] = [s*]acc + [s2*]p` in either order; no slice masked (a K slice that rides the loop counts as whole), acc
    not used afterwards, and the tensor-core gate passes.
 2. Inside it an f16 accumulator runs on HMMA.16816.F16; outside it does not (C.5).
 3. Its epilogue is computed in f32: f16 operands widened, FMUL, FMUL, FADD, one rounding to C's type; `p` is read
    again from the store's own slice.
Where the gate refuses, the statements mean the same one by one, so nothing is matched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import KernelError
from ..formats import F16, F32, S64, Format
from ..lang import syntax as syn
from . import lower_expr as expr
from . import lower_ops as ops
from . import lower_slice as slices
from . import lower_stmt as stmt
from .lower_base import Bound, Context, Operand, Scalar, Tensor, Variable, index_value
from .lower_contract import Shape, refusal
from .program import TileType, Value


@dataclass(frozen=True)
class Term:
    """[scale *] name of an epilogue."""

    scale: syn.Expr | None
    name: str


@dataclass(frozen=True)
class Plan:
    """A recognized GEMM: its statements, its product, and the epilogue's terms (the accumulator's first)."""

    accumulator: syn.Var
    loop: syn.For
    previous: syn.Let | syn.Var | None
    store: syn.Assign
    product: syn.Call
    terms: tuple[Term, ...]

    @property
    def length(self) -> int:
        """How many statements it covers."""
        return 3 if self.previous is None else 4


def match(ctx: Context, statements: Sequence[syn.Stmt]) -> Plan | None:
    """The pattern at the head of these statements, or None."""
    plan = _by_text(ctx, statements)
    if plan is None or ctx.attributes.tensorcore is None:
        return None
    try:
        with ctx.dry():
            return plan if _fits(ctx, plan) else None
    except KernelError:
        return None  # the statements, lowered one by one, report it in their own words


def _by_text(ctx: Context, statements: Sequence[syn.Stmt]) -> Plan | None:
    if len(statements) < 3:
        return None
    acc, loop = statements[0], statements[1]
    if not (isinstance(acc, syn.Var) and isinstance(acc.type, syn.TileType) and acc.value is not None):
        return None
    constant = isinstance(acc.value, (syn.FloatLit, syn.IntLit, syn.Name))
    if not (constant and acc.type.element.name in ("f16", "f32") and isinstance(loop, syn.For)):
        return None
    product = _loop_product(loop, acc.name)
    previous, at = None, 2
    second = statements[2]
    if isinstance(second, (syn.Let, syn.Var)) and second.type is None and isinstance(second.value, syn.Index):
        previous, at = second, 3
    store = statements[at] if len(statements) > at else None
    if product is None or not isinstance(store, syn.Assign) or store.op != "=":
        return None
    if not isinstance(store.target, syn.Index) or not isinstance(store.target.value, syn.Name):
        return None
    terms = _epilogue(store.value, acc.name, previous)
    used_later = any(isinstance(n, syn.Name) and n.id == acc.name for s in statements[at + 1 :] for n in syn.walk(s))
    if terms is None or used_later:
        return None
    if previous is not None and not _slices(previous.value, store.target.value.id):
        return None
    return Plan(acc, loop, previous, store, product, terms)


def _slices(node: syn.Expr | None, tensor: str) -> bool:
    return isinstance(node, syn.Index) and isinstance(node.value, syn.Name) and node.value.id == tensor


def _loop_product(loop: syn.For, acc: str) -> syn.Call | None:
    """The dot of a loop body of exactly two slice bindings and `acc += dot(a, b)`."""
    if len(loop.body) != 3:
        return None
    *bindings, last = loop.body
    names = []
    for node in bindings:
        if not (isinstance(node, (syn.Let, syn.Var)) and node.type is None and isinstance(node.value, syn.Index)):
            return None
        names.append(node.name)
    if not (isinstance(last, syn.Assign) and last.op == "+=" and last.target == syn.Name(acc, span=last.span)):
        return None
    call = last.value
    if not (isinstance(call, syn.Call) and call.function == "dot" and len(call.args) == 2):
        return None
    used = [arg.id for arg in call.args if isinstance(arg, syn.Name)]
    return call if len(used) == 2 and sorted(used) == sorted(names) and len(set(names)) == 2 else None


def _epilogue(node: syn.Expr, acc: str, previous: syn.Let | syn.Var | None) -> tuple[Term, ...] | None:
    if previous is None:
        term = _term(node, acc, either_side=True)
        return None if term is None else (term,)
    if not (isinstance(node, syn.Binary) and node.op == "+"):
        return None
    for first, second in ((node.left, node.right), (node.right, node.left)):
        terms = _term(first, acc, False), _term(second, previous.name, False)
        if terms[0] is not None and terms[1] is not None:
            return terms[0], terms[1]
    return None


def _term(node: syn.Expr, name: str, either_side: bool) -> Term | None:
    """`name`, `s * name`, and where `either_side` also `name * s`; s a literal or a name."""
    if isinstance(node, syn.Name) and node.id == name:
        return Term(None, name)
    if not (isinstance(node, syn.Binary) and node.op == "*"):
        return None
    for scale, tile in ((node.left, node.right), (node.right, node.left))[: 2 if either_side else 1]:
        literal = isinstance(scale, (syn.FloatLit, syn.IntLit, syn.Name))
        if literal and isinstance(tile, syn.Name) and tile.id == name and scale != tile:
            return Term(scale, name)
    return None


def _fits(ctx: Context, plan: Plan) -> bool:
    """Types, shapes, masks and the gate of a textual match; emits into a dry run."""
    kind = stmt.tile_type(ctx, plan.accumulator.type)  # type: ignore[arg-type]
    if len(kind.shape) != 2 or "dot" in ctx.module.functions:
        return False
    assert plan.accumulator.value is not None
    start = expr.evaluate(ctx, plan.accumulator.value)
    target = plan.store.target
    assert isinstance(target, syn.Index)
    if not isinstance(start, Scalar) or start.const is None or not _whole(ctx, target, kind.shape):
        return False
    for term in plan.terms:
        if isinstance(term.scale, syn.Name) and not isinstance(expr.evaluate(ctx, term.scale), Scalar):
            return False
    operands = _panels(ctx, plan)
    if operands is None:
        return False
    (a, k), (b, other) = operands["a"], operands["b"]
    shape = Shape(kind.shape[0], kind.shape[1], k[1])
    if (k[0], other) != (kind.shape[0], (k[1], kind.shape[1])):
        return False
    return refusal(True, ctx.threads, a, b, kind.element, shape, False, True) is None


def _panels(ctx: Context, plan: Plan) -> dict[str, tuple[Format, tuple[int, ...]]] | None:
    """Element type and shape of the two panels, or None where one is masked or of another type."""
    loop = plan.loop
    found: dict[str, tuple[Format, tuple[int, ...]]] = {}
    step = None if loop.step is None else expr.index(ctx, loop.step, "the step")
    lo = expr.index(ctx, loop.lo, "the start")
    ctx.loop_count += 1
    divisor = math.gcd(lo.divisor, 1 if step is None else step.divisor)
    counter = index_value(Value(TileType(S64), loop.var), divisor, frozenset({ctx.loop_count}))
    with ctx.nested(ctx.blocks[-1]):
        ctx.bind(loop.var, Bound(loop.var, counter, loop.span))
        for node in loop.body[:2]:
            assert isinstance(node, (syn.Let, syn.Var)) and isinstance(node.value, syn.Index)
            base = node.value.value
            tensor = ctx.scope.find(base.id) if isinstance(base, syn.Name) else None
            if not isinstance(tensor, Tensor) or tensor.param.element not in (F16, F32):
                return None
            part = expr.make_slice(ctx, node.value, "the tensor", tensor.param.dims)
            if len(part.shape) != 2 or slices.masked(ctx, tensor.param, part):
                return None
            first, second = plan.product.args
            key = "a" if first == syn.Name(node.name, span=node.span) else "b"
            found[key] = (tensor.param.element, part.shape)
    return found


def _whole(ctx: Context, target: syn.Index, shape: tuple[int, ...]) -> bool:
    """Whether the store's slice is of an f16 or f32 tensor, has the accumulator's shape and is not masked."""
    assert isinstance(target.value, syn.Name)
    tensor = ctx.scope.find(target.value.id)
    if not isinstance(tensor, Tensor) or tensor.param.element not in (F16, F32):
        return False
    part = expr.make_slice(ctx, target, "the tensor", tensor.param.dims)
    return part.shape == shape and not slices.masked(ctx, tensor.param, part, split_loops=False)


def lower(ctx: Context, plan: Plan, statement: Callable[[Context, syn.Stmt], None]) -> None:
    """Lowers a recognized GEMM: the loop as written, then the epilogue in f32 (rules 2 and 3)."""
    statement(ctx, plan.accumulator)
    outer, ctx.gemm = ctx.gemm, ctx.gemm | {id(plan.product)}
    statement(ctx, plan.loop)
    ctx.gemm = outer
    if plan.previous is not None:
        statement(ctx, plan.previous)
    target, node = plan.store.target, plan.store
    assert isinstance(target, syn.Index) and isinstance(target.value, syn.Name)
    tensor, acc = ctx.scope.find(target.value.id), ctx.scope.find(plan.accumulator.name)
    assert isinstance(tensor, Tensor) and isinstance(acc, Variable)
    part = expr.make_slice(ctx, target, f"tensor `{tensor.param.name}`", tensor.param.dims)
    if len(plan.terms) == 1 and plan.terms[0].scale is None:
        result: Operand = acc.value
    else:
        values: list[Value] = [acc.value]
        if plan.previous is not None:
            values.append(slices.load(ctx, tensor.param, part, plan.previous.name))
        factors = [_scaled(ctx, term, value, node) for term, value in zip(plan.terms, values, strict=True)]
        result = factors[0] if len(factors) == 1 else ops.apply(ctx, "+", factors[0], factors[1], node)
    value = ctx.value(ops.convert(ctx, result, tensor.param.element, node), node.span)
    slices.store(ctx, tensor.param, part, value, node)


def _scaled(ctx: Context, term: Term, value: Value, node: syn.Node) -> Operand:
    """[scale *] value in f32."""
    wide = ops.convert(ctx, value, F32, node)
    if term.scale is None:
        return wide
    scale = ops.convert(ctx, expr.evaluate(ctx, term.scale), F32, term.scale)
    return ops.apply(ctx, "*", scale, wide, node)
