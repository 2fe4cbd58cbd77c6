"""PHOBOS_LOG=off|info|debug: what the package says on stderr about its own decisions. The default is info."""

from __future__ import annotations

import os
import sys
from functools import cache

LEVELS = {"off": 0, "info": 1, "debug": 2, "trace": 2}


def level() -> int:
    chosen = os.environ.get("PHOBOS_LOG", "info").strip().lower() or "info"
    if chosen not in LEVELS:
        _unknown(chosen)
    return LEVELS.get(chosen, LEVELS["info"])


@cache
def _unknown(chosen: str) -> None:
    """Says so once."""
    known = ", ".join(LEVELS)
    print(f"phobos-sim: PHOBOS_LOG={chosen} is none of {known}; it is taken as info", file=sys.stderr)


def info(message: str) -> None:
    if level() >= 1:
        print(f"phobos-sim: {message}", file=sys.stderr)


def debug(message: str) -> None:
    if level() >= 2:
        print(f"phobos-sim: {message}", file=sys.stderr)
