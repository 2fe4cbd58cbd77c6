"""Matrix products on every contraction path: GMAC/s of the default form, median of seven launches, the first left out.

Seconds are the device's, from submission to completion. Prints one JSON object. Arguments: sizes (512, if none).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path

import numpy as np
import phobos_sim as sim

KERNELS = Path(__file__).with_name("kernels.py")
RUNS = 7


def operand(dtype: str, size: int, rng: np.random.Generator) -> np.ndarray:
    if dtype == "int8":
        return rng.integers(-128, 128, (size, size), np.int8)
    return (rng.random((size, size), np.float32) - 0.5).astype(dtype)


def measure(kernel: sim.Kernel, size: int) -> dict[str, object]:
    """The rate of one kernel at M = N = K = size."""
    rng = np.random.default_rng(0)
    dtypes = [
        {"f16": "float16", "f32": "float32", "s8": "int8", "s32": "int32"}[t.element.name]
        for t in kernel.program().tensors
    ]
    a, b = (operand(dtype, size, rng) for dtype in dtypes[:2])
    c = np.empty((size, size), dtypes[2])
    launches = [kernel.launch((size // 64, size // 64), a, b, c) for _ in range(RUNS + 1)]
    seconds = [launch.seconds for launch in launches]
    median = statistics.median(seconds[1:])
    return {
        "kernel": kernel.name,
        "instruction": launches[0].paths[0].instruction,
        "size": size,
        "device": launches[0].device,
        "form": launches[0].form,
        "first_s": round(seconds[0], 4),
        "median_s": round(median, 4),
        "best_s": round(min(seconds[1:]), 4),
        "gmac_per_s": round(size**3 / median / 1e9, 3),
    }


def main() -> int:
    module = sim.load(KERNELS)
    sizes = [int(text) for text in sys.argv[1:]] or [512]
    rows = [measure(kernel, size) for size in sizes for kernel in module.kernels.values()]
    print(json.dumps({"benchmark": "gemm", "cores": os.cpu_count(), "runs": RUNS, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
