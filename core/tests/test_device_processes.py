"""The Vulkan runtime as a process sees it: the exit, timeouts, forks, two drivers at once. Each has its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import llvmpipe, swiftshader
from runtime_samples import device_name

pytestmark = pytest.mark.device

PREAMBLE = """
import os, sys
sys.path.insert(0, {tests!r})
import numpy as np
import runtime_samples as t
from phobos_sim.errors import *
from phobos_sim.gpu import device as devices
"""


def script(body: str, **env: str) -> str:
    """Run Python code in a process of its own; returns its output. Anything on stderr fails."""
    code = PREAMBLE.format(tests=str(Path(__file__).parent)) + body
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_leaving_everything_open_at_exit_is_fine() -> None:
    name = device_name()
    out = script(
        f"""
gpu = devices.open_device({name!r})
made, buffers = t.add(gpu), [gpu.buffer(64) for _ in range(3)]
gpu.dispatch(made, buffers[:2], [0, 1])
view = buffers[0].view()
print("end")
"""
    )
    assert out == "end\n"


def test_a_timeout_abandons_the_device() -> None:
    """The error names the variable; what was on the device is refused; the process still ends."""
    name = device_name()
    out = script(
        f"""
gpu = devices.open_device({name!r})
out, made = gpu.buffer(64), gpu.pipeline(t.trips_module(), 1, 2)
gpu.dispatch(made, [out], [0, 1])
os.environ["PHOBOS_TIMEOUT"] = "0.2"
try:
    gpu.dispatch(made, [out], [0, 60000], (65535, 1, 1))
except DispatchTimeout as error:
    print(error.exit_status, "PHOBOS_TIMEOUT" in str(error))
try:
    out.read()
except UnavailableError as error:
    print("closed or was lost" in str(error), gpu.alive)
out.close(); made.close(); gpu.close()
"""
    )
    assert out == "2 True\nTrue False\n"


def test_after_a_timeout_the_device_opens_anew() -> None:
    name = device_name()
    out = script(
        f"""
gpu = devices.open_device({name!r})
out, made = gpu.buffer(64), gpu.pipeline(t.trips_module(), 1, 2)
os.environ["PHOBOS_TIMEOUT"] = "0.0001"
groups = 64
while True:
    try:
        gpu.dispatch(made, [out], [0, 60000], (groups, 1, 1))
        groups *= 4
    except DispatchTimeout:
        break
del os.environ["PHOBOS_TIMEOUT"]
again = devices.open_device({name!r})
t.check_words(again)
print(again is gpu, again.alive)
"""
    )
    assert out == "False True\n"


def test_a_forked_child_opens_its_own_device() -> None:
    """On lavapipe: SwiftShader, for one, does not survive a fork itself; the smoke dispatch finds that out."""
    name = llvmpipe()
    out = script(
        f"""
gpu = devices.open_device({name!r})
t.check_words(gpu)
child = os.fork()
if child == 0:
    try:
        assert not gpu.alive
        t.check_words(devices.open_device({name!r}))
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
t.check_words(gpu)
"""
    )
    assert out == "0\n"


def test_two_drivers_at_once() -> None:
    """lavapipe and SwiftShader in one process give the same words; a part of both names is ambiguous."""
    llvmpipe()
    files = [*Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"), swiftshader()]
    if len(files) < 2:
        pytest.skip("Vulkan: lavapipe's driver file is not in /usr/share/vulkan/icd.d")
    both = os.pathsep.join(map(str, files))
    out = script(
        """
known = devices.devices()
print([info.name.split()[0] for info in known])
for name in ("vulkan:llvmpipe", "vulkan:swift", "vulkan:1", "vulkan:0"):
    gpu = devices.open_device(name)
    t.check_words(gpu)
    print(gpu.info.index, gpu.target.subgroup_size > 1, gpu.target.loop_budget)
one, other = devices.open_device("vulkan:0"), devices.open_device("vulkan:1")
foreign, buffers = t.add(other), [one.buffer(64), one.buffer(64)]
for wrong in (lambda: devices.open_device("vulkan:e"), lambda: one.dispatch(foreign, buffers, [0, 0])):
    try:
        wrong()
    except PhobosError as error:
        print(type(error).__name__, "ambiguous" in str(error), "another device" in str(error))
out = other.buffer(64)
other.dispatch(other.pipeline(t.trips_module(), 1, 2), [out], [0, 70000])
print(out.read()[0])
""",
        VK_DRIVER_FILES=both,
        VK_ICD_FILENAMES=both,
    )
    assert out.splitlines() == [
        "['llvmpipe', 'SwiftShader']",
        "0 True 65000",
        "1 True None",
        "1 True None",
        "0 True 65000",
        "UsageError True False",
        "LaunchError False True",
        "70000",
    ]
