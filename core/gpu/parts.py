"""What a launch is run as: itself, or parts one after the other where a device cannot take it whole.

Rules
 1. A kernel that waits for its whole grid is cut at its barriers (tile.phases); a part then covers all CTAs.
 2. Where an invocation would make more loop trips than the device counts (lavapipe: 65,535, docs/adr/0004), the longest
    loop of the top level is cut off: into pieces of as many trips as fit, or, where one trip is too long already and
    its bounds are the same for all CTAs, into single turns, whose bodies are cut in their turn.
 3. A loop that cannot be cut off counts its trips in the shader, as loops do whose count only the shader knows; the
    count is the host's to check. Without such a loop the launch is an error.
 4. What lives between parts takes hidden tensors, so a cut launch also goes through its CTAs in stretches that these
    have room for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from .. import log
from ..errors import LoopLimitError, UnavailableError
from ..formats import dtype_of
from ..tile import facts as facts_of
from ..tile import phases
from ..tile import program as tp
from ..tile.facts import Facts
from . import mapping
from .emitter import Shader
from .target import Target

if TYPE_CHECKING:
    from ..binding import Bound

HIDDEN_BYTES = 64 << 20


@dataclass(frozen=True)
class Part:
    """A program with its arguments, run for CTAs [first, first + count) of the grid, x fastest."""

    bound: Bound
    first: int
    count: int


@dataclass(frozen=True)
class Ready:
    """A part's mapping and shader; total: the trips it may make, but for those that it counts itself."""

    choice: mapping.Choice
    shader: Shader
    facts: Facts

    @functools.cached_property
    def total(self) -> int:
        return self.shader.trips.total(self.facts)


class Prepare(Protocol):
    """Mapping and shader of a part; `counted`: with every loop of the kernel counting its trips."""

    def __call__(self, part: Part, counted: bool = False) -> Ready: ...


def is_hidden(name: str) -> bool:
    """Whether a tensor is no argument of the launch, but one of those between its parts."""
    return name.startswith("%")


def of(bound: Bound, prepare: Prepare, target: Target) -> Iterator[tuple[Part, Ready]]:
    """The parts of a launch in the order in which they run."""
    for part in _at_barriers(bound):
        yield from _within_budget(part, prepare, target)


def integers(bound: Bound) -> dict[str, int]:
    """Integer scalar arguments by name."""
    return {s.name: _signed(bound.scalars[s.name], s) for s in bound.program.scalars if s.value.element.is_integer}


def analyse(bound: Bound) -> Facts:
    extents = {name: codes.shape for name, codes in bound.tensors.items()}
    return facts_of.analyse(bound.program, extents, bound.dims, bound.grid, integers(bound))


def _signed(code: int, scalar: tp.ScalarParam) -> int:
    fmt = scalar.value.element
    return code - (1 << fmt.bits) if fmt.kind == "signed" and code >> (fmt.bits - 1) else code


# ---- cut programs ------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _at_every_barrier(program: tp.Program) -> phases.Schedule:
    return phases.schedule(program)


@functools.lru_cache(maxsize=64)
def _around(program: tp.Program, loop: tp.For, turns: bool) -> phases.Schedule:
    return phases.around(program, loop, turns)


def _hidden(schedule: phases.Schedule, ctas: int) -> dict[str, np.ndarray]:
    """Arrays for the shapes of hidden tensors; their contents never come from here."""
    return {name: np.empty((ctas, *t.shape), dtype_of(t.element)) for name, t in schedule.hidden.items()}


def _sub(
    bound: Bound, program: tp.Program, hidden: dict[str, np.ndarray], dims: dict[str, int], scalars: dict[str, int]
) -> Bound:
    """The arguments of one of the programs that a launch's program was cut into."""
    tensors = {**bound.tensors, **hidden}
    own = {t.name: tensors[t.name] for t in program.tensors}
    words = {name: value & 0xFFFFFFFFFFFFFFFF for name, value in scalars.items()}
    return replace(
        bound,
        program=program,
        tensors=own,
        aliases={name: bound.aliases.get(name, name) for name in own},
        dims={**bound.dims, **dims},
        scalars={**bound.scalars, **words},
    )


def _at_barriers(bound: Bound) -> Iterator[Part]:
    """Rule 1."""
    ctas = math.prod(bound.grid)
    if not phases.has_barrier(bound.program):
        yield Part(bound, 0, ctas)
        return
    schedule = _at_every_barrier(bound.program)
    hidden = _hidden(schedule, ctas)
    dims = {phases.GRID_X: bound.grid[0], phases.GRID_Y: bound.grid[1], phases.CTAS: ctas}
    facts = analyse(bound)
    for step in schedule.steps:
        if isinstance(step, phases.Phase):
            yield Part(_sub(bound, step.program, hidden, dims, {}), 0, ctas)
            continue
        if step.op not in facts.bounds:
            raise UnavailableError(
                f"{step.op.span}: a loop with grid_barrier whose count only the kernel knows; use device='reference'"
            )
        assert isinstance(step, phases.Loop)
        for trip in range(*facts.bounds[step.op]):
            for phase in step.phases:
                assert phase.scalar is not None
                yield Part(_sub(bound, phase.program, hidden, dims, {phase.scalar: trip}), 0, ctas)


