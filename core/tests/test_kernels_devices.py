"""Kernels on devices that have less, or are of another kind, than lavapipe on this machine.

Three ways to meet them: the same device with facts taken away (its shaders then use none of what is gone), lavapipe
with narrower and wider vectors in a process of its own, and SwiftShader where PHOBOS_SWIFTSHADER names it. A kernel
gives the reference's bits there, or says what the device lacks.

Seen to fail with: 16-bit words read as pairs where the host had widened them; missing 64-bit integers not noticed;
lanes counted as 8.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

import kernel_checks
import pytest
from helpers import llvmpipe, only_llvmpipe, swiftshader
from kernel_cases import ALL, Case
from kernel_runs import constants_of, facts, on_device
from phobos_sim.errors import UnavailableError

NO_NARROW_STORAGE = {"storage16": False, "storage8": False, "int16": False, "int8": False}
FACTS: dict[str, dict[str, Any]] = {
    "no narrow storage": NO_NARROW_STORAGE,
    "no 64 bits, no shuffles": {**NO_NARROW_STORAGE, "int64": False, "float64": False, "subgroup_shuffle": False},
    "little memory": {
        "kind": "integrated", "loop_budget": None, "subgroup_shuffle": False, "subgroup_size": 1, "shared_bytes": 1024,
        "max_invocations": 128,
    },
    "a discrete GPU": {"kind": "discrete", "loop_budget": None},
}  # fmt: skip
KERNELS = (
    "f32_fma", "f16_tensorcore", "f16_fma", "mixed_fma", "i8_blocks", "u8_by_i8", "bf16_fma", "matrix_vector",
    "sums_256", "sums_f16", "softmax", "broadcasts", "row_indices", "moves", "wide_swap", "branches", "jumps", "ranges",
    "whiles",
    "shifted", "in_place_exp", "point_update", "points", "large", "lookup", "i8_ops", "u8_ops", "i64_ops", "f16_ops",
    "bools", "rank_1",
)  # fmt: skip
CHOSEN = {case.kernel: case for case in reversed(ALL) if case.kernel in KERNELS}


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("case", CHOSEN.values(), ids=lambda case: case.id)
@pytest.mark.filterwarnings("ignore")
def test_kernels_with_fewer_features(case: Case, name: str) -> None:
    llvmpipe()
    lacks_int64 = FACTS[name].get("int64") is False
    with facts(**FACTS[name]):
        if lacks_int64 and case.wide:
            with pytest.raises(UnavailableError, match="lacks shaderInt64"):
                case.agree(registers=False)
        else:
            case.agree(registers=False)


def _case(kernel: str, at: int = 0) -> Case:
    return [case for case in ALL if case.kernel == kernel][at]


@pytest.mark.parametrize("kernel", ["computed_operands", "seeds"])
def test_integer_chains_that_would_unroll_go_to_memory(kernel: str) -> None:
    """Without float64 an FFMA is integers here: hundreds of them written out would take a compiler minutes."""
    case = _case(kernel)
    with facts(float64=False):
        case.agree(only=[None])
        launched, _ = on_device(case.load(), case.grid, case.make(), only_llvmpipe())
    assert launched.form == "shared" and "integer arithmetic" in "".join(launched.notes)
    launched, _ = on_device(case.load(), case.grid, case.make(), only_llvmpipe())
    assert "integer arithmetic" not in "".join(launched.notes)


# ---- limits --------------------------------------------------------------------------------------------------------


SPLIT = [_case("add"), _case("sums_256", 1), _case("f32_fma", 1), _case("large")]
CROWDED = [_case("moves"), _case("row_indices"), _case("i8_blocks"), _case("swap", 2)]


@pytest.mark.parametrize("case", SPLIT, ids=lambda case: case.id)
def test_grids_are_split_at_the_device_s_limit(case: Case) -> None:
    with facts(max_groups=(2, 1, 1)):
        case.agree(registers=False)


@pytest.mark.parametrize("case", CROWDED, ids=lambda case: case.id)
def test_tiles_live_in_a_scratch_buffer_where_shared_memory_is_short(case: Case) -> None:
    """No shared memory at all, and scratch for one workgroup at a time."""
    with facts(shared_bytes=0), constants_of({"gpu.run.SCRATCH_BYTES": 1}):
        case.agree(registers=False)


def test_an_array_beyond_the_binding_limit_names_it() -> None:
    case = _case("add")
    with facts(max_buffer_bytes=512), pytest.raises(UnavailableError, match=r"argument A .* binds at most 512"):
        case.agree()


# ---- other drivers -------------------------------------------------------------------------------------------------

ELSEWHERE = (
    "products.f32_fma", "products.accumulate", "products.i8_blocks", "products.bf16_fma", "products.f16_gemm",
    "rows.sums_256", "rows.broadcasts", "control.swap", "control.wide_swap", "control.jumps", "memory.shifted",
    "memory.points", "memory.add", "numbers.i8_ops", "numbers.bools", "numbers.i64_ops",
)  # fmt: skip


@functools.cache
def elsewhere(*environment: tuple[str, str]) -> dict[str, Any]:
    """The report of `kernel_checks` under other variables."""
    done = subprocess.run(
        [sys.executable, kernel_checks.__file__, "vulkan", *ELSEWHERE],
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **dict(environment)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _wrong(report: dict[str, Any], wide: bool) -> dict[str, str]:
    """What is neither equal nor, where 64 bits are missing, unavailable for that reason."""
    lacking = {f"{case.file}.{case.id}" for case in ALL if case.wide and not wide}
    return {
        name: found
        for name, found in report["cases"].items()
        if found != "equal" and not (name in lacking and found.startswith("unavailable:") and "shaderInt64" in found)
    }


@pytest.mark.parametrize("width, lanes", [("128", 4), ("512", 16)])
def test_kernels_on_other_vectors(width: str, lanes: int) -> None:
    only_llvmpipe()
    report = elsewhere(("LP_NATIVE_VECTOR_WIDTH", width))
    assert report["lanes"] == lanes
    assert len(report["cases"]) > 40
    assert _wrong(report, wide=True) == {}


def test_kernels_on_swiftshader() -> None:
    driver = swiftshader()
    report = elsewhere(("VK_DRIVER_FILES", driver), ("VK_ICD_FILENAMES", driver))
    assert "SwiftShader" in report["device"]
    assert _wrong(report, wide=False) == {}
    assert any(found.startswith("unavailable") for found in report["cases"].values())
