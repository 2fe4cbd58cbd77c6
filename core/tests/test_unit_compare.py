"""`sim.compare`: counts by class, ulp distances, first and worst difference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import phobos_sim as sim
import pytest
from phobos_sim.errors import UsageError


def codes(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def test_equal_arrays() -> None:
    outcome = sim.compare(np.float32([1, np.nan, -0.0]), np.float32([1, np.nan, -0.0]))
    assert outcome and outcome.identical and (outcome.total, outcome.equal) == (3, 3)
    assert outcome.first is None and outcome.worst is None and not outcome.counts
    assert str(outcome) == "3 of 3 codes equal"


@pytest.mark.parametrize(
    ("actual", "expected", "kind", "ulp"),
    [
        (0x3F800000, 0x3F800001, "value", 1), (0x00000001, 0x80000001, "value", 2),
        (0x7F7FFFFF, 0x7F800000, "value", 1), (0x00000000, 0x80000000, "sign of zero", 0),
        (0x7FC00000, 0x7FFFFFFF, "nan payload", None),
        (0x7FFFFFFF, 0xFFFFFFFF, "nan payload", None), (0x7F800001, 0x7F800000, "nan", None),
        (0x3F800000, 0x7FFFFFFF, "nan", None), (0x7F800000, 0xFF800000, "value", 2 * 0x7F800000),
    ],
)  # fmt: skip
def test_one_difference(actual: int, expected: int, kind: str, ulp: int | None) -> None:
    for a, b in ((actual, expected), (expected, actual)):
        outcome = sim.compare(codes(5, a), codes(5, b), "f32")
        assert not outcome and outcome.equal == 1 and outcome.counts == {kind: 1}
        first = outcome.first
        assert first is not None and first == outcome.worst
        assert (first.index, first.actual, first.expected, first.kind, first.ulp) == (1, a, b, kind, ulp)


def test_first_and_worst() -> None:
    actual = np.float32([1, 2, 3, 4]).view(np.uint32) + codes(0, 1, 7, 2)
    outcome = sim.compare(actual.view(np.float32), np.float32([1, 2, 3, 4]))
    assert outcome.counts == {"value": 3}
    assert outcome.first is not None and outcome.worst is not None
    assert (outcome.first.index, outcome.worst.index, outcome.worst.ulp) == (1, 2, 7)
    assert "first at 1: 40000001, expected 40000000 (value, 1 ulp)" in str(outcome)
    nan = sim.compare(codes(0x7F800000, 0x7FFFFFFF), codes(0xFF800000, 0x3F800000), "f32")
    assert nan.worst is not None and nan.worst.index == 1, "a NaN counts as farther than any value"


def test_formats_by_dtype_and_by_name() -> None:
    bf16 = np.array([1, 2], ml_dtypes.bfloat16)
    assert sim.compare(bf16, bf16.view(np.uint16) + np.uint16([0, 1])).counts == {"value": 1}
    assert sim.compare(np.int32([-1, 5]), np.int32([1, 5])).worst.ulp == 2
    assert sim.compare(np.int64([-(2**63)]), np.int64([2**63 - 1])).worst.ulp == 2**64 - 1
    assert sim.compare(np.uint16([0x3F80]), np.uint16([0x3F81]), "bf16").worst.ulp == 1
    assert sim.compare(np.array([True]), np.array([False])).counts == {"value": 1}


@pytest.mark.parametrize(
    ("actual", "expected", "fmt", "message"),
    [
        (np.zeros(2, np.float32), np.zeros(3, np.float32), None, r"shapes differ: \(2,\) and \(3,\)"),
        (np.zeros(2, np.float32), np.zeros(2, np.float16), None, "cannot compare float32 with float16"),
        (np.zeros(2, np.uint16), np.zeros(2, np.uint16), "f32", "uint16 has 16 bits, format f32 has 32"),
        (np.zeros(2, np.uint16), np.zeros(2, np.uint16), "f8", "unknown format 'f8'"),
        (np.zeros(2, np.complex64), np.zeros(2, np.complex64), None, "cannot compare"),
    ],
)
def test_what_cannot_be_compared(actual: np.ndarray, expected: np.ndarray, fmt: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sim.compare(actual, expected, fmt)
