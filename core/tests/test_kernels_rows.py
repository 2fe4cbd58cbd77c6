"""Row reductions, broadcasting and whole-row kernels on every form, and the order of D.6 against a third opinion.

Seen to fail with: partials joined from the near end of the butterfly; 16 lanes for 32; the tail of a row folded in
again; rowmax by fmax; a row of one column given to several lanes.
"""

from __future__ import annotations

import numpy as np
import oracle_kernels as o
import pytest
from kernel_cases import ROWS, Case
from kernel_runs import arguments, module, reference, same


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.id)
def test_rows_agree(case: Case) -> None:
    case.agree()


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 16, 20, 24, 32, 48, 64, 96, 100, 128, 129])
def test_reductions_have_the_order_of_their_lanes(rows: int, threads: int) -> None:
    kernel, constants = getattr(module("rows"), f"sums_{threads}"), {"R": rows, "C": 37}
    args = arguments(kernel, {"M": rows, "N": 37}, constants=constants, kind="edge")
    expected = [args[0], o.rowsum(args[0], threads), o.rowmax(args[0], threads)]
    same(reference(kernel, (1,), args, constants=constants), expected, f"{rows} rows, {threads} threads")


def test_broadcasting_stretches_rows_and_columns() -> None:
    kernel = module("rows").broadcasts
    args = arguments(kernel, {"M": 8})
    x, g, s = args[:3]
    wide = np.broadcast_to(s, x.shape), np.broadcast_to(g, x.shape)
    expected = [*args[:3], o.mul(o.sub(x, wide[0]), wide[1]), o.add(o.mul(*wide), x)]
    same(reference(kernel, (1,), args), expected, "broadcasts")
    assert np.unique(expected[4]).size > 200
