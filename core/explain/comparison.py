"""Statistics of two arrays of codes: how many differ, how far, where the worst lie, and a heat map of where all lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..formats import Codes, Format, is_nan, is_zero, ordered
from .lockstep import farness

#: Elements listed of each array.
WORST = 5
#: Most cells of a heat map, down and across.
HEAT = (24, 48)


@dataclass(frozen=True)
class Element:
    """A differing element: where, both codes, and how far the other one lies above (None: one is a NaN)."""

    index: tuple[int, ...]
    here: int
    there: int
    steps: int | None


@dataclass(frozen=True)
class Comparison:
    """One array on both sides. name: the output, or the value before its narrowing; stored: whether it is the output
    itself.

    kinds: differing elements by kind (value, sign of zero, nan, nan payload). histogram: differing elements by
    distance, in powers of two. median: of the differing elements' distances; median_all: of all elements'. above: how
    many of the other side's values lie above. worst: the farthest elements. heat: share that differs by block of the
    array.
    """

    name: str
    output: str
    element: Format
    stored: bool
    shape: tuple[int, ...]
    total: int
    differing: int
    kinds: dict[str, int]
    histogram: tuple[tuple[str, int], ...]
    median: float | None
    median_all: float
    above: int
    worst: tuple[Element, ...]
    heat: tuple[tuple[float, ...], ...]
    heat_shape: tuple[int, int]
    heat_block: tuple[int, int]

    @property
    def equal(self) -> int:
        return self.total - self.differing

    @property
    def furthest(self) -> int | None:
        """The largest distance; None where one of two is a NaN."""
        return abs(self.worst[0].steps) if self.worst and self.worst[0].steps is not None else None


def compare(name: str, output: str, element: Format, stored: bool, here: Codes, there: Codes) -> Comparison:
    """Two arrays of codes of one format."""
    differing = here != there
    count = int(np.count_nonzero(differing))
    distances = farness(here, there, element)
    apart = distances[differing]
    heat, heat_shape, block = _heat(differing)
    finite = apart[np.isfinite(apart)]
    above = (
        int(np.count_nonzero(ordered(there, element)[differing] > ordered(here, element)[differing])) if count else 0
    )
    return Comparison(
        name=name,
        output=output,
        element=element,
        stored=stored,
        shape=here.shape,
        total=here.size,
        differing=count,
        kinds=_kinds(here, there, differing, element),
        histogram=tuple(_histogram(apart)),
        median=float(np.median(finite)) if len(finite) else None,
        median_all=float(np.median(np.minimum(distances, 2.0**63))) if here.size else 0.0,
        above=above,
        worst=tuple(_worst(here, there, distances, element)),
        heat=heat,
        heat_shape=heat_shape,
        heat_block=block,
    )


def _kinds(here: Codes, there: Codes, differing: np.ndarray[Any, Any], element: Format) -> dict[str, int]:
    if not element.is_float:
        return {"value": int(differing.sum())} if differing.any() else {}
    nan_here, nan_there = is_nan(here, element), is_nan(there, element)
    payload = differing & nan_here & nan_there
    nan = differing & (nan_here ^ nan_there)
    zero = differing & is_zero(here, element) & is_zero(there, element)
    counts = {"nan": nan, "nan payload": payload, "sign of zero": zero, "value": differing & ~(payload | nan | zero)}
    return {kind: int(mask.sum()) for kind, mask in counts.items() if mask.any()}


def _histogram(apart: np.ndarray[Any, Any]) -> Iterator[tuple[str, int]]:
    """Differing elements by distance: 1, 2, 3 to 4, 5 to 8, ... ulp."""
    if not len(apart):
        return
    bits = int(np.count_nonzero(apart < 1))
    if bits:
        yield "other bits of one value", bits
    counted = apart[(apart >= 1) & np.isfinite(apart)]
    if len(counted):
        powers = np.ceil(np.log2(counted)).astype(int)
        for power in range(int(powers.min()), int(powers.max()) + 1):
            low, high = (1 << power >> 1) + 1 if power else 1, 1 << power
            label = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            yield f"{label} ulp", int(np.count_nonzero(powers == power))
    missing = int(np.count_nonzero(np.isinf(apart)))
    if missing:
        yield "one is a NaN", missing


def _worst(here: Codes, there: Codes, distances: np.ndarray[Any, Any], element: Format) -> Iterator[Element]:
    flat = distances.reshape(-1)
    order = np.argsort(-flat, kind="stable")[:WORST]
    for at in order:
        if flat[at] == 0:
            return
        index = tuple(int(i) for i in np.unravel_index(int(at), here.shape))
        steps = None if np.isinf(flat[at]) else int(ordered(there[index], element)) - int(ordered(here[index], element))
        yield Element(index, int(here[index]), int(there[index]), steps)


def _heat(
    differing: np.ndarray[Any, Any],
) -> tuple[tuple[tuple[float, ...], ...], tuple[int, int], tuple[int, int]]:
    """(shares by block, shape as a matrix, block). Leading axes are stacked; a vector is one row."""
    matrix = differing.reshape(-1, differing.shape[-1]) if differing.ndim else differing.reshape(1, 1)
    rows, columns = matrix.shape
    if matrix.size == 0 or not matrix.any():
        return (), (rows, columns), (1, 1)
    block = (-(-rows // HEAT[0]), -(-columns // HEAT[1]))
    starts = [np.arange(0, extent, step) for extent, step in zip((rows, columns), block)]
    sums = np.add.reduceat(np.add.reduceat(matrix.astype(np.int64), starts[0], axis=0), starts[1], axis=1)
    sizes = [np.diff(np.append(start, extent)) for start, extent in zip(starts, (rows, columns))]
    shares = sums / np.outer(*sizes)
    return tuple(tuple(float(x) for x in row) for row in shares), (rows, columns), block
