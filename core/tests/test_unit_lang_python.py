"""The Python spelling: what is read, where it stands, and what importing it costs (phobos-language.md B)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, shared
from lowering import HEAD, module
from phobos_sim.errors import KernelError, Source, UsageError
from phobos_sim.lang import load
from phobos_sim.lang import syntax as syn
from phobos_sim.lang.attributes import expand
from phobos_sim.lang.load import parse_source
from phobos_sim.lang.syntax import walk

import phobos.lang as ph


@ph.kernel
@ph.autotune(BLOCK=[16, 128], KIND=[3, 1])
@ph.launch(128)
def decorated(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N]):  # noqa: F821
    """A docstring is no statement."""
    at: ph.let = ph.ctx.block.x * BLOCK  # noqa: F821
    Y[at:+BLOCK] = X[at:+BLOCK]  # noqa: F821


def expression(text: str) -> syn.Expr:
    tree = module(f"@ph.kernel\ndef k(A: ph.tensor[ph.f32][N], n: ph.i32):\n    x: ph.let = {text}\n")
    statement = tree.kernels["k"].body[0]
    assert isinstance(statement, syn.Let)
    return statement.value


def brief(node: syn.Node) -> str:
    """An expression with every operator in parentheses."""
    match node:
        case syn.IntLit() | syn.FloatLit() | syn.BoolLit():
            return str(node.value)
        case syn.Name():
            return node.id
        case syn.Member():
            return f"{brief(node.value)}.{node.name}"
        case syn.Unary():
            return f"({node.op}{brief(node.operand)})"
        case syn.Binary():
            return f"({brief(node.left)} {node.op} {brief(node.right)})"
        case syn.Call():
            return f"{node.function}({', '.join(map(brief, node.args))})"
        case syn.Index():
            return f"{brief(node.value)}[{', '.join(map(brief, node.subs))}]"
        case syn.Point():
            return brief(node.index)
        case syn.Window():
            return f"{brief(node.start)} :+ {brief(node.length)}"
        case syn.Range():
            return f"{'' if node.start is None else brief(node.start)}:{'' if node.stop is None else brief(node.stop)}"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A[n:+4]", "A[n :+ 4]"),
        ("A[n: +4]", "A[n :+ 4]"),
        ("A[n:+a*b]", "A[n :+ (a * b)]"),
        ("A[n:+a+b]", "A[n :+ (a + b)]"),
        ("A[n:+a*b-c*2]", "A[n :+ ((a * b) - (c * 2))]"),
        ("A[n:+(a+b)*c]", "A[n :+ ((a + b) * c)]"),
        ("A[n+1:+B[0]]", "A[(n + 1) :+ B[0]]"),
        ("A[n:+a < b]", "A[n :+ (a < b)]"),
        ("A[n:m+4]", "A[n:(m + 4)]"),
        ("A[:m]", "A[:m]"),
        ("A[:]", "A[:]"),
        ("A[n]", "A[n]"),
        ("A[n, m]", "A[n, m]"),
        ("not a and b or c", "(((!a) && b) || c)"),
        ("a and b and c", "((a && b) && c)"),
        ("a // b % c", "((a / b) % c)"),
        ("a & b == c", "((a & b) == c)"),
        ("-a * ~b", "((-a) * (~b))"),
        ("ph.ctx.block.y + 1", "(ctx.block.y + 1)"),
        ("ph.dot(a, ph.f16(b))", "dot(a, f16(b))"),
        ("True", "True"),
    ],
)
def test_expressions(text: str, read: str) -> None:
    assert brief(expression(text)) == read


@pytest.mark.parametrize(
    "text", ["A[+n]", "A[n:(1 + +n)]", "A[+n:+4]", "+n", "A[n:2*+n]", "A[n:(+a)*b]", "A[:+4]", "A[n:+-4]", "A[n:]"]
)
def test_a_plus_elsewhere_is_an_error(text: str) -> None:
    with pytest.raises(KernelError):
        expression(text)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("import phobos.lang as ph", "ph"),
        ("import phobos.lang as language", "language"),
        ("import phobos.lang", "phobos.lang"),
        ("from phobos import lang", "lang"),
        ("from phobos import lang as L", "L"),
        ("import phobos_sim.lang as ph", "ph"),
        ("import phobos_sim as sim", "sim.lang"),
    ],
)
def test_imports(lines: str, name: str) -> None:
    text = f"{lines}\n@{name}.kernel\ndef k(X: {name}.tensor[{name}.f32][N]):\n    X[0] = {name}.exp(X[1])\n"
    tree = parse_source(Source("k.py", text))
    assert list(tree.kernels) == ["k"]


def test_names_imported_one_by_one() -> None:
    text = "from phobos.lang import kernel, tensor, f32 as real, exp, let\n@kernel\ndef k(X: tensor[real][N]):\n"
    tree = parse_source(Source("k.py", text + "    x: let = exp(X[0])\n    X[0] = x\n"))
    declared = tree.kernels["k"].params[0].type
    assert isinstance(declared, syn.TensorType) and declared.element.name == "f32"


def test_only_what_the_language_marks_is_read() -> None:
    text = "def helper():\n    return [x for x in range(3)]\n\n@ph.kernel\ndef k(X: ph.f32):\n    pass\n"
    tree = module(text + "\nclass Other:\n    pass\nif True:\n    @ph.kernel\n    def late(X: ph.f32):\n        pass\n")
    assert list(tree.kernels) == ["k", "late"]
    assert {"helper", "Other"} <= tree.outside


def test_tutorial_03_is_read_unchanged() -> None:
    kernel = load(shared("cases", "t03_matmul.py")).matmul
    assert kernel.constants == {"TILE_M": 64, "TILE_N": 64, "TILE_K": 32}
    assert kernel.program().contractions()[0].path == "HMMA.16816.F32"


def test_every_node_knows_its_place() -> None:
    source = Source(
        "k.py", HEAD + "@ph.kernel\ndef k(X: ph.tensor[ph.f32][N]):\n    é: ph.let = X[0]; X[1] = é * 2.5\n"
    )
    tree = parse_source(source)
    for node in walk(tree):
        span = node.span
        assert (span.line, span.column) <= (span.end_line, span.end_column)
        if isinstance(node, syn.Name):
            assert source.line(span.line)[span.column - 1 : span.end_column - 1] == node.id
        if isinstance(node, syn.FloatLit):
            assert source.line(span.line)[span.column - 1 : span.end_column - 1] == "2.5"


def test_spans_do_not_take_part_in_comparison() -> None:
    assert expression("A[n:+4] + 1") == expression("(A[n : + 4]   +   1)")
    assert expression("A[n:+4] + 1") != expression("A[n:+4] + 2")


def test_a_decorated_function_becomes_a_kernel_that_is_never_called() -> None:
    assert isinstance(decorated, ph.Kernel)
    assert decorated.name == "decorated" and decorated.__doc__ == "A docstring is no statement."
    assert Path(decorated.source.path).name == Path(__file__).name
    assert len(decorated.tree.body) == 2
    assert decorated.constants == {"BLOCK": 16, "KIND": 3}
    assert decorated.program() is decorated.program({"BLOCK": 16})
    assert decorated.program({"BLOCK": 32}).constants == {"BLOCK": 32, "KIND": 3}


def test_an_error_in_one_kernel_does_not_stop_another_of_the_module(tmp_path: Path) -> None:
    good = "@ph.kernel\ndef good(X: ph.tensor[ph.f32][N]):\n    X[0] = 1.0\n\n"
    file = tmp_path / "two.py"
    file.write_text(f"{HEAD}{good}@ph.kernel\ndef bad(X: ph.tensor[ph.f32][N]):\n    X[0:] = 1.0\n")
    scope: dict[str, object] = {"__name__": "two"}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    kernel, wrong = scope["good"], scope["bad"]
    assert isinstance(kernel, ph.Kernel) and isinstance(wrong, ph.Kernel)
    assert kernel.program().name == "good"
    with pytest.raises(KernelError, match=r"two\.py:9:7"):
        wrong.program()
    with pytest.raises(KernelError, match="has no end"):
        load(file)


@pytest.mark.parametrize(
    ("values", "choices"),
    [
        ((16, 256), (16, 32, 64, 128, 256)),
        ((64, 200), (64, 128, 200)),
        ((64, 128), (64, 128)),
        ((256, 16), (256, 16)),
        ((64,), (64,)),
        ((4, 8, 16), (4, 8, 16)),
        ((0, 4), (0, 4)),
        ((5, 5), (5, 5)),
    ],
)
def test_autotune_values(values: tuple[int, ...], choices: tuple[int, ...]) -> None:
    assert expand(values) == choices


def test_variants_run_through_the_last_name_first() -> None:
    assert decorated.variants()[:3] == [
        {"BLOCK": 16, "KIND": 3},
        {"BLOCK": 16, "KIND": 1},
        {"BLOCK": 32, "KIND": 3},
    ]
    assert len(decorated.variants()) == 8


def test_constants_are_checked() -> None:
    with pytest.raises(UsageError, match="did you mean `BLOCK`"):
        decorated.program({"BLCK": 4})
    with pytest.raises(UsageError, match="give an int"):
        decorated.program({"BLOCK": 1.5})  # type: ignore[dict-item]


def test_the_surface_outside_kernels() -> None:
    for wrong in (lambda: ph.dot(1, 2), lambda: ph.ctx.block, lambda: decorated(1)):
        with pytest.raises(UsageError):
            wrong()
    with pytest.raises(AttributeError, match="did you mean `kernel`"):
        ph.kernal  # noqa: B018
    assert ph.some_future_attribute(3)(decorated) is decorated
    assert ph.launch(256)(decorated) is decorated
    assert ph.tensorcore(decorated) is decorated
    assert repr(ph.tensor[ph.f16][4, 4]).startswith("ph.tensor[")


def test_a_folder_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").mkdir()
    with pytest.raises(UsageError, match="a folder; give the path"):
        load(tmp_path / "kernels.py")


def test_loading() -> None:
    loaded = load(ROOT / "examples" / "quantize.py")
    assert list(loaded.kernels) == ["quantize", "dequantize"]
    assert "dequantize" in dir(loaded)
    with pytest.raises(UsageError, match="did you mean `quantize`"):
        loaded.quantise  # noqa: B018
    assert not hasattr(loaded, "quantise")
    with pytest.raises(UsageError, match="no such file"):
        load(ROOT / "examples" / "missing.py")
    with pytest.raises(UsageError, match=r"neither \.py nor \.ph"):
        load(ROOT / "README.md")


def test_importing_the_language_imports_neither_numpy_nor_lark() -> None:
    code = "import sys, phobos.lang as ph; print(sorted({'numpy', 'lark', 'vulkan'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
