"""Debug modes of the reference backend: a shuffled CTA order, a report of CTAs that meet; what lowering warns of."""

from __future__ import annotations

import textwrap
from typing import Any

import helpers
import numpy as np
import phobos_sim as sim
import pytest
from kernel_runs import kernel_of
from phobos_sim.errors import KernelError, UsageError
from phobos_sim.lang.kernel import Kernel
from phobos_sim.launch import Launch

HEAD = "from __future__ import annotations\nimport phobos.lang as ph\n\n\n@ph.kernel\n"
FIRST = 6  # the line of `def`


def kernel(text: str, name: str = "races.py") -> Kernel:
    return kernel_of(HEAD + textwrap.dedent(text).lstrip("\n"), name)


def watched(text: str, grid: Any, *args: Any, **options: Any) -> Launch:
    return kernel(text).launch(grid, *args, device="reference", races=True, **options)


def race(text: str, grid: Any, *args: Any, **options: Any) -> KernelError:
    before = [a.copy() for a in args]
    with pytest.raises(KernelError) as caught:
        watched(text, grid, *args, **options)
    assert caught.value.exit_status == 2 and "give each element to one CTA" in caught.value.hint
    for array, kept in zip(args, before):
        assert np.array_equal(array, kept), "a race was reported, and the arguments were written"
    return caught.value


def floats(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


# ---- two CTAs that meet ------------------------------------------------------------------------------------------

OVERLAP = """
def k(Y: ph.tensor[ph.f32][M, N]):
    i: ph.let = ph.ctx.block.x * 4
    j: ph.let = ph.ctx.block.y * 8
    Y[i:+4, j:+9] = 1.0
"""


def test_two_ctas_that_write_one_element_are_named_with_line_and_coordinates() -> None:
    error = race(OVERLAP, (2, 3), floats(8, 32))
    assert error.message == (
        "a race: CTA (0, 1, 0) writes Y[0, 8] (and 3 more of its elements), which CTA (0, 0, 0) wrote at line 9"
    )
    assert error.span.line == FIRST + 3 and "Y[i:+4, j:+9] = 1.0" in str(error)


def test_the_same_value_is_a_race_all_the_same_and_a_neighbour_is_none() -> None:
    race(OVERLAP, (1, 2), np.ones((4, 32), np.float32))
    y = floats(8, 24)
    watched(OVERLAP.replace("+9", "+8"), (2, 3), y)
    assert (y == 1).all()


def test_both_places_are_named() -> None:
    error = race(
        """
        def k(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N]):
            b: ph.let = ph.ctx.block.x
            X[b] = 0.0
            Y[b] = 1.0
            if b == 2:
                Y[1] = 2.0
        """,
        (4,),
        floats(8),
        floats(8),
    )
    assert error.span.line == FIRST + 5
    assert error.message == f"a race: CTA (2, 0, 0) writes Y[1], which CTA (1, 0, 0) wrote at line {FIRST + 3}"


def test_a_read_of_what_another_cta_writes_is_a_race_in_either_order() -> None:
    text = """
        def k(Y: ph.tensor[ph.f32][N]):
            b: ph.let = ph.ctx.block.x
            Y[b] = Y[{other}] + 1.0
    """
    later = race(text.format(other="b - 1"), (4,), floats(8))
    assert later.message == f"a race: CTA (1, 0, 0) reads Y[0], which CTA (0, 0, 0) wrote at line {FIRST + 2}"
    earlier = race(text.format(other="b + 1"), (4,), floats(8))
    assert earlier.message == f"a race: CTA (1, 0, 0) writes Y[1], which CTA (0, 0, 0) read at line {FIRST + 2}"
    all_read = race(text.format(other="3"), (4,), floats(8))
    assert all_read.message == f"a race: CTA (3, 0, 0) writes Y[3], which several CTAs read at line {FIRST + 2}"
    watched(text.format(other="b + 4"), (4,), floats(8))
    watched(text.format(other="b"), (4,), floats(8))


def test_elements_outside_the_tensor_meet_nobody() -> None:
    text = """
        def k(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N]):
            i: ph.let = ph.ctx.block.x * 4
            Y[i:+8] = X[i - 4:+8]
    """
    watched(text, (1,), floats(4), floats(4))
    race(text, (2,), floats(8), floats(8))
    watched(text.replace("i:+8", "i * 2:+8"), (2,), floats(8), floats(8))  # the second tile lies past the end


def test_two_parameters_that_are_one_array_are_one_memory() -> None:
    text = """
        def k(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N]):
            b: ph.let = ph.ctx.block.x
            Y[b] = X[7 - b]
    """
    watched(text, (8,), floats(8), floats(8))
    both = floats(8)
    error = race(text, (8,), both, both)
    assert error.message == f"a race: CTA (4, 0, 0) reads X[3], which CTA (3, 0, 0) wrote at line {FIRST + 2}"


def test_one_array_under_two_shapes_is_one_memory() -> None:
    text = """
        def k(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][1, N]):
            b: ph.let = ph.ctx.block.x
            Y[0, b] = X[7 - b]
    """
    both = floats(8)
    error = race(text, (8,), both, both.reshape(1, 8))
    assert error.message == f"a race: CTA (4, 0, 0) reads X[3], which CTA (3, 0, 0) wrote at line {FIRST + 2}"


def test_a_grid_barrier_orders_both_sides() -> None:
    text = """
        def k(Y: ph.tensor[ph.i32][N], bar: ph.tensor[ph.i32][N]):
            b: ph.let = ph.ctx.block.x
            Y[b] = b
            {wait}
            Y[3 - b] = Y[3 - b] + 10
    """
    y, bar = np.zeros(4, np.int32), np.zeros(4, np.int32)
    watched(text.format(wait="ph.grid_barrier(bar)"), (4,), y, bar)
    assert y.tolist() == [10, 11, 12, 13]
    race(text.format(wait="pass"), (4,), y, bar)
    early = text.replace("Y[b] = b", "x: ph.let = Y[3 - b]").replace("Y[3 - b] = Y[3 - b] + 10", "Y[b] = x")
    watched(early.format(wait="ph.grid_barrier(bar)"), (4,), y, bar)
    race(early.format(wait="pass"), (4,), y, bar)
    # the same after the barrier is a race again
    late = text.replace("Y[3 - b] = Y[3 - b] + 10", "Y[0] = 10")
    error = race(late.format(wait="ph.grid_barrier(bar)"), (4,), y, bar)
    assert error.message.startswith("a race: CTA (1, 0, 0) writes Y[0], which CTA (0, 0, 0) wrote")


def test_kernels_without_a_race_run_and_store_the_same() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 128)).astype(np.float16) for _ in "ab")
    outputs = []
    for options in ({}, {"races": True}, {"order": ("shuffled", 5)}, {"races": True, "order": ("shuffled", 6)}):
        c = np.zeros((128, 128), np.float16)
        matmul = sim.load(helpers.ROOT / "examples" / "matmul.py").matmul
        matmul.launch((2, 2), a, b, c, device="reference", **options)
        outputs.append(c)
    for c in outputs[1:]:
        helpers.assert_codes(c, outputs[0])


