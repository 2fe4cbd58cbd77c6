"""The main job, shown: a Phobos matrix multiplication gives the bits of an SM86 card, with no NVIDIA GPU.

`script/demo` sets up and runs this. It reads examples/matmul.py (never importing it), multiplies 512 x 512 f16 matrices
of numpy's making on the device that a launch takes by default and on the numpy reference, and compares bit for bit.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import phobos_sim as sim

SIZE = 512


def grid(meta: dict[str, int]) -> tuple[int, int]:
    return meta["M"] // meta["BM"], meta["N"] // meta["BN"]


def main() -> int:
    kernel = sim.load(Path(__file__).parents[1] / "examples" / "matmul.py").matmul
    rng = np.random.default_rng(0)
    a = (rng.random((SIZE, SIZE), dtype=np.float32) - 0.5).astype(np.float16)
    b = (rng.random((SIZE, SIZE), dtype=np.float32) - 0.5).astype(np.float16)

    c = np.empty((SIZE, SIZE), np.float16)
    began = time.perf_counter()
    launch = kernel.launch(grid, a, b, c)
    seconds = time.perf_counter() - began

    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    difference = np.abs(c.astype(np.float32) - want.astype(np.float32))
    close = bool(np.all(difference <= 1e-2))  # the tutorial's allclose: atol 1e-2, rtol 0
    print(f"max |numpy - phobos| = {difference.max():.3g}, allclose (atol 1e-2): {close}")
    form = f", form {launch.form}" if launch.form else ""
    print(f"device      {launch.device}{form}, {seconds:.2f} s with compiling")
    for path in launch.paths:
        print(f"dot         {path.instruction} at {Path(path.place).name} ({path.reason})")
    print(f"sha256(C)   {launch.sha256['C']}")
    unlike = int(np.count_nonzero(c.view(np.uint16) != want.view(np.uint16)))
    print(f"numpy's float32 product, rounded to f16, has other bits in {unlike} of {c.size} elements")

    if launch.device == "reference":
        asked = os.environ.get("PHOBOS_DEVICE") == "reference"
        why = (
            "PHOBOS_DEVICE asks for it"
            if asked
            else "no usable Vulkan device; `phobos-sim doctor` says what is missing"
        )
        print(f"this ran on the numpy reference: {why}")
        return 0 if close else 1
    on_reference = np.empty_like(c)
    kernel.launch(grid, a, b, on_reference, device="reference")
    differing = int(np.count_nonzero(c.view(np.uint16) != on_reference.view(np.uint16)))
    agree = "agree in every bit" if differing == 0 else f"DIFFER in {differing} elements"
    print(f"reference and {launch.device} {agree} ({c.size} f16 elements)")
    return 0 if close and differing == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
