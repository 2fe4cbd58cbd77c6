"""Limits that a user may set by variables of the environment, each a whole number of at least 1."""

from __future__ import annotations

import os

from .errors import UsageError

MAX_TRIPS = "PHOBOS_MAX_TRIPS"  # of a loop, before it is taken for endless
TUNE_VARIANTS = "PHOBOS_TUNE_VARIANTS"  # that an autotune search tries
RECORDING_LIMIT = "PHOBOS_RECORDING_LIMIT"  # bytes that a recording may unpack to

_COUNTED = {MAX_TRIPS: "loop trips", TUNE_VARIANTS: "variants", RECORDING_LIMIT: "bytes"}


def limit(variable: str, default: int) -> int:
    """The variable's number; the default where it is not set or empty. Errors: `UsageError`."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{variable} is {text!r}; it is a number of {_COUNTED[variable]}, at least 1")
    return int(text)
