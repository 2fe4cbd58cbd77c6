"""Peers on the same cores, where they are installed: exact models of tensor cores that run on a CPU.

* mmaemu (PyPI): FP8 products as an H100 computes them. Its formats are not ours, so what compares is the rate of exact
  tensor-core arithmetic: M = N = K = 256, unsplit.
* MMA-Sim (PyPI: mmasim, or the folder that PHOBOS_MMA_SIM names): one Ampere m16n8k16 instruction at a time.

Each runs in the interpreter that PHOBOS_PEERS_PYTHON names (this one, without), beside our product of the same size in
this one. Rates are by CPU time over all cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from harness import about

PYTHON = os.environ.get("PHOBOS_PEERS_PYTHON", sys.executable)
SIZE = 256

MMAEMU = """
import json, os, statistics, time, warnings
warnings.simplefilter("ignore")
import mmaemu, torch
n = {size}
a, b = (torch.randn(n, n).to(torch.float8_e4m3fn) for _ in "ab")
one, taken = torch.tensor(1.0), []
for _ in range(6):
    began = time.process_time()
    mmaemu.scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.float32, splitk=1)
    taken.append(time.process_time() - began)
seconds = statistics.median(taken[1:]) / os.cpu_count()
print(json.dumps({{"version": mmaemu.__version__, "ms": 1e3 * seconds, "gmac_per_s": n**3 / seconds / 1e9}}))
"""

MMA_SIM = """
import json, os, statistics, sys, time
sys.path[:0] = sys.argv[1:]
import torch
from mmasim.nv_ptx.sim import MMA
multiply = MMA("Ampere", "m16n8k16.f32.f16.f16.f32")
a, b, c = torch.randn(16, 16).half(), torch.randn(16, 8).half(), torch.zeros(16, 8)
taken = []
for _ in range(9):
    began = time.process_time()
    multiply(a, b, c)
    taken.append(time.process_time() - began)
seconds = statistics.median(taken) / os.cpu_count()
print(json.dumps({"ms": 1e3 * seconds, "gmac_per_s": 16 * 8 * 16 / seconds / 1e9}))
"""

OURS = """
import json, os, statistics, time
import numpy as np
import phobos_sim as sim
n = {size}
kernel = sim.load({kernels!r}).kernels["hmma_f32"]
a, b = (np.random.default_rng(0).standard_normal((n, n), np.float32).astype(np.float16) for _ in "ab")
c, taken = np.empty((n, n), np.float16), []
for _ in range(12):
    began = time.process_time()
    kernel.launch((n // 64, n // 64), a, b, c)
    taken.append(time.process_time() - began)
seconds = statistics.median(taken[1:]) / os.cpu_count()
print(json.dumps({{"ms": 1e3 * seconds, "gmac_per_s": n**3 / seconds / 1e9}}))
"""


def run(python: str, code: str, *arguments: str) -> dict[str, object] | str:
    """What a program in an interpreter prints, or why it did not run."""
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        return f"not run: {done.stderr.strip().splitlines()[-1]}"
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in found.items()}


def main() -> int:
    kernels = str(Path(__file__).with_name("kernels.py"))
    checkout = os.environ.get("PHOBOS_MMA_SIM", "")
    table = {
        **about("peers"),
        "size": SIZE,
        "phobos-sim": run(sys.executable, OURS.format(size=SIZE, kernels=kernels)),
        "mmaemu": run(PYTHON, MMAEMU.format(size=SIZE)),
        "MMA-Sim": run(PYTHON, MMA_SIM, *([checkout] if checkout else [])),
    }
    print(json.dumps(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
