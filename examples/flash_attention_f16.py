"""Attention of one head with f16 operands on the tensor cores, forward, with a running maximum.

Scores and output accumulate in f32; the weights are rounded to f16 when they become operands. With 128 threads both
products pass the tensor-core gate; with BR = BC = 16 the scores would fall back to FFMA, and other bits.
Grid: (Nq / BR,).
"""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.autotune(BR=[32], BC=[32], D=[64])
@ph.launch(128)
@ph.tensorcore
@ph.aligned(Nq="BR", Nk="BC")
def flash_attention_f16(
    Q: ph.tensor[ph.f16][Nq, D],
    K: ph.tensor[ph.f16][Nk, D],
    V: ph.tensor[ph.f16][Nk, D],
    O: ph.tensor[ph.f16][Nq, D],
    scale: ph.f32,
):
    r: ph.let = ph.ctx.block.x * BR
    q: ph.let = Q[r:+BR, :]
    o: ph.var[ph.tile[ph.f32][BR, D]] = 0.0
    top: ph.var[ph.tile[ph.f32][BR, 1]] = -300000000.0
    total: ph.var[ph.tile[ph.f32][BR, 1]] = 0.0
    for c in range(0, Nk, BC):
        k: ph.let = K[c:+BC, :]
        v: ph.let = V[c:+BC, :]
        s: ph.var[ph.tile[ph.f32][BR, BC]] = ph.dot_t(q, k)
        s = s * scale
        new: ph.var[ph.tile[ph.f32][BR, 1]] = ph.tmax(top, ph.rowmax(s))
        s = ph.exp(s - new)
        fix: ph.var[ph.tile[ph.f32][BR, 1]] = ph.exp(top - new)
        total = total * fix + ph.rowsum(s)
        o = o * fix
        o += ph.dot(s, v)
        top = new
    O[r:+BR, :] = o / total
