"""Recordings of real silicon: file format, loader, importer of public sets, recorder."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The folder of this project's own recordings: PHOBOS_RECORDINGS, `recordings/` beside the sources, or here."""
    chosen = os.environ.get("PHOBOS_RECORDINGS")
    if chosen:
        return Path(chosen)
    beside = Path(__file__).resolve().parents[2] / "recordings"
    return beside if beside.is_dir() else Path("recordings")
