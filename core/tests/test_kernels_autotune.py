"""The search of @ph.kernel(key=...): which variant wins, what is left out and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import helpers
import numpy as np
import pytest
from phobos_sim import autotune
from phobos_sim import launch as launch_module
from phobos_sim.errors import (
    DifferenceError,
    DispatchTimeout,
    KernelError,
    LaunchError,
    UnavailableError,
    UsageError,
)
from tuning_samples import TOTAL, aligned, by_rows, default_sums, first_constant, kernel, rows, total, verdicts


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No winner is known, and none is kept outside the test's folder."""
    monkeypatch.setattr("phobos_sim.gpu.pipeline.cache_folder", lambda: tmp_path)
    autotune.forget()


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Seconds by the first constant of a variant, in place of measured ones; 1 where nothing is set."""
    times: dict[int, float] = {}
    monkeypatch.setattr(autotune, "_time", lambda bound, how: times.get(first_constant(bound), 1.0))
    return times


# ---- which variant wins ------------------------------------------------------------------------------------------


def test_the_fastest_of_the_variants_with_the_default_bits_wins(seconds: dict[int, float]) -> None:
    x, y = rows()
    seconds.update({2: 0.25, 16: 0.125})
    done = total(x, y)
    assert done.tuning is not None
    assert verdicts(done.tuning) == {4: "equal", 2: "equal", 16: "differs"}
    assert done.tuning.variants[0].constants == {"R": 4}
    assert done.tuning.winner == done.constants == {"R": 2} and done.grid == (8, 1, 1)
    assert [variant.seconds for variant in done.tuning.variants] == [1.0, 0.25, None]
    helpers.assert_codes(y, default_sums(x))
    assert done.tuning.headline in done.notes and "R=2 of 3 variants" in done.tuning.headline


def test_of_equally_fast_ones_the_default_wins(seconds: dict[int, float]) -> None:
    assert total(*rows()).constants == {"R": 4}


def test_what_differed_is_told(seconds: dict[int, float], capsys: pytest.CaptureFixture[str]) -> None:
    x, y = rows()
    done = total(x, y)
    assert done.tuning is not None
    told = done.tuning.variants[2].detail
    other = np.zeros_like(y)
    total(x, other, constants={"R": 16})
    wrong = np.flatnonzero(other.view(np.uint32) != y.view(np.uint32))
    first = int(wrong[0])
    assert f"Y: {len(wrong)} of 16 codes differ, first [{first}, 0]: {other.view(np.uint32)[first, 0]:08x}" in told
    assert f"expected {y.view(np.uint32)[first, 0]:08x} (value, " in told
    said = capsys.readouterr().err
    assert said.count("1 of 3 autotune variants store other bits") == 1
    assert told in str(done.tuning) and told not in said


def test_debug_prints_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PHOBOS_LOG", "debug")
    done = total(*rows())
    said = capsys.readouterr().err
    assert done.tuning is not None and str(done.tuning) in said
    assert "R=16" in said and "differs" in said


def test_easy_data_do_not_hide_a_difference(seconds: dict[int, float]) -> None:
    seconds[16] = 0.125
    x, y = rows(seed=None)
    done = total(x, y)
    assert verdicts(done.tuning)[16] == "differs"
    assert done.tuning is not None and done.tuning.variants[2].detail.startswith("with random data, Y: ")
    assert not y.any()


@pytest.mark.parametrize("element", ["f16", "bf16", "f64", "i8", "f32"])
def test_random_data_of_every_type_are_finite_and_of_both_signs(element: str) -> None:
    from phobos_sim.formats import FORMATS, is_inf, is_nan, sign_of

    fmt = FORMATS[element.replace("i8", "s8")]
    codes = autotune.random_codes(np.random.default_rng(0), fmt, (64, 8))
    assert codes.dtype == fmt.dtype and codes.shape == (64, 8) and len(np.unique(codes)) > 100
    assert 0.3 < sign_of(codes, fmt).mean() < 0.7
    assert not fmt.is_float or not (is_nan(codes, fmt) | is_inf(codes, fmt)).any()


LOOP = """
@ph.kernel(key=["M"])
@ph.autotune(R=[4, 2])
def halve(X: ph.tensor[ph.f32][M], Y: ph.tensor[ph.f32][M]):
    x: ph.var = X[ph.ctx.block.x]
    while x > 1.0:
        x = x * 0.5
    Y[ph.ctx.block.x] = x
