"""The Phobos language: syntax tree, both spellings, attributes, and the Python surface `ph`.

`import phobos.lang as ph` re-exports this module. Nothing heavy is imported here: the `.ph` grammar, `ast` and the
lowering come in when a kernel is first read.
"""

from __future__ import annotations

from typing import Any

from .kernel import Kernel
from .load import LoadedModule, load
from .surface import NAMES, lookup
from .surface import fn as fn
from .surface import kernel as kernel

__all__ = ["Kernel", "LoadedModule", "load", *NAMES]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return lookup(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
