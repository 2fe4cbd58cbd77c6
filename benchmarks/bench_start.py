"""How long a new process takes: `phobos-sim check` on tutorial 03 cold and warm, imports, the demo.

Cold: no cache of ours, of the driver or of an earlier run (PHOBOS_CACHE and MESA_SHADER_CACHE_DIR are empty folders).
Warm: the caches that the run before left. From each run torch's own import is taken off, as `-X importtime` gives it
for that run. Seconds of wall time and of CPU time, medians. `check` needs an interpreter with torch and this package:
PHOBOS_TORCH_PYTHON, else this one; without torch it is left out. Shared cases: PHOBOS_SHARED, else ../shared.
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import ROOT, about

RUNS = 5
IMPORTS = ("numpy", "phobos_sim", "phobos_sim; phobos_sim.load", "phobos.lang")
PYTHON = os.environ.get("PHOBOS_TORCH_PYTHON", sys.executable)


def timed(command: list[str], **environment: str) -> tuple[float, float, str]:
    """Wall and CPU seconds of a process, and its stderr."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall, cpu, done.stderr


def middle(samples: list[float]) -> float:
    return round(statistics.median(samples), 3)


def imports() -> dict[str, dict[str, float]]:
    found = {}
    for name in IMPORTS:
        runs = [timed([sys.executable, "-P", "-c", f"import {name}"]) for _ in range(RUNS + 4)]
        found[name] = {"wall_s": middle([r[0] for r in runs]), "cpu_s": middle([r[1] for r in runs])}
    bare = [timed([sys.executable, "-P", "-c", ""]) for _ in range(RUNS + 4)]
    found["nothing"] = {"wall_s": middle([r[0] for r in bare]), "cpu_s": middle([r[1] for r in bare])}
    return found


def torch_import() -> tuple[float, float]:
    """CPU seconds of a process that imports numpy, and of one that imports torch after it."""
    return tuple(  # type: ignore[return-value]
        statistics.median(timed([PYTHON, "-P", "-c", code])[1] for _ in range(RUNS))
        for code in ("import numpy", "import numpy, torch")
    )


def check(case: Path) -> dict[str, dict[str, float]]:
    command = [PYTHON, "-P", "-X", "importtime", "-m", "phobos_sim", "check", str(case)]
    without, with_torch = torch_import()
    taken: dict[str, list[tuple[float, float]]] = {"cold": [], "warm": []}
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            caches = {"PHOBOS_CACHE": f"{folder}/phobos", "MESA_SHADER_CACHE_DIR": f"{folder}/mesa"}
            for name in ("cold", "warm"):
                wall, cpu, said = timed(command, **caches)
                found = re.search(r"\|\s+(\d+) \| +torch$", said, re.MULTILINE)
                assert found, "torch was not imported"
                taken[name].append((wall - int(found[1]) / 1e6, cpu - (with_torch - without)))
    return {
        name: {"wall_s": middle([wall for wall, _ in runs]), "cpu_s": middle([cpu for _, cpu in runs])}
        for name, runs in taken.items()
    }


def demo() -> dict[str, float]:
    """script/demo once everything is set up: its Python program."""
    runs = [timed([sys.executable, "-P", "script/demo.py"]) for _ in range(RUNS)]
    return {"wall_s": middle([r[0] for r in runs]), "cpu_s": middle([r[1] for r in runs])}


def main() -> int:
    table: dict[str, object] = {**about("start"), "runs": RUNS, "imports": imports(), "demo": demo()}
    case = Path(os.environ.get("PHOBOS_SHARED", ROOT.parent / "shared")) / "cases" / "t03_matmul.py"
    has_torch = subprocess.run([PYTHON, "-c", "import torch, phobos_sim"], capture_output=True, check=False)
    if has_torch.returncode or not case.exists():
        table["check"] = f"not run: {'no torch in ' + PYTHON if has_torch.returncode else f'{case} is not there'}"
    else:
        table["check"] = check(case)
    print(json.dumps(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
