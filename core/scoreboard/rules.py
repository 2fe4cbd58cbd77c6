"""A tensor-core model whose every rule can be set wrong: what the mutants of the kill score are made of.

`Rules` names one choice per rule of design.md 4.1 (R1 to R10 in reference/tensor.py). With the choices of an
architecture's record it is that architecture (a test holds it to the reference); a mutant changes one. Written for
clarity over speed, with k as the last axis and 64-bit integers throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import formats
from ..formats import F32, FORMATS, TF32, Codes, Format, Ints
from ..isa import Arch, Instruction
from ..reference import arithmetic, convert

#: An exponent below every other: a term with it never sets the group's exponent.
_NONE = -(1 << 14)


@dataclass(frozen=True)
class Rules:
    """One choice per rule.

    fraction_bits, width, floor: the architecture's numbers (floor None: there is none). operands: R1, tf32 low bits
    ``ignored``, ``kept`` or ``rounded`` (to nearest, ties away). flush_operands, flush_addend, flush_results: R1, R7,
    subnormals to zero. normalised: R2, a product's exponent is that of its leading one. zero_products, zero_addend: R3,
    zeros count. align: R5, ``rz`` magnitudes, ``floor`` two's complement or ``rn``. wide_products: R5, products keep
    magnitudes beyond f32; else they become infinity. final: R7, ``rz``, ``rn``, or ``twice`` (to f32, then to f16).
    saturate: R7, overflow gives the largest finite number. negative_zero: R8, an exact zero of negative terms is -0.
    nan: R9, ``canonical``, ``addend`` (its payload is kept) or ``quiet`` (7fc00000). zero_times_infinity,
    opposite_infinities: R9, NaN or ignored. addend_last: the addend is added to the finished products with its own
    rounding. order: R10, ``ascending`` or ``descending``. unrounded: R10, groups share one exact sum. sequential: no
    groups at all, one fused multiply-add in the result's format per k.
    """

    fraction_bits: int
    width: int
    floor: int | None
    operands: str = "ignored"
    flush_operands: bool = False
    flush_addend: bool = False
    flush_results: bool = False
    normalised: bool = False
    zero_products: bool = False
    zero_addend: bool = False
    align: str = "rz"
    wide_products: bool = True
    final: str = "rz"
    saturate: bool = False
    negative_zero: bool = False
    nan: str = "canonical"
    zero_times_infinity: bool = True
    opposite_infinities: bool = True
    addend_last: bool = False
    order: str = "ascending"
    unrounded: bool = False
    sequential: bool = False


def rules_of(arch: Arch, instruction: Instruction) -> Rules:
    """The right choices for an instruction on an architecture."""
    operand, result, k = (instruction.keywords[name] for name in ("operand", "result", "k"))
    assert isinstance(operand, str) and isinstance(result, str) and isinstance(k, int)
    return Rules(
        arch.fraction_bits, arch.width(operand, k), arch.floor(result), final="rn" if result == "f16" else "rz"
    )


def hmma(a: Codes, b: Codes, c: Codes, operand: str, result: str, rules: Rules) -> Codes:
    """a [t, m, k], b [t, k, n], c [t, m, n] -> [t, m, n] under these rules."""
    left, right = a[:, :, None, :], np.swapaxes(b, 1, 2)[:, None, :, :]
    if rules.operands != "ignored" and operand == "tf32":
        left, right = _tf32(left, rules.operands), _tf32(right, rules.operands)
        operand = "f32" if rules.operands == "kept" else "tf32"
    if rules.sequential:
        return _sequential(left, right, c, operand, result)
    k = a.shape[2]
    width = k if rules.unrounded else min(rules.width, k)
    starts = range(0, k, width)
    for start in starts if rules.order == "ascending" else reversed(starts):
        part = slice(start, start + width)
        c = _group(left[..., part], right[..., part], c, FORMATS[operand], FORMATS[result], rules)
    return c


def _tf32(codes: Codes, how: str) -> Codes:
    return convert.rna_tf32(codes) if how == "rounded" else codes


def _sequential(a: Codes, b: Codes, c: Codes, operand: str, result: str) -> Codes:
    target = FORMATS[result]
    for k in range(a.shape[-1]):
        x, y = np.broadcast_arrays(a[..., k], b[..., k])
        if operand != result:
            x, y = _widened(x, operand), _widened(y, operand)
        c = arithmetic.fused(x, y, c, target)
    return c


def _widened(codes: Codes, operand: str) -> Codes:
    if operand in ("tf32", "f32"):
        return codes & np.uint32(0xFFFFE000) if operand == "tf32" else codes
    return convert.f2f(codes, source=operand, target="f32")


def _group(a: Codes, b: Codes, addend: Codes, fmt: Format, result: Format, rules: Rules) -> Codes:
    """One group: products along the last axis and the addend."""
    first = np.zeros_like(addend) if rules.addend_last else addend
    total, lowest = _sum(a, b, first, fmt, result, rules)
    codes = _round(total, lowest, result, rules)
    zero = formats.is_zero(codes, result)
    if rules.negative_zero:
        negative = _all_negative(a, b, first, fmt, result) | (total < 0)
        codes = np.where(zero, np.where(negative, result.sign_bit, 0).astype(codes.dtype), codes)
    else:
        codes = np.where(zero, codes.dtype.type(0), codes)
    codes = _specials(a, b, first, fmt, result, rules, codes)
    return arithmetic.add(codes, addend, result) if rules.addend_last else codes


def _sum(a: Codes, b: Codes, addend: Codes, fmt: Format, result: Format, rules: Rules) -> tuple[Ints, Ints]:
    """R2 to R6: the integer sum of the aligned terms and the exponent of its unit."""
    sign_a, exponent_a, significand_a = _finite(a, fmt, rules.flush_operands)
    sign_b, exponent_b, significand_b = _finite(b, fmt, rules.flush_operands)
    product = significand_a * significand_b
    unit = exponent_a + exponent_b - 2 * fmt.fraction_bits  # exponent of the product's lowest place
    exponent = unit + (formats.bit_length(product) - 1 if rules.normalised else 2 * fmt.fraction_bits)
    counted = (product != 0) | rules.zero_products
    sign_c, exponent_c, significand_c = _finite(addend, result, rules.flush_addend)
    counted_c = (significand_c != 0) | rules.zero_addend
    top = np.maximum(np.where(counted, exponent, _NONE).max(axis=-1), np.where(counted_c, exponent_c, _NONE))
    top = np.maximum(top, -1000 if rules.floor is None else rules.floor)
    lowest = top - rules.fraction_bits
    terms = _aligned(product, unit - lowest[..., None], sign_a ^ sign_b, rules.align)
    seed = _aligned(significand_c, exponent_c - result.fraction_bits - lowest, sign_c, rules.align)
    return terms.sum(axis=-1) + seed, lowest


def _finite(codes: Codes, fmt: Format, flush: bool) -> tuple[Any, Ints, Ints]:
    """Sign, exponent, significand; specials as zero, subnormals too where they are flushed."""
    negative, exponent, significand = formats.split(codes, fmt)
    significand = np.where(exponent <= fmt.emax, significand, 0)
    if flush:
        significand = np.where(significand >> fmt.fraction_bits, significand, 0)
    return negative, np.minimum(exponent, fmt.emax), significand


def _aligned(significand: Ints, shift: Ints, negative: Any, how: str) -> Ints:
    """R5: significand * 2^shift as a signed integer."""
    left, right = np.clip(shift, 0, 62), np.clip(-shift, 0, 62)
    magnitude = significand << left
    if how == "floor":
        return np.where(negative, -magnitude, magnitude) >> right
    kept = magnitude >> right
    if how == "rn":
        half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
        kept = (magnitude + np.where(half > 0, half - 1 + (kept & 1), 0)) >> right
    return np.where(negative, -kept, kept)


def _round(total: Ints, lowest: Ints, result: Format, rules: Rules) -> Codes:
    """R7."""
    overflow = "largest" if rules.saturate else "infinity"
    if rules.final == "twice":
        wide = formats.round_pack(total < 0, lowest, np.abs(total), F32, mode="rz")
        return convert.f2f(wide, source="f32", target="f16")
    codes = formats.round_pack(total < 0, lowest, np.abs(total), result, mode=rules.final, overflow=overflow)
    return arithmetic.flush(codes, result) if rules.flush_results else codes


def _all_negative(a: Codes, b: Codes, addend: Codes, fmt: Format, result: Format) -> Any:
    return (formats.sign_of(a, fmt) ^ formats.sign_of(b, fmt)).all(axis=-1) & formats.sign_of(addend, result)


def _specials(a: Codes, b: Codes, addend: Codes, fmt: Format, result: Format, rules: Rules, codes: Codes) -> Codes:
    """R9 put over the finite results."""
    inf_a, inf_b = formats.is_inf(a, fmt), formats.is_inf(b, fmt)
    zero_inf = (inf_a & formats.is_zero(b, fmt)) | (inf_b & formats.is_zero(a, fmt))
    infinite = (inf_a | inf_b) & ~zero_inf
    if not rules.wide_products:
        infinite = infinite | _beyond(a, b, fmt)
    negative = formats.sign_of(a, fmt) ^ formats.sign_of(b, fmt)
    inf_c, negative_c = formats.is_inf(addend, result), formats.sign_of(addend, result)
    plus = (infinite & ~negative).any(axis=-1) | (inf_c & ~negative_c)
    minus = (infinite & negative).any(axis=-1) | (inf_c & negative_c)
    nan = (formats.is_nan(a, fmt) | formats.is_nan(b, fmt)).any(axis=-1) | formats.is_nan(addend, result)
    if rules.zero_times_infinity:
        nan = nan | zero_inf.any(axis=-1)
    if rules.opposite_infinities:
        nan = nan | (plus & minus)
    codes = np.where(minus, codes.dtype.type(result.infinity | result.sign_bit), codes)
    codes = np.where(plus, codes.dtype.type(result.infinity), codes)
    quiet = 1 << (result.fraction_bits - 1)
    payload = codes.dtype.type(result.infinity | quiet if rules.nan == "quiet" else result.canonical_nan)
    codes = np.where(nan, payload, codes)
    if rules.nan == "addend":
        codes = np.where(formats.is_nan(addend, result), addend | codes.dtype.type(quiet), codes)
    return codes


def _beyond(a: Codes, b: Codes, fmt: Format) -> Any:
    """Products of finite factors that an f32 cannot hold."""
    _, exponent_a, significand_a = _finite(a, fmt, False)
    _, exponent_b, significand_b = _finite(b, fmt, False)
    product = significand_a * significand_b
    leading = exponent_a + exponent_b - 2 * fmt.fraction_bits + formats.bit_length(product) - 1
    return (product != 0) & (leading > TF32.emax)
