"""The Python spelling, part 1: a module's source, read with `ast` and never executed (phobos-language.md B).

Rules
 1. The language module is whatever `import phobos.lang as X`, `from phobos import lang [as X]` and
    `from phobos.lang import names` call it (phobos-language.md 0.2); `phobos_sim.lang` is the same module.
 2. `@ph.kernel` above a def makes a kernel, `@ph.fn` a function; every other decorator from the language is an
    attribute. In decorator arguments a string is a name.
 3. Other definitions of the module are none of the language's business, except to word errors.
"""

from __future__ import annotations

import ast

from ..errors import KernelError, Source, Span
from . import syntax as syn
from .builtins import BUILTINS
from .depth import check_depth
from .python_body import Body, Scope
from .syntax import SCALARS

_PACKAGES = ("phobos", "phobos_sim")
_STAR = (*BUILTINS, *SCALARS, "tensor", "tile", "kernel", "fn", "let", "var", "ctx", "unroll", "launch", "autotune",
         "aligned", "tensorcore", "pipeline", "cluster", "dynshared", "persistent")  # fmt: skip


def parse(source: Source) -> ast.Module:
    """The ast of a Python source. Raises KernelError where Python itself cannot read it."""
    try:
        return ast.parse(source.text, source.path)
    except SyntaxError as problem:
        line, column = problem.lineno or 1, max(problem.offset or 1, 1)
        end_line = problem.end_lineno or line
        end = problem.end_offset or column + 1
        if end_line == line and end <= column:
            end = column + 1
        span = Span(source, line, column, end_line, end)
        raise KernelError(f"Python cannot read this: {problem.msg}", span, "correct the Python syntax") from None
    except (ValueError, RecursionError, MemoryError) as problem:
        message = str(problem) or type(problem).__name__
        raise KernelError(f"Python cannot read this file: {message}", Span(source, 1, 1, 1, 2)) from None


