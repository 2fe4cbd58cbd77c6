"""Cuts a program into phases that a host runs one after the other: at grid barriers, and around a loop.

Vulkan promises no progress between workgroups, so a barrier over the grid cannot be waited for inside a dispatch.
Where the barriers stand at the top level of a kernel, or in a loop there whose count the host knows, every stretch
between two of them is a program of its own. A loop with more trips than a device can count is cut off in the same way:
into pieces, each a number of its trips, or into single turns. Values that live from one phase to the next pass through
hidden tensors, one slice per CTA; scalars that only depend on constants, dims and the CTA's coordinates are computed
again.

Rules
 1. A hidden tensor is written by one phase and read by later ones, except a loop's carried values, which the last
    phase of a turn replaces through the very slice that it reads.
 2. A loop with a barrier, and one that is cut into turns, runs its phases once per trip; the induction variable is a
    hidden scalar parameter. A piece has the number of its first trip and of the one after its last.
 3. A barrier below that (in a branch, a while, a nested loop) is an error that says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..errors import KernelError, Span
from ..formats import S64
from .program import (
    Block,
    BlockIndex,
    Constant,
    Dim,
    For,
    GridBarrier,
    Load,
    Map,
    Op,
    Program,
    ScalarParam,
    Store,
    TensorParam,
    TileType,
    Value,
    walk,
)

GRID_X, GRID_Y, CTAS, COUNT, FIRST = "%grid_x", "%grid_y", "%ctas", "%count", "%first"


@dataclass(frozen=True)
class Phase:
    """One dispatch: a program over the kernel's tensors and the hidden ones; `scalar` is its induction parameter."""

    program: Program
    scalar: str | None = None

    @property
    def has_effects(self) -> bool:
        return any(isinstance(op, Store) for op in walk(self.program.body))


@dataclass(frozen=True)
class Loop:
    """Phases that run once per trip of `op`, whose bounds the host reads from the facts of a launch."""

    op: For
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Pieces:
    """A stretch of the trips of `op`: `loop` in `program` makes those from number `begin` up to `end`, two scalars."""

    op: For
    program: Program
    loop: For
    begin: str
    end: str


@dataclass
class Schedule:
    """What the host runs in order, and the hidden tensors: name -> element format and shape per CTA.

    At barriers, tensors have a slice for each CTA of the grid (dim CTAS). Around a loop, they have one for each of a
    stretch of CTAs (dim COUNT) that starts at the one whose number is the scalar FIRST.
    """

    steps: list[Phase | Loop | Pieces] = field(default_factory=list)
    hidden: dict[str, TileType] = field(default_factory=dict)


def has_barrier(program: Program) -> bool:
    return any(isinstance(op, GridBarrier) for op in program.ops)


def schedule(program: Program) -> Schedule:
    """The phases of a program with grid barriers; KernelError where one stands too deep."""
    return _Cutter(program, None, False).cut()


def around(program: Program, loop: For, turns: bool) -> Schedule:
    """What stands before a loop of the top level, the loop in pieces (`turns`: turn by turn), and what stands after."""
    return _Cutter(program, loop, turns).cut()


_names = itertools.count()


