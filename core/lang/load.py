"""Kernels from files: `load(path)` reads a `.py` or `.ph` source and runs none of it (design.md 10)."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import Source, UsageError
from . import syntax as syn
from .kernel import Kernel
from .spelling import closest


class UnknownKernel(UsageError, AttributeError):
    """A loaded source has no kernel of that name."""


class LoadedModule:
    """The kernels of one source file as attributes.

    kernels: name -> Kernel in source order. tree: the syntax tree of the whole source.
    """

    def __init__(self, path: str, source: Source, tree: syn.Module) -> None:
        self.path = path
        self.tree = tree
        self.kernels = {name: Kernel.from_tree(name, source, tree) for name in tree.kernels}

    def __getattr__(self, name: str) -> Kernel:
        kernels: dict[str, Kernel] = self.__dict__.get("kernels", {})
        if name in kernels:
            return kernels[name]
        listed = ", ".join(kernels) or "none"
        path = self.__dict__.get("path")
        raise UnknownKernel(f"{path} has no kernel `{name}`: {closest(name, kernels)}kernels: {listed}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.kernels]

    def __repr__(self) -> str:
        return f"<{self.path}: kernels {', '.join(self.kernels) or 'none'}>"


def no_source(path: str | os.PathLike[str]) -> UsageError:
    """What to raise for a path at which there is no file."""
    what = "a folder" if os.path.isdir(path) else "no such file"
    return UsageError(f"{path}: {what}; give the path of a .py or .ph source")


def read_source(path: str | os.PathLike[str]) -> Source:
    """The text of a file. Raises UsageError where it cannot be read as UTF-8 text."""
    name = os.fspath(path)
    try:
        return Source(name, Path(name).read_text(encoding="utf-8-sig"))
    except (IsADirectoryError, FileNotFoundError):
        raise no_source(name) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{name}: cannot be read as UTF-8 text: {problem}") from None


def parse_source(source: Source) -> syn.Module:
    """The tree of a source, in the spelling that its name's ending says. Raises KernelError, UsageError."""
    if source.path.endswith(".py"):
        from .python import read_python

        return read_python(source)
    if source.path.endswith(".ph"):
        from .ph import read_ph

        return read_ph(source)
    raise UsageError(f"{source.path}: neither .py nor .ph; the ending says which spelling it is in")


def load(path: str | os.PathLike[str]) -> LoadedModule:
    """Reads a `.py` or `.ph` source without running it; the result's attributes are its kernels.

    Raises KernelError for a source that is wrong, UsageError for a file that is missing or of another kind.
    """
    source = read_source(path)
    return LoadedModule(source.path, source, parse_source(source))