# ---- the loop budget ---------------------------------------------------------------------------------------------


def _within_budget(part: Part, prepare: Prepare, target: Target) -> Iterator[tuple[Part, Ready]]:
    """Rules 2 and 3."""
    ready, budget = prepare(part), target.loop_budget
    if budget is None or ready.total <= budget:
        yield part, ready
        return
    for loop in _longest_first(part.bound.program, ready):
        for turns in (False, True):
            cut = _Cut(part, loop, turns, prepare, budget)
            if cut.fits(ready.facts):
                for piece in cut.parts(ready.facts):
                    yield from _within_budget(piece, prepare, target)
                return
    counted = prepare(part, counted=True)
    if counted.total <= budget and counted.shader.counts:
        yield part, counted
        return
    raise LoopLimitError(
        f"{_place(part.bound.program)}: kernel {part.bound.program.name} needs {ready.total} loop trips per "
        f"invocation; {target.name} stops silently after {budget}, and no loop can be cut off. "
        "Use device='reference', or smaller tiles."
    )


def _place(program: tp.Program) -> object:
    loops = [op for op in tp.walk(program.body) if isinstance(op, tp.For | tp.While)]
    return (loops or program.body.ops)[0].span


def _longest_first(program: tp.Program, ready: Ready) -> list[tp.For]:
    """Loops of the top level, those of the most trips first."""
    found: list[tuple[int, tp.For]] = []
    for op in program.body.ops:
        inside = ready.shader.trips.of(op) if isinstance(op, tp.For) else None
        if isinstance(op, tp.For) and inside is not None and ready.facts.trips[op]:
            found.append(((ready.facts.trips[op] or 0) * (1 + inside.total(ready.facts)), op))
    return [op for _, op in sorted(found, key=lambda entry: -entry[0])]


class _Cut:
    """A part with one of its loops cut off."""

    def __init__(self, part: Part, loop: tp.For, turns: bool, prepare: Prepare, budget: int) -> None:
        self.part, self.loop, self.turns, self.prepare, self.budget = part, loop, turns, prepare, budget
        self.schedule = _around(part.bound.program, loop, turns)

    def _inside(self, program: tp.Program, scalars: dict[str, int], first: int, count: int) -> Part:
        bound = self.part.bound
        dims = {phases.GRID_X: bound.grid[0], phases.GRID_Y: bound.grid[1], phases.COUNT: count}
        start = bound.scalars.get(phases.FIRST, first)
        hidden = _hidden(self.schedule, count)
        return Part(_sub(bound, program, hidden, dims, {phases.FIRST: start, **scalars}), first, count)

    def _piece(self, step: phases.Pieces, begin: int, end: int, first: int, count: int) -> Part:
        return self._inside(step.program, {step.begin: begin, step.end: end}, first, count)

    @functools.cached_property
    def trips_per_piece(self) -> int:
        """How many trips of the loop one piece may make, 0 where one is too many."""
        step = next(s for s in self.schedule.steps if isinstance(s, phases.Pieces))
        ready = self.prepare(self._piece(step, 0, 1, self.part.first, self.part.count))
        inside = ready.shader.trips.of(step.loop)
        if inside is None:  # it counts its trips itself
            return 0
        trip = 1 + inside.total(ready.facts)
        fits = max(0, (self.budget - ready.total) // trip + 1)
        return min(fits, 1) if ready.shader.counts else fits

    def fits(self, facts: Facts) -> bool:
        return self.loop in facts.bounds if self.turns else self.trips_per_piece > 0

    def parts(self, facts: Facts) -> Iterator[Part]:
        bytes_per_cta = sum(t.size * dtype_of(t.element).itemsize for t in self.schedule.hidden.values())
        nested = phases.FIRST in self.part.bound.scalars
        stretch = self.part.count if nested else max(1, HIDDEN_BYTES // max(1, bytes_per_cta))
        end = self.part.first + self.part.count
        for first in range(self.part.first, end, stretch):
            count = min(stretch, end - first)
            for step in self.schedule.steps:
                yield from self._step(step, facts, first, count)

    def _step(
        self, step: phases.Phase | phases.Loop | phases.Pieces, facts: Facts, first: int, count: int
    ) -> Iterator[Part]:
        if isinstance(step, phases.Phase):
            if step.has_effects:
                yield self._inside(step.program, {}, first, count)
        elif isinstance(step, phases.Loop):
            for trip in range(*facts.bounds[self.loop]):
                for phase in step.phases:
                    assert phase.scalar is not None
                    yield self._inside(phase.program, {phase.scalar: trip}, first, count)
        else:
            trips, per = facts.trips[self.loop] or 0, self.trips_per_piece
            log.debug(f"{self.loop.span}: {trips} trips in pieces of {per}")
            for begin in range(0, trips, per):
                yield self._piece(step, begin, min(begin + per, trips), first, count)
