"""Kernels of test_kernels_rows.py: reductions in the order of phobos-language.md D.6, broadcasting, whole rows."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(R=[4], C=[32])
@ph.launch(256)
def sums_256(X: ph.tensor[ph.f32][M, N], S: ph.tensor[ph.f32][M, 1], T: ph.tensor[ph.f32][M, 1]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, 0:+C]
    S[r:+R, 0:+1] = ph.rowsum(x)
    T[r:+R, 0:+1] = ph.rowmax(x)


@ph.kernel
@ph.autotune(R=[4], C=[32])
@ph.launch(128)
def sums_128(X: ph.tensor[ph.f32][M, N], S: ph.tensor[ph.f32][M, 1], T: ph.tensor[ph.f32][M, 1]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, 0:+C]
    S[r:+R, 0:+1] = ph.rowsum(x)
    T[r:+R, 0:+1] = ph.rowmax(x)


@ph.kernel
@ph.autotune(R=[4], C=[16])
@ph.launch(128)
def sums_f16(X: ph.tensor[ph.f16][M, N], S: ph.tensor[ph.f16][M, 1], T: ph.tensor[ph.f16][M, 1]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, 0:+C]
    S[r:+R, 0:+1] = ph.rowsum(x)
    T[r:+R, 0:+1] = ph.rowmax(x)


@ph.kernel
@ph.autotune(R=[4], C=[16])
@ph.launch(128)
def sums_bf16(X: ph.tensor[ph.bf16][M, N], S: ph.tensor[ph.bf16][M, 1], T: ph.tensor[ph.bf16][M, 1]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, 0:+C]
    S[r:+R, 0:+1] = ph.rowsum(x)
    T[r:+R, 0:+1] = ph.rowmax(x)


@ph.kernel
@ph.autotune(R=[4], C=[16])
@ph.launch(128)
def sums_f64(X: ph.tensor[ph.f64][M, N], S: ph.tensor[ph.f64][M, 1], T: ph.tensor[ph.f64][M, 1]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, 0:+C]
    S[r:+R, 0:+1] = ph.rowsum(x)
    T[r:+R, 0:+1] = ph.rowmax(x)


@ph.kernel
@ph.autotune(R=[4], C=[32])
@ph.launch(128)
def rowsum_of_product(X: ph.tensor[ph.f32][M, C], Y: ph.tensor[ph.f32][M, C], S: ph.tensor[ph.f32][M, 1]):
    """The reduced tile is an expression; its result is used beside the tile."""
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    y: ph.var = Y[r:+R, :]
    s: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x * y)
    t: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x - s)
    S[r:+R, 0:+1] = s + t


@ph.kernel
@ph.autotune(R=[4], W=[64])
@ph.launch(128)
def softmax(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][M, W]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    top: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowmax(x)
    x = ph.exp(x - top)
    total: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x)
    Y[r:+R, :] = x / total


@ph.kernel
@ph.autotune(R=[4], W=[64])
@ph.launch(128)
def ragged_softmax(X: ph.tensor[ph.f32][M, N], Y: ph.tensor[ph.f32][M, N]):
    """Rows of N <= W columns, masked by hand: zero is the only fill value."""
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, 0:+W]
    x = ph.where(ph.iota(W) < N, x, -300000000.0)
    top: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowmax(x)
    x = ph.exp(x - top)
    total: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x)
    Y[r:+R, 0:+W] = x / total


@ph.kernel
@ph.autotune(R=[8], W=[32])
@ph.launch(128)
def broadcasts(X: ph.tensor[ph.f32][M, W], G: ph.tensor[ph.f32][1, W], S: ph.tensor[ph.f32][M, 1],
               Y: ph.tensor[ph.f32][M, W], Z: ph.tensor[ph.f32][M, W]):
    """[1, W] and [R, 1] stretch, alone and against each other."""
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    g: ph.let = G[0:+1, :]
    s: ph.let = S[r:+R, 0:+1]
    Y[r:+R, :] = (x - s) * g
    outer: ph.var = s * g
    Z[r:+R, :] = outer + x


@ph.kernel
@ph.autotune(R=[4], W=[16])
@ph.launch(64)
def one_by_one(X: ph.tensor[ph.f32][M, W], S: ph.tensor[ph.f32][1, 1], Y: ph.tensor[ph.f32][M, W]):
    r: ph.let = ph.ctx.block.x * R
    s: ph.let = S[0:+1, 0:+1]
    x: ph.var = X[r:+R, :]
    twice: ph.var[ph.tile[ph.f32][1, 1]] = s + s
    Y[r:+R, :] = x * twice + s


@ph.kernel
@ph.autotune(R=[4], W=[64])
@ph.launch(128)
def row_indices(X: ph.tensor[ph.f32][M, W], I: ph.tensor[ph.i32][M, 1], P: ph.tensor[ph.f32][M, W],
                L: ph.tensor[ph.f32][M, W]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    I[r:+R, 0:+1] = ph.rowargmax(x)
    P[r:+R, :] = ph.cumsum(x)
    L[r:+R, :] = ph.tril(x)


@ph.kernel
@ph.autotune(R=[8], C=[16])
@ph.launch(64)
def moves(X: ph.tensor[ph.f32][R, C], T: ph.tensor[ph.f32][C, R], F: ph.tensor[ph.f32][1, N],
          Y: ph.tensor[ph.f32][R, C]):
    """transpose, flat, slices of tiles, an element, slice assignment."""
    x: ph.var = X[:, :]
    T[:, :] = ph.transpose(x)
    F[0:+1, 0:+128] = ph.flat(x)
    y: ph.var = x * 2.0
    y[2:+4, 4:+8] = x[0:+4, 0:+8]
    y[0:+1, :] = 1.0
    y[1, 3] = x[7, 15]
    y[6:+4, 12:+8] = x[0:+4, 0:+8]
    y[3:+2, :] += x[1:+2, :]
    Y[:, :] = y