"""


def test_a_while_loop_is_not_run_on_random_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "random_codes", lambda *_: pytest.fail("random data"))
    x, y = np.full(4, 3, np.float32), np.zeros(4, np.float32)
    done = kernel(LOOP).launch((4,), x, y, device="reference")
    assert verdicts(done.tuning) == {4: "equal", 2: "equal"} and y.tolist() == [0.75] * 4


def test_an_array_that_is_updated_is_updated_once() -> None:
    text = """
        @ph.kernel(key=["N"])
        @ph.autotune(B=[64, 32, 16])
        def double(X: ph.tensor[ph.f32][N]):
            i: ph.let = ph.ctx.block.x * B
            X[i:+B] = X[i:+B] + X[i:+B]
    """
    x = np.arange(128, dtype=np.float32)
    done = kernel(text).launch(lambda meta: (meta["N"] // meta["B"],), x, device="reference")
    assert verdicts(done.tuning) == dict.fromkeys((64, 32, 16), "equal")
    assert x.tolist() == [2.0 * i for i in range(128)]


def test_the_search_runs_on_a_vulkan_device(seconds: dict[int, float]) -> None:
    seconds[2] = 0.5
    x, y = rows()
    done = total(x, y, device=helpers.llvmpipe())
    assert done.device.startswith("vulkan:") and done.form is not None
    assert verdicts(done.tuning) == {4: "equal", 2: "equal", 16: "differs"} and done.constants == {"R": 2}
    helpers.assert_codes(y, default_sums(x))


def test_times_are_the_least_of_a_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter([0.03, 0.01, 0.05, 0.02, 0.04, 0.001])
    monkeypatch.setattr(autotune, "execute", lambda bound, how: launch_module.Outcome({}, None, next(given)))
    assert autotune._time(None, None) == 0.01  # type: ignore[arg-type]
    assert next(given) == 0.001
    given = iter([autotune.SECONDS + 1, 0.0])
    assert autotune._time(None, None) == autotune.SECONDS + 1  # type: ignore[arg-type]


# ---- variants that fail ------------------------------------------------------------------------------------------


def test_a_variant_that_does_not_compile_is_listed() -> None:
    text = TOTAL.replace("[4, 2, 16]", "[4, 0]")
    done = total(*rows(), text=text, grid=(4,))
    assert done.tuning is not None
    assert verdicts(done.tuning) == {4: "equal", 0: "failed"}
    assert done.tuning.variants[1].detail.startswith("kernel.py:") and "1 failed" in done.tuning.headline


def test_a_grid_that_fails_for_a_variant_is_listed() -> None:
    def grid(meta: dict[str, int]) -> tuple[int]:
        assert 1 % (meta["R"] - 2) >= 0
        return by_rows(meta)

    x, y = rows()
    done = total(x, y, grid=grid)
    assert verdicts(done.tuning) == {4: "equal", 2: "failed", 16: "differs"}
    assert done.tuning is not None and "ZeroDivisionError" in done.tuning.variants[1].detail
    helpers.assert_codes(y, default_sums(x))


def test_a_promise_that_a_variant_breaks_is_listed() -> None:
    text = aligned(TOTAL).replace("[4, 2, 16]", "[4, 16, 12]")
    done = total(*rows(m=8), text=text)
    assert verdicts(done.tuning) == {4: "equal", 16: "failed", 12: "failed"}
    assert done.tuning is not None and "@aligned promises" in done.tuning.variants[1].detail


def test_a_fixed_grid_that_does_not_suit_a_variant_leaves_it_out() -> None:
    x, y = rows()
    assert verdicts(total(x, y, grid=(4,)).tuning)[2] == "differs"
    helpers.assert_codes(y, default_sums(x))


@pytest.mark.parametrize(
    ("text", "grid", "error"),
    [
        (aligned(TOTAL).replace("[4, 2, 16]", "[16, 4]"), by_rows, LaunchError),
        (TOTAL, lambda meta: (1 // (meta["R"] - 4),), ZeroDivisionError),
        (TOTAL.replace("[4, 2, 16]", "[0, 4]"), (4,), KernelError),
    ],
    ids=["promise", "grid", "source"],
)
def test_an_error_of_the_default_is_the_launch_s(text: str, grid: Any, error: type[Exception]) -> None:
    x, y = rows(m=8)
    with pytest.raises(error):
        total(x, y, text=text, grid=grid)
    assert (y == 7).all()


def test_a_default_that_cannot_run_is_the_launch_s_error_unless_expected_decides(
    seconds: dict[int, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = rows()
    wanted = default_sums(x)

    def refused(bound: Any, how: Any) -> Any:
        if first_constant(bound) == 4:
            raise UnavailableError("no room for this variant")
        return launch_module.execute(bound, how)

    monkeypatch.setattr(autotune, "execute", refused)
    with pytest.raises(UnavailableError, match="no room"):
        total(x, y)
    assert (y == 7).all()
    done = total(x, y, expected=wanted)
    assert verdicts(done.tuning) == {4: "failed", 2: "equal", 16: "differs"} and done.constants == {"R": 2}
    assert done.tuning is not None and done.tuning.variants[0].detail == "no room for this variant"


def test_a_lost_device_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows()

    def lost(bound: Any, how: Any) -> Any:
        if first_constant(bound) == 2:
            raise DispatchTimeout("it does not end")
        return launch_module.execute(bound, how)

    monkeypatch.setattr(autotune, "execute", lost)
    with pytest.raises(DispatchTimeout):
        total(x, y)
    assert (y == 7).all()


# ---- the caller's reference --------------------------------------------------------------------------------------


def test_expected_arrays_decide_instead_of_the_default(seconds: dict[int, float]) -> None:
    x, y = rows()
    wanted = np.zeros_like(y)
    total(x, wanted, constants={"R": 16})
    done = total(x, y, expected=wanted)
    assert verdicts(done.tuning) == {4: "differs", 2: "differs", 16: "equal"} and done.constants == {"R": 16}
    helpers.assert_codes(y, wanted)


def test_no_variant_with_the_expected_bits_is_a_difference_and_writes_nothing() -> None:
    x, y = rows()
    with pytest.raises(DifferenceError) as caught:
        total(x, y, expected={"Y": np.zeros_like(y)})
    assert caught.value.exit_status == 1
    lines = str(caught.value).splitlines()
    assert len(lines) == 4 and all("Y: 16 of 16 codes differ" in line for line in lines[1:])
    assert (y == 7).all()


def test_a_kept_winner_is_held_against_what_is_expected(seconds: dict[int, float]) -> None:
    x, y = rows()
    total(x, y)
    wanted = np.zeros_like(y)
    total(x, wanted, constants={"R": 16})
    done = total(x, y, expected=[wanted])
    assert done.tuning is not None and done.tuning.source == "search" and done.constants == {"R": 16}


PAIR = """
@ph.kernel(key=["N"])
@ph.autotune(B=[32, 64])
def pair(X: ph.tensor[ph.f32][N], Y: ph.tensor[ph.f32][N], Z: ph.tensor[ph.i32][N]):
    i: ph.let = ph.ctx.block.x * B
    Y[i:+B] = X[i:+B] + 1.0
    Z[i:+B] = B
