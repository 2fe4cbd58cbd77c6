"""Types of the language: element formats, joins, conversions (phobos-language.md C.3, D.1).

Rules
 1. Float join: the same type is itself, the wider wins, f16 with bf16 is f32. Integer with float is the float. Integer
    with integer is the wider; i8 with u8, which are equally wide, is i32 (assumed).
 2. A contraction accumulates in the join, except that integer joins other than i64 become i32.
 3. A conversion is one rounding: float to float to nearest even, integer to float directly to nearest even, float to
    i32 and i64 truncates and saturates, float to i8 and u8 saturates at 16 bits and keeps the low byte, integer to
    integer wraps or extends. Nothing converts to bool.
"""

from __future__ import annotations

from ..formats import BF16, F16, F32, F64, PRED, S8, S32, S64, U8, Format

ELEMENTS: dict[str, Format] = {
    "f16": F16, "bf16": BF16, "f32": F32, "f64": F64, "i8": S8, "u8": U8, "i32": S32, "i64": S64, "bool": PRED,
}  # fmt: skip
NAMES: dict[Format, str] = {fmt: name for name, fmt in ELEMENTS.items()}

_ARITHMETIC = {"+": "add.rn", "-": "sub.rn", "*": "mul.rn", "/": "div.rn", "%": "rem"}
_INTEGER = {
    "+": "add", "-": "sub", "*": "mul.lo", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor",
    "<<": "shl", ">>": "shr",
}  # fmt: skip
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_PREDICATE = {"&": "and", "|": "or", "^": "xor", "&&": "and", "||": "or"}


def join(a: Format, b: Format) -> Format | None:
    """The type in which two operands meet, or None where they cannot (bool with a number)."""
    if a == b:
        return a
    if PRED in (a, b):
        return None
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits == b.bits:
        return F32 if a.is_float else S32
    return a if a.bits > b.bits else b


def accumulator(a: Format, b: Format) -> Format | None:
    """The type in which a contraction of these operands accumulates by itself (rule 2)."""
    joined = join(a, b)
    if joined is None or joined == PRED:
        return None
    return joined if joined.is_float or joined == S64 else S32


def instruction(op: str, fmt: Format) -> str | None:
    """The instruction of a binary operator on one format, or None where the operator has no meaning there."""
    if op in _COMPARE:
        if fmt == PRED and op not in ("==", "!="):
            return None
        return f"setp.{_COMPARE[op]}.{fmt.name}"
    if fmt == PRED:
        return f"{_PREDICATE[op]}.pred" if op in _PREDICATE else None
    table = _ARITHMETIC if fmt.is_float else _INTEGER
    return f"{table[op]}.{fmt.name}" if op in table else None


def conversion(target: Format, source: Format) -> tuple[str, ...] | None:
    """The instructions that convert a code, in order; () where nothing is to be done, None where none exists."""
    if target == source:
        return ()
    if target == PRED:
        return None
    if source == PRED:
        return ("cvt.s32.pred", f"cvt.rn.{target.name}.s32") if target.is_float else (f"cvt.{target.name}.pred",)
    if source.is_float and target.is_float:
        exact = target.bits > source.bits
        return (f"cvt.{target.name}.{source.name}" if exact else f"cvt.rn.{target.name}.{source.name}",)
    if source.is_float:
        rounding = "low8" if target.bits == 8 else "rzi"
        return (f"cvt.{rounding}.{target.name}.{source.name}",)
    if target.is_float:
        return (f"cvt.rn.{target.name}.{source.name}",)
    return (f"cvt.{target.name}.{source.name}",)


def show(element: Format, shape: tuple[int, ...]) -> str:
    """A value's type as a user writes it: f32[64, 32], or f32 for a scalar."""
    name = NAMES.get(element, element.name)
    return f"{name}[{', '.join(map(str, shape))}]" if shape else name
