"""MUFU rows: the special function unit, bare.

Source: design.md 4.3: a closed integer form with the coefficient tables of `mufu_tables`, measured on an H200 over all
2^32 inputs of each function. The G80 documentation of 2006 lists the same tables for EX2, LG2, RCP, RSQ and SIN, so the
unit has not changed in between: derived for sm_86. Subnormal operands count as zero of their sign, except in TANH.
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Evidence, Instruction
from .rows import row

_MUFU = {
    "sm_86": Evidence("derived", "same tables in the 2006 documentation of the G80 and on the H200 measured here"),
    "sm_90": Evidence("validated", "all 2^32 inputs on an H200, none differing"),
}
_TANH = {
    "sm_86": Evidence("derived", "exact model of an H200; the unit is taken to be unchanged"),
    "sm_90": _MUFU["sm_90"],
}
_HALF = {
    "sm_86": Evidence("derived", "exact model of an H200; the unit is taken to be unchanged"),
    "sm_90": Evidence("validated", "16,384 results recorded on an H200 (sm90-h200-scalar), none differing"),
}

ROWS: tuple[Instruction, ...] = (
    row("MUFU.EX2", "mufu.ex2", "f32 -> f32", "2^a; results below 2^-126 are +0",
        ptx="ex2.approx.ftz.f32", evidence=_MUFU),
    row("MUFU.LG2", "mufu.lg2", "f32 -> f32", "log2 a", ptx="lg2.approx.ftz.f32", evidence=_MUFU),
    row("MUFU.RCP", "mufu.rcp", "f32 -> f32", "1 / a", ptx="rcp.approx.ftz.f32", evidence=_MUFU),
    row("MUFU.RSQ", "mufu.rsq", "f32 -> f32", "1 / sqrt a", ptx="rsqrt.approx.ftz.f32", evidence=_MUFU),
    row("MUFU.SQRT", "mufu.sqrt", "f32 -> f32", "sqrt a", ptx="sqrt.approx.ftz.f32", evidence=_TANH),
    row("MUFU.TANH", "mufu.tanh", "f32 -> f32", "tanh a; subnormals are kept", ptx="tanh.approx.f32", evidence=_TANH,
        since=75),
    row("MUFU.SIN", "mufu.sin", "f32 -> f32", "sine of a turns (not radians)", evidence=_MUFU),
    row("MUFU.COS", "mufu.cos", "f32 -> f32", "cosine of a turns (not radians)", evidence=_MUFU),
    row("MUFU.EX2.F16", "mufu.ex2_f16", "f16 -> f16",
        "MUFU.EX2 of the widened operand, truncated to f16; from 2^16 on infinity",
        ptx="ex2.approx.f16", evidence=_HALF, since=75),
    row("MUFU.TANH.F16", "mufu.tanh_f16", "f16 -> f16", "MUFU.TANH of the widened operand, truncated to f16",
        ptx="tanh.approx.f16", evidence=_HALF, since=75),
)
