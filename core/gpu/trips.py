"""How many loop trips one invocation makes: lavapipe silently stops all loops of an invocation after 65,535.

Emission counts trips as it opens loops. A loop of the kernel has a count that only a launch knows, so the total is a
small tree that is evaluated against the facts of each launch.
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
    loops: list[tuple[tp.Op | int, Trips]] = field(default_factory=list)

    def total(self, facts: Facts, split: tp.Op | None = None, split_trips: int = 0) -> int | None:
        """All trips, the split loop counted `split_trips` times; None where a loop's count is unknown."""
        total = self.fixed
        for loop, inside in self.loops:
            count = loop if isinstance(loop, int) else split_trips if loop is split else facts.trips[loop]
            body = inside.total(facts, split, split_trips)
            if count is None or body is None:
                return None
            total += count * (1 + body)
        return total

    def inside(self, op: tp.Op) -> Trips | None:
        """The body of a loop of the kernel."""
        return next((body for loop, body in self.loops if loop is op), None)


class TripCounter:
    """Builds the tree while loops are emitted."""

    def __init__(self) -> None:
        self.root = Trips()
        self._stack = [self.root]

    @contextmanager
    def loop(self, count: tp.Op | int) -> Iterator[None]:
        body = Trips()
        self._stack[-1].loops.append((count, body))
        self._stack.append(body)
        yield
        self._stack.pop()

    def add(self, trips: int) -> None:
        """Counts trips of loops that are emitted elsewhere."""
        self._stack[-1].fixed += trips
