"""f16 and bf16: HADD2, HMUL2, HFMA2, HMNMX2, HSETP2, one lane of the pair. Rules: design.md 4.2.

Twin: gpu/sm86/half.py.
`fmt` is ``f16`` or ``bf16``. bf16 sums and products are HFMA2.BF16_V2 with 1.0, -1.0 or -0.0, as sm_86 has no others.
"""

from __future__ import annotations

import numpy as np

from ..formats import FORMATS, Codes, Format
from . import arithmetic

_ONE = 0x3F80
_MINUS_ONE = 0xBF80
_MINUS_ZERO = 0x8000


def _constant(code: int, fmt: Format) -> Codes:
    return np.array(code, fmt.dtype)


def hadd2(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a + b, rounded to nearest even."""
    f = FORMATS[fmt]
    return arithmetic.fused(a, _constant(_ONE, f), b, f) if fmt == "bf16" else arithmetic.add(a, b, f)


def hsub2(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a - b, rounded to nearest even."""
    f = FORMATS[fmt]
    if fmt == "bf16":
        return arithmetic.fused(b, _constant(_MINUS_ONE, f), a, f)
    return arithmetic.add(a, arithmetic.flip(b, f), f)


def hmul2(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a * b, rounded to nearest even."""
    f = FORMATS[fmt]
    return arithmetic.fused(a, b, _constant(_MINUS_ZERO, f), f) if fmt == "bf16" else arithmetic.multiply(a, b, f)


def hfma2(a: Codes, b: Codes, c: Codes, *, fmt: str) -> Codes:
    """a * b + c with one rounding to nearest even."""
    return arithmetic.fused(a, b, c, FORMATS[fmt])


def hmnmx2(a: Codes, b: Codes, *, fmt: str, maximum: bool, nan: bool = False) -> Codes:
    """The smaller or larger operand; -0 is below +0."""
    return arithmetic.minimum_maximum(a, b, FORMATS[fmt], maximum, nan)


def hneg2(a: Codes, *, fmt: str) -> Codes:
    """HADD2 of the flipped operand and -0: the sign flipped, a NaN canonical."""
    return arithmetic.negate(a, FORMATS[fmt])


def hsetp2(a: Codes, b: Codes, *, fmt: str, compare: str) -> Codes:
    """a `compare` b, false where either is a NaN."""
    return arithmetic.compare(a, b, FORMATS[fmt], compare)


def hmax_select(a: Codes, b: Codes, *, fmt: str) -> Codes:
    """a > b ? a : b, bits copied."""
    return np.where(arithmetic.compare(a, b, FORMATS[fmt], "gt"), a, b)
