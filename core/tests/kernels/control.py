"""Kernels of test_kernels_control.py: loops, branches, jumps, carried tiles, scalars, integers."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def swap(X: ph.tensor[ph.f32][4, W], Y: ph.tensor[ph.f32][4, W], n: ph.i32):
    """Two carried tiles change places at every turn."""
    a: ph.var = X[:, :]
    b: ph.var = Y[:, :]
    for i in range(0, n):
        t: ph.var = a
        a = b
        b = t
    X[:, :] = a
    Y[:, :] = b


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def rotate(X: ph.tensor[ph.f32][4, W], Y: ph.tensor[ph.f32][4, W], Z: ph.tensor[ph.f32][4, W], n: ph.i32):
    """Three carried tiles, each the predecessor of the next, one of them changed on the way."""
    a: ph.var = X[:, :]
    b: ph.var = Y[:, :]
    c: ph.var = Z[:, :]
    for i in range(0, n):
        t: ph.var = c
        c = b
        b = a + 1.0
        a = t
    X[:, :] = a
    Y[:, :] = b
    Z[:, :] = c


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def fibonacci(X: ph.tensor[ph.f32][4, W], Y: ph.tensor[ph.f32][4, W], n: ph.i32):
    """The old value of a tile outlives its new one by one turn."""
    cur: ph.var = X[:, :]
    prev: ph.var = Y[:, :]
    for i in range(0, n):
        old: ph.var = cur
        cur = cur + prev
        prev = old
    X[:, :] = cur
    Y[:, :] = prev


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def wide_swap(X: ph.tensor[ph.f32][4, W], Y: ph.tensor[ph.f32][4, W], S: ph.tensor[ph.f32][4, 1], n: ph.i32):
    """As swap, beside a row sum that keeps the tiles from being cut."""
    a: ph.var = X[:, :]
    b: ph.var = Y[:, :]
    s: ph.var[ph.tile[ph.f32][4, 1]] = 0.0
    for i in range(0, n):
        t: ph.var = a
        s = s + ph.rowsum(a - b)
        a = b
        b = t + 0.5
    X[:, :] = a
    Y[:, :] = b
    S[:, 0:+1] = s


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def branches(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][M, W], limit: ph.i32):
    r: ph.let = ph.ctx.block.x * 4
    x: ph.var = X[r:+4, :]
    y: ph.var[ph.tile[ph.f32][4, W]] = 1.0
    if r < limit:
        y = x * 2.0
        x = x + y
    elif r == limit:
        y = x
    else:
        if r % 8 == 0:
            x = y
        Y[r:+4, :] = x
        return
    Y[r:+4, :] = x + y


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def jumps(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][M, W], n: ph.i32):
    """continue skips odd turns, break ends at the CTA's own count, an inner loop has its own."""
    r: ph.let = ph.ctx.block.x * 4
    x: ph.var = X[r:+4, :]
    for i in range(0, n):
        if i % 2 == 1:
            continue
        if i > ph.ctx.block.x * 3:
            break
        for j in range(0, 5):
            if j == i:
                break
            x = x + 0.25
        x = x * 1.5
    Y[r:+4, :] = x


@ph.kernel
@ph.autotune(W=[16])
@ph.launch(64)
def whiles(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][M, W], T: ph.tensor[ph.i32][M, 1], n: ph.i32):
    """A while whose count depends on the CTA, around another, with a break."""
    r: ph.let = ph.ctx.block.x * 4
    x: ph.var = X[r:+4, :]
    turns: ph.var = ph.i32(0)
    i: ph.var = 0
    while i < n + ph.ctx.block.x:
        j: ph.var = i
        while j > 0:
            x = x + 1.0
            j = j / 2
            turns += 1
            if turns > 20:
                break
        i += 1
    Y[r:+4, :] = x
    T[r, 0] = turns


@ph.kernel
@ph.launch(32)
def collatz(N: ph.tensor[ph.i32][G], Steps: ph.tensor[ph.i32][G]):
    """Scalars of memory decide how often a loop turns."""
    n: ph.var = N[ph.ctx.block.x]
    steps: ph.var = ph.i32(0)
    while n != 1:
        if n % 2 == 0:
            n = n / 2
        else:
            n = n * 3 + 1
        steps += 1
    Steps[ph.ctx.block.x] = steps


