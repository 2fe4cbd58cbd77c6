"""Recordings of real silicon: file format, loader, importer of public sets, recorder."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The folder of this project's own recordings: PHOBOS_RECORDINGS, else `recordings/` of a checkout."""
    chosen = os.environ.get("PHOBOS_RECORDINGS")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[2] / "recordings"
