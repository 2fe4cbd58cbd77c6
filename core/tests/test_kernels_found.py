"""Kinds of fault that generated kernels found, each held by the smallest kernel that shows it, in every form."""

from __future__ import annotations

from typing import Any

import kernel_runs as kr
import numpy as np
import pytest
from helpers import only_llvmpipe
from phobos_sim.gpu import mapping
from phobos_sim.lang.kernel import Kernel


def kernel(parameters: str, body: str, attributes: str = "@launch(64)") -> Kernel:
    return kr.kernel_of(f"{attributes}\nkernel k({parameters}) {{\n{body}\n}}\n")


def agree(found: Kernel, *scalars: Any, grid: tuple[int, ...] = (1,), **dims: int) -> list[Any]:
    return kr.agree(found, grid, kr.arguments(found, dims, *scalars), registers=False)


# Constant zeros and ones that a driver sees are folded without a look at NaN, infinities and signs. `~` is the operand.
KNOWN = {
    "past an edge of a tile": "(X[0 :+ 4, 0 :+ 4] + 0.0)[0 :+ 1, 4 :+ 1]",
    "past an edge of a tensor": "X[4 :+ 1, 0 :+ 1]",
    "past the end of a table": "gather(X[0 :+ 1, 0 :+ 4], iota(1) - 1)",
    "from an integer": "f32(i32(0))",
    "from a bool": "f32(false)",
    "from a coordinate": "f32(iota(1))",
    "from a tile of zeros": "z",
    "from a literal": "0.0",
    "from a literal in f64": "f64(0.0)",
    "from a literal in f16": "f16(0.0)",
}


@pytest.mark.parametrize("zero", KNOWN.values(), ids=KNOWN)
def test_arithmetic_with_a_zero_that_the_driver_could_know(zero: str) -> None:
    results = [form.replace("~", zero) for op in "+-*/%" for form in (f"x {op} (~)", f"(~) {op} x")]
    body = "let x = X[0 :+ 1, 0 :+ 4]\nvar z: tile<f32>[1, 1]\n"
    body += "\n".join(f"Y[{i} :+ 1, 0 :+ 4] = {result}" for i, result in enumerate(results))
    found = kernel("X: tensor<f32>[4, 4], Y: tensor<f64>[10, 4]", body)
    x = np.array([np.inf, np.nan, -0.0, 3.5], np.float32)
    kr.agree(found, (1,), [np.tile(x, (4, 1)), np.zeros((10, 4))], registers=False)


@pytest.mark.parametrize("operation", ["x - x", "x / x", "x % x", "x + x", "x * x", "tmax(x, x)", "0.0 - x", "x * 1.0"])
def test_operations_on_one_value_twice(operation: str) -> None:
    body = f"let x = X[0 :+ 1, 0 :+ 4]\nY[0 :+ 1, :] = {operation}"
    found = kernel("X: tensor<f32>[1, 4], Y: tensor<f32>[1, 4]", body)
    x = np.array([[np.inf, np.nan, -0.0, 3.5]], np.float32)
    kr.agree(found, (1,), [x, np.zeros_like(x)], registers=False)


def test_memory_made_in_one_arm_of_a_branch_serves_the_other() -> None:
    """The tiles of the first arm leave workgroup memory; the second arm takes over a tile beyond it."""
    body = """
      var v = B[0 :+ 40, 0 :+ 16]
      if n == 3 {
        v &= v
        for i in range(0, n) {
          var t = D[0 :+ 40, 7 :+ 16]
          if i == n {
            continue
          }
          t[i :+ 40, i :+ 1] = 1.0
          v[0 :+ 40, 0 :+ 1] = false
          Z[0 :+ 40, 3 :+ 16] &= v
        }
      } else {
        v |= v
      }
      Y[0 :+ 40, 0 :+ 16] = v"""
    tensors = "B: tensor<bool>[40, 16], D: tensor<f64>[40, 24], Z: tensor<bool>[40, 24], Y: tensor<bool>[40, 16]"
    for n in (3, 4):
        agree(kernel(f"n: i32, {tensors}", body), n)


