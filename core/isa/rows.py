"""Helpers that write rows of the instruction table, and the standard wordings of evidence.

A table file is a list of `row(...)` calls, one line for most instructions; everything that repeats (formats from
their names, evidence per architecture) is here.
"""

from __future__ import annotations

from ..formats import FORMATS, Format
from .instruction import Evidence, Instruction, MmaShape

SCALAR_SET = "16,384 results recorded on an H200 (sm90-h200-scalar) and recordings/sm90-h200, none differing"
OWN_SET = "recorded on an H200 (recordings/sm90-h200), none differing"
MMA_SET = "raw random bits recorded on an H200 (sm90-h200-mma) and recordings/sm90-h200, none differing"

#: Correctly rounded or integer operations that both chips define the same way, recorded on sm_90.
RECORDED = {
    "sm_86": Evidence("derived", "same operation as on sm_90, where it is recorded; no sm_86 recording"),
    "sm_90": Evidence("validated", SCALAR_SET),
}
#: Defined by IEEE 754 or by the PTX ISA, and recorded by this project.
DEFINED = {
    "sm_86": Evidence("derived", "defined by IEEE 754 and the PTX ISA, and recorded on sm_90; no sm_86 recording"),
    "sm_90": Evidence("validated", OWN_SET),
}
#: What the compiler makes of it for sm_86 is the code that was recorded on sm_90.
SAME_CODE = {
    "sm_86": Evidence("derived", "the CUDA 13.0 compiler's code for sm_86 is the one recorded on sm_90"),
    "sm_90": Evidence("validated", OWN_SET),
}
#: A sequence that LLVM 22.1 (the line Phobos builds on) emits for sm_86, recorded as such on sm_90.
LLVM_CODE = {
    "sm_86": Evidence("derived", "what LLVM 22.1 emits for sm_86, and that sequence was recorded on sm_90"),
    "sm_90": Evidence("validated", OWN_SET),
}


def formats(names: str) -> tuple[Format | None, ...]:
    """``"f32 f32"`` -> formats; ``*`` stands for any format, the same throughout."""
    return tuple(None if name == "*" else FORMATS[name] for name in names.split())


def row(
    key: str,
    function: str,
    signature: str,
    semantics: str,
    *,
    ptx: str = "",
    sass: str = "",
    evidence: dict[str, Evidence] | None = None,
    shape: MmaShape | None = None,
    since: int = 70,
    until: int = 999,
    **options: str | bool | int,
) -> Instruction:
    """One row. `function` is ``family.function``; `signature` is ``"f32 f32 -> f32"``; `ptx`, `sass`: separated by ;"""
    family, name = function.split(".")
    operands, result = signature.split("->")
    spellings = tuple(s.strip() for s in ptx.split(";") if s.strip())
    expansion = tuple(s.strip() for s in sass.split(";") if s.strip()) or (key,)
    return Instruction(
        key,
        family,
        name,
        formats(operands),
        formats(result)[0],
        semantics,
        ptx=spellings,
        options=tuple(options.items()),
        expansion=expansion,
        shape=shape,
        since=since,
        until=until,
        evidence=evidence or DEFINED,
    )
