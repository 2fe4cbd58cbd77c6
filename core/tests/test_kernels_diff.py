"""Kernels on two sides: shares and distances by other means, the first line at which they part, worst dots, files."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import helpers
import kernel_runs as runs
import numpy as np
import oracle_ladder
import phobos_sim as sim
import pytest
from phobos_sim import isa
from phobos_sim.errors import KernelError, LoopLimitError, UsageError
from phobos_sim.explain.comparison import Comparison, compare
from phobos_sim.explain.difference import Difference, Differences
from phobos_sim.explain.lockstep import farness
from phobos_sim.formats import F16, F32, S32

KERNELS = runs.module("explained")
MATMUL = KERNELS.matmul


def uniform(seed: int, *shape: int) -> Any:
    rng = np.random.default_rng([seed, *shape])
    return (rng.random(shape, np.float32) - np.float32(0.5)).astype(np.float16)


def grid(meta: dict[str, int]) -> tuple[int, int]:
    return meta["M"] // meta["BM"], meta["N"] // meta["BN"]


def array(difference: Difference, *, stored: bool) -> Comparison:
    return next(one for one in difference.outputs if one.stored == stored)


@pytest.fixture(scope="module")
def both() -> Differences:
    """Tutorial 03 in small, against the sequential chain and the correctly rounded dot."""
    a, b = uniform(1, 64, 96), uniform(2, 96, 64)
    found = sim.diff(MATMUL, grid, a, b, np.zeros((64, 64), np.float16), against=["ieee", "exact"])
    assert isinstance(found, Differences)
    return found


def test_tutorial_03_against_two_kinds_of_arithmetic(both: Differences) -> None:
    """Every figure of the report, recomputed: the tensor core by the reference, the other side by rationals."""
    a, b = uniform(1, 64, 96).view(np.uint16), uniform(2, 96, 64).view(np.uint16)
    c = np.zeros((64, 64), np.float16)
    MATMUL.launch(grid, a.view(np.float16), b.view(np.float16), c, device="reference")
    row = isa.lookup("HMMA.16816.F32")
    here = sim.execute("HMMA.16816.F32", *_tiles(a, b), device="reference")[0]
    for difference, start in zip(both, (oracle_ladder.IEEE, oracle_ladder.EXACT), strict=True):
        wide, stored = array(difference, stored=False), array(difference, stored=True)
        assert (wide.total, stored.total, wide.element, stored.element) == (4096, 4096, F32, F16)
        there = np.empty_like(here)
        for i in range(0, 64, 16):
            for j in range(64):
                there[i, j] = oracle_ladder.element(a[i].tolist(), b[:, j].tolist(), 0, row, isa.SM86, start, {"NaN"})
        rows = np.arange(0, 64, 16)
        apart = np.flatnonzero((there != here)[rows].ravel())
        assert len(apart) > 100  # the rows looked at differ in many elements
        again = compare("", "C", F32, False, here[rows], there[rows])
        assert wide.differing >= again.differing and wide.worst[0].steps is not None
        for worst in wide.worst:
            i, j = worst.index
            code = oracle_ladder.element(a[i].tolist(), b[:, j].tolist(), 0, row, isa.SM86, start, {"NaN"})
            assert (worst.here, worst.there) == (int(here[i, j]), code)
        assert stored.equal == 4096 - sum(stored.kinds.values())
        assert sum(count for _, count in wide.histogram) == wide.differing
        assert stored.worst[0].here == int(c.view(np.uint16)[stored.worst[0].index])


def _tiles(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a b as a chain of six instructions, the last of which is returned as operands for `execute`."""
    seed = np.zeros((1, 64, 64), np.uint32)
    for k in range(0, 80, 16):
        seed = sim.execute("HMMA.16816.F32", a[None, :, k : k + 16], b[None, k : k + 16], seed, device="reference")
    return a[None, :, 80:], b[None, 80:], seed


def test_the_parting_line_and_the_explained_dot(both: Differences) -> None:
    for difference, beside in zip(both, (1, 2), strict=True):
        first = difference.first
        assert first is not None and first.cta == (0, 0, 0) and first.name == "acc"
        assert "ph.dot(a, b)" in first.span.source.line(first.span.line)
        (line,) = difference.lines
        assert line[1:] == ("HMMA.16816.F32", "acc += ph.dot(a, b)", 1)
        explanation = difference.explanation
        assert explanation is not None and len(explanation.operands.a) == 96
        worst = array(difference, stored=False).worst[0]
        assert (explanation.dot.code, explanation.expected) == (worst.here, worst.there)
        assert explanation.beside[beside].number.code == worst.there
        assert explanation.ladders[beside - 1].first is not None


