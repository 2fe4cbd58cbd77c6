"""PHOBOS_LOG=off|info|debug: what the package says on stderr about its own decisions. The default is info."""

from __future__ import annotations

import os
import sys

LEVELS = {"off": 0, "info": 1, "debug": 2, "trace": 2}


def level() -> int:
    return LEVELS.get(os.environ.get("PHOBOS_LOG", "info").strip().lower(), 1)


def info(message: str) -> None:
    if level() >= 1:
        print(f"phobos-sim: {message}", file=sys.stderr)


def debug(message: str) -> None:
    if level() >= 2:
        print(f"phobos-sim: {message}", file=sys.stderr)
