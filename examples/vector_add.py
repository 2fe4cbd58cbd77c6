"""Z = X + Y on vectors: one FADD an element.

The length is neither known when compiling nor promised to be a multiple of BLOCK: reads past the end give zero and
stores past it are dropped.
Grid: (ceil(N / BLOCK),).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BLOCK=[1024])
@ph.launch(256)
def vector_add(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N], Z: ph.tensor[ph.f32][N]):
    at: ph.let = ph.ctx.block.x * BLOCK
    Z[at:+BLOCK] = X[at:+BLOCK] + Y[at:+BLOCK]
