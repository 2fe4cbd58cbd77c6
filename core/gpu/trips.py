"""How many loop trips one invocation makes: lavapipe silently stops all loops of an invocation after 65,535.

Emission counts trips as it opens loops. A loop of the kernel has a count that only a launch knows, so the total is a
small tree that is evaluated against the facts of each launch. A loop whose count only the shader knows is *counted*
there, trip by trip, with all loops inside it (emitter.Emitter.counted); here it stands for its first trip.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..tile import program as tp
from ..tile.facts import Facts


@dataclass
class Trips:
    """Trips of a stretch of code: a fixed number, and loops (the operation or a count, with what is inside)."""

    fixed: int = 0
    loops: list[tuple[tp.For | int, Trips]] = field(default_factory=list)

    def total(self, facts: Facts) -> int:
        """All trips that a launch may make without counting them in the shader."""
        total = self.fixed
        for loop, inside in self.loops:
            count = loop if isinstance(loop, int) else facts.trips[loop] or 0
            total += count * (1 + inside.total(facts))
        return total

    def of(self, op: tp.For) -> Trips | None:
        """The body of a loop of the kernel at this level."""
        return next((body for loop, body in self.loops if loop is op), None)

    @property
    def known(self) -> int:
        """The trips that need no facts: of everything in a counted loop's body, whose loops count themselves."""
        return self.fixed + sum(loop * (1 + inside.known) for loop, inside in self.loops if isinstance(loop, int))


class TripCounter:
    """Builds the tree while loops are emitted."""

    def __init__(self) -> None:
        self.root = Trips()
        self._stack = [self.root]

    @contextmanager
    def loop(self, count: tp.For | int) -> Iterator[Trips]:
        """A loop; gives the trips of its body, complete when the loop is."""
        body = Trips()
        self._stack[-1].loops.append((count, body))
        self._stack.append(body)
        yield body
        self._stack.pop()

    def add(self, trips: int) -> None:
        """Counts trips of loops that are emitted elsewhere."""
        self._stack[-1].fixed += trips
