"""The Python spelling, part 2: what stands inside a kernel (phobos-language.md B.2, B.3).

Rules
 1. `x: ph.let = e` and `x: ph.var[T] = e` declare; `x = e` and `x op= e` assign.
 2. `A[i:+n]` is a window: the `+` is the first leaf on the left spine of the slice's upper bound, at the bound's own
    column; the rest of the bound is the length (B.3). Any other unary plus is an error.
 3. `and or not` are `&& || !`, `//` is `/`, `range(n)` is `range(0, n)`, `ph.unroll(n, range(...))` unrolls.
 4. Everything else of Python is an error that says what to write instead.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import NoReturn

from ..errors import KernelError, Source, Span
from . import syntax as syn
from .builtins import BUILTINS, PER_THREAD, REMOVED
from .spelling import closest
from .syntax import SCALARS

_BINARY: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARE: dict[type, str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_UNARY: dict[type, str] = {ast.USub: "-", ast.Not: "!", ast.Invert: "~"}

_NO_STATEMENT: dict[type, tuple[str, str]] = {
    ast.FunctionDef: ("a function inside a kernel", "define it at module level under @ph.fn"),
    ast.AsyncFunctionDef: ("an async function", "kernels have no coroutines"),
    ast.ClassDef: ("a class inside a kernel", "kernels have tiles and scalars only"),
    ast.With: ("`with`", "kernels have let, var, assignments, for, while and if"),
    ast.Try: ("`try`", "kernels raise nothing, so there is nothing to catch"),
    ast.Raise: ("`raise`", "kernels raise nothing; check arguments before the launch"),
    ast.Assert: ("`assert`", "check arguments before the launch, or results after it"),
    ast.Import: ("an import inside a kernel", "import phobos.lang at the top of the module"),
    ast.ImportFrom: ("an import inside a kernel", "import phobos.lang at the top of the module"),
    ast.Global: ("`global`", "pass values as parameters"),
    ast.Nonlocal: ("`nonlocal`", "pass values as parameters"),
    ast.Delete: ("`del`", "a variable ends with its block"),
    ast.Match: ("`match`", "write if and elif"),
}
_NO_EXPRESSION: dict[type, tuple[str, str]] = {
    ast.IfExp: ("a conditional expression", "write ph.where(c, a, b) for tiles, or an if statement"),
    ast.Lambda: ("a lambda", "define a function at module level under @ph.fn"),
    ast.ListComp: ("a comprehension", "write a for loop"),
    ast.List: ("a list", "kernels have tiles and scalars only"),
    ast.Tuple: ("a tuple", "kernels have tiles and scalars only"),
    ast.Dict: ("a dict", "kernels have tiles and scalars only"),
    ast.JoinedStr: ("an f-string", "kernels have no strings"),
    ast.NamedExpr: ("`:=`", "declare the name on a line of its own"),
    ast.Starred: ("`*`-arguments", "write the arguments out"),
    ast.Slice: ("a slice here", "slices stand inside the brackets of a tensor or tile"),
    ast.Await: ("`await`", "kernels have no coroutines"),
    ast.Yield: ("`yield`", "kernels have no generators"),
}


@dataclass(frozen=True)
class Scope:
    """What the surrounding module says about names.

    aliases: Python dotted prefix -> dotted name in the language ('' is the language module itself).
    functions: names of the module's @ph.fn functions. outside: every other name the module defines.
    """

    source: Source
    lines: tuple[str, ...]
    aliases: dict[str, str]
    functions: frozenset[str]
    outside: frozenset[str]

    def span(self, node: ast.AST) -> Span:
        """The place of an ast node, in characters (ast counts UTF-8 bytes)."""
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        return Span(self.source, line, self._column(line, start), end_line, self._column(end_line, end))

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset + 1 if text.isascii() else len(text.encode()[:offset].decode(errors="ignore")) + 1

    def resolve(self, node: ast.AST) -> str | None:
        """The language's dotted name for `ph.x`, `lang.ctx.block.x`, or None for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        parts.append(node.id)
        parts.reverse()
        for cut in range(len(parts), 0, -1):
            base = self.aliases.get(".".join(parts[:cut]))
            if base is not None:
                return ".".join(([base] if base else []) + parts[cut:])
        return None

    def fail(self, message: str, node: ast.AST, hint: str = "") -> NoReturn:
        raise KernelError(message, self.span(node), hint)


