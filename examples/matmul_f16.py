"""C = alpha A B + beta C with f16 operands and an f16 accumulator: HMMA.16816.F16 rounds to f16 after every 8 products.

This is the GEMM loop that the language recognizes: its epilogue is computed in f32 and rounded once, at the store.
Without the promises the tail would be masked, the pattern lost, and the sum an HFMA2 chain: other bits.
Grid: (M / BM, N / BN).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BM=[64], BN=[64], BK=[32])
@ph.launch(256)
@ph.tensorcore
@ph.aligned(M="BM", N="BN", K="BK")
def matmul_f16(
    A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N], alpha: ph.f32, beta: ph.f32
):
    i: ph.let = ph.ctx.block.x * BM
    j: ph.let = ph.ctx.block.y * BN
    acc: ph.var[ph.tile[ph.f16][BM, BN]] = 0.0
    for k in range(0, K, BK):
        a: ph.var = A[i:+BM, k:+BK]
        b: ph.var = B[k:+BK, j:+BN]
        acc += ph.dot(a, b)
    c: ph.let = C[i:+BM, j:+BN]
    C[i:+BM, j:+BN] = alpha * acc + beta * c
