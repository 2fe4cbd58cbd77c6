"""The pytest plugin, run in a process of its own as another project would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recording_samples import adds


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_inner.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    # by name, and not by entry point: the same whether this checkout is installed or not
    plugin = ["-p", "phobos_sim.pytest_plugin", "-p", "no:cacheprovider", *(["-p", "xdist"] if "-n" in options else [])]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, *options, str(folder)],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )


def test_assert_bits_equal(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import numpy as np
def test_equal(assert_bits_equal):
    assert_bits_equal(np.float32([1, -0.0]), np.uint32([0x3f800000, 0x80000000]))
def test_differs(assert_bits_equal):
    assert_bits_equal(np.uint16([0x3f80, 1]), np.uint16([0x3f81, 1]), "bf16", "my kernel")
""",
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "my kernel: 1 of 2 codes differ (1 value); first at 0: 3f80, expected 3f81 (value, 1 ulp)" in done.stdout


INNER = """
import numpy as np
import phobos_sim as sim
def test_recordings(phobos_recordings):
    assert [r.manifest.card for r in phobos_recordings] == ["made up"]
def test_row(phobos_row, phobos_device, assert_bits_equal):
    recording, row = phobos_row
    for chunk in recording.chunks(row):
        assert_bits_equal(sim.execute(row.instruction, *chunk.inputs, device=phobos_device), chunk.output)
def test_score(phobos_score, phobos_recordings):
    assert phobos_score([r.path for r in phobos_recordings]).passed
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_fixtures_rows_and_xdist(tmp_path: Path, options: tuple[str, ...]) -> None:
    adds(tmp_path / "sets")
    done = run(tmp_path, INNER, "--phobos-recordings", str(tmp_path / "sets"), *options)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_a_wrong_implementation_fails_with_the_row(tmp_path: Path) -> None:
    adds(tmp_path / "sets")
    done = run(
        tmp_path,
        """
def wrong(name, arch, a, b):
    return a
def test_mine(phobos_score, phobos_recordings):
    phobos_score([r.path for r in phobos_recordings], against=wrong)
""",
        "--phobos-recordings",
        str(tmp_path / "sets"),
    )
    assert "1 failed" in done.stdout and "sets/adds FADD (derived)" in done.stdout, done.stdout


def test_a_device_that_is_not_here_skips(tmp_path: Path) -> None:
    text = "def test_device(phobos_device):\n    assert phobos_device == 'reference'\n"
    assert "1 passed" in run(tmp_path, text).stdout
    done = run(tmp_path, text, "--phobos-device", "vulkan:no such card", "-rs")
    assert "1 skipped" in done.stdout and "no such card" in done.stdout, done.stdout
    assert "unknown device" in run(tmp_path, text, "--phobos-device", "gpu").stdout
