"""What is known about a program at launch: ranges of index scalars, slices inside their tensors, alignment, trips.

Shapes are static but extents, grid and integer arguments are only known at launch. Knowing them, a strided interval
(lo, hi, step) for every index scalar decides, before any code is emitted: which slices need no mask, how wide an
access may be, how often a loop runs, and whether 32-bit index arithmetic is enough. Only these verdicts, not the
extents, enter the key of a compiled shader, so a shader serves every launch that shares them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .program import (
    Block,
    BlockIndex,
    Constant,
    Dim,
    Extract,
    For,
    If,
    Insert,
    Load,
    Map,
    Op,
    Program,
    Store,
    Value,
    While,
)

INT32 = (1 << 31) - 1
INT64 = (1 << 63) - 1
UNKNOWN = 1 << 24  # trips: a bound that is no better than none
WIDEST = 64  # elements; no access is wider


@dataclass(frozen=True)
class Range:
    """The values lo, lo + step, ..., hi; step 0 where there is one value."""

    lo: int
    hi: int
    step: int = 1

    @property
    def exact(self) -> bool:
        return self.lo == self.hi

    @property
    def divisor(self) -> int:
        """The largest number that divides every value (0 for the constant 0)."""
        return math.gcd(self.lo, self.step)


TOP = Range(-INT64 - 1, INT64)


def exactly(n: int) -> Range:
    return Range(n, n, 0)


def _span(lo: int, hi: int, step: int) -> Range:
    if lo < -INT64 - 1 or hi > INT64:  # may wrap
        return TOP
    return exactly(lo) if lo == hi else Range(lo, hi, max(step, 1))


def _truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _add(a: Range, b: Range) -> Range:
    return _span(a.lo + b.lo, a.hi + b.hi, math.gcd(a.step, b.step))


def _sub(a: Range, b: Range) -> Range:
    return _span(a.lo - b.hi, a.hi - b.lo, math.gcd(a.step, b.step))


def _mul(a: Range, b: Range) -> Range:
    corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return _span(min(corners), max(corners), math.gcd(a.lo * b.step, b.lo * a.step, a.step * b.step))


def _div(a: Range, b: Range) -> Range:
    if b.lo <= 0:
        return TOP
    corners = [_truncated(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    exact = b.exact and a.divisor % b.lo == 0
    return _span(min(corners), max(corners), a.step // b.lo if exact else 1)


def _rem(a: Range, b: Range) -> Range:
    if not b.exact or b.lo <= 0:
        return TOP
    if a.exact and a.lo >= 0:
        return exactly(a.lo % b.lo)
    if a.lo >= 0 and a.hi < b.lo:
        return a
    step = math.gcd(a.divisor, b.lo)
    return _span(0 if a.lo >= 0 else -b.lo + 1, b.lo - 1, 1) if step <= 1 or a.lo < 0 else _span(0, b.lo - step, step)


def _min(a: Range, b: Range) -> Range:
    return _span(min(a.lo, b.lo), min(a.hi, b.hi), math.gcd(a.step, b.step, a.lo - b.lo))


def _max(a: Range, b: Range) -> Range:
    return _span(max(a.lo, b.lo), max(a.hi, b.hi), math.gcd(a.step, b.step, a.lo - b.lo))


def _neg(a: Range) -> Range:
    return _span(-a.hi, -a.lo, a.step)


def join(a: Range, b: Range) -> Range:
    return _span(min(a.lo, b.lo), max(a.hi, b.hi), math.gcd(a.step, b.step, a.lo - b.lo))


TRANSFER: dict[str, Callable[..., Range]] = {
    "add.s64": _add, "sub.s64": _sub, "mul.lo.s64": _mul, "div.s64": _div, "rem.s64": _rem,
    "min.s64": _min, "max.s64": _max, "neg.s64": _neg, "max.sel.s64": _max,
}  # fmt: skip


@dataclass
class Facts:
    """Verdicts for one launch; the dictionaries are keyed by operation.

    inside: per axis of a slice, whether it stays within its tensor. aligned: elements that divide every start of a
    slice's last axis (and the row stride). trips: upper bound of a loop's trips, None where unknown. runs: whether a
    loop surely makes a trip. bounds: first, end and step of a loop where all three are known. index32: whether every
    index scalar fits 32 bits.
    """

    inside: dict[Op, tuple[bool, ...]] = field(default_factory=dict)
    aligned: dict[Op, int] = field(default_factory=dict)
    trips: dict[Op, int | None] = field(default_factory=dict)
    runs: dict[Op, bool] = field(default_factory=dict)
    bounds: dict[Op, tuple[int, int, int]] = field(default_factory=dict)
    index32: bool = True
    order: list[Op] = field(default_factory=list)

    @property
    def key(self) -> tuple[object, ...]:
        """The part of a shader's identity that a launch decides."""
        slices = ((self.inside[op], self.aligned[op]) for op in self.order)
        return (self.index32, *slices, *self.runs.values())


def analyse(
    program: Program,
    extents: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int],
    grid: tuple[int, int, int],
    integers: Mapping[str, int] | None = None,
) -> Facts:
    """Facts of one launch: extents of each tensor, value of each symbolic dim, the grid, integer scalar arguments."""
    return _Analysis(program, extents, dims, grid, integers or {}).run()


