"""`mode="cooperative"` beside the exact forms, on any Vulkan device: whether its bits are the arch's, and its rate.

For f16 operands with f32 and with f16 results: one product of small integers, which every mode must get right; one of
ordinary values, on which the exact form and the mode are compared code by code for each arch named; then rates, seconds
being the device's, median of the runs after the first. Prints one JSON object; exit status 1 where the integers are
wrong. Arguments: sizes (512, or 4096 on a GPU).
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
from pathlib import Path

import numpy as np
import phobos_sim as sim
from phobos_sim.gpu import cooperative
from phobos_sim.gpu.device import open_device

KERNELS = Path(__file__).with_name("kernels.py")
ARCHS = ("sm_86", "sm_90")
RUNS = 5
CHECKED = 256
KERNEL_NAMES = ("hmma_f32", "hmma_f32_512", "hmma_f16")


def launch(kernel: sim.Kernel, a: np.ndarray, b: np.ndarray, **options: object) -> tuple:
    """Codes of the product, and the launch."""
    size = len(a)
    c = np.zeros((size, size), {"f16": np.float16, "f32": np.float32}[kernel.program().tensors[2].element.name])
    wide = max(op.result.shape[1] for op in kernel.program().contractions())
    done = kernel.launch(
        (size // 64, size // wide), a, b, c, device=os.environ.get("PHOBOS_DEVICE", "vulkan"), **options
    )
    return c.view(f"u{c.itemsize}"), done


def correctness(kernel: sim.Kernel) -> dict[str, object]:
    rng = np.random.default_rng(0)
    whole = [rng.integers(-3, 4, (CHECKED, CHECKED)).astype(np.float16) for _ in "ab"]
    exact, _ = launch(kernel, *whole)
    found, done = launch(kernel, *whole, mode="cooperative")
    row: dict[str, object] = {"form": done.form, "wrong_on_integers": int(np.count_nonzero(exact != found))}
    ordinary = [rng.standard_normal((CHECKED, CHECKED)).astype(np.float16) for _ in "ab"]
    for arch in ARCHS:
        exact, _ = launch(kernel, *ordinary, arch=arch)
        found, done = launch(kernel, *ordinary, arch=arch, mode="cooperative")
        row[arch] = {
            "results": exact.size,
            "differing": int(np.count_nonzero(exact != found)),
            "labelled_exact": done.exact,
            "notes": done.notes[0],
        }
    return row


@functools.cache
def operands(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((size, size), np.float32).astype(np.float16) for _ in "ab"]


def rate(kernel: sim.Kernel, size: int, **options: object) -> dict[str, object]:
    launches = [launch(kernel, *operands(size), **options)[1] for _ in range(RUNS + 1)]
    seconds = statistics.median(done.seconds for done in launches[1:])
    return {
        "size": size,
        **options,
        "ran": launches[0].form,
        "first_s": round(launches[0].seconds, 4),
        "median_s": round(seconds, 6),
        "tmac_per_s": round(size**3 / seconds / 1e12, 3),
    }


def main() -> int:
    module = sim.load(KERNELS)
    device = open_device(os.environ.get("PHOBOS_DEVICE", "vulkan"))
    sizes = [int(text) for text in sys.argv[1:]] or [512 if device.target.is_cpu else 4096]
    table: dict[str, object] = {
        "benchmark": "cooperative",
        "device": device.name,
        "driver": f"{device.info.driver_name} {device.info.driver_info}",
        "offers": sorted(str(tuple(offer)) for offer in cooperative.offers(device)),
        "runs": RUNS,
    }
    wrong = 0
    for name in KERNEL_NAMES:
        kernel = module.kernels[name]
        found = correctness(kernel)
        wrong += int(str(found["wrong_on_integers"]))
        choices: list[dict[str, object]] = [{}, {"form": "registers"}, {"form": "shared"}, {"mode": "cooperative"}]
        choices += [{"mode": "cooperative", "form": form} for form in ("registers", "shared")]
        table[name] = {
            **found,
            "rates": [rate(kernel, size, **options) for size in sizes for options in choices],
        }
        print(json.dumps({name: table[name]}), file=sys.stderr, flush=True)
    print(json.dumps(table))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
