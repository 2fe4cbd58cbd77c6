"""Runs one row of the instruction table on codes: resolves its family and function and applies its options."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ..formats import Codes
from ..isa import SM86, Arch, Instruction


def function(instruction: Instruction) -> Callable[..., Codes]:
    """The numpy twin of a row."""
    module = import_module(f".{instruction.family}", __package__)
    return getattr(module, instruction.function)  # type: ignore[no-any-return]


def apply(instruction: Instruction, *codes: Codes) -> Codes:
    """An elementwise instruction on operand codes of one shape (or broadcasting)."""
    return function(instruction)(*codes, **instruction.keywords)


def mma(instruction: Instruction, a: Codes, b: Codes, c: Codes, arch: Arch = SM86) -> Codes:
    """Batches of a matrix instruction: a [t, m, k], b [t, k, n], c [t, m, n] -> [t, m, n]."""
    keywords = {"arch": arch} if instruction.family == "tensor" else {}
    return function(instruction)(a, b, c, **keywords, **instruction.keywords)


__all__ = ["apply", "function", "mma"]
