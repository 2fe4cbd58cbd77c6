"""The drafts of phobos-language.md F.2, as they stand there."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BLOCK=[1024])
@ph.launch(256)
def vadd(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N], Z: ph.tensor[ph.f32][N]):
    at: ph.let = ph.ctx.block.x * BLOCK
    Z[at:+BLOCK] = X[at:+BLOCK] + Y[at:+BLOCK]

@ph.kernel
@ph.autotune(R=[4], W=[256])
@ph.launch(128)
@ph.aligned(M="R")
def softmax(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][M, W]):
    r0: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r0:+R, :]
    top: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowmax(x)
    x = ph.exp(x - top)
    den: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x)
    Y[r0:+R, :] = x / den

@ph.kernel
@ph.autotune(BM=[64], BN=[64], BK=[32])
@ph.launch(256)
@ph.tensorcore
@ph.aligned(M="BM", N="BN", K="BK")
def scaled_mm(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N], s: ph.f32):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        p: ph.var = A[i:+BM, k:+BK]
        q: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(p, q)
    C[i:+BM, j:+BN] = s * acc

@ph.kernel
@ph.autotune(R=[4], W=[512])
@ph.launch(128)
@ph.aligned(M="R")
def layer_norm(X: ph.tensor[ph.f32][M, W], G: ph.tensor[ph.f32][1, W], Bt: ph.tensor[ph.f32][1, W],
               Y: ph.tensor[ph.f32][M, W], Mean: ph.tensor[ph.f32][M, 1], Rstd: ph.tensor[ph.f32][M, 1],
               inv_w: ph.f32, eps: ph.f32):
    r0: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r0:+R, :]
    g: ph.let = G[0:+1, :]
    b: ph.let = Bt[0:+1, :]
    mu: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x)
    mu = mu * inv_w
    x = x - mu
    sq: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x * x)
    rs: ph.var[ph.tile[ph.f32][R, 1]] = 1.0 / ph.sqrt(sq * inv_w + eps)
    Mean[r0:+R, :] = mu
    Rstd[r0:+R, :] = rs
    Y[r0:+R, :] = x * rs * g + b

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
