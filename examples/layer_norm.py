"""Layer norm along rows, forward, with mean and reciprocal deviation stored.

Y = (X - mean) * rstd * G + B: four operations, four roundings, as written. inv_w is 1 / W.
Grid: (M / R,).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(R=[4], W=[1024])
@ph.launch(128)
@ph.aligned(M="R")
def layer_norm(
    X: ph.tensor[ph.f32][M, W],
    G: ph.tensor[ph.f32][1, W],
    B: ph.tensor[ph.f32][1, W],
    Y: ph.tensor[ph.f32][M, W],
    Mean: ph.tensor[ph.f32][M, 1],
    Rstd: ph.tensor[ph.f32][M, 1],
    inv_w: ph.f32,
    eps: ph.f32,
):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    g: ph.let = G[0:+1, :]
    b: ph.let = B[0:+1, :]
    mean: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x)
    mean = mean * inv_w
    x = x - mean
    squares: ph.var[ph.tile[ph.f32][R, 1]] = ph.rowsum(x * x)
    rstd: ph.var[ph.tile[ph.f32][R, 1]] = 1.0 / ph.sqrt(squares * inv_w + eps)
    Mean[r:+R, :] = mean
    Rstd[r:+R, :] = rstd
    Y[r:+R, :] = x * rstd * g + b
