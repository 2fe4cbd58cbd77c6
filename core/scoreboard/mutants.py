"""Deliberately wrong models: a recording is only as good as the ones it tells apart.

Each mutant breaks one rule of one kind of instruction. `applies` says where the rule can matter at all, so that a
mutant which no input could tell from the truth is never counted. The kill score of a set is the share of its mutants
that differ from at least one recorded result; the survivors are the set's blind spots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import formats
from ..formats import F32, Codes
from ..isa import Arch, Instruction
from ..reference import arithmetic, convert
from ..reference import execute as reference
from . import rules as tensor
from .rules import Rules

Run = Callable[[Instruction, Arch, tuple[Codes, ...]], Codes]


@dataclass(frozen=True)
class Mutant:
    """One wrong model. rule: what it breaks (R1 to R10 for tensor cores, else a word)."""

    name: str
    rule: str
    applies: Callable[[Instruction, Arch], bool]
    run: Run


def of(instruction: Instruction, arch: Arch) -> tuple[Mutant, ...]:
    """The mutants that a set of this instruction could tell from the truth."""
    return tuple(mutant for mutant in MUTANTS if mutant.applies(instruction, arch))


# --- tensor cores ----------------------------------------------------------------------------------------------------


def _operand(i: Instruction) -> str:
    return str(i.keywords.get("operand"))


def _result(i: Instruction) -> str:
    return str(i.keywords.get("result"))


def _hmma(i: Instruction, arch: Arch) -> bool:
    return i.family == "tensor"


def _to_f32(i: Instruction, arch: Arch) -> bool:
    return i.family == "tensor" and _result(i) == "f32"


def _to_f16(i: Instruction, arch: Arch) -> bool:
    return i.family == "tensor" and _result(i) == "f16"


def _wide_range(i: Instruction, arch: Arch) -> bool:
    """Operands whose products reach below the floor and above f32."""
    return _to_f32(i, arch) and _operand(i) in ("bf16", "tf32")


def _floored(i: Instruction, arch: Arch) -> bool:
    """f16 products end at 2^-48: only f16 results have a floor that they can reach."""
    return _wide_range(i, arch) or _to_f16(i, arch)


def _overflows(i: Instruction, arch: Arch) -> bool:
    """f16 products end at 2^32: beside an f32 addend that is about to overflow they are truncated away."""
    return _wide_range(i, arch) or _to_f16(i, arch)


def _tf32(i: Instruction, arch: Arch) -> bool:
    return i.family == "tensor" and _operand(i) == "tf32"


def _chained(i: Instruction, arch: Arch) -> bool:
    k = i.shape.k if i.shape else 0
    return i.family == "tensor" and arch.width(_operand(i), k) < k


def _grouped(i: Instruction, arch: Arch) -> bool:
    k = i.shape.k if i.shape else 0
    return i.family == "tensor" and arch.width(_operand(i), k) > 1


def _rule(
    name: str, rule: str, applies: Callable[[Instruction, Arch], bool], change: Callable[[Rules], Rules]
) -> Mutant:
    def run(i: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
        wrong = change(tensor.rules_of(arch, i))
        a, b, c = operands
        return tensor.hmma(a, b, c, _operand(i), _result(i), wrong)

    return Mutant(name, rule, applies, run)


def _set(name: str, rule: str, applies: Callable[[Instruction, Arch], bool], **changes: Any) -> Mutant:
    return _rule(name, rule, applies, lambda right: replace(right, **changes))


def _normal_floor(rules: Rules) -> Rules:
    """The floor where the result's normal numbers end: -126 for f32, -14 for f16."""
    return replace(rules, floor=-126 if (rules.floor or 0) < -100 else -14)


