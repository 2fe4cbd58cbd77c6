"""Several runs of one tile program in step: every intermediate value of every CTA is compared as it is made.

Rules
 1. The first side runs here, each other side in a thread that hands over its values one by one and waits when it is
    ahead. Nothing is hashed or sampled: whole arrays are compared.
 2. The same operation in the same CTA is compared, by its turn. Where the sides take different branches the CTA has
    parted by control flow: nothing after that is compared in it.
 3. A CTA's first difference is its first value, in program order, whose codes differ. The first of all is that of the
    first CTA, in the order in which they run (x fastest).
 4. A store is compared as it is written, and also before its narrowing (the operand of the conversion in front of it).
 5. Of each contraction chain the operands are kept while its accumulator lives, so that an element can be explained.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import isa
from ..binding import Bound
from ..errors import Span
from ..formats import Codes, Format, distance, dtype_of, is_nan
from ..reference import memory
from ..reference import program as interpreter
from ..reference.memory import Slices
from ..tile.program import Contract, For, If, Map, Op, Program, Store, Value, While, walk
from .arithmetic import Arithmetic, ByIdentity

#: Values that another side may be ahead.
AHEAD = 64


@dataclass(frozen=True)
class Side:
    """One way to run a program: its name, the tensor cores of an architecture, and other arithmetic for
    contractions.
    """

    name: str
    arch: str
    arithmetic: Arithmetic | None = None


@dataclass(frozen=True)
class Chain:
    """A contraction chain so far: the row that runs it, where it started from, and the operands of each contraction."""

    row: isa.Instruction
    seed: Codes
    span: Span
    parts: tuple[tuple[Codes, Codes], ...]

    def operands(self, i: int, j: int) -> tuple[list[int], list[int], int]:
        """a and b along k, and the addend, of one element."""
        a = [int(code) for left, _ in self.parts for code in left[i]]
        b = [int(code) for _, right in self.parts for code in right[:, j]]
        return a, b, int(self.seed[i, j])


@dataclass(frozen=True)
class Dot:
    """One element's dot: its instruction and operands, the codes that both sides made of it, and where it stands."""

    row: isa.Instruction
    a: list[int]
    b: list[int]
    c: int
    here: int
    there: int
    span: Span


@dataclass(frozen=True)
class Parting:
    """A value at which two sides part. turn: how often its operation had run in this CTA before; index: the first
    element.

    differing: of how many elements. flow: the sides took different branches instead. dot: the worst element's, where
    the operation is a contraction.
    """

    op: Op
    span: Span
    name: str
    cta: tuple[int, int, int]
    turn: int
    index: tuple[int, ...] = ()
    here: int = 0
    there: int = 0
    element: Format | None = None
    differing: int = 0
    size: int = 0
    flow: bool = False
    dot: Dot | None = None


@dataclass
class Wide:
    """What was stored to one tensor before its narrowing, on both sides; written: which elements were."""

    name: str
    element: Format
    here: Codes
    there: Codes
    written: np.ndarray[Any, Any]


@dataclass
class Outcome:
    """How one other side compares. lines: first differences of CTAs by operation. worst: the worst stored element's
    dot.
    """

    side: Side
    first: Parting | None = None
    lines: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    compared: int = 0
    differing: int = 0
    ctas: int = 0
    wide: dict[str, Wide] = field(default_factory=dict)
    outputs: dict[str, Codes] = field(default_factory=dict)
    worst: dict[str, tuple[int, Dot]] = field(default_factory=dict)


class _Stop(Exception):
    """The first side failed: a thread that still runs must end."""


def run(bound: Bound, first: Side, others: list[Side], progress: Callable[[int, int], None] | None = None) -> tuple[
    dict[str, Codes], list[Outcome]
]:  # fmt: skip
    """Runs all sides in step. Returns the first side's outputs by name, and how each other one compares."""
    stop = threading.Event()
    follower = [_Follower(bound, side, stop) for side in others]
    leader = _Leader(bound, first, follower)
    tensors = _copies(bound)
    for thread in follower:
        thread.start()
    try:
        interpreter.run(
            bound.program, tensors, bound.scalars, bound.grid, arch=first.arch, progress=progress, observer=leader
        )
        for thread in follower:
            thread.finish()
    finally:
        stop.set()
        for thread in follower:
            thread.join()
    names = sorted(bound.program.written())
    for outcome, thread in zip(leader.outcomes, follower):
        outcome.outputs = {name: thread.tensors[name] for name in names}
    return {name: tensors[name] for name in names}, leader.outcomes


def _copies(bound: Bound) -> dict[str, Codes]:
    copies: dict[str, Codes] = {}
    for name, codes in bound.tensors.items():
        first = bound.aliases[name]
        copies[name] = copies[first] if first in copies else codes.copy()
    return copies


def _other(arithmetic: Arithmetic | None, row: isa.Instruction, a: Codes, b: Codes, seed: Codes) -> Codes | None:
    return None if arithmetic is None else arithmetic.contract(row, a, b, seed)