"""


def test_outputs_that_expected_leaves_out_follow_the_first_variant_that_has_the_others() -> None:
    x, y, z = np.zeros(64, np.float32), np.zeros(64, np.float32), np.zeros(64, np.int32)
    done = kernel(PAIR).launch(
        lambda meta: (meta["N"] // meta["B"],), x, y, z, device="reference", expected={"Y": np.ones(64, np.float32)}
    )
    assert verdicts(done.tuning) == {32: "equal", 64: "differs"}
    assert done.tuning is not None and done.tuning.variants[1].detail.startswith("Z: 64 of 64")
    assert (y == 1).all() and (z == 32).all()


def test_expected_without_a_search() -> None:
    x, y = rows()
    wanted = default_sums(x)
    assert total(x, y, constants={}, expected=wanted).tuning is None
    y[:] = 7
    wanted[3] += 1
    said = r"total does not store what `expected` says \(Y: 1 of 16 codes differ, first \[3, 0\]"
    with pytest.raises(DifferenceError, match=said):
        total(x, y, constants={}, expected=wanted)
    assert (y == 7).all()


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"W": np.zeros(64, np.float32)}, ("'W'", "writes Y, Z")),
        ({"X": np.zeros(64, np.float32)}, ("'X'", "writes Y, Z")),
        ([np.zeros(64, np.float32)], ("2 arrays (Y, Z)", "found 1")),
        (np.zeros(64, np.float32), ("writes Y, Z", "mapping")),
        ({"Y": np.zeros(64, np.float16)}, ("expected Y", "f32", "f16")),
        ({"Y": np.zeros((8, 8), np.float32)}, ("expected Y", "(64,)", "(8, 8)")),
        ({"Y": "ones"}, ("expected Y",)),
    ],
)
def test_expected_that_does_not_fit_is_wrong_use(expected: Any, words: tuple[str, ...]) -> None:
    arrays = np.zeros(64, np.float32), np.zeros(64, np.float32), np.zeros(64, np.int32)
    with pytest.raises(UsageError) as caught:
        kernel(PAIR).launch((2,), *arrays, device="reference", expected=expected)
    assert not [word for word in words if word not in str(caught.value)], str(caught.value)
