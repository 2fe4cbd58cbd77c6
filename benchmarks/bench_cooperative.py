"""`mode="cooperative"` beside the exact forms, on any Vulkan device: whether its bits are the arch's, and its rate.

For f16 operands with f32 and with f16 results: one product of small integers, which every mode must get right; one of
ordinary values, on which the exact form and the mode are compared code by code for each arch named; then rates, from
the device's seconds for dispatches back to back, and for exact forms sampled rows and columns beside the numpy
reference. Prints one JSON object; exit status 1 where the integers or a sample are wrong. Arguments: sizes (512,
or 4096 on a GPU).
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import phobos_sim as sim
from harness import grid_of
from phobos_sim.gpu import cooperative
from phobos_sim.gpu.device import Device, open_device
from phobos_sim.gpu.dispatch import Item

KERNELS = Path(__file__).with_name("kernels.py")
DEVICE = os.environ.get("PHOBOS_DEVICE", "vulkan")
ARCHS = ("sm_86", "sm_90")
RUNS = 5
BUSY_SECONDS, MOST = 0.2, 64
CHECKED = 256
SAMPLED = (64, 512)  # rows and columns
KERNEL_NAMES = ("hmma_f32", "hmma_f32_512", "hmma_f16")


def launch(kernel: sim.Kernel, a: np.ndarray, b: np.ndarray, **options: object) -> tuple:
    """Codes of the product, and the launch."""
    shape = len(a), b.shape[1]
    c = np.zeros(shape, {"f16": np.float16, "f32": np.float32}[kernel.program().tensors[2].element.name])
    done = kernel.launch(grid_of(kernel, *shape), a, b, c, **{"device": DEVICE, **options})
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


@functools.cache
def expected(kernel: sim.Kernel, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns, and the reference's codes there."""
    (a, b), rng = operands(size), np.random.default_rng(2)
    rows, columns = (np.sort(rng.permutation(size)[:count]) for count in SAMPLED)
    codes, _ = launch(kernel, a[rows], np.ascontiguousarray(b[:, columns]), device="reference")
    return rows, columns, codes


@contextmanager
def steady(device: Device) -> Iterator[list[float]]:
    """Every dispatch within is repeated back to back, `RUNS` times for `BUSY_SECONDS`; gives seconds of one each time.

    An idle GPU lowers its clocks, and between launches, which copy arrays, it is idle. These kernels may be repeated:
    they do not read what they write.
    """
    run, seconds = device.run, list[float]()

    def repeated(batch: Sequence[Item]) -> float:
        first = run(batch)
        count = max(1, min(MOST, round(BUSY_SECONDS / min(first, run(batch)))))
        run(list(batch) * count)
        seconds.extend(run(list(batch) * count) / count for _ in range(RUNS))
        return first

    device.run = repeated  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        del device.run


def rate(kernel: sim.Kernel, size: int, **options: object) -> dict[str, object]:
    device = open_device(DEVICE)
    with steady(device) as measured:
        codes, done = launch(kernel, *operands(size), **options)
    seconds = statistics.median(measured)
    rows, columns, sample = expected(kernel, size)
    differing = int(np.count_nonzero(codes[np.ix_(rows, columns)] != sample))
    return {
        "size": size,
        **options,
        "ran": done.form,
        "median_s": round(seconds, 6),
        "tmac_per_s": round(size**3 / seconds / 1e12, 3),
    } | ({} if "mode" in options else {"sampled": sample.size, "sampled_differing": differing})


def main() -> int:
    module = sim.load(os.path.relpath(KERNELS))
    device = open_device(DEVICE)
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
        rates = [rate(kernel, size, **options) for size in sizes for options in choices]
        table[name] = {**found, "rates": rates}
        wrong += sum(int(str(row.get("sampled_differing", 0))) for row in rates)
        print(json.dumps({name: table[name]}), file=sys.stderr, flush=True)
    print(json.dumps(table))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
