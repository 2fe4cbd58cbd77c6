"""Hypothesis strategy of well-typed kernels: every construct of the tile language, on small tiles of every type.

A program is made as a syntax tree, statement by statement, with the shape and the kind (float, int, bool) of every
value known, and printed as `.ph` text, so the text in a failure message is the whole case. `Case` says how to launch
it; whoever runs it fills the arrays.

What is left out: loops that might not end, sums of nothing, `grid_barrier`, and stores of one CTA into what another
one reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from phobos_sim.errors import Source
from phobos_sim.lang import syntax as syn
from phobos_sim.lang.kernel import Kernel
from phobos_sim.lang.load import parse_source
from phobos_sim.lang.printer import to_ph
from program_expressions import (
    CTAS,
    HELD,
    KIND,
    NOWHERE,
    OF_KIND,
    Expressions,
    Memory,
    Scope,
    Shape,
    Term,
    binary,
    call,
    index,
    integer,
    name,
    points,
    scalar_type,
    tile_type,
    windows,
)

ACCUMULATED = (("f16", "f32"), ("f32", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f64", "f64"), ("i8", "i32"))
THREADS = (32, 64, 96, 128, 256)
KINDS = ("float", "float", "int", "bool")
OPERATORS = {
    "float": ("=", "=", "+=", "-=", "*=", "/=", "%="),
    "int": syn.ASSIGNMENTS,
    "bool": ("=", "&=", "|=", "^="),
}
JUMPS = (syn.Break, syn.Break, syn.Continue, syn.Return)
DEPTH = 2  # of blocks within blocks


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


class Maker(Expressions):
    """Draws one program."""

    def __init__(self, draw: st.DrawFn, small: bool = False) -> None:
        super().__init__(draw, small)
        self.most = 3 if small else 4  # statements of a block
        self.memory: list[Memory] = []
        self.scalars: list[object] = []
        self.accumulators = 1 if small else 2  # how many loops of dots there may be
        self.constants: dict[str, int] = {}

    # ---- blocks ----

    def block(self, scope: Scope, depth: int, least: int = 1) -> tuple[syn.Stmt, ...]:
        statements: list[syn.Stmt] = []
        for _ in range(self.number(least, self.most)):
            kinds = ["declare", "declare", "load", "assign", "assign", "scalar", "store"]
            kinds += ["part", "part"] if self.moves else []
            kinds += ["branch", "loop", "while"] if depth else []
            if self.rank == 2 and self.accumulators and self.flip():
                kinds += ["accumulate", "gemm"]
            statements += getattr(self, f"_make_{self.one(kinds)}")(scope, depth)
        if depth < DEPTH:  # something that outlives the block
            statements += self.one((self._make_assign, self._make_store))(scope, depth)
        return tuple(statements)

    def extents(self, shape: Shape) -> list[syn.Expr | int]:
        """A shape as written: literals, or the constants of @autotune."""
        names = {value: constant for constant, value in self.constants.items()}
        return [name(names[n]) if n in names and self.flip() else n for n in shape]

    def keep(self, scope: Scope, term: Term, variable: bool) -> None:
        scope.terms.append(term)
        if variable:
            scope.variables.append(term)

    # ---- declarations ----

    def _make_declare(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        shape, kind = self.one(self.shapes), self.one(KINDS)
        word, new = self.one((syn.Let, syn.Var)), self.fresh("t")
        how = self.number(0, 7)
        if how == 0:  # zeros
            element = self.one(OF_KIND[kind])
            made: syn.Stmt = syn.Var(new, tile_type(element, self.extents(shape)), None, span=NOWHERE)
            self.keep(scope, Term(name(new), kind, shape, element), True)
        elif how < 6:
            value = self.expr(scope, kind, shape, 3)
            element = self.one(self.holding(value))
            made = word(new, tile_type(element, self.extents(shape)), value.expr, span=NOWHERE)
            self.keep(scope, Term(name(new), kind, shape, element), word is syn.Var)
        else:
            value = self.tile(scope, kind, shape, 3)
            made = word(new, None, value.expr, span=NOWHERE)
            self.keep(scope, Term(name(new), kind, shape, value.element), word is syn.Var)
        return [made]

    def _make_load(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        """A live view (let) or a copy (var) of a slice that is read only, or of one that is written too; an alias."""
        word, new, shape = self.one((syn.Let, syn.Var)), self.fresh("v"), self.one(self.shapes)
        tiles = [t for t in scope.terms if t.shape]
        how = self.number(0, 4)
        if how == 0 and tiles:
            term = self.one(tiles)
        elif how < 3:
            term = self.window(scope, shape)
        else:
            term = self.loaded(scope, self.one(OF_KIND[self.one(KINDS)]), shape)
        self.keep(scope, Term(name(new), term.kind, term.shape, term.element), word is syn.Var)
        return [word(new, None, term.expr, span=NOWHERE)]

    def _variable(self, scope: Scope) -> list[syn.Stmt]:
        """A tile variable that holds a slice: what every program starts with."""
        new, term = self.fresh("v"), self.loaded(scope, self.one(OF_KIND[self.one(KINDS)]), self.wide)
        self.keep(scope, Term(name(new), term.kind, term.shape, term.element), True)
        return [syn.Var(new, None, term.expr, span=NOWHERE)]

    def _make_scalar(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        kind, new = self.one(("float", "int", "bool")), self.fresh("s")
        value, word = self.expr(scope, kind, (), 2), self.one((syn.Let, syn.Var))
        declared = scalar_type(self.one(OF_KIND[kind])) if self.rarely(3) else None
        self.keep(scope, Term(name(new), kind, ()), word is syn.Var)
        return [word(new, declared, value.expr, span=NOWHERE)]

    # ---- assignments ----

    def holding(self, value: Term) -> Sequence[str]:
        """Element types that a target may have: one that a dot fills holds its operands exactly."""
        if value.kind != "float" or not value.operands:
            return OF_KIND[value.kind]
        return [e for e in ("f16", "bf16", "f32", "f64") if value.operands <= HELD[e]]

    def fitted(self, value: Term, element: str) -> syn.Expr:
        """A value for a target of an element type that may be unknown: a dot by itself only where it may be."""
        if value.operands and (not element or element not in self.holding(value)):
            return binary("+", value.expr, integer(0))
        return value.expr

    def operator(self, kind: str) -> str:
        return self.one(OPERATORS[kind])

    def _make_assign(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        if not scope.variables:
            return self._make_declare(scope, depth)
        term = self.one(scope.variables)
        value = self.expr(scope, term.kind, term.shape, 3)
        return [syn.Assign(term.id, self.operator(term.kind), self.fitted(value, term.element), span=NOWHERE)]

    def _make_part(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        """A slice or an element of a tile variable."""
        tiles = [term for term in scope.variables if term.shape]
        if not tiles:
            return self._make_declare(scope, depth)
        term = self.one(tiles)
        op = self.one(("=", "=", "+=" if term.kind != "bool" else "="))
        if self.rarely(3):
            at = [self.integer_of(scope, -1, n) for n in term.shape]
            value = self.expr(scope, term.kind, (), 2)
            return [syn.Assign(index(term.expr, points(at)), op, value.expr, span=NOWHERE)]
        shape = tuple(self.one((1, n)) for n in term.shape)
        value = self.expr(scope, term.kind, shape, 2)
        target = index(term.expr, windows([self.integer_of(scope, -1, 2) for _ in shape], self.extents(shape)))
        return [syn.Assign(target, op, self.fitted(value, term.element), span=NOWHERE)]

    # ---- memory that a CTA reads and writes ----

    def window(self, scope: Scope, shape: Shape) -> Term:
        """A slice of a tensor that is written, within the rows of this CTA."""
        fits = [t for t in self.memory if t.own >= shape[0]]
        if not fits or self.rarely(4):
            new = Memory(self.fresh("Z"), self.one(OF_KIND[self.one(KINDS)]), self.rank, max(self.wide[0], 2))
            fits = [new]
            self.memory.append(new)
            rest = [integer(max(self.wide[axis], 2) + 3) for axis in range(1, self.rank)]
            rows = name("M") if self.rarely(3) else integer(CTAS * new.own)
            kind = syn.TensorType(scalar_type(new.element), (rows, *rest), span=NOWHERE)
            self.params.append(syn.Param(new.name, kind, span=NOWHERE))
        tensor = self.one(fits)
        first = binary("+", binary("*", name("r"), integer(tensor.own)), integer(self.number(0, tensor.own - shape[0])))
        starts = [first, *(self.integer_of(scope, 0, 4) for _ in shape[1:])]
        part = index(name(tensor.name), windows(starts, self.extents(shape)))
        return Term(part, KIND[tensor.element], shape, tensor.element)

    def _make_store(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        target = self.window(scope, self.one(self.shapes))
        assert isinstance(target.expr, syn.Index)
        op = self.operator(target.kind)
        if self.rarely(5):
            first, *rest = target.expr.subs
            assert isinstance(first, syn.Window)
            place = index(target.expr.value, points([first.start, *(self.integer_of(scope, 0, 4) for _ in rest)]))
            return [syn.Assign(place, op, self.expr(scope, target.kind, (), 2).expr, span=NOWHERE)]
        value = self.expr(scope, target.kind, target.shape, 3)
        return [syn.Assign(target.expr, op, self.fitted(value, ""), span=NOWHERE)]

    # ---- control ----

    def _make_branch(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        test = self.condition(scope, (), 1)
        then = self.block(scope.inner(), depth - 1)
        orelse = self.block(scope.inner(), depth - 1) if self.flip() else ()
        return [syn.If(test.expr, then, orelse, span=NOWHERE)]

    def body(self, scope: Scope, depth: int) -> tuple[syn.Stmt, ...]:
        """Statements of a loop, at times with a jump among them."""
        body = self.block(scope, depth - 1)
        if self.rarely(3):
            word = self.one(JUMPS)
            jump = syn.Return(None, span=NOWHERE) if word is syn.Return else word(span=NOWHERE)
            stop = syn.If(self.condition(scope, (), 1).expr, (jump,), (), span=NOWHERE)
            body = (*body, stop, *self.block(scope, 0))
        return body

    def bound(self, scope: Scope, low: int, high: int) -> syn.Expr:
        """An end of a range: a literal, a small argument, the CTA's number, a counter, an extent."""
        if self.flip():
            return integer(self.number(low, high))
        return self.one([name("n"), name("r"), *(t.expr for t in scope.counters), binary("+", name("n"), name("r"))])

    def _make_loop(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        inner, counter = scope.inner(), self.fresh("i")
        inner.terms.append(Term(name(counter), "int", ()))
        inner.counters.append(inner.terms[-1])
        step = self.one((None, integer(1), integer(2), integer(3)))
        bounds = self.bound(scope, -2, 2), self.bound(scope, 0, 6), step
        return [syn.For(counter, *bounds, self.one((None, None, 4)), self.body(inner, depth), span=NOWHERE)]

    def _make_while(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        """A counter bounds it, beside whatever condition."""
        inner, counter = scope.inner(), self.fresh("w")
        inner.terms.append(Term(name(counter), "int", ()))
        inner.counters.append(inner.terms[-1])
        count = syn.Assign(name(counter), "+=", integer(1), span=NOWHERE)
        test: syn.Expr = binary("<", name(counter), integer(self.number(0, 5)))
        if self.flip():
            test = binary("&&", test, self.condition(inner, (), 1).expr)
        body = (count, *self.body(inner, depth))
        return [syn.Var(counter, None, integer(0), span=NOWHERE), syn.While(test, body, span=NOWHERE)]

    # ---- sums of products ----

    def _make_accumulate(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        """var acc; a loop of acc += dot over panels of inputs, rescaled at times."""
        self.accumulators -= 1
        function, step = self.one(("dot", "dot_t")), self.one((4, 8, 16))
        operand, element = self.one(ACCUMULATED)
        kind, acc = KIND[element], self.fresh("acc")
        shape = self.one((self.wide, (16, 16), (32, 16), (8, 8)))
        itself = function == "dot_t" and self.rarely(3)  # a tile with itself
        shape = (32, 32) if itself else shape
        a = self.loaded(scope, operand, (shape[0], step))
        b = self.loaded(scope, operand, (step, shape[1]) if function == "dot" else (shape[1], step))
        k, pa, pb = self.fresh("k"), self.fresh("a"), self.fresh("b")
        body: list[syn.Stmt] = [
            self.one((syn.Let, syn.Var))(pa, None, a.expr, span=NOWHERE),
            self.one((syn.Let, syn.Var))(pb, None, b.expr, span=NOWHERE),
            syn.Assign(name(acc), "+=", call(function, name(pa), name(pa if itself else pb)), span=NOWHERE),
        ]
        if self.rarely(3):
            factor = self.expr(scope, kind, (shape[0], 1), 1)
            body.insert(2, syn.Assign(name(acc), "=", binary("*", name(acc), factor.expr), span=NOWHERE))
        start = self.literal(kind).expr
        end = integer(self.number(0, 3) * step)
        statements: list[syn.Stmt] = [
            syn.Var(acc, tile_type(element, shape), start, span=NOWHERE),
            syn.For(k, integer(0), end, integer(step), None, tuple(body), span=NOWHERE),
        ]
        term = Term(name(acc), kind, shape, element)
        if shape == self.wide:
            self.keep(scope, term, True)
        return [*statements, self.output(term)]

    def _make_gemm(self, scope: Scope, depth: int) -> list[syn.Stmt]:
        """The loop that the language recognizes: whole tiles, slices that ride it, an epilogue."""
        self.accumulators -= 1
        m, n, step = self.one((16, 32)), self.one((16, 32)), self.one((8, 16))
        new = {what: self.fresh(what) for what in ("A", "B", "C", "acc", "k", "a", "b", "c")}
        whole = self.number(1, 3) * step
        dims = {"A": (CTAS * m, whole), "B": (whole, n), "C": (CTAS * m, n)}
        for what, extents in dims.items():
            kind = syn.TensorType(
                scalar_type(self.one(("f16", "f16", "f32"))), tuple(map(integer, extents)), span=NOWHERE
            )
            self.params.append(syn.Param(new[what], kind, span=NOWHERE))
        at = binary("*", name("r"), integer(m))
        k, zero = name(new["k"]), integer(0)
        slices = [
            syn.Let(new["a"], None, index(name(new["A"]), windows([at, k], (m, step))), span=NOWHERE),
            syn.Var(new["b"], None, index(name(new["B"]), windows([k, zero], (step, n))), span=NOWHERE),
        ]
        product = call("dot", name(new["a"]), name(new["b"]))
        add = syn.Assign(name(new["acc"]), "+=", product, span=NOWHERE)
        loop = syn.For(new["k"], zero, integer(whole), integer(step), None, (*slices, add), span=NOWHERE)
        # f16 accumulates f32 only where the pattern is found
        declared = syn.Var(new["acc"], tile_type("f32", (m, n)), self.literal("float").expr, span=NOWHERE)
        target = index(name(new["C"]), windows([at, zero], (m, n)))
        scale = self.one((syn.FloatLit(0.5, span=NOWHERE), name("f"), None))
        acc: syn.Expr = name(new["acc"]) if scale is None else binary("*", scale, name(new["acc"]))
        if self.flip():
            return [declared, loop, syn.Assign(target, "=", acc, span=NOWHERE)]
        before = syn.Let(new["c"], None, target, span=NOWHERE)
        total = binary("+", acc, binary("*", name("f"), name(new["c"])))
        return [declared, loop, before, syn.Assign(target, "=", total, span=NOWHERE)]

    def output(self, term: Term) -> syn.Stmt:
        """Stores a value in a slice of a fresh output; one CTA never meets another's slice."""
        element, new = self.one(OF_KIND[term.kind]), self.fresh("Y")
        rest = [name("N") if self.rarely(4) else integer(n + 3) for n in term.shape[1:]]
        dims = (name("M") if self.flip() else integer(CTAS * term.shape[0]), *rest)
        kind = syn.TensorType(scalar_type(element), dims, span=NOWHERE)
        self.params.append(syn.Param(new, kind, span=NOWHERE))
        first = binary("*", name("r"), integer(term.shape[0]))
        starts = [first, *(integer(self.number(0, 4)) for _ in rest)]
        return syn.Assign(index(name(new), windows(starts, term.shape)), "=", term.expr, span=NOWHERE)

    # ---- the kernel ----

    def function(self) -> None:
        """A function of two values of one kind (bool: floats to a condition) and an integer."""
        kind, new = self.one(("float", "int", "bool")), self.fresh("f")
        operand = "float" if kind == "bool" else kind
        x, y, n = (Term(name(p), operand if p != "n" else "int", ()) for p in ("x", "y", "n"))
        scope, self.pure = Scope([x, y, n]), True
        inner = self.fresh("h")
        body: list[syn.Stmt] = [syn.Let(inner, None, self.expr(scope, operand, (), 2).expr, span=NOWHERE)]
        ops = syn.ARITHMETIC if kind != "bool" else syn.COMPARISONS

        def result() -> syn.Expr:
            joined = binary(self.one(syn.ARITHMETIC), x.expr, y.expr)
            return binary(self.one(ops), joined, name(inner))

        if self.flip():
            test = binary(self.one(syn.COMPARISONS), n.expr, integer(self.number(-1, 3)))
            early = syn.Return(result(), span=NOWHERE)
            body.append(syn.If(test, (early,), (), span=NOWHERE))
        body.append(syn.Return(result(), span=NOWHERE))
        self.pure = False
        params = tuple(syn.Param(p, None, span=NOWHERE) for p in ("x", "y"))
        params += (syn.Param("n", scalar_type("i32"), span=NOWHERE),)
        self.functions[new] = (kind, syn.Function(new, (), params, None, tuple(body), span=NOWHERE))

    def scalar_parameters(self, scope: Scope) -> None:
        values = {
            "float": (1.5, -0.25, 0.0, 1e30), "int": (0, 1, -1, 3, 100), "bool": (True, False),
        }  # fmt: skip
        fixed = (("f", "f32"), ("n", "i32"), ("p", self.one(OF_KIND[self.one(KINDS)])), ("q", self.one(OF_KIND["int"])))
        for parameter, element in fixed:
            kind = KIND[element]
            value = self.number(-1, 5) if parameter == "n" else self.one(values[kind])
            self.scalars.append(abs(value) if element == "u8" else value)
            self.params.append(syn.Param(parameter, scalar_type(element), span=NOWHERE))
            self.keep(scope, Term(name(parameter), kind, ()), False)

    def attributes(self, uses_m: bool) -> list[syn.Attr]:
        def attr(word: str, *args: syn.AttrArg) -> syn.Attr:
            return syn.Attr(word, args, span=NOWHERE)

        found = [attr("launch", syn.Positional(integer(self.one(THREADS)), span=NOWHERE))]
        found += [attr("tensorcore")] if self.flip() else []
        if self.constants:
            choices = [syn.Choices(c, (integer(n),), span=NOWHERE) for c, n in self.constants.items()]
            found.append(attr("autotune", *choices))
        if uses_m and self.promise > 1:
            found.append(attr("aligned", syn.Keyword("M", integer(self.promise), span=NOWHERE)))
        return found

    def case(self) -> Case:
        scope = Scope()
        self.promise = self.one((1, 1, self.wide[0]))
        if self.flip():
            self.constants = {"TR": self.wide[0], "TC": self.wide[-1]}
        self.scalar_parameters(scope)
        for _ in range(self.number(0, 2)):
            self.function()
        grid = (self.number(1, 2), self.number(1, 2))
        block = [syn.Member(syn.Member(name("ctx"), "block", span=NOWHERE), axis, span=NOWHERE) for axis in "xy"]
        first = binary("+", binary("*", block[1], integer(grid[0])), block[0]) if grid[1] > 1 else block[0]
        body: list[syn.Stmt] = [syn.Let("r", None, first, span=NOWHERE)]
        self.keep(scope, Term(name("r"), "int", ()), False)
        body += [*self._variable(scope), *self.block(scope, DEPTH, least=2)]
        tiles = [t for t in scope.terms if t.shape]
        stored = dict.fromkeys([*(t for t in scope.variables if t.shape), *tiles[-2:]][-4:])
        body += [self.output(term) for term in stored or [self.loaded(scope, "f32", self.wide)]]
        return self._launchable(tuple(body), grid)

    def _launchable(self, body: tuple[syn.Stmt, ...], grid: Shape) -> Case:
        whole = syn.Kernel("generated", (), tuple(self.params), body, span=NOWHERE)
        used = {n.id for n in syn.walk(whole) if isinstance(n, syn.Name)}
        attrs = tuple(self.attributes("M" in used))
        kernel = syn.Kernel("generated", attrs, whole.params, body, span=NOWHERE)
        functions = [f for _, f in self.functions.values()]
        text = to_ph(syn.Module((*functions, kernel), span=NOWHERE))
        source = Source("generated.ph", text)
        rows = self.number(1, 3) * self.promise if self.promise > 1 else self.number(1, 24)
        found = {"M": rows, "N": self.number(1, 40)}
        dims = {dim: extent for dim, extent in found.items() if dim in used}
        return Case(text, Kernel.from_tree("generated", source, parse_source(source)), dims, tuple(self.scalars), grid)


@st.composite
def programs(draw: st.DrawFn, small: bool = False) -> Case:
    """A well-typed kernel and how to launch it. small: of few operations on small tiles, which compile fast."""
    return Maker(draw, small).case()
