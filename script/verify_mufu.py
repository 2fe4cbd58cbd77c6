#!/usr/bin/env python3
"""Check the MUFU model against a real card, over all 2^32 inputs of each function.

    python3 script/verify_mufu.py [--minutes 3] [--functions ex2,lg2] [--json FILE] [--control]

Needs an NVIDIA card, its driver and nvcc; numpy on this side. For each of EX2, LG2, RCP, RSQ, SQRT, TANH, SIN, COS:

1. on the card, the instruction against the integer model of verify_mufu.cu, whose tables are core/isa/mufu_tables.json:
   2^32 inputs, the number of mismatches, and a checksum of the instruction's results;
2. on this machine's cores, the instruction's results against the product's numpy twin (core/reference/mufu.py through
   the instruction table), chunk by chunk of 2^20 inputs spread over all 2^32, until the time is used up;
3. all 65,536 inputs of ex2.approx.f16 and tanh.approx.f16 against the twin.

--control changes one coefficient of each table by one: the run must then report mismatches. Exit status 1 on any
mismatch (with --control: on none).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
try:
    import phobos_sim
except ImportError:  # from a bare checkout: core/ is the package
    shim = Path(tempfile.mkdtemp())
    (shim / "phobos_sim").symlink_to(ROOT / "core")
    sys.path.insert(0, str(shim))
    import phobos_sim  # noqa: F401

from phobos_sim import isa  # noqa: E402
from phobos_sim.recordings.recorder.driver import Card  # noqa: E402
from phobos_sim.recordings.recorder.scalar_ptx import body_for, kernel  # noqa: E402

FUNCTIONS = {
    "ex2": "MUFU.EX2",
    "lg2": "MUFU.LG2",
    "rcp": "MUFU.RCP",
    "rsq": "MUFU.RSQ",
    "sqrt": "MUFU.SQRT",
    "tanh": "MUFU.TANH",
    "sin": "sin.approx.ftz.f32",
    "cos": "cos.approx.ftz.f32",
}
CHUNK = 1 << 20
SUB = 1 << 16  # what one twin call takes: fits the cache
SPAN = 1 << 28  # inputs of one launch


def main() -> int:
    options = arguments()
    names = [name for name in options.functions.split(",") if name]
    deadline = time.monotonic() + 60 * options.minutes
    report: dict[str, dict[str, object]] = {name: {} for name in names}
    with multiprocessing.Pool(os.cpu_count()) as pool, Card() as card:
        pool.map(_warm, range(os.cpu_count() or 1))
        ptx = compile_ptx(card.capability, options.control)
        print(f"{card.name}, sm_{card.capability}, driver {card.driver_version}")
        bad = 0
        for name in names:
            report[name] = on_card(card, ptx, name)
            bad += int(report[name]["mismatches"])  # type: ignore[call-overload]
        if options.control:
            missed = [name for name in names if not report[name]["mismatches"]]
            print(f"control: {len(names) - len(missed)} of {len(names)} functions reported the changed coefficient")
            return 1 if missed else 0
        for row in ("MUFU.EX2.F16", "MUFU.TANH.F16"):
            report[row] = half(card, row)
            bad += int(report[row]["mismatches"])  # type: ignore[call-overload]
        bad += against_twin(card, ptx, names, pool, deadline, report)
        outcome = {"card": card.name, "driver": card.driver_version, "functions": report, "mismatches": bad}
    if options.json:
        Path(options.json).write_text(json.dumps(outcome, indent=1) + "\n")
    print(f"mismatches in all: {bad}")
    return 1 if bad else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="time for the comparison with the numpy twin")
    parser.add_argument("--functions", default=",".join(FUNCTIONS), help="comma-separated subset")
    parser.add_argument("--json", help="write the counts to this file")
    parser.add_argument("--control", action="store_true", help="a run that must find mismatches")
    return parser.parse_args()


def compile_ptx(capability: int, control: bool) -> str:
    """verify_mufu.cu with this repository's tables, as PTX."""
    tables = json.loads((ROOT / "core/isa/mufu_tables.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for name, rows in tables.items():
            flat = [value for row in rows for value in row]
            if control:
                flat[3 * (len(flat) // 6)] += 1
            lines.append(f"#define TABLE_{name} {{{','.join(map(str, flat))}}}")
        Path(folder, "mufu_header.h").write_text("\n".join(lines) + "\n")
        target = Path(folder, "verify.ptx")
        subprocess.run(
            [
                "nvcc",
                "-ptx",
                f"-arch=compute_{capability}",
                "-I",
                folder,
                "-o",
                str(target),
                str(ROOT / "script/verify_mufu.cu"),
            ],
            check=True,
        )
        return target.read_text()


def on_card(card: Card, ptx: str, name: str) -> dict[str, object]:
    """Instruction against the model on the card, all 2^32 inputs."""
    function = card.kernel(ptx, f"check_{name}")
    counts = card.upload(np.zeros(3, np.uint64))
    for base in range(0, 1 << 32, SPAN):
        function.launch((SPAN // 256, 1), 256, ctypes.c_uint32(base), counts.address)
    mismatches, first, checksum = (int(value) for value in counts.download(np.zeros(3, np.uint64)))
    counts.free()
    example = f", first {first >> 32:08x} -> {first & 0xFFFFFFFF:08x}" if mismatches else ""
    print(
        f"{name:5} on the card: 4294967296 inputs, {mismatches} mismatches{example}, checksum {checksum:016x}",
        flush=True,
    )
    return {
        "inputs": 1 << 32,
        "mismatches": mismatches,
        "checksum": f"{checksum:016x}",
        "twin_inputs": 0,
        "twin_mismatches": 0,
    }


def half(card: Card, key: str) -> dict[str, object]:
    """All inputs of a 16-bit row against the twin."""
    row = isa.lookup(key)
    found = body_for((row.key, *row.ptx), card.capability)
    assert found is not None
    inputs = np.arange(1 << 16).astype(np.uint16)
    source, out = card.upload(inputs), card.upload(np.zeros_like(inputs))
    function = card.kernel(kernel("body", found[1], card.capability), "body")
    empty = ctypes.c_uint64()
    function.launch(
        (len(inputs) // 128, 1), 128, ctypes.c_uint32(len(inputs)), source.address, empty, empty, out.address
    )
    mismatches = int((out.download(inputs) != twin(key, inputs)).sum())
    print(f"{found[0]}: 65536 inputs, {mismatches} mismatches with the numpy twin", flush=True)
    return {"inputs": 1 << 16, "mismatches": mismatches}


def twin(key: str, codes: np.ndarray) -> np.ndarray:
    """The product's numpy twin of a row."""
    from phobos_sim.reference import execute

    return execute.apply(isa.lookup(key), codes)


def _warm(_: int) -> None:
    for key in FUNCTIONS.values():
        twin(key, np.zeros(1, np.uint32))


def _compare(name: str, base: int, memory: str) -> tuple[str, int, str]:
    """One chunk of results, in shared memory, against the twin."""
    shared = SharedMemory(name=memory)
    results = np.ndarray(CHUNK, np.uint32, shared.buf)
    bad, example = 0, ""
    for start in range(0, CHUNK, SUB):
        codes = np.arange(base + start, base + start + SUB, dtype=np.uint64).astype(np.uint32)
        expected = twin(FUNCTIONS[name], codes)
        wrong = np.flatnonzero(expected != results[start : start + SUB])
        if len(wrong) and not example:
            at = wrong[0]
            example = f"{codes[at]:08x}: card {results[start + at]:08x}, twin {expected[at]:08x}"
        bad += len(wrong)
    del results
    shared.close()
    return name, bad, example


def against_twin(card: Card, ptx: str, names: list[str], pool, deadline: float, report) -> int:  # type: ignore[no-untyped-def]
    """Chunks in an order that spreads over all inputs from the start, until the deadline; all functions in turn."""
    functions = {name: card.kernel(ptx, f"fetch_{name}") for name in names}
    buffer = card.upload(np.zeros(CHUNK, np.uint32))
    slots = [SharedMemory(create=True, size=4 * CHUNK) for _ in range(2 * (os.cpu_count() or 1))]
    free, waiting = list(slots), deque()
    total = 0

    def collect() -> int:
        slot, answer = waiting.popleft()
        name, bad, example = answer.get()
        free.append(slot)
        report[name]["twin_inputs"] += CHUNK
        report[name]["twin_mismatches"] += bad
        if example:
            print(f"{name}: {example}", flush=True)
        return bad

    # bit-reversed chunk numbers: any prefix of them covers every exponent
    for base, name in ((int(f"{i:012b}"[::-1], 2) * CHUNK, name) for i in range(1 << 12) for name in names):
        if time.monotonic() > deadline:
            break
        if not free:
            total += collect()
        slot = free.pop()
        functions[name].launch((CHUNK // 256, 1), 256, ctypes.c_uint32(base), buffer.address)
        np.ndarray(CHUNK, np.uint32, slot.buf)[:] = buffer.download(np.zeros(CHUNK, np.uint32))
        waiting.append((slot, pool.apply_async(_compare, (name, base, slot.name))))
    while waiting:
        total += collect()
    for slot in slots:
        slot.close()
        slot.unlink()
    for name in names:
        print(
            f"{name:5} numpy twin: {report[name]['twin_inputs']} inputs, {report[name]['twin_mismatches']} mismatches",
            flush=True,
        )
    return total


if __name__ == "__main__":
    sys.exit(main())
