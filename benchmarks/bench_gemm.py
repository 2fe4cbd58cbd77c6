"""Matrix products on every contraction path, against inexact arithmetic of the same shape.

Per path, in one run and interleaved: the default form; `mode="cooperative"` in the same form, which is the same shader
with one f32 multiply-add per k and the same blocking and loads; numpy's float32 product of the same size; the recorded
loop form (HMMA with f32 results); the reference backend at 256. Times are of whole launches, uploads and downloads
included. Arguments: sizes (512 and 1024), names of paths.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import phobos_sim as sim
from harness import about, grid_of, interleaved, ratio
from phobos_sim.gpu.device import open_device

KERNELS = Path(__file__).with_name("kernels.py")
DTYPES = {"f16": "float16", "f32": "float32", "s8": "int8", "s32": "int32"}
RUNS = 7
LOOPS, REFERENCE = "hmma_f32", 256


def operand(dtype: str, size: int, rng: np.random.Generator) -> np.ndarray:
    if dtype == "int8":
        return rng.integers(-128, 128, (size, size), np.int8)
    return rng.standard_normal((size, size), np.float32).astype(dtype)


def cases(kernel: sim.Kernel, size: int) -> dict[str, Callable[[], Any]]:
    """What is timed for one path at M = N = K = size."""
    rng = np.random.default_rng(0)
    dtypes = [DTYPES[t.element.name] for t in kernel.program().tensors]
    a, b = (operand(dtype, size, rng) for dtype in dtypes[:2])
    c = np.empty((size, size), dtypes[2])
    x, y = (v.astype(np.float32) for v in (a, b))
    device = os.environ.get("PHOBOS_DEVICE", "vulkan")

    grid = grid_of(kernel, size, size)

    def launch(**options: Any) -> float:
        return kernel.launch(grid, a, b, c, **{"device": device, **options}).seconds

    found: dict[str, Callable[[], Any]] = {"default": launch}
    if dtypes[0] != "int8":
        found["inexact"] = lambda: launch(mode="cooperative")
    found["numpy float32"] = lambda: x @ y
    if kernel.name == LOOPS:
        found["loops"] = lambda: launch(form="loops")
    if kernel.name == LOOPS and size == REFERENCE:
        found["reference"] = lambda: launch(device="reference")
    return found


def measure(kernel: sim.Kernel, size: int) -> dict[str, object]:
    chosen = cases(kernel, size)
    samples = interleaved(chosen, RUNS, threaded=("numpy float32",))
    row: dict[str, object] = {
        "kernel": kernel.name,
        "instruction": kernel.program().contractions()[0].instruction,
        "size": size,
    }
    row["cases"] = {name: taken.summary(size**3) for name, taken in samples.items()}
    row["default_over"] = {
        name: ratio(samples["default"], taken) for name, taken in samples.items() if name != "default"
    }
    return row


def main() -> int:
    module = sim.load(KERNELS)
    words = sys.argv[1:]
    sizes = [int(word) for word in words if word.isdecimal()] or [512, 1024]
    chosen = [kernel for name, kernel in module.kernels.items() if name in words] or list(module.kernels.values())
    table = about("gemm", open_device(os.environ.get("PHOBOS_DEVICE", "vulkan")))
    rows = []
    for size in sizes:
        for kernel in chosen:
            rows.append(measure(kernel, size))
            print(json.dumps(rows[-1]), file=sys.stderr)
    print(json.dumps({**table, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
