"""C = alpha A B + beta C in f32: one FFMA chain for each output, k ascending over all of K.

The tile sizes change nothing about the bits. beta C is computed for beta = 0 too, so a NaN in C spreads.
Grid: (ceil(M / BM), ceil(N / BN)).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BM=[64, 128], BN=[64, 128], BK=[16])
@ph.launch(256)
def matmul_f32(
    A: ph.tensor[ph.f32][M, K], B: ph.tensor[ph.f32][K, N], C: ph.tensor[ph.f32][M, N], alpha: ph.f32, beta: ph.f32
):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f32][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    c: ph.let = C[i:+BM, j:+BN]
    C[i:+BM, j:+BN] = alpha * acc + beta * c
