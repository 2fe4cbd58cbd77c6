"""Every kernel of examples/ against numpy, operation by operation as the language prescribes, on both backends.

The oracles below use `oracle_kernels` alone. Inputs: ``plain`` numbers of practice, ``edge`` with NaN, infinities,
subnormals and zeros of both signs among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import kernel_runs as kr
import numpy as np
import oracle_kernels as o
import phobos_sim as sim
import pytest
from helpers import ROOT

Array = np.ndarray
F = np.float32


@dataclass(frozen=True)
class Example:
    """A kernel, the oracle that computes its outputs in place, and how to launch it small.

    The oracle gets arguments, constants, dims and threads by name, and the CTA's coordinates.
    """

    file: str
    kernel: str
    oracle: Callable[[SimpleNamespace, tuple[int, int]], None]
    dims: dict[str, int]
    grid: tuple[int, ...]
    constants: dict[str, int] = field(default_factory=dict)
    scalars: tuple[Any, ...] = ()
    threads: int = 128

    @property
    def name(self) -> str:
        return self.kernel + "".join(f"-{name}{value}" for name, value in (*self.constants.items(), *self.dims.items()))


# ---- oracles -----------------------------------------------------------------------------------------------------


def vector_add(a: SimpleNamespace, at: tuple[int, int]) -> None:
    start = (at[0] * a.BLOCK,)
    o.put(a.Z, start, o.add(o.window(a.X, start, (a.BLOCK,)), o.window(a.Y, start, (a.BLOCK,))))


def saxpy(a: SimpleNamespace, at: tuple[int, int]) -> None:
    start = (at[0] * a.BLOCK,)
    product = o.mul(F(a.alpha), o.window(a.X, start, (a.BLOCK,)))
    o.put(a.Z, start, o.add(product, o.window(a.Y, start, (a.BLOCK,))))


def softmax(a: SimpleNamespace, at: tuple[int, int]) -> None:
    x = a.X[at[0] * a.R :][: a.R]
    x = o.exp(o.sub(x, o.rowmax(x, a.threads)))
    a.Y[at[0] * a.R :][: a.R] = o.div(x, o.rowsum(x, a.threads))


def layer_norm(a: SimpleNamespace, at: tuple[int, int]) -> None:
    rows = slice(at[0] * a.R, (at[0] + 1) * a.R)
    mean = o.mul(o.rowsum(a.X[rows], a.threads), F(a.inv_w))
    x = o.sub(a.X[rows], mean)
    squares = o.rowsum(o.mul(x, x), a.threads)
    root = o.sqrt(o.add(o.mul(squares, F(a.inv_w)), F(a.eps)))
    rstd = o.div(np.ones_like(root), root)
    a.Mean[rows], a.Rstd[rows] = mean, rstd
    a.Y[rows] = o.add(o.mul(o.mul(x, rstd), a.G), a.B)


def gemm_epilogue(a: SimpleNamespace, product: Array, i: int, j: int) -> Array:
    """alpha * acc + beta * C in f32."""
    c = o.window(a.C, (i, j), product.shape)
    return o.add(o.mul(F(a.alpha), F(product)), o.mul(F(a.beta), F(c)))


def matmul_f32(a: SimpleNamespace, at: tuple[int, int]) -> None:
    i, j = at[0] * a.BM, at[1] * a.BN
    whole = -(-a.K // a.BK) * a.BK  # the last panel is filled with zeros
    left, right = o.window(a.A, (i, 0), (a.BM, whole)), o.window(a.B, (0, j), (whole, a.BN))
    product = o.chain(left, right, np.zeros((a.BM, a.BN), F))
    o.put(a.C, (i, j), gemm_epilogue(a, product, i, j))


def matmul(a: SimpleNamespace, at: tuple[int, int]) -> None:
    i, j = at[0] * a.BM, at[1] * a.BN
    product = o.hmma(a.A[i : i + a.BM], a.B[:, j : j + a.BN], np.zeros((a.BM, a.BN), F))
    o.put(a.C, (i, j), o.to_f16(product))


def matmul_f16(a: SimpleNamespace, at: tuple[int, int]) -> None:
    i, j = at[0] * a.BM, at[1] * a.BN
    product = o.hmma(a.A[i : i + a.BM], a.B[:, j : j + a.BN], np.zeros((a.BM, a.BN), np.float16))
    o.put(a.C, (i, j), o.to_f16(gemm_epilogue(a, product, i, j)))


def i8_gemm(a: SimpleNamespace, at: tuple[int, int]) -> None:
    i, j = at[0] * a.BM, at[1] * a.BN
    a.C[i : i + a.BM, j : j + a.BN] = o.imad(a.A[i : i + a.BM], a.W[j : j + a.BN].T, np.int32(0))


def q8_matvec(a: SimpleNamespace, at: tuple[int, int]) -> None:
    n = slice(at[0] * a.BN, (at[0] + 1) * a.BN)
    total = np.zeros((1, a.BN), F)
    for block in range(a.K // 32):
        k = slice(32 * block, 32 * block + 32)
        part = o.imad(a.X[:, k], a.W[n, k].T, np.int32(0)).astype(F)
        part = o.mul(o.mul(part, a.WS[n, block : block + 1].T), a.XS[:, block : block + 1])
        total = o.add(total, part)
    a.Y[:, n] = total


def flash_attention(a: SimpleNamespace, at: tuple[int, int], dot: Callable[[Array, Array, Array], Array]) -> Array:
    q = a.Q[at[0] * a.BR :][: a.BR]
    out, total = np.zeros((a.BR, a.D), F), np.zeros((a.BR, 1), F)
    top = np.full((a.BR, 1), F(-300000000.0))
    for c in range(0, a.Nk, a.BC):
        s = dot(q, a.K[c : c + a.BC].T, np.zeros((a.BR, a.BC), F))
        s = o.mul(s, F(a.scale))
        new = o.greater(top, o.rowmax(s, a.threads))
        s = o.exp(o.sub(s, new))
        fix = o.exp(o.sub(top, new))
        total = o.add(o.mul(total, fix), o.rowsum(s, a.threads))
        out = dot(s, a.V[c : c + a.BC], o.mul(out, fix))
        top = new
    return o.div(out, total)


def flash_attention_f32(a: SimpleNamespace, at: tuple[int, int]) -> None:
    a.O[at[0] * a.BR :][: a.BR] = flash_attention(a, at, o.chain)


def flash_attention_f16(a: SimpleNamespace, at: tuple[int, int]) -> None:
    """On the tensor cores f32 operands are rounded to f16."""

    def dot(x: Array, y: Array, seed: Array) -> Array:
        return o.hmma(o.to_f16(x) if x.dtype == F else x, y, seed)

    a.O[at[0] * a.BR :][: a.BR] = o.to_f16(flash_attention(a, at, dot))


def flash_attention_f16_fallback(a: SimpleNamespace, at: tuple[int, int]) -> None:
    """BR = BC = 16 under 128 threads: 16 x 16 scores are FFMA chains of widened f16, the 16 x 64 output is HMMA."""

    def dot(x: Array, y: Array, seed: Array) -> Array:
        return o.chain(F(x), F(y), seed) if x.dtype == np.float16 else o.hmma(o.to_f16(x), y, seed)

    a.O[at[0] * a.BR :][: a.BR] = o.to_f16(flash_attention(a, at, dot))


def gated_linear_attention(a: SimpleNamespace, at: tuple[int, int]) -> None:
    j = at[0] * a.BV
    state = np.zeros((a.D, a.BV), F)
    for c in range(0, a.N, a.BC):
        q, k = (o.window(x, (c, 0), (a.BC, a.D)) for x in (a.Q, a.K))
        v, g = o.window(a.V, (c, j), (a.BC, a.BV)), o.window(a.G, (c, 0), (a.BC, 1))
        b = o.cumsum(g)
        weights = o.chain(q, k.T, np.zeros((a.BC, a.BC), F))
        weights = o.mul(weights, o.exp(o.sub(b, b.T)))
        weights = np.where(np.tri(a.BC, dtype=bool), weights, F(0))
        out = o.chain(q, state, np.zeros((a.BC, a.BV), F))
        out = o.chain(weights, v, o.mul(out, o.exp(b)))
        o.put(a.O, (c, j), out)
        last = b[a.BC - 1 :]
        k = o.mul(k, o.exp(o.sub(last, b)))
        state = o.chain(k.T, v, o.mul(state, o.exp(last)))


def dropout(a: SimpleNamespace, at: tuple[int, int]) -> None:
    def mix(x: Array) -> Array:
        x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
        x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
        return x ^ (x >> 16)

    r = at[0] * a.R
    counter = (r + np.arange(a.R, dtype=np.uint32)[:, None]) * np.uint32(a.W) + np.arange(a.W, dtype=np.uint32)
    u = F(mix(mix(counter) + np.uint32(a.seed % (1 << 32))) >> 8) * F(2.0**-24)  # exact
    kept = o.div(o.window(a.X, (r, 0), (a.R, a.W)), o.sub(F(1), F(a.p)))
    o.put(a.Y, (r, 0), np.where(u >= F(a.p), kept, F(0)))


def quantize(a: SimpleNamespace, at: tuple[int, int]) -> None:
    rows = slice(at[0] * a.R, (at[0] + 1) * a.R)
    x = a.X[rows]
    top = o.rowmax(o.greater(x, o.sub(F(0), x)), a.threads)
    scale = o.div(o.greater(top, F(1e-30)), F(127))
    a.S[rows] = scale
    a.Q[rows] = o.to_i8(np.rint(o.div(x, scale)))


def dequantize(a: SimpleNamespace, at: tuple[int, int]) -> None:
    rows = slice(at[0] * a.R, (at[0] + 1) * a.R)
    o.bits(a.Y)[rows] = o.to_bf16(o.mul(a.Q[rows].astype(F), a.S[rows]))


EXAMPLES = [
    Example("vector_add", "vector_add", vector_add, {"N": 150}, (3,), {"BLOCK": 64}, threads=256),
    Example("saxpy", "saxpy", saxpy, {"N": 150}, (3,), {"BLOCK": 64}, (-1.7,), threads=256),
    Example("softmax", "softmax", softmax, {"M": 8}, (2,), {"R": 4, "W": 100}),
    Example("softmax", "softmax", softmax, {"M": 48}, (1,), {"R": 48, "W": 20}),
    Example("layer_norm", "layer_norm", layer_norm, {"M": 8}, (2,), {"R": 4, "W": 80}, (1 / 80, 1e-5)),
    Example(
        "matmul_f32", "matmul_f32", matmul_f32, {"M": 20, "N": 12, "K": 21}, (2, 1), {"BM": 16, "BN": 16, "BK": 8},
        (0.75, -1.3), 256,
    ),
    Example(
        "matmul", "matmul", matmul, {"M": 64, "N": 64, "K": 96}, (2, 1), {"BM": 32, "BN": 64, "BK": 32}, threads=256
    ),
    Example(
        "matmul_f16", "matmul_f16", matmul_f16, {"M": 32, "N": 128, "K": 96}, (1, 2),
        {"BM": 32, "BN": 64, "BK": 32}, (0.75, -1.3), 256,
    ),
    Example("i8_gemm", "i8_gemm", i8_gemm, {"M": 32, "N": 32, "K": 64}, (2, 1), threads=256),
    Example("i8_gemm", "i8_gemm", i8_gemm, {"M": 2, "N": 24, "K": 64}, (2, 2), {"BM": 1, "BN": 12}, threads=256),
    Example("q8_matvec", "q8_matvec", q8_matvec, {"N": 64, "K": 96, "KB": 3}, (2,)),
    Example(
        "flash_attention_f32", "flash_attention_f32", flash_attention_f32, {"Nq": 16, "Nk": 24}, (2,),
        {"BR": 8, "BC": 8, "D": 16}, (0.25,),
    ),
    Example(
        "flash_attention_f16", "flash_attention_f16", flash_attention_f16, {"Nq": 64, "Nk": 96}, (2,),
        {"BR": 32, "BC": 32, "D": 32}, (0.18,),
    ),
    Example(
        "flash_attention_f16", "flash_attention_f16", flash_attention_f16_fallback, {"Nq": 32, "Nk": 48}, (2,),
        {"BR": 16, "BC": 16, "D": 64}, (0.125,),
    ),
    Example(
        "gated_linear_attention", "gated_linear_attention", gated_linear_attention, {"N": 21, "DV": 16}, (2,),
        {"BC": 8, "D": 12, "BV": 8},
    ),
    Example("dropout", "dropout", dropout, {"M": 6}, (2,), {"R": 4, "W": 40}, (0.25, -123456789)),
    Example("quantize", "quantize", quantize, {"M": 8}, (2,), {"R": 4, "W": 50}),
    Example("quantize", "dequantize", dequantize, {"M": 8}, (2,), {"R": 4, "W": 50}),
]  # fmt: skip


# ---- the check ---------------------------------------------------------------------------------------------------


def kernel_of(example: Example, ending: str) -> Any:
    return sim.load(ROOT / "examples" / f"{example.file}.{ending}").kernels[example.kernel]


def inputs(example: Example, kind: str) -> list[Any]:
    seed = sum(example.name.encode())
    return kr.arguments(
        kernel_of(example, "py"), example.dims, *example.scalars, constants=example.constants, seed=seed, kind=kind
    )


def expected(example: Example, args: list[Any]) -> list[Any]:
    program = kernel_of(example, "py").program(example.constants)
    assert program.threads == example.threads
    after = kr.copies(args)
    values = dict(zip(program.parameters, after, strict=True))
    names = SimpleNamespace(**program.constants, **example.dims, **values, threads=example.threads)
    x, y = (*example.grid, 1)[:2]
    for at in np.ndindex(y, x):
        example.oracle(names, at[::-1])
    return after


@pytest.mark.parametrize("kind", ["plain", "edge"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_is_what_the_language_prescribes(example: Example, kind: str) -> None:
    """On the reference and the device: the Python spelling in the form it chooses, the `.ph` one in every form."""
    args = inputs(example, kind)
    oracle = expected(example, args)
    spelling, only = ("py", (None,)) if kind == "plain" else ("ph", None)
    kernel = kernel_of(example, spelling)
    after = kr.agree(kernel, example.grid, args, constants=example.constants, registers=False, only=only)
    kr.same(after, oracle, f"{example.name}, {kind}")


def test_every_example_has_an_oracle() -> None:
    files = {path.stem for path in (ROOT / "examples").glob("*.py")}
    kernels = {(file, kernel) for file in files for kernel in sim.load(ROOT / "examples" / f"{file}.py").kernels}
    assert kernels == {(example.file, example.kernel) for example in EXAMPLES}
