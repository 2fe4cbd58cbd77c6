"""f64 rows: DADD, DMUL, DFMA, DSETP, division and remainder.

IEEE 754 round to nearest even. NaN results are taken to be canonical (7fffffffffffffff), which no card has shown yet
(phobos-language.md 0.2).
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Instruction
from .rows import assumed, row
from .table_single import COMPARES

_IEEE = assumed("value by IEEE 754; the NaN payload 7fffffffffffffff is not recorded yet")

ROWS: tuple[Instruction, ...] = (
    row("DADD", "double.dadd", "f64 f64 -> f64", "a + b, rounded to nearest even",
        ptx="add.rn.f64; add.f64", evidence=_IEEE),
    row("sub.rn.f64", "double.dsub", "f64 f64 -> f64", "a - b, rounded to nearest even",
        ptx="sub.f64", sass="DADD", evidence=_IEEE),
    row("DMUL", "double.dmul", "f64 f64 -> f64", "a * b, rounded to nearest even",
        ptx="mul.rn.f64; mul.f64", evidence=_IEEE),
    row("DFMA", "double.dfma", "f64 f64 f64 -> f64", "a * b + c with one rounding to nearest even",
        ptx="fma.rn.f64", evidence=_IEEE),
    row("div.rn.f64", "double.ddiv", "f64 f64 -> f64", "a / b, correctly rounded to nearest even",
        sass="MUFU.RCP64H; DFMA", evidence=_IEEE),
    row("rem.f64", "double.drem", "f64 f64 -> f64",
        "the language's %: q = a / b; a - trunc(q) * b with one rounding; a where b is infinite",
        sass="MUFU.RCP64H; DFMA; FRND.F64.TRUNC", evidence=assumed("the f32 steps of phobos-language.md D.1 in f64")),
    row("neg.f64", "double.dneg", "f64 -> f64", "flips the sign bit, also of a NaN", sass="DADD"),
    *(
        row(f"setp.{name}.f64", "double.dsetp", "f64 f64 -> pred", f"a {sign} b, false where either is NaN",
            sass=f"DSETP.{name.upper()}", compare=name)
        for name, sign in COMPARES.items()
    ),
    row("max.sel.f64", "double.dmax_select", "f64 f64 -> f64", "a > b ? a : b, bits copied", sass="DSETP.GT; FSEL"),
)
