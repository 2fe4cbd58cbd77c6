"""Conversion rows: F2F, F2I, I2F, I2I, and the language's two-step conversions to bytes.

Rules (design.md 4.2, phobos-language.md D.1):
- F2F rounds once; a NaN becomes the canonical NaN of the target, also where the conversion is exact; but from and to
  f64 its sign and leading payload bits stay, quieted, and bf16 to f32 is a shift (recorded on an H200; docs/adr/0008);
- F2I truncates (or rounds to nearest even), saturates; NaN gives 0, but the lowest integer from f64 or to s64;
- I2F rounds to nearest even directly to the target, but to bf16 through f32: sm_86 has no such conversion;
- integer to narrower integer keeps the low bits.
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Instruction
from .rows import DEFINED, LLVM_CODE, RECORDED, row

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("s8", "u8", "s32", "s64")
_WIDTH = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_EXACT = {("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64")}
_RECORDED = {"cvt.rn.f16.f32", "cvt.f32.f16", "cvt.rn.bf16.f32", "cvt.rzi.s32.f32", "cvt.rn.f32.s32"}
_SASS = {
    "cvt.rn.f16.f32": "F2F.F16.F32", "cvt.f32.f16": "HADD2.F32", "cvt.rn.bf16.f32": "F2F.BF16.F32",
    "cvt.rn.f32.f64": "F2F.F32.F64", "cvt.rn.f16.f64": "F2F.F16.F64",
    "cvt.f64.f32": "F2F.F64.F32", "cvt.rzi.s32.f32": "F2I.TRUNC.NTZ", "cvt.rn.f32.s32": "I2FP.F32.S32",
}



#: Conversions that sm_86 has no instruction for: meaning, instructions.
_SEQUENCES = {
    "cvt.f32.bf16": ("a shift: the same value, exact; a NaN keeps its bits", "IMAD.U32"),
    "cvt.f64.bf16": ("through f32, exact; a NaN keeps its bits, quieted", "IMAD.U32; F2F.F64.F32"),
    "cvt.rn.bf16.f64": ("rounded once to nearest even, through an f32 rounded to odd; NaN canonical",
                        "F2F.F32.F64; F2F.F64.F32; DSETP; F2F.BF16.F32"),
    "cvt.rn.bf16.f16": ("through f32, rounded once to nearest even", "HADD2.F32; F2F.BF16.F32"),
    "cvt.rn.f16.bf16": ("through f32, rounded once to nearest even", "IMAD.U32; F2F.F16.F32"),
}


def _float_to_float(source: str, target: str) -> Instruction:
    exact = (source, target) in _EXACT
    key = f"cvt.{'' if exact else 'rn.'}{target}.{source}"
    payload = "; a NaN keeps its sign and leading payload bits, quieted" if "f64" in (source, target) else ""
    text = "the same value, exact" + payload if exact else "rounded once to nearest even" + payload
    evidence = RECORDED if key in _RECORDED else DEFINED
    sass = _SASS.get(key, f"F2F.{target.upper()}.{source.upper()}")
    if key in _SEQUENCES:
        text, sass = _SEQUENCES[key]
        evidence = LLVM_CODE
    return row(key, "convert.f2f", f"{source} -> {target}", text, sass=sass, evidence=evidence,
               source=source, target=target, rounding="rn")


def _float_to_integer(source: str, target: str, rounding: str = "rzi") -> Instruction:
    key = f"cvt.{rounding}.{target}.{source}"
    nan = "the lowest integer" if source == "f64" or target == "s64" else "0"
    how = "truncated" if rounding == "rzi" else "rounded to nearest even"
    recorded = key in _RECORDED or key in ("cvt.rni.s32.f32", "cvt.rzi.s8.f32", "cvt.rzi.u32.f32")
    mode = "TRUNC." if rounding == "rzi" else ""
    kind = "" if target == "s32" else f"{target.upper()}."
    return row(key, "convert.f2i", f"{source} -> {target}", f"{how}, saturated; NaN gives {nan}",
               sass=f"F2I.{kind}{mode}NTZ", evidence=RECORDED if recorded else DEFINED,
               source=source, target=target, rounding=rounding)


def _integer_to_float(source: str, target: str) -> Instruction:
    key = f"cvt.rn.{target}.{source}"
    recorded = key in _RECORDED or key in ("cvt.rn.f32.u32", "cvt.rn.f16.s32")
    if target == "bf16":
        return row(key, "convert.i2f", f"{source} -> {target}", "rounded to f32, then to bf16, each to nearest even",
                   sass=f"I2F.F32.{source.upper()}; F2F.BF16.F32", evidence=LLVM_CODE, source=source, target=target)
    return row(key, "convert.i2f", f"{source} -> {target}", "rounded once to nearest even",
               sass=_SASS.get(key, f"I2F.{target.upper()}.{source.upper()}"),
               evidence=RECORDED if recorded else DEFINED, source=source, target=target)


def _low_byte(source: str, target: str) -> Instruction:
    wide = "s16" if target == "s8" else "u16"
    return row(f"cvt.low8.{target}.{source}", "convert.low_byte", f"{source} -> {target}",
               f"the language's {target[0].replace('s', 'i')}8(x): truncated, saturated to {wide}, low byte kept",
               sass=f"F2I.{wide.upper()}.TRUNC", evidence=LLVM_CODE, source=source, target=target)


ROWS: tuple[Instruction, ...] = (
    *(_float_to_float(s, t) for t in FLOATS for s in FLOATS if s != t),
    row("cvt.rz.f16.f32", "convert.f2f", "f32 -> f16",
        "rounded toward zero; a finite overflow is the largest finite number",
        sass="F2F.F16.F32.RZ", evidence=RECORDED, source="f32", target="f16", rounding="rz"),
    row("cvt.rna.tf32.f32", "convert.rna_tf32", "f32 -> tf32",
        "half of the dropped unit added to a finite magnitude, low 13 bits cleared; infinities and NaN only masked",
        sass="IADD3; LOP3.LUT", evidence=RECORDED, since=80),
    *(_float_to_integer(s, t) for t in ("s32", "s64") for s in FLOATS),
    _float_to_integer("f32", "s32", "rni"),
    _float_to_integer("f32", "s8"),
    _float_to_integer("f32", "u32"),
    *(_low_byte(s, t) for t in ("s8", "u8") for s in FLOATS),
    *(_integer_to_float(s, t) for t in FLOATS for s in INTEGERS),
    _integer_to_float("u32", "f32"),
    *(
        row(f"cvt.{t}.{s}", "convert.i2i", f"{s} -> {t}", "sign or zero extended, or the low bits kept",
            sass="PRMT", source=s, target=t)
        for t in INTEGERS
        for s in INTEGERS
        if s != t
    ),
    *(
        row(f"cvt.{t}.pred", "convert.i2i", f"pred -> {t}", "1 where true, else 0", sass="SEL", source="pred", target=t)
        for t in INTEGERS
    ),
)
