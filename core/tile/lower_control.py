"""Blocks, branches, loops and jumps.

Rules
 1. Loops and branches carry exactly the variables that their bodies assign and that are declared outside.
 2. break, continue and return clear flags: what follows a statement that may jump stands under an If on the flag of
    its block. A loop that can be left carries a flag `live`; once cleared, its remaining trips do nothing.
 3. A branch on a compile-time constant lowers only the arm that is taken.
 4. The GEMM-loop pattern is looked for where a block declares a tile and a loop follows (lower_gemm).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..formats import PRED, S64
from ..lang import syntax as syn
from . import lower_expr as expr
from . import lower_gemm as gemm
from . import lower_ops as ops
from . import lower_slice as slices
from . import lower_stmt as stmt
from .lower_base import Bound, Context, Loop, Scalar, Tensor, Variable, index_constant, index_value
from .program import Block, For, If, TileType, Value, While

JUMPS = (syn.Break, syn.Continue, syn.Return)


# ---- what a list of statements does, by its text -----------------------------------------------------------------


def assigned(statements: Sequence[syn.Stmt]) -> list[str]:
    """Names that are assigned but not declared inside, in order."""
    found: dict[str, None] = {}
    declared: set[str] = set()
    for node in statements:
        if isinstance(node, (syn.Let, syn.Var)):
            declared.add(node.name)
        elif isinstance(node, syn.Assign):
            base = node.target.value if isinstance(node.target, syn.Index) else node.target
            assert isinstance(base, syn.Name)
            if base.id not in declared:
                found[base.id] = None
        for body in _bodies(node):
            hidden = {node.var} if isinstance(node, syn.For) else set()
            found.update(dict.fromkeys(n for n in assigned(body) if n not in declared | hidden))
    return list(found)


def _bodies(node: syn.Stmt) -> list[Sequence[syn.Stmt]]:
    if isinstance(node, (syn.For, syn.While)):
        return [node.body]
    return [node.then, node.orelse] if isinstance(node, syn.If) else []


def jumps(statements: Iterable[syn.Stmt], in_loop: bool = False) -> set[type]:
    """Kinds of jump that leave these statements; those that end at a loop inside do not count."""
    found: set[type] = set()
    for node in statements:
        if isinstance(node, JUMPS) and not (in_loop and not isinstance(node, syn.Return)):
            found.add(type(node))
        for body in _bodies(node):
            found |= jumps(body, in_loop or isinstance(node, (syn.For, syn.While)))
    return found


def always_jumps(statements: Sequence[syn.Stmt]) -> bool:
    """Whether no path reaches the end of these statements."""
    for node in statements:
        if isinstance(node, JUMPS):
            return True
        if isinstance(node, syn.If) and node.orelse and always_jumps(node.then) and always_jumps(node.orelse):
            return True
    return False


def carried(ctx: Context, statements: Sequence[syn.Stmt], own_loop: bool = False) -> list[Variable]:
    """Variables and flags of the surrounding scopes that lowering these statements may change.

    own_loop: the statements are the body of a loop about to be entered, so their breaks and continues end there.
    """
    found = [ctx.scope.find(name) for name in assigned(statements)]
    result = [entry for entry in found if isinstance(entry, Variable)]
    kinds = jumps(statements, own_loop)
    frame = ctx.frame
    flags: list[Variable | None] = []
    if frame.loops and kinds:
        flags.append(frame.loops[-1].run)
        if kinds - {syn.Continue}:
            flags.append(frame.loops[-1].live)
    if syn.Return in kinds:
        flags += [flag for loop in frame.loops for flag in (loop.run, loop.live)]
        flags += [frame.alive, frame.result]
    for flag in flags:
        if flag is not None and flag not in result:
            result.append(flag)
    return result


# ---- blocks -----------------------------------------------------------------------------------------------------


def block(ctx: Context, statements: Sequence[syn.Stmt], top: bool = False) -> None:
    """Lowers statements into the current block; `top`: they are the body of a kernel or function."""
    for position, node in enumerate(statements):
        if top and isinstance(node, syn.Return):
            _final_return(ctx, node)
            _unreachable(ctx, statements[position + 1 :])
            return
        plan = gemm.match(ctx, statements[position:])
        if plan is not None:
            gemm.lower(ctx, plan, statement)
            block(ctx, statements[position + plan.length :], top)
            return
        statement(ctx, node)
        if isinstance(node, JUMPS) or always_jumps([node]):
            _unreachable(ctx, statements[position + 1 :])
            return
        rest = statements[position + 1 :]
        if rest and jumps([node]):
            flag = ctx.frame.loops[-1].run if ctx.frame.loops else ctx.frame.alive
            assert flag is not None
            branch(ctx, flag.value, rest, (), node)
            return


def _unreachable(ctx: Context, rest: Sequence[syn.Stmt]) -> None:
    if rest:
        ctx.note("unreachable", "this statement is never reached", rest[0].span)


def statement(ctx: Context, node: syn.Stmt) -> None:
    match node:
        case syn.Let():
            stmt.let(ctx, node)
        case syn.Var():
            stmt.var(ctx, node)
        case syn.Assign():
            stmt.assign(ctx, node)
        case syn.ExprStmt():
            stmt.expression(ctx, node)
        case syn.If():
            _if(ctx, node)
        case syn.For():
            _for(ctx, node)
        case syn.While():
            _while(ctx, node)
        case syn.Return():
            _return(ctx, node)
        case syn.Break() | syn.Continue():
            _leave(ctx, node)


# ---- branches ---------------------------------------------------------------------------------------------------


def _if(ctx: Context, node: syn.If) -> None:
    condition = expr.condition(ctx, node.condition, "the condition of an if")
    if condition.const is not None:
        taken = node.then if condition.const else node.orelse
        with ctx.nested(ctx.blocks[-1]):
            block(ctx, taken)
        return
    branch(ctx, ctx.value(condition, node.condition.span), node.then, node.orelse, node)


def branch(
    ctx: Context, condition: Value, then: Sequence[syn.Stmt], orelse: Sequence[syn.Stmt], node: syn.Node
) -> None:
    """An If with both arms lowered; the variables that either assigns leave through it."""
    variables = carried(ctx, then)
    variables += [variable for variable in carried(ctx, orelse) if variable not in variables]
    before = [variable.value for variable in variables]
    arms = []
    for statements in (then, orelse):
        with ctx.nested(Block()) as arm:
            block(ctx, statements)
            arm.yields = [variable.value for variable in variables]
        for variable, value in zip(variables, before, strict=True):
            variable.value = value
        arms.append(arm)
    outs = tuple(Value(variable.type, variable.name) for variable in variables)
    for variable, out in zip(variables, outs, strict=True):
        variable.value = out
    ctx.emit(If(node.span, condition, arms[0], arms[1], outs))


# ---- loops ------------------------------------------------------------------------------------------------------


def _flag(ctx: Context, name: str, node: syn.Node) -> Variable:
    return Variable(name, TileType(PRED), ctx.constant(PRED, 1, node.span), node.span)


def _enter(ctx: Context, node: syn.For | syn.While) -> Loop:
    """The flags a loop needs for the jumps in its body."""
    kinds = jumps(node.body)
    live = _flag(ctx, "live", node) if kinds - {syn.Continue} else None
    return Loop(None, live)


def _trip(ctx: Context, node: syn.For | syn.While, loop: Loop) -> None:
    """One trip: the body, under the loop's flags."""
    ctx.frame.loops.append(loop)
    if jumps(node.body):
        loop.run = _flag(ctx, "run", node)
    block(ctx, node.body)
    ctx.frame.loops.pop()


