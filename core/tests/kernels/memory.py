"""Kernels of test_kernels_memory.py: slices, masks, views, copies, arrays that are read and written, point accesses."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def views(A: ph.tensor[ph.f32][W], B: ph.tensor[ph.f32][W], C: ph.tensor[ph.f32][W]):
    """A let of a slice is a live window, a var is a copy."""
    live: ph.let = A[:]
    copy: ph.var = A[:]
    A[:] = B[:]
    C[:] = live * 2.0 + copy


@ph.kernel
@ph.autotune(R=[4], W=[16])
@ph.launch(64)
def in_place_exp(X: ph.tensor[ph.f32][M, N]):
    r: ph.let = ph.ctx.block.x * R
    t: ph.var = X[r:+R, 0:+W]
    t = ph.exp(t)
    X[r:+R, 0:+W] = t


@ph.kernel
@ph.autotune(R=[4], W=[16])
@ph.launch(64)
def add(A: ph.tensor[ph.f32][M, N], B: ph.tensor[ph.f32][M, N], C: ph.tensor[ph.f32][M, N]):
    r: ph.let = ph.ctx.block.x * R
    c: ph.let = ph.ctx.block.y * W
    C[r:+R, c:+W] = A[r:+R, c:+W] + B[r:+R, c:+W]


@ph.kernel
@ph.autotune(R=[4], W=[16])
@ph.launch(64)
def shifted(A: ph.tensor[ph.f32][M, N], C: ph.tensor[ph.f32][M, N], dr: ph.i32, dc: ph.i32):
    """Starts left of, beyond and across every edge."""
    r: ph.let = ph.ctx.block.x * R + dr
    c: ph.let = ph.ctx.block.y * W + dc
    C[r:+R, c:+W] = A[r - 1:+R, c + 2:+W]


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def windows(X: ph.tensor[ph.f32][N], n: ph.i32):
    """Each turn reads what the turn before stored one element further left."""
    for i in range(0, n):
        x: ph.var = X[i:+W]
        X[i + 1:+W] = x * 0.5


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def sliding(X: ph.tensor[ph.f32][N], n: ph.i32):
    """One slice, read and written, that moves by one element at every turn."""
    for i in range(0, n):
        X[i:+W] = X[i:+W] * 0.5 + 1.0


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def overlapping(X: ph.tensor[ph.f32][W], Y: ph.tensor[ph.f32][N]):
    """Three stores that overlap: the last one wins."""
    x: ph.var = X[:]
    Y[0:+W] = x
    Y[3:+W] = x + 1.0
    Y[1:+W] = x + 2.0


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def trail(X: ph.tensor[ph.f32][W], Y: ph.tensor[ph.f32][N], n: ph.i32):
    """Stores of one slice that moves: later turns win."""
    x: ph.var = X[:]
    for i in range(0, n):
        Y[i:+W] = x + ph.f32(i)


@ph.kernel
@ph.autotune(R=[8], W=[16])
@ph.launch(64)
def through_memory(X: ph.tensor[ph.f32][R, W], Y: ph.tensor[ph.f32][W, R], S: ph.tensor[ph.f32][R, W]):
    """What one slice stores, another one reads in another shape."""
    x: ph.var = X[:, :]
    S[:, :] = x + 1.0
    for i in range(0, R):
        row: ph.var = S[i:+1, :]
        S[R - 1 - i:+1, :] = row * 2.0
    Y[:, :] = ph.transpose(S[:, :])


@ph.kernel
@ph.launch(32)
def points(A: ph.tensor[ph.f32][M, N], I: ph.tensor[ph.i32][G], B: ph.tensor[ph.f32][G]):
    """Single elements, the index from memory, outside the tensor too."""
    g: ph.let = ph.ctx.block.x
    at: ph.let = I[g]
    B[g] = A[at, g]
    A[g, at] = 3.0


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def rank_3(A: ph.tensor[ph.f32][B, M, N], C: ph.tensor[ph.f32][B, M, N]):
    b: ph.let = ph.ctx.block.z
    C[b:+1, 0:+4, 0:+W] = A[b:+1, 0:+4, 0:+W] * 2.0


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def plane_of_3(A: ph.tensor[ph.f32][B, M, N], C: ph.tensor[ph.f32][M, N]):
    s: ph.var[ph.tile[ph.f32][1, 4, W]] = 0.0
    for b in range(0, B):
        s += A[b:+1, 0:+4, 0:+W]
    for m in range(0, 4):
        for n in range(0, W):
            C[m, n] = s[0, m, n]


@ph.kernel
@ph.autotune(R=[64], W=[128])
@ph.launch(64)
def large(X: ph.tensor[ph.f32][R, W], Y: ph.tensor[ph.f32][W, R]):
    """Tiles of 32 KiB: more than the shared memory that every device has."""
    x: ph.var = X[:, :]
    y: ph.var = ph.transpose(x)
    z: ph.var = y * 2.0
    for i in range(0, 3):
        z = ph.transpose(ph.transpose(z) + x)
    Y[:, :] = z + y


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def many(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N]):
    at: ph.let = (ph.ctx.block.z * 3 + ph.ctx.block.y) * 1000 + ph.ctx.block.x
    Y[at * W:+W] = X[at * W:+W] + 1.0


@ph.kernel
@ph.autotune(N=[64])
@ph.launch(32)
def lookup(T: ph.tensor[ph.f32][1, 16], I: ph.tensor[ph.i32][1, N], O: ph.tensor[ph.f32][1, N]):
    O[0:+1, :] = ph.gather(T[0:+1, :], I[0:+1, :])


@ph.kernel
@ph.launch(32)
def columns(A: ph.tensor[ph.f32][M, N], C: ph.tensor[ph.f32][M, N]):
    """Slices of one column, of a run-time column."""
    j: ph.let = ph.ctx.block.x
    C[0:+8, j:+1] = A[0:+8, j:+1] + A[0:+8, 0:+1]


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(256)
def point_update(X: ph.tensor[ph.f32][M, W], Count: ph.tensor[ph.f32][M], Y: ph.tensor[ph.f32][M, W]):
    """A scalar is read from memory and replaced there; every invocation keeps the one that it was."""
    m: ph.let = ph.ctx.block.x
    s: ph.var = Count[m]
    Count[m] = s + 1.0
    Y[m:+1, :] = X[m:+1, :] * s
    t: ph.var = Count[m]
    Count[m] += t
    Y[m:+1, :] = Y[m:+1, :] + Count[m]


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(256)
def element_update(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][M, W]):
    """As point_update, in a tile: one element is read as a scalar, then the tile is overwritten."""
    m: ph.let = ph.ctx.block.x
    x: ph.var = X[m:+1, :]
    for i in range(0, 4):
        s: ph.var = x[0, i]
        x = x * 0.5 + s
        x[0, 63] = s
    Y[m:+1, :] = x


@ph.kernel
@ph.autotune(W=[64])
@ph.launch(64)
def two_shapes(X: ph.tensor[ph.f32][4, W], Flat: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][4, W]):
    """May be given one array under two shapes: what one view of it stores, the other one reads."""
    x: ph.var = X[0:+4, :]
    Flat[0:+W] = x[1, 0] + Flat[0:+W]
    Y[0:+4, :] = X[0:+4, :] + x
    X[0:+4, :] = x * 2.0
