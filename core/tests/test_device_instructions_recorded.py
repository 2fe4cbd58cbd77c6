"""The 55 operations recorded on an H200, in every form, on lavapipe and on SwiftShader: no mismatch (issue 3, 1)."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import instruction_checks as checks
import numpy as np
import phobos_sim as sim
import pytest
from helpers import assert_codes, llvmpipe, shared, swiftshader
from phobos_sim.gpu import device as devices
from phobos_sim.recordings import corners

CORNERS = Path(__file__).resolve().parents[2] / "recordings" / "corners" / "reported.txt"


def recording() -> Path:
    return shared("silicon", "sm90-h200-scalar.npz")


@pytest.mark.parametrize("instructions", [None, "native", "integer"])
def test_recorded_operations_on_llvmpipe(instructions: str | None) -> None:
    """native raises where a row's device forms are all inexact, so every operation has one here."""
    device = devices.open_device(llvmpipe())
    found = checks.recorded_differences(device, recording(), instructions)
    assert len(found) == 55
    assert {name: number for name, number in found.items() if number} == {}


def test_a_wrong_recording_is_noticed(tmp_path: Path) -> None:
    """One flipped bit of one result counts as one difference."""
    device = devices.open_device(llvmpipe())
    with np.load(recording(), allow_pickle=False) as data:
        arrays = {key: data[key][:256].copy() for key in data.files if key.startswith("fma.rn.f16.")}
    arrays["fma.rn.f16.out"][77] ^= 1
    np.savez(tmp_path / "wrong.npz", **arrays)
    assert checks.recorded_differences(device, tmp_path / "wrong.npz", None) == {"fma.rn.f16": 1}


@functools.cache
def on_swiftshader() -> dict[str, dict[str, int]]:
    """`instruction_checks` in a process that sees SwiftShader only."""
    driver = swiftshader()
    script = Path(checks.__file__)
    done = subprocess.run(
        [sys.executable, str(script), "vulkan", str(recording())],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("instructions", ["None", "integer"])
def test_recorded_operations_on_swiftshader(instructions: str) -> None:
    """It flushes subnormals, fuses nothing and has no 64-bit type: every operation is exact all the same."""
    report = on_swiftshader()
    assert "SwiftShader" in str(report["device"])
    found = report[f"recorded {instructions}"]
    assert len(found) == 55
    assert {name: number for name, number in found.items() if number} == {}


def test_every_row_on_swiftshader_equals_the_reference() -> None:
    report = on_swiftshader()
    assert report["differ"] == {}
    assert report["none"] == []
    assert all(key.split(".")[-1] in ("s64", "f64") or "64" in key or key[0] == "D" for key in report["lacking"])


CASES = [corner for corner in corners.read(CORNERS) if not corner.instruction.is_matrix]


@pytest.mark.parametrize("instructions", [None, "integer"])
@pytest.mark.parametrize("corner", CASES, ids=lambda corner: corner.name)
def test_reported_cases_on_llvmpipe(corner: corners.Corner, instructions: str | None) -> None:
    """cases/reported.md C2, C3, C7, C8, C10 to C12, C14."""
    actual = sim.execute(corner.instruction.key, *corner.batch(), device=llvmpipe(), instructions=instructions)
    assert_codes(actual, np.array([corner.expected["sm_86"]], actual.dtype), corner.reason)
