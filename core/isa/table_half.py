"""f16 and bf16 rows: HADD2, HMUL2, HFMA2, HMNMX2 and their BF16_V2 forms, one lane of the pair.

Source: design.md 4.2. sm_86 has no bf16 add or multiply: they are HFMA2.BF16_V2 with 1.0, -1.0 or -0.0, whose value is
the rounded sum, difference or product. Canonical NaN 7fff; subnormals are kept.
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Instruction
from .rows import DEFINED, RECORDED, SAME_CODE, row
from .table_single import COMPARES

_ONES = {"f16": "", "bf16": ".BF16_V2"}

ROWS: tuple[Instruction, ...] = (
    row("HADD2", "half.hadd2", "f16 f16 -> f16", "a + b, rounded to nearest even",
        ptx="add.rn.f16; add.f16", evidence=RECORDED, fmt="f16"),
    row("sub.rn.f16", "half.hsub2", "f16 f16 -> f16", "a - b, rounded to nearest even",
        ptx="sub.f16", sass="HADD2", evidence=RECORDED, fmt="f16"),
    row("HMUL2", "half.hmul2", "f16 f16 -> f16", "a * b, rounded to nearest even",
        ptx="mul.rn.f16; mul.f16", evidence=RECORDED, fmt="f16"),
    row("HFMA2", "half.hfma2", "f16 f16 f16 -> f16", "a * b + c with one rounding to nearest even",
        ptx="fma.rn.f16", evidence=RECORDED, fmt="f16"),
    row("HFMA2.BF16_V2", "half.hfma2", "bf16 bf16 bf16 -> bf16", "a * b + c with one rounding to nearest even",
        ptx="fma.rn.bf16", evidence=RECORDED, since=80, fmt="bf16"),
    row("add.rn.bf16", "half.hadd2", "bf16 bf16 -> bf16", "a + b as a * 1.0 + b, rounded to nearest even",
        sass="HFMA2.BF16_V2", since=80, fmt="bf16"),
    row("sub.rn.bf16", "half.hsub2", "bf16 bf16 -> bf16", "a - b as b * -1.0 + a, rounded to nearest even",
        sass="HFMA2.BF16_V2", since=80, fmt="bf16"),
    row("mul.rn.bf16", "half.hmul2", "bf16 bf16 -> bf16", "a * b as a * b + -0.0, rounded to nearest even",
        sass="HFMA2.BF16_V2", since=80, fmt="bf16"),
    *(
        row(f"{name}{nan}.{fmt}", "half.hmnmx2", f"{fmt} {fmt} -> {fmt}",
            f"{word} of a and b; -0 is below +0; "
            + ("a NaN gives the canonical NaN" if nan else "one NaN gives the other operand, two the canonical NaN"),
            sass=f"HMNMX2{v2}{nan.upper()}", since=80,
            evidence=RECORDED if f"{name}{nan}.{fmt}" in ("min.f16", "max.f16", "max.bf16") else DEFINED,
            fmt=fmt, maximum=name == "max", nan=bool(nan))
        for fmt, v2 in _ONES.items()
        for name, word in (("min", "smaller"), ("max", "larger"))
        for nan in ("", ".NaN")
    ),
    *(
        row(f"neg.{fmt}", "half.hneg2", f"{fmt} -> {fmt}", "-a + -0: the sign flipped, a NaN canonical",
            sass="HADD2" if fmt == "f16" else "HFMA2.BF16_V2", evidence=SAME_CODE, fmt=fmt)
        for fmt, v2 in _ONES.items()
    ),
    *(
        row(f"setp.{name}.{fmt}", "half.hsetp2", f"{fmt} {fmt} -> pred", f"a {sign} b, false where either is NaN",
            sass=f"HSETP2{v2}.{name.upper()}", fmt=fmt, compare=name)
        for fmt, v2 in _ONES.items()
        for name, sign in COMPARES.items()
    ),
    *(
        row(f"max.sel.{fmt}", "half.hmax_select", f"{fmt} {fmt} -> {fmt}", "a > b ? a : b, bits copied",
            sass=f"HSETP2{v2}.GT; SEL", fmt=fmt)
        for fmt, v2 in _ONES.items()
    ),
)