class _Analysis:
    def __init__(
        self,
        program: Program,
        extents: Mapping[str, tuple[int, ...]],
        dims: Mapping[str, int],
        grid: tuple[int, int, int],
        integers: Mapping[str, int],
    ) -> None:
        self.program, self.extents, self.dims, self.grid = program, extents, dims, grid
        self.ranges: dict[Value, Range] = {}
        self.facts = Facts()
        for scalar in program.scalars:
            if scalar.name in integers:
                self.set(scalar.value, exactly(integers[scalar.name]))

    def run(self) -> Facts:
        for tensor in self.program.tensors:
            if math.prod(self.extents[tensor.name]) > INT32:
                self.facts.index32 = False
        self.block(self.program.body)
        return self.facts

    def of(self, value: Value) -> Range:
        return self.ranges.get(value, TOP)

    def set(self, value: Value, found: Range) -> None:
        self.ranges[value] = found
        if value.element.name == "s64" and value.shape == () and (found.lo < -INT32 - 1 or found.hi > INT32):
            self.facts.index32 = False

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        match op:
            case Constant(result=result, code=code) if result.element.is_integer:
                bits = result.element.bits
                signed = code - (1 << bits) if result.element.kind == "signed" and code >> (bits - 1) else code
                self.set(result, exactly(signed))
            case Dim(result=result, dim=dim):
                self.set(result, exactly(self.dims[dim]))
            case BlockIndex(result=result, axis=axis):
                self.set(result, _span(0, self.grid[axis] - 1, 1))
            case Map(result=result, instruction=instruction, args=args) if result.shape == ():
                self.scalar_map(result, instruction, args)
            case Load(tensor=tensor, starts=starts, sizes=sizes) | Store(tensor=tensor, starts=starts, sizes=sizes):
                self.slice(op, starts, sizes, self.extents[tensor])
                if isinstance(op, Load) and op.result.shape == () and op.result.element.name == "s64":
                    self.set(op.result, TOP)
            case Extract(result=result, value=value, starts=starts, sizes=sizes):
                self.slice(op, starts, sizes, value.shape)
                if result.shape == () and result.element.name == "s64":
                    self.set(result, TOP)
            case Insert(into=into, starts=starts, sizes=sizes):
                self.slice(op, starts, sizes, into.shape)
            case For():
                self.loop(op)
            case While():
                self.carried([*op.condition.arguments, *op.body.arguments, *op.outs])
                self.facts.trips[op] = None
                self.block(op.condition)
                self.block(op.body)
            case If():
                self.block(op.then)
                self.block(op.orelse)
                for out, a, b in zip(op.outs, op.then.yields, op.orelse.yields, strict=True):
                    if out.shape == () and out.element.is_integer:
                        self.set(out, join(self.of(a), self.of(b)))
            case _:
                for result in op.results:
                    if result.shape == () and result.element.name == "s64":
                        self.set(result, TOP)

    def scalar_map(self, result: Value, instruction: str, args: tuple[Value, ...]) -> None:
        if not result.element.is_integer:
            return
        transfer = TRANSFER.get(instruction)
        if transfer is not None:
            self.set(result, transfer(*(self.of(a) for a in args)))
        elif instruction == "selp":
            self.set(result, join(self.of(args[1]), self.of(args[2])))
        elif instruction.startswith("cvt.s64.") and args[0] in self.ranges:
            self.set(result, self.of(args[0]))
        else:
            widened = instruction.startswith("cvt.") and args[0].element.is_integer and args[0].element.bits <= 32
            known = widened or result.element.bits <= 32
            self.set(result, _span(-(1 << 31), INT32, 1) if known else TOP)

    def slice(self, op: Op, starts: tuple[Value, ...], sizes: tuple[int | None, ...], extents: tuple[int, ...]) -> None:
        self.facts.order.append(op)
        inside = []
        for start, size, extent in zip(starts, sizes, extents, strict=True):
            found = self.of(start)
            inside.append(found.lo >= 0 and found.hi + (size or 1) <= extent)
        self.facts.inside[op] = tuple(inside)
        divisor = self.of(starts[-1]).divisor if starts else WIDEST
        if len(extents) > 1:
            divisor = math.gcd(divisor, extents[-1])
        self.facts.aligned[op] = math.gcd(divisor, WIDEST) if divisor else WIDEST

    def loop(self, op: For) -> None:
        lo, hi, step = self.of(op.lo), self.of(op.hi), self.of(op.step)
        if step.lo <= 0:
            trips = 0 if step.hi <= 0 else None
        else:
            trips = max(0, -((lo.lo - hi.hi) // step.lo)) if TOP not in (lo, hi) else None
        exact = lo.exact and hi.exact and step.exact
        self.facts.trips[op] = trips if exact or trips is None or trips < UNKNOWN else None
        if exact and step.lo > 0:
            self.facts.bounds[op] = (lo.lo, hi.lo, step.lo)
        self.facts.runs[op] = bool(trips) and exact
        induction = TOP
        if trips is not None:
            last = lo.hi + max(0, trips - 1) * step.hi if lo.exact and step.exact else max(lo.lo, hi.hi - 1)
            induction = _span(lo.lo, last, math.gcd(lo.step, step.lo if step.exact else 1))
        self.set(op.body.arguments[0], induction)
        self.carried([*op.body.arguments[1:], *op.outs])
        self.block(op.body)

    def carried(self, values: list[Value]) -> None:
        for value in values:
            if value.shape == () and value.element.is_integer:
                self.set(value, TOP if value.element.bits > 32 else _span(-(1 << 31), INT32, 1))
