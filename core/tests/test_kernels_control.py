"""Loops, branches, jumps and carried tiles on every form, and what happens at the end of the device's loop count.

lavapipe stops all loops of an invocation after 65,535 trips and says nothing (docs/adr/0004). Tests below lower the
budget, so that launches are cut as long ones are, with trips that `reference` makes in no time.

Seen to fail with: carried tiles assigned one after the other; the trips of a piece not held against the loop's own
end; stores before a cut loop made again by every piece; a loop of unknown count that nobody counts.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import llvmpipe
from kernel_cases import CONTROL, PRODUCTS, Case
from kernel_runs import agree, arguments, constants_of, facts, kernel_of, module, on_device, same
from phobos_sim.errors import LoopLimitError
from phobos_sim.gpu import run

control = module("control")
SHARED = ("registers", "shared", None)


@pytest.mark.parametrize("case", CONTROL, ids=lambda case: case.id)
def test_control_agrees(case: Case) -> None:
    case.agree()


# ---- long loops ----------------------------------------------------------------------------------------------------

LONG = {
    "two_long_loops": ((3,), {"G": 3}, (90,)),
    "nested_long": ((3,), {"G": 3}, (3, 70)),
    "triangle": ((5,), {"M": 19, "K": 30}, ()),
    "in_place_then_long": ((1,), {}, (97,)),
    "fibonacci": ((1,), {}, (90,)),
    "wide_swap": ((1,), {}, (91,)),
    "long_in_branch": ((3,), {"G": 3}, (20,)),
}


@pytest.mark.parametrize("budget", [100, 40])
@pytest.mark.parametrize("name", LONG)
def test_long_loops_are_cut(name: str, budget: int) -> None:
    grid, dims, scalars = LONG[name]
    kernel = getattr(control, name)
    with facts(loop_budget=budget):
        agree(kernel, grid, arguments(kernel, dims, *scalars, kind="edge"), registers=False)


@pytest.mark.parametrize("form", ["registers", "shared", None])
def test_a_product_over_a_long_k_is_cut(form: str | None) -> None:
    kernel = module("products").f32_fma
    with facts(loop_budget=40):
        agree(kernel, (2, 2), arguments(kernel, {"M": 23, "N": 19, "K": 301}), only=[form])


def test_the_recorded_form_is_cut() -> None:
    """One product in small loops takes 304 trips, so 320 is one product a dispatch."""
    kernel = module("products").f16_tensorcore
    args = arguments(kernel, {"M": 37, "N": 35, "K": 70}, kind="edge")
    with facts(loop_budget=320):
        agree(kernel, (2, 2), args, only=["loops"])


@pytest.mark.parametrize("form", SHARED)
def test_no_trip_is_lost_beyond_the_devices_count(form: str | None) -> None:
    """70,000 trips of the real device: every one is an exact increment."""
    kernel, x = control.count_up, np.arange(24, dtype=np.float32).reshape(3, 8)
    launched, after = on_device(kernel, (3,), [x, np.zeros(3, np.int32), 70_000], llvmpipe(), form)
    turns = np.array([69_999, 70_000, 70_001], np.int32)
    same(after, [x + turns[:, None].astype(np.float32), turns], f"form {form}")


def test_more_invocations_share_what_is_too_long_for_a_few() -> None:
    """Tiles of 8,192 elements are 1,024 trips for a subgroup of 8, 128 for a workgroup of 64."""
    kernel = module("memory").large
    args = arguments(kernel, {}, kind="edge")
    with facts(loop_budget=5000):
        agree(kernel, (1,), args, only=[None])
        launched, _ = on_device(kernel, (1,), args, llvmpipe())
    assert launched.notes[0].startswith("workgroups of 64")


def test_a_trip_that_cannot_be_cut_is_an_error() -> None:
    kernel = module("products").f16_tensorcore
    args = arguments(kernel, {"M": 32, "N": 32, "K": 16})
    with facts(loop_budget=40), pytest.raises(LoopLimitError, match=r"products.py:\d+:\d+: kernel f16_tens"):
        on_device(kernel, (1, 1), args, llvmpipe(), "loops")
    assert (args[2] == arguments(kernel, {"M": 32, "N": 32, "K": 16})[2]).all()


# ---- loops of unknown count ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SHARED)
def test_an_endless_loop_is_an_error(form: str | None) -> None:
    x = np.full(4, 7, np.int32)
    line = control.endless.program().body.ops[-1].span.line
    with pytest.raises(LoopLimitError, match=r"control.py:\d+: a loop of kernel endless did not end") as caught:
        control.endless.launch((1,), x, device=llvmpipe(), form=form)
    text = control.endless.source.text.splitlines()
    named = int(str(caught.value).split("control.py:")[1].split(":")[0])
    assert text[named - 1].strip().startswith("while") and named < line + 1
    assert (x == 7).all()


WATCHED = """@launch(32)
kernel k(n: i32, m: i32, X: tensor<i32>[4], Y: tensor<f32>[4]) {
  var i = 0
  while i != n {
    i += 1
    var j = 0
    while j != m {
      j += 1
      Y[:] += 1.0
    }
    Y[:] *= 0.5
  }
  X[0] = i
}
"""


@pytest.mark.parametrize("form", [None, "shared"])
def test_a_device_without_a_budget_watches_its_while_loops(form: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU, which would never come back: 50 trips of a loop are made, more are an error and write nothing."""
    monkeypatch.setenv("PHOBOS_MAX_TRIPS", "50")
    found = kernel_of(WATCHED)
    x, y = np.full(4, 7, np.int32), np.ones(4, np.float32)
    with facts(loop_budget=None):
        for n, m in ((3, 4), (50, 50), (0, 0)):
            agree(found, (1,), [n, m, x, y], only=[form])
        for n, m, line in ((51, 0, 4), (-1, 0, 4), (2, 51, 7), (2, -1, 7), (-1, -1, 7)):
            after = [n, m, x.copy(), y.copy()]
            with pytest.raises(LoopLimitError, match=rf"k.ph:{line}: a loop of kernel k did not end within 50 trips"):
                found.launch((1,), *after, device=llvmpipe(), form=form)
            assert (after[2] == x).all() and (after[3] == y).all()


