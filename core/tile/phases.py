"""Cuts a program at its grid barriers into phases that a host runs one after the other.

Vulkan promises no progress between workgroups, so a barrier over the grid cannot be waited for inside a dispatch.
Where the barriers stand at the top level of a kernel, or in a loop there whose count the host knows, every stretch
between two of them is a program of its own. Values that live across a barrier pass through hidden tensors, one slice
per CTA; scalars that only depend on constants, dims and the CTA's coordinates are computed again.

Rules
 1. A hidden tensor is written by one phase and read by later ones, except a loop's carried values, which the last
    phase of a trip replaces through the very slice that it reads.
 2. A loop with a barrier runs its phases once per trip; the induction variable is a hidden scalar parameter.
 3. A barrier below that (in a branch, a while, a nested loop) is an error that says so.
"""

from __future__ import annotations

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

GRID_X, GRID_Y, CTAS = "%grid_x", "%grid_y", "%ctas"


@dataclass(frozen=True)
class Phase:
    """One dispatch: a program over the kernel's tensors and the hidden ones; `scalar` is its induction parameter."""

    program: Program
    scalar: str | None = None


@dataclass(frozen=True)
class Loop:
    """Phases that run once per trip of `op`, whose bounds the host reads from the facts of a launch."""

    op: For
    scalar: str
    phases: tuple[Phase, ...]


@dataclass
class Schedule:
    """What the host runs in order, and the hidden tensors: name -> element format and shape per CTA."""

    steps: list[Phase | Loop] = field(default_factory=list)
    hidden: dict[str, TileType] = field(default_factory=dict)


def has_barrier(program: Program) -> bool:
    return any(isinstance(op, GridBarrier) for op in walk(program.body))


def schedule(program: Program) -> Schedule:
    """The phases of a program with grid barriers; KernelError where one stands too deep."""
    return _Cutter(program).cut()


class _Cutter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.out = Schedule()
        self.makers = {value: op for op in walk(program.body) for value in op.results}
        self.tensors: dict[Value, str] = {}

    def cut(self) -> Schedule:
        ops = self.program.body.ops
        pieces = list(_pieces(ops))
        for i, piece in enumerate(pieces):
            later = [op for other in pieces[i + 1 :] for op in other]
            if len(piece) == 1 and isinstance(piece[0], For) and _holds_barrier(piece[0]):
                self._loop(piece[0], later)
            else:
                _refuse(piece)
                self._straight(piece, later, None)
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
            self.tensors[value] = name = f"%{len(self.tensors)}"
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

    def _straight(self, ops: list[Op], later: list[Op], induction: Value | None) -> None:
        made = {value for op in ops for value in op.results}
        self.out.steps.append(self._phase(ops, self._live(made, later), {}, induction))

    def _loop(self, loop: For, later: list[Op]) -> None:
        """Inits go to hidden tensors, each part of the body is a phase, the last one replaces the carried values."""
        span = loop.span
        carried = loop.body.arguments[1:]
        names = [self._tensor(argument) for argument in carried]
        self.out.steps.append(self._phase([], [], dict(zip(names, loop.inits, strict=True)), None))
        scalar = f"%trip{len(self.out.steps)}"
        parts = list(_pieces(loop.body.ops))
        phases = []
        for i, part in enumerate(parts):
            _refuse(part)
            made = {value for op in part for value in op.results} | ({loop.body.arguments[0]} if i == 0 else set())
            rest = [op for other in parts[i + 1 :] for op in other]
            kept = [v for v in self._live(made, [*rest, _Yield(span, loop.body.yields)]) if v in made]
            last = i == len(parts) - 1
            extra = dict(zip(names, loop.body.yields, strict=True)) if last else {}
            kept = [] if last else [v for v in kept if v is not loop.body.arguments[0]]
            phases.append(self._phase(part, kept, extra, loop.body.arguments[0], scalar))
        self.out.steps.append(Loop(loop, scalar, tuple(phases)))
        for out, argument in zip(loop.outs, carried, strict=True):
            self.tensors[out] = self.tensors[argument]

    def _phase(
        self,
        ops: list[Op],
        keep: list[Value],
        replaced: dict[str, Value],
        induction: Value | None,
        scalar: str | None = None,
    ) -> Phase:
        """A program of `ops` that first brings in what they read and finally stores `keep` and `replaced`."""
        program, span = self.program, self.program.body.ops[0].span
        body: list[Op] = []
        known: set[Value] = {s.value for s in program.scalars} | {v for op in ops for v in op.results}
        if induction is not None:
            known.add(induction)
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
        for value in [*wanted, *replaced.values()]:
            bring(value)
        body += ops
        saved = {**{self._tensor(v): v for v in keep}, **replaced}
        starts = {op.tensor: (op.starts, op.sizes) for op in body if isinstance(op, Load) and op.tensor in saved}
        for name, value in saved.items():
            start, sizes = starts.get(name) or self._slice(body, span, cta, value.type)
            body.append(Store(span, name, start, sizes, value))
        return Phase(self._program(body, induction, scalar), scalar)

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

    def _program(self, body: list[Op], induction: Value | None, scalar: str | None) -> Program:
        program = self.program
        used = {op.tensor for op in walk(Block(ops=body)) if isinstance(op, Load | Store)}
        span = program.body.ops[0].span
        hidden = tuple(
            TensorParam(name, self.out.hidden[name].element, (CTAS, *self.out.hidden[name].shape), span)
            for name in self.out.hidden
            if name in used
        )
        scalars = program.scalars
        if induction is not None and scalar is not None:
            scalars = (*scalars, ScalarParam(scalar, induction, span))
        tensors = (*(t for t in program.tensors if t.name in used), *hidden)
        return replace(
            program,
            tensors=tensors,
            scalars=scalars,
            dims=(*program.dims, GRID_X, GRID_Y, CTAS),
            body=Block(ops=body),
            notes=[],
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


def _holds_barrier(op: Op) -> bool:
    return any(isinstance(inner, GridBarrier) for block in op.blocks for inner in walk(block))


def _pieces(ops: list[Op]) -> Iterator[list[Op]]:
    """Stretches between barriers; a loop that holds one stands alone. Always at least one stretch."""
    piece: list[Op] = []
    for op in ops:
        if isinstance(op, GridBarrier):
            yield piece
            piece = []
        elif isinstance(op, For) and _holds_barrier(op):
            yield piece
            yield [op]
            piece = []
        else:
            piece.append(op)
    yield piece


def _refuse(ops: list[Op]) -> None:
    for op in ops:
        if _holds_barrier(op):
            barrier = next(i for block in op.blocks for i in walk(block) if isinstance(i, GridBarrier))
            raise KernelError(
                "grid_barrier inside a branch, a while or a nested loop: the host must know how often it runs",
                barrier.span,
                "move it to the kernel's top level or into one for loop there, or run on device='reference'",
            )
