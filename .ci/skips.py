"""Fail where a test skipped for want of something that this machine has.

Reads pytest's JUnit file. A skip's reason starts with the capability that is missing (core/tests/helpers.py).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("PHOBOS_SHARED") or ROOT.parent / "shared")

# capability -> whether this machine has it, so that no test may skip for it
HERE = {
    "shared material": SHARED.is_dir(),
    "recordings": (ROOT / "recordings" / "sm90-h200").is_dir(),
    "Vulkan": True,  # script/setup installs a driver
    "spirv-val": True,  # part of the test extra
    "SwiftShader": bool(os.environ.get("PHOBOS_SWIFTSHADER")),
    "Chromium": shutil.which("chromium") is not None,
    "torch": importlib.util.find_spec("torch") is not None,
}


def main(path: str) -> int:
    reasons = Counter(str(skip.get("message")) for skip in ElementTree.parse(path).iter("skipped"))
    wrong = 0
    for reason, count in sorted(reasons.items()):
        unjustified = HERE.get(reason.partition(":")[0], False)
        wrong += count if unjustified else 0
        print(f"ci: {'WRONGLY ' if unjustified else ''}skipped {count} x {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
