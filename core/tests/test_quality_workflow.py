"""docs/workflow.yml: the commands that it gives to others are run here, in a clean folder, as GitHub would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers import ROOT, llvmpipe

WORKFLOW = (ROOT / "docs" / "workflow.yml").read_text()


def commands(step: str) -> list[str]:
    """The lines of a step's `run: |`."""
    found = re.search(rf"- name: {step}\n\s+run: \|\n((?:\s{{10}}.*\n?)+)", WORKFLOW)
    assert found is not None, f"no step {step!r}"
    return [line.strip() for line in found[1].splitlines() if line.strip()]


@pytest.mark.device
@pytest.mark.parametrize("step", ["Score", "Another implementation"])
def test_the_commands_succeed(step: str, tmp_path: Path) -> None:
    llvmpipe()
    for name in ("recordings", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (
        ("phobos-sim", f'exec "{sys.executable}" -m phobos_sim "$@"'),
        ("python", f'exec "{sys.executable}" "$@"'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    script = "set -e\n" + "\n".join(commands(step))
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    if step == "Score":
        assert "phobos-sim score" in (tmp_path / "summary.md").read_text()
        assert len(ElementTree.parse(tmp_path / "score.xml").getroot()) > 5
        assert (tmp_path / "score.html").stat().st_size > 100_000


def test_it_installs_what_the_scoreboard_needs() -> None:
    text = "\n".join(commands("Install"))
    assert "libvulkan1" in text and "mesa-vulkan-drivers" in text and "pip install" in text