TENSOR = (
    _rule("one fraction bit less", "R5", _hmma, lambda r: replace(r, fraction_bits=r.fraction_bits - 1)),
    _rule("one fraction bit more", "R5", _hmma, lambda r: replace(r, fraction_bits=r.fraction_bits + 1)),
    _rule("two fraction bits less", "R5", _hmma, lambda r: replace(r, fraction_bits=r.fraction_bits - 2)),
    _rule("two fraction bits more", "R5", _hmma, lambda r: replace(r, fraction_bits=r.fraction_bits + 2)),
    _rule("groups half as wide", "R10", _grouped, lambda r: replace(r, width=r.width // 2)),
    _rule("groups twice as wide", "R10", _chained, lambda r: replace(r, width=r.width * 2)),
    _set("groups in descending order", "R10", _chained, order="descending"),
    _set("no rounding between groups", "R10", _chained, unrounded=True),
    _set("sequential fused multiply-adds", "R6", _grouped, sequential=True),
    _set("addend added last", "R3", _hmma, addend_last=True),
    _set("nearest even at the end", "R7", _to_f32, final="rn"),
    _set("truncation at the end", "R7", _to_f16, final="rz"),
    _set("f16 rounded twice, through f32", "R7", _to_f16, final="twice"),
    _set("terms rounded to nearest", "R5", _hmma, align="rn"),
    _set("terms truncated as two's complement", "R5", _hmma, align="floor"),
    _set("product exponents normalised", "R2", _hmma, normalised=True),
    _set("zero products set the exponent", "R3", _hmma, zero_products=True),
    _set("a zero addend sets the exponent", "R3", _floored, zero_addend=True),
    _set("no floor", "R4", _floored, floor=None),
    _rule("floor at the smallest normal", "R4", _floored, _normal_floor),
    _rule("floor one lower", "R4", _floored, lambda r: replace(r, floor=(r.floor or 0) - 1)),
    _rule("floor one higher", "R4", _floored, lambda r: replace(r, floor=(r.floor or 0) + 1)),
    _set("subnormal operands flushed", "R1", _hmma, flush_operands=True),
    _set("subnormal addend flushed", "R1", _hmma, flush_addend=True),
    _set("subnormal results flushed", "R7", _hmma, flush_results=True),
    _set("tf32 reads all 32 bits", "R1", _tf32, operands="kept"),
    _set("tf32 operands rounded", "R1", _tf32, operands="rounded"),
    _set("overflow gives the largest number", "R7", _overflows, saturate=True),
    _set("products beyond f32 are infinite", "R5", _wide_range, wide_products=False),
    _set("negative zero kept", "R8", _hmma, negative_zero=True),
    _set("NaN payload of the addend kept", "R9", _hmma, nan="addend"),
    _set("NaN is quiet, without payload", "R9", _hmma, nan="quiet"),
    _set("infinity times zero is ignored", "R9", _hmma, zero_times_infinity=False),
    _set("opposite infinities are no NaN", "R9", _hmma, opposite_infinities=False),
)  # fmt: skip

# --- integer tensor cores --------------------------------------------------------------------------------------------


def _imma(i: Instruction, arch: Arch) -> bool:
    return i.family == "integer_tensor"


def _option(name: str, rule: str, applies: Callable[[Instruction, Arch], bool], **changes: Any) -> Mutant:
    """The reference with one option of the row changed."""

    def run(i: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
        options = {**i.keywords, **{key: value(i.keywords[key]) for key, value in changes.items()}}
        return reference.function(i)(*operands, **options)

    return Mutant(name, rule, applies, run)


def _has(*names: str) -> Callable[[Instruction, Arch], bool]:
    return lambda i, arch: all(name in i.keywords for name in names) and i.family not in ("tensor",)


def _not(value: Any) -> Any:
    return not value


INTEGER_TENSOR = (
    _option("saturation and wrap-around exchanged", "IMMA", _imma, saturate=_not),
    _option("sign of the first operand's bytes", "IMMA", _has("a_signed"), a_signed=_not),
    _option("sign of the second operand's bytes", "IMMA", _has("b_signed"), b_signed=_not),
)

# --- scalar rows -----------------------------------------------------------------------------------------------------


def _scalar(i: Instruction) -> bool:
    return not i.is_matrix


#: Functions whose results are moved, not computed: nothing is rounded or made canonical.
_MOVES = {"fneg", "hneg2", "dneg", "fmax_select", "hmax_select", "dmax_select", "select", "i2i"}


def _computes(i: Instruction, arch: Arch) -> bool:
    return (
        _scalar(i) and i.result is not None and i.result.is_float and i.function not in _MOVES and i.function != "i2f"
    )


def _makes_nan(i: Instruction, arch: Arch) -> bool:
    return _computes(i, arch) and i.result is not None and i.result.name != "tf32" and not _widens_bf16(i)


def _widens_bf16(i: Instruction) -> bool:
    return i.function == "f2f" and i.keywords.get("source") == "bf16" and i.keywords.get("target") == "f32"


def _after(
    name: str,
    rule: str,
    applies: Callable[[Instruction, Arch], bool],
    change: Callable[[Codes, Instruction, tuple[Codes, ...]], Codes],
) -> Mutant:
    """The reference with its results changed afterwards."""
    return Mutant(name, rule, applies, lambda i, arch, ops: change(reference.apply(i, *ops), i, ops))


def _quiet_nan(codes: Codes, i: Instruction, operands: tuple[Codes, ...]) -> Codes:
    fmt = i.result
    assert fmt is not None
    quiet = np.array(fmt.infinity | 1 << (fmt.fraction_bits - 1), codes.dtype)
    return np.where(formats.is_nan(codes, fmt), quiet, codes)


def _flushed_results(codes: Codes, i: Instruction, operands: tuple[Codes, ...]) -> Codes:
    assert i.result is not None
    return arithmetic.flush(codes, i.result)


def _positive_zero(codes: Codes, i: Instruction, operands: tuple[Codes, ...]) -> Codes:
    assert i.result is not None
    return np.where(formats.is_zero(codes, i.result), codes.dtype.type(0), codes)


_FTZ_FAMILIES = ("single", "half", "double", "sequences")


def _keeps_subnormals(i: Instruction, arch: Arch) -> bool:
    """Rows whose results can be subnormal and are kept."""
    if not _computes(i, arch) or i.keywords.get("ftz") or i.family == "mufu" or i.function in ("frnd", "rna_tf32"):
        return False
    source, result = i.operands[0], i.result
    assert source is not None and result is not None
    # a source whose every value is a normal number of the result gives no subnormal
    wide = source.is_float and source.emin - source.fraction_bits >= result.emin
    return i.family in _FTZ_FAMILIES + ("convert",) and not wide and not _APPROXIMATE(i)


def _APPROXIMATE(i: Instruction) -> bool:
    return i.function in (
        "lg2_approx",
        "rsqrt_approx",
        "sqrt_approx",
        "sin_approx",
        "cos_approx",
        "sqrt_rn",
        "exp",
        "log",
        "pow",
    )


def _signed_zero(i: Instruction, arch: Arch) -> bool:
    """Rows that can give -0."""
    return _computes(i, arch) and i.function not in (
        "ex2",
        "ex2_f16",
        "ex2_approx",
        "exp",
        "pow",
        "rsq",
        "rsqrt_approx",
        "lg2",
        "lg2_approx",
        "log",
        "cos",
        "cos_approx",
    )


def _unfused(i: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
    fmt = i.result
    assert fmt is not None
    a, b, c = operands
    if i.keywords.get("ftz"):
        a, b, c = (arithmetic.flush(code, fmt) for code in (a, b, c))
    codes = arithmetic.add(arithmetic.multiply(a, b, fmt), c, fmt)
    return arithmetic.flush(codes, fmt) if i.keywords.get("ftz") else codes


def _is_function(*names: str) -> Callable[[Instruction, Arch], bool]:
    return lambda i, arch: _scalar(i) and i.function in names


def _by_value(i: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
    """min and max that take zeros of both signs for equal and give the first."""
    codes = reference.apply(i, *operands)
    fmt = i.result
    assert fmt is not None
    return np.where(formats.is_zero(operands[0], fmt) & formats.is_zero(operands[1], fmt), operands[0], codes)


def _wraps(i: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
    """A conversion that keeps the low bits of the integer instead of saturating."""
    source = str(i.keywords["source"])
    wide = convert.f2i(operands[0], source=source, target="s64", rounding=str(i.keywords["rounding"]))
    codes = reference.apply(i, *operands)
    assert i.result is not None
    return np.where(formats.is_nan(operands[0], i.operands[0] or F32), codes, wide.astype(codes.dtype))


def _nan_exchanged(codes: Codes, i: Instruction, operands: tuple[Codes, ...]) -> Codes:
    fmt = i.operands[0]
    assert fmt is not None and i.result is not None
    lowest = codes.dtype.type(i.result.sign_bit)
    return np.where(formats.is_nan(operands[0], fmt), np.where(codes == 0, lowest, codes.dtype.type(0)), codes)


def _one_ulp(codes: Codes, i: Instruction, operands: tuple[Codes, ...]) -> Codes:
    """A table one unit off in an eighth of its segments: results with three given bits set move by one ulp."""
    fmt = i.result
    assert fmt is not None
    hit = (operands[0] >> operands[0].dtype.type(operands[0].dtype.itemsize * 4) & operands[0].dtype.type(7)) == 5
    middle = ~formats.is_nan(codes, fmt) & ~formats.is_inf(codes, fmt) & ~formats.is_zero(codes, fmt)
    return np.where(hit & middle, codes ^ codes.dtype.type(1), codes)


def _truncating(i: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
    return reference.function(i)(*operands, **{**i.keywords, "rounding": "rz"})


def _rounds_conversion(i: Instruction, arch: Arch) -> bool:
    return _scalar(i) and i.function == "f2f" and i.keywords.get("rounding", "rn") == "rn" and _narrows(i)


def _narrows(i: Instruction) -> bool:
    order = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}
    source, target = str(i.keywords.get("source")), str(i.keywords.get("target"))
    return order[source] > order[target] or source != target and order[source] == order[target] == 0


def _converts_signed(i: Instruction, arch: Arch) -> bool:
    return _scalar(i) and i.function == "f2i" and i.result is not None and i.result.kind == "signed"


def _saturates(i: Instruction, arch: Arch) -> bool:
    """Conversions to integers narrower than the one that the wrapping model goes through."""
    return _scalar(i) and i.function == "f2i" and i.result is not None and i.result.bits < 64


SCALAR = (
    _after("NaN is quiet, without payload", "NaN", _makes_nan, _quiet_nan),
    _after("subnormal results flushed", "subnormals", _keeps_subnormals, _flushed_results),
    _after("negative zero lost", "zero", _signed_zero, _positive_zero),
    _option("flush to zero exchanged with keeping subnormals", "subnormals",
            lambda i, arch: _has("ftz")(i, arch), ftz=_not),
    Mutant("multiply-add rounds twice", "rounding", _is_function("ffma", "hfma2", "dfma"), _unfused),
    Mutant("zeros of both signs are equal", "zero", _is_function("fmnmx", "hmnmx2"), _by_value),
    _option("one NaN decides the other way", "NaN", lambda i, arch: _has("nan", "maximum")(i, arch), nan=_not),
    _option("minimum and maximum exchanged", "order", lambda i, arch: _has("maximum")(i, arch), maximum=_not),
    Mutant("conversion wraps instead of saturating", "range",
           _saturates, _wraps),
    _after("NaN converts to zero and to the lowest integer exchanged", "NaN", _converts_signed, _nan_exchanged),
    Mutant("conversion truncates", "rounding", _rounds_conversion, _truncating),
    _after("one table segment in eight is one unit off", "table", lambda i, arch: _scalar(i) and i.family == "mufu",
           _one_ulp),
)  # fmt: skip

MUTANTS: tuple[Mutant, ...] = (*TENSOR, *INTEGER_TENSOR, *SCALAR)
