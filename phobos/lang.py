"""`import phobos.lang as ph`: re-exports `phobos_sim.lang`, so that kernels written for Phobos import unchanged."""

from __future__ import annotations

from typing import Any

from phobos_sim.lang import *  # noqa: F403
from phobos_sim.lang import Kernel, fn, kernel, load, lookup

__all__ = ["Kernel", "fn", "kernel", "load"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return lookup(name)
