"""C = A B with f16 operands on the tensor cores, an f32 accumulator and one rounding to f16 at the store.

CTA (x, y) owns a BM x BN tile of C. Each turn of the loop takes a panel of A and of B and adds their product to the
accumulator, which stays in f32. The promises make every slice whole.
Grid: (M / BM, N / BN).
"""

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
