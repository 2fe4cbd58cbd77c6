"""Python time of a cached launch: what the calling thread is busy with, device work on other threads left out.

Small grids of the examples, launched again and again with the same arrays. Milliseconds of thread CPU time, median of
51 launches after three that are not counted; a driver that runs its work in the calling thread would count too.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import phobos_sim as sim
from harness import ROOT, about
from phobos_sim.gpu.device import open_device

RUNS = 51
DEVICE = os.environ.get("PHOBOS_DEVICE", "vulkan")


def example(name: str) -> sim.Kernel:
    return sim.load(ROOT / "examples" / f"{name}.py").kernels[name]


def cases() -> dict[str, Callable[[], Any]]:
    half, single = (np.ones((64, 64), dtype) for dtype in (np.float16, np.float32))
    row = np.ones((4, 1024), np.float32)
    small, out = np.ones((32, 64), np.float16), np.ones((32, 64), np.float16)
    matmul, softmax = example("matmul"), example("softmax")
    attention, saxpy = example("flash_attention_f16"), example("vector_add")
    flat = np.ones(1024, np.float32)
    return {
        "matmul": lambda: matmul.launch((1, 1), half, half, half.copy(), device=DEVICE),
        "softmax": lambda: softmax.launch((1,), row, row.copy(), device=DEVICE),
        "flash_attention_f16": lambda: attention.launch((1,), small, small, small, out, 0.125, device=DEVICE),
        "vector_add": lambda: saxpy.launch((1,), flat, flat, flat.copy(), device=DEVICE),
        "execute FADD": lambda: sim.execute("FADD", single, single, device=DEVICE),
    }


def measure(case: Callable[[], Any]) -> float:
    for _ in range(3):
        case()
    taken = []
    for _ in range(RUNS):
        started = time.thread_time()
        case()
        taken.append(time.thread_time() - started)
    return round(1e3 * statistics.median(taken), 3)


def main() -> int:
    rows = {name: measure(case) for name, case in cases().items()}
    print(json.dumps({**about("launch", open_device(DEVICE)), "runs": RUNS, "thread_ms": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
