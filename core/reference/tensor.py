"""Tensor cores (HMMA): groups of exact products, aligned, truncated and summed as integers.

A *group* is `width` products and one addend; F fraction bits, widths and floors are the `Arch` record's. Rules of
design.md 4.1, by the names used below:

R1 operands: subnormals kept with the exponent of the smallest normal; tf32 ignores its low 13 bits.
R2 a product keeps its unnormalised significand; its exponent is the sum of the operands'.
R3 E is the largest exponent of the nonzero products and the nonzero addend; a zero takes no part.
R4 E is raised to the floor.
R5 each term is truncated toward zero to a multiple of 2^(E - F).
R6 the truncated terms are summed exactly.
R7 f32: truncated to 24 bits, overflow to infinity; f16: rounded to nearest even once.
R8 a zero result is +0.
R9 any NaN, inf * 0, or infinities of both signs give the canonical NaN; else an infinity stays.
R10 groups chain along ascending k.

Everything is arranged with k as the first axis, so that numpy runs along outputs. Products are exact in int32: two
significands of at most 11 bits, scaled to F fraction bits, are below 2^27, and 16 of them stay below 2^31.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import formats
from ..formats import FORMATS, Codes, Format
from ..isa.arch import Arch

#: Exponent of a zero: below every floor, so that it never sets E (R3).
NO_EXPONENT = -(1 << 14)
#: Outputs that are worked on at once: a group's int32 temporaries then stay in a core's second-level cache.
BLOCK = 4096


@dataclass(frozen=True)
class Operand:
    """Decoded operand codes, any shape: exponent, signed significand, and where the specials are.

    special is None where every code is finite (the usual case), else (nan, infinite, zero, negative).
    """

    exponent: NDArray[np.int32]
    significand: NDArray[np.int32]
    special: tuple[NDArray[np.bool_], ...] | None

    def __getitem__(self, index: Any) -> Operand:
        special = self.special and tuple(part[index] for part in self.special)
        return Operand(self.exponent[index], self.significand[index], special)


def decode(codes: Codes, fmt: Format, scale: int = 0) -> Operand:
    """R1. `scale` shifts the significand left beforehand, so that a product comes out with F fraction bits."""
    negative, exponent, significand = formats.split(codes, fmt)
    finite = exponent <= fmt.emax
    zero = significand == 0
    special = None
    if not finite.all():
        special = (formats.is_nan(codes, fmt), formats.is_inf(codes, fmt), zero, negative)
    exponents = np.where(zero | ~finite, NO_EXPONENT, exponent).astype(np.int32)
    significand = np.where(finite, significand, 0) << scale
    return Operand(exponents, np.where(negative, -significand, significand).astype(np.int32), special)


def product_specials(a: Operand, b: Operand) -> tuple[NDArray[np.bool_], ...]:
    """R9 over a group's products: (any NaN, any +inf, any -inf) per output."""
    none = np.zeros(1, np.bool_)
    nan_a, inf_a, zero_a, negative_a = a.special or (none, none, a.significand == 0, a.significand < 0)
    nan_b, inf_b, zero_b, negative_b = b.special or (none, none, b.significand == 0, b.significand < 0)
    nan = nan_a | nan_b | (inf_a & zero_b) | (zero_a & inf_b)
    infinite = (inf_a | inf_b) & ~nan
    negative = negative_a ^ negative_b
    return tuple(np.any(part, axis=0) for part in (nan, infinite & ~negative, infinite & negative))


