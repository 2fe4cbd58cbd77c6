"""Row-wise 8-bit quantization and its inverse into bf16: two kernels of one source.

quantize: scale = max |x| / 127 (at least 1e-30 / 127), q = round(x / scale), ties to even.
dequantize: y = q * scale in f32, rounded once to bf16.
Grid: (M / R,) for both.
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(R=[4], W=[256])
@ph.launch(128)
@ph.aligned(M="R")
def quantize(X: ph.tensor[ph.f32][M, W], Q: ph.tensor[ph.i8][M, W], S: ph.tensor[ph.f32][M, 1]):
    r: ph.let = ph.ctx.block.x * R
    x: ph.var = X[r:+R, :]
    top: ph.let = ph.rowmax(ph.tmax(x, 0.0 - x))
    scale: ph.let = ph.tmax(top, 0.000000000000000000000000000001) / 127.0
    Q[r:+R, :] = ph.i8(ph.round(x / scale))
    S[r:+R, :] = scale


@ph.kernel
@ph.autotune(R=[4], W=[256])
@ph.launch(128)
@ph.aligned(M="R")
def dequantize(Q: ph.tensor[ph.i8][M, W], S: ph.tensor[ph.f32][M, 1], Y: ph.tensor[ph.bf16][M, W]):
    r: ph.let = ph.ctx.block.x * R
    q: ph.var = Q[r:+R, :]
    s: ph.var = S[r:+R, :]
    Y[r:+R, :] = ph.f32(q) * s
