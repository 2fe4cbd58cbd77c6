"""Tutorial 03 (f16 operands, f32 accumulator) at several sizes, on each form and on the reference.

GMAC/s is M * N * K over the seconds of a whole `kernel.launch`, uploads and downloads included, and over those of the
device alone; first launch left out, median of five. Prints one JSON object. Arguments: sizes (512 if none).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import phobos_sim as sim
from harness import about

ROOT = Path(__file__).resolve().parents[1]
RUNS = 5


def measure(size: int, device: str | None, form: str | None, runs: int) -> dict[str, object]:
    """Seconds of each launch after the first, and the rate of the median."""
    kernel = sim.load(ROOT / "examples" / "matmul.py").matmul
    rng = np.random.default_rng(0)
    a, b = ((rng.random((size, size), np.float32) - 0.5).astype(np.float16) for _ in "ab")
    c = np.empty((size, size), np.float16)
    samples, on_device = [], []
    for _ in range(runs + 1):
        began = time.perf_counter()
        launch = kernel.launch((size // 64, size // 64), a, b, c, device=device, form=form)
        samples.append(time.perf_counter() - began)
        on_device.append(launch.seconds)
    median = statistics.median(samples[1:])
    return {
        "size": size,
        "device": launch.device,
        "form": launch.form,
        "runs": runs,
        "first_s": round(samples[0], 4),
        "median_s": round(median, 4),
        "gmac_per_s": round(size**3 / median / 1e9, 3),
        "device_gmac_per_s": round(size**3 / statistics.median(on_device[1:]) / 1e9, 3),
        "sha256": launch.sha256["C"],
    }


def main() -> int:
    sizes = [int(text) for text in sys.argv[1:]] or [512]
    rows = []
    for size in sizes:
        rows.append(measure(size, None, None, RUNS))
        if rows[-1]["device"] != "reference":
            rows.append(measure(size, None, "loops", RUNS))
            rows.append(measure(size, "reference", None, RUNS))
        if len({row["sha256"] for row in rows if row["size"] == size}) != 1:
            print(f"results differ at {size}", file=sys.stderr)
            return 1
    print(json.dumps({**about("tutorial03"), "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
