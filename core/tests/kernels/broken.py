"""The second kernel of this module is wrong: it is in nobody's way until it is asked for."""

from __future__ import annotations

import phobos.lang as ph


@ph.kernel
@ph.launch(32)
def fine(A: ph.tensor[ph.f32][8], B: ph.tensor[ph.f32][8]):
    B[:] = A[:] + 1.0


@ph.kernel
@ph.launch(32)
def wrong(A: ph.tensor[ph.f32][8], B: ph.tensor[ph.f32][8]):
    B[:] = A[:] + C[:]