@pytest.mark.parametrize("trips", [0, 2])
def test_operand_that_a_loop_without_a_trip_would_have_stored(trips: int) -> None:
    body = """
      var a = X[0 :+ 5, 0 :+ 4]
      var b = X[0 :+ 4, 0 :+ 5]
      var t: tile<f32>[5, 5] = 1.0
      for i in range(0, n) {
        t = dot(a, b)
      }
      t += dot(a, b)
      Y[0 :+ 5, 0 :+ 5] = t"""
    agree(kernel("n: i32, X: tensor<f32>[16, 16], Y: tensor<f32>[16, 16]", body), trips)


@pytest.mark.parametrize("value", [0, 6, 7, 8, -7, 2147483647, -2147483648])
def test_an_extended_integer_is_compared_with_constants(value: int) -> None:
    """In 64 bits, which the last line asks for."""
    constants = ("0", "7", "-7", "2147483647", "2147483648", "4294967296", "-2147483648", "-2147483649")
    tests = [f"n {op} {c}" for op in ("<", "<=", ">", ">=", "==", "!=") for c in constants]
    lines = [f"Y[{i}] = i32({test})" for i, test in enumerate(tests)]
    lines += [f"Z[0 :+ 4] = where(i64(X[0 :+ 4]) {op} 7, Z[0 :+ 4], {i})" for i, op in enumerate(("<", ">="))]
    lines += ["if n < 100 && n > -100 {", "for i in range(1, n) {", "Y[90] += 5", "}", "}", "Z[5] = Z[6] + 1"]
    found = kernel("n: i32, X: tensor<i32>[4], Y: tensor<i32>[100], Z: tensor<i64>[8]", "\n".join(lines))
    args = [value, np.array([0, 7, 8, -1], np.int32), np.zeros(100, np.int32), np.zeros(8, np.int64)]
    kr.agree(found, (1,), args, registers=False)


ELEMENTS = """
  var v = X[0 :+ 32, 0 :+ 100]
  if n > 0 {
    var w: tile<f64>[1, 1] = dot(X[0 :+ 1, 0 :+ 4], X[0 :+ 4, 0 :+ 1])
    v = v * w + n
  }
  Y[0 :+ 32, 0 :+ 100] = v"""
PRODUCT = """
  var a = X[0 :+ 16, 0 :+ 16]
  var t = dot_t(a + n, X[0 :+ 100, 0 :+ 16])
  Y[0 :+ 16, 0 :+ 100] = t + rowmax(t)"""


