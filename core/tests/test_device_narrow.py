"""Devices with few registers per lane (integrated ones, narrow subgroups): smaller blocks, the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import phobos_sim as sim
import pytest
import spirv_samples
from helpers import assert_codes
from phobos_sim import isa
from phobos_sim.gpu import cooperative, mapping, statistics
from phobos_sim.gpu import device as devices
from phobos_sim.gpu.target import Target
from runtime_samples import device_name

ROOT = Path(__file__).resolve().parents[2]
NARROW = Target(
    kind="discrete", subgroup_size=32, subgroup_sizes=(8, 32), subgroup_shuffle=True, required_subgroup_size=True,
    max_invocations=1024, max_subgroups=64, shared_bytes=65536,
)  # fmt: skip


def matmul() -> sim.Kernel:
    return sim.load(ROOT / "examples" / "matmul.py").matmul


PROGRAM = matmul().program()


def choose(target: Target, form: str | None) -> mapping.Choice:
    program = PROGRAM
    return mapping.choose(program, target, {t.name: t.name for t in program.tensors}, 64, form)


@pytest.mark.parametrize(
    "change, accumulators, lanes",
    [
        ({}, 8, 8),
        ({"kind": "integrated"}, 8, 8),
        ({"required_subgroup_size": False}, 8, 32),
        ({"subgroup_sizes": (32, 32)}, 16, 32),
        ({"subgroup_sizes": (32, 32), "kind": "integrated"}, 8, 32),
        ({"subgroup_size": 64, "subgroup_sizes": (32, 64)}, 16, 64),
    ],
)
def test_blocks_follow_the_registers_of_a_lane(change: dict[str, object], accumulators: int, lanes: int) -> None:
    target = replace(NARROW, **change)  # type: ignore[arg-type]
    choice = choose(target, "registers")
    assert choice.plan is not None
    result = PROGRAM.contractions()[0].result
    assert (choice.plan.layout.lanes, choice.plan.registers(result)) == (lanes, accumulators)


def test_a_workgroup_holds_a_whole_result_in_eight_accumulators_each() -> None:
    assert choose(NARROW, "shared").local_size == 64 * 64 // 8
    assert choose(replace(NARROW, max_invocations=256), "shared").local_size == 256
    assert choose(replace(NARROW, subgroup_sizes=(32, 32)), "shared").local_size == 256


def test_units_per_workgroup_are_what_a_device_can_count() -> None:
    assert choose(replace(NARROW, max_subgroups=4), "registers").units_per_group == 4


@pytest.mark.device
@pytest.mark.parametrize("form", ["registers", "shared", "loops"])
def test_small_blocks_give_the_same_bits(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.open_device(device_name())
    narrow = replace(device.target, kind="integrated", subgroup_sizes=(device.target.subgroup_size,) * 2)
    kernel, rng = matmul(), np.random.default_rng(4)
    a, b = (rng.integers(0, 0x10000, shape, np.uint16) for shape in ((64, 128), (128, 64)))
    outputs = []
    for target in (device.target, narrow):
        monkeypatch.setattr(device, "target", target)
        c = np.zeros((64, 64), np.float16)
        kernel.launch((1, 1), a.view(np.float16), b.view(np.float16), c, device=device_name(), form=form)
        outputs.append(c.view(np.uint16))
    assert_codes(outputs[1], outputs[0])


@pytest.mark.device
def test_a_compiler_is_asked_without_a_dispatch() -> None:
    device = devices.open_device(device_name())
    with statistics.compiler(f"vulkan:{device.info.index}") as compiler:
        found = statistics.compile_statistics(compiler, spirv_samples.copy(), 2, 2)
        assert found.seconds > 0
        told = statistics.FEATURE in compiler.info.features
        assert bool(found.executables) == told
        assert (found.largest("instruction") is not None) == told
        forms = statistics.assumed_target(compiler).forms
        assert forms["FADD"] == "native" and forms["HMMA.16816.F32"] == "float"
    assert device.alive


@pytest.mark.device
def test_offers_of_cooperative_matrices_need_their_features() -> None:
    device = devices.open_device(device_name())
    has = set(cooperative.FEATURES) <= set(device.info.features)
    assert has or cooperative.offers(device) == frozenset()


def test_an_offer_names_shape_and_types() -> None:
    row = isa.lookup("HMMA.16816.F32")
    assert cooperative.offer_of(row) == cooperative.Offer(16, 8, 16, "f16", "f16", "f32")
    assert cooperative.offer_of(isa.lookup("HMMA.1688.F32.TF32")) is None
