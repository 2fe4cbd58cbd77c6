"""Operators and conversions of every type in kernels, on hard operands, on every form.

Seen to fail with: i8 products clamped; `!=` true with NaN; an i64 argument cut to 32 bits.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import NUMBERS, Case
from kernel_runs import arguments, module, reference


@pytest.mark.parametrize("case", NUMBERS, ids=lambda case: case.id)
def test_numbers_agree(case: Case) -> None:
    case.agree()


def test_small_integers_wrap() -> None:
    kernel = module("numbers").i8_ops
    a, b, c = arguments(kernel, {"N": 64, "K": 11}, kind="plain")
    after = reference(kernel, (1,), [a, b, c])[2]
    with np.errstate(over="ignore"):
        for row, expected in enumerate([a + b, a - b, a * b]):
            assert (after[row] == expected[0]).all()
    assert (after[0] != a[0].astype(int) + b[0]).any()


def test_division_by_zero_is_defined() -> None:
    kernel = module("numbers").i32_ops
    a, b, c = arguments(kernel, {"N": 64, "K": 15}, kind="plain")
    b[0, :8] = 0
    a[0, 8], b[0, 8] = -(1 << 31), -1
    after = reference(kernel, (1,), [a, b, c])[2]
    assert (after[3, :8] == -1).all() and (after[4, :8] == -1).all()  # docs/adr/0008: measured
    assert (after[3, 8], after[4, 8]) == (-(1 << 31), 0)


def test_scalars_keep_their_width() -> None:
    kernel = module("numbers").scalars
    args = arguments(kernel, {}, 3e9, 0.5, -5e9, -7, 1 << 40, True)
    stored = reference(kernel, (1,), args)[2]
    far = 1 << 40
    assert stored.tolist() == [far, far * 3 - 7, 3_000_000_000, 0, far // 7 % 1000, -7, -5_000_000_000, 1]