class _Cutter:
    """loop: the one to cut at, None for grid barriers."""

    def __init__(self, program: Program, loop: For | None, turns: bool) -> None:
        self.program, self.at, self.turns = program, loop, turns
        self.out = Schedule()
        self.makers = {value: op for op in walk(program.body) for value in op.results}
        self.tensors: dict[Value, str] = {}
        self.first: ScalarParam | None = None
        self.ctas = CTAS if loop is None else COUNT
        if loop is not None:
            found = [s for s in program.scalars if s.name == FIRST]
            self.first = found[0] if found else ScalarParam(FIRST, Value(TileType(S64), FIRST), loop.span)

    def _alone(self, op: Op) -> bool:
        """Whether an operation is a phase of its own."""
        return isinstance(op, For) and (_holds_barrier(op) if self.at is None else op is self.at)

    def cut(self) -> Schedule:
        pieces = list(self._stretches(self.program.body.ops))
        for i, piece in enumerate(pieces):
            later = [op for other in pieces[i + 1 :] for op in other]
            if len(piece) == 1 and self._alone(piece[0]):
                loop = piece[0]
                assert isinstance(loop, For)
                if self.at is None or self.turns:
                    self._loop(loop)
                else:
                    self._in_pieces(loop)
            else:
                self._refuse(piece)
                self._straight(piece, later)
        return self.out

    # ---- hidden values ---------------------------------------------------------------------------------------

    def _again(self, value: Value) -> bool:
        """Whether a scalar can be computed again from constants, dims and coordinates alone."""
        if any(value is scalar.value for scalar in self.program.scalars):
            return True
        op = self.makers.get(value)
        if isinstance(op, Constant | Dim | BlockIndex):
            return True
        return isinstance(op, Map) and value.shape == () and all(self._again(a) for a in op.args)

    def _tensor(self, value: Value) -> str:
        if value not in self.tensors:
            self.tensors[value] = name = f"%{next(_names)}"
            self.out.hidden[name] = value.type
        return self.tensors[value]

    def _live(self, made: set[Value], later: list[Op]) -> list[Value]:
        """Values made here that later operations read and that have to be kept."""
        read: dict[Value, None] = {}
        for op in later:
            for value in _reads(op):
                read[value] = None
        return [value for value in read if value in made and not self._again(value)]

    # ---- phases ----------------------------------------------------------------------------------------------

    def _straight(self, ops: list[Op], later: list[Op]) -> None:
        made = {value for op in ops for value in op.results}
        self.out.steps.append(self._phase(ops, self._live(made, later), {}))

    def _carry(self, loop: For) -> list[str]:
        """Puts a loop's initial values into hidden tensors; its results will be found there."""
        names = [self._tensor(argument) for argument in loop.body.arguments[1:]]
        if names:
            self.out.steps.append(self._phase([], [], dict(zip(names, loop.inits, strict=True))))
        for out, name in zip(loop.outs, names, strict=True):
            self.tensors[out] = name
        return names

    def _loop(self, loop: For) -> None:
        """Each part of the body is a phase, the last one replaces the carried values."""
        names = self._carry(loop)
        induction = ScalarParam(f"%trip{next(_names)}", loop.body.arguments[0], loop.span)
        parts = list(self._stretches(loop.body.ops)) if self.at is None else [loop.body.ops]
        phases = []
        for i, part in enumerate(parts):
            self._refuse(part)
            made = {value for op in part for value in op.results} | ({loop.body.arguments[0]} if i == 0 else set())
            rest = [op for other in parts[i + 1 :] for op in other]
            kept = [v for v in self._live(made, [*rest, _Yield(loop.span, loop.body.yields)]) if v in made]
            last = i == len(parts) - 1
            extra = dict(zip(names, loop.body.yields, strict=True)) if last else {}
            kept = [] if last else [v for v in kept if v is not loop.body.arguments[0]]
            phase = self._phase(part, kept, extra, (induction,))
            phases.append(Phase(phase.program, induction.name))
        self.out.steps.append(Loop(loop, tuple(phases)))

    def _in_pieces(self, loop: For) -> None:
        """The loop over part of its trips, from carried values in hidden tensors to others in the same place."""
        names, span = self._carry(loop), loop.span
        begin, end = (
            ScalarParam(f"%{what}{next(_names)}", Value(TileType(S64), what), span) for what in ("begin", "end")
        )
        ops: list[Op] = []

        def index(key: str, a: Value, b: Value) -> Value:
            ops.append(Map(span, Value(TileType(S64)), key, (a, b)))
            return ops[-1].results[0]

        lo = index("add.s64", loop.lo, index("mul.lo.s64", begin.value, loop.step))
        beyond = index("add.s64", loop.lo, index("mul.lo.s64", end.value, loop.step))
        hi = index("min.s64", loop.hi, beyond)
        inits, outs = ([Value(v.type, v.name) for v in loop.outs] for _ in range(2))
        self.tensors.update(zip(inits, names, strict=True))
        ops.append(For(span, lo, hi, loop.step, tuple(inits), loop.body, tuple(outs)))
        phase = self._phase(ops, [], dict(zip(names, outs, strict=True)), (begin, end))
        part = ops[-1]
        assert isinstance(part, For)
        self.out.steps.append(Pieces(loop, phase.program, part, begin.name, end.name))

    def _phase(
        self, ops: list[Op], keep: list[Value], replaced: dict[str, Value], scalars: tuple[ScalarParam, ...] = ()
    ) -> Phase:
        """A program of `ops` that first brings in what they read and finally stores `keep` and `replaced`."""
        program, span = self.program, self.program.body.ops[0].span
        body: list[Op] = []
        if self.first is not None and all(s.name != FIRST for s in program.scalars):
            scalars = (self.first, *scalars)
        known: set[Value] = {s.value for s in (*program.scalars, *scalars)} | {v for op in ops for v in op.results}
        x, y, z = (Value(TileType(S64), f"block.{c}") for c in "xyz")
        body += [BlockIndex(span, v, i) for i, v in enumerate((x, y, z))]
        cta = self._cta(body, span, x, y, z)

        def bring(value: Value) -> None:
            if value in known:
                return
            known.add(value)
            if self._again(value):
                for operand in self.makers[value].operands:
                    bring(operand)
                body.append(self.makers[value])
            else:
                body.append(Load(span, value, self._tensor(value), *self._slice(body, span, cta, value.type)))

        wanted: dict[Value, None] = {}
        for op in ops:
            for value in _reads(op):
                wanted[value] = None
        inside = {v for op in ops for v in _defined(op)}
        for value in [*wanted, *replaced.values()]:
            if value not in inside:
                bring(value)
        body += ops
        saved = {**{self._tensor(v): v for v in keep}, **replaced}
        starts = {op.tensor: (op.starts, op.sizes) for op in body if isinstance(op, Load) and op.tensor in saved}
        for name, value in saved.items():
            start, sizes = starts.get(name) or self._slice(body, span, cta, value.type)
            body.append(Store(span, name, start, sizes, value))
        return Phase(self._program(body, scalars))

    def _cta(self, body: list[Op], span: Span, x: Value, y: Value, z: Value) -> Value:
        """The linear number of this CTA: (z * grid_y + y) * grid_x + x."""
        grid_x, grid_y = Value(TileType(S64), GRID_X), Value(TileType(S64), GRID_Y)
        body += [Dim(span, grid_x, GRID_X), Dim(span, grid_y, GRID_Y)]
        at = z
        for extent, coordinate in ((grid_y, y), (grid_x, x)):
            product, total = Value(TileType(S64)), Value(TileType(S64))
            body.append(Map(span, product, "mul.lo.s64", (at, extent)))
            body.append(Map(span, total, "add.s64", (product, coordinate)))
            at = total
        if self.first is not None:
            own = Value(TileType(S64))
            body.append(Map(span, own, "sub.s64", (at, self.first.value)))
            at = own
        return at

    def _slice(
        self, body: list[Op], span: Span, cta: Value, type_: TileType
    ) -> tuple[tuple[Value, ...], tuple[int | None, ...]]:
        zeros = []
        for _ in type_.shape:
            zero = Value(TileType(S64))
            body.append(Constant(span, zero, 0))
            zeros.append(zero)
        return (cta, *zeros), (None, *type_.shape)

    def _program(self, body: list[Op], scalars: tuple[ScalarParam, ...]) -> Program:
        program = self.program
        used = {op.tensor for op in walk(Block(ops=body)) if isinstance(op, Load | Store)}
        span = program.body.ops[0].span
        hidden = tuple(
            TensorParam(name, self.out.hidden[name].element, (self.ctas, *self.out.hidden[name].shape), span)
            for name in self.out.hidden
            if name in used
        )
        return replace(
            program,
            tensors=(*(t for t in program.tensors if t.name in used), *hidden),
            scalars=(*program.scalars, *scalars),
            dims=tuple(dict.fromkeys((*program.dims, GRID_X, GRID_Y, self.ctas))),
            body=Block(ops=body),
            notes=[],
        )

    def _stretches(self, ops: list[Op]) -> Iterator[list[Op]]:
        """Stretches between barriers; a loop that is a phase of its own stands alone. Always at least one stretch."""
        piece: list[Op] = []
        for op in ops:
            if isinstance(op, GridBarrier):
                yield piece
                piece = []
            elif self._alone(op):
                yield piece
                yield [op]
                piece = []
            else:
                piece.append(op)
        yield piece

    def _refuse(self, ops: list[Op]) -> None:
        for op in ops:
            if _holds_barrier(op):
                barrier = next(i for block in op.blocks for i in walk(block) if isinstance(i, GridBarrier))
                raise KernelError(
                    "grid_barrier inside a branch, a while or a nested loop: the host must know how often it runs",
                    barrier.span,
                    "move it to the kernel's top level or into one for loop there, or run on device='reference'",
                )


@dataclass(eq=False)
class _Yield(Op):
    """Stands for a loop's yields, so that they count as read at its end."""

    values: list[Value]

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple(self.values)


def _reads(op: Op) -> Iterator[Value]:
    yield from op.operands
    for block in op.blocks:
        yield from block.yields
        for inner in block.ops:
            yield from _reads(inner)


def _defined(op: Op) -> Iterator[Value]:
    """Values that an operation's blocks define."""
    for block in op.blocks:
        yield from block.arguments
        for inner in block.ops:
            yield from inner.results
            yield from _defined(inner)


def _holds_barrier(op: Op) -> bool:
    return any(isinstance(inner, GridBarrier) for block in op.blocks for inner in walk(block))
