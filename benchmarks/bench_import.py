"""Time of `import phobos_sim`, beside numpy's: seconds, median of runs in new processes. Prints one JSON object."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

RUNS = 9


def seconds(statement: str) -> float:
    """Median time of one statement, measured inside a new interpreter each time."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    samples = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(RUNS)
    ]
    return round(statistics.median(samples), 4)


if __name__ == "__main__":
    result = {
        "benchmark": "import",
        "unit": "s",
        "runs": RUNS,
        "import phobos_sim": seconds("import phobos_sim"),
        "import phobos_sim; phobos_sim.load": seconds("import phobos_sim; phobos_sim.load"),
        "import phobos.lang": seconds("import phobos.lang"),
        "import numpy": seconds("import numpy"),
    }
    print(json.dumps(result))