class Body:
    """Reads statements and expressions of one kernel or function."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    # ---- types ----

    def type(self, node: ast.expr) -> syn.Type:
        """ph.f32, ph.tensor[ph.f16][M, K] or ph.tile[ph.f32][R, C]."""
        scope, span = self.scope, self.scope.span(node)
        name = scope.resolve(node)
        if name in SCALARS:
            return syn.ScalarType(name, span=span)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Subscript):
            head = scope.resolve(node.value.value)
            if head in ("tensor", "tile"):
                element = self.type(node.value.slice)
                if not isinstance(element, syn.ScalarType):
                    scope.fail(f"the element of a {head} is a scalar type", node.value.slice, f"ph.{head}[ph.f32][...]")
                dims = tuple(self.expr(dim) for dim in _elements(node.slice))
                if not dims:
                    scope.fail(f"a {head} has at least one axis", node.slice, f"write ph.{head}[ph.f32][N]")
                kind = syn.TensorType if head == "tensor" else syn.TileType
                return kind(element, dims, span=span)
        text = ast.unparse(node)
        hint = "a type is ph.f32 (or another scalar), ph.tensor[ph.f32][M, N] or ph.tile[ph.f32][M, N]"
        meant = {"float": "f32", "int": "i32", "double": "f64", "half": "f16"}.get(text) or nearest(name)
        if isinstance(node, ast.Subscript) and scope.resolve(node.value) in ("tensor", "tile"):
            hint = f"the shape is missing: `{text}[M, N]`"
        elif (isinstance(node, ast.Name) and node.id in SCALARS) or meant:
            hint = f"write ph.{meant or text}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            hint = "write the annotation without quotes; `from __future__ import annotations` keeps it unevaluated"
        scope.fail(f"`{text}` is not a type of the language", node, hint)

    # ---- statements ----

    def block(self, nodes: list[ast.stmt]) -> tuple[syn.Stmt, ...]:
        return tuple(self.statement(node) for node in nodes if not isinstance(node, ast.Pass))

    def statement(self, node: ast.stmt) -> syn.Stmt:
        reader = getattr(self, "_" + type(node).__name__.lower(), None)
        if reader is not None:
            return reader(node)  # type: ignore[no-any-return]
        what, hint = _NO_STATEMENT.get(type(node), (f"`{ast.unparse(node).splitlines()[0]}`", "write it another way"))
        self.scope.fail(f"{what} is not in the language", node, hint)

    def _annassign(self, node: ast.AnnAssign) -> syn.Stmt:
        scope, span = self.scope, self.scope.span(node)
        if not isinstance(node.target, ast.Name):
            scope.fail("only a plain name can be declared", node.target, "write `name: ph.let = ...`")
        name = node.target.id
        annotation = node.annotation
        kind = scope.resolve(annotation)
        declared: syn.Type | None = None
        if kind is None and isinstance(annotation, ast.Subscript):
            kind = scope.resolve(annotation.value)
            if kind in ("let", "var"):
                declared = self.type(annotation.slice)
        if kind not in ("let", "var"):
            text = ast.unparse(annotation)
            scope.fail(
                f"`{name}` is annotated `{text}`, which is neither ph.let nor ph.var",
                annotation,
                f"write `{name}: ph.let = ...` for a value that stays, `{name}: ph.var = ...` for a variable",
            )
        value = None if node.value is None else self.expr(node.value)
        if kind == "var":
            return syn.Var(name, declared, value, span=span)
        if value is None:
            scope.fail(f"`{name}` is a ph.let without a value", node, f"write `{name}: ph.let = ...`")
        return syn.Let(name, declared, value, span=span)

    def _assign(self, node: ast.Assign) -> syn.Stmt:
        if len(node.targets) != 1:
            self.scope.fail("one assignment has one target", node, "write one line for each target")
        return syn.Assign(self._target(node.targets[0]), "=", self.expr(node.value), span=self.scope.span(node))

    def _augassign(self, node: ast.AugAssign) -> syn.Stmt:
        op = self._operator(node.op, node)
        return syn.Assign(self._target(node.target), op + "=", self.expr(node.value), span=self.scope.span(node))

    def _target(self, node: ast.expr) -> syn.Name | syn.Index:
        if isinstance(node, (ast.Name, ast.Subscript)):
            target = self.expr(node)
            if isinstance(target, syn.Name) or (isinstance(target, syn.Index) and isinstance(target.value, syn.Name)):
                return target
        hint = "assign to a variable, or to a slice of one: A[i:+n]"
        if isinstance(node, (ast.Tuple, ast.List)):
            hint = "write one line for each variable"
        self.scope.fail(f"`{ast.unparse(node)}` cannot be assigned to", node, hint)

    def _for(self, node: ast.For) -> syn.Stmt:
        scope = self.scope
        if node.orelse:
            scope.fail("a loop has no else", node.orelse[0], "set a flag in the loop and test it afterwards")
        if not isinstance(node.target, ast.Name):
            scope.fail("a loop has one plain variable", node.target, "write `for i in range(...):`")
        call, unroll = node.iter, None
        if isinstance(call, ast.Call) and scope.resolve(call.func) == "unroll":
            if len(call.args) != 2 or call.keywords:
                scope.fail("ph.unroll takes a count and a range", call, "write `ph.unroll(4, range(0, n))`")
            count = self.expr(call.args[0])
            if not isinstance(count, syn.IntLit) or count.value <= 0:
                scope.fail("the unroll count is a positive integer", call.args[0], "write `ph.unroll(4, range(0, n))`")
            unroll, call = count.value, call.args[1]
        args = call.args if isinstance(call, ast.Call) and not call.keywords else []
        is_range = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
        if not is_range or not 1 <= len(args) <= 3:
            scope.fail("a loop runs over a range", node.iter, "write `for i in range(start, stop, step):`")
        bounds = [self.expr(arg) for arg in args]
        if len(bounds) == 1:
            bounds.insert(0, syn.IntLit(0, span=bounds[0].span))
        step = bounds[2] if len(bounds) == 3 else None
        return syn.For(node.target.id, bounds[0], bounds[1], step, unroll, self.block(node.body), span=scope.span(node))

    def _while(self, node: ast.While) -> syn.Stmt:
        if node.orelse:
            self.scope.fail("a loop has no else", node.orelse[0], "set a flag in the loop and test it afterwards")
        return syn.While(self.expr(node.test), self.block(node.body), span=self.scope.span(node))

    def _if(self, node: ast.If) -> syn.Stmt:
        then, orelse = self.block(node.body), self.block(node.orelse)
        return syn.If(self.expr(node.test), then, orelse, span=self.scope.span(node))

    def _expr(self, node: ast.Expr) -> syn.Stmt:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            self.scope.fail("a string is not in the language", node, "write a comment: # ...")
        return syn.ExprStmt(self.expr(node.value), span=self.scope.span(node))

    def _break(self, node: ast.Break) -> syn.Stmt:
        return syn.Break(span=self.scope.span(node))

    def _continue(self, node: ast.Continue) -> syn.Stmt:
        return syn.Continue(span=self.scope.span(node))

    def _return(self, node: ast.Return) -> syn.Stmt:
        return syn.Return(None if node.value is None else self.expr(node.value), span=self.scope.span(node))

    # ---- expressions ----

    def expr(self, node: ast.expr) -> syn.Expr:
        scope, span = self.scope, self.scope.span(node)
        match node:
            case ast.Constant():
                return self._constant(node, span)
            case ast.Name():
                return self._name(node, span)
            case ast.Attribute():
                return self._attribute(node, span)
            case ast.BinOp():
                left, right = self.expr(node.left), self.expr(node.right)
                return syn.Binary(self._operator(node.op, node), left, right, span=span)
            case ast.UnaryOp():
                return self._unary(node, span)
            case ast.BoolOp():
                op = "&&" if isinstance(node.op, ast.And) else "||"
                result = self.expr(node.values[0])
                for value in node.values[1:]:
                    right = self.expr(value)
                    result = syn.Binary(op, result, right, span=_join(result.span, right.span))
                return result
            case ast.Compare():
                return self._compare(node, span)
            case ast.Call():
                return self._call(node, span)
            case ast.Subscript():
                subs = tuple(self._sub(entry) for entry in _elements(node.slice))
                return syn.Index(self.expr(node.value), subs, span=span)
        what, hint = _NO_EXPRESSION.get(type(node), (f"`{ast.unparse(node)}`", "write it another way"))
        scope.fail(f"{what} is not in the language", node, hint)

    def _constant(self, node: ast.Constant, span: Span) -> syn.Expr:
        value = node.value
        if isinstance(value, bool):
            return syn.BoolLit(value, span=span)
        if isinstance(value, int):
            if value >= 1 << 63:
                self.scope.fail(f"{value} does not fit 64 bits", node, "integers are signed 64-bit")
            return syn.IntLit(value, span=span)
        if isinstance(value, float):
            if value == float("inf"):
                self.scope.fail("this number is too large for f64", node, "the largest f32 is 3.4028235e38")
            return syn.FloatLit(value, span=span)
        text = "..." if value is ... else repr(value)
        hint = "write the subscripts out: A[:, i:+n]" if value is ... else "kernels have numbers, tiles and booleans"
        self.scope.fail(f"`{text}` is not in the language", node, hint)

    def _name(self, node: ast.Name, span: Span) -> syn.Expr:
        name = self.scope.aliases.get(node.id)
        if name is not None:
            self.scope.fail(f"`{node.id}` is not a value", node, "it is the language itself; use a name of the kernel")
        return syn.Name(node.id, span=span)

    def _attribute(self, node: ast.Attribute, span: Span) -> syn.Expr:
        name = self.scope.resolve(node)
        if name is not None and name.split(".")[0] == "ctx":
            value: syn.Expr = syn.Name("ctx", span=span)
            for part in name.split(".")[1:]:
                value = syn.Member(value, part, span=span)
            return value
        text = ast.unparse(node)
        if name is not None:
            hint = f"write ph.{name}(...)" if name in BUILTINS else "a value of the language is ph.ctx.block.x"
            self.scope.fail(f"`{text}` is not a value", node, hint)
        hint = "tiles and tensors have no attributes"
        known = {"T": "write ph.transpose(t)", "shape": "write ph.extent(t, 0)", "dtype": "types are fixed"}
        self.scope.fail(f"`{text}`: no attribute `{node.attr}`", node, known.get(node.attr, hint))

    def _unary(self, node: ast.UnaryOp, span: Span) -> syn.Expr:
        if isinstance(node.op, ast.UAdd):
            self.scope.fail(
                "unary plus is not in the language",
                node,
                "a window is A[i:+n], with the + directly after the colon; elsewhere leave the + out",
            )
        return syn.Unary(_UNARY[type(node.op)], self.expr(node.operand), span=span)

    def _operator(self, op: ast.operator, node: ast.AST) -> str:
        if type(op) in _BINARY:
            return _BINARY[type(op)]
        if isinstance(op, ast.MatMult):
            self.scope.fail("`@` is not in the language", node, "write ph.dot(a, b)")
        self.scope.fail("`**` is not in the language", node, "write x * x, or ph.pow(x, y)")

    def _compare(self, node: ast.Compare, span: Span) -> syn.Expr:
        if len(node.ops) != 1:
            self.scope.fail("comparisons do not chain", node, "write `a < b and b < c`")
        if type(node.ops[0]) not in _COMPARE:
            self.scope.fail(f"`{ast.unparse(node)}` is not in the language", node, "compare with == != < <= > >=")
        left, right = self.expr(node.left), self.expr(node.comparators[0])
        return syn.Binary(_COMPARE[type(node.ops[0])], left, right, span=span)

    def _call(self, node: ast.Call, span: Span) -> syn.Expr:
        scope = self.scope
        if node.keywords:
            scope.fail("arguments have no names", node.keywords[0].value, "give the arguments in order")
        args = tuple(self.expr(arg) for arg in node.args)
        name = scope.resolve(node.func)
        if name is not None and "." not in name and name:
            if name in scope.functions:
                scope.fail(
                    f"`{name}` is a builtin and a function of this module", node.func, "give the function another name"
                )
            return syn.Call(name, args, span=span)
        if not isinstance(node.func, ast.Name):
            scope.fail(
                f"`{ast.unparse(node.func)}(...)` is not in the language", node.func, "call ph.name(...) or a @ph.fn"
            )
        called = node.func.id
        if called in scope.functions:
            return syn.Call(called, args, span=span)
        if called in BUILTINS or called in PER_THREAD or called in REMOVED:
            scope.fail(f"`{called}` is a builtin of the language", node.func, f"write ph.{called}(...)")
        hints = {
            "range": "range stands in a for loop only",
            "print": "kernels print nothing; store what you want to see",
            "max": "write ph.tmax(a, b)",
            "float": "write ph.f32(x)",
            "int": "write ph.i32(x)",
            "sum": "write ph.rowsum(t)",
            "len": "write ph.extent(t, 0)",
            "abs": "write ph.tmax(x, 0 - x)",
            "min": "write ph.where(a < b, a, b)",
        }
        hint = hints.get(called, f"define `{called}` in this module under @ph.fn")
        if called in scope.outside:
            hint = f"`{called}` is Python to the kernel; put @ph.fn above its def to make it a function of the language"
        scope.fail(f"`{called}` is not a function of the language", node.func, hint)

    # ---- subscripts ----

    def _sub(self, node: ast.expr) -> syn.Sub:
        span = self.scope.span(node)
        if not isinstance(node, ast.Slice):
            return syn.Point(self.expr(node), span=span)
        if node.step is not None:
            self.scope.fail("a slice has no step", node.step, "slices are contiguous: A[i:+n], A[i:j], A[:j], A[:]")
        lower = None if node.lower is None else self.expr(node.lower)
        if node.upper is None:
            if lower is not None:
                self.scope.fail(
                    f"`{ast.unparse(node)}` has no end", node, "say how long the slice is: A[i:+n], A[i:j] or A[:]"
                )
            return syn.Range(None, None, span=span)
        length = self._window_length(node.upper)
        if length is None:
            return syn.Range(lower, self.expr(node.upper), span=span)
        if lower is None:
            self.scope.fail("a window has a start", node, "write A[0:+n]")
        if isinstance(length, syn.Unary) and length.op == "-":
            self.scope.fail("the length of a window must be positive", node.upper, "write A[i:+n] with n > 0")
        return syn.Window(lower, length, span=span)

    def _window_length(self, upper: ast.expr) -> syn.Expr | None:
        """The length where `upper` begins with the + of a window (rule 2), else None."""
        spine: list[ast.expr] = [upper]
        while True:
            node = spine[-1]
            if isinstance(node, (ast.BinOp, ast.Compare)):
                spine.append(node.left)
            elif isinstance(node, ast.BoolOp):
                spine.append(node.values[0])
            elif isinstance(node, (ast.Attribute, ast.Subscript)):
                spine.append(node.value)
            else:
                break
        plus = spine[-1]
        if not (isinstance(plus, ast.UnaryOp) and isinstance(plus.op, ast.UAdd)):
            return None
        if (plus.lineno, plus.col_offset) != (upper.lineno, upper.col_offset):
            return None
        return self.expr(_replace_leaf(spine, plus.operand))


def _replace_leaf(spine: list[ast.expr], leaf: ast.expr) -> ast.expr:
    """The expression of a left spine with its first leaf replaced; positions of inner nodes move to the new leaf."""
    result = leaf
    for node in reversed(spine[:-1]):
        fields = dict(ast.iter_fields(node))
        if isinstance(node, ast.BoolOp):
            fields["values"] = [result, *node.values[1:]]
        else:
            fields["value" if isinstance(node, (ast.Attribute, ast.Subscript)) else "left"] = result
        rebuilt = type(node)(**fields)
        ast.copy_location(rebuilt, node)
        rebuilt.lineno, rebuilt.col_offset = leaf.lineno, leaf.col_offset
        result = rebuilt
    return result


def nearest(name: str | None) -> str:
    """The scalar type that a misspelt one is nearest to, or nothing."""
    return closest(name or "", SCALARS).partition("`")[2].partition("`")[0]


def _elements(node: ast.expr) -> list[ast.expr]:
    """The entries of a subscript: of a tuple without parentheses its elements, else the node itself."""
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _join(first: Span, last: Span) -> Span:
    return Span(first.source, first.line, first.column, last.end_line, last.end_column)
