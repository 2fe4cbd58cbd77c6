"""Limits that a user may set: how many trips a loop may make before it is taken for endless."""

from __future__ import annotations

import os

from .errors import UsageError

VARIABLE = "PHOBOS_MAX_TRIPS"


def max_trips(default: int) -> int:
    """PHOBOS_MAX_TRIPS; the default of a backend where it is not set or empty."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{VARIABLE} is {text!r}; it is a number of loop trips, at least 1")
    return int(text)
