"""What the benchmarks share: interleaved runs, two clocks, and a note of where they ran.

Cases are run in turn, one run of each a round, so that whatever else a machine does meets all of them alike; a ratio is
the median over the rounds of the two times of one round.

Wall time is what a user waits. Where other work shares the machine it says little, so every case also has a *free*
time: the process's CPU time, what ran on all cores (dispatches of a CPU device; numpy's matrix product) divided by
their number. It is the wall time of a quiet machine as far as the work spreads evenly. Rates and ratios are by free
times.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phobos_sim.gpu.dispatch import Queue

ROOT = Path(__file__).resolve().parents[1]
CORES = os.cpu_count() or 1


@dataclass
class Samples:
    """Seconds of one case, one entry a round. device: what the launch itself reports, from submission to completion."""

    wall: list[float] = field(default_factory=list)
    free: list[float] = field(default_factory=list)
    device: list[float] = field(default_factory=list)

    def summary(self, work: float = 0.0) -> dict[str, float | int]:
        """Milliseconds, and the rate of `work` units (in 1e9 a second) by the median free time."""
        free = statistics.median(self.free)
        found: dict[str, float | int] = {
            "runs": len(self.wall),
            "free_ms": _ms(free),
            "free_best_ms": _ms(min(self.free)),
            "wall_ms": _ms(statistics.median(self.wall)),
            "wall_best_ms": _ms(min(self.wall)),
        }
        if self.device:
            found["device_wall_ms"] = _ms(statistics.median(self.device))
        if work:
            found["giga_per_s"] = _round(work / max(free, 1e-9) / 1e9)
        return found


def ratio(x: Samples, y: Samples) -> float:
    """Time of x over time of y: the median over the rounds, by free times."""
    return _round(statistics.median(a / max(b, 1e-9) for a, b in zip(x.free, y.free)))


class Clock:
    """CPU time of this process; within dispatches counted by itself, since it spreads over the cores."""

    def __init__(self) -> None:
        self.spread = 0.0
        original = Queue._go

        def timed(queue: Queue, timeout: float) -> float:
            started = time.process_time()
            try:
                return original(queue, timeout)
            finally:
                self.spread += time.process_time() - started

        Queue._go = timed  # type: ignore[method-assign]

    def read(self) -> tuple[float, float]:
        """CPU seconds, and those of them within dispatches."""
        return time.process_time(), self.spread


def interleaved(
    cases: Mapping[str, Callable[[], Any]], runs: int, threaded: Collection[str] = ()
) -> dict[str, Samples]:
    """Runs every case once uncounted, then `runs` rounds. A case that returns a number gives its device seconds.

    threaded: cases that keep all cores busy without a dispatch.
    """
    found, clock = {name: Samples() for name in cases}, Clock()
    for case in cases.values():
        case()
    for _ in range(runs):
        for name, case in cases.items():
            wall, (cpu, spread) = time.perf_counter(), clock.read()
            seconds = case()
            after, spread_after = clock.read()
            busy = after - cpu
            apart = busy if name in threaded else spread_after - spread
            found[name].free.append(busy - apart + apart / CORES)
            found[name].wall.append(time.perf_counter() - wall)
            if isinstance(seconds, float):
                found[name].device.append(seconds)
    return found


def grid_of(kernel: Any, rows: int, columns: int) -> tuple[int, int]:
    """The grid of a product kernel: CTAs of its contraction's tile."""
    tall, wide = kernel.program().contractions()[0].result.shape
    return rows // tall, columns // wide


def about(name: str, device: Any = None) -> dict[str, Any]:
    """The head of a benchmark's JSON: what ran, where, when, and how busy the machine was."""
    import numpy

    head: dict[str, Any] = {
        "benchmark": name,
        "command": " ".join(["script/bench", name, *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "cores": CORES,
        "cpu": _cpu(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
    }
    if device is not None:
        head["device"] = device.name
        head["driver"] = f"{device.info.driver_name} {device.info.driver_info}"
    return head


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _ms(seconds: float) -> float:
    return _round(1e3 * seconds)


def _round(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")
