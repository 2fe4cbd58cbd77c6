"""Bits never depend on the regions (design.md 5.1): the same kernels under other plans, blocks and workgroups.

Each layout below changes who computes what: how a CTA is cut, how many units share a workgroup, what is held in
registers, how wide accesses and steps of k are. What a plan may not change is the order of any chain or reduction.

Seen to fail with: the partials of a lane joined too early; k steps of a chunk from the last one; rows of a slab counted
from the CTA's first row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kernel_cases import CONTROL, MEMORY, NUMBERS, PRODUCTS, ROWS, Case
from kernel_runs import constants_of

LAYOUTS: dict[str, dict[str, Any]] = {
    "small units, nothing held": {
        "tile.regions.WIDEST": 2,
        "gpu.registers.HELD": 4,
        "gpu.registers.HELD_BY_CONTRACTIONS": 4,
        "gpu.registers.GROUP_INVOCATIONS": 8,
        "gpu.registers_contract.LONE_ROW_OUTPUTS": 4,
        "gpu.shared_contract.BLOCKS": ((1, 1),),
        "gpu.shared_contract.FRAGMENTS": (),
        "gpu.mapping.GROUP_INVOCATIONS": 32,
    },
    "no cuts, full workgroups": {
        "tile.regions.memory_allows": lambda *_: False,
        "gpu.mapping.CPU_GROUPS": 1,
        "gpu.registers_contract.MIN_CHUNK": 16,
        "gpu.shared_contract.FRAGMENTS": ((8, 8), (4, 4), (2, 2), (1, 1)),
    },
    "wide accesses, operands as codes": {
        "tile.regions.WIDEST": 16,
        "gpu.registers.CHUNK": 16,
        "gpu.shared_contract.STAGES": (),
        "gpu.shared_contract.BLOCKS": ((2, 1), (1, 1)),
    },
}


SMALL = {
    "computed_operands": {"R": 8, "W": 8, "N": 8},
    "wide_scores": {"R": 8, "W": 8, "C": 20},
    "accumulate": {},
    "wide_swap": {"W": 160},
}


def _chosen() -> list[Case]:
    """One or two cases of each kind of work; small tiles where other layouts unroll what was a loop."""
    wanted = {
        "f32_fma": 2, "f32_fma_t": 1, "f16_fma": 1, "i8_blocks": 2, "computed_operands": 1, "wide_scores": 1,
        "accumulate": 2, "sums_256": 3, "sums_128": 2, "softmax": 1, "broadcasts": 2, "moves": 1, "swap": 3,
        "wide_swap": 4, "fibonacci": 3, "branches": 1, "jumps": 1, "add": 3, "in_place_exp": 2, "shifted": 2,
        "windows": 1, "sliding": 1, "overlapping": 1, "large": 1, "f32_ops": 1, "bools": 1,
    }  # fmt: skip
    seen: dict[str, int] = {}
    out = []
    for case in [*PRODUCTS, *ROWS, *CONTROL, *MEMORY, *NUMBERS]:
        seen[case.kernel] = seen.get(case.kernel, 0) + 1
        if seen[case.kernel] == wanted.get(case.kernel):
            out.append(replace(case, constants=SMALL.get(case.kernel, case.constants)))
    assert len(out) == len(wanted), set(wanted) - {case.kernel for case in out}
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", _chosen(), ids=lambda case: case.id)
def test_bits_do_not_depend_on_the_plan(case: Case, layout: str) -> None:
    with constants_of(LAYOUTS[layout]):
        case.agree(registers=False)
