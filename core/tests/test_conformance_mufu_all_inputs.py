"""MUFU in the reference against an H200 over all 2^32 operands: the hardware's checksum of each function.

The checksums were computed on the card: the sum over all operands i, modulo 2^64, of
g(h * 9e3779b97f4a7c15 ^ i * c2b2ae3d27d4eb4f) with g(v) = (v ^ v >> 29) * bf58476d1ce4e5b9 and h the result's code.
"""

from __future__ import annotations

import numpy as np
import pytest
from phobos_sim import isa
from phobos_sim.formats import Codes
from phobos_sim.reference import execute

HARDWARE = {
    "ex2.approx.ftz.f32": 0x278436F6F4A46DED,
    "rcp.approx.ftz.f32": 0x92D2ACE336FC8E8E,
    "rsqrt.approx.ftz.f32": 0xA4E0980C540D1380,
    "sqrt.approx.ftz.f32": 0x718DA2DCB6519213,
    "lg2.approx.ftz.f32": 0xD89445D9F7FE3810,
    "tanh.approx.f32": 0x349FFEEE5E513B1A,
    "sin.approx.ftz.f32": 0x924F8B1ABF431A5E,
    "cos.approx.ftz.f32": 0xB1A2D6FFFF5F1D58,
}
BLOCK = 1 << 14


def term(codes: Codes, results: Codes) -> int:
    """One block's share of the checksum."""
    v = results.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    v ^= codes.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    v = (v ^ (v >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return int(v.sum(dtype=np.uint64))


@pytest.mark.slow
@pytest.mark.parametrize("name", HARDWARE)
def test_all_operands(name: str) -> None:
    row = isa.lookup(name)
    total = 0
    for start in range(0, 1 << 32, BLOCK):
        codes = np.arange(start, start + BLOCK, dtype=np.uint64).astype(np.uint32)
        total = (total + term(codes, execute.apply(row, codes))) % (1 << 64)
    assert f"{total:016x}" == f"{HARDWARE[name]:016x}"


def test_the_checksum_sees_one_wrong_code() -> None:
    codes = np.arange(BLOCK, dtype=np.uint32)
    wrong = codes.copy()
    wrong[77] ^= 1
    assert term(codes, codes) != term(codes, wrong)
