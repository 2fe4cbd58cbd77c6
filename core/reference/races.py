"""Two CTAs that meet in one element: the debug mode `races=True` of the reference backend.

Rules (phobos-language.md D.7)
 1. CTAs are unordered. An element that one CTA writes and another writes, or reads, depends on their order: a race,
    whatever the values are. CTAs that only read meet freely.
 2. A grid barrier orders what is before it and what is after it: both sides start afresh.
 3. Only elements inside the tensor count: reads outside it are zero and writes are dropped (C.2).
 4. Two parameters that are one array are one memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import KernelError, Span
from ..formats import Codes, Ints
from .memory import Grid, Slices, coordinates

NOBODY, SEVERAL = -1, -2
HINT = "CTAs run in any order: give each element to one CTA, accumulate inside one CTA, or wait at a grid_barrier"


@dataclass
class _Marks:
    """Who touched each element of one array: the CTA's number, NOBODY or SEVERAL, and the place in the source."""

    cta: Ints
    place: Ints

    @classmethod
    def like(cls, buffer: Codes) -> _Marks:
        return cls(np.full(buffer.shape, NOBODY, np.int64), np.zeros(buffer.shape, np.int64))

    def seen_as(self, buffer: Codes) -> _Marks:
        """The same marks under the shape of one of the array's parameters."""
        return _Marks(self.cta.reshape(buffer.shape), self.place.reshape(buffer.shape))


@dataclass
class Watch:
    """Remembers who wrote and who read each element since the last grid barrier."""

    grid: Grid
    places: list[Span] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _written: dict[int, _Marks] = field(default_factory=dict)
    _read: dict[int, _Marks] = field(default_factory=dict)

    def reads(self, name: str, buffer: Codes, inside: Slices, cta: int, span: Span) -> None:
        """A CTA reads these elements: KernelError where another one wrote one of them."""
        memory = _memory(buffer)
        written = self._written.get(memory)
        if written is not None:
            self._check(name, "reads", "wrote", written.seen_as(buffer), inside, cta, span)
        marks = self._read.setdefault(memory, _Marks.like(buffer)).seen_as(buffer)
        before = marks.cta[inside]
        marks.place[inside] = np.where(before == NOBODY, self._number(span), marks.place[inside])
        marks.cta[inside] = np.where((before == NOBODY) | (before == cta), cta, SEVERAL)

    def writes(self, name: str, buffer: Codes, inside: Slices, cta: int, span: Span) -> None:
        """A CTA writes these elements: KernelError where another one wrote or read one of them."""
        memory = _memory(buffer)
        written = self._written.setdefault(memory, _Marks.like(buffer)).seen_as(buffer)
        self._check(name, "writes", "wrote", written, inside, cta, span)
        if memory in self._read:
            self._check(name, "writes", "read", self._read[memory].seen_as(buffer), inside, cta, span)
        written.cta[inside], written.place[inside] = cta, self._number(span)

    def barrier(self) -> None:
        """All CTAs have come to a grid barrier."""
        self._written.clear()
        self._read.clear()

    def _number(self, span: Span) -> int:
        if id(span) not in self._numbers:
            self._numbers[id(span)] = len(self.places)
            self.places.append(span)
        return self._numbers[id(span)]

    def _check(self, name: str, does: str, did: str, marks: _Marks, inside: Slices, cta: int, span: Span) -> None:
        before = marks.cta[inside]
        clashes = (before != NOBODY) & (before != cta)
        if not clashes.any():
            return
        first = np.unravel_index(int(np.argmax(clashes)), clashes.shape)
        place = ", ".join(str(s.start + int(i)) for s, i in zip(inside, first))
        other, where = int(before[first]), self.places[int(marks.place[inside][first])]
        who = "several CTAs" if other == SEVERAL else f"CTA {coordinates(other, self.grid)}"
        more = int(clashes.sum()) - 1
        rest = f" (and {more} more of its elements)" if more else ""
        raise KernelError(
            f"a race: CTA {coordinates(cta, self.grid)} {does} {name}[{place}]{rest}, "
            f"which {who} {did} at {_short(where, span)}",
            span,
            HINT,
        )


def _memory(buffer: Codes) -> int:
    """Where an array lies: parameters that are one array share it, whatever shape each declares."""
    return buffer.ctypes.data


def _short(other: Span, here: Span) -> str:
    """The other place, without the file's name where it is the same file."""
    return f"line {other.line}" if other.source.path == here.source.path else str(other)
