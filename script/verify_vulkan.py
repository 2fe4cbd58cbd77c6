#!/usr/bin/env python3
"""Holds every form of every instruction on one Vulkan device against the reference, on many more inputs than the probe.

    script/verify_vulkan.py [--device NAME] [--count N] [--mufu N] [--json FILE] [--markdown FILE] [KEY or family ...]

Needs this repository, numpy and the `vulkan` package; no installation. The device runs in this process, the reference
in as many others as there are cores; the probe is asked anew. Prints counts per row and form. Exit status 1 if a form
that the probe found exact, or an integer form, differs anywhere.

Inputs: elementwise rows take hard operand tuples (`gpu/probe_inputs.py`, another seed than the probe's); each MUFU
function takes `--mufu` codes that cover the upper bits of all 2^32 in equal steps (f16 ones: all 65,536); matrix rows
take tiles of every class of values, on sm_86 and sm_90.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def find_package() -> None:
    """Make `phobos_sim` importable from this checkout, as the folder core/ under that name."""
    try:
        import phobos_sim  # noqa: F401
    except ImportError:
        folder = tempfile.mkdtemp(prefix="phobos-sim-")
        os.symlink(ROOT / "core", Path(folder) / "phobos_sim")
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])


find_package()
os.environ.setdefault("PHOBOS_CACHE", "off")

import numpy as np  # noqa: E402
from phobos_sim import isa  # noqa: E402
from phobos_sim.gpu import execute_matrix, probe, probe_inputs, probe_matrix, probe_shader, sm86  # noqa: E402
from phobos_sim.gpu.device import Device, open_device  # noqa: E402
from phobos_sim.gpu.sm86.resolve import missing  # noqa: E402
from phobos_sim.isa import Instruction  # noqa: E402
from phobos_sim.reference import execute as reference  # noqa: E402

Arrays = list[np.ndarray]
SEED = 20_260
#: Elements of one task: a worker makes the inputs and the reference's results, the device runs every form on them.
CHUNK = 1 << 20
TILES = 128
ARCHS = ("sm_86", "sm_90")


@dataclass(frozen=True)
class Task:
    """Inputs of one row: element `first` and `count` more; of a matrix row, tiles for an architecture."""

    key: str
    first: int
    count: int
    arch: str = "sm_86"
    mufu: int = 0  # how many codes cover all 2^32


@dataclass
class Line:
    """What is reported of one form of one row."""

    key: str
    form: str
    arch: str
    used: bool
    inputs: int = 0
    differ: int = 0
    first: str = ""


def inputs(task: Task) -> Arrays:
    """The operands of a task."""
    row = isa.lookup(task.key)
    if row.is_matrix:
        return probe_matrix.operands(row, task.count, SEED)
    if task.mufu and row.operands[0] is not None and row.operands[0].bits == 16:
        return [np.arange(1 << 16, dtype=np.uint16)]
    if task.mufu:
        step = (1 << 32) // task.mufu
        upper = np.arange(task.first, task.first + task.count, dtype=np.uint64) * np.uint64(step)
        lower = probe_inputs.Source(task.key, SEED + task.first).words(task.count) % np.uint64(step)
        return [(upper + lower).astype(np.uint32)]
    return probe_inputs.hard(row, task.count, SEED + task.first)


def work(task: Task) -> tuple[Arrays, np.ndarray]:
    """Operands and the reference's results; runs in another process."""
    operands = inputs(task)
    row = isa.lookup(task.key)
    if row.is_matrix:
        return operands, reference.mma(row, *operands, isa.ARCHS[task.arch])
    return operands, reference.apply(row, *operands)


def tasks(row: Instruction, count: int, mufu: int) -> Iterator[Task]:
    if row.is_matrix:
        own = probe_matrix.arch_of(row).name
        for arch in ARCHS if own in ARCHS else (own,):
            if isa.ARCHS[arch].has(row):
                yield Task(row.key, 0, TILES, arch)
    elif row.family == "mufu" and row.operands[0] is not None and row.operands[0].bits == 16:
        yield Task(row.key, 0, 1 << 16, mufu=mufu)
    else:
        total = mufu if row.family == "mufu" else count
        for first in range(0, total, CHUNK):
            yield Task(row.key, first, min(CHUNK, total - first), mufu=mufu if row.family == "mufu" else 0)


def forms(row: Instruction, device: Device) -> list[str]:
    """The forms that the device has the features for."""
    if row.is_matrix:
        return list(probe_matrix.candidates(row))
    return [form for form in sm86.candidates(row) if not missing(row, form, device.target)]


def run(device: Device, row: Instruction, names: list[str], task: Task, operands: Arrays) -> Arrays:
    """The device's results, one array per form."""
    if row.is_matrix:
        arch = isa.ARCHS[task.arch]
        return [execute_matrix.run(device, row, *operands, arch, form) for form in names]
    return probe_shader.run(device, [(row, form) for form in names], lambda _: operands)


