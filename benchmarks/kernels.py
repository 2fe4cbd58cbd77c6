"""Matrix products on every contraction path, for bench_gemm.py. Read as source, never imported."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.launch(256)
@ph.tensorcore
@ph.aligned(M=64, N=64, K=32)
def hmma_f32(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * 64
    j: ph.let = ph.ctx.block.y * 64
    acc: ph.var[ph.tile[ph.f32][64, 64]] = 0.0
    for k in range(0, K, 32):
        a: ph.var = A[i:+64, k:+32]
        b: ph.var = B[k:+32, j:+64]
        acc += ph.dot(a, b)
    C[i:+64, j:+64] = acc


@ph.kernel
@ph.launch(512)
@ph.tensorcore
@ph.aligned(M=64, N=128, K=32)
def hmma_f32_512(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * 64
    j: ph.let = ph.ctx.block.y * 128
    acc: ph.var[ph.tile[ph.f32][64, 128]] = 0.0
    for k in range(0, K, 32):
        a: ph.var = A[i:+64, k:+32]
        b: ph.var = B[k:+32, j:+128]
        acc += ph.dot(a, b)
    C[i:+64, j:+128] = acc


@ph.kernel
@ph.launch(256)
@ph.tensorcore
@ph.aligned(M=64, N=64, K=32)
def hmma_f32_t(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][N, K], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * 64
    j: ph.let = ph.ctx.block.y * 64
    acc: ph.var[ph.tile[ph.f32][64, 64]] = 0.0
    for k in range(0, K, 32):
        a: ph.var = A[i:+64, k:+32]
        b: ph.var = B[j:+64, k:+32]
        acc += ph.dot_t(a, b)
    C[i:+64, j:+64] = acc


@ph.kernel
@ph.launch(256)
@ph.tensorcore
@ph.aligned(M=64, N=64, K=32)
def hmma_f16(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * 64
    j: ph.let = ph.ctx.block.y * 64
    acc: ph.var[ph.tile[ph.f16][64, 64]] = 0.0
    for k in range(0, K, 32):
        a: ph.var = A[i:+64, k:+32]
        b: ph.var = B[k:+32, j:+64]
        acc += ph.dot(a, b)
    C[i:+64, j:+64] = acc


@ph.kernel
@ph.launch(256)
@ph.aligned(M=64, N=64, K=32)
def ffma(A: ph.tensor[ph.f32][M, K], B: ph.tensor[ph.f32][K, N], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * 64
    j: ph.let = ph.ctx.block.y * 64
    acc: ph.var[ph.tile[ph.f32][64, 64]] = 0.0
    for k in range(0, K, 32):
        a: ph.var = A[i:+64, k:+32]
        b: ph.var = B[k:+32, j:+64]
        acc += ph.dot(a, b)
    C[i:+64, j:+64] = acc


@ph.kernel
@ph.launch(256)
@ph.aligned(M=64, N=64, K=32)
def ffma_f16(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * 64
    j: ph.let = ph.ctx.block.y * 64
    acc: ph.var[ph.tile[ph.f32][64, 64]] = 0.0
    for k in range(0, K, 32):
        a: ph.var = A[i:+64, k:+32]
        b: ph.var = B[k:+32, j:+64]
        acc += ph.dot(a, b)
    C[i:+64, j:+64] = acc


@ph.kernel
@ph.launch(256)
@ph.aligned(M=64, N=64, K=32)
def hfma2(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * 64
    j: ph.let = ph.ctx.block.y * 64
    acc: ph.var[ph.tile[ph.f16][64, 64]] = 0.0
    for k in range(0, K, 32):
        a: ph.var = A[i:+64, k:+32]
        b: ph.var = B[k:+32, j:+64]
        acc += ph.dot(a, b)
    C[i:+64, j:+64] = acc


@ph.kernel
@ph.launch(256)
@ph.aligned(M=64, N=64, K=32)
def imma(A: ph.tensor[ph.i8][M, K], B: ph.tensor[ph.i8][N, K], C: ph.tensor[ph.i32][M, N]):
    i: ph.let = ph.ctx.block.x * 64
    j: ph.let = ph.ctx.block.y * 64
    acc: ph.var[ph.tile[ph.i32][64, 64]] = 0
    for k in range(0, K, 32):
        a: ph.var = A[i:+64, k:+32]
        b: ph.var = B[j:+64, k:+32]
        acc += ph.dot_t(a, b)
    C[i:+64, j:+64] = acc
