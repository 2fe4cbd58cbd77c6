"""Control flow: jumps, carried variables, functions, scopes, run on the reference and held against plain Python."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np
import pytest
from lowering import body, module, notes, program, steps
from phobos_sim.errors import KernelError
from phobos_sim.lang.kernel import Kernel
from phobos_sim.tile import program as tile
from phobos_sim.tile.program import walk


def run(text: str, n: int, functions: str = "") -> list[int]:
    """What a body stores in X (16 integers, each its own index before) for an argument n."""
    text = f"{functions}\nkernel k(X: tensor<i64>[16], n: i64) {{\n{textwrap.dedent(text)}\n}}\n"
    tree = module(text, "k.ph")
    x = np.arange(16, dtype=np.int64)
    Kernel.from_tree("k", tree.span.source, tree).launch((1,), x, n, device="reference")
    return x.tolist()


def expected(function: Callable[[list[int], int], None], n: int) -> list[int]:
    x = list(range(16))
    function(x, n)
    return x


def nested_break(x: list[int], n: int) -> None:
    total = 0
    for i in range(0, 6):
        for j in range(0, 6):
            if j > i:
                break
            if i * j == n:
                continue
            total += i * 10 + j
        if total > 100:
            break
        x[i] = total
    x[15] = total


NESTED_BREAK = """
var total = 0
for i in range(0, 6) {
  for j in range(0, 6) {
    if j > i { break }
    if i * j == n { continue }
    total += i * 10 + j
  }
  if total > 100 { break }
  X[i] = total
}
X[15] = total
"""


def early_return(x: list[int], n: int) -> None:
    x[0] = 100
    for i in range(1, 10):
        if i == n:
            x[i] = -1
            return
        x[i] = i * i
    x[14] = 7
    if n > 12:
        return
    x[15] = 8


EARLY_RETURN = """
X[0] = 100
for i in range(1, 10) {
  if i == n {
    X[i] = -1
    return
  }
  X[i] = i * i
}
X[14] = 7
if n > 12 { return }
X[15] = 8
"""


def collatz(x: list[int], n: int) -> None:
    a, count = n, 0
    while a > 1:
        count += 1
        if count > 14:
            break
        x[count] = a
        if a % 2 == 0:
            a //= 2
            continue
        a = 3 * a + 1
    x[0] = count


COLLATZ = """
var a = n
var count = 0
while a > 1 {
  count += 1
  if count > 14 { break }
  X[count] = a
  if a % 2 == 0 {
    a /= 2
    continue
  }
  a = 3 * a + 1
}
X[0] = count
"""


def return_from_two_loops(x: list[int], n: int) -> None:
    i = 0
    while i < 4:
        for j in range(0, 4, 1):
            if i * 4 + j == n:
                x[i] = 50
                return
            x[i * 4 + j] += 1
        i += 1
    x[0] = -5


RETURN_FROM_TWO_LOOPS = """
var i = 0
while i < 4 {
  for j in range(0, 4, 1) {
    if i * 4 + j == n {
      X[i] = 50
      return
    }
    X[i * 4 + j] += 1
  }
  i += 1
}
X[0] = -5
"""


def shadows(x: list[int], n: int) -> None:
    a = 1
    for i in range(0, 3):
        b = a + i
        c = b * 2  # the inner `a` of the kernel
        c += 1
        x[i] = c
        a += n
    if n > 3:
        x[9] = a * 100
    elif n == 3:
        x[9] = a
    else:
        a = -a
    x[10] = a


SHADOWS = """
var a = 1
for i in range(0, 3) {
  let b = a + i
  if true {
    var a = b * 2
    a += 1
    X[i] = a
  }
  a += n
}
if n > 3 {
  let a = a * 100
  X[9] = a
} else if n == 3 { X[9] = a } else { a = -a }
X[10] = a
"""

CASES = [
    (nested_break, NESTED_BREAK),
    (early_return, EARLY_RETURN),
    (collatz, COLLATZ),
    (return_from_two_loops, RETURN_FROM_TWO_LOOPS),
    (shadows, SHADOWS),
]


@pytest.mark.parametrize(("function", "text"), CASES, ids=[case[0].__name__ for case in CASES])
def test_against_python(function: Callable[[list[int], int], None], text: str) -> None:
    for n in (0, 1, 2, 3, 4, 5, 7, 9, 13, 27, 100):
        assert run(text, n) == expected(function, n), n


CLAMP = """
fn clamp(x, lo, hi) {
  if x < lo { return lo }
  if x > hi { return hi }
  return x
}
fn first_multiple(n, of) {
  for i in range(1, 100) {
    if i * of >= n { return i * of }
  }
  return 0 - 1
}
fn touch(T, at, value) {
  if at > 7 { return }
  T[at] = value
}
"""


def test_functions_return_from_anywhere() -> None:
    text = "X[0] = clamp(n, 2, 5)\nX[1] = first_multiple(n, 3) + clamp(9, 1, n)\ntouch(X, 6, 60)\ntouch(X, 8, 80)"
    for n in (0, 3, 7, 12):
        x = run(text, n, CLAMP)
        multiple = -1 if n > 297 else max(3, -(-n // 3) * 3)
        assert x[0] == min(max(n, 2), 5)
        assert x[1] == multiple + (n if n < 9 else 9)
        assert (x[6], x[8]) == (60, 8)


def test_conditions_stop_where_their_value_is_known() -> None:
    functions = "fn mark(T, at) {\n  T[at] = 1000\n  return true\n}\n"
    text = "if n > 5 && mark(X, 1) { X[0] = 1 }\nif n > 5 || mark(X, 2) { X[3] = 1 }"
    assert run(text, 9, functions)[:4] == [1, 1000, 2, 1]
    assert run(text, 2, functions)[:4] == [0, 1, 1000, 1]


def test_a_function_may_declare_its_types() -> None:
    functions = "fn scale(t: tile<f32>[R, C], s: f16) -> tile<f16>[R, C] {\n  let rows = R\n  return t * s\n}\n"
    params = "A: tensor<f32>[4, 8], B: tensor<f16>[4, 8]"
    result = body(params, "var t = A[:, :]\nB[:, :] = scale(t, 0.1)", "", functions)
    assert steps(result) == ["load A", "cvt.f32.f16", "mul.rn.f32", "cvt.rn.f16.f32", "store B"]
    wrong = (("A[0, 0]", "takes a tile"), ("A[:, :] < 1.0", "takes f32"), ("A", "does not take a tensor"))
    for argument, words in wrong:
        with pytest.raises(KernelError, match=words):
            body("A: tensor<f32>[4, 8]", f"let y = scale({argument}, 0.1)", "", functions)


def test_functions_that_call_each_other_twice_at_every_level_end() -> None:
    functions = "fn f0(x) { return x }\n"
    functions += "".join(f"fn f{i}(x) {{ return f{i - 1}(x) + f{i - 1}(x) }}\n" for i in range(1, 40))
    assert body("A: tensor<i64>[4]", "A[0] = f8(1)", "", functions).contractions() == ()
    with pytest.raises(KernelError, match="more than 4096 calls"):
        body("A: tensor<i64>[4]", "A[0] = f39(1)", "", functions)


def test_dims_that_a_function_names_twice_must_agree() -> None:
    functions = "fn f(t: tile<f32>[R, R], u: tile<f32>[R, 4]) {\n  return t + u\n}\n"
    params = "A: tensor<f32>[4, 4], B: tensor<f32>[2, 4]"
    assert steps(body(params, "A[:, :] = f(A[:, :], A[:, :])", "", functions))[-1] == "store A"
    for wrong in ("f(B[:, :], A[:, :])", "f(A[:, :], B[:, :])", "f(A[:, 0 :+ 2], A[:, :])"):
        with pytest.raises(KernelError, match="is declared"):
            body(params, f"let y = {wrong}", "", functions)


def test_a_function_sees_the_kernel_s_constants_but_not_its_names() -> None:
    functions = "fn f(x) { return x * W }\nfn g(x) { return x + y }\n"
    assert body("A: tensor<f32>[4]", "A[0] = f32(f(2))", "@autotune(W in [8])", functions).constants == {"W": 8}
    with pytest.raises(KernelError, match="`y` is not defined"):
        body("A: tensor<f32>[4]", "let y = 1\nA[0] = f32(g(2))", "", functions)


def test_a_tile_argument_given_by_name_is_the_variable_itself() -> None:
    functions = "fn f(a, T) {\n  T[:, :] = a\n  return a\n}\n"
    result = body("A: tensor<f32>[4, 8]", "var t: tile<f32>[4, 8] = 1.0\nlet y = f(t, A)\nt = y", "", functions)
    assert steps(result) == ["store A"]
    functions = "fn h(a) {\n  a = a\n  return a\n}"
    with pytest.raises(KernelError, match=r"`a` is a let and cannot be assigned to"):
        body("A: tensor<f32>[4, 8]", "var t: tile<f32>[4, 8] = 1.0\nlet y = h(t)", "", functions)


def test_loops_carry_what_their_bodies_assign_and_nothing_else() -> None:
    text = """
    var a = 0
    var b = 1
    var t: tile<f32>[4] = 0.0
    for i in range(0, 8) {
      var a = 5
      if i > 2 { a += 1 }
      let c = b
      t = t + f32(c)
      if i > 3 { t = t * 2.0 }
    }
    X[:] = t
    """
    result = body("X: tensor<f32>[4]", text)
    (loop,) = [op for op in walk(result.body) if isinstance(op, tile.For)]
    inner, branch = (op for op in walk(result.body) if isinstance(op, tile.If))
    assert [value.name for value in loop.outs] == ["t"] == [value.name for value in branch.outs]
    assert [value.name for value in inner.outs] == ["a"]


def test_flags_are_carried_only_where_a_jump_can_clear_them() -> None:
    text = "var s = 0\nfor i in range(0, 8) {\nif i > n { %s }\ns += i\n}\nX[0] = f32(s)"
    for jump, outs in (("continue", ["s"]), ("break", ["s", "live"])):
        result = body("X: tensor<f32>[4], n: i32", text % jump)
        (loop,) = [op for op in walk(result.body) if isinstance(op, tile.For)]
        assert [value.name for value in loop.outs] == outs
    both = body(
        "X: tensor<f32>[4], n: i32", "for i in range(0, 8) {\nif i > n { continue }\nif i > 3 { break }\nX[0] = 1.0\n}"
    )
    first = [op for op in walk(both.body) if isinstance(op, tile.If)][1]
    assert [value.name for value in first.outs] == ["run"]


def test_a_part_of_a_tile_is_assigned() -> None:
    text = """
    var t: tile<i64>[16] = 1
    t[n :+ 3] = X[0 :+ 3]
    t[15] += n
    t[14 :+ 4] += 5
    X[:] = t
    """
    assert run(text, 2) == [1, 1, 0, 1, 2, *[1] * 9, 6, 8]


def test_loops_without_jumps_have_no_flags_and_branches_on_constants_vanish() -> None:
    text = "var s = 0\nfor i in range(0, 8) {\nif K > 1 { s += i } else { s += missing }\n}\nX[0] = f32(s)"
    result = body("X: tensor<f32>[4]", text, "@autotune(K in [2])")
    assert steps(result) == ["for", "cvt.rn.f32.s64", "store X"]
    assert not notes(result, "unreachable")


def test_code_after_a_jump_is_noted() -> None:
    result = body("X: tensor<f32>[4]", "X[0] = 1.0\nreturn\nX[1] = 2.0")
    assert steps(result) == ["store X"]
    assert notes(result, "unreachable") == ["this statement is never reached"]


def test_scalar_slots_keep_their_type() -> None:
    result = body("X: tensor<f32>[4], s: f16", "var x = 1.0\nx = s\nx += 1\nX[0] = x")
    assert steps(result) == ["cvt.f32.f16", "add.rn.f32", "store X"]


def test_unroll_changes_nothing() -> None:
    for hint in ("for", "for<unroll 4>"):
        result = body("X: tensor<f32>[8]", f"{hint} i in range(0, 8, 2) {{ X[i] = 1.0 }}")
        assert steps(result) == ["for", "store X"]


def test_ranges_count_upwards() -> None:
    for step in ("0", "-1", "4 - 4"):
        with pytest.raises(KernelError, match="step"):
            body("X: tensor<f32>[8]", f"for i in range(0, 8, {step}) {{ X[i] = 1.0 }}")


def test_the_python_spelling_lowers_to_the_same_program() -> None:
    text = """
    @ph.kernel
    def k(X: ph.tensor[ph.f32][8], n: ph.i32):
        s: ph.var = 0
        for i in ph.unroll(2, range(n)):
            if not (i < 3 and n > 2):
                continue
            s += i // 2
        X[s] = 1.0
    """
    other = """
    kernel k(X: tensor<f32>[8], n: i32) {
      var s = 0
      for<unroll 2> i in range(n) {
        if !(i < 3 && n > 2) { continue }
        s += i / 2
      }
      X[s] = 1.0
    }
    """
    assert steps(program(text)) == steps(program(other, "k.ph"))