def compare(line: Line, actual: np.ndarray, expected: np.ndarray, operands: Arrays) -> None:
    """Adds one array of results to a line."""
    wrong = np.flatnonzero((actual != expected).ravel())
    line.inputs += expected.size
    if wrong.size and not line.differ:
        at = int(wrong[0])
        codes = (
            [f"{int(x.ravel()[at]):x}" for x in operands] if operands[0].shape == expected.shape else [f"output {at}"]
        )
        line.first = f"{' '.join(codes)} -> {int(actual.ravel()[at]):x}, not {int(expected.ravel()[at]):x}"
    line.differ += int(wrong.size)


def verify(device: Device, rows: list[Instruction], count: int, mufu: int) -> list[Line]:
    """All rows; the reference's processes stay ahead of the device."""
    verdict = probe.verdict(device, [row.key for row in rows])
    lines: dict[tuple[str, str, str], Line] = {}
    plan = [task for row in rows if forms(row, device) for task in tasks(row, count, mufu)]
    plan.sort(key=lambda task: -task.count)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        ahead = 2 * (os.cpu_count() or 1)
        futures: list[Future[tuple[Arrays, np.ndarray]]] = [pool.submit(work, task) for task in plan[:ahead]]
        for number, task in enumerate(plan):
            operands, expected = futures[number].result()
            futures[number] = Future()  # frees the arrays
            if number + ahead < len(plan):
                futures.append(pool.submit(work, plan[number + ahead]))
            row = isa.lookup(task.key)
            names = forms(row, device)
            for form, actual in zip(names, run(device, row, names, task, operands)):
                key = (row.key, form, task.arch)
                line = lines.setdefault(key, Line(*key, used=verdict[row.key] == form))
                compare(line, actual, expected, operands)
    order = {row.key: i for i, row in enumerate(rows)}
    return sorted(lines.values(), key=lambda line: order[line.key])


def markdown(report: dict[str, object], lines: list[Line]) -> str:
    """A table of every line, refused forms marked."""
    text = [
        f"Device: {report['device']}. Driver: {report['driver']}. {report['date']}, {report['seconds']} s.",
        f"{report['forms']} forms of {report['rows']} rows, {report['inputs']:,} results, {report['differ']} differing "
        f"in forms that are used or integer; {report['refused']} forms refused by the probe.",
        "",
        "| instruction | form | arch | results | differing | |",
        "| --- | --- | --- | ---: | ---: | --- |",
    ]
    for line in lines:
        note = "used" if line.used else "refused by the probe" if refused(line, lines) else ""
        text.append(f"| {line.key} | {line.form} | {line.arch} | {line.inputs:,} | {line.differ:,} | {note} |")
    return "\n".join(text) + "\n"


def refused(line: Line, lines: list[Line]) -> bool:
    """Whether the probe passed this form over: it comes before the one that is used."""
    names = [other.form for other in lines if (other.key, other.arch) == (line.key, line.arch)]
    used = next((other.form for other in lines if other.key == line.key and other.used), None)
    return line.form != "integer" and (used is None or names.index(line.form) < names.index(used))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--count", type=int, default=1 << 17, help="operand tuples per elementwise row")
    parser.add_argument("--mufu", type=int, default=1 << 24, help="operands per MUFU function, a power of two")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("keys", nargs="*", help="rows, or families; all if none")
    options = parser.parse_args()
    began = time.perf_counter()
    rows = [r for r in isa.INSTRUCTIONS if not options.keys or {r.key, r.family, *r.ptx} & set(options.keys)]
    device = open_device(options.device)
    lines = verify(device, rows, options.count, options.mufu)
    counted = [line for line in lines if not refused(line, lines)]
    report: dict[str, object] = {
        "device": device.name,
        "driver": f"{device.info.driver_name} {device.info.driver_info}",
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - began),
        "rows": len({line.key for line in lines}),
        "lacking": [row.key for row in rows if not forms(row, device)],
        "forms": len(lines),
        "inputs": sum(line.inputs for line in lines),
        "differ": sum(line.differ for line in counted),
        "refused": len(lines) - len(counted),
    }
    report["refused_but_equal"] = [f"{x.key} {x.form}" for x in lines if refused(x, lines) and not x.differ]
    print(json.dumps(report, indent=1))
    for line in lines:
        if line.differ:
            print(
                f"{line.key} {line.form} {line.arch}: {line.differ} of {line.inputs}; {line.first}"
                f"{' (refused by the probe)' if refused(line, lines) else ''}"
            )
    if options.json:
        options.json.write_text(json.dumps({**report, "lines": [asdict(line) for line in lines]}, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(report, lines))
    return 1 if report["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
