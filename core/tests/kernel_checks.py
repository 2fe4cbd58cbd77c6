"""Runs kernel cases on one device in a process of its own and prints a JSON report: for drivers that are chosen by the
environment (SwiftShader, lavapipe with other vectors).

    python kernel_checks.py DEVICE [FILE.KERNEL ...]

The report says per case "equal", what is unavailable, or what went wrong.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

from kernel_cases import ALL, Case
from phobos_sim.errors import UnavailableError
from phobos_sim.gpu import device as devices


def outcome(case: Case, device: str) -> str:
    try:
        case.agree(device=device, registers=False)
    except UnavailableError as error:
        return f"unavailable: {error}"
    except Exception as error:  # every case is reported
        return f"{type(error).__name__}: {error}"
    return "equal"


def main(device: str, *names: str) -> None:
    warnings.simplefilter("ignore")
    info = devices.open_device(device)
    report = {"device": info.name, "lanes": info.target.subgroup_size, "cases": {}, "seconds": {}}
    for case in ALL:
        name = f"{case.file}.{case.kernel}"
        if not names or name in names or case.file in names:
            began = time.perf_counter()
            report["cases"][f"{case.file}.{case.id}"] = outcome(case, device)
            report["seconds"][f"{case.file}.{case.id}"] = round(time.perf_counter() - began, 2)
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
