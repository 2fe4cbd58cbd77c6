"""Slices of tensors and tiles, and the memory of a launch.

A slice's element outside its tensor reads as code 0 and its store is dropped (phobos-language.md C.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..formats import Codes

Grid = tuple[int, int, int]
Slices = tuple[slice, ...]


def window(extents: Sequence[int], starts: Sequence[int], sizes: Sequence[int | None]) -> tuple[Slices, Slices]:
    """(slices of the tensor, the same elements as slices of the tile); a point (size None) is a length of 1."""
    inside, part = [], []
    for extent, start, size in zip(extents, starts, sizes):
        low, high = max(start, 0), min(start + (1 if size is None else size), extent)
        empty = low >= high
        inside.append(slice(0, 0) if empty else slice(low, high))
        part.append(slice(0, 0) if empty else slice(low - start, high - start))
    return tuple(inside), tuple(part)


def _full(sizes: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(1 if size is None else size for size in sizes)


def read(source: Codes, starts: Sequence[int], sizes: Sequence[int | None]) -> Codes:
    """A copy of the slice; its shape is the sizes that are not None."""
    inside, part = window(source.shape, starts, sizes)
    tile = np.zeros(_full(sizes), source.dtype)
    tile[part] = source[inside]
    return tile.reshape([size for size in sizes if size is not None])


def write(target: Codes, starts: Sequence[int], sizes: Sequence[int | None], value: Codes) -> Slices:
    """Writes the slice in place and returns the slices of the target that were written; a scalar is stretched."""
    inside, part = window(target.shape, starts, sizes)
    tile = np.broadcast_to(value if np.ndim(value) == 0 else np.reshape(value, _full(sizes)), _full(sizes))
    target[inside] = tile[part]
    return inside


@dataclass
class Memory:
    """A launch's tensors by parameter name; parameters that name the same memory share one array."""

    buffers: dict[str, Codes]

    def store(self, name: str, starts: Sequence[int], sizes: Sequence[int | None], value: Codes) -> Slices:
        """Writes a slice; returns the slices of the tensor that were written."""
        return write(self.buffers[name], starts, sizes, value)


def coordinates(cta: int, grid: Grid) -> Grid:
    """(x, y, z) of a CTA's number, x fastest."""
    x, y, _ = grid
    return cta % x, cta // x % y, cta // (x * y)