@dataclass(frozen=True)
class _Event:
    """A value made in a CTA; wide: a store's value before its narrowing."""

    cta: int
    op: Op
    codes: Codes
    wide: Codes | None = None


class _Follower(threading.Thread):
    """A side in a thread of its own; `queue` holds its values."""

    def __init__(self, bound: Bound, side: Side, stop: threading.Event) -> None:
        super().__init__(daemon=True, name=f"side {side.name}")
        self.side, self.stop = side, stop
        self.tensors = _copies(bound)
        self.queue: queue.Queue[_Event | None] = queue.Queue(AHEAD)
        self.fault: BaseException | None = None
        self.ended = False
        self._bound = bound
        self._wide = narrowed(bound.program)

    def run(self) -> None:
        bound = self._bound
        try:
            interpreter.run(bound.program, self.tensors, bound.scalars, bound.grid, arch=self.side.arch, observer=self)
        except _Stop:
            return
        except BaseException as fault:  # raised again by `finish` in the thread that waits
            self.fault = fault
        self._hand(None)

    def contract(self, cta: Any, op: Contract, row: isa.Instruction, a: Codes, b: Codes, seed: Codes) -> Codes | None:
        return _other(self.side.arithmetic, row, a, b, seed)

    def done(self, cta: interpreter.Cta, op: Op, codes: Codes) -> None:
        self._hand(_Event(cta.number, op, codes))

    def stored(self, cta: interpreter.Cta, op: Store, written: Slices) -> None:
        wide = self._wide.get(op)
        self._hand(_Event(cta.number, op, cta.values[op.value], None if wide is None else cta.values[wide]))

    def _hand(self, event: _Event | None) -> None:
        while True:
            if self.stop.is_set():
                raise _Stop
            try:
                return self.queue.put(event, timeout=0.2)
            except queue.Full:
                continue

    def take(self) -> _Event | None:
        """The next value; None at the end, and ever after."""
        if self.ended:
            return None
        event = self.queue.get()
        self.ended = event is None
        if self.ended and self.fault is not None:
            raise self.fault
        return event

    def finish(self) -> None:
        """Lets the side run to its end."""
        while self.take() is not None:
            pass


class _Leader:
    """The first side's observer: takes the other sides' values in step and compares."""

    def __init__(self, bound: Bound, side: Side, followers: list[_Follower]) -> None:
        self._side = side
        self._chains: ByIdentity[Chain] = ByIdentity()
        self._wide = narrowed(bound.program)
        self._comparers = [_Comparer(bound, follower, self._wide, self._chains) for follower in followers]

    @property
    def outcomes(self) -> list[Outcome]:
        return [comparer.outcome for comparer in self._comparers]

    def contract(self, cta: Any, op: Contract, row: isa.Instruction, a: Codes, b: Codes, seed: Codes) -> Codes | None:
        self._operands = (row, a, b, seed)
        return _other(self._side.arithmetic, row, a, b, seed)

    def done(self, cta: interpreter.Cta, op: Op, codes: Codes) -> None:
        if isinstance(op, Contract):
            row, a, b, seed = self._operands
            before = self._chains.get(seed)
            if before is None or before.row is not row:
                before = Chain(row, seed, op.span, ())
            self._chains.put(codes, Chain(row, before.seed, op.span, (*before.parts, (a, b))))
        for comparer in self._comparers:
            comparer.value(cta, op, codes)

    def stored(self, cta: interpreter.Cta, op: Store, written: Slices) -> None:
        for comparer in self._comparers:
            comparer.stored(cta, op, written)


