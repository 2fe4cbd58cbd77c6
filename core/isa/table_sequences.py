"""PTX operations that sm_86 executes as a short sequence of instructions, and the language's functions made of them.

Source: design.md 4.2 (measured with the CUDA 13.0 compiler for sm_86), phobos-language.md D.1 for exp, log, pow and %.
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Evidence, Instruction
from .rows import LLVM_CODE, RECORDED, row

_POW = {
    "sm_86": Evidence("assumed", "decision G8 of phobos-language.md; the sequence itself is recorded on sm_90"),
    "sm_90": Evidence("assumed", "decision G8 of phobos-language.md; the sequence itself is recorded"),
}

ROWS: tuple[Instruction, ...] = (
    row("ex2.approx.f32", "sequences.ex2_approx", "f32 -> f32", "2^a; below -126: MUFU.EX2 of a * 0.5, squared",
        sass="FSETP; FMUL; MUFU.EX2; FMUL", evidence=RECORDED),
    row("lg2.approx.f32", "sequences.lg2_approx", "f32 -> f32", "log2 a; subnormal: MUFU.LG2 of a * 2^24, minus 24",
        sass="FSETP; FMUL; MUFU.LG2; FADD", evidence=RECORDED),
    row("rcp.approx.f32", "sequences.rcp_approx", "f32 -> f32",
        "1 / a; subnormal: scaled by 2^24 before and after MUFU.RCP; above 2^126: by 0.25",
        sass="FSETP; FMUL; MUFU.RCP; FMUL", evidence=RECORDED),
    row("rsqrt.approx.f32", "sequences.rsqrt_approx", "f32 -> f32", "1 / sqrt a; subnormal: a * 2^24, result * 2^12",
        sass="FSETP; FMUL; MUFU.RSQ; FMUL", evidence=RECORDED),
    row("sqrt.approx.f32", "sequences.sqrt_approx", "f32 -> f32", "sqrt a; subnormal: a * 2^24, result * 2^-12",
        sass="FSETP; FMUL; MUFU.SQRT; FMUL", evidence=RECORDED),
    row("sin.approx.f32", "sequences.sin_approx", "f32 -> f32", "sine of a radians: FMUL.RZ by 3e22f983, MUFU.SIN",
        ptx="sin.approx.ftz.f32", sass="FMUL.RZ; MUFU.SIN", evidence=RECORDED),
    row("cos.approx.f32", "sequences.cos_approx", "f32 -> f32", "cosine of a radians: FMUL.RZ by 3e22f983, MUFU.COS",
        ptx="cos.approx.ftz.f32", sass="FMUL.RZ; MUFU.COS", evidence=RECORDED),
    row("div.approx.f32", "sequences.div_approx", "f32 f32 -> f32",
        "a * MUFU.RCP(b); both scaled by 2^24 where |b| is below 2^-126", sass="FSETP; FMUL; MUFU.RCP; FMUL",
        evidence=RECORDED),
    row("div.full.f32", "sequences.div_full", "f32 f32 -> f32",
        "a * MUFU.RCP(b); both scaled by 0.25 where |b| is above 2^126, by 2^24 where it is below 2^-126",
        sass="FSETP; FMUL; MUFU.RCP; FMUL", evidence=RECORDED, ftz=False),
    row("div.full.ftz.f32", "sequences.div_full", "f32 f32 -> f32",
        "as div.full.f32, subnormals flushed after each step", sass="FSETP; FMUL.FTZ; MUFU.RCP; FMUL.FTZ",
        evidence=RECORDED, ftz=True),
    row("div.rn.f32", "sequences.div_rn", "f32 f32 -> f32", "a / b, correctly rounded to nearest even",
        sass="MUFU.RCP; FFMA; FCHK; CALL", evidence=RECORDED),
    row("rcp.rn.f32", "sequences.rcp_rn", "f32 -> f32", "1 / a, correctly rounded to nearest even",
        sass="MUFU.RCP; FFMA; CALL", evidence=RECORDED),
    row("sqrt.rn.f32", "sequences.sqrt_rn", "f32 -> f32", "sqrt a, correctly rounded to nearest even",
        sass="MUFU.RSQ; FFMA; CALL", evidence=RECORDED),
    row("exp.f32", "sequences.exp", "f32 -> f32", "the language's exp: FMUL by 3fb8aa3b, MUFU.EX2",
        sass="FMUL; MUFU.EX2", evidence=LLVM_CODE),
    row("log.f32", "sequences.log", "f32 -> f32", "the language's log: MUFU.LG2, FMUL by 3f317218",
        sass="MUFU.LG2; FMUL", evidence=LLVM_CODE),
    row("pow.f32", "sequences.pow", "f32 f32 -> f32", "the language's pow: MUFU.EX2(b * MUFU.LG2(a))",
        sass="MUFU.LG2; FMUL; MUFU.EX2", evidence=_POW),
    row("rem.f32", "sequences.rem", "f32 f32 -> f32",
        "the language's %: q = a / b; a - trunc(q) * b with one rounding; a where b is infinite",
        sass="MUFU.RCP; FFMA; FRND.TRUNC; FFMA; FSEL", evidence=LLVM_CODE),
    *(
        row(f"div.rn.{fmt}", "sequences.hdiv", f"{fmt} {fmt} -> {fmt}", "widened, div.rn.f32, rounded to nearest even",
            sass="MUFU.RCP; FFMA; F2FP", evidence=LLVM_CODE, fmt=fmt)
        for fmt in ("f16", "bf16")
    ),
    *(
        row(f"rem.{fmt}", "sequences.hrem", f"{fmt} {fmt} -> {fmt}", "widened, rem.f32, rounded to nearest even",
            sass="MUFU.RCP; FFMA; FRND.TRUNC; FFMA; FSEL; F2FP", evidence=LLVM_CODE, fmt=fmt)
        for fmt in ("f16", "bf16")
    ),
)