def _guarded_trip(ctx: Context, node: syn.For | syn.While, loop: Loop, variables: list[Variable]) -> None:
    """One trip that happens only while the loop is live."""
    if loop.live is None:
        _trip(ctx, node, loop)
        return
    before = [variable.value for variable in variables]
    with ctx.nested(Block()) as then:
        _trip(ctx, node, loop)
        then.yields = [variable.value for variable in variables]
    outs = tuple(Value(variable.type, variable.name) for variable in variables)
    condition = before[variables.index(loop.live)]
    ctx.emit(If(node.span, condition, then, Block(yields=before), outs))
    for variable, out in zip(variables, outs, strict=True):
        variable.value = out


def _loop_variables(ctx: Context, node: syn.For | syn.While, loop: Loop) -> list[Variable]:
    variables = carried(ctx, node.body, own_loop=True)
    if loop.live is not None:
        variables.append(loop.live)
    _mark_stores(ctx, node)
    return variables


def _mark_stores(ctx: Context, node: syn.For | syn.While) -> None:
    """A live view from outside that a loop both reads and overwrites sees new contents from the second trip on."""
    for name in assigned(node.body):
        found = ctx.scope.find(name)
        if isinstance(found, Tensor):
            slices.mark_written(ctx, found.param.name, node)


def _arguments(variables: list[Variable]) -> list[Value]:
    values = [Value(variable.type, variable.name) for variable in variables]
    for variable, value in zip(variables, values, strict=True):
        variable.value = value
    return values


