"""Hypothesis strategy of well-typed kernels: every construct of the tile language, on small tiles of every type.

A program is made as a syntax tree, statement by statement, with the shape and the kind (float, int, bool) of every
value known, and printed as `.ph` text, so the text in a failure message is the whole case. `Case` says how to launch
it; whoever runs it fills the arrays.

What is left out: loops whose trips depend on data (their bound is a literal), sums of nothing, `grid_barrier`, and
stores of one CTA into what another one reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st
from phobos_sim.errors import Source, Span
from phobos_sim.lang import syntax as syn
from phobos_sim.lang.kernel import Kernel
from phobos_sim.lang.load import parse_source
from phobos_sim.lang.printer import to_ph

FLOATS = ("f16", "bf16", "f32", "f32", "f64")
INTS = ("i8", "u8", "i32", "i64")
KIND = {**dict.fromkeys(FLOATS, "float"), **dict.fromkeys(INTS, "int"), "bool": "bool"}
OF_KIND = {"float": FLOATS, "int": INTS, "bool": ("bool",)}
EXTENTS = (1, 2, 3, 4, 5, 8, 16)
ACCUMULATED = (("f16", "f32"), ("f32", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f64", "f64"), ("i8", "i32"))
HELD = {"f16": {"f16"}, "bf16": {"bf16"}, "f32": {"f16", "bf16", "f32"}, "f64": {"f16", "bf16", "f32", "f64"}}
THREADS = (32, 64, 96, 128, 256)
NOWHERE = Span(Source("generated.ph", ""), 1, 1, 1, 1)

Shape = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """A kernel and how to launch it: extents of its symbolic dims, scalar arguments in order, grid."""

    text: str
    kernel: Kernel
    dims: dict[str, int]
    scalars: tuple[object, ...]
    grid: Shape

    def __repr__(self) -> str:
        return f"{self.text}dims {self.dims}, scalars {self.scalars}, grid {self.grid}"


@dataclass(frozen=True)
class Term:
    """An expression with the kind and shape of its value; shape () is a scalar."""

    expr: syn.Expr
    kind: str
    shape: Shape


@dataclass
class Scope:
    """Names in reach: tiles and scalars, and which of them are variables."""

    terms: list[Term] = field(default_factory=list)
    variables: list[tuple[Term, str]] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope(list(self.terms), list(self.variables))


def integer(n: int) -> syn.Expr:
    literal = syn.IntLit(abs(n), span=NOWHERE)
    return literal if n >= 0 else syn.Unary("-", literal, span=NOWHERE)


def name(text: str) -> syn.Name:
    return syn.Name(text, span=NOWHERE)


def call(function: str, *args: syn.Expr) -> syn.Call:
    return syn.Call(function, args, span=NOWHERE)


def binary(op: str, a: syn.Expr, b: syn.Expr) -> syn.Binary:
    return syn.Binary(op, a, b, span=NOWHERE)


def windows(starts: list[syn.Expr], shape: Shape) -> tuple[syn.Sub, ...]:
    return tuple(syn.Window(s, integer(n), span=NOWHERE) for s, n in zip(starts, shape, strict=True))


def tile_type(element: str, shape: Shape) -> syn.TileType:
    return syn.TileType(syn.ScalarType(element, span=NOWHERE), tuple(integer(n) for n in shape), span=NOWHERE)


class Maker:
    """Draws one program."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rows, self.columns = self.one(EXTENTS), self.one(EXTENTS)
        self.counter = 0
        self.params: list[syn.Param] = []
        self.inputs: list[tuple[str, str, bool]] = []
        self.scalars: list[object] = []
        self.ragged = self.flip()
        self.wide = (self.rows, self.columns)
        self.shapes: tuple[Shape, ...] = (self.wide, (self.rows, 1), (1, self.columns), (1, 1))

    def one(self, choices: Sequence[T]) -> T:
        return self.draw(st.sampled_from(choices))

    def flip(self) -> bool:
        return self.draw(st.booleans())

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    # ---- expressions ----

    def literal(self, kind: str) -> Term:
        if kind == "bool":
            return Term(syn.BoolLit(self.flip(), span=NOWHERE), kind, ())
        if kind == "int":
            return Term(integer(self.one((0, 1, 2, 3, 7, 31, 255, 65535, -1, -128, 2147483647))), kind, ())
        value = self.one((0.0, 1.0, 0.5, 3.0, 0.1, 65504.0, 1e-6, 1e30, 2.0**-24))
        return Term(syn.FloatLit(value, span=NOWHERE), kind, ())

    def leaf(self, scope: Scope, kind: str, shape: Shape) -> Term:
        """A value whose shape broadcasts to `shape`; a literal where nothing in reach does."""
        fits = [
            t
            for t in scope.terms
            if t.kind == kind
            and (
                not t.shape
                or (len(t.shape) == len(shape) and all(a in (1, b) for a, b in zip(t.shape, shape, strict=True)))
            )
        ]
        return self.one(fits) if fits and self.number(0, 5) else self.literal(kind)

    def expr(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        """An expression of that kind whose value broadcasts to `shape`."""
        if depth == 0 or self.number(0, 4) == 0:
            return self.leaf(scope, kind, shape)
        if kind == "bool":
            return self.condition(scope, shape, depth)
        choices = ["binary", "binary", "binary", "minus", "tmax", "where", "convert"]
        choices += ["math", "math", "pow"] if kind == "float" else ["bits", "bits", "not"]
        if len(shape) == 2:
            choices += ["reduce", "movement", "dot"] if kind == "float" else ["argmax", "movement", "iota", "dot"]
        return getattr(self, f"_{self.one(choices)}")(scope, kind, shape, depth - 1)

    def pair(self, scope: Scope, kind: str, shape: Shape, depth: int) -> tuple[Term, Term, Shape]:
        a, b = self.expr(scope, kind, shape, depth), self.expr(scope, kind, shape, depth)
        return a, b, self.broadcast(a.shape, b.shape)

    @staticmethod
    def broadcast(*shapes: Shape) -> Shape:
        tiles = [shape for shape in shapes if shape]
        return tuple(max(extents) for extents in zip(*tiles, strict=True)) if tiles else ()

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
        return Term(call("where", c.expr, a.expr, b.expr), kind, self.broadcast(c.shape, joined))

    def _convert(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a = self.expr(scope, self.one(("float", "int", "bool")), shape, depth)
        return Term(call(self.one(OF_KIND[kind]), a.expr), kind, a.shape)

    def _math(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a = self.expr(scope, kind, shape, depth)
        return Term(call(self.one(("exp", "log", "sqrt", "tanh", "round")), a.expr), kind, a.shape)

    def _pow(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        a, b, joined = self.pair(scope, kind, shape, depth)
        return Term(call("pow", a.expr, b.expr), kind, joined)

    def condition(self, scope: Scope, shape: Shape, depth: int) -> Term:
        """A comparison, a negation, or two of them joined by a bit operator."""
        if depth and self.number(0, 3) == 0:
            a, b = self.condition(scope, shape, depth - 1), self.condition(scope, shape, depth - 1)
            op = self.one(("&", "|", "^", "==", "!="))
            return Term(binary(op, a.expr, b.expr), "bool", self.broadcast(a.shape, b.shape))
        if depth and self.number(0, 3) == 0:
            a = self.condition(scope, shape, depth - 1)
            return Term(syn.Unary("!", a.expr, span=NOWHERE), "bool", a.shape)
        a, b, joined = self.pair(scope, self.one(("float", "int")), shape, max(depth - 1, 0))
        return Term(binary(self.one(syn.COMPARISONS), a.expr, b.expr), "bool", joined)

    def tile(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        """An expression that is a tile of exactly that shape, made one by a fresh load if need be."""
        term = self.expr(scope, kind, shape, depth)
        if term.shape == shape:
            return term
        whole = self.loaded(self.one(OF_KIND[kind]), shape)
        if kind == "bool":
            return Term(binary("|", whole.expr, term.expr), kind, shape)
        return Term(binary("+", whole.expr, term.expr), kind, shape)

    def _reduce(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        if shape[0] != self.rows:
            return self.leaf(scope, kind, shape)
        a = self.tile(scope, kind, self.wide, depth)
        return Term(call(self.one(("rowsum", "rowmax")), a.expr), kind, (self.rows, 1))

    def _argmax(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        if shape[0] != self.rows:
            return self.leaf(scope, kind, shape)
        a = self.tile(scope, self.one(("float", "int")), self.wide, depth)
        return Term(call("rowargmax", a.expr), kind, (self.rows, 1))

    def _iota(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        if shape[1] != self.columns:
            return self.leaf(scope, kind, shape)
        return Term(call("iota", integer(self.columns)), kind, (1, self.columns))

    def _movement(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        which = self.one(("transpose", "tril", "cumsum", "slice", "gather", "element"))
        if which == "transpose":
            a = self.tile(scope, kind, shape[::-1], depth)
            return Term(call("transpose", a.expr), kind, shape)
        a = self.tile(scope, kind, shape, depth)
        if which == "element":
            subs = tuple(syn.Point(integer(self.number(-1, n)), span=NOWHERE) for n in shape)
            return Term(syn.Index(a.expr, subs, span=NOWHERE), kind, ())
        if which == "slice":
            starts = [integer(self.number(-1, 2)) for _ in shape]
            return Term(syn.Index(a.expr, windows(starts, shape), span=NOWHERE), kind, shape)
        if which == "gather":
            where = self.tile(scope, "int", shape, depth)
            return Term(call("gather", a.expr, where.expr), kind, shape)
        return Term(call("cumsum" if which == "cumsum" and kind == "float" else "tril", a.expr), kind, shape)

    def _dot(self, scope: Scope, kind: str, shape: Shape, depth: int) -> Term:
        inner, function = self.one((1, 2, 4, 8, 16, 32)), self.one(("dot", "dot_t"))
        elements = self.one(OF_KIND[kind]), self.one(OF_KIND[kind])
        a = self.loaded(elements[0], (shape[0], inner))
        b = self.loaded(elements[1], (inner, shape[1]) if function == "dot" else (shape[1], inner))
        return Term(call(function, a.expr, b.expr), kind, shape)

    # ---- memory ----

    def loaded(self, element: str, shape: Shape) -> Term:
        """A slice of an input of that element type, or a conversion of one of the same kind."""
        made = [(n, dynamic) for n, e, dynamic in self.inputs if e == element]
        if not made:
            dynamic = self.flip()
            made = [(self.fresh("X"), dynamic)]
            dims = (name("M"), integer(24)) if dynamic else (integer(24), integer(24))
            self.inputs.append((made[0][0], element, dynamic))
            kind = syn.TensorType(syn.ScalarType(element, span=NOWHERE), dims, span=NOWHERE)
            self.params.append(syn.Param(made[0][0], kind, span=NOWHERE))
        tensor, _ = self.one(made)
        starts: list[syn.Expr] = [
            binary("*", name("r"), integer(shape[0])) if self.flip() else integer(self.number(0, 8))
        ]
        starts.append(integer(self.number(0, 20)))
        return Term(syn.Index(name(tensor), windows(starts, shape), span=NOWHERE), KIND[element], shape)

    # ---- statements ----

    def block(self, scope: Scope, depth: int, least: int = 1) -> tuple[syn.Stmt, ...]:
        statements: list[syn.Stmt] = []
        for _ in range(self.number(least, 4)):
            kinds = ["declare", "declare", "assign", "assign", "part", "scalar"]
            kinds += ["branch", "loop", "accumulate"] if depth else []
            statements += getattr(self, f"_make_{self.one(kinds)}")(scope, depth)
        return tuple(statements)

    def _make_declare(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        shape, kind = self.one(self.shapes), self.one(("float", "float", "int", "bool"))
        word, new = self.one((syn.Let, syn.Var)), self.fresh("t")
        if self.number(0, 2):
            value = self.expr(scope, kind, shape, 3).expr
            element = self.one(self.holding(value, kind))
            made: syn.Stmt = word(new, tile_type(element, shape), value, span=NOWHERE)
        else:
            element = ""
            made = word(new, None, self.tile(scope, kind, shape, 3).expr, span=NOWHERE)
        term = Term(name(new), kind, shape)
        scope.terms.append(term)
        if word is syn.Var:
            scope.variables.append((term, element))
        return [made]

    def _make_scalar(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        kind, new = self.one(("float", "int", "bool")), self.fresh("s")
        value = self.expr(scope, kind, (), 2).expr
        scope.terms.append(Term(name(new), kind, ()))
        if self.flip():
            scope.variables.append((scope.terms[-1], ""))
            return [syn.Var(new, None, value, span=NOWHERE)]
        return [syn.Let(new, None, value, span=NOWHERE)]

    def _make_assign(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        if not scope.variables:
            return self._make_declare(scope, depth)
        term, _ = self.one(scope.variables)
        assert isinstance(term.expr, syn.Name)
        ops = {
            "float": ["=", "=", "+=", "-=", "*=", "/="],
            "int": list(syn.ASSIGNMENTS),
            "bool": ["=", "&=", "|=", "^="],
        }
        value = self.no_dot(self.expr(scope, term.kind, term.shape, 3).expr)
        return [syn.Assign(term.expr, self.one(ops[term.kind]), value, span=NOWHERE)]

    def holding(self, value: syn.Expr, kind: str) -> Sequence[str]:
        """Element types that a target may have: one that a dot fills holds its operands exactly."""
        if not (isinstance(value, syn.Call) and value.function in ("dot", "dot_t") and kind == "float"):
            return OF_KIND[kind]
        elements = {n: e for n, e, _ in self.inputs}
        operands = {elements[n.id] for n in syn.walk(value) if isinstance(n, syn.Name) and n.id in elements}
        return [e for e in ("f16", "bf16", "f32", "f64") if operands <= HELD[e]]

    @staticmethod
    def no_dot(value: syn.Expr) -> syn.Expr:
        """A dot by itself as part of a sum, where the target's type is not known."""
        alone = isinstance(value, syn.Call) and value.function in ("dot", "dot_t")
        return binary("+", value, integer(0)) if alone else value

    def _make_part(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        tiles = [term for term, _ in scope.variables if term.shape]
        if not tiles:
            return self._make_declare(scope, depth)
        term = self.one(tiles)
        assert isinstance(term.expr, syn.Name)
        shape = tuple(self.one((1, n)) for n in term.shape)
        starts = [integer(self.number(0, 2)) for _ in shape]
        value = self.no_dot(self.expr(scope, term.kind, shape, 2).expr)
        target = syn.Index(term.expr, windows(starts, shape), span=NOWHERE)
        op = self.one(("=", "=", "+=" if term.kind != "bool" else "="))
        return [syn.Assign(target, op, value, span=NOWHERE)]

    def _make_branch(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        test = self.condition(scope, (), 1)
        then = self.block(scope.inner(), depth - 1)
        orelse = self.block(scope.inner(), depth - 1) if self.flip() else ()
        return [syn.If(test.expr, then, orelse, span=NOWHERE)]

    def _make_loop(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        inner, counter = scope.inner(), self.fresh("i")
        inner.terms.append(Term(name(counter), "int", ()))
        body = self.block(inner, depth - 1)
        if self.number(0, 3) == 0:
            jump = self.one((syn.Break, syn.Continue))(span=NOWHERE)
            stop = syn.If(self.condition(inner, (), 1).expr, (jump,), (), span=NOWHERE)
            body = (*body, stop, *self.block(inner, 0))
        bounds = integer(0), integer(self.number(0, 6)), self.one((None, integer(2)))
        return [syn.For(counter, *bounds, None, body, span=NOWHERE)]

    def _make_accumulate(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        """var acc; a loop of acc += dot over panels of inputs."""
        function, step = self.one(("dot", "dot_t")), self.one((4, 8, 16))
        operand, acc_element = self.one(ACCUMULATED)
        kind = KIND[acc_element]
        shape = self.one((self.wide, (16, 16), (32, 16), (8, 8)))
        acc = self.fresh("acc")
        a = self.loaded(operand, (shape[0], step))
        b = self.loaded(operand, (step, shape[1]) if function == "dot" else (shape[1], step))
        k, pa, pb = self.fresh("k"), self.fresh("a"), self.fresh("b")
        body = (
            self.one((syn.Let, syn.Var))(pa, None, a.expr, span=NOWHERE),
            self.one((syn.Let, syn.Var))(pb, None, b.expr, span=NOWHERE),
            syn.Assign(name(acc), "+=", call(function, name(pa), name(pb)), span=NOWHERE),
        )
        start = self.literal(kind).expr
        statements: list[syn.Stmt] = [
            syn.Var(acc, tile_type(acc_element, shape), start, span=NOWHERE),
            syn.For(k, integer(0), integer(self.number(0, 3) * step), integer(step), None, body, span=NOWHERE),
        ]
        if shape == self.wide:
            scope.terms.append(Term(name(acc), kind, shape))
            scope.variables.append((scope.terms[-1], acc_element))
        statements.append(self.output(Term(name(acc), kind, shape)))
        return statements

    def output(self, term: Term) -> syn.Stmt:
        """Stores a value in a slice of a fresh output; one CTA never meets another's slice."""
        element, new = self.one(OF_KIND[term.kind]), self.fresh("Y")
        dims = (name("M"), integer(40)) if self.flip() else (integer(3 * term.shape[0]), integer(40))
        kind = syn.TensorType(syn.ScalarType(element, span=NOWHERE), dims, span=NOWHERE)
        self.params.append(syn.Param(new, kind, span=NOWHERE))
        starts: list[syn.Expr] = [binary("*", name("r"), integer(term.shape[0])), integer(self.number(0, 20))]
        target = syn.Index(name(new), windows(starts, term.shape), span=NOWHERE)
        return syn.Assign(target, "=", term.expr, span=NOWHERE)

    # ---- the kernel ----

    def case(self) -> Case:
        scope = Scope()
        for element, value in (("f32", 1.5), ("f16", -0.25), ("i32", self.number(-3, 9)), ("bool", self.flip())):
            new = self.fresh("p")
            self.params.append(syn.Param(new, syn.ScalarType(element, span=NOWHERE), span=NOWHERE))
            self.scalars.append(value)
            scope.terms.append(Term(name(new), KIND[element], ()))
        block = syn.Member(syn.Member(name("ctx"), "block", span=NOWHERE), "x", span=NOWHERE)
        body: list[syn.Stmt] = [syn.Let("r", None, block, span=NOWHERE)]
        scope.terms.append(Term(name("r"), "int", ()))
        body += self.block(scope, 2, least=2)
        stored = [term for term in scope.terms if term.shape][-4:] or [self.loaded("f32", self.wide)]
        body += [self.output(term) for term in stored]
        threads = syn.Positional(integer(self.one(THREADS)), span=NOWHERE)
        attrs = [syn.Attr("launch", (threads,), span=NOWHERE)]
        attrs += [syn.Attr("tensorcore", (), span=NOWHERE)] if self.flip() else []
        kernel = syn.Kernel("generated", tuple(attrs), tuple(self.params), tuple(body), span=NOWHERE)
        text = to_ph(syn.Module((kernel,), span=NOWHERE))
        source = Source("generated.ph", text)
        tree = parse_source(source)
        uses_m = any(isinstance(n, syn.Name) and n.id == "M" for n in syn.walk(kernel))
        dims = {"M": self.number(1, 24)} if uses_m else {}
        return Case(text, Kernel.from_tree("generated", source, tree), dims, tuple(self.scalars), (self.number(1, 3),))


@st.composite
def programs(draw: st.DrawFn) -> Case:
    """A well-typed kernel and how to launch it."""
    return Maker(draw).case()
