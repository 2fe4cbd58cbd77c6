"""Whether a program's loads and stores keep their order when its elements are spread over lanes and units.

Nothing orders the memory accesses of two lanes. So every element of an array that a program writes must belong to one
lane for all of the program: at any two moments, two slices of that array are the same window or do not meet.

Rules
 1. A store's start is *fixed* within a CTA, or it moves by multiples of the slice's size on that axis (a loop's
    variable with such a step): its windows then are equal or disjoint.
 2. Two slices with the same starts and sizes are the same window. Two others, one of them a store, must be disjoint: on
    one axis both starts are fixed and differ by a constant that is at least the size of the lower one.
 3. A cut of the CTA (partition.Classes) must cut all accesses to a window on the same tensor axis. Where it cuts none,
    a window may be written, not read: its units then store the same codes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .program import Block, Constant, For, Load, Map, Op, Program, Store, Value, While, walk

Access = Load | Store


@dataclass
class Motion:
    """How index scalars change while a CTA runs. steps: all differences between two values are multiples of it
    (0: fixed)."""

    steps: dict[Value, int] = field(default_factory=dict)
    makers: dict[Value, Op] = field(default_factory=dict)

    def of(self, value: Value) -> int:
        return self.steps.get(value, 0)

    def constant(self, value: Value) -> int | None:
        op = self.makers.get(value)
        if not isinstance(op, Constant):
            return None
        return op.code - (1 << 64) if op.code >> 63 else op.code

    def linear(self, value: Value) -> tuple[dict[Value, int], int]:
        """The value as a sum of multiples of other values, and a constant."""
        op, constant = self.makers.get(value), self.constant(value)
        if constant is not None:
            return {}, constant
        if isinstance(op, Map) and op.instruction in ("add.s64", "sub.s64"):
            (a, c), (b, d) = self.linear(op.args[0]), self.linear(op.args[1])
            sign = 1 if op.instruction == "add.s64" else -1
            terms = {v: a.get(v, 0) + sign * b.get(v, 0) for v in {**a, **b}}
            return {v: n for v, n in terms.items() if n}, c + sign * d
        if isinstance(op, Map) and op.instruction == "mul.lo.s64":
            for factor, other in (op.args, op.args[::-1]):
                scale = self.constant(factor)
                if scale is not None:
                    terms, c = self.linear(other)
                    return {v: n * scale for v, n in terms.items() if n * scale}, c * scale
        return {value: 1}, 0


def motion(program: Program) -> Motion:
    """The motion of every scalar of a program."""
    found = Motion()
    _visit(found, program.body, False)
    return found


def _visit(m: Motion, block: Block, moving: bool) -> None:
    for op in block.ops:
        for value in op.results:
            m.makers[value] = op
        if moving:
            _move(m, op)
        if isinstance(op, For):
            step = m.constant(op.step)
            m.steps[op.body.arguments[0]] = math.gcd(step if step is not None else 1, m.of(op.lo))
        for inner in op.blocks:
            turns = isinstance(op, For | While)
            if turns:
                for value in inner.arguments[1:] if isinstance(op, For) else inner.arguments:
                    m.steps[value] = 1
            _visit(m, inner, moving or turns)


def _move(m: Motion, op: Op) -> None:
    """The motion of what an operation makes inside a loop."""
    if isinstance(op, Constant):
        return
    if isinstance(op, Map):
        steps = [m.of(a) for a in op.args]
        if not any(steps):
            return
        if op.instruction in ("add.s64", "sub.s64"):
            m.steps[op.result] = math.gcd(*steps)
            return
        if op.instruction == "mul.lo.s64" and 0 in steps:
            fixed = op.args[steps.index(0)]
            m.steps[op.result] = max(steps) * abs(m.constant(fixed) or 1)
            return
    elif not op.operands and not op.blocks:
        return
    for value in op.results:
        m.steps[value] = 1


def accesses(program: Program, aliases: dict[str, str]) -> dict[str, list[Access]]:
    """Loads and stores of every array that the program writes."""
    found: dict[str, list[Access]] = {}
    for op in walk(program.body):
        if isinstance(op, Load | Store):
            found.setdefault(aliases.get(op.tensor, op.tensor), []).append(op)
    return {name: ops for name, ops in found.items() if any(isinstance(op, Store) for op in ops)}


def same_shape(program: Program, a: Access, b: Access) -> bool:
    """Whether two tensors are surely of one shape: an array may be passed twice, as two shapes."""
    return program.tensor(a.tensor).dims == program.tensor(b.tensor).dims


def same_window(program: Program, a: Access, b: Access) -> bool:
    if a.sizes != b.sizes or not same_shape(program, a, b):
        return False
    return all(x is y for x, y in zip(a.starts, b.starts, strict=True))


def disjoint(m: Motion, program: Program, a: Access, b: Access) -> bool:
    """Rule 2."""
    if not same_shape(program, a, b):
        return False
    for x, y, size_x, size_y in zip(a.starts, b.starts, a.sizes, b.sizes, strict=True):
        (terms, first), (others, second) = m.linear(x), m.linear(y)
        if terms != others or any(m.of(v) for v in terms):
            continue
        apart = second - first
        if apart >= (size_x or 1) or -apart >= (size_y or 1):
            return True
    return False


def out_of_order(program: Program, aliases: dict[str, str]) -> str | None:
    """Why a program's accesses need an order between lanes, or None where they do not (rules 1 and 2)."""
    m = motion(program)
    for name, ops in accesses(program, aliases).items():
        for i, op in enumerate(ops):
            if isinstance(op, Store) and any(m.of(at) % (size or 1) for at, size in zip(op.starts, op.sizes)):
                return f"slices of {name} overlap from one turn of a loop to the next"
            for other in ops[:i]:
                if isinstance(op, Load) and isinstance(other, Load):
                    continue
                if not same_window(program, op, other) and not disjoint(m, program, op, other):
                    return f"{name} is accessed through slices that may overlap"
    return None