# ---- the order ---------------------------------------------------------------------------------------------------

LAST = """
def k(Y: ph.tensor[ph.i32][N]):
    Y[0] = ph.ctx.block.x
"""


def last(order: Any) -> tuple[int, Launch]:
    y = np.zeros(1, np.int32)
    launch = kernel(LAST).launch((16,), y, device="reference", order=order)
    return int(y[0]), launch


def test_a_shuffled_order_exposes_a_race_and_its_seed_repeats_it() -> None:
    assert last(None)[0] == 15
    seen = {seed: last(("shuffled", seed))[0] for seed in range(8)}
    assert len(set(seen.values())) > 2
    assert all(last(("shuffled", seed))[0] == value for seed, value in seen.items())


def test_a_seed_that_is_drawn_is_told() -> None:
    seeds = set()
    for _ in range(4):
        value, launch = last("shuffled")
        (note,) = [note for note in launch.notes if "shuffled" in note]
        seed = int(note.rpartition(" ")[2])
        assert last(("shuffled", seed))[0] == value
        seeds.add(seed)
    assert len(seeds) > 1
    assert not [note for note in last(None)[1].notes if "shuffled" in note]


@pytest.mark.parametrize(
    "order", ["random", "races", 3, ("shuffled",), ("shuffled", -1), ("shuffled", True), ("shuffled", 1.5), [], {}, ""]
)
def test_an_unknown_order_is_wrong_use(order: Any) -> None:
    with pytest.raises(UsageError, match="unknown order .*'shuffled', SEED"):
        last(order)


@pytest.mark.parametrize("races", ["yes", 1, None])
def test_races_is_true_or_false(races: Any) -> None:
    with pytest.raises(UsageError, match="races is True or False"):
        kernel(LAST).launch((1,), np.zeros(1, np.int32), device="reference", races=races)


@pytest.mark.parametrize("options", [{"order": "shuffled"}, {"order": ("shuffled", 3)}, {"races": True}])
def test_on_a_vulkan_device_they_are_wrong_use(options: dict[str, Any]) -> None:
    y = np.full(1, 7, np.int32)
    with pytest.raises(UsageError, match=r"debug mode of the reference backend.*vulkan:.*device='reference'"):
        kernel(LAST).launch((16,), y, device=helpers.llvmpipe(), **options)
    assert y[0] == 7


# ---- what lowering warns of (G15, C.1) ---------------------------------------------------------------------------

COUNT = """
def k(Y: ph.tensor[ph.i32][N]):
    Y[0] += 1
"""
VIEW = """
def k(Y: ph.tensor[ph.f32][8]):
    x: ph.let = Y[0:+4]
    Y[0:+4] = 1.0
    Y[4:+4] = x + 1.0
"""


def test_an_element_that_is_updated_warns_and_is_a_race(capsys: pytest.CaptureFixture[str]) -> None:
    y = np.zeros(4, np.int32)
    counting = kernel(COUNT, "count.py")
    launch = counting.launch((3,), y, device="reference")
    note = f"count.py:{FIRST + 1}:5: `Y[...] +=` happens once per CTA; CTAs that meet here race"
    assert note in launch.notes and y[0] == 3
    assert capsys.readouterr().err.splitlines() == [f"phobos-sim: {note}"]
    counting.launch((3,), y, device="reference")
    kernel(COUNT, "count.py").launch((3,), y, device="reference")
    assert not capsys.readouterr().err, "a warning is said once"
    race(COUNT, (3,), y)
    watched(COUNT, (1,), y)


def test_a_live_view_that_is_written_under_warns(capsys: pytest.CaptureFixture[str]) -> None:
    y = floats(8)
    launch = kernel(VIEW, "view.py").launch((1,), y, device="reference")
    assert y.tolist() == [1] * 4 + [2] * 4
    (note,) = [note for note in launch.notes if "live view" in note]
    assert note.startswith(f"view.py:{FIRST + 3}:") and f"view.py:{FIRST + 2}:" in note
    assert note in capsys.readouterr().err


def test_warnings_obey_the_log_level(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOBOS_LOG", "off")
    launch = kernel(COUNT, "quiet.py").launch((3,), np.zeros(4, np.int32), device="reference")
    assert not capsys.readouterr().err
    assert [note for note in launch.notes if note.startswith("quiet.py:")]
