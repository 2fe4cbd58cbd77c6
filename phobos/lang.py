"""`import phobos.lang as ph`: re-exports `phobos_sim.lang`, so that kernels written for Phobos import unchanged."""

from __future__ import annotations

from typing import Any

from phobos_sim.lang import *  # noqa: F403
from phobos_sim.lang import __all__ as __all__
from phobos_sim.lang import fn as fn
from phobos_sim.lang import kernel as kernel
from phobos_sim.lang.surface import lookup as _lookup


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _lookup(name)
