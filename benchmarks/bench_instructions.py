"""Elements per second of each elementwise instruction as a one-operation kernel: the exact form chosen, and integers.

Free time (harness.py) of one dispatch over 2^22 elements, median of seven, the compiling run left out.
The inputs are ordinary values: random bits would time the driver's subnormals. Prints one JSON object. Arguments: names
of instructions (all of the table, if none).
"""

from __future__ import annotations

import json
import os
import statistics
import sys

import numpy as np
from harness import CORES, Clock, about
from phobos_sim import isa
from phobos_sim.formats import Format, dtype_of
from phobos_sim.gpu import execute, probe
from phobos_sim.gpu.device import Device, open_device
from phobos_sim.gpu.sm86 import mufu
from phobos_sim.isa import Instruction

ELEMENTS = 1 << 22
RUNS = 7


def ordinary(fmt: Format, rng: np.random.Generator) -> np.ndarray:
    """Codes of values around one, or of small integers, as the shader's words."""
    if fmt.is_float:
        # exponents 2^-4 to 2^3 and random fractions: nothing overflows, nothing is subnormal
        fraction = rng.integers(0, 1 << fmt.fraction_bits, ELEMENTS, np.uint64)
        exponent = rng.integers(fmt.bias - 4, fmt.bias + 4, ELEMENTS, np.uint64)
        codes = (exponent << np.uint64(fmt.fraction_bits)) | fraction
        codes <<= np.uint64(fmt.ignored_bits)
    else:
        codes = rng.integers(0, 1 << min(7, fmt.bits), ELEMENTS, np.uint64)
    return execute._words(codes.astype(dtype_of(fmt)), fmt, ELEMENTS)


CLOCK = Clock()


def free_seconds(device: Device, batch: list) -> list[float]:
    """Free times (harness.py) of each run after the first, which compiles."""
    device.run(batch)
    found = []
    for _ in range(RUNS):
        before = CLOCK.read()[1]
        seconds = device.run(batch)
        found.append((CLOCK.read()[1] - before) / CORES if device.target.is_cpu else seconds)
    return found


def rate(device: Device, instruction: Instruction, instructions: str | None) -> tuple[float, str]:
    """Elements per second in millions, and the form that ran."""
    target = probe.target_for(device, (instruction.key,), instructions)
    sample = [np.zeros(1, dtype_of(fmt or isa.lookup("FADD").operands[0])) for fmt in instruction.operands]
    formats = execute.operand_formats(instruction, sample)
    width = execute.lanes(target, formats, ELEMENTS)
    module = execute.shader(instruction, formats, target, tuple(sorted(target.forms.items())), width)
    rng = np.random.default_rng(0)
    buffers = [device.buffer(ordinary(fmt, rng)) for fmt in formats[:-1]]
    buffers.append(device.buffer(ELEMENTS * (8 if formats[-1].bits == 64 else 4)))
    buffers.append(device.buffer(mufu.table_words()))
    try:
        pipeline = device.pipeline(module, len(buffers), 1)
        groups = (ELEMENTS // (execute.LOCAL_SIZE * width), 1, 1)
        samples = free_seconds(device, [(pipeline, buffers, [0], groups)])
    finally:
        for buffer in buffers:
            buffer.close()
    return round(ELEMENTS / statistics.median(samples) / 1e6, 1), target.forms[instruction.key]


def main() -> int:
    device = open_device(os.environ.get("PHOBOS_DEVICE") or "vulkan")
    rows = []
    wanted = [isa.lookup(name) for name in sys.argv[1:]] or [i for i in isa.INSTRUCTIONS if not i.is_matrix]
    for instruction in wanted:
        row: dict[str, object] = {"instruction": instruction.key}
        for name, choice in (("best", None), ("integer", "integer")):
            try:
                row[f"{name}_mega_elements_per_s"], form = rate(device, instruction, choice)
            except Exception as error:  # a form that this device lacks is a result too
                row[f"{name}_error"] = str(error).splitlines()[0]
                continue
            if choice is None:
                row["form"] = form
        rows.append(row)
    print(json.dumps({**about("instructions", device), "elements": ELEMENTS, "runs": RUNS, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
