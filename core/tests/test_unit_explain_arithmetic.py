"""The other kinds of arithmetic that `diff` runs: whole contractions, against rationals, one element at a time."""

from __future__ import annotations

import gc

import numpy as np
import oracle_ladder
import pytest
import tensor_inputs
from phobos_sim import isa
from phobos_sim.explain import arithmetic
from phobos_sim.explain.arithmetic import Sum
from phobos_sim.formats import F32
from phobos_sim.reference import execute, single

ROWS = ["HMMA.16816.F32", "HMMA.16816.F16", "HMMA.16816.F32.BF16", "HMMA.1688.F32.TF32"]


def operands(row: isa.Instruction, kind: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([kind, *row.key.encode()])
    left, right, addend = row.operands
    assert left and right and addend
    x, y, z = (tensor_inputs.CLASSES[(kind + i * kind) % len(tensor_inputs.CLASSES)] for i in range(3))
    return (
        tensor_inputs.codes(rng, left, (3, k), x),
        tensor_inputs.codes(rng, right, (k, 4), y),
        tensor_inputs.codes(rng, addend, (3, 4), z),
    )


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", range(len(tensor_inputs.CLASSES)), ids=[c.name for c in tensor_inputs.CLASSES])
def test_contractions_in_two_parts_are_one_chain(name: str, kind: int) -> None:
    """`acc += dot` twice is one chain: sequential in f32, or exact, with one rounding at the end."""
    row = isa.lookup(name)
    assert row.shape is not None
    k = row.shape.k
    a, b, c = operands(row, kind, 2 * k)
    for way, start in ((arithmetic.ieee(), oracle_ladder.IEEE), (arithmetic.exact(), oracle_ladder.EXACT)):
        half = way.contract(row, a[:, :k], b[:k], c)
        assert half is not None
        found = way.contract(row, a[:, k:], b[k:], half)
        assert found is not None and found.dtype == c.dtype
        rules = {"NaN", "tf32 operand bits"}
        for i in range(3):
            for j in range(4):
                x, y = a[i].tolist(), b[:, j].tolist()
                expected = oracle_ladder.element(x, y, int(c[i, j]), row, isa.SM86, start, rules)
                assert f"{int(found[i, j]):08x}" == f"{expected:08x}", (way.name, i, j)


def test_fused_is_ffma() -> None:
    rng = np.random.default_rng(9)
    rows = [tensor_inputs.codes(rng, F32, (4000,), kind) for kind in tensor_inputs.CLASSES[:3]]
    a, b, c = (rng.permutation(np.concatenate(rows)) for _ in range(3))
    expected = single.ffma(a, b, c)
    found = arithmetic.to_codes(arithmetic.fused(*(arithmetic.values(x, F32) for x in (a, b, c))), F32)
    assert np.array_equal(found, expected)


def test_sums_that_need_rationals_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms that reach from 2^240 down to 2^-240 do not fit four doubles: the element is summed again, exactly."""
    again = []
    original = Sum._again
    monkeypatch.setattr(Sum, "_again", lambda self, index, fmt: again.append(index) or original(self, index, fmt))
    row = isa.lookup("HMMA.16816.F32.BF16")
    codes = [(e + 127) << 7 | 0x55 for e in (127, 75, 37, 0, -37, -75, -112)]
    a = np.array([codes[:1] + [codes[0] | 0x8000] + codes[1:] + [0] * 8], np.uint16)  # the largest one cancels
    b = np.array([[code & 0x7FFF] for code in a[0].tolist()], np.uint16)
    c = np.full((1, 1), 0x33800000, np.uint32)
    found = arithmetic.exact().contract(row, a, b, c)
    assert found is not None and again
    x, y = a[0].tolist(), b[:, 0].tolist()
    expected = oracle_ladder.element(x, y, 0x33800000, row, isa.SM86, oracle_ladder.EXACT, {"NaN"})
    assert int(found[0, 0]) == expected


@pytest.mark.parametrize("way", ["ieee", "exact"])
def test_zeros_have_the_sign_of_ieee_754(way: str) -> None:
    """-0 only where every term is -0; a sum that cancels is +0."""
    row = isa.lookup("HMMA.16816.F32")
    minus, plus, one = (
        np.full((1, 16), 0x8000, np.uint16),
        np.zeros((1, 16), np.uint16),
        np.full((16, 1), 0x3C00, np.uint16),
    )
    mixed = np.array([[0x8000] * 15 + [0]], np.uint16)
    seed = np.full((1, 1), 0x80000000, np.uint32)
    arithmetic_of = getattr(arithmetic, way)
    for left, addend, code in ((minus, seed, 0x80000000), (plus, seed, 0), (mixed, seed, 0), (minus, seed & 0, 0)):
        found = arithmetic_of().contract(row, left, one, addend)
        assert found is not None and int(found[0, 0]) == code
    cancels = np.array([[0xBC00] + [0] * 15], np.uint16)
    found = arithmetic_of().contract(row, cancels, one, np.full((1, 1), 0x3F800000, np.uint32))
    assert found is not None and int(found[0, 0]) == 0


def test_what_stays_as_it_is() -> None:
    """Only tensor cores for ieee; nothing of integers and f64 for exact."""
    one = np.ones((1, 1), np.uint32)
    assert arithmetic.ieee().contract(isa.lookup("FFMA"), one, one, one) is None
    assert arithmetic.exact().contract(isa.lookup("IMAD"), one, one, one) is None
    double = one.astype(np.uint64)
    assert arithmetic.exact().contract(isa.lookup("DFMA"), double, double, double) is None


def test_carried_state_goes_with_the_array() -> None:
    """An accumulator that is copied or dropped starts a chain of its own."""
    row = isa.lookup("HMMA.16816.F16")
    a, b, c = operands(row, 0, 16)
    way = arithmetic.ieee()
    first = way.contract(row, a, b, c)
    assert first is not None
    carried, fresh = way.contract(row, a, b, first), way.contract(row, a, b, first.copy())
    assert carried is not None and fresh is not None
    assert not np.array_equal(carried, fresh)
    store: arithmetic.ByIdentity[int] = arithmetic.ByIdentity()
    store.put(first, 1)
    assert (store.get(first), store.get(first.copy())) == (1, None)
    del first
    gc.collect()
    assert not store._facts


def test_the_reference_differs_from_both() -> None:
    """The comparison means something: on ordinary numbers neither kind is what the tensor core does."""
    row = isa.lookup("HMMA.16816.F32")
    rng = np.random.default_rng(10)
    a, b = ((rng.random(s) - 0.5).astype(np.float16).view(np.uint16) for s in ((16, 64), (64, 16)))
    seed = np.zeros((16, 16), np.uint32)
    here = execute.chain(row, a, b, seed)
    for way in (arithmetic.ieee(), arithmetic.exact()):
        there = way.contract(row, a, b, seed)
        assert there is not None and np.count_nonzero(there != here) > 64
