"""Expressions of generated kernels: every operator and builtin, on scalars and tiles whose kind and shape are known.

A kind is float, int or bool; element types within a kind mix freely, so joins and conversions of all types come up.
`program_strategies` makes statements and kernels of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st
from phobos_sim.errors import Source, Span
from phobos_sim.lang import syntax as syn

FLOATS = ("f16", "bf16", "f32", "f32", "f64")
INTS = ("i8", "u8", "i32", "i64")
KIND = {**dict.fromkeys(FLOATS, "float"), **dict.fromkeys(INTS, "int"), "bool": "bool"}
OF_KIND = {"float": FLOATS, "int": INTS, "bool": ("bool",)}
HELD = {"f16": {"f16"}, "bf16": {"bf16"}, "f32": {"f16", "bf16", "f32"}, "f64": {"f16", "bf16", "f32", "f64"}}
CTAS = 4  # at most
NOWHERE = Span(Source("generated.ph", ""), 1, 1, 1, 1)

Shape = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Term:
    """An expression with the kind and shape of its value; shape () is a scalar.

    element: its element type where that is known. operands: element types that it multiplies, where it is a bare dot.
    """

    expr: syn.Expr
    kind: str
    shape: Shape
    element: str = ""
    operands: frozenset[str] = frozenset()

    @property
    def id(self) -> syn.Name:
        assert isinstance(self.expr, syn.Name)
        return self.expr


@dataclass
class Scope:
    """Names in reach: tiles and scalars, those of them that are variables, and loop counters."""

    terms: list[Term] = field(default_factory=list)
    variables: list[Term] = field(default_factory=list)
    counters: list[Term] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope(list(self.terms), list(self.variables), list(self.counters))


@dataclass(frozen=True)
class Memory:
    """A tensor parameter. own: rows that belong to each CTA alone (0 where none are written)."""

    name: str
    element: str
    rank: int
    own: int = 0


def integer(n: int) -> syn.Expr:
    literal = syn.IntLit(abs(n), span=NOWHERE)
    return literal if n >= 0 else syn.Unary("-", literal, span=NOWHERE)


def name(text: str) -> syn.Name:
    return syn.Name(text, span=NOWHERE)


def call(function: str, *args: syn.Expr) -> syn.Call:
    return syn.Call(function, args, span=NOWHERE)


def binary(op: str, a: syn.Expr, b: syn.Expr) -> syn.Binary:
    return syn.Binary(op, a, b, span=NOWHERE)


def windows(starts: Sequence[syn.Expr], shape: Sequence[syn.Expr | int]) -> tuple[syn.Sub, ...]:
    lengths = [n if isinstance(n, syn.Expr) else integer(n) for n in shape]
    return tuple(syn.Window(s, n, span=NOWHERE) for s, n in zip(starts, lengths, strict=True))


def index(base: syn.Expr, subs: Sequence[syn.Sub]) -> syn.Index:
    return syn.Index(base, tuple(subs), span=NOWHERE)


def points(at: Sequence[syn.Expr]) -> tuple[syn.Sub, ...]:
    return tuple(syn.Point(i, span=NOWHERE) for i in at)


def scalar_type(element: str) -> syn.ScalarType:
    return syn.ScalarType(element, span=NOWHERE)


def tile_type(element: str, shape: Sequence[syn.Expr | int]) -> syn.TileType:
    dims = tuple(n if isinstance(n, syn.Expr) else integer(n) for n in shape)
    return syn.TileType(scalar_type(element), dims, span=NOWHERE)


def broadcast(*shapes: Shape) -> Shape:
    tiles = [shape for shape in shapes if shape]
    return tuple(max(extents) for extents in zip(*tiles, strict=True)) if tiles else ()


class Expressions:
    """Draws expressions. moves: whether elements may move within a tile, which the register mapping does not have."""

    def __init__(self, draw: st.DrawFn, small: bool) -> None:
        self.draw = draw
        self.counter = 0
        self.params: list[syn.Param] = []
        self.inputs: list[Memory] = []
        self.functions: dict[str, tuple[str, syn.Function]] = {}
        self.pure = False  # within a function: nothing but its parameters
        self.style(small)

    def style(self, small: bool) -> None:
        """Rank and extents of the program's tiles, and how much there will be of it."""
        style = self.one(("moves", "moves", "moves", "lanes", "lanes", "lanes", "vector", "cube"))
        self.moves = style == "moves"
        few = (1, 2, 3, 4, 5, 7, 8, 16)
        rows = self.one(few if small else few + ((24, 33, 40) if self.moves else (32, 48)))
        wide = (1, 8, 16, 24) if small else (1, 8, 16, 16, 24, 32, 64, 100)
        columns = self.one(few if self.moves else wide)
        self.rows, self.columns = rows, columns
        if style == "vector":
            self.shapes: tuple[Shape, ...] = ((columns,), (1,))
        elif style == "cube":
            depth, rows = self.one((1, 2, 3)), self.one((1, 2, 4))
            self.shapes = ((depth, rows, columns), (1, rows, columns), (depth, 1, 1), (1, 1, columns))
        else:
            self.shapes = ((rows, columns), (rows, 1), (1, columns), (1, 1))
        self.wide = self.shapes[0]
        self.rank = len(self.wide)
        self.budget = self.one((4, 8, 14) if small else (6, 14, 28))

    # ---- drawing ----

    def one(self, choices: Sequence[T]) -> T:
        return self.draw(st.sampled_from(choices))

    def flip(self) -> bool:
        return self.draw(st.booleans())

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def rarely(self, n: int) -> bool:
        return self.number(0, n - 1) == n - 1

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    # ---- leaves ----

    def literal(self, kind: str) -> Term:
        if kind == "bool":
            return Term(syn.BoolLit(self.flip(), span=NOWHERE), kind, ())
        if kind == "int":
            return Term(integer(self.one((0, 1, 2, 3, 7, 31, 255, 65535, -1, -128, 2147483647))), kind, ())
        value = self.one((0.0, 1.0, 0.5, 3.0, 0.1, 65504.0, 1e-6, 1e30, 2.0**-24))
        return Term(syn.FloatLit(value, span=NOWHERE), kind, ())

    def leaf(self, scope: Scope, kind: str, shape: Shape) -> Term:
        """A value whose shape broadcasts to `shape`; a literal where nothing in reach does."""

        def fits(t: Term) -> bool:
            return not t.shape or (
                len(t.shape) == len(shape) and all(a in (1, b) for a, b in zip(t.shape, shape, strict=True))
            )

        found = [t for t in scope.terms if t.kind == kind and fits(t)]
        if not found or self.rarely(6):
            return self.literal(kind)
        return self.one(found[-3:] if self.flip() else found)

    def integer_of(self, scope: Scope, low: int, high: int) -> syn.Expr:
        """A start or a coordinate: mostly a literal in the range, else a loop counter, any integer."""
        if scope.counters and self.rarely(3):
            return self.one(scope.counters).expr
        if not self.pure and self.rarely(8):
            return self.expr(scope, "int", (), 1).expr
        return integer(self.number(low, high))

    # ---- expressions ----

    def expr(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        """An expression of that kind whose value broadcasts to `shape`."""
        if depth <= 0 or self.budget <= 0 or self.number(0, 4) == 0:
            return self.leaf(scope, kind, shape)
        self.budget -= 1
        if kind == "bool":
            return self.condition(scope, shape, depth)
        choices = ["binary", "binary", "binary", "minus", "tmax", "where", "convert"]
        choices += ["math", "math", "pow"] if kind == "float" else ["bits", "bits", "not", "argsel"]
        choices += [] if self.pure or not self.functions else ["call"]
        if not shape and not self.pure:
            choices += ["point"] if kind == "float" else ["point", "extent"]
        if len(shape) == 2 and not self.pure:
            choices += ["reduce", "dot", "tril"] if kind == "float" else ["iota", "dot", "tril"]
            if self.moves:
                choices += ["movement", "movement"] if kind == "float" else ["argmax", "movement", "movement"]
        return getattr(self, f"_{self.one(choices)}")(scope, kind, shape, depth - 1)

    def pair(self, scope: Scope, kind: str, shape: Shape, depth: int) -> tuple[Term, Term, Shape]:
        a, b = self.expr(scope, kind, shape, depth), self.expr(scope, kind, shape, depth)
        return a, b, broadcast(a.shape, b.shape)

    def _binary(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a, b, joined = self.pair(scope, kind, shape, depth)
        return Term(binary(self.one(syn.ARITHMETIC), a.expr, b.expr), kind, joined)

    def _bits(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a, b, joined = self.pair(scope, kind, shape, depth)
        return Term(binary(self.one(syn.BITWISE), a.expr, b.expr), kind, joined)

    def _minus(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a = self.expr(scope, kind, shape, depth)
        return Term(syn.Unary("-", a.expr, span=NOWHERE), kind, a.shape)

    def _not(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a = self.expr(scope, kind, shape, depth)
        return Term(syn.Unary("~", a.expr, span=NOWHERE), kind, a.shape)

    def _tmax(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a, b, joined = self.pair(scope, kind, shape, depth)
        return Term(call("tmax", a.expr, b.expr), kind, joined)

    def _where(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        c = self.condition(scope, shape, depth)
        a, b, joined = self.pair(scope, kind, shape, depth)
        return Term(call("where", c.expr, a.expr, b.expr), kind, broadcast(c.shape, joined))

    def _argsel(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a, b, values = self.pair(scope, self.one(("float", "int")), shape, depth)
        x, y, joined = self.pair(scope, kind, shape, depth)
        return Term(call("argsel", a.expr, b.expr, x.expr, y.expr), kind, broadcast(values, joined))

    def _convert(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a, element = self.expr(scope, self.one(("float", "int", "bool")), shape, depth), self.one(OF_KIND[kind])
        return Term(call(element, a.expr), kind, a.shape, element)

    def _math(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a = self.expr(scope, kind, shape, depth)
        return Term(call(self.one(("exp", "log", "sqrt", "tanh", "round")), a.expr), kind, a.shape)

    def _pow(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a, b, joined = self.pair(scope, kind, shape, depth)
        return Term(call("pow", a.expr, b.expr), kind, joined)

    def _call(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        fits = [function for function, (found, _) in self.functions.items() if found == kind]
        if not fits:
            return self.leaf(scope, kind, shape)
        a, b, joined = self.pair(scope, "float" if kind == "bool" else kind, shape, depth)
        return Term(call(self.one(fits), a.expr, b.expr, self.expr(scope, "int", (), 0).expr), kind, joined)

    def condition(self, scope: Scope, shape: Shape, depth: int) -> Term:
        """A comparison, a negation, two of them joined, or a call."""
        how = self.number(0, 9) if depth > 0 and self.budget > 0 else 9
        self.budget -= 1
        if how < 2:
            a, b = self.condition(scope, shape, depth - 1), self.condition(scope, shape, depth - 1)
            ops = ("&", "|", "^", "==", "!=") + (() if a.shape or b.shape or self.pure else ("&&", "||"))
            return Term(binary(self.one(ops), a.expr, b.expr), "bool", broadcast(a.shape, b.shape))
        if how == 2:
            a = self.condition(scope, shape, depth - 1)
            return Term(syn.Unary("!", a.expr, span=NOWHERE), "bool", a.shape)
        if how == 3 and not self.pure:
            return self._call(scope, "bool", shape, depth)
        a, b, joined = self.pair(scope, self.one(("float", "int")), shape, depth - 1)
        return Term(binary(self.one(syn.COMPARISONS), a.expr, b.expr), "bool", joined)

    def tile(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        """An expression that is a tile of exactly that shape, made one by a fresh load if need be."""
        term = self.expr(scope, kind, shape, depth)
        if term.shape == shape:
            return term
        whole = self.loaded(scope, self.one(OF_KIND[kind]), shape)
        return Term(binary("|" if kind == "bool" else "+", whole.expr, term.expr), kind, shape)

    # ---- scalars of the launch and of memory ----

    def _extent(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        if self.inputs and self.flip():
            tensor = self.one(self.inputs)
            return Term(call("extent", name(tensor.name), integer(self.number(0, tensor.rank - 1))), kind, ())
        return Term(call("program_id", integer(self.number(0, 2))), kind, ())

    def _point(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        """One element of a tensor, or of a tile variable."""
        tiles = [t for t in scope.terms if t.kind == kind and t.shape] if self.moves else []
        if tiles and self.flip():
            t = self.one(tiles)
            return Term(index(t.expr, points([self.integer_of(scope, -1, n) for n in t.shape])), kind, ())
        tensor = self.input(self.one(OF_KIND[kind]))
        at = [self.integer_of(scope, -1, 24) for _ in range(tensor.rank)]
        return Term(index(name(tensor.name), points(at)), kind, ())

    # ---- tiles of rank 2 ----

    def _reduce(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        if shape[0] != self.rows:
            return self.leaf(scope, kind, shape)
        odd = self.moves and self.rarely(3)
        a = self.tile(scope, kind, (self.rows, self.one((1, 3, 9, 33, 65)) if odd else self.columns), depth)
        return Term(call(self.one(("rowsum", "rowmax")), a.expr), kind, (self.rows, 1))

    def _argmax(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        if shape[0] != self.rows:
            return self.leaf(scope, kind, shape)
        a = self.tile(scope, self.one(("float", "int")), self.wide, depth)
        return Term(call("rowargmax", a.expr), kind, (self.rows, 1), "i32")

    def _iota(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        if shape[1] != self.columns:
            return self.leaf(scope, kind, shape)
        return Term(call("iota", integer(self.columns)), kind, (1, self.columns), "i32")

    def _tril(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        return Term(call("tril", self.tile(scope, kind, shape, depth).expr), kind, shape)

    def _movement(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        which = self.one(("transpose", "cumsum", "slice", "gather", "flat"))
        if which == "transpose":
            a = self.tile(scope, kind, shape[::-1], depth)
            return Term(call("transpose", a.expr), kind, shape)
        if which == "flat" and shape[0] == 1:
            rows = self.one([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
            return Term(call("flat", self.tile(scope, kind, (rows, shape[1] // rows), depth).expr), kind, shape)
        a = self.tile(scope, kind, shape, depth)
        if which == "slice":
            starts = [self.integer_of(scope, -1, 2) for _ in shape]
            return Term(index(a.expr, windows(starts, shape)), kind, shape)
        if which == "gather":
            where = self.tile(scope, "int", shape, depth)
            return Term(call("gather", a.expr, where.expr), kind, shape)
        if which == "cumsum" and kind == "float":
            return Term(call("cumsum", a.expr), kind, shape)
        return a

    def _dot(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        inner, function = self.one((1, 2, 4, 8, 16, 32)), self.one(("dot", "dot_t"))
        a = self.factor(scope, kind, (shape[0], inner), depth)
        b = self.factor(scope, kind, (inner, shape[1]) if function == "dot" else (shape[1], inner), depth)
        product = call(function, a.expr, b.expr)
        return Term(product, kind, shape, operands=frozenset((a.element, b.element)))

    def factor(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        """An operand of a dot, of a known element type: a slice, a named tile, a converted expression."""
        named = [t for t in scope.terms if t.kind == kind and t.shape == shape and t.element]
        if named and self.flip():
            return self.one(named)
        element = self.one(OF_KIND[kind])
        if self.rarely(4):
            return Term(call(element, self.tile(scope, kind, shape, depth).expr), kind, shape, element)
        return self.loaded(scope, element, shape)

    # ---- memory ----

    def input(self, element: str) -> Memory:
        """A read-only tensor of that element type."""
        found = [t for t in self.inputs if t.element == element]
        if found:
            return found[0]
        new = Memory(self.fresh("X"), element, self.rank)
        self.inputs.append(new)
        extents = [24] * self.rank
        if self.rank > 1:
            extents[-1] = max(24, self.columns + 4)
        dims = (name("M"), *map(integer, extents[1:])) if self.flip() else tuple(map(integer, extents))
        kind = syn.TensorType(scalar_type(element), dims, span=NOWHERE)
        self.params.append(syn.Param(new.name, kind, span=NOWHERE))
        return new

    def loaded(self, scope: Scope, element: str, shape: Shape) -> Term:
        """A slice of a read-only tensor, partly outside at times."""
        tensor = self.input(element)
        first = binary("*", name("r"), integer(shape[0])) if self.flip() else self.integer_of(scope, 0, 8)
        starts = [first, *(self.integer_of(scope, 0, 12) for _ in shape[1:])]
        return Term(index(name(tensor.name), windows(starts, shape)), KIND[element], shape, element)
