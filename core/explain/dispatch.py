"""`sim.explain`: which explanation an instruction gets, and its operands as codes.

Rules
 1. Operands are unsigned codes or arrays of the operand types, as `sim.execute` takes them; a Python float is rounded
    to the operand's format. a and b are vectors along k, as long as you like; c is one addend.
 2. HMMA of every architecture: groups. FFMA, HFMA2, HFMA2.BF16_V2, DFMA: chains. FADD, FMUL, HADD2, HMUL2: chains of
    one step. MUFU and conversions: one operand. Anything else is a UsageError that lists these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import arrays, isa
from ..errors import UsageError
from ..execute import find
from ..formats import F32, TF32, Format
from ..isa import Arch, Instruction
from . import numbers
from .conversions import ConversionExplanation, explain_conversion
from .explanation import CHAINS, DotExplanation, explain_dot
from .mufu import MufuExplanation, explain_mufu

Explanation = DotExplanation | MufuExplanation | ConversionExplanation

#: Additions and multiplications, as a chain of one step: function -> (chain, where the operands go).
ONE_STEP = {"fadd": "a+b", "fmul": "a*b", "hadd2": "a+b", "hmul2": "a*b"}


def explain(
    instruction: str,
    *operands: Any,
    arch: str = "sm_86",
    other: str | None = None,
    order: Sequence[int] | None = None,
    expected: int | None = None,
) -> Explanation:
    """Takes one result apart: which rule made it, bit by bit.

    instruction: SASS mnemonic or PTX spelling. operands: for an HMMA or a multiply-add a and b [k] and the addend c (0
    if left out); for MUFU and conversions one value. Codes (unsigned arrays, lists, integers), typed arrays, or Python
    floats. arch, other: the architecture, and one to show beside it. order: a permutation of k to compare with
    (default: reversed). expected: a code to compare with, measured on a card, say. Returns an explanation: print it,
    `json()`, `markdown()`, `html()`, `to_dict()`, or its fields. Raises UsageError.
    """
    row = find(instruction, arch)
    if other is not None and other not in isa.ARCHS:
        raise UsageError(f"unknown arch {other!r}; known are {', '.join(isa.ARCHS)}")
    return dispatch(row, isa.ARCHS[arch], [codes_of(row, i, x) for i, x in enumerate(operands)], other, order, expected)


def dispatch(
    row: Instruction,
    arch: Arch,
    operands: Sequence[Sequence[int]],
    other: str | None = None,
    order: Sequence[int] | None = None,
    expected: int | None = None,
    notes: Sequence[str] = (),
) -> Explanation:
    """The explanation of a row; operands: codes along k, one list per operand."""
    if row.family in ("mufu", "convert"):
        if len(operands) != 1 or len(operands[0]) != 1:
            raise UsageError(f"{row.key} takes one operand of one element; found {[len(x) for x in operands]} elements")
        make = explain_mufu if row.family == "mufu" else explain_conversion
        return make(row, arch, operands[0][0], expected=expected, notes=tuple(notes))
    if row.family == "tensor" or row.key in CHAINS:
        if len(operands) not in (2, 3):
            raise UsageError(f"{row.key} takes a, b and an addend c (0 if left out); found {len(operands)} operands")
        a, b, *rest = operands
        c = rest[0] if rest else [0]
        if len(c) != 1:
            raise UsageError(f"{row.key}: the addend c of one dot is one number, found {len(c)}")
        return explain_dot(row, arch, a, b, c[0], other=other, order=order, expected=expected, notes=notes)
    if row.function in ONE_STEP and row.keywords.get("rounding", "rn") == "rn" and row.key[:4] != "sub.":
        return _one_step(row, arch, operands, expected, notes)
    raise UsageError(f"{row.key} has no explanation; those with one: HMMA.*, {', '.join(CHAINS)}, FADD, FMUL, HADD2, "
                     "HMUL2, MUFU.*, cvt.*. A sequence is explained one instruction at a time "
                     f"({', '.join(row.expansion)})")  # fmt: skip


def _one_step(
    row: Instruction, arch: Arch, operands: Sequence[Sequence[int]], expected: int | None, notes: Sequence[str]
) -> DotExplanation:
    """a + b as a * 1 + b, a * b as a * b + -0: the same results, rounded once."""
    if len(operands) != 2 or len(operands[0]) != 1 or len(operands[1]) != 1:
        raise UsageError(f"{row.key} takes two operands of one element each")
    fmt = row.result
    assert fmt is not None
    (a,), (b,) = operands
    one = fmt.bias << fmt.fraction_bits
    adds = ONE_STEP[row.function] == "a+b"
    left, right, addend = (a, one, b) if adds else (a, b, fmt.sign_bit)
    return explain_dot(row, arch, [left], [right], addend, expected=expected, notes=notes)


def codes_of(row: Instruction, position: int, operand: Any) -> list[int]:
    """One operand as codes along k."""
    if position >= len(row.operands):
        raise UsageError(f"{row.key} takes {len(row.operands)} operands")
    fmt = row.operands[position]
    assert fmt is not None
    where = f"operand {'abc'[position]} of {row.key}"
    register = F32 if fmt is TF32 else fmt
    if isinstance(operand, float):
        return [arrays.scalar_code(operand, register, where=where)]
    if isinstance(operand, list | tuple):
        if any(isinstance(x, float) for x in operand):
            return [arrays.scalar_code(float(x), register, where=where) for x in operand]
        operand = (
            np.array(operand, np.uint64) if all(isinstance(x, int) and x >= 0 for x in operand) else np.array(operand)
        )
    if isinstance(operand, int):
        operand = np.array(operand, np.uint64) if operand >= 0 else np.array(operand)
    codes, found = arrays.as_codes(np.asarray(operand) if np.ndim(operand) == 0 else operand, where=where)
    if not _fits(found, fmt):
        raise UsageError(f"{where}: {fmt.name} or unsigned codes are needed, found {found.name}")
    flat = [int(code) for code in np.ravel(codes)]
    if any(code >> fmt.bits for code in flat):
        raise UsageError(f"{where}: a code of {fmt.name} has {fmt.bits} bits, found {max(flat):#x}")
    return flat


def _fits(found: Format, wanted: Format) -> bool:
    return found == wanted or found.kind == "unsigned" or (found == F32 and wanted == TF32)


def read(row: Instruction, position: int, text: str) -> tuple[list[int], list[str]]:
    """An operand as a user writes it on the command line: (codes along k, notes)."""
    fmt = row.operands[position]
    assert fmt is not None
    return numbers.read_vector(text, fmt)
