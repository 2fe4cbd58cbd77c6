"""Prints a syntax tree in either spelling: `to_ph` and `to_python` (`compile --emit ph|python`).

Rules
 1. Printing and reading again gives an equal tree. Comments and docstrings are not in the tree.
 2. Parentheses come from precedence alone. The two spellings differ there: Python binds & ^ | tighter than
    comparisons and `not` looser, and its comparisons chain, so a comparison inside one is always in parentheses.
 3. A name that is a keyword of the target spelling is an error at its place: renaming is the author's to do.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from decimal import Decimal

from ..errors import KernelError
from . import syntax as syn
from .builtins import KEYWORDS

_PH_LEVEL = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
             "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}  # fmt: skip
_PY_LEVEL = {"||": 1, "&&": 2, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "^": 6, "&": 7,
             "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}  # fmt: skip
_UNARY, _POSTFIX, _NOT = 11, 12, 3
_PY_WORD = {"&&": "and", "||": "or"}


def to_ph(module: syn.Module) -> str:
    """The module as `.ph` text. Raises KernelError at a name that `.ph` cannot spell."""
    return "\n".join(_Ph(module).item(item) for item in module.items)


def to_python(module: syn.Module) -> str:
    """The module as Python source. Raises KernelError at a name that Python cannot spell."""
    printer = _Python(module)
    head = f"from __future__ import annotations\n\nimport phobos.lang as {printer.ph}\n"
    return "\n\n".join([head, *(printer.item(item) for item in module.items)])


class _Printer:
    """What both spellings share: precedence and subscripts."""

    level: dict[str, int]
    reserved: frozenset[str]
    window: str
    spelling: str

    def __init__(self, module: syn.Module) -> None:
        self.functions = frozenset(module.functions)

    def word(self, name: str, node: syn.Node) -> str:
        if name in self.reserved:
            raise KernelError(f"`{name}` is a keyword in {self.spelling}", node.span, "rename it in the source")
        return name

    def expr(self, node: syn.Expr, least: int = 0) -> str:
        """The text of an expression, in parentheses where its level is below `least`."""
        text, level = self._expr(node)
        return f"({text})" if level < least else text

    def _expr(self, node: syn.Expr) -> tuple[str, int]:
        match node:
            case syn.IntLit():
                return str(node.value), _POSTFIX if node.value >= 0 else _UNARY
            case syn.FloatLit():
                return self.float(node.value), _POSTFIX if node.value >= 0 else _UNARY
            case syn.BoolLit():
                return self.boolean(node.value), _POSTFIX
            case syn.Name():
                return self.word(node.id, node), _POSTFIX
            case syn.Member():
                return self.member(node), _POSTFIX
            case syn.Unary():
                return self.unary(node)
            case syn.Binary():
                return self.binary(node)
            case syn.Call():
                args = ", ".join(self.expr(arg) for arg in node.args)
                return f"{self.callee(node)}({args})", _POSTFIX
            case syn.Index():
                subs = ", ".join(self.sub(sub) for sub in node.subs)
                return f"{self.expr(node.value, _POSTFIX)}[{subs}]", _POSTFIX
        raise AssertionError(node)

    def binary(self, node: syn.Binary) -> tuple[str, int]:
        level = self.level[node.op]
        op = self.operator(node.op)
        chains = self.spelling == "Python" and node.op in syn.COMPARISONS
        left = self.expr(node.left, self.least(node, node.left, level + 1 if chains else level))
        return f"{left} {op} {self.expr(node.right, self.least(node, node.right, level + 1))}", level

    @staticmethod
    def least(node: syn.Binary, side: syn.Expr, level: int) -> int:
        """The level below which a side needs parentheses; mixed bit operators always get them, for the reader."""
        mixed = isinstance(side, syn.Binary) and side.op != node.op and {side.op, node.op} & set(syn.BITWISE)
        return _UNARY if mixed else level

    def sub(self, node: syn.Sub) -> str:
        match node:
            case syn.Point():
                return self.expr(node.index)
            case syn.Window():
                return f"{self.expr(node.start)}{self.window}{self.expr(node.length)}"
            case syn.Range():
                start = "" if node.start is None else self.expr(node.start)
                stop = "" if node.stop is None else self.expr(node.stop)
                return f"{start}:{stop}" if not (start and stop) else f"{start} : {stop}"
        raise AssertionError(node)

    def lines(self, statements: Iterable[syn.Stmt], indent: str) -> list[str]:
        return [indent + line for node in statements for line in self.statement(node)]

    # ---- what differs ----

    def statement(self, node: syn.Stmt) -> list[str]:
        raise NotImplementedError

    def float(self, value: float) -> str:
        raise NotImplementedError

    def boolean(self, value: bool) -> str:
        raise NotImplementedError

    def member(self, node: syn.Member) -> str:
        raise NotImplementedError

    def unary(self, node: syn.Unary) -> tuple[str, int]:
        raise NotImplementedError

    def operator(self, op: str) -> str:
        raise NotImplementedError

    def callee(self, node: syn.Call) -> str:
        raise NotImplementedError


class _Ph(_Printer):
    level = _PH_LEVEL
    reserved = KEYWORDS
    window = " :+ "
    spelling = ".ph"

    def float(self, value: float) -> str:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else text + ".0"

    def boolean(self, value: bool) -> str:
        return "true" if value else "false"

    def member(self, node: syn.Member) -> str:
        return f"{self.expr(node.value, _POSTFIX)}.{node.name}"

    def unary(self, node: syn.Unary) -> tuple[str, int]:
        return f"{node.op}{self.expr(node.operand, _UNARY)}", _UNARY

    def operator(self, op: str) -> str:
        return op

    def callee(self, node: syn.Call) -> str:
        return self.word(node.function, node)

    def type(self, node: syn.Type) -> str:
        match node:
            case syn.ScalarType():
                return node.name
            case syn.TensorType() | syn.TileType():
                head = "tensor" if isinstance(node, syn.TensorType) else "tile"
                return f"{head}<{node.element.name}>[{', '.join(self.expr(dim) for dim in node.dims)}]"
        raise AssertionError(node)

    def item(self, item: syn.Kernel | syn.Function) -> str:
        head = [self.attr(attr) for attr in item.attrs]
        params = ", ".join(
            self.word(p.name, p) + (f": {self.type(p.type)}" if p.type is not None else "") for p in item.params
        )
        returns = ""
        if isinstance(item, syn.Function) and item.returns is not None:
            returns = f" -> {self.type(item.returns)}"
        word = "kernel" if isinstance(item, syn.Kernel) else "fn"
        head.append(f"{word} {self.word(item.name, item)}({params}){returns} {{")
        return "\n".join([*head, *self.lines(item.body, "  "), "}"]) + "\n"

    def attr(self, attr: syn.Attr) -> str:
        args = []
        for arg in attr.args:
            match arg:
                case syn.Choices():
                    values = ", ".join(self.expr(value) for value in arg.values)
                    args.append(f"{self.word(arg.name, arg)} in [{values}]")
                case syn.Keyword():
                    args.append(f"{self.word(arg.name, arg)} = {self.expr(arg.value)}")
                case syn.Positional():
                    args.append(self.expr(arg.value))
        return f"@{attr.name}({', '.join(args)})" if args else f"@{attr.name}"

    def statement(self, node: syn.Stmt) -> list[str]:
        match node:
            case syn.Let() | syn.Var():
                word = "let" if isinstance(node, syn.Let) else "var"
                kind = "" if node.type is None else f": {self.type(node.type)}"
                value = "" if node.value is None else f" = {self.expr(node.value)}"
                return [f"{word} {self.word(node.name, node)}{kind}{value}"]
            case syn.Assign():
                return [f"{self.expr(node.target)} {node.op} {self.expr(node.value)}"]
            case syn.ExprStmt():
                return [self.expr(node.value)]
            case syn.Break():
                return ["break"]
            case syn.Continue():
                return ["continue"]
            case syn.Return():
                return ["return" if node.value is None else f"return {self.expr(node.value)}"]
            case syn.For():
                bounds = ", ".join(self.expr(part) for part in (node.lo, node.hi, node.step) if part is not None)
                hint = "" if node.unroll is None else f"<unroll {node.unroll}>"
                head = f"for{hint} {self.word(node.var, node)} in range({bounds}) {{"
                return [head, *self.lines(node.body, "  "), "}"]
            case syn.While():
                return [f"while {self.expr(node.condition)} {{", *self.lines(node.body, "  "), "}"]
            case syn.If():
                return self._if(node)
        raise AssertionError(node)

    def _if(self, node: syn.If) -> list[str]:
        head = [f"if {self.expr(node.condition)} {{", *self.lines(node.then, "  ")]
        if not node.orelse:
            return [*head, "}"]
        if len(node.orelse) == 1 and isinstance(node.orelse[0], syn.If):
            first, *rest = self._if(node.orelse[0])
            return [*head, f"}} else {first}", *rest]
        return [*head, "} else {", *self.lines(node.orelse, "  "), "}"]


class _Python(_Printer):
    level = _PY_LEVEL
    reserved = frozenset(keyword.kwlist)
    window = ":+"
    spelling = "Python"

    def __init__(self, module: syn.Module) -> None:
        super().__init__(module)
        used = {n.id for n in syn.walk(module) if isinstance(n, syn.Name)}
        declaring = (syn.Let, syn.Var, syn.Param, syn.Kernel, syn.Function)
        used |= {n.name for n in syn.walk(module) if isinstance(n, declaring)}
        used |= {n.var for n in syn.walk(module) if isinstance(n, syn.For)}
        self.ph = next(name for name in ("ph", "phl", "phobos_lang", "phobos_language") if name not in used)

    def float(self, value: float) -> str:
        return repr(value)

    def boolean(self, value: bool) -> str:
        return repr(value)

    def member(self, node: syn.Member) -> str:
        base = node.value
        root = f"{self.ph}.ctx" if base == syn.Name("ctx", span=base.span) else self.expr(base, _POSTFIX)
        return f"{root}.{self.word(node.name, node)}"

    def unary(self, node: syn.Unary) -> tuple[str, int]:
        if node.op == "!":
            return f"not {self.expr(node.operand, _NOT)}", _NOT
        return f"{node.op}{self.expr(node.operand, _UNARY)}", _UNARY

    def operator(self, op: str) -> str:
        return _PY_WORD.get(op, op)

    def callee(self, node: syn.Call) -> str:
        own = node.function in self.functions
        return self.word(node.function, node) if own else f"{self.ph}.{self.word(node.function, node)}"

    def sub(self, node: syn.Sub) -> str:
        if isinstance(node, syn.Window) and isinstance(node.length, syn.Unary) and node.length.op == "!":
            return f"{self.expr(node.start)}:+({self.expr(node.length)})"
        return super().sub(node)

    def type(self, node: syn.Type) -> str:
        match node:
            case syn.ScalarType():
                return f"{self.ph}.{node.name}"
            case syn.TensorType() | syn.TileType():
                head = "tensor" if isinstance(node, syn.TensorType) else "tile"
                dims = ", ".join(self.expr(dim) for dim in node.dims)
                return f"{self.ph}.{head}[{self.ph}.{node.element.name}][{dims}]"
        raise AssertionError(node)

    def item(self, item: syn.Kernel | syn.Function) -> str:
        head = [f"@{self.ph}.fn"] if isinstance(item, syn.Function) else [f"@{self.ph}.kernel"]
        for attr in item.attrs:
            if attr.name == "key" and isinstance(item, syn.Kernel):
                head[0] += f"(key=[{', '.join(self._literal(arg.value) for arg in attr.args)}])"  # type: ignore[attr-defined]
            else:
                head.append(self.attr(attr))
        params = ", ".join(
            self.word(p.name, p) + (f": {self.type(p.type)}" if p.type is not None else "") for p in item.params
        )
        returns = ""
        if isinstance(item, syn.Function) and item.returns is not None:
            returns = f" -> {self.type(item.returns)}"
        head.append(f"def {self.word(item.name, item)}({params}){returns}:")
        return "\n".join([*head, *self.body(item.body)]) + "\n"

    def _literal(self, node: syn.Expr) -> str:
        return f'"{node.id}"' if isinstance(node, syn.Name) else self.expr(node)

    def attr(self, attr: syn.Attr) -> str:
        args = []
        for arg in attr.args:
            match arg:
                case syn.Choices():
                    values = ", ".join(self._literal(value) for value in arg.values)
                    args.append(f"{self.word(arg.name, arg)}=[{values}]")
                case syn.Keyword():
                    args.append(f"{self.word(arg.name, arg)}={self._literal(arg.value)}")
                case syn.Positional():
                    args.append(self._literal(arg.value))
        return f"@{self.ph}.{attr.name}({', '.join(args)})" if args else f"@{self.ph}.{attr.name}"

    def body(self, statements: tuple[syn.Stmt, ...]) -> list[str]:
        return self.lines(statements, "    ") or ["    pass"]

    def statement(self, node: syn.Stmt) -> list[str]:
        match node:
            case syn.Let() | syn.Var():
                word = f"{self.ph}.let" if isinstance(node, syn.Let) else f"{self.ph}.var"
                kind = "" if node.type is None else f"[{self.type(node.type)}]"
                value = "" if node.value is None else f" = {self.expr(node.value)}"
                return [f"{self.word(node.name, node)}: {word}{kind}{value}"]
            case syn.Assign():
                return [f"{self.expr(node.target)} {node.op} {self.expr(node.value)}"]
            case syn.ExprStmt():
                return [self.expr(node.value)]
            case syn.Break():
                return ["break"]
            case syn.Continue():
                return ["continue"]
            case syn.Return():
                return ["return" if node.value is None else f"return {self.expr(node.value)}"]
            case syn.For():
                bounds = ", ".join(self.expr(part) for part in (node.lo, node.hi, node.step) if part is not None)
                span = f"range({bounds})"
                span = span if node.unroll is None else f"{self.ph}.unroll({node.unroll}, {span})"
                return [f"for {self.word(node.var, node)} in {span}:", *self.body(node.body)]
            case syn.While():
                return [f"while {self.expr(node.condition)}:", *self.body(node.body)]
            case syn.If():
                return self._if(node)
        raise AssertionError(node)

    def _if(self, node: syn.If) -> list[str]:
        head = [f"if {self.expr(node.condition)}:", *self.body(node.then)]
        if not node.orelse:
            return head
        if len(node.orelse) == 1 and isinstance(node.orelse[0], syn.If):
            first, *rest = self._if(node.orelse[0])
            return [*head, f"el{first}", *rest]
        return [*head, "else:", *self.body(node.orelse)]
