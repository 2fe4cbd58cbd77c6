"""Kernels of test_kernels_diff.py: tutorial 03, attention, a branch that depends on a product, one without products."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BM=[64], BN=[64], BK=[32])
@ph.launch(256)
@ph.tensorcore
@ph.aligned(M="BM", N="BN", K="BK")
def matmul(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    C[i:+BM, j:+BN] = acc


@ph.kernel
@ph.autotune(BR=[32], BC=[32], D=[64])
@ph.launch(128)
@ph.tensorcore
@ph.aligned(Nq="BR", Nk="BC")
def attention(Q: ph.tensor[ph.f16][Nq, D], K: ph.tensor[ph.f16][Nk, D], V: ph.tensor[ph.f16][Nk, D],
              O: ph.tensor[ph.f16][Nq, D], scale: ph.f32):
    r0: ph.let = ph.ctx.block.x * BR
    q: ph.let = Q[r0:+BR, :]
    o: ph.var[ph.tile[ph.f32][BR, D]] = 0.0
    hi: ph.var[ph.tile[ph.f32][BR, 1]] = -300000000.0
    den: ph.var[ph.tile[ph.f32][BR, 1]] = 0.0
    for c in range(0, Nk, BC):
        k: ph.let = K[c:+BC, :]
        v: ph.let = V[c:+BC, :]
        s: ph.var[ph.tile[ph.f32][BR, BC]] = ph.dot_t(q, k)
        s = s * scale
        new: ph.var[ph.tile[ph.f32][BR, 1]] = ph.tmax(hi, ph.rowmax(s))
        s = ph.exp(s - new)
        fix: ph.var[ph.tile[ph.f32][BR, 1]] = ph.exp(hi - new)
        den = den * fix + ph.rowsum(s)
        o = o * fix
        o += ph.dot(s, v)
        hi = new
    O[r0:+BR, :] = o / den


@ph.kernel
@ph.autotune(T=[32])
@ph.launch(128)
@ph.tensorcore
def branches(A: ph.tensor[ph.f16][T, T], B: ph.tensor[ph.f16][T, T], C: ph.tensor[ph.f32][T, T], limit: ph.f32):
    acc: ph.var[ph.tile[ph.f32][T, T]] = ph.dot(A[:, :], B[:, :])
    x: ph.let = acc * 2.0
    C[:, :] = acc
    if C[0, 0] > limit:
        C[:, :] = x


@ph.kernel
@ph.autotune(B=[64])
@ph.launch(64)
def axpy(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N], Z: ph.tensor[ph.f32][N], a: ph.f32):
    i: ph.let = ph.ctx.block.x * B
    Z[i:+B] = X[i:+B] * a + Y[i:+B]
