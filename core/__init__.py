"""phobos-sim: runs Phobos kernels on any Vulkan device and stores the bits that an SM86 card would store.

The public interface (`import phobos_sim as sim`). Everything is imported at first use, so that importing the package
costs nothing: neither numpy nor a Vulkan loader is touched before something is run.

load(path)          kernels of a `.py` or `.ph` source, which is read and never executed
use(device=...)     choose the device: a function and a context manager
execute(name, ...)  one SM86 instruction or PTX operation on batches of codes or arrays
compare(a, b)       two arrays as codes: counts by class, first and worst difference
explain(name, ...)  one result taken apart bit by bit: which rule makes it differ from IEEE arithmetic
diff(kernel, ...)   a kernel run under two kinds of arithmetic: what differs, where, from which line on
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what type checkers see; `_HOME` says the same to the interpreter
    from . import errors as errors
    from . import isa as isa
    from . import lang as lang
    from .choose import use as use
    from .compare import Comparison as Comparison
    from .compare import compare as compare
    from .errors import DifferenceError as DifferenceError
    from .errors import KernelError as KernelError
    from .errors import LaunchError as LaunchError
    from .errors import PhobosError as PhobosError
    from .errors import RecordingError as RecordingError
    from .errors import UnavailableError as UnavailableError
    from .errors import UsageError as UsageError
    from .execute import execute as execute
    from .explain import diff as diff
    from .explain import explain as explain
    from .lang.kernel import Kernel as Kernel
    from .lang.load import load as load
    from .launch import Launch as Launch

__version__ = "0.1.0"

# public name -> module that defines it; None: the module itself
_HOME: dict[str, str | None] = {
    "load": ".lang.load",
    "use": ".choose",
    "Kernel": ".lang.kernel",
    "Launch": ".launch",
    "execute": ".execute",
    "compare": ".compare",
    "Comparison": ".compare",
    "explain": ".explain",
    "diff": ".explain",
    "errors": None,
    "isa": None,
    "lang": None,
    "PhobosError": ".errors",
    "KernelError": ".errors",
    "LaunchError": ".errors",
    "DifferenceError": ".errors",
    "UsageError": ".errors",
    "RecordingError": ".errors",
    "UnavailableError": ".errors",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f".{name}", __name__) if home is None else getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


class _Package(ModuleType):
    """This module's type. Importing a submodule binds its name in the package; a public function of that name stays."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and _HOME.get(name)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
