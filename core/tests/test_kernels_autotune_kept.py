"""What the search of @ph.kernel(key=...) remembers, and when there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import helpers
import numpy as np
import pytest
from phobos_sim import autotune
from phobos_sim import launch as launch_module
from phobos_sim.errors import UsageError
from phobos_sim.launch import Launch
from tuning_samples import TOTAL, aligned, by_rows, first_constant, kernel, rows, source_of, total, verdicts


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No winner is known, and none is kept outside the test's folder."""
    monkeypatch.setattr("phobos_sim.gpu.pipeline.cache_folder", lambda: tmp_path)
    autotune.forget()


# ---- what is remembered ------------------------------------------------------------------------------------------


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Constants of every run that is not timed."""
    seen: list[int] = []

    def counted(bound: Any, how: Any) -> Any:
        seen.append(first_constant(bound))
        return launch_module.execute(bound, how)

    monkeypatch.setattr(autotune, "execute", counted)
    monkeypatch.setattr(autotune, "_time", lambda bound, how: 1.0 / seen[-1])
    return seen


def test_the_winner_is_kept_in_memory_and_on_disk(runs: list[int], tmp_path: Path) -> None:
    x, y = rows()
    first = total(x, y)
    assert source_of(first) == "search" and set(runs) == {4, 2, 16} and first.constants == {"R": 4}
    runs.clear()
    again = total(x, y)
    assert source_of(again) == "memory" and runs == [4]
    autotune.forget()
    runs.clear()
    from_disk = total(x, y)
    assert source_of(from_disk) == "disk" and runs == [4]
    assert first.tuning is not None and from_disk.tuning is not None
    assert from_disk.tuning.variants == first.tuning.variants and from_disk.tuning.winner == first.tuning.winner
    assert "kept on disk" in from_disk.tuning.headline and "kept" not in first.tuning.headline
    assert len(list((tmp_path / "tuning").glob("total-*.json"))) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda: total(*rows(m=32)),
        lambda: total(*rows(), text=TOTAL + "\n"),
        lambda: total(*rows(), arch="sm_80"),
        lambda: kernel(TOTAL.replace("def total", "def sums")).launch(by_rows, *rows(), device="reference"),
    ],
    ids=["key", "source", "arch", "name"],
)
def test_another_problem_is_another_search(other: Callable[[], Launch]) -> None:
    assert source_of(total(*rows())) == "search"
    assert source_of(other()) == "search"
    assert source_of(total(*rows(seed=5))) == "memory"


def test_another_device_or_driver_is_another_search(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    device = helpers.llvmpipe()
    assert source_of(total(*rows())) == "search"
    assert source_of(total(*rows(), device=device)) == "search"
    assert source_of(total(*rows(), device=device)) == "memory"
    assert source_of(total(*rows(), device=device, form="shared")) == "search"
    assert source_of(total(*rows(), device=device, instructions="integer")) == "search"
    monkeypatch.setattr("phobos_sim.gpu.device.emitter_hash", lambda: "other emitters")
    assert source_of(total(*rows(), device=device)) == "search"


def test_scalars_may_be_part_of_a_key() -> None:
    text = """
        @ph.kernel(key=["a"])
        @ph.autotune(B=[32, 64])
        def scale(X: ph.tensor[ph.f32][N], a: ph.f32):
            X[ph.ctx.block.x * B:+B] = X[ph.ctx.block.x * B:+B] * a
    """
    x = np.ones(64, np.float32)
    done = [kernel(text).launch(lambda meta: (64 // meta["B"],), x, a, device="reference") for a in (2.0, 4.0, 2.0)]
    assert [source_of(one) for one in done] == ["search", "search", "memory"]
    assert done[0].tuning is not None and done[0].tuning.key == {"a": 0x40000000}
    assert (x == 16).all()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"problem": 1}', None])
def test_a_damaged_file_is_a_new_search(damage: str | None, tmp_path: Path) -> None:
    total(*rows())
    (file,) = (tmp_path / "tuning").glob("*.json")
    data = json.loads(file.read_text())
    data["variants"][0]["speed"] = 1
    file.write_text(json.dumps(data) if damage is None else damage)
    autotune.forget()
    assert source_of(total(*rows())) == "search"
    autotune.forget()
    assert source_of(total(*rows())) == "disk"


def test_a_file_of_another_problem_is_a_new_search(tmp_path: Path) -> None:
    total(*rows())
    (file,) = (tmp_path / "tuning").glob("*.json")
    data = json.loads(file.read_text())
    data["problem"]["values"] = {"M": 17}
    file.write_text(json.dumps(data))
    autotune.forget()
    assert source_of(total(*rows())) == "search"


def test_a_winner_that_the_source_does_not_offer_is_a_new_search(tmp_path: Path) -> None:
    total(*rows())
    (file,) = (tmp_path / "tuning").glob("*.json")
    data = json.loads(file.read_text())
    data["winner"] = {"R": 8}
    file.write_text(json.dumps(data))
    autotune.forget()
    assert source_of(total(*rows())) == "search"


def test_nothing_is_kept_on_disk_where_the_cache_is_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("phobos_sim.gpu.pipeline.cache_folder", lambda: None)
    assert source_of(total(*rows())) == "search"
    assert source_of(total(*rows())) == "memory"
    assert not list(tmp_path.iterdir())


def test_a_kept_winner_that_does_not_fit_is_searched_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    text = aligned(TOTAL).replace('key=["M"]', "key=[]").replace("[4, 2, 16]", "[2, 4]")
    monkeypatch.setattr(autotune, "_time", lambda bound, how: 1.0 / first_constant(bound))
    assert total(*rows(m=8), text=text).constants == {"R": 4}
    x, y = rows(m=6)
    done = total(x, y, text=text)
    assert source_of(done) == "search" and done.constants == {"R": 2}
    assert verdicts(done.tuning) == {2: "equal", 4: "failed"}
    alone = np.zeros_like(y)
    total(x, alone, constants={"R": 2})
    helpers.assert_codes(y, alone)


# ---- when there is no search -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "constants"),
    [
        (TOTAL, {"constants": {"R": 16}}, {"R": 16}),
        (TOTAL, {"constants": {}}, {"R": 4}),
        (TOTAL.replace('(key=["M"])', ""), {}, {"R": 4}),
        (TOTAL.replace("[4, 2, 16]", "[4]"), {}, {"R": 4}),
        (TOTAL.replace("[4, 2, 16]", "[4, 4, 4]"), {}, {"R": 4}),
        (TOTAL, {"races": True}, {"R": 4}),
        (TOTAL, {"order": ("shuffled", 1)}, {"R": 4}),
    ],
    ids=["constants", "empty constants", "no key", "one variant", "one variant thrice", "races", "order"],
)
def test_no_search(text: str, options: dict[str, Any], constants: dict[str, int], tmp_path: Path) -> None:
    x, y = rows()
    done = total(x, y, text=text, **options)
    assert done.tuning is None and done.constants == constants
    assert not np.isin(7, y) and not list(tmp_path.iterdir())


def test_the_number_of_variants_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOBOS_TUNE_VARIANTS", "2")
    done = total(*rows())
    assert verdicts(done.tuning) == {4: "equal", 2: "equal"}
    assert done.tuning is not None and done.tuning.untried == 1 and "1 not tried" in done.tuning.headline
    for wrong in ("0", "-1", "many"):
        monkeypatch.setenv("PHOBOS_TUNE_VARIANTS", wrong)
        with pytest.raises(UsageError, match="PHOBOS_TUNE_VARIANTS"):
            total(*rows(m=32))


def test_progress_counts_variants() -> None:
    seen: list[tuple[int, int]] = []
    total(*rows(), progress=lambda done, count: seen.append((done, count)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_ph_spelling_has_a_key_too() -> None:
    text = """
        @autotune(R in [4, 2, 16])
        @key(M)
        kernel total(X: tensor<f32>[M, 64], Y: tensor<f32>[M, 1]) {
          let r = ctx.block.x * R
          Y[r :+ R, :] = rowsum(X[r :+ R, :])
        }
    """
    x, y = rows()
    done = kernel(text, "kernel.ph").launch(by_rows, x, y, device="reference")
    assert verdicts(done.tuning) == {4: "equal", 2: "equal", 16: "differs"}
