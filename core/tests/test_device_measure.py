"""The default mapping is measured once per kind of work, under the very choices that a launch would make."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_codes
from phobos_sim.binding import Bound
from phobos_sim.errors import UnavailableError
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import measure, samples
from phobos_sim.gpu.physical import INDEPENDENT_ROUNDING
from phobos_sim.gpu.run import run
from phobos_sim.gpu.vulkan import DeviceLost
from phobos_sim.isa import SM86
from runtime_samples import device_name

pytestmark = pytest.mark.device
TRUNCATES = "shaderRoundingModeRTZFloat64"
KINDS = ("contraction", "reduction", "pointwise")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> devices.Device:
    """The device under test with nothing measured, and a cache folder of its own."""
    monkeypatch.setenv("PHOBOS_CACHE", str(tmp_path))
    monkeypatch.setattr(measure, "_known", {})
    return devices.open_device(device_name())


def bound_of(kind: str) -> Bound:
    sample = samples.SMALL[kind]
    program, rng = sample.make(), np.random.default_rng(0)
    shapes = {t.name: tuple(sample.dims[str(d)] for d in t.dims) for t in program.tensors}
    tensors = {
        t.name: rng.integers(0, 1 << 14, shapes[t.name]).astype(f"uint{t.element.bits}") for t in program.tensors
    }
    return Bound(program, tensors, {}, sample.dims, sample.grid, {name: name for name in tensors})


@pytest.mark.parametrize("kind", KINDS)
def test_samples_run_under_both_mappings_with_equal_bits(gpu: devices.Device, kind: str) -> None:
    bound = bound_of(kind)
    first, second = (run(gpu, bound, SM86, None, None, default=form) for form in ("registers", "shared"))
    assert (first.form, second.form) == ("registers", "shared")
    for name, codes in first.outputs.items():
        assert_codes(second.outputs[name], codes)


@pytest.mark.parametrize("kind", KINDS)
def test_large_samples_are_the_same_programs(kind: str) -> None:
    small, large = samples.SMALL[kind], samples.LARGE[kind]
    assert small.make is large.make and small.dims.keys() == large.dims.keys()
    assert measure.kind_of(small.make()) == kind


def test_a_verdict_is_asked_for_once_and_kept(
    gpu: devices.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def pick(device: devices.Device, kind: str, ways: dict[str, Any]) -> str:
        asked.append(kind)
        return "shared"

    monkeypatch.setattr(measure, "_fastest", pick)
    bound = bound_of("pointwise")
    assert [run(gpu, bound, SM86, None, None).form for _ in range(2)] == ["shared", "shared"]
    assert asked == ["pointwise"]
    (file,) = tmp_path.glob("mappings-*.json")
    assert json.loads(file.read_text()) == {"pointwise": "shared"}
    file.write_text('{"pointwise": "shared", "reduction": "registers"}')  # another process had a question of its own
    assert measure.preferred(gpu, "contraction") == "shared"
    assert json.loads(file.read_text()) == {"pointwise": "shared", "reduction": "registers", "contraction": "shared"}
    measure._known.clear()
    assert measure.preferred(gpu, "pointwise") == "shared" and asked == ["pointwise", "contraction"]
    file.write_text('{"pointwise": "loops"}')  # damaged: measured anew
    measure._known.clear()
    assert measure.preferred(gpu, "pointwise") == "shared" and asked == ["pointwise", "contraction", "pointwise"]


def test_no_verdict_is_kept_where_nothing_ran(
    gpu: devices.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measure, "_fastest", lambda *_: "")
    assert measure.preferred(gpu, "reduction") == "shared"
    assert not list(tmp_path.glob("mappings-*.json"))
    monkeypatch.setattr(measure, "_fastest", lambda *_: "registers")
    assert measure.preferred(gpu, "reduction") == "registers"


def test_a_lost_device_is_no_verdict(gpu: devices.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def lost(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(gpu, "alive", False)
        raise DeviceLost("vkQueueSubmit", "VK_ERROR_DEVICE_LOST")

    monkeypatch.setattr("phobos_sim.gpu.run.run", lost)
    monkeypatch.setattr(measure, "can_double", lambda target: True)
    for ask in (lambda: measure.preferred(gpu, "pointwise"), lambda: measure.prefers_double(gpu)):
        monkeypatch.setattr(gpu, "alive", True)
        with pytest.raises(DeviceLost):
            ask()
    monkeypatch.setattr(gpu, "alive", True)
    assert not list(tmp_path.glob("mappings-*.json"))


ABLE = {"kind": "discrete", "float64": True, "float16": True, "truncates_f64": True, "subgroup_sizes": (32, 32)}


@pytest.mark.parametrize(
    ("fastest", "exact", "verdict"), [("double", True, True), ("single", True, False), ("double", False, False)]
)
def test_dots_in_f64_are_taken_where_they_are_faster_and_exact(
    gpu: devices.Device, monkeypatch: pytest.MonkeyPatch, fastest: str, exact: bool, verdict: bool
) -> None:
    asked: list[dict[str, Any]] = []

    def pick(device: devices.Device, kind: str, ways: dict[str, Any]) -> str:
        asked.append(ways)
        return fastest

    monkeypatch.setattr(measure, "_fastest", pick)
    monkeypatch.setattr(measure, "double_is_exact", lambda device: exact)
    others: list[dict[str, Any]] = [{"kind": "cpu"}, {"kind": "integrated"}, {"subgroup_sizes": (8, 32)}]
    others += [{feature: False} for feature in ("float64", "float16", "truncates_f64")]
    for lacking in others:
        monkeypatch.setattr(gpu, "target", replace(gpu.target, **(ABLE | lacking)))  # type: ignore[arg-type]
        assert not measure.prefers_double(gpu) and not asked
    monkeypatch.setattr(gpu, "target", replace(gpu.target, **ABLE))  # type: ignore[arg-type]
    assert [measure.prefers_double(gpu) for _ in range(2)] == [verdict] * 2
    assert [{name: way["double"] for name, way in ways.items()} for ways in asked] == (
        [{"double": True, "single": False}] if exact else []
    )


def test_a_fault_in_dots_in_f64_is_no_launch_s_fault(gpu: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(device: devices.Device) -> bool:
        raise UnavailableError("the compiler gave up")

    monkeypatch.setattr(measure, "double_is_exact", fails)
    monkeypatch.setattr(gpu, "target", replace(gpu.target, **ABLE))  # type: ignore[arg-type]
    assert not measure.prefers_double(gpu)


@pytest.mark.parametrize(
    ("kind", "options", "asked"),
    [("contraction", {}, True), ("contraction", {"form": "registers"}, False), ("pointwise", {}, False),
     ("contraction", {"instructions": "integer"}, False), ("contraction", {"mode": "cooperative"}, False)],
)  # fmt: skip
def test_only_products_of_halves_ask_for_f64(
    gpu: devices.Device, monkeypatch: pytest.MonkeyPatch, kind: str, options: dict[str, Any], asked: bool
) -> None:
    questions: list[object] = []
    monkeypatch.setattr(measure, "can_double", lambda target: True)
    monkeypatch.setattr(measure, "prefers_double", questions.append)
    run(gpu, bound_of(kind), SM86, **({"form": "shared", "instructions": None} | options))
    assert bool(questions) == asked


def test_the_samples_are_run_in_each_way(gpu: devices.Device) -> None:
    ways = {"impossible": {"no such argument": 1}, "registers": {"default": "registers"}}
    assert measure._fastest(gpu, "contraction", ways) == "registers"
    assert measure._fastest(gpu, "contraction", {"impossible": {"no such argument": 1}}) == ""


@pytest.mark.parametrize(("unit", "calls"), [(1e-3, 6), (1.0, 2)])
def test_ways_are_timed_in_turn(gpu: devices.Device, monkeypatch: pytest.MonkeyPatch, unit: float, calls: int) -> None:
    """The best of each counts; one after the other, `second` would be the faster. A long round is the last one."""
    left = [1.0, 5.0, 9.0, 9.0, 0.5, 9.0]
    monkeypatch.setattr(measure, "GPU_RUNS", measure.RUNS)
    monkeypatch.setattr(measure, "_timed", lambda device, launch: unit * left.pop(0))
    ways = {name: {"default": "registers"} for name in ("first", "second")}
    assert measure._fastest(gpu, "pointwise", ways) == "first"
    assert len(left) == 6 - calls


def test_f64_alone_must_be_able_to_truncate(gpu: devices.Device) -> None:
    """Where widths cannot be told to round apart, f16 and f32 arithmetic would truncate too."""
    for controls, able in (((), False), ((TRUNCATES,), False), ((TRUNCATES, INDEPENDENT_ROUNDING), True)):
        assert replace(gpu.info, float_controls=controls).target().truncates_f64 == able