class _Comparer:
    """The first side against one other."""

    def __init__(self, bound: Bound, follower: _Follower, wide: dict[Store, Value], chains: ByIdentity[Chain]) -> None:
        self.outcome = Outcome(follower.side)
        self._bound, self._follower, self._wide, self._chains = bound, follower, wide, chains
        self._parted: set[int] = set()  # CTAs with a difference
        self._left: set[int] = set()  # CTAs whose branches differ
        self._turns: Counter[tuple[int, Op]] = Counter()
        self._names = names(bound.program)

    def _partner(self, cta: interpreter.Cta, op: Op) -> _Event | None:
        """The other side's value of the same operation in the same CTA, or None once the branches differ."""
        self._turns[cta.number, op] += 1
        if cta.number in self._left:
            return None
        event = self._follower.take()
        while event is not None and event.cta != cta.number:  # the rest of a CTA whose branches differ
            event = self._follower.take()
        if event is None or event.op is not op:
            self._left.add(cta.number)
            self._part(cta, Parting(op, op.span, "", self._place(cta), self._turns[cta.number, op] - 1, flow=True))
            return None
        return event

    def _place(self, cta: interpreter.Cta) -> tuple[int, int, int]:
        return memory.coordinates(cta.number, cta.grid)

    def value(self, cta: interpreter.Cta, op: Op, codes: Codes) -> None:
        event = self._partner(cta, op)
        if event is None:
            return
        self.outcome.compared += 1
        if np.array_equal(codes, event.codes):
            return
        self.outcome.differing += 1
        if cta.number in self._parted:
            return
        (result,) = op.results
        at = np.argwhere(codes != event.codes)
        index = tuple(int(i) for i in at[0]) if codes.ndim else ()
        dot = None
        if self.outcome.first is None and isinstance(op, Contract):
            dot = self._dot(codes, codes, event.codes, result.element)
        parting = Parting(
            op=op,
            span=op.span,
            name=result.name or self._names.get(result, ""),
            cta=self._place(cta),
            turn=self._turns[cta.number, op] - 1,
            index=index,
            here=int(codes[index]),
            there=int(event.codes[index]),
            element=result.element,
            differing=len(at),
            size=codes.size,
            dot=dot,
        )
        self._part(cta, parting)

    def _part(self, cta: interpreter.Cta, parting: Parting) -> None:
        if cta.number in self._parted:
            return
        self._parted.add(cta.number)
        self.outcome.ctas += 1
        kind = parting.op.instruction if isinstance(parting.op, Contract | Map) else type(parting.op).__name__.lower()
        line = parting.span.source.line(parting.span.line).strip()
        self.outcome.lines[f"{parting.span.source.path}:{parting.span.line}", kind, line] += 1
        if self.outcome.first is None:
            self.outcome.first = parting

    def _dot(self, key: Codes, here: Codes, there: Codes, element: Format) -> Dot | None:
        """The dot of the element whose two codes lie farthest apart."""
        chain = self._chains.get(key)
        if chain is None:
            return None
        i, j = (int(x) for x in np.unravel_index(int(np.argmax(farness(here, there, element))), here.shape))
        return Dot(chain.row, *chain.operands(i, j), int(here[i, j]), int(there[i, j]), chain.span)

    def stored(self, cta: interpreter.Cta, op: Store, written: Slices) -> None:
        event = self._partner(cta, op)
        wide = self._wide.get(op)
        if event is None:
            return
        if wide is None or event.wide is None:
            if op.value.shape:
                self._keep_worst(op.tensor, cta.values[op.value], event.codes, op.value.element)
            return
        here, there = cta.values[wide], event.wide
        record = self.outcome.wide.get(op.tensor)
        if record is None:
            shape, dtype = self._bound.tensors[op.tensor].shape, dtype_of(wide.element)
            name = wide.name or self._names.get(wide) or "the value"
            record = Wide(name, wide.element, np.zeros(shape, dtype), np.zeros(shape, dtype), np.zeros(shape, np.bool_))
            self.outcome.wide[op.tensor] = record
        if record.element != wide.element:
            return
        starts = cta.indices(op.starts)
        for target, codes in ((record.here, here), (record.there, there)):
            memory.write(target, starts, op.sizes, codes)
        record.written[written] = True
        self._keep_worst(op.tensor, here, there, wide.element)

    def _keep_worst(self, tensor: str, here: Codes, there: Codes, element: Format) -> None:
        if np.array_equal(here, there):
            return
        worst = int(farness(here, there, element).max())
        known = self.outcome.worst.get(tensor)
        if known is not None and known[0] >= worst:
            return
        dot = self._dot(here, here, there, element)
        if dot is not None:
            self.outcome.worst[tensor] = (worst, dot)


def farness(here: Codes, there: Codes, element: Format) -> np.ndarray[Any, Any]:
    """Distance in ulp; other bits of the same value count less than one, one NaN more than any value."""
    here, there = np.asarray(here), np.asarray(there)
    steps = distance(here, there, element).astype(np.float64)
    if element.is_float:
        steps = np.where(is_nan(here, element) != is_nan(there, element), np.inf, steps)
        steps = np.where(is_nan(here, element) & is_nan(there, element), 0.25, steps)
    return np.where(here == there, 0.0, np.maximum(steps, 0.25))


def narrowed(program: Program) -> dict[Store, Value]:
    """By store, the value in front of its narrowing conversion."""
    makers = {result: op for op in walk(program.body) for result in op.results}
    found: dict[Store, Value] = {}
    for op in walk(program.body):
        if not isinstance(op, Store):
            continue
        maker = makers.get(op.value)
        if isinstance(maker, Map) and maker.instruction.startswith("cvt."):
            source = maker.args[0]
            if source.element.is_float and source.element.bits > op.value.element.bits and source.shape:
                found[op] = source
    return found


def names(program: Program) -> dict[Value, str]:
    """What to call values without a name: what a block yields as what it goes into, others by their source text."""
    found: dict[Value, str] = {}
    for op in walk(program.body):
        for result in op.results:
            if not result.name and op.span.line == op.span.end_line:
                found[result] = op.span.source.line(op.span.line)[op.span.column - 1 : op.span.end_column - 1].strip()
    for op in walk(program.body):
        for inner, out in _carried(op):
            if out.name and not inner.name:
                found[inner] = out.name
    return found


def _carried(op: Op) -> Iterator[tuple[Value, Value]]:
    if isinstance(op, For | While):
        yield from zip(op.body.yields, op.outs)
    elif isinstance(op, If):
        yield from zip(op.then.yields, op.outs)
        yield from zip(op.orelse.yields, op.outs)
