"""Time of `script/demo` once everything is set up: seconds, median of whole runs. Prints one JSON object."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = 5


def run() -> float:
    began = time.perf_counter()
    subprocess.run(["bash", "script/demo"], cwd=ROOT, capture_output=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    run()  # sets up
    samples = [run() for _ in range(RUNS)]
    print(json.dumps({"benchmark": "demo", "unit": "s", "runs": RUNS, "median": round(statistics.median(samples), 3)}))
