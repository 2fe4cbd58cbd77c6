"""y = W x with 8-bit weights and activations, a scale for every 32 of them: Q8_0 as language models store it.

One row of outputs cannot fill an 8-row block of the integer tensor cores, so dp4a sums each block exactly; the scaled
blocks are added in f32 in ascending order: part * ws, * xs, then the sum, each rounded.
Grid: (N / BN,).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BN=[32])
@ph.launch(128)
@ph.aligned(N="BN", K=32)
def q8_matvec(
    W: ph.tensor[ph.i8][N, K],
    WS: ph.tensor[ph.f32][N, KB],
    X: ph.tensor[ph.i8][1, K],
    XS: ph.tensor[ph.f32][1, KB],
    Y: ph.tensor[ph.f32][1, N],
):
    n: ph.let = ph.ctx.block.x * BN
    acc: ph.var[ph.tile[ph.f32][1, BN]] = 0.0
    for k in range(0, K, 32):
        w: ph.let = W[n:+BN, k:+32]
        x: ph.let = X[0:+1, k:+32]
        part: ph.let = ph.dot_t(x, w)
        ws: ph.var = WS[n:+BN, k // 32:+1]
        xs: ph.var = XS[0:+1, k // 32:+1]
        acc += ph.f32(part) * ph.transpose(ws) * xs
    Y[0:+1, n:+BN] = acc
