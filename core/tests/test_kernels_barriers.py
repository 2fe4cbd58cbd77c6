"""Grid barriers: cut into dispatches on the device, coroutines on the reference, the same bits.

Seen to fail with: hidden tensors of one CTA for all; operands taken for plain by what lay there before the launch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runs import agree, arguments, constants_of, facts, module, same

barriers = module("barriers")
F = np.float32


def _arguments(name: str, *scalars: Any, groups: int = 5, **options: Any) -> list[Any]:
    args = arguments(getattr(barriers, name), {"G": groups, "M": 16 * groups}, *scalars, **options)
    args[-1 if not scalars else -1 - len(scalars)] = np.zeros(2, np.int32)
    return args


def test_values_live_across_barriers() -> None:
    x, y, bar = _arguments("neighbours")
    expected = np.roll(x * F(2), -1, axis=0) + x * x[:, 3:4]
    same(agree(barriers.neighbours, (5,), [x, y, bar], registers=False), [x, expected, bar], "neighbours")


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_barriers_in_a_loop(turns: int) -> None:
    x, y, bar, n = _arguments("waves", turns)
    state, total = x.copy(), np.zeros_like(x)
    for i in range(turns):
        step = np.roll(state, 1, axis=0) * F(0.5) + state * F(0.25)
        state, total = step + F(i), total + step
    same(agree(barriers.waves, (5,), [x, y, bar, n], registers=False), [state, total + F(turns), bar], "waves")


def test_one_array_on_both_sides_of_a_barrier() -> None:
    x, _, bar = _arguments("neighbours")
    agree(barriers.neighbours, (5,), [x, x, bar], registers=False)


def test_a_long_loop_between_barriers_is_cut() -> None:
    args = _arguments("long_between", 150)
    with facts(loop_budget=40), constants_of({"gpu.parts.HIDDEN_BYTES": 100}):
        agree(barriers.long_between, (5,), args, registers=False)


@pytest.mark.parametrize("kind", ["plain", "edge", "hard"])
def test_products_of_what_this_launch_wrote(kind: str) -> None:
    a, s, c, bar = _arguments("products", kind=kind)
    s[:] = 0
    agree(barriers.products, (5,), [a, s, c, bar], registers=False)
