"""How to say things in the spelling the user writes: hints show `.ph` or Python, whichever the source is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from .builtins import BUILTINS


def let(spelling: str, name: str) -> str:
    """A declaration of `name` as an immutable value."""
    return f"`{name}: ph.let = ...`" if spelling == "python" else f"`let {name} = ...`"


def var(spelling: str, name: str) -> str:
    """A declaration of `name` as a variable."""
    return f"`{name}: ph.var = ...`" if spelling == "python" else f"`var {name} = ...`"


def call(spelling: str, function: str, args: str) -> str:
    """A call of a builtin."""
    return f"`ph.{function}({args})`" if spelling == "python" else f"`{function}({args})`"


def calls(spelling: str, hint: str) -> str:
    """A hint whose calls of builtins, written as in `.ph`, read as the user has to write them."""
    if spelling != "python":
        return hint
    return re.sub(r"(?<![\w.])(\w+)\(", lambda found: f"{'ph.' if found[1] in BUILTINS else ''}{found[0]}", hint)


def attribute(spelling: str, name: str, args: str = "") -> str:
    """An attribute line."""
    args = f"({args})" if args else ""
    return f"`@ph.{name}{args}`" if spelling == "python" else f"`@{name}{args}`"


def tune(spelling: str, name: str) -> str:
    """An autotune line that makes `name` a constant."""
    return f"`@ph.autotune({name}=[64])`" if spelling == "python" else f"`@autotune({name} in [64])`"


def tile(spelling: str, element: str, dims: str) -> str:
    """A tile type."""
    return f"`ph.tile[ph.{element}][{dims}]`" if spelling == "python" else f"`tile<{element}>[{dims}]`"


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A sentence naming the nearest known name, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean `{found[0]}`? " if found else ""


def count(number: int, noun: str) -> str:
    """A number of things in words: 1 argument, 2 arguments."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
