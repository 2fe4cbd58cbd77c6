"""Whether the cost of a multiply-add depends on the size, and how much memory a launch takes.

HMMA with f32 results, default form, M = N = K. Each size runs in a process of its own: free time (harness.py)
in nanoseconds per thousand multiply-adds, best of nine launches, of the dispatches alone and of whole launches;
and the peak of the process's memory over what it had before the first launch,
from which the arrays are taken off once for numpy's and once for the device's copy. Arguments: sizes (256 to 4096).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from harness import CORES, Clock, about
from phobos_sim.gpu.device import open_device

KERNELS = Path(__file__).with_name("kernels.py")
RUNS = 9
DEVICE = os.environ.get("PHOBOS_DEVICE", "vulkan")


def status(field: str) -> int:
    """Bytes that /proc/self/status gives."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def one(size: int) -> dict[str, object]:
    import phobos_sim as sim

    kernel = sim.load(KERNELS).kernels["hmma_f32"]
    rng = np.random.default_rng(0)
    small = [np.zeros((64, 64), np.float16) for _ in "abc"]
    kernel.launch((1, 1), *small, device=DEVICE)  # the driver, its compiler, caches
    a, b = (rng.standard_normal((size, size), np.float32).astype(np.float16) for _ in "ab")
    c = np.ones((size, size), np.float16)  # zeros would take their pages only when the launch reads them
    arrays = a.nbytes + b.nbytes + c.nbytes
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = status("VmRSS")
    clock, whole, dispatches = Clock(), [], []
    for _ in range(RUNS):
        cpu, spread = clock.read()
        kernel.launch((size // 64, size // 64), a, b, c, device=DEVICE)
        after, spread_after = clock.read()
        dispatches.append((spread_after - spread) / CORES)
        whole.append(after - cpu - (spread_after - spread) + dispatches[-1])
    grown = status("VmHWM") - before
    return {
        "size": size,
        "runs": RUNS,
        "dispatch_ns_per_kmac": round(min(dispatches) * 1e12 / size**3, 2),
        "launch_ns_per_kmac": round(min(whole) * 1e12 / size**3, 2),
        "arrays_MiB": round(arrays / 2**20, 1),
        "beyond_arrays_and_their_copies_MiB": round((grown - arrays) / 2**20, 1),
    }


def main() -> int:
    if "--one" in sys.argv:
        print(json.dumps(one(int(sys.argv[-1]))))
        return 0
    sizes = [int(word) for word in sys.argv[1:]] or [256, 512, 1024, 2048, 4096]
    rows = []
    for size in sizes:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(size)], capture_output=True, text=True, check=True
        )
        rows.append(json.loads(done.stdout))
    table: dict[str, object] = {**about("flat", open_device(DEVICE)), "rows": rows}
    for what in ("dispatch", "launch"):
        costs = [float(row[f"{what}_ns_per_kmac"]) for row in rows]
        table[f"{what}_largest_over_smallest"] = round(max(costs) / min(costs), 3)
    print(json.dumps(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
