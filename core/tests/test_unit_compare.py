"""`compare`: codes, kinds of difference, distance in ulp."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import phobos_sim as sim
import pytest
from phobos_sim.compare import compare
from phobos_sim.errors import UsageError


def test_kinds_and_distances() -> None:
    actual = np.array([0x3F800000, 0x80000000, 0x7FFFFFFF, 0x3F800000, 0x7FC00000, 0x7F7FFFFF], np.uint32)
    expected = np.array([0x3F800000, 0x00000000, 0x3F800000, 0x3F800003, 0x7FFFFFFF, 0x7F800000], np.uint32)
    outcome = compare(actual, expected)
    assert (outcome.total, outcome.equal) == (6, 1)
    assert outcome.counts == {"value": 2, "sign of zero": 1, "nan": 1, "nan payload": 1}
    assert outcome.first is not None and (outcome.first.index, outcome.first.kind) == (1, "sign of zero")
    assert outcome.worst is not None and (outcome.worst.index, outcome.worst.kind) == (2, "nan")
    assert not outcome and "5 of 6 codes differ" in str(outcome)


@pytest.mark.parametrize(
    ("actual", "expected", "fmt", "ulp"),
    [
        (0x3C00, 0x3C01, "f16", 1),
        (0x3F80, 0x3F82, "bf16", 2),
        (0x80000001, 0x00000001, "f32", 2),
        (0x7F7FFFFF, 0x7F800000, "f32", 1),
        (0x3F800000, 0x3F802000, "tf32", 1),
        (0xFFEFFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, "f64", 2 * 0x7FEFFFFFFFFFFFFF),
        (0x80, 0x7F, "s8", 255),
        (0x00, 0xFF, "u8", 255),
        (0x80000000, 0x7FFFFFFF, "s32", 2**32 - 1),
        (0x8000000000000000, 0x7FFFFFFFFFFFFFFF, "s64", 2**64 - 1),
    ],
)
def test_ulp(actual: int, expected: int, fmt: str, ulp: int) -> None:
    dtype = (
        sim.isa.lookup("FADD").operands[0].dtype
        if fmt in ("f32", "tf32")
        else f"uint{max(8, int(''.join(filter(str.isdigit, fmt))))}"
    )
    outcome = compare(np.array([actual], dtype), np.array([expected], dtype), fmt)
    assert outcome.first is not None and outcome.first.ulp == ulp


def test_typed_arrays_and_codes_mix() -> None:
    halves = np.array([1.0, -0.0], np.float16)
    assert compare(halves, np.array([0x3C00, 0x8000], np.uint16)).identical
    assert compare(np.array([1.0], ml_dtypes.bfloat16), np.array([0x3F80], np.uint16)).identical
    assert sim.compare(np.float32([1]), np.float32([1])).identical
    assert compare(np.array([-1], np.int8), np.array([0xFF], np.uint8)).identical


def test_wrong_use() -> None:
    for arguments, words in (
        ((np.zeros(2), np.zeros(3)), "shapes differ"),
        ((np.zeros(2, np.float32), np.zeros(2, np.float16)), "name the format"),
        ((np.zeros(2, np.uint16), np.zeros(2, np.uint16), "f32"), "16 bits, format f32 has 32"),
        ((np.zeros(2, np.uint16), np.zeros(2, np.uint16), "f17"), "unknown format 'f17'"),
    ):
        with pytest.raises(UsageError, match=words):
            compare(*arguments)


def test_parts_add_up() -> None:
    rng = np.random.default_rng(3)
    actual = rng.integers(0, 1 << 16, 4096, dtype=np.uint16)
    expected = np.where(rng.random(4096) < 0.1, actual ^ 0x8001, actual).astype(np.uint16)
    whole = compare(actual, expected)
    parts = compare(actual[:1000], expected[:1000]) + compare(actual[1000:], expected[1000:], offset=1000)
    assert (parts.total, parts.equal, parts.counts, parts.first) == (
        whole.total,
        whole.equal,
        whole.counts,
        whole.first,
    )
    assert parts.worst is not None and whole.worst is not None and parts.worst.ulp == whole.worst.ulp
