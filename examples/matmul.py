"""C = A B: f16 operands on the tensor cores, f32 accumulator, narrowed to f16 once, on the store.

Each CTA owns a TILE_M x TILE_N tile of C and walks the contraction axis in steps of TILE_K. `acc += dot(a, b)` starts
every chain from what `acc` holds, so the k order, and with it the bits, do not depend on the tile sizes.
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(TILE_M=[64], TILE_N=[64], TILE_K=[32])
@ph.launch(256)
@ph.tensorcore
@ph.aligned(M="TILE_M", N="TILE_N", K="TILE_K")
def matmul(A: ph.tensor[ph.f16][M, K], B: ph.tensor[ph.f16][K, N], C: ph.tensor[ph.f16][M, N]):
    row: ph.let = ph.ctx.block.x * TILE_M
    col: ph.let = ph.ctx.block.y * TILE_N
    acc: ph.var[ph.tile[ph.f32][TILE_M, TILE_N]] = 0.0
    for k in range(0, K, TILE_K):
        a: ph.var = A[row:+TILE_M, k:+TILE_K]
        b: ph.var = B[k:+TILE_K, col:+TILE_N]
        acc += ph.dot(a, b)
    C[row:+TILE_M, col:+TILE_N] = acc
