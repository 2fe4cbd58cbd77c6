"""CI's own rules: a skip for something that the machine has fails the run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from helpers import ROOT


def skips(tmp_path: Path, reason: str) -> int:
    """Exit status of .ci/skips.py for a run in which one test skipped with this reason."""
    report = tmp_path / "tests.xml"
    report.write_text(
        f'<testsuite><testcase name="t"><skipped type="pytest.skip" message="{reason}"/></testcase></testsuite>'
    )
    return int(runpy.run_path(str(ROOT / ".ci" / "skips.py"))["main"](str(report)))


@pytest.mark.parametrize("there", [True, False])
def test_shared_material_may_be_missing_but_not_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setenv("PHOBOS_SHARED", str(tmp_path if there else tmp_path / "nothing"))
    assert skips(tmp_path, "shared material: no cases/t03_matmul.py in shared/") == there


def test_a_vulkan_skip_always_fails(tmp_path: Path) -> None:
    assert skips(tmp_path, "Vulkan: no llvmpipe device") == 1


def test_other_reasons_pass(tmp_path: Path) -> None:
    assert skips(tmp_path, "CUDA: no NVIDIA driver") == 0


@pytest.mark.parametrize("script", ["setup", "demo", "test", "check", "bench", "swiftshader"])
def test_scripts_are_bash_that_stops_at_errors(script: str) -> None:
    text = (ROOT / "script" / script).read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text or script == "check" and "set -uo pipefail" in text
