"""The .ph text: terminators, grammar, precedence, and printing both spellings (phobos-language.md A, F.3)."""

from __future__ import annotations

import keyword
from pathlib import Path

import pytest
from helpers import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering import module
from phobos_sim.errors import KernelError, Source, Span
from phobos_sim.lang import load
from phobos_sim.lang import syntax as syn
from phobos_sim.lang.builtins import BUILTINS, KEYWORDS
from phobos_sim.lang.load import parse_source
from phobos_sim.lang.printer import to_ph, to_python

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def statements(text: str) -> tuple[syn.Stmt, ...]:
    return (
        module(f"kernel k(A: tensor<f32>[M, 16], B: tensor<f32>[16], n: i32) {{\n{text}\n}}\n", "k.ph")
        .kernels["k"]
        .body
    )


# text of a body, kinds of its statements
FORMS = [
    ("for<unroll 4> i in range(0, 16, 4) { A[i :+ 4, :] = 0.0 }", "For"),
    ("if a < b { x = 1 } else if c { x = 2 } else { x = 3 }", "If"),
    ("A[i :+ 4, :] = 0.0", "Assign"),
    ("let x = B[: e]", "Let"),
    ("var t: tile<i8>[8, 4]", "Var"),
    ("var a = 1; var b = 2; a = b", "Var Var Assign"),
    ("let x = 1 // one\nlet y = 2 // two\n// three\n\nx = y", "Let Let Assign"),
    ("let x = a +\n  b", "Let"),
    ("let x = dot(a,\n  b)\nlet y = (a\n  + b)", "Let Let"),
    ("let x = A[\n  0 :+ 4\n  , :\n]", "Let"),
    ("return", "Return"),
    ("return\nx = 1", "Return Assign"),
    ("break; continue", "Break Continue"),
    ("if a { x = 1 } if b { x = 2 }", "If If"),
    ("if a { x = 1 } x = 2", "If Assign"),
    ("while a { }", "While"),
    ("f(x)", "ExprStmt"),
    ("x <<= 1; x >>= 1; x &= 1; x |= 1; x ^= 1; x %= 2", "Assign Assign Assign Assign Assign Assign"),
    ("let x = 1.", "Let"),
    ("let x = 1e-5", "Let"),
    (";;let x = 1;;", "Let"),
    ("let tensor = 1; let tile = 2; let range = 3; let unroll = 4", "Let Let Let Let"),
    ("for i in range(8) { }", "For"),
    ("let x = a\r\nlet y = b\r\n", "Let Let"),
]


@pytest.mark.parametrize(("text", "kinds"), FORMS)
def test_forms(text: str, kinds: str) -> None:
    assert [type(node).__name__ for node in statements(text)] == kinds.split(" ")


@pytest.mark.parametrize(
    "text",
    [
        "let x = 1 let y = 2",  # nothing ends the first
        "if a { x = 1 }\nelse { x = 2 }",  # a terminator stands before else
        "let x = a\n  + b",  # the line ended after a
        "let x =",
        "let in = 1",
        "A[i:]",
        "A[i : +n] = 0.0",  # with a space it is a colon and a plus, which the grammar has not
        "x = y = 2",
        "a.b(c)",
        "var",
        "for i in range() { }",
        "for i in list(3) { }",
        "for<unroll 0> i in range(3) { }",
        "3 = x",
        "let x = 0x10",
        "let x = 1_000",
    ],
)
def test_what_is_no_statement(text: str) -> None:
    with pytest.raises(KernelError):
        statements(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a || b && c | d ^ e & f", "a || (b && (c | (d ^ (e & f))))"),
        ("f == g < h << i + j * -k", "f == (g < (h << (i + (j * (-k)))))"),
        ("a & b == c", "a & (b == c)"),
        ("a - b - c", "(a - b) - c"),
        ("a * b / c % d", "((a * b) / c) % d"),
        ("a < b == c", "(a < b) == c"),
        ("!a && ~b == c", "(!a) && ((~b) == c)"),
        ("--a", "-(-a)"),
        ("-a[0]", "-(a[0])"),
        ("a << b >> c", "(a << b) >> c"),
    ],
)  # fmt: skip
def test_precedence(text: str, same: str) -> None:
    first, second = (
        statements(f"let x = {text}"),
        statements(f"let x = {same + ')' * (same.count('(') - same.count(')'))}"),
    )
    assert first == second


def test_attributes() -> None:
    text = "@launch(256, 2)\n@autotune(TM in [16, 128], TN in [4])\n@aligned(M = TM, K = 32) @tensorcore(wmma)\n"
    attrs = module(text + "@odd(true, 1.5)\nkernel k(A: tensor<f32>[M, K]) { }", "k.ph").kernels["k"].attrs
    assert [attr.name for attr in attrs] == ["launch", "autotune", "aligned", "tensorcore", "odd"]
    assert isinstance(attrs[1].args[0], syn.Choices) and len(attrs[1].args[0].values) == 2


