"""The `.ph` text: terminators, parser, tree (phobos-language.md A).

Rules
 1. A newline ends a statement iff the token before it is a name, a number, true, false, `)`, `]`, `}`, break, continue
    or return; `;` always does; the end of the file counts as a newline. Newlines inside () and [] do not (G20).
 2. Integers are decimal; floats may have an exponent, or end in a dot (G21).
 3. `tensor`, `tile`, `range`, `unroll` and scalar type names are words only in their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError
from lark.tree import Meta

from ..errors import KernelError, Source, Span
from . import syntax as syn
from .depth import check_depth
from .ph_errors import unexpected_character, unexpected_token
from .spelling import closest
from .syntax import SCALARS

_ENDS = frozenset(["NAME", "INT", "FLOAT", "TRUE", "FALSE", "RPAR", "RSQB", "RBRACE", "BREAK", "CONTINUE", "RETURN"])


class Terminators:
    """Turns newlines and semicolons into terminators (rule 1)."""

    always_accept = ("NEWLINE", "SEMICOLON")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        last: Token | None = None
        nested = 0
        for token in stream:
            if token.type in ("LPAR", "LSQB"):
                nested += 1
            elif token.type in ("RPAR", "RSQB"):
                nested = max(nested - 1, 0)
            elif token.type in ("LBRACE", "RBRACE"):
                nested = 0
            if token.type == "NEWLINE" and (nested or last is None or last.type not in _ENDS):
                continue
            if token.type in ("NEWLINE", "SEMICOLON"):
                token = Token.new_borrow_pos("_T", token.value, token)
            yield token
            last = token


@cache
def _grammar() -> Lark:
    text = Path(__file__).with_name("phobos.lark").read_text(encoding="utf-8")
    return Lark(
        text, parser="lalr", lexer="basic", start="module", postlex=Terminators(), propagate_positions=True,
        maybe_placeholders=True,
    )  # fmt: skip


def read_ph(source: Source) -> syn.Module:
    """The kernels and functions of a `.ph` text. Raises KernelError with the place of what is wrong."""
    try:
        tree = _grammar().parse(source.text + "\n")
    except UnexpectedToken as problem:
        raise unexpected_token(source, problem) from None
    except UnexpectedCharacters as problem:
        raise unexpected_character(source, problem) from None
    except UnexpectedEOF:
        raise KernelError("the file ends too early", Span(source, 1, 1, 1, 2), "close what is open") from None
    builder = Builder(source)
    check_depth(
        tree,
        lambda node: [child for child in node.children if isinstance(child, Tree)],
        lambda node: builder.span(node.meta),
    )
    try:
        module: syn.Module = builder.transform(tree)
    except VisitError as problem:
        if isinstance(problem.orig_exc, KernelError):
            raise problem.orig_exc from None
        raise
    return module


@v_args(meta=True)
class Builder(Transformer[Token, Any]):
    """Turns lark's tree into the syntax tree."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    def span(self, meta: Meta | Token) -> Span:
        if isinstance(meta, Meta) and meta.empty:
            return Span(self.source, 1, 1, 1, 2)
        assert meta.line and meta.column and meta.end_line and meta.end_column
        return Span(self.source, meta.line, meta.column, meta.end_line, meta.end_column)

    # ---- module ----

    def module(self, meta: Meta, items: list[Any]) -> syn.Module:
        seen: dict[str, syn.Node] = {}
        for item in items:
            if item.name in seen:
                line = seen[item.name].span.line
                raise KernelError(f"`{item.name}` is defined twice, first in line {line}", item.span, "rename one")
            seen[item.name] = item
        return syn.Module(tuple(items), "ph", span=Span(self.source, 1, 1, 1, 2))

    def kernel(self, meta: Meta, items: list[Any]) -> syn.Kernel:
        *attrs, name, params, body = items
        for param in params or ():
            if param.type is None:
                raise KernelError(
                    f"parameter `{param.name}` has no type",
                    param.span,
                    f"write `{param.name}: tensor<f32>[M, N]` or f32",
                )
        return syn.Kernel(name.value, tuple(attrs), params or (), body, span=self.span(name))

    def function(self, meta: Meta, items: list[Any]) -> syn.Function:
        *attrs, name, params, _arrow, returns, body = items
        return syn.Function(name.value, tuple(attrs), params or (), returns, body, span=self.span(name))

    def attr(self, meta: Meta, items: list[Any]) -> syn.Attr:
        name, args = items
        return syn.Attr(name.value, args or (), span=self.span(name))

    def aargs(self, meta: Meta, items: list[Any]) -> tuple[syn.AttrArg, ...]:
        return tuple(items)

    def choices(self, meta: Meta, items: list[Any]) -> syn.AttrArg:
        name, _in, *values = items if isinstance(items[1], Token) else [items[0], None, *items[1:]]
        return syn.Choices(name.value, tuple(values), span=self.span(meta))

    def keyword(self, meta: Meta, items: list[Any]) -> syn.AttrArg:
        return syn.Keyword(items[0].value, items[1], span=self.span(meta))

    def positional(self, meta: Meta, items: list[Any]) -> syn.AttrArg:
        return syn.Positional(items[0], span=self.span(meta))

    def number(self, meta: Meta, items: list[Any]) -> syn.Expr:
        value = self._number(items[-1])
        if isinstance(items[0], Token) and items[0].type == "MINUS":
            value = type(value)(-value.value, span=self.span(meta))  # type: ignore[arg-type]
        return value

    def params(self, meta: Meta, items: list[Any]) -> tuple[syn.Param, ...]:
        return tuple(items)

    def param(self, meta: Meta, items: list[Any]) -> syn.Param:
        return syn.Param(items[0].value, items[1], span=self.span(items[0]))

    # ---- types ----

    def _scalar(self, name: Token) -> syn.ScalarType:
        if name.value not in SCALARS:
            hint = closest(name.value, SCALARS) + f"types are {', '.join(SCALARS)}, tensor<f32>[..] and tile<f32>[..]"
            raise KernelError(f"`{name.value}` is not a type of the language", self.span(name), hint)
        return syn.ScalarType(name.value, span=self.span(name))

    def scalar_type(self, meta: Meta, items: list[Any]) -> syn.Type:
        if items[0].value in ("tensor", "tile"):
            word = items[0].value
            raise KernelError(f"the shape of the {word} is missing", self.span(items[0]), f"write {word}<f32>[M, N]")
        return self._scalar(items[0])

    def shaped_type(self, meta: Meta, items: list[Any]) -> syn.Type:
        head, element, *dims = items
        kinds = {"tensor": syn.TensorType, "tile": syn.TileType}
        if head.value not in kinds:
            hint = "write tensor<f32>[..] or tile<f32>[..]"
            raise KernelError(f"`{head.value}<...>` is not a type", self.span(head), hint)
        return kinds[head.value](self._scalar(element), tuple(dims), span=self.span(meta))

    # ---- statements ----

    def block(self, meta: Meta, items: list[Any]) -> tuple[syn.Stmt, ...]:
        return tuple(item for item in items if item is not None)

    def let(self, meta: Meta, items: list[Any]) -> syn.Stmt:
        return syn.Let(items[0].value, items[1], items[2], span=self.span(meta))

    def var(self, meta: Meta, items: list[Any]) -> syn.Stmt:
        return syn.Var(items[0].value, items[1], items[2], span=self.span(meta))

    def assign(self, meta: Meta, items: list[Any]) -> syn.Stmt:
        target, *rest = items
        rest = [item for item in rest if item is not None]
        if not rest:
            return syn.ExprStmt(target, span=self.span(meta))
        op = rest[0].value if len(rest) == 2 else "="
        named = isinstance(target, syn.Name) or (isinstance(target, syn.Index) and isinstance(target.value, syn.Name))
        if not named:
            hint = "assign to a variable, or a slice of one: A[i :+ n]"
            raise KernelError("this cannot be assigned to", target.span, hint)
        return syn.Assign(target, op, rest[-1], span=self.span(meta))

    def jump(self, meta: Meta, items: list[Any]) -> syn.Stmt:
        word = items[0]
        if word.type == "BREAK":
            return syn.Break(span=self.span(word))
        if word.type == "CONTINUE":
            return syn.Continue(span=self.span(word))
        return syn.Return(items[1] if len(items) > 1 else None, span=self.span(word))

    def for_stmt(self, meta: Meta, items: list[Any]) -> syn.Stmt:
        word, count, name, range_, *bounds, body = items
        if word is not None and (word.value != "unroll" or int(count.value) <= 0):
            raise KernelError("this is not a loop hint", self.span(word), "write for<unroll 4> i in range(0, n)")
        if range_.value != "range" or not 1 <= len(bounds) <= 3:
            raise KernelError(
                "a loop runs over a range", self.span(range_), "write `for i in range(start, stop, step) {`"
            )
        if len(bounds) == 1:
            bounds.insert(0, syn.IntLit(0, span=bounds[0].span))
        step = bounds[2] if len(bounds) == 3 else None
        unroll = int(count.value) if word is not None else None
        return syn.For(name.value, bounds[0], bounds[1], step, unroll, body, span=self._head(meta))

    def while_stmt(self, meta: Meta, items: list[Any]) -> syn.Stmt:
        return syn.While(items[0], items[1], span=self._head(meta))

    def if_stmt(self, meta: Meta, items: list[Any]) -> syn.Stmt:
        condition, then, orelse = items
        rest = (orelse,) if isinstance(orelse, syn.If) else (orelse or ())
        return syn.If(condition, then, rest, span=self._head(meta))

    def _head(self, meta: Meta) -> Span:
        """The place of a statement with blocks: its first line."""
        line = self.source.line(meta.line)
        return Span(self.source, meta.line, meta.column, meta.line, max(len(line.rstrip()) + 1, meta.column + 1))

    # ---- expressions ----

    def _number(self, token: Token) -> syn.IntLit | syn.FloatLit:
        span = self.span(token)
        if token.type == "INT":
            digits = token.value.lstrip("0") or "0"
            if len(digits) > 19 or int(digits) >= 1 << 63:
                raise KernelError("this integer does not fit 64 bits", span, "integers are signed 64-bit")
            return syn.IntLit(int(digits), span=span)
        value = float(token.value)
        if value == float("inf"):
            raise KernelError("this number is too large for f64", span, "the largest f32 is 3.4028235e38")
        return syn.FloatLit(value, span=span)

    def integer(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return self._number(items[0])

    def float(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return self._number(items[0])

    def boolean(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return syn.BoolLit(items[0].value == "true", span=self.span(items[0]))

    def name(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return syn.Name(items[0].value, span=self.span(items[0]))

    def group(self, meta: Meta, items: list[Any]) -> syn.Expr:
        inner: syn.Expr = items[0]
        return inner

    def binary(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return syn.Binary(items[1].value, items[0], items[2], span=self.span(meta))

    def unary(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return syn.Unary(items[0].value, items[1], span=self.span(meta))

    def call(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return syn.Call(items[0].value, items[1] or (), span=self.span(meta))

    def args(self, meta: Meta, items: list[Any]) -> tuple[syn.Expr, ...]:
        return tuple(items)

    def member(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return syn.Member(items[0], items[1].value, span=self.span(meta))

    def index(self, meta: Meta, items: list[Any]) -> syn.Expr:
        return syn.Index(items[0], items[1], span=self.span(meta))

    def subs(self, meta: Meta, items: list[Any]) -> tuple[syn.Sub, ...]:
        return tuple(items)

    def whole(self, meta: Meta, items: list[Any]) -> syn.Sub:
        return syn.Range(None, None, span=self.span(meta))

    def prefix(self, meta: Meta, items: list[Any]) -> syn.Sub:
        return syn.Range(None, items[0], span=self.span(meta))

    def point(self, meta: Meta, items: list[Any]) -> syn.Sub:
        return syn.Point(items[0], span=self.span(meta))

    def range(self, meta: Meta, items: list[Any]) -> syn.Sub:
        return syn.Range(items[0], items[1], span=self.span(meta))

    def window(self, meta: Meta, items: list[Any]) -> syn.Sub:
        return syn.Window(items[0], items[1], span=self.span(meta))