class ModuleReader:
    """One Python source: what it calls the language, and its kernels and functions, read on demand."""

    def __init__(self, source: Source) -> None:
        tree = parse(source)
        self.source = source
        aliases: dict[str, str] = {}
        outside: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                _import(node, aliases, outside)
        self.scope = Scope(source, tuple(source.text.split("\n")), aliases, frozenset(), frozenset())
        marked = [(node, self._kind(node)) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        self.kernels = [node for node, kind in marked if kind == "kernel"]
        functions = {node.name: node for node, kind in marked if kind == "fn"}
        for node in tree.body:
            outside.update(_defined(node))
        outside -= functions.keys() | {node.name for node in self.kernels}
        self.functions = functions
        self.top = [node for node in _module_level(tree.body) if isinstance(node, ast.FunctionDef)]
        self.scope = Scope(source, self.scope.lines, aliases, frozenset(functions), frozenset(outside))

    def _kind(self, node: ast.FunctionDef) -> str | None:
        for decorator in node.decorator_list:
            name = self.scope.resolve(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name in ("kernel", "fn"):
                return name
        return None

    def module(self) -> syn.Module:
        """All kernels and functions at module level. Raises KernelError at the first that is wrong."""
        marked = {id(node) for node in (*self.kernels, *self.functions.values())}
        nodes = [node for node in self.top if id(node) in marked]
        seen: dict[str, ast.FunctionDef] = {}
        for node in nodes:
            if node.name in seen:
                self.scope.fail(
                    f"`{node.name}` is defined twice, first in line {seen[node.name].lineno}", node, "rename one"
                )
            seen[node.name] = node
        return self._wrap([self.definition(node) for node in nodes])

    def kernel(self, name: str, line: int) -> tuple[syn.Module, syn.Kernel] | None:
        """The kernel whose def (or first decorator) is in `line`, with the functions it can reach; None if absent."""
        for node in self.kernels:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if node.name == name and first <= line <= node.lineno:
                kernel = self.definition(node)
                assert isinstance(kernel, syn.Kernel)
                return self._wrap([*self._reachable(kernel), kernel]), kernel
        return None

    def _reachable(self, kernel: syn.Kernel) -> list[syn.Function]:
        found: dict[str, syn.Function] = {}
        work: list[syn.Node] = [kernel]
        while work:
            for node in syn.walk(work.pop()):
                if isinstance(node, syn.Call) and node.function in self.functions and node.function not in found:
                    function = self.definition(self.functions[node.function])
                    assert isinstance(function, syn.Function)
                    found[function.name] = function
                    work.append(function)
        return list(found.values())

    def _wrap(self, items: list[syn.Kernel | syn.Function]) -> syn.Module:
        return syn.Module(tuple(items), "python", self.scope.outside, span=Span(self.source, 1, 1, 1, 2))

    def definition(self, node: ast.FunctionDef) -> syn.Kernel | syn.Function:
        """One kernel or function."""
        scope, body = self.scope, Body(self.scope)
        root: ast.AST = node
        check_depth(root, _placed, scope.span)
        kind, attrs = self._decorators(node)
        args = node.args
        for extra in (args.vararg, args.kwarg, *args.posonlyargs, *args.kwonlyargs, *args.defaults):
            if extra is not None:
                scope.fail(f"`{node.name}` has parameters that are not plain names", extra, "write `name: type`")
        params = []
        for arg in args.args:
            if arg.annotation is None and kind == "kernel":
                scope.fail(
                    f"parameter `{arg.arg}` has no type", arg, f"write `{arg.arg}: ph.tensor[ph.f32][M, N]` or ph.f32"
                )
            declared = None if arg.annotation is None else body.type(arg.annotation)
            params.append(syn.Param(arg.arg, declared, span=scope.span(arg)))
        statements = node.body
        first = statements[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            statements = statements[1:]
        block, span = body.block(statements), scope.span(node)
        head = Span(span.source, span.line, span.column, span.line, span.column + len("def ") + len(node.name))
        if kind == "fn":
            returns = None if node.returns is None else body.type(node.returns)
            return syn.Function(node.name, attrs, tuple(params), returns, block, span=head)
        if node.returns is not None:
            scope.fail("a kernel returns nothing", node.returns, "store results in a tensor parameter")
        return syn.Kernel(node.name, attrs, tuple(params), block, span=head)

    def _decorators(self, node: ast.FunctionDef) -> tuple[str, tuple[syn.Attr, ...]]:
        scope, kind, attrs = self.scope, "", []
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = scope.resolve(call.func if call else decorator)
            if name is None or "." in name or not name:
                text = ast.unparse(decorator)
                scope.fail(
                    f"`@{text}` is not an attribute of the language", decorator, "attributes are names of phobos.lang"
                )
            if name not in ("kernel", "fn"):
                attrs.append(syn.Attr(name, self._attr_args(call), span=scope.span(decorator)))
                continue
            if kind:
                scope.fail(f"`{node.name}` is marked twice", decorator, "keep one of @ph.kernel and @ph.fn")
            kind = name
            if call and call.keywords and name == "kernel":
                attrs.append(self._key(call))
            elif call and (call.args or call.keywords):
                hint = 'write @ph.kernel or @ph.kernel(key=["M"])'
                scope.fail(f"@ph.{name} takes no such arguments", decorator, hint)
        return kind, tuple(attrs)

    def _key(self, call: ast.Call) -> syn.Attr:
        keyword = call.keywords[0]
        if call.args or len(call.keywords) > 1 or keyword.arg != "key":
            self.scope.fail("@ph.kernel takes only key=", call, 'write @ph.kernel(key=["M", "N"])')
        value = keyword.value
        entries = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
        args = tuple(syn.Positional(self._literal(entry), span=self.scope.span(entry)) for entry in entries)
        return syn.Attr("key", args, span=self.scope.span(call))

    def _attr_args(self, call: ast.Call | None) -> tuple[syn.AttrArg, ...]:
        if call is None:
            return ()
        args: list[syn.AttrArg] = [syn.Positional(self._literal(arg), span=self.scope.span(arg)) for arg in call.args]
        for keyword in call.keywords:
            span = self.scope.span(keyword)
            if keyword.arg is None:
                self.scope.fail("`**` in an attribute", keyword, "write the names out")
            if isinstance(keyword.value, (ast.List, ast.Tuple)):
                values = tuple(self._literal(entry) for entry in keyword.value.elts)
                args.append(syn.Choices(keyword.arg, values, span=span))
            else:
                args.append(syn.Keyword(keyword.arg, self._literal(keyword.value), span=span))
        return tuple(args)

    def _literal(self, node: ast.expr) -> syn.Expr:
        """An attribute's value: a number, a boolean, or a string that stands for a name."""
        span = self.scope.span(node)
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = -1, node.operand
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, bool):
            return syn.BoolLit(value, span=span)
        if isinstance(value, int) and value < 1 << 63:
            return syn.IntLit(sign * value, span=span)
        if isinstance(value, float):
            return syn.FloatLit(sign * value, span=span)
        if isinstance(value, str) and value.isidentifier() and sign == 1:
            return syn.Name(value, span=span)
        hint = f'write "{node.id}" in quotes' if isinstance(node, ast.Name) else "a literal, or a name in quotes"
        self.scope.fail(f"`{ast.unparse(node)}` cannot stand in an attribute", node, hint)


def _import(node: ast.Import | ast.ImportFrom, aliases: dict[str, str], outside: set[str]) -> None:
    """Adds what one import statement binds: to the language's aliases, or to the names outside of it."""
    for entry in node.names:
        bound = entry.asname or entry.name
        if isinstance(node, ast.Import):
            if entry.name in [f"{package}.lang" for package in _PACKAGES]:
                aliases[bound] = ""
            else:
                outside.add(bound.partition(".")[0])
            if entry.name in _PACKAGES:
                aliases[f"{bound}.lang"] = ""
        elif node.module in _PACKAGES and entry.name == "lang" and not node.level:
            aliases[bound] = ""
        elif node.module in [f"{package}.lang" for package in _PACKAGES]:
            aliases.update({name: name for name in _STAR} if entry.name == "*" else {bound: entry.name})
        else:
            outside.add(bound)


def _placed(node: ast.AST) -> list[ast.AST]:
    """The children of an ast node that have a place in the source."""
    return [child for child in ast.iter_child_nodes(node) if hasattr(child, "lineno")]


def _defined(node: ast.stmt) -> set[str]:
    """Names that one module-level statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return {node.name}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _module_level(nodes: list[ast.stmt]) -> list[ast.stmt]:
    """Module-level statements, also those under if and try."""
    found: list[ast.stmt] = []
    for node in nodes:
        found.append(node)
        if isinstance(node, (ast.If, ast.Try)):
            found += _module_level(node.body + node.orelse + getattr(node, "finalbody", []))
    return found


def read_python(source: Source) -> syn.Module:
    """The kernels and functions of a Python source. Raises KernelError with the place of what is wrong."""
    return ModuleReader(source).module()