@ph.kernel
@ph.launch(32)
def endless(X: ph.tensor[ph.i32][4]):
    i: ph.var = ph.i32(0)
    while i >= 0:
        i = (i + 1) % 1000
    X[0] = i


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def counted_by_memory(N: ph.tensor[ph.i32][2], X: ph.tensor[ph.f32][W], Y: ph.tensor[ph.f32][W]):
    """A for loop whose end only memory knows."""
    x: ph.var = X[:]
    for i in range(0, N[0]):
        x = x + 1.0
    Y[:] = x


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def ranges(X: ph.tensor[ph.f32][W], Y: ph.tensor[ph.f32][G, W], lo: ph.i32, hi: ph.i32, step: ph.i32):
    """Empty, backward and uneven ranges; the loop variable as a number."""
    x: ph.var = X[:]
    for i in range(lo, hi + ph.ctx.block.x, step):
        x = x * 2.0 + ph.f32(i)
    Y[ph.ctx.block.x:+1, :] = 0.0
    for j in range(0, W):
        Y[ph.ctx.block.x, j] = x[j]


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def unrolled(X: ph.tensor[ph.f32][W], Y: ph.tensor[ph.f32][W]):
    x: ph.var = X[:]
    for i in ph.unroll(4, range(0, 10)):
        x = x * 1.25 + ph.f32(i)
    Y[:] = x


@ph.kernel
@ph.autotune(BK=[4], W=[8])
@ph.launch(32)
def triangle(X: ph.tensor[ph.f32][M, K], Y: ph.tensor[ph.f32][M, W]):
    """The trips of the loop grow with the CTA: no two have the same count."""
    r: ph.let = ph.ctx.block.x * 4
    s: ph.var[ph.tile[ph.f32][4, W]] = 0.0
    for k in range(0, (ph.ctx.block.x + 1) * BK, BK):
        for c in range(0, W):
            s = s * 0.5 + X[r:+4, k + c:+W]
    Y[r:+4, :] = s


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def in_place_then_long(X: ph.tensor[ph.f32][W], Y: ph.tensor[ph.f32][W], n: ph.i32):
    """Stores before a long loop happen once, however the loop is split, and what was read before stays as read."""
    before: ph.var = X[:]
    for i in range(0, 3):
        X[:] = X[:] + 1.0
    s: ph.var[ph.tile[ph.f32][W]] = 0.0
    for i in range(0, n):
        s = s + 0.5
        X[:] = s
    Y[:] = before + s


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def two_long_loops(X: ph.tensor[ph.f32][G, W], Y: ph.tensor[ph.f32][G, W], n: ph.i32):
    """Two loops, one after the other, what the first one found lives through the second."""
    g: ph.let = ph.ctx.block.x
    x: ph.var = X[g:+1, :]
    start: ph.var = x * 2.0
    count: ph.var = ph.i32(0)
    for i in range(0, n):
        x = x * 0.5 + 1.0
        count += 1
    mid: ph.var = x + start
    for i in range(g, n, 2):
        x = x * 0.75 + ph.f32(i)
        count = count + ph.i32(i)
    Y[g:+1, :] = x + mid + ph.f32(count)


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def nested_long(X: ph.tensor[ph.f32][G, W], Y: ph.tensor[ph.f32][G, W], m: ph.i32, n: ph.i32):
    """Each turn of the outer loop alone is too long for one dispatch."""
    g: ph.let = ph.ctx.block.x
    x: ph.var = X[g:+1, :]
    y: ph.var = x
    for i in range(0, m):
        before: ph.var = x
        for j in range(0, n + i):
            x = x * 0.5 + ph.f32(j)
        y = y + before
        Y[g:+1, :] = x + y
    Y[g:+1, :] += y


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def long_in_branch(X: ph.tensor[ph.f32][G, W], Y: ph.tensor[ph.f32][G, W], n: ph.i32):
    """A long loop that only some CTAs enter, as often as they say."""
    g: ph.let = ph.ctx.block.x
    x: ph.var = X[g:+1, :]
    if g % 2 == 1:
        for j in range(0, n * g):
            x = x * 0.5 + 1.0
    Y[g:+1, :] = x


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def while_in_for(X: ph.tensor[ph.f32][G, W], Y: ph.tensor[ph.f32][G, W], m: ph.i32, n: ph.i32):
    """A loop of unknown count in one of known count."""
    g: ph.let = ph.ctx.block.x
    x: ph.var = X[g:+1, :]
    for i in range(0, m):
        j: ph.var = 0
        while j < n + g:
            x = x * 0.5 + 1.0
            j += 3
    Y[g:+1, :] = x


@ph.kernel
@ph.autotune(W=[8])
@ph.launch(32)
def count_up(X: ph.tensor[ph.f32][G, W], N: ph.tensor[ph.i32][G], n: ph.i32):
    """Both a tile and a scalar count the turns; the first CTA stops one short of the last."""
    g: ph.let = ph.ctx.block.x
    x: ph.var = X[g:+1, :]
    turns: ph.var = ph.i32(0)
    for i in range(0, n - 1 + g):
        x = x + 1.0
        turns += 1
    X[g:+1, :] = x
    N[g] = turns


@ph.kernel
@ph.launch(32)
def endless_stores(X: ph.tensor[ph.f32][8]):
    i: ph.var = ph.i32(0)
    while i >= 0:
        X[:] = X[:] + 1.0
        i = (i + 1) % 1000