def test_no_loop_goes_on_after_one_that_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the shader would have stored, were it not an error: one loop made all its trips, the next none."""
    monkeypatch.setenv("PHOBOS_MAX_TRIPS", "50")
    monkeypatch.setattr(run._Dispatch, "_check_status", lambda self: None)
    body = "var i = 0\nwhile i >= 0 {\ni += 1\n}\nvar j = 0\nwhile j >= 0 {\nj += 1\n}\nX[0] = i\nX[1] = j"
    found = kernel_of(f"@launch(32)\nkernel k(X: tensor<i32>[2]) {{\n{body}\n}}\n")
    x = np.full(2, 7, np.int32)
    with facts(loop_budget=None):
        found.launch((1,), x, device=llvmpipe())
    assert x.tolist() == [50, 0]


def test_the_reference_stops_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOBOS_MAX_TRIPS", "500")
    x = np.full(4, 7, np.int32)
    with pytest.raises(LoopLimitError, match="PHOBOS_MAX_TRIPS"):
        control.endless.launch((1,), x, device="reference")
    assert (x == 7).all()


@pytest.mark.parametrize("form", SHARED)
def test_a_count_from_memory_is_counted(form: str | None) -> None:
    """60 trips fit a budget of 100, 200 do not: they are neither lost nor made."""
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    with facts(loop_budget=100):
        launched, after = on_device(
            control.counted_by_memory, (1,), [np.array([60, 0], np.int32), x, y], llvmpipe(), form
        )
        assert (after[2] == 61).all()
        with pytest.raises(LoopLimitError, match="counted_by_memory did not end within the 100 trips"):
            on_device(control.counted_by_memory, (1,), [np.array([200, 0], np.int32), x, y], llvmpipe(), form)


def test_every_product_is_right_at_any_budget() -> None:
    """The smallest budget at which a kernel still fits cuts its loop into single trips."""
    case = next(c for c in PRODUCTS if c.kernel == "bf16_fma")
    with facts(loop_budget=30):
        case.agree()


@pytest.mark.parametrize("name", ["two_long_loops", "nested_long", "triangle"])
def test_cut_loops_go_through_their_ctas_in_stretches(name: str) -> None:
    """Hidden tensors for one CTA at a time, as for a grid whose carried tiles would not fit together."""
    grid, dims, scalars = LONG[name]
    kernel = getattr(control, name)
    with facts(loop_budget=60), constants_of({"gpu.parts.HIDDEN_BYTES": 1}):
        agree(kernel, grid, arguments(kernel, dims, *scalars, kind="edge"), registers=False)
