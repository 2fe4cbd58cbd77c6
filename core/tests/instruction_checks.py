"""Instructions on a device against the reference and the recordings: what several tests and another driver's run share.

Run as a script it checks one device and prints a JSON object of what differs; SwiftShader is tested that way, in a
process of its own, because a Vulkan loader reads its list of drivers once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from phobos_sim import isa
from phobos_sim.formats import Codes, dtype_of
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import execute, probe, probe_shader, sm86
from phobos_sim.gpu.probe_inputs import hard
from phobos_sim.gpu.sm86.resolve import missing
from phobos_sim.isa import Instruction
from phobos_sim.reference import execute as reference

ROWS = tuple(i for i in isa.INSTRUCTIONS if not i.is_matrix)


def recorded(path: Path) -> Iterator[tuple[str, Instruction, list[Codes], Codes]]:
    """(PTX name, row, operand codes, recorded result) of each operation of a scalar recording."""
    with np.load(path, allow_pickle=False) as data:
        for name in sorted({key.rsplit(".", 1)[0] for key in data.files}):
            row = isa.lookup(name)
            assert row.result is not None
            operands = [data[f"{name}.in{i}"].astype(dtype_of(fmt)) for i, fmt in enumerate(row.operands) if fmt]
            yield name, row, operands, data[f"{name}.out"].astype(dtype_of(row.result))


def recorded_differences(device: devices.Device, path: Path, instructions: str | None) -> dict[str, int]:
    """Operation -> results that differ from the recording."""
    found = {}
    for name, row, operands, expected in recorded(path):
        actual = execute.execute(row, operands, isa.SM86, device, instructions)
        found[name] = int(np.count_nonzero(actual != expected))
    return found


def rows_on(device: devices.Device) -> list[Instruction]:
    """The rows for which a device has the features."""
    return [row for row in ROWS if not missing(row, "integer", device.target)]


def forms_on(device: devices.Device) -> list[tuple[Instruction, str]]:
    """Every exact form of every row, sequences in the forms that the probe chose for their parts."""
    rows = rows_on(device)
    probe.verdict(device, [row.key for row in rows])  # fills in device.target, by which sequences choose
    exact = probe.exact_forms(device, [row.key for row in rows])
    return [(row, form) for row in rows for form in exact[row.key]]


def differences(device: devices.Device, count: int, seed: int) -> dict[str, int]:
    """ "row form" -> codes that differ from the reference on hard operands; only what differs."""
    units = forms_on(device)
    operands = {row.key: hard(row, count, seed) for row, _ in units}
    results = probe_shader.run(device, units, lambda row: operands[row.key])
    expected = {row.key: reference.apply(row, *operands[row.key]) for row, _ in units}
    wrong = {
        f"{row.key} {form}": int(np.count_nonzero(result != expected[row.key]))
        for (row, form), result in zip(units, results)
    }
    return {name: number for name, number in wrong.items() if number}


def main() -> None:
    """Check one device: its name, then the scalar recording's path or "-"."""
    name, path = sys.argv[1:]
    device = devices.open_device(name)
    report: dict[str, object] = {
        "device": device.name,
        "rows": len(rows_on(device)),
        "forms": len(forms_on(device)),
        "differ": differences(device, 1024, seed=11),
        "none": [key for key, form in probe.verdict(device).items() if form == "none"],
        "lacking": [row.key for row in ROWS if sm86.candidates(row) and missing(row, "integer", device.target)],
    }
    if path != "-":
        for instructions in ("integer", None):
            found = recorded_differences(device, Path(path), instructions)
            report[f"recorded {instructions}"] = found
    print(json.dumps(report))


if __name__ == "__main__":
    main()
