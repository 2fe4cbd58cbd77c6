"""Kernels of test_kernels_products.py: every row of the hardware-path table of `dot` and `dot_t`.

Grid: tiles of the result. Nothing is promised unless said, so any extent may be ragged.
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[8])
@ph.launch(64)
def f32_fma(A: ph.tensor[ph.f32][M, K], B: ph.tensor[ph.f32][K, N], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.let = A[i:+BM, k:+BK]
        b: ph.let = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[8])
@ph.launch(64)
def f32_fma_t(A: ph.tensor[ph.f32][M, K], B: ph.tensor[ph.f32][N, K], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.let = A[i:+BM, k:+BK]
        b: ph.let = B[j:+BN, k:+BK]
        acc += ph.dot_t(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[32], BN=[32], BK=[16])
@ph.launch(128)
@ph.tensorcore
def f32_tensorcore(A: ph.tensor[ph.f32][M, K], B: ph.tensor[ph.f32][K, N], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.let = A[i:+BM, k:+BK]
        b: ph.let = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[8])
@ph.launch(64)
def f16_fma(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f16][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[32], BN=[32], BK=[16])
@ph.launch(128)
@ph.tensorcore
@ph.aligned(M="BM", N="BN", K="BK")
def f16_gemm(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f16][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[32], BN=[32], BK=[16])
@ph.launch(128)
@ph.tensorcore
@ph.aligned(M="BM", N="BN", K="BK")
def f16_gemm_epilogue(
    A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N], alpha: ph.f32, beta: ph.f32
):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f16][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    old: ph.let = C[i:+BM, j:+BN]
    C[i:+BM, j:+BN] = alpha * acc + beta * old


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[8])
@ph.launch(64)
def f16_into_f32(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f32][M, N]):
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
def f16_tensorcore(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f32][M, N]):
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
def f16_tensorcore_t(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][N, K], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[j:+BN, k:+BK]
        acc += ph.dot_t(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[8])
@ph.launch(64)
def mixed_fma(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f32][K, N], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        acc += ph.dot(A[i:+BM, k:+BK], B[k:+BK, j:+BN])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[32], BN=[32], BK=[16])
@ph.launch(128)
@ph.tensorcore
def mixed_tensorcore(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f32][K, N], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        acc += ph.dot(A[i:+BM, k:+BK], B[k:+BK, j:+BN])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[8])
@ph.launch(64)
def bf16_fma(A: ph.tensor[ph.bf16][M, K], B: ph.tensor[ph.bf16][K, N], C: ph.tensor[ph.bf16][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.bf16][BM, BN]] = 0.0
    for k in range(0, K, BK):
        acc += ph.dot(A[i:+BM, k:+BK], B[k:+BK, j:+BN])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[8])
@ph.launch(32)
@ph.tensorcore
def bf16_into_f32(A: ph.tensor[ph.bf16][M, K], B: ph.tensor[ph.bf16][N, K], C: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        acc += ph.dot_t(A[i:+BM, k:+BK], B[j:+BN, k:+BK])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[8], BN=[8], BK=[8])
@ph.launch(64)
def f64_fma(A: ph.tensor[ph.f64][M, K], B: ph.tensor[ph.f64][K, N], C: ph.tensor[ph.f64][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f64][BM, BN]] = 0.0
    for k in range(0, K, BK):
        acc += ph.dot(A[i:+BM, k:+BK], B[k:+BK, j:+BN])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[32])
@ph.launch(64)
def i8_blocks(A: ph.tensor[ph.i8][M, K], B: ph.tensor[ph.i8][N, K], C: ph.tensor[ph.i32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.i32][BM, BN]] = 0
    for k in range(0, K, BK):
        acc += ph.dot_t(A[i:+BM, k:+BK], B[j:+BN, k:+BK])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[32])
@ph.launch(64)
def u8_by_i8(A: ph.tensor[ph.u8][M, K], B: ph.tensor[ph.i8][N, K], C: ph.tensor[ph.i32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.i32][BM, BN]] = 0
    for k in range(0, K, BK):
        acc += ph.dot_t(A[i:+BM, k:+BK], B[j:+BN, k:+BK])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[8], BN=[8], BK=[8])
@ph.launch(64)
def i8_dot(A: ph.tensor[ph.i8][M, K], B: ph.tensor[ph.i8][K, N], C: ph.tensor[ph.i32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.i32][BM, BN]] = 7
    for k in range(0, K, BK):
        acc += ph.dot(A[i:+BM, k:+BK], B[k:+BK, j:+BN])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[8], BN=[8], BK=[8])
@ph.launch(64)
def i32_dot(A: ph.tensor[ph.i32][M, K], B: ph.tensor[ph.i32][K, N], C: ph.tensor[ph.i32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.i32][BM, BN]] = 0
    for k in range(0, K, BK):
        acc += ph.dot(A[i:+BM, k:+BK], B[k:+BK, j:+BN])
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BM=[8], BN=[8], BK=[8])
@ph.launch(64)
def i64_dot(A: ph.tensor[ph.i64][M, K], B: ph.tensor[ph.i64][K, N], C: ph.tensor[ph.i64][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.i64][BM, BN]] = 0
    for k in range(0, K, BK):
        acc += ph.dot(A[i:+BM, k:+BK], B[k:+BK, j:+BN])
    C[i:+BM, j:+BN] = acc


# ---- what else feeds a product -----------------------------------------------------------------------------------


@ph.kernel
@ph.autotune(R=[16], W=[12], N=[16])
@ph.launch(64)
def computed_operands(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][W, N], Z: ph.tensor[ph.f32][M, N]):
    """Both operands are tiles made here; b is a sum of two and its product feeds another."""
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    y: ph.let = Y[:, :]
    left: ph.var = x * 0.5 + 1.0
    right: ph.var = y - y * y
    p: ph.var[ph.tile[ph.f32][R, N]] = ph.dot(left, right)
    q: ph.var[ph.tile[ph.f32][R, R]] = ph.dot_t(p, p)
    Z[r:+R, :] = ph.dot(q, p) + p


@ph.kernel
@ph.autotune(R=[16], W=[20], C=[36])
@ph.launch(64)
def wide_scores(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][C, W], Z: ph.tensor[ph.f32][M, W]):
    """36 columns are no whole blocks of lanes, and the row maximum keeps them from being cut."""
    r: ph.let = ph.ctx.block.x * R
    x: ph.let = X[r:+R, :]
    y: ph.let = Y[:, :]
    s: ph.var[ph.tile[ph.f32][R, C]] = ph.dot_t(x, y)
    top: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowmax(s)
    s = s - top
    z: ph.var[ph.tile[ph.f32][R, W]] = ph.dot(s, y)
    Z[r:+R, :] = z


@ph.kernel
@ph.autotune(N=[32])
@ph.launch(128)
def matrix_vector(A: ph.tensor[ph.f32][1, K], B: ph.tensor[ph.f32][K, N], C: ph.tensor[ph.f32][1, N]):
    acc: ph.var[ph.tile[ph.f32][1, N]] = 0.0
    for k in range(0, K, 8):
        acc += ph.dot(A[0:+1, k:+8], B[k:+8, :])
    C[0:+1, :] = acc


@ph.kernel
@ph.autotune(M=[32])
@ph.launch(128)
def one_column(A: ph.tensor[ph.f32][M, K], B: ph.tensor[ph.f32][K, 1], C: ph.tensor[ph.f32][M, 1]):
    acc: ph.var[ph.tile[ph.f32][M, 1]] = 0.0
    for k in range(0, K, 8):
        acc += ph.dot(A[:, k:+8], B[k:+8, 0:+1])
    C[:, 0:+1] = acc


@ph.kernel
@ph.autotune(M=[8], N=[8])
@ph.launch(32)
def outer(A: ph.tensor[ph.f32][M, 1], B: ph.tensor[ph.f32][1, N], C: ph.tensor[ph.f32][M, N]):
    C[:, :] = ph.dot(A[:, 0:+1], B[0:+1, :])


@ph.kernel
@ph.autotune(T=[16])
@ph.launch(32)
@ph.tensorcore
def powers(A: ph.tensor[ph.f32][T, T], B: ph.tensor[ph.f32][T, T], C: ph.tensor[ph.f32][T, T], n: ph.i32):
    """The target is an operand: the product goes through a temporary, on the FMA path."""
    p: ph.var = A[:, :]
    q: ph.let = B[:, :]
    for i in range(0, n):
        p = ph.dot(p, q)
        p += ph.dot(p, q)
    C[:, :] = p


@ph.kernel
@ph.autotune(M=[16], N=[16], K=[16])
@ph.launch(64)
def seeds(
    A: ph.tensor[ph.f32][M, K], B: ph.tensor[ph.f32][K, N], S: ph.tensor[ph.f32][M, N],
    Plus: ph.tensor[ph.f32][M, N], Sum: ph.tensor[ph.f32][M, N], Fused: ph.tensor[ph.f32][M, N],
    Unfused: ph.tensor[ph.f32][M, N],
):
    """`acc += dot` starts the chain from acc; `acc = acc + dot` adds a product that started from zero."""
    a: ph.let = A[:, :]
    b: ph.let = B[:, :]
    plus: ph.var = S[:, :]
    plus += ph.dot(a, b)
    Plus[:, :] = plus
    total: ph.var = S[:, :]
    total = total + ph.dot(a, b)
    Sum[:, :] = total
    fused: ph.var = S[:, :]
    fused = fused * 0.7 + ph.dot(a, b)
    Fused[:, :] = fused
    scaled: ph.var = S[:, :]
    scaled = scaled * 0.7
    product: ph.var[ph.tile[ph.f32][M, N]] = ph.dot(a, b)
    scaled = scaled + product
    Unfused[:, :] = scaled


@ph.kernel
@ph.autotune(BM=[16], BN=[16], BK=[16])
@ph.launch(32)
@ph.tensorcore
def accumulate(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f32][M, N]):
    """C += A B with the chain started from C; where K is 0, C keeps every bit."""
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var = C[i:+BM, j:+BN]
    for k in range(0, K, BK):
        acc += ph.dot(A[i:+BM, k:+BK], B[k:+BK, j:+BN])
    C[i:+BM, j:+BN] = acc
