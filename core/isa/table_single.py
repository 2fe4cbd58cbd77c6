"""f32 rows: FADD, FMUL, FFMA, FMNMX, FSETP, FRND and what the language makes of them.

Source: design.md 4.2, docs/adr/0008. NaN results of arithmetic are canonical (7fffffff); copies and selects keep bits.
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Instruction
from .rows import DEFINED, RECORDED, SAME_CODE, row

COMPARES = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FLUSH = (
    "; subnormal operands become zero of their sign, and so do results that are below 2^-126 after rounding "
    "with an exponent without end"
)
_FLUSH_IN = "; subnormal operands become zero of their sign"

ROWS: tuple[Instruction, ...] = (
    row("FADD", "single.fadd", "f32 f32 -> f32", "a + b, rounded to nearest even",
        ptx="add.rn.f32; add.f32", evidence=RECORDED),
    row("FADD.FTZ", "single.fadd", "f32 f32 -> f32", "a + b, rounded to nearest even" + _FLUSH,
        ptx="add.rn.ftz.f32; add.ftz.f32", evidence=RECORDED, ftz=True),
    row("sub.rn.f32", "single.fsub", "f32 f32 -> f32", "a - b, rounded to nearest even",
        ptx="sub.f32", sass="FADD", evidence=DEFINED),
    row("sub.rn.ftz.f32", "single.fsub", "f32 f32 -> f32", "a - b, rounded to nearest even" + _FLUSH,
        ptx="sub.ftz.f32", sass="FADD.FTZ", evidence=DEFINED, ftz=True),
    row("FMUL", "single.fmul", "f32 f32 -> f32", "a * b, rounded to nearest even",
        ptx="mul.rn.f32; mul.f32", evidence=RECORDED),
    row("FMUL.FTZ", "single.fmul", "f32 f32 -> f32", "a * b, rounded to nearest even" + _FLUSH,
        ptx="mul.rn.ftz.f32; mul.ftz.f32", evidence=RECORDED, ftz=True),
    row("FMUL.RZ", "single.fmul", "f32 f32 -> f32", "a * b, rounded toward zero",
        ptx="mul.rz.f32", evidence=DEFINED, rounding="rz"),
    row("FFMA", "single.ffma", "f32 f32 f32 -> f32", "a * b + c with one rounding to nearest even",
        ptx="fma.rn.f32", evidence=RECORDED),
    row("FFMA.FTZ", "single.ffma", "f32 f32 f32 -> f32", "a * b + c with one rounding to nearest even" + _FLUSH,
        ptx="fma.rn.ftz.f32", evidence=RECORDED, ftz=True),
    *(
        row(f"{name}{nan}{ftz}.f32", "single.fmnmx", "f32 f32 -> f32",
            f"{word} of a and b; -0 is below +0; "
            + ("a NaN gives the canonical NaN" if nan else "one NaN gives the other operand, two the canonical NaN")
            + (_FLUSH_IN if ftz else ""),
            sass="FMNMX" + nan.upper() + ftz.upper(), evidence=DEFINED if ftz else RECORDED,
            maximum=name == "max", nan=bool(nan), ftz=bool(ftz))
        for name, word in (("min", "smaller"), ("max", "larger"))
        for nan in ("", ".NaN")
        for ftz in ("", ".ftz")
    ),
    row("neg.f32", "single.fneg", "f32 -> f32", "-a + -0: the sign flipped, a NaN canonical", sass="FADD",
        evidence=SAME_CODE),
    row("cvt.rni.f32.f32", "single.frnd", "f32 -> f32", "nearest integer, ties to even; keeps the sign of zero",
        sass="FRND", evidence=RECORDED, rounding="rni"),
    row("cvt.rzi.f32.f32", "single.frnd", "f32 -> f32", "integer part; keeps the sign of zero",
        sass="FRND.TRUNC", rounding="rzi"),
    *(
        row(f"setp.{name}.f32", "single.fsetp", "f32 f32 -> pred", f"a {sign} b, false where either is NaN",
            sass=f"FSETP.{name.upper()}", compare=name)
        for name, sign in COMPARES.items()
    ),
    row("max.sel.f32", "single.fmax_select", "f32 f32 -> f32", "a > b ? a : b, bits copied",
        sass="FSETP.GT; FSEL"),
)
