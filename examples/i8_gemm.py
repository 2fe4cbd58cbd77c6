"""C = A W^T on 8-bit integers with 32-bit sums, exact and wrapping.

16 x 32 outputs are whole 8 x 8 blocks and 32 is a multiple of 16, so IMMA.8816 runs it; with BM = 1 it is dp4a, and
the same bits.
Grid: (M / BM, N / BN).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BM=[16], BN=[32])
@ph.launch(256)
@ph.aligned(M="BM", K=32, N="BN")
def i8_gemm(A: ph.tensor[ph.i8][M, K], W: ph.tensor[ph.i8][N, K], C: ph.tensor[ph.i32][M, N]):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.i32][BM, BN]] = 0
    for k in range(0, K, 32):
        a: ph.let = A[i:+BM, k:+32]
        w: ph.let = W[j:+BN, k:+32]
        acc += ph.dot_t(a, w)
    C[i:+BM, j:+BN] = acc
