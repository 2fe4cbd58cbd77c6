"""A kernel with a key, and launches of it, for the test_kernels_autotune* files."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from kernel_runs import kernel_of
from phobos_sim.autotune import Tuning
from phobos_sim.lang.kernel import Kernel
from phobos_sim.launch import Launch

HEAD = "from __future__ import annotations\nimport phobos.lang as ph\n"

# With 256 threads a row of 64 is summed by 32 lanes where a tile has 2 or 4 rows, and by 16 where it has 16 (D.6).
TOTAL = """
@ph.kernel(key=["M"])
@ph.autotune(R=[4, 2, 16])
def total(X: ph.tensor[ph.f32][M, 64], Y: ph.tensor[ph.f32][M, 1]):
    r: ph.let = ph.ctx.block.x * R
    Y[r:+R, :] = ph.rowsum(X[r:+R, :])
"""


def aligned(text: str) -> str:
    return text.replace("def total", '@ph.aligned(M="R")\ndef total')


def kernel(text: str, name: str = "kernel.py") -> Kernel:
    return kernel_of(HEAD + textwrap.dedent(text) if name.endswith(".py") else textwrap.dedent(text), name)


def first_constant(bound: Any) -> int:
    return next(iter(bound.program.constants.values()))  # type: ignore[no-any-return]


def rows(m: int = 16, seed: int | None = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.zeros((m, 64), np.float32)
    if seed is not None:
        x[:] = np.random.default_rng(seed).standard_normal(x.shape)
    return x, np.full((m, 1), 7, np.float32)


def by_rows(meta: dict[str, int]) -> tuple[int]:
    return (meta["M"] // meta["R"],)


def total(x: np.ndarray, y: np.ndarray, text: str = TOTAL, grid: Any = by_rows, **options: Any) -> Launch:
    return kernel(text).launch(grid, x, y, **{"device": "reference", **options})


def verdicts(tuning: Tuning | None) -> dict[int, str]:
    """Verdict by the first constant."""
    assert tuning is not None
    return {next(iter(variant.constants.values())): variant.verdict for variant in tuning.variants}


def default_sums(x: np.ndarray) -> np.ndarray:
    y = np.zeros((len(x), 1), np.float32)
    total(x, y, constants={})
    return y


def source_of(launch: Launch) -> str:
    assert launch.tuning is not None
    return launch.tuning.source
