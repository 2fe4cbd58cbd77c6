"""Kernels of test_kernels_barriers.py: what one CTA writes before the grid barrier, another one reads after it."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(32)
def neighbours(X: ph.tensor[ph.f32][G, W], Y: ph.tensor[ph.f32][G, W], bar: ph.tensor[ph.i32][2]):
    """A tile and a scalar live across the barrier."""
    g: ph.let = ph.ctx.block.x
    x: ph.var = X[g:+1, :]
    s: ph.var = X[g, 3]
    Y[g:+1, :] = x * 2.0
    ph.grid_barrier(bar)
    other: ph.let = (g + 1) % G
    y: ph.var = Y[other:+1, :] + x * s
    ph.grid_barrier(bar)
    Y[g:+1, :] = y


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(32)
def waves(X: ph.tensor[ph.f32][G, W], Y: ph.tensor[ph.f32][G, W], bar: ph.tensor[ph.i32][2], n: ph.i32):
    """Jacobi steps: two barriers at every turn, a carried tile and a carried scalar."""
    g: ph.let = ph.ctx.block.x
    left: ph.let = (g + G - 1) % G
    total: ph.var[ph.tile[ph.f32][1, W]] = 0.0
    count: ph.var = ph.i32(0)
    for i in range(0, n):
        Y[g:+1, :] = X[left:+1, :] * 0.5 + X[g:+1, :] * 0.25
        ph.grid_barrier(bar)
        y: ph.var = Y[g:+1, :]
        X[g:+1, :] = y + ph.f32(i)
        total = total + y
        count += 1
        ph.grid_barrier(bar)
    Y[g:+1, :] = total + ph.f32(count)


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(32)
def long_between(X: ph.tensor[ph.f32][G, W], Y: ph.tensor[ph.f32][G, W], bar: ph.tensor[ph.i32][2], n: ph.i32):
    """A long loop between two barriers."""
    g: ph.let = ph.ctx.block.x
    Y[g:+1, :] = X[g:+1, :] + 1.0
    ph.grid_barrier(bar)
    y: ph.var = Y[(g + 1) % G:+1, :]
    for i in range(0, n):
        y = y * 0.5 + ph.f32(i)
    ph.grid_barrier(bar)
    Y[g:+1, :] = y


@ph.kernel
@ph.autotune(T=[16])
@ph.launch(32)
@ph.tensorcore
def products(A: ph.tensor[ph.f16][M, T], S: ph.tensor[ph.f16][M, T], C: ph.tensor[ph.f32][M, T],
             bar: ph.tensor[ph.i32][2]):
    """The operands of the product were written in this launch: what lay there before says nothing about them."""
    r: ph.let = ph.ctx.block.x * T
    S[r:+T, :] = A[r:+T, :] * 2.0
    ph.grid_barrier(bar)
    other: ph.let = (ph.ctx.block.x * T + T) % M
    acc: ph.var[ph.tile[ph.f32][T, T]] = 0.0
    acc += ph.dot(S[other:+T, :], S[r:+T, :])
    C[r:+T, :] = acc