def test_a_kernel_without_attributes_has_256_threads() -> None:
    from lowering import program

    assert program("kernel k(A: tensor<f32>[M]) { A[0] = 1.0 }", "k.ph").threads == 256


# ---- printing ---------------------------------------------------------------------------------------------------


def again(tree: syn.Module) -> None:
    """Both prints of a tree read back as the same tree."""
    assert parse_source(Source("again.ph", to_ph(tree))) == tree
    assert parse_source(Source("again.py", to_python(tree))) == tree


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_the_same_tree_in_both_spellings(path: Path) -> None:
    tree = load(path).tree
    assert load(path.with_suffix(".ph")).tree == tree
    again(tree)


@pytest.mark.parametrize(("text", "kinds"), FORMS)
def test_forms_print_and_read_again(text: str, kinds: str) -> None:
    if "break" not in text:
        again(module(f"kernel k(A: tensor<f32>[M, 16], n: i32) {{\n{text}\n}}\nfn f(x) {{ return x }}\n", "k.ph"))


def test_a_variable_called_ph_prints() -> None:
    again(module("kernel k(A: tensor<f32>[M]) { let ph = ctx.block.x; A[ph] = exp(A[ph]) }", "k.ph"))


def test_names_that_the_other_spelling_reserves() -> None:
    with pytest.raises(KernelError, match=r"`lambda` is a keyword in Python"):
        to_python(module("kernel k(A: tensor<f32>[M]) { let lambda = 1 }", "k.ph"))
    with pytest.raises(KernelError, match=r"`fn` is a keyword in \.ph"):
        to_ph(module("@ph.kernel\ndef k(A: ph.tensor[ph.f32][M]):\n    fn: ph.let = 1\n"))


NOWHERE = Span(Source("made.ph", ""), 1, 1, 1, 1)
FLOATS = st.floats(0, 1e300, allow_nan=False, allow_infinity=False)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 5) -> syn.Expr:
    """Any expression that both spellings can write, well typed or not."""
    kinds = ["int", "float", "bool", "name"]
    match draw(st.sampled_from(kinds if depth == 0 else [*kinds, "unary", "binary", "binary", "call", "index"])):
        case "int":
            return syn.IntLit(draw(st.integers(0, (1 << 63) - 1)), span=NOWHERE)
        case "float":
            return syn.FloatLit(draw(FLOATS), span=NOWHERE)
        case "bool":
            return syn.BoolLit(draw(st.booleans()), span=NOWHERE)
        case "name":
            return syn.Name(draw(st.sampled_from(["a", "x1", "_t", "é", "K", "ctx", "range"])), span=NOWHERE)
        case "unary":
            return syn.Unary(draw(st.sampled_from(syn.UNARY)), draw(expressions(depth - 1)), span=NOWHERE)
        case "binary":
            sides = draw(expressions(depth - 1)), draw(expressions(depth - 1))
            return syn.Binary(draw(st.sampled_from(syn.BINARY)), *sides, span=NOWHERE)
        case "call":
            args = draw(st.lists(expressions(depth - 1), max_size=3))
            return syn.Call(draw(st.sampled_from([*BUILTINS, "own"])), tuple(args), span=NOWHERE)
    base = draw(expressions(depth - 1).filter(lambda e: not isinstance(e, (syn.IntLit, syn.FloatLit, syn.BoolLit))))
    return syn.Index(base, tuple(draw(st.lists(subscripts(depth - 1), min_size=1, max_size=3))), span=NOWHERE)


@st.composite
def subscripts(draw: st.DrawFn, depth: int) -> syn.Sub:
    match draw(st.sampled_from(["point", "range", "prefix", "whole", "window"])):
        case "point":
            return syn.Point(draw(expressions(depth)), span=NOWHERE)
        case "range":
            return syn.Range(draw(expressions(depth)), draw(expressions(depth)), span=NOWHERE)
        case "prefix":
            return syn.Range(None, draw(expressions(depth)), span=NOWHERE)
        case "whole":
            return syn.Range(None, None, span=NOWHERE)
    length = draw(expressions(depth).filter(lambda e: not (isinstance(e, syn.Unary) and e.op == "-")))
    return syn.Window(draw(expressions(depth)), length, span=NOWHERE)


@settings(max_examples=150, deadline=None)
@given(expressions())
def test_any_expression_prints_and_reads_again(expression: syn.Expr) -> None:
    own = syn.Function("own", (), (), None, (), span=NOWHERE)
    body = (syn.Let("y", None, expression, span=NOWHERE),)
    again(syn.Module((own, syn.Kernel("k", (), (), body, span=NOWHERE)), span=NOWHERE))


def test_no_keyword_of_the_language_is_a_builtin() -> None:
    assert not KEYWORDS & set(BUILTINS)
    assert not set(keyword.kwlist) & set(BUILTINS)
