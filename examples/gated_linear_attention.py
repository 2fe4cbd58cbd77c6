"""Gated linear attention of one head, in chunks: the state S [D, BV] carries over, the rest is matrix products.

G holds the logarithm of each position's gate. Within a chunk, position i sees j <= i with weight
exp(b_i - b_j), b the running sum of G; the state decays by exp(b_last). The tail of N is zero-filled.
Grid: (DV / BV,).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BC=[16], D=[32], BV=[32])
@ph.launch(128)
@ph.aligned(DV="BV")
def gated_linear_attention(
    Q: ph.tensor[ph.f32][N, D],
    K: ph.tensor[ph.f32][N, D],
    V: ph.tensor[ph.f32][N, DV],
    G: ph.tensor[ph.f32][N, 1],
    O: ph.tensor[ph.f32][N, DV],
):
    j: ph.let = ph.ctx.block.x * BV
    state: ph.var[ph.tile[ph.f32][D, BV]] = 0.0
    for c in range(0, N, BC):
        q: ph.var = Q[c:+BC, :]
        k: ph.var = K[c:+BC, :]
        v: ph.var = V[c:+BC, j:+BV]
        g: ph.var = G[c:+BC, :]
        b: ph.let = ph.cumsum(g)
        weights: ph.var[ph.tile[ph.f32][BC, BC]] = ph.dot_t(q, k)
        weights = weights * ph.exp(b - ph.transpose(b))
        weights = ph.tril(weights)
        o: ph.var[ph.tile[ph.f32][BC, BV]] = ph.dot(q, state)
        o = o * ph.exp(b)
        o += ph.dot(weights, v)
        O[c:+BC, j:+BV] = o
        last: ph.let = b[BC - 1:+1, :]
        k = k * ph.exp(last - b)
        state = state * ph.exp(last)
        state += ph.dot(ph.transpose(k), v)
