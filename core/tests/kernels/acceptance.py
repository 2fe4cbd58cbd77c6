"""Kernels of test_kernels_acceptance.py (phobos-language.md G.1), in variants whose bits must or must not differ."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(W=[256])
@ph.launch(128)
def saxpy(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N], Z: ph.tensor[ph.f32][N], alpha: ph.f32):
    at: ph.let = ph.ctx.block.x * W
    Z[at:+W] = alpha * X[at:+W] + Y[at:+W]


@ph.kernel
@ph.autotune(BM=[32], BN=[32], BK=[16])
@ph.launch(128)
@ph.tensorcore
@ph.aligned(M="BM", N="BN", K="BK")
def mm(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[32], BN=[32], BK=[16])
@ph.launch(128)
@ph.tensorcore("wmma")
@ph.aligned(M="BM", N="BN", K="BK")
def mm_wmma(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[32], BN=[32], BK=[16])
@ph.launch(128)
@ph.tensorcore
@ph.pipeline
@ph.aligned(M="BM", N="BN", K="BK")
def mm_pipelined(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[32], BN=[32], BK=[16])
@ph.launch(128)
@ph.aligned(M="BM", N="BN", K="BK")
def mm_fma(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.launch(128)
@ph.tensorcore
def product_128(A: ph.tensor[ph.f32][32, 16], B: ph.tensor[ph.f32][16, 32], C: ph.tensor[ph.f32][32, 32]):
    C[:, :] = ph.dot(A[:, :], B[:, :])


@ph.kernel
@ph.launch(256)
@ph.tensorcore
def product_256(A: ph.tensor[ph.f32][32, 16], B: ph.tensor[ph.f32][16, 32], C: ph.tensor[ph.f32][32, 32]):
    C[:, :] = ph.dot(A[:, :], B[:, :])


@ph.kernel
@ph.autotune(T=[16])
@ph.launch(32)
@ph.tensorcore
def aliased(P: ph.tensor[ph.f32][T, T], V: ph.tensor[ph.f32][T, T], Apart: ph.tensor[ph.f32][T, T]):
    """`p += dot(p, v)` runs through a temporary on FMA and adds it; with another operand it is an HMMA chain from p."""
    p: ph.var = P[:, :]
    v: ph.let = V[:, :]
    other: ph.var = P[:, :]
    apart: ph.var = P[:, :]
    p += ph.dot(p, v)
    apart += ph.dot(other, v)
    P[:, :] = p
    Apart[:, :] = apart


@ph.kernel
@ph.launch(32)
def conversions(I8: ph.tensor[ph.i8][1, 8]):
    I8[0:+1, 0:+8] = 0
    x: ph.var[ph.tile[ph.f32][1, 1]] = 300.0
    I8[0:+1, 0:+1] = ph.i8(x)
    x = 2.5
    I8[0:+1, 1:+1] = ph.i8(ph.i32(ph.round(x)))
    x = -1.9
    I8[0:+1, 2:+1] = ph.i8(x)
    I8[0, 3] = ph.i8(300.0)
    I8[0, 4] = ph.i8(ph.i32(ph.round(2.5)))
    I8[0, 5] = ph.i8(-1.9)
    x = 1000000000.0
    I8[0:+1, 6:+1] = ph.i8(x)