def test_arguments_are_not_written_and_arch_sides_are_launches() -> None:
    a, b, c = uniform(3, 64, 64), uniform(4, 64, 64), np.full((64, 64), 7, np.float16)
    difference = sim.diff(MATMUL, grid, a, b, c, against="sm_90")
    assert np.all(c == 7)
    sides = {}
    for arch in ("sm_86", "sm_90"):
        out = np.empty_like(c)
        MATMUL.launch(grid, a, b, out, device="reference", arch=arch)
        sides[arch] = out.view(np.uint16)
    expected = int(np.count_nonzero(sides["sm_86"] != sides["sm_90"]))
    assert array(difference, stored=True).differing == expected
    assert difference.identical == (expected == 0)
    equal = sim.diff(MATMUL, grid, a, b, c, against="sm_80")
    assert equal.identical and equal.first is None and equal.explanation is None
    assert "same bits on both sides" in str(equal)


def test_attention_names_the_first_line_at_which_the_chips_part() -> None:
    args = [uniform(5, 64, 64), uniform(6, 96, 64), uniform(7, 96, 64), np.zeros((64, 64), np.float16), 0.125]
    difference = sim.diff(KERNELS.attention, (2,), *args, against="sm_90")
    first = difference.first
    assert first is not None and first.turn == 0
    assert first.span.source.line(first.span.line).strip() == (
        "s: ph.var[ph.tile[ph.f32][BR, BC]] = ph.dot_t(q, k)"
    )
    assert re.search(r"explained\.py:\d+:\d+\n?.*ph\.dot_t\(q, k\)", str(difference))
    assert [out.name for out in difference.outputs] == ["O", "o / den, stored to O"]
    explanation = difference.explanation
    assert explanation is not None and explanation.arch_ladder is not None
    assert explanation.arch_ladder.steps[0].code == explanation.expected != explanation.dot.code


def test_branches_that_part_end_the_comparison() -> None:
    """C[0, 0] is above the limit on one side only: what the branch stores is not compared, and nothing hangs."""
    b, out = uniform(9, 32, 32), np.zeros((32, 32), np.float32)
    for seed in range(100, 140):
        a, corner = uniform(seed, 32, 32), {}
        for arch in ("sm_86", "sm_90"):
            KERNELS.branches.launch((1,), a, b, out, 1e9, device="reference", arch=arch)
            corner[arch] = float(out[0, 0])
        if corner["sm_86"] == corner["sm_90"]:
            continue
        limit = min(corner.values())  # one side is above it, the other is not
        difference = sim.diff(KERNELS.branches, (1,), a, b, out, limit, against="sm_90")
        assert difference.first is not None and not difference.first.flow  # the product parts before the branch
        more = corner["sm_86"] > limit
        taken = sim.diff(KERNELS.branches, (1,), a, b, out, limit - 1, against="sm_90").compared
        left = sim.diff(KERNELS.branches, (1,), a, b, out, limit + 1, against="sm_90").compared
        assert left <= difference.compared <= taken, (more, left, difference.compared, taken)
        assert difference.outputs[0].differing > 900  # doubled on one side
        return
    raise AssertionError("no seed whose corner differs")


@pytest.mark.parametrize("maker", ["sm_86", "sm_90", "changed"])
def test_a_file_of_outputs(maker: str, tmp_path: Path) -> None:
    a, b, c = uniform(10, 64, 256), uniform(11, 256, 64), np.zeros((64, 64), np.float16)
    MATMUL.launch(grid, a, b, c, device="reference", arch="sm_90" if maker == "changed" else maker)
    if maker == "changed":
        c[5, 7] = 3
    np.savez(tmp_path / "card.npz", C=c)
    difference = sim.diff(MATMUL, grid, a, b, np.zeros_like(c), against=tmp_path / "card.npz")
    shares = dict(difference.fits)
    if maker == "changed":
        assert max(shares.values()) < 1
        assert array(difference, stored=True).worst[0].index == (5, 7)
        assert any("No arithmetic known here" in note for note in difference.notes)
        return
    assert shares[maker] == 1.0
    assert difference.identical == (maker == "sm_86")
    assert (difference.first is None) == (maker == "sm_86")
    assert maker in difference.notes[0]


@pytest.mark.parametrize(
    ("name", "held", "words"),
    [
        ("D", np.zeros((64, 64), np.float16), "name the file's arrays"),
        ("C", np.zeros((64, 32), np.float16), r"shape \(64, 32\)"),
        ("C", np.zeros((64, 64), np.float32), "is f32, the kernel writes f16"),
    ],
)
def test_files_that_do_not_fit(name: str, held: np.ndarray, words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "card.npz", **{name: held})
    with pytest.raises(UsageError, match=words):
        sim.diff(MATMUL, grid, *_zeros(), against=str(tmp_path / "card.npz"))


