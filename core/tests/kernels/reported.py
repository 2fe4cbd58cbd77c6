"""Kernels of test_kernels_reported.py."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.launch(32)
@ph.tensorcore
def bf16_product(A: ph.tensor[ph.bf16][16, 16], B: ph.tensor[ph.bf16][16, 16], C: ph.tensor[ph.f32][16, 16],
                 D: ph.tensor[ph.bf16][16, 16]):
    wide: ph.var[ph.tile[ph.f32][16, 16]] = ph.dot(A[:, :], B[:, :])
    C[:, :] = wide
    D[:, :] = ph.dot(A[:, :], B[:, :])


@ph.kernel
@ph.launch(32)
@ph.tensorcore
def f16_accumulator(A: ph.tensor[ph.f16][16, 16], B: ph.tensor[ph.f16][16, 16], C: ph.tensor[ph.f16][16, 16]):
    """The GEMM loop, whose f16 accumulator runs on HMMA.16816.F16; it starts from 2048."""
    acc: ph.var[ph.tile[ph.f16][16, 16]] = 2048.0
    for k in range(0, 16, 16):
        a: ph.var = A[0:+16, k:+16]
        b: ph.var = B[k:+16, 0:+16]
        acc += ph.dot(a, b)
    C[0:+16, 0:+16] = acc


@ph.kernel
@ph.launch(32)
@ph.tensorcore
def f32_accumulator(A: ph.tensor[ph.f16][16, 16], B: ph.tensor[ph.f16][16, 16], C: ph.tensor[ph.f32][16, 16]):
    acc: ph.var[ph.tile[ph.f32][16, 16]] = 0.0
    acc += ph.dot(A[:, :], B[:, :])
    C[:, :] = acc


@ph.kernel
@ph.launch(32)
def f16_sums(A: ph.tensor[ph.f16][8, 16], B: ph.tensor[ph.f16][16, 8], C: ph.tensor[ph.f16][8, 8],
             S: ph.tensor[ph.f16][8, 1]):
    """Chains and sums whose steps overflow, though the exact sum does not."""
    C[:, :] = ph.dot(A[:, :], B[:, :])
    S[:, 0:+1] = ph.rowsum(A[:, :] * 2.0)


@ph.kernel
@ph.launch(32)
@ph.tensorcore
def self_products(V: ph.tensor[ph.f16][N, 16], C: ph.tensor[ph.f32][N, 16]):
    """Each row with itself on the diagonal of a 16 x 16 product."""
    r: ph.let = ph.ctx.block.x * 16
    v: ph.let = V[r:+16, :]
    c: ph.var[ph.tile[ph.f32][16, 16]] = ph.dot_t(v, v)
    C[r:+16, :] = c


@ph.kernel
@ph.launch(128)
def copy(A: ph.tensor[ph.f32][4, 64], B: ph.tensor[ph.f32][4, 64]):
    B[:, :] = A[:, :]
