"""Dropout with a counter-based generator written in the language: no state, the same mask for the same seed anywhere.

The counter is the element's index plus a seed; `mix` is the 32-bit integer finalizer with constants 7feb352d and
846ca68b. 32-bit integers wrap; their right shift is arithmetic, so a mask makes it logical.
Grid: (ceil(M / R),).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.fn
def mix(x):
    a: ph.let = (x ^ ((x >> 16) & 65535)) * 2146121005
    b: ph.let = (a ^ ((a >> 15) & 131071)) * 2221713035
    return b ^ ((b >> 16) & 65535)


@ph.fn
def uniform(x):
    return ph.f32((x >> 8) & 16777215) * 0.000000059604644775390625


@ph.kernel
@ph.autotune(R=[4], W=[256])
@ph.launch(128)
def dropout(X: ph.tensor[ph.f32][M, W], Y: ph.tensor[ph.f32][M, W], p: ph.f32, seed: ph.i32):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    row: ph.let = ph.transpose(ph.iota(R)) + r
    counter: ph.let = row * W + ph.iota(W)
    u: ph.let = uniform(mix(mix(counter) + seed))
    Y[r:+R, :] = ph.where(u >= p, x / (1.0 - p), 0.0)