def group(a: Operand, b: Operand, addend: Codes, result: Format, arch: Arch) -> Codes:
    """One group: a and b have the group's k as first axis and broadcast to the outputs behind it.

    The operands' scales add up to F fraction bits in a product.
    """
    negative, exponent, significand = formats.split(addend, result)
    addend_finite = exponent <= result.emax
    exponent = np.where((significand == 0) | ~addend_finite, NO_EXPONENT, exponent).astype(np.int32)

    products = a.significand * b.significand  # R2
    distance = a.exponent + b.exponent
    top = np.maximum(distance.max(axis=0), exponent)  # R3
    top = np.maximum(top, arch.floor(result.name))  # R4
    np.subtract(top, distance, out=distance)
    np.minimum(distance, 31, out=distance)
    mask = products >> 31  # all ones where the product is negative
    np.bitwise_xor(products, mask, out=products)
    np.subtract(products, mask, out=products)
    np.right_shift(products, distance, out=products)  # R5, of magnitudes
    np.bitwise_xor(products, mask, out=products)
    np.subtract(products, mask, out=products)
    total = products.sum(axis=0, dtype=np.int32).astype(np.int64)  # R6

    scaled = np.where(addend_finite, significand, 0) << (arch.fraction_bits - result.fraction_bits)
    kept = scaled >> np.minimum(top - exponent, 62)
    total += np.where(negative, -kept, kept)

    mode = "rn" if result.name == "f16" else "rz"
    lowest = top.astype(np.int64) - arch.fraction_bits
    codes = formats.round_pack(total < 0, lowest, np.abs(total), result, mode=mode)  # R7
    codes = np.where(formats.is_zero(codes, result), codes.dtype.type(0), codes)  # R8
    return _specials(a, b, addend, addend_finite, codes, result)


def _specials(
    a: Operand, b: Operand, addend: Codes, addend_finite: NDArray[np.bool_], codes: Codes, result: Format
) -> Codes:
    """R9 put over the finite results."""
    if a.special is None and b.special is None and addend_finite.all():
        return codes
    nan, plus, minus = product_specials(a, b)
    nan = nan | formats.is_nan(addend, result)
    infinite, negative = formats.is_inf(addend, result), formats.sign_of(addend, result)
    plus, minus = plus | (infinite & ~negative), minus | (infinite & negative)
    codes = np.where(plus, codes.dtype.type(result.infinity), codes)
    codes = np.where(minus, codes.dtype.type(result.infinity | result.sign_bit), codes)
    return np.where(nan | (plus & minus), codes.dtype.type(result.canonical_nan), codes)


def _operands(a: Codes, b: Codes, fmt: Format, arch: Arch) -> tuple[Operand, Operand]:
    return decode(a, fmt, arch.fraction_bits - 2 * fmt.fraction_bits), decode(b, fmt)


def _groups(a: Operand, b: Operand, seed: Codes, width: int, result: Format, arch: Arch) -> Codes:
    """R10: the groups along the first axis of a and b, the rounded result of one being the addend of the next."""
    codes = seed
    for k in range(0, len(a.exponent), width):
        codes = group(a[k : k + width], b[k : k + width], codes, result, arch)
    return codes


def hmma(a: Codes, b: Codes, c: Codes, *, arch: Arch, operand: str, result: str, k: int) -> Codes:
    """Batches of one instruction: a [t, m, k], b [t, k, n], c [t, m, n] -> [t, m, n], codes of the row's formats."""
    width = arch.width(operand, k)
    left, right = _operands(np.moveaxis(a, 2, 0)[..., None], np.moveaxis(b, 1, 0)[:, :, None], FORMATS[operand], arch)
    tiles = max(1, BLOCK // max(1, c[0].size)) if len(c) else 1
    blocks = [slice(t, t + tiles) for t in range(0, len(c), tiles)]
    done = [_groups(left[:, s], right[:, s], c[s], width, FORMATS[result], arch) for s in blocks]
    return np.concatenate(done) if done else c.copy()


def hmma_chain(a: Codes, b: Codes, seed: Codes, *, arch: Arch, operand: str, result: str, k: int) -> Codes:
    """The instruction chained along ascending k: a [M, K], b [K, N], seed [M, N] -> [M, N]; K is a multiple of k."""
    assert a.shape[1] % k == 0, (a.shape, k)
    width = arch.width(operand, k)
    left, right = _operands(a.T[..., None], b[:, None, :], FORMATS[operand], arch)
    rows = max(1, BLOCK // max(1, b.shape[1]))
    out = np.empty_like(seed)
    for m in range(0, len(seed), rows):
        out[m : m + rows] = _groups(left[:, m : m + rows], right, seed[m : m + rows], width, FORMATS[result], arch)
    return out
