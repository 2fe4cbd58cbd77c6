"""Z = alpha X + Y on vectors: one FMUL and one FADD an element, never fused.

Grid: (ceil(N / BLOCK),).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BLOCK=[1024])
@ph.launch(256)
def saxpy(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N], Z: ph.tensor[ph.f32][N], alpha: ph.f32):
    at: ph.let = ph.ctx.block.x * BLOCK
    Z[at:+BLOCK] = alpha * X[at:+BLOCK] + Y[at:+BLOCK]
