"""Slices, masks, views and copies, arrays that are read and written, on every form.

Seen to fail with: masks left out; a negative start compared as signed; a live view read when it was bound; units cut
where slices overlap; a scalar read after another invocation had replaced it.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import MEMORY, Case
from kernel_runs import agree, arguments, module, same
from phobos_sim.errors import LaunchError


@pytest.mark.parametrize("case", MEMORY, ids=lambda case: case.id)
@pytest.mark.filterwarnings("ignore")
def test_memory_agrees(case: Case) -> None:
    case.agree()


def test_a_view_is_live_and_a_copy_is_not() -> None:
    kernel = module("memory").views
    a, b, c = arguments(kernel, {})
    same(agree(kernel, (1,), [a, b, c]), [b, b, b * np.float32(2) + a], "views")


def test_what_leaves_a_tensor_reads_as_zero_and_is_not_stored() -> None:
    kernel = module("memory").shifted
    a, c = np.arange(1, 201, dtype=np.float32).reshape(10, 20), np.full((10, 20), -1, np.float32)
    expected = c.copy()
    for row in range(4):
        for column in range(16):
            if row - 2 >= 0 and column - 5 >= 0:
                inside = row - 3 >= 0 and column - 3 >= 0
                expected[row - 2, column - 5] = a[row - 3, column - 3] if inside else 0
    same(agree(kernel, (1, 1), [a, c, -2, -5]), [a, expected], "shifted")


@pytest.mark.parametrize("name, by", [("windows", 1), ("sliding", 0), ("trail", 0)])
def test_turns_of_a_loop_see_what_earlier_ones_stored(name: str, by: int) -> None:
    kernel = getattr(module("memory"), name)
    args = arguments(kernel, {"N": 300}, 9, constants={"W": 128})
    x = args[0].copy() if name != "trail" else args[1].copy()
    for i in range(9):
        source = args[0] if name == "trail" else x[i : i + 128]
        scale, plus = {"windows": (0.5, 0), "sliding": (0.5, 1), "trail": (1, i)}[name]
        value = source * np.float32(scale)
        x[i + by : i + by + 128] = value + np.float32(plus) if name != "windows" else value
    expected = [x] if name != "trail" else [args[0], x]
    same(agree(kernel, (1,), args, constants={"W": 128}, registers=False)[: len(expected)], expected, name)


def test_arrays_may_be_one_but_not_overlap() -> None:
    kernel = module("memory").add
    whole = np.ones((11, 20), np.float32)
    with pytest.raises(LaunchError, match="overlap"):
        kernel.launch((3, 2), whole[:10], whole[1:], whole[:10], device="reference")
    assert (whole == 1).all()
    kernel.launch((3, 2), whole[:10], whole[:10], np.zeros((10, 20), np.float32), device="reference")
