"""Two arrays as codes: how many are equal, and what kind of difference the others are.

Rules
 1. Codes are compared, never values: -0 differs from +0, and one NaN from another.
 2. A difference is one of: ``sign of zero``; ``nan payload`` (both are NaN); ``nan`` (one is); ``value``, with its
    distance in units of the last place (for integers, the difference). Infinity is one step above the largest finite.
 3. The worst difference is the largest distance; a NaN counts as farther than any value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arrays import FORMAT_OF_DTYPE
from .errors import UsageError
from .formats import F16, F32, F64, FORMATS, Format, distance, dtype_of, is_nan, is_zero

KINDS = ("value", "sign of zero", "nan", "nan payload")

#: Unsigned codes of these widths are floats unless the caller names a format.
_BY_DTYPE = {**FORMAT_OF_DTYPE, "uint16": F16, "uint32": F32, "uint64": F64}


@dataclass(frozen=True)
class Difference:
    """One differing result. index: flat position; actual, expected: codes; ulp: distance, None where one is NaN."""

    index: int
    actual: int
    expected: int
    kind: str
    ulp: int | None
    digits: int

    def __str__(self) -> str:
        distance = f", {self.ulp} ulp" if self.ulp is not None and self.kind == "value" else ""
        return (
            f"at {self.index}: {self.actual:0{self.digits}x}, expected {self.expected:0{self.digits}x} "
            f"({self.kind}{distance})"
        )


@dataclass(frozen=True)
class Comparison:
    """The outcome: totals, counts by kind, the first and the worst difference (None where all are equal)."""

    total: int
    equal: int
    counts: dict[str, int] = field(default_factory=dict)
    first: Difference | None = None
    worst: Difference | None = None

    @property
    def identical(self) -> bool:
        return self.equal == self.total

    def __bool__(self) -> bool:
        return self.identical

    def __add__(self, other: Comparison) -> Comparison:
        """Of two parts, in order; the indices of `other` are already those of the whole."""
        counts = {
            kind: self.counts.get(kind, 0) + other.counts.get(kind, 0) for kind in {**self.counts, **other.counts}
        }
        worst = max((d for d in (self.worst, other.worst) if d), key=_rank, default=None)
        return Comparison(self.total + other.total, self.equal + other.equal, counts, self.first or other.first, worst)

    def __str__(self) -> str:
        if self.identical:
            return f"{self.total} of {self.total} codes equal"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        return (
            f"{self.total - self.equal} of {self.total} codes differ ({kinds}); first {self.first}; worst {self.worst}"
        )


def compare(actual: Any, expected: Any, fmt: str | Format | None = None, *, offset: int = 0) -> Comparison:
    """Compare two arrays of the same shape as codes.

    actual, expected: arrays of values (float16, bfloat16, float32, ...) or of unsigned codes. fmt: the format of the
    codes, by name; without it the dtype decides (uint16 is read as f16, uint32 as f32, uint64 as f64). offset: added
    to indices. UsageError where shapes or widths differ.
    """
    left, right = np.asarray(actual), np.asarray(expected)
    if left.shape != right.shape:
        raise UsageError(f"compare: shapes differ: {left.shape} and {right.shape}")
    chosen = _format(left, right, fmt)
    left, right = _codes(left, chosen), _codes(right, chosen)
    differing = np.flatnonzero(left != right)
    if not len(differing):
        return Comparison(left.size, left.size)
    a, b = left[differing], right[differing]
    kinds, steps = _classify(a, b, chosen)
    counts = {name: int((kinds == number).sum()) for number, name in enumerate(KINDS) if (kinds == number).any()}
    digits = max(1, chosen.bits // 4)

    def difference(at: int) -> Difference:
        nan = KINDS[kinds[at]].startswith("nan")
        return Difference(
            int(differing[at]) + offset,
            int(a[at]),
            int(b[at]),
            KINDS[kinds[at]],
            None if nan else int(steps[at]),
            digits,
        )

    rank = np.where(kinds == KINDS.index("nan"), np.uint64(2**64 - 1), steps)
    return Comparison(left.size, left.size - len(differing), counts, difference(0), difference(int(np.argmax(rank))))


def _rank(difference: Difference) -> int:
    return 2**64 if difference.kind == "nan" else difference.ulp or 0


def _format(left: np.ndarray, right: np.ndarray, fmt: str | Format | None) -> Format:
    if isinstance(fmt, Format):
        return fmt
    if fmt is not None:
        if fmt not in FORMATS:
            raise UsageError(f"compare: unknown format {fmt!r}; one of {', '.join(FORMATS)}")
        return FORMATS[fmt]
    names = {left.dtype.name, right.dtype.name}
    typed = {name for name in names if not name.startswith("uint")} or names
    if len(typed) != 1 or (found := _BY_DTYPE.get(typed.pop())) is None:
        raise UsageError(f"compare: cannot compare {left.dtype} with {right.dtype} as codes; name the format (fmt=...)")
    return found


def _codes(array: np.ndarray, fmt: Format) -> np.ndarray:
    """Flat unsigned codes of the format's width."""
    unsigned = dtype_of(fmt)
    if array.dtype.itemsize != unsigned.itemsize:
        raise UsageError(
            f"compare: {array.dtype} has {8 * array.dtype.itemsize} bits, format {fmt.name} has {fmt.bits}"
        )
    return np.ascontiguousarray(array).reshape(-1).view(unsigned)


def _classify(a: np.ndarray, b: np.ndarray, fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    """Kind number and unsigned distance of each differing pair."""
    kinds = np.zeros(len(a), np.int64)
    if fmt.is_float:
        nan_a, nan_b = is_nan(a, fmt), is_nan(b, fmt)
        kinds[is_zero(a, fmt) & is_zero(b, fmt)] = KINDS.index("sign of zero")
        kinds[nan_a ^ nan_b] = KINDS.index("nan")
        kinds[nan_a & nan_b] = KINDS.index("nan payload")
    return kinds, distance(a, b, fmt)
