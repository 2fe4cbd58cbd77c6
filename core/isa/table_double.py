"""f64 rows: DADD, DMUL, DFMA, DSETP, division and remainder.

IEEE 754 round to nearest even. A NaN operand is passed on, quieted, with its sign; of several, the one that the row
names first; an invalid operation gives fff8000000000000 (recorded on an H200; docs/adr/0008).
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Instruction
from .rows import LLVM_CODE, SAME_CODE, row
from .table_single import COMPARES

ROWS: tuple[Instruction, ...] = (
    row("DADD", "double.dadd", "f64 f64 -> f64", "a + b, rounded to nearest even; NaN of b, then a",
        ptx="add.rn.f64; add.f64"),
    row("sub.rn.f64", "double.dsub", "f64 f64 -> f64", "a - b, rounded to nearest even; NaN of b, then a",
        ptx="sub.f64", sass="DADD"),
    row("DMUL", "double.dmul", "f64 f64 -> f64", "a * b, rounded to nearest even; NaN of b, then a",
        ptx="mul.rn.f64; mul.f64"),
    row("DFMA", "double.dfma", "f64 f64 f64 -> f64",
        "a * b + c with one rounding to nearest even; NaN of b, then c, then a", ptx="fma.rn.f64"),
    row("div.rn.f64", "double.ddiv", "f64 f64 -> f64", "a / b, correctly rounded to nearest even; NaN of a, then b",
        sass="MUFU.RCP64H; DFMA", evidence=SAME_CODE),
    row("rem.f64", "double.drem", "f64 f64 -> f64",
        "the language's %: q = a / b; a - trunc(q) * b with one rounding; a where b is infinite",
        sass="MUFU.RCP64H; DFMA; FRND.F64.TRUNC", evidence=LLVM_CODE),
    row("neg.f64", "double.dneg", "f64 -> f64", "-0 + -a: the sign flipped, but a NaN passed on with its own",
        sass="DADD", evidence=SAME_CODE),
    *(
        row(f"setp.{name}.f64", "double.dsetp", "f64 f64 -> pred", f"a {sign} b, false where either is NaN",
            sass=f"DSETP.{name.upper()}", compare=name)
        for name, sign in COMPARES.items()
    ),
    row("max.sel.f64", "double.dmax_select", "f64 f64 -> f64", "a > b ? a : b, bits copied", sass="DSETP.GT; FSEL"),
)
