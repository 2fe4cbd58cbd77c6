"""Scoring a set of ten million results: results per second and peak memory, on the reference and on a Vulkan device.

Each run is a process of its own. Prints one JSON object. Arguments: number of results (10000000, if none).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from harness import about

RUN = """
import json, sys, time
from pathlib import Path
from phobos_sim.scoreboard.engines import Simulator
from phobos_sim.scoreboard.evaluate import Options, score
engine = Simulator(sys.argv[2])
began = time.perf_counter()
outcome = score([Path(sys.argv[1])], engine, Options(kill=sys.argv[3] == "kill"))
seconds = time.perf_counter() - began
# of this program alone: ru_maxrss would begin with what its parent had
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"engine": engine.name, "passed": outcome.passed, "results": outcome.results,
                  "seconds": round(seconds, 2),
                  "results_per_second": round(outcome.results / seconds), "kill": sys.argv[3] == "kill",
                  "peak_MiB": peak // 1024}))
"""


def make(folder: Path, results: int) -> Path:
    """A set of one FFMA row, computed by the reference."""
    from phobos_sim import isa
    from phobos_sim.recordings.classes import Stream, codes
    from phobos_sim.recordings.manifest import Manifest, Row
    from phobos_sim.recordings.writer import write
    from phobos_sim.reference import execute

    row = isa.lookup("FFMA")
    operands = [codes(Stream(1, "bench", i).bits((results,)), fmt) for i, fmt in enumerate(row.operands) if fmt]
    step = 1 << 18
    parts = [execute.apply(row, *(operand[i : i + step] for operand in operands)) for i in range(0, results, step)]
    arrays = {f"FFMA.in{i}": operand for i, operand in enumerate(operands)} | {"FFMA.out": np.concatenate(parts)}
    entry = Row("FFMA", "FFMA", "scalar", "fma.rn.f32", tuple(arrays)[:3], "FFMA.out", results, (("raw", results),))
    manifest = Manifest(
        file="many.npz",
        bytes=0,
        sha256="",
        arch="sm_86",
        card="none",
        driver="none",
        origin="derived",
        recorded_by="benchmark",
        recorded_on="2026-01-01",
        tool="bench_score",
        licence="MIT",
        provenance="computed by the reference",
        seed=1,
        arrays={},
        rows=(entry,),
    )
    return write(folder, manifest, arrays)


def main() -> None:
    results = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = make(Path(folder), results)
        runs = []
        for device, kill in (("reference", "no"), ("reference", "kill"), ("vulkan:llvmpipe", "no")):
            done = subprocess.run([sys.executable, "-c", RUN, str(path), device, kill], capture_output=True, text=True)
            runs.append(
                json.loads(done.stdout) if done.returncode == 0 else {"engine": device, "error": done.stderr[-300:]}
            )
        size = path.stat().st_size
    print(json.dumps({**about("score"), "results": results, "file_MB": round(size / 1e6, 1), "runs": runs}))


if __name__ == "__main__":
    main()
