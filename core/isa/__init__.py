"""The instruction table: which instructions exist, what each means, and how well that is known.

Pure data. `reference` and `gpu` resolve a row's family and function in their own files; the documentation, the test ids
and the scoreboard iterate over `INSTRUCTIONS`. This package imports nothing of the project but `formats`.
"""

from __future__ import annotations

from difflib import get_close_matches

from . import (
    table_convert,
    table_double,
    table_half,
    table_integer,
    table_mufu,
    table_sequences,
    table_single,
    table_tensor,
)
from .arch import ARCHS, SM86, Arch
from .instruction import Evidence, Instruction, MmaShape

#: Family modules, in reading order; also the names of the files in `reference/` and `gpu/sm86/`.
FAMILIES = ("single", "half", "double", "mufu", "convert", "integer", "tensor", "integer_tensor", "sequences")

INSTRUCTIONS: tuple[Instruction, ...] = (
    *table_single.ROWS,
    *table_half.ROWS,
    *table_double.ROWS,
    *table_mufu.ROWS,
    *table_convert.ROWS,
    *table_integer.ROWS,
    *table_tensor.ROWS,
    *table_sequences.ROWS,
)


class UnknownInstruction(LookupError):
    """A name that is neither a key nor a PTX spelling of the table; lists close matches."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name = name
        close = get_close_matches(name, known, n=4, cutoff=0.5)
        hint = f"; did you mean {', '.join(close)}?" if close else "; see docs/instructions.md for the list"
        super().__init__(f"unknown instruction {name!r}{hint}")


def _names() -> dict[str, Instruction]:
    table: dict[str, Instruction] = {}
    for instruction in INSTRUCTIONS:
        for name in (instruction.key, *instruction.ptx):
            assert name not in table, f"{name} names two rows: {table[name].key} and {instruction.key}"
            table[name] = instruction
        assert instruction.family in FAMILIES, instruction
    return table


_BY_NAME = _names()


def lookup(name: str) -> Instruction:
    """The row with this key or PTX spelling; UnknownInstruction if there is none."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownInstruction(name, list(_BY_NAME)) from None


__all__ = [
    "ARCHS",
    "FAMILIES",
    "INSTRUCTIONS",
    "SM86",
    "Arch",
    "Evidence",
    "Instruction",
    "MmaShape",
    "UnknownInstruction",
    "lookup",
]