def _for(ctx: Context, node: syn.For) -> None:
    bounds = [
        expr.index(ctx, part, f"the {what} of a range") if part is not None else index_constant(1)
        for part, what in ((node.lo, "start"), (node.hi, "end"), (node.step, "step"))
    ]
    lo, hi, step = bounds
    if isinstance(step.const, int) and step.const <= 0:
        assert node.step is not None
        ctx.fail(f"the step of a range is {step.const}", node.step, "ranges count upwards: the step is at least 1")
    loop = _enter(ctx, node)
    variables = _loop_variables(ctx, node, loop)
    inits = tuple(variable.value for variable in variables)
    counter = Value(TileType(S64), node.var)
    ctx.loop_count += 1
    loops = frozenset({ctx.loop_count})
    with ctx.nested(Block()) as body:
        scalar = index_value(counter, math.gcd(lo.divisor, step.divisor), loops)
        ctx.bind(node.var, Bound(node.var, scalar, node.span, "a loop variable"))
        body.arguments = [counter, *_arguments(variables)]
        _guarded_trip(ctx, node, loop, variables)
        body.yields = [variable.value for variable in variables]
    outs = tuple(Value(variable.type, variable.name) for variable in variables)
    for variable, out in zip(variables, outs, strict=True):
        variable.value = out
    values = [ctx.value(bound, node.span) for bound in bounds]
    ctx.emit(For(node.span, values[0], values[1], values[2], inits, body, outs))


def _while(ctx: Context, node: syn.While) -> None:
    loop = _enter(ctx, node)
    variables = _loop_variables(ctx, node, loop)
    inits = tuple(variable.value for variable in variables)
    with ctx.nested(Block()) as condition:
        condition.arguments = _arguments(variables)
        test = expr.condition(ctx, node.condition, "the condition of a while")
        if loop.live is not None:
            test = ops.scalar_binary(ctx, "&&", Scalar(PRED, loop.live.value), test, node)
        condition.yields = [ctx.value(test, node.condition.span)]
    with ctx.nested(Block()) as body:
        body.arguments = _arguments(variables)
        _trip(ctx, node, loop)
        body.yields = [variable.value for variable in variables]
    outs = tuple(Value(variable.type, variable.name) for variable in variables)
    for variable, out in zip(variables, outs, strict=True):
        variable.value = out
    ctx.emit(While(node.span, inits, condition, body, outs))


# ---- jumps ------------------------------------------------------------------------------------------------------


def _clear(ctx: Context, flag: Variable | None, node: syn.Node) -> None:
    if flag is not None:
        flag.value = ctx.constant(PRED, 0, node.span)


def _leave(ctx: Context, node: syn.Break | syn.Continue) -> None:
    word = "break" if isinstance(node, syn.Break) else "continue"
    if not ctx.frame.loops:
        ctx.fail(f"`{word}` outside a loop", node, "it leaves a trip of a for or while")
    loop = ctx.frame.loops[-1]
    _clear(ctx, loop.run, node)
    if isinstance(node, syn.Break):
        _clear(ctx, loop.live, node)


def _check_return(ctx: Context, node: syn.Return) -> None:
    if ctx.frame.kernel and node.value is not None:
        ctx.fail("a kernel returns nothing", node, "store the result in a tensor parameter")


def _final_return(ctx: Context, node: syn.Return) -> None:
    """`return` as the last statement of a body."""
    _check_return(ctx, node)
    operand = None if node.value is None else expr.evaluate(ctx, node.value)
    if ctx.frame.result is not None and operand is not None:
        _set_result(ctx, operand, node)
    else:
        ctx.frame.returned.append((operand, node.span))


def _return(ctx: Context, node: syn.Return) -> None:
    """`return` inside a branch or loop."""
    _check_return(ctx, node)
    frame = ctx.frame
    if node.value is not None:
        operand = expr.evaluate(ctx, node.value)
        if frame.result is not None:
            _set_result(ctx, operand, node)
        else:
            frame.returned.append((operand, node.span))
    elif not frame.kernel:
        frame.returned.append((None, node.span))
    for loop in frame.loops:
        _clear(ctx, loop.run, node)
        _clear(ctx, loop.live, node)
    _clear(ctx, frame.alive, node)


def _set_result(ctx: Context, operand: object, node: syn.Return) -> None:
    result = ctx.frame.result
    assert result is not None and node.value is not None
    assert isinstance(operand, (Scalar, Value))
    converted = ops.convert(ctx, operand, result.type.element, node.value)
    result.value = ops.fit(ctx, converted, result.type.shape, node.span, node.value)
