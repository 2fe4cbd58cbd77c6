"""Tests find the repository's own recordings, also where the package under test is a regular install."""

from __future__ import annotations

import os

from helpers import ROOT

os.environ.setdefault("PHOBOS_RECORDINGS", str(ROOT / "recordings"))
