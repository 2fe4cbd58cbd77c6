"""Contraction cores on a device against the reference: what lavapipe's tests and another driver's run share.

Run as a script it checks one device and prints a JSON object of what differs; SwiftShader is tested that way, in a
process of its own, because a Vulkan loader reads its list of drivers once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import numpy as np
import tensor_inputs as inputs
from phobos_sim import isa
from phobos_sim.formats import Codes
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import execute_matrix, probe
from phobos_sim.gpu.sm86 import chains
from phobos_sim.isa import ARCHS, SM86, Arch, Instruction
from phobos_sim.reference import execute as reference

HMMA = tuple(i for i in isa.INSTRUCTIONS if i.family == "tensor")


def by_reference(row: Instruction, a: Codes, b: Codes, c: Codes, arch: Arch) -> Codes:
    """Batches of tiles by the reference, chained where k is a multiple of the row's."""
    if row.shape is None:
        return np.stack([reference.chain(row, *tile) for tile in zip(a, b, c)])
    for k in range(0, a.shape[2], row.shape.k):
        c = reference.mma(row, a[:, :, k : k + row.shape.k], b[:, k : k + row.shape.k], c, arch)
    return c


def cases() -> Iterator[tuple[Instruction, Arch, str, bool, tuple[Codes, Codes, Codes]]]:
    """(row, arch, form, plain, operands): all of sm_86, the largest groups of sm_90, chains with integer forms."""
    for row in HMMA:
        for arch in (SM86, ARCHS["sm_90"]):
            assert row.shape is not None
            if not arch.has(row) or (arch is not SM86 and row.shape.k < 16):
                continue
            for form in ("float", "loops") if arch is SM86 else ("float",):
                yield row, arch, form, False, inputs.batch(row, 2, 2 * row.shape.k)
                yield row, arch, form, False, inputs.lined_up(row, arch, 2, row.shape.k)
            yield row, arch, "float", True, inputs.plain_batch(row, 2, 2 * row.shape.k)
            yield row, arch, "float", False, inputs.fullest_group(row, arch)
    for key in ("FFMA", "HFMA2", "HFMA2.BF16_V2"):
        row = isa.lookup(key)
        yield row, SM86, "verdict", False, inputs.batch(row, 2, 12)


def differences(device: devices.Device) -> dict[str, int]:
    """ "row arch form plain" -> codes that differ from the reference, over all cases."""
    found: dict[str, int] = {}
    for row, arch, form, plain, (a, b, c) in cases():
        target = probe.target_for(device, [row.key])
        chosen = chains.form_of(row, target) if form == "verdict" else form
        name = f"{row.key} {arch.name} {chosen}{' plain' if plain else ''}"
        actual = execute_matrix.run(device, row, a, b, c, arch, chosen, plain)
        found[name] = found.get(name, 0) + int(np.count_nonzero(actual != by_reference(row, a, b, c, arch)))
    return found


if __name__ == "__main__":
    opened = devices.open_device(sys.argv[1])
    print(json.dumps({"device": opened.name, "differ": differences(opened)}))
