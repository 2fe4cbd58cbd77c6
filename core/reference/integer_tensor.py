"""Integer tensor cores (IMMA): exact sums, wrapped at 32 bits or clamped by .SAT (design.md 4.1, measured on sm_90)."""

from __future__ import annotations

import numpy as np

from .. import formats
from ..formats import S8, S32, U8, Codes, Ints


def products(a: Codes, b: Codes, a_signed: bool, b_signed: bool) -> Ints:
    """a b as exact int64 sums; a [..., m, k], b [..., k, n] are 8-bit codes."""
    left = formats.signed(a, S8 if a_signed else U8)
    right = formats.signed(b, S8 if b_signed else U8)
    total: Ints = np.matmul(left, right)
    return total


def wrap(total: Ints, saturate: bool) -> Codes:
    """The exact sum as an s32 code."""
    if saturate:
        total = np.clip(total, S32.lowest_integer, S32.largest)
    return total.astype(np.uint64).astype(np.uint32)


def imma(a: Codes, b: Codes, c: Codes, *, a_signed: bool, b_signed: bool, saturate: bool) -> Codes:
    """Batches of one instruction: a [t, m, k], b [t, k, n], c [t, m, n] -> [t, m, n]."""
    return wrap(products(a, b, a_signed, b_signed) + formats.signed(c, S32), saturate)


def imma_chain(a: Codes, b: Codes, seed: Codes, *, k: int, a_signed: bool, b_signed: bool, saturate: bool) -> Codes:
    """The instruction chained along ascending k: a [M, K], b [K, N], seed [M, N]. Only .SAT depends on the steps."""
    step = k if saturate else max(1, a.shape[1])
    for start in range(0, a.shape[1], step):
        part = slice(start, start + step)
        seed = imma(a[:, part], b[part], seed, a_signed=a_signed, b_signed=b_signed, saturate=saturate)
    return seed