@pytest.mark.parametrize(("body", "most"), [(ELEMENTS, 100), (PRODUCT, 150)], ids=["elements", "dot_t"])
def test_rows_whose_width_is_no_multiple_of_a_chunk_are_not_unrolled(
    body: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shader of megabytes takes a driver minutes; `most` is in KiB."""
    only_llvmpipe()
    sizes: list[int] = []
    emit = mapping.emit

    def measured(job: mapping.Job, choice: mapping.Choice) -> mapping.Shader:
        shader = emit(job, choice)
        sizes.append(len(shader.code) // 1024)
        return shader

    monkeypatch.setattr(mapping, "emit", measured)
    agree(kernel("n: i32, X: tensor<f64>[128, 128], Y: tensor<f64>[128, 128]", body), 3)
    assert sizes and max(sizes) < most, sizes


UNIFORM = {
    "f64 argument": "Y[0] = log(p % p)",
    "constant": "let c = 2.5\nY[0] = log(f64(c) % f64(f))",
    "integer argument": "let a0 = n % (n + 1)\n"
    + "\n".join(f"let a{i + 1} = a{i} % (a{i} + {i + 2})" for i in range(9))
    + "\nY[0] = X[a9 & 7]",
    "tile of an argument": "var t: tile<i64>[1] = i64(n)\n"
    + "t = t % (t + 1)\n" * 9
    + "Y[0 :+ 1] = gather(X[0 :+ 8], t & 7)",
    "tile of a constant": "var t: tile<f64>[1] = 2.5\n" + "t = log(t % (t + 1.0))\n" * 2 + "Y[0 :+ 1] = t",
}


@pytest.mark.parametrize("body", UNIFORM.values(), ids=UNIFORM)
def test_a_deep_expression_of_arguments_in_an_address(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mesa looks for uniform addresses in time exponential in their depth: without end, see `emitter.MAX_PATHS`."""
    monkeypatch.setenv("PHOBOS_TIMEOUT", "20")
    agree(kernel("p: f64, f: f32, n: i32, X: tensor<i32>[16], Y: tensor<f64>[16]", body), 1.5, 2.5, 3)


def test_an_index_that_64_bits_hold_is_past_the_end_of_a_table() -> None:
    body = "Y[:] = gather(X[:], I[:])"
    found = kernel("X: tensor<f32>[8], I: tensor<i64>[8], Y: tensor<f32>[8]", body)
    places = np.array([5, -1, 2**32 + 5, -(2**32) + 7, 2**63 - 1, -(2**63), 8, 0], np.int64)
    kr.agree(found, (1,), [np.arange(1, 9, dtype=np.float32), places, np.zeros(8, np.float32)], registers=False)


# Both axes of the result are the rows of one tile: a cut along them would leave the blocks on the diagonal alone.
SQUARES = {
    "a slice with itself": "let v = V[0 :+ 32, :]\nlet c = dot_t(v, v)\nC[0 :+ 32, :] = c",
    "a variable with itself": "var v = V[0 :+ 32, :]\nlet c = dot_t(v, v)\nC[0 :+ 32, :] = c",
    "a scaled tile with itself": "let v = V[0 :+ 32, :] * 0.5\nlet c = dot_t(v, v)\nC[0 :+ 32, :] = c",
    "a tile with its double": "let v = V[0 :+ 32, :]\nlet w = v * 2.0\nlet c = dot_t(v, w)\nC[0 :+ 32, :] = c",
    "tiles that meet elsewhere": """let v = V[0 :+ 32, :]
      let w = W[0 :+ 32, :]
      let s = v + w
      let c = dot_t(v, w)
      C[0 :+ 32, :] = c + rowsum(s)""",
    "in a loop": """var c: tile<f32>[32, 32] = 0.0
      for k in range(0, 16, 8) {
        var v = V[0 :+ 32, k :+ 8]
        c += dot_t(v, v)
      }
      C[0 :+ 32, :] = c""",
}


@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.parametrize("kind", ["cpu", "discrete", "integrated"])
@pytest.mark.parametrize("body", SQUARES.values(), ids=SQUARES)
def test_both_axes_of_a_tile_are_the_rows_of_another(body: str, kind: str, element: str) -> None:
    tensors = f"V: tensor<{element}>[N, 16], W: tensor<{element}>[N, 16], C: tensor<f32>[N, 32]"
    for attributes in ("@launch(32)", "@launch(128)\n@tensorcore\n@aligned(N=32)"):
        with kr.facts(**({} if kind == "cpu" else {"kind": kind, "loop_budget": None})):
            agree(kernel(tensors, body, attributes), N=32)


FEW_ROWS = """  var acc: tile<f32>[{m}, {n}] = 1.0
  acc += {dot}(A[0 :+ {m}, 0 :+ {k}], B[0 :+ {rows}, 0 :+ {columns}])
  C[0 :+ {m}, 0 :+ {n}] = acc"""


@pytest.mark.parametrize(("m", "n", "k", "dot"), [(8, 64, 128, "dot_t"), (4, 128, 128, "dot_t"), (8, 128, 128, "dot")])
def test_few_rows_of_a_long_chain_have_a_register_mapping(m: int, n: int, k: int, dot: str) -> None:
    """Operands that are computed take registers as accumulators do: where they are many, a unit has fewer columns."""
    rows, columns = (n, k) if dot == "dot_t" else (k, n)
    parameters = f"A: tensor<f16>[{m}, {k}], B: tensor<f16>[{rows}, {columns}], C: tensor<f32>[{m}, {n}]"
    found = kernel(parameters, FEW_ROWS.format(m=m, n=n, k=k, dot=dot, rows=rows, columns=columns))
    assert [op.instruction for op in found.program().contractions()] == ["FFMA"]
    kr.agree(found, (1,), kr.arguments(found, {}), registers=True)
