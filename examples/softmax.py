"""Softmax along rows, fused: every CTA reads R rows once and writes them once.

The row width W is a constant. The sum of a row runs over 32 strided partial sums joined by a butterfly, because 128
threads serve 4 rows; another thread count gives other bits.
Grid: (M / R,).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(R=[4], W=[1024])
@ph.launch(128)
@ph.aligned(M="R")
def softmax(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][M, W]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    top: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowmax(x)
    x = ph.exp(x - top)
    total: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x)
    Y[r:+R, :] = x / total
