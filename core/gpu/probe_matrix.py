"""The probe of matrix instructions: the forms of `chains` on fixed tiles of every class of hard operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..formats import Codes
from ..isa import ARCHS, SM86, Arch, Instruction
from . import execute_matrix, probe
from .probe_inputs import Source, few_bits, near_one, small, values
from .sm86 import chains

if TYPE_CHECKING:
    from .device import Device

#: Tiles of 16 x 8 outputs.
TILES = 16


def candidates(instruction: Instruction) -> tuple[str, ...]:
    """Forms of a matrix row, fastest first."""
    return chains.candidates(instruction)


def arch_of(instruction: Instruction) -> Arch:
    """sm_86, or for the rows that it does not have the newest architecture that has them."""
    return SM86 if SM86.has(instruction) else [arch for arch in ARCHS.values() if arch.has(instruction)][-1]


def operands(instruction: Instruction, tiles: int = TILES, seed: int = 0) -> list[Codes]:
    """a [t, m, k], b [t, k, n], c [t, m, n]: tiles of every class of values, half of them with sums that cancel."""
    assert instruction.shape is not None and instruction.operands[0] is not None
    m, n, k = instruction.shape.m, instruction.shape.n, instruction.shape.k
    source = Source(instruction.key, seed)
    found = []
    for fmt, shape in zip(instruction.operands, ((m, k), (k, n), (m, n))):
        assert fmt is not None
        size = shape[0] * shape[1]
        makers = (
            lambda f, s: values(source, f, s).astype(np.uint64),
            lambda f, s: near_one(source, f, s),
            lambda f, s: few_bits(source, f, s),
            lambda f, s: small(source, f, s),
        )
        words = np.stack([makers[t % 4 if fmt.is_float else 0](fmt, size) for t in range(tiles)])
        mask = np.uint64((1 << fmt.bits) - 1)
        found.append((words & mask).astype(f"uint{fmt.bits}").reshape(tiles, *shape))
    a, b, c = found
    # every second tile: the upper half of k repeats the lower with the other sign, so that sums cancel
    flip = np.array(instruction.operands[0].sign_bit, a.dtype) if instruction.operands[0].is_float else a.dtype.type(0)
    a[1::2, :, k // 2 :] = a[1::2, :, : k // 2] ^ flip
    b[1::2, k // 2 :] = b[1::2, : k // 2]
    return [a, b, c]


def exact_forms(device: Device, instruction: Instruction, expected: str) -> list[str]:
    """The forms whose results are the reference's; stops at the first."""
    a, b, c = operands(instruction)
    for form in candidates(instruction):
        result = execute_matrix.run(device, instruction, a, b, c, arch_of(instruction), form)
        if probe.digest(instruction, result) == expected:
            return [form]
    return []