def _zeros() -> list[Any]:
    return [np.zeros((64, 64), np.float16) for _ in range(3)]


def test_wrong_use() -> None:
    for options, words in (
        ({"against": "iee"}, "choose ieee, exact"),
        ({"against": []}, "against is empty"),
        ({"against": "ieee", "device": "reference"}, "device names the first side"),
        ({"against": "nowhere.npz"}, "cannot be read"),
        ({"against": "sm_75"}, "does not exist on sm_75"),
    ):
        with pytest.raises(UsageError, match=words):
            sim.diff(MATMUL, grid, *_zeros(), **options)


def test_a_side_that_fails_ends_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error is raised once, and no thread is left behind."""
    monkeypatch.setenv("PHOBOS_MAX_TRIPS", "1")
    with pytest.raises(LoopLimitError):
        sim.diff(MATMUL, grid, *_zeros(), against=["ieee", "sm_90"])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("side ")]
    assert issubclass(KernelError, sim.PhobosError)


def test_a_device_against_the_reference() -> None:
    device = helpers.llvmpipe()
    a, b, c = uniform(12, 64, 64), uniform(13, 64, 64), np.zeros((64, 64), np.float16)
    difference = sim.diff(MATMUL, grid, a, b, c, against="reference", device=device)
    assert difference.identical and difference.there == "reference" and difference.here.startswith("vulkan:")
    assert np.all(c == 0)


def test_kernels_without_contractions_have_nothing_to_differ_in() -> None:
    x, y = (np.linspace(-1, 1, 128, dtype=np.float32) for _ in range(2))
    difference = sim.diff(KERNELS.axpy, (2,), x, y, np.zeros_like(x), 0.1, against="ieee")
    assert difference.identical and "no contraction" in difference.notes[0]


# --- statistics ------------------------------------------------------------------------------------------------------


def test_statistics_of_codes() -> None:
    here = np.array([[0x3C00, 0x0000, 0x7FFF, 0x7FFF, 0x3C00, 0x3C00, 0x3C00, 0xC000]], np.uint16)
    there = np.array([[0x3C00, 0x8000, 0x7E00, 0x3C00, 0x3C01, 0x3C04, 0x3800, 0xBFFF]], np.uint16)
    found = compare("C", "C", F16, True, here, there)
    assert (found.total, found.equal, found.differing) == (8, 1, 7)
    assert found.kinds == {"nan": 1, "nan payload": 1, "sign of zero": 1, "value": 4}
    assert dict(found.histogram) == {
        "other bits of one value": 2, "1 ulp": 2, "2 ulp": 0, "3 to 4 ulp": 1, "5 to 8 ulp": 0, "9 to 16 ulp": 0,
        "17 to 32 ulp": 0, "33 to 64 ulp": 0, "65 to 128 ulp": 0, "129 to 256 ulp": 0, "257 to 512 ulp": 0,
        "513 to 1,024 ulp": 1, "one is a NaN": 1,
    }  # fmt: skip
    assert [element.index[1] for element in found.worst] == [3, 6, 5, 4, 7]
    assert [element.steps for element in found.worst] == [None, -1024, 4, 1, 1]
    assert found.median == 1.0 and found.furthest is None
    assert found.heat == ((0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),)
    integers = compare("C", "C", S32, True, np.array([1, 0xFFFFFFFF], np.uint32), np.array([1, 2], np.uint32))
    assert integers.kinds == {"value": 1} and integers.worst[0].steps == 3
    thirds = compare("C", "C", F32, True, np.zeros(4, np.uint32), np.array([1, 3, 5, 8], np.uint32))
    assert dict(thirds.histogram) == {"1 ulp": 1, "2 ulp": 0, "3 to 4 ulp": 1, "5 to 8 ulp": 2}
    assert farness(np.uint16(0), np.uint16(0x8000), F16) == 0.25


def test_heat_maps_stand_for_blocks() -> None:
    here, there = (np.zeros((100, 200), np.uint32) for _ in range(2))
    there[99, 199] = 1
    there[:5, :5] = 1
    found = compare("C", "C", F32, True, here, there)
    assert found.heat_block == (5, 5) and len(found.heat) == 20 and len(found.heat[0]) == 40
    assert (found.heat[0][0], found.heat[19][39], found.heat[1][1]) == (1.0, 1 / 25, 0.0)
