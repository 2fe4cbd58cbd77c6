"""Integer, predicate and select rows.

Rules (phobos-language.md 0.2): + - * wrap; / and % truncate toward zero; x/0 and x%0 are all ones (-1); the lowest
integer divided by -1 is itself with remainder 0; a shift count at or above the width (a negative count is a huge
unsigned one) gives 0, or the sign for >> of a signed type. The corner cases of / and % are recorded on an H200: x%0 was
taken to be x before (docs/adr/0008).
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Evidence, Instruction
from .rows import DEFINED, SAME_CODE, SCALAR_SET, row
from .table_single import COMPARES

INTEGERS = ("s8", "u8", "s32", "s64")
_DP4A = {
    "sm_86": Evidence("derived", "exact integer arithmetic; recorded on sm_90 only"),
    "sm_90": Evidence("validated", SCALAR_SET),
}

#: name -> (function, operands, sentence, SASS, evidence, options)
_BINARY = {
    "add": ("iadd", "a + b, wrapped", "IADD3", DEFINED),
    "sub": ("isub", "a - b, wrapped", "IADD3", DEFINED),
    "mul.lo": ("imul", "low half of a * b", "IMAD", DEFINED),
    "div": ("idiv", "a / b truncated toward zero; x / 0 is all ones; lowest / -1 is the lowest", "I2F; MUFU.RCP; IMAD",
            SAME_CODE),
    "rem": ("irem", "a - trunc(a / b) * b; x % 0 is all ones; lowest % -1 is 0", "I2F; MUFU.RCP; IMAD",
            SAME_CODE),
    "and": ("iand", "bitwise and", "LOP3.LUT", DEFINED),
    "or": ("ior", "bitwise or", "LOP3.LUT", DEFINED),
    "xor": ("ixor", "bitwise exclusive or", "LOP3.LUT", DEFINED),
    "shl": ("ishl", "a shifted left; 0 where the count is not below the width", "SHF.L", DEFINED),
    "shr": ("ishr", "a shifted right, arithmetic for signed; 0 or the sign where the count is not below the width",
            "SHF.R", DEFINED),
}

ROWS: tuple[Instruction, ...] = (
    *(
        row(f"{name}.{t}", f"integer.{function}", f"{t} {t} -> {t}", text, sass=sass, evidence=evidence, fmt=t)
        for name, (function, text, sass, evidence) in _BINARY.items()
        for t in INTEGERS
    ),
    row("IMAD", "integer.imad", "s32 s32 s32 -> s32", "low half of a * b, plus c, wrapped", ptx="mad.lo.s32",
        fmt="s32"),
    row("mad.lo.s64", "integer.imad", "s64 s64 s64 -> s64", "low half of a * b, plus c, wrapped", sass="IMAD.WIDE",
        fmt="s64"),
    *(row(f"neg.{t}", "integer.ineg", f"{t} -> {t}", "0 - a, wrapped", sass="IADD3", fmt=t) for t in INTEGERS),
    *(row(f"not.{t}", "integer.inot", f"{t} -> {t}", "every bit flipped", sass="LOP3.LUT", fmt=t) for t in INTEGERS),
    *(
        row(f"{name}.{t}", "integer.imnmx", f"{t} {t} -> {t}", f"{word} of a and b", sass="IMNMX", fmt=t,
            maximum=name == "max")
        for name, word in (("min", "smaller"), ("max", "larger"))
        for t in INTEGERS
    ),
    *(
        row(f"setp.{name}.{t}", "integer.isetp", f"{t} {t} -> pred", f"a {sign} b", sass=f"ISETP.{name.upper()}", fmt=t,
            compare=name)
        for name, sign in COMPARES.items()
        for t in INTEGERS
    ),
    *(
        row(f"max.sel.{t}", "integer.imax_select", f"{t} {t} -> {t}", "a > b ? a : b", sass="ISETP.GT; SEL", fmt=t)
        for t in INTEGERS
    ),
    row("and.pred", "integer.iand", "pred pred -> pred", "a and b", sass="PLOP3.LUT", fmt="pred"),
    row("or.pred", "integer.ior", "pred pred -> pred", "a or b", sass="PLOP3.LUT", fmt="pred"),
    row("xor.pred", "integer.ixor", "pred pred -> pred", "a or b but not both", sass="PLOP3.LUT", fmt="pred"),
    row("not.pred", "integer.inot", "pred -> pred", "not a", sass="PLOP3.LUT", fmt="pred"),
    row("setp.eq.pred", "integer.isetp", "pred pred -> pred", "a = b", sass="PLOP3.LUT", fmt="pred", compare="eq"),
    row("setp.ne.pred", "integer.isetp", "pred pred -> pred", "a <> b", sass="PLOP3.LUT", fmt="pred", compare="ne"),
    row("selp", "integer.select", "pred * * -> *", "p ? a : b, bits copied", sass="SEL", ptx="selp.b32"),
    *(
        row(f"IDP.4A.{a}.{b}", "integer.idp4a", f"u32 u32 {acc} -> {acc}",
            f"c plus the four products of the bytes of a ({a.lower()}) and b ({b.lower()}), wrapped",
            ptx=f"dp4a.{a[0].lower()}32.{b[0].lower()}32", evidence=_DP4A if (a, b) != ("S8", "U8") else None,
            a_signed=a == "S8", b_signed=b == "S8")
        for a, b, acc in (("S8", "S8", "s32"), ("U8", "S8", "s32"), ("S8", "U8", "s32"), ("U8", "U8", "u32"))
    ),
)
