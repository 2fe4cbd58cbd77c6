"""Contractions of the workgroup mapping: every invocation owns a block of outputs and walks k in ascending order.

The recorded loop form (docs/adr/0003) and the chain cores have the same owner map, so switching `form` changes the
arithmetic's shape and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from .. import isa
from ..spirv.builder import Array, Value, Variable
from ..tile import program as tp
from . import shared_cooperative, shared_double, shared_stage
from .emitter import Carried
from .shared_stage import Decoded, Packed, Sorted, Stage
from .sm86 import tensor, tensor_block
from .sm86.chains import Operand
from .sm86.tensor_float import FloatCore
from .uses import core_of

if TYPE_CHECKING:
    from .shared import SharedEmitter, Slot

BLOCKS = ((4, 4), (4, 2), (2, 2), (2, 1), (1, 1))
STAGES = (Packed, Decoded)  # by preference; figures in docs/performance.md
WORD = 4  # bytes
FRAGMENTS = ((1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 4), (8, 8))


def emit(e: SharedEmitter, op: tp.Contract) -> None:
    """out[i, j] = chain over k of a[i, k] * b[k, j], from seed[i, j]."""
    row = isa.lookup(op.instruction)
    fragment = e.fragments.get(op.seed)
    if fragment is not None:
        fragment.advance(op)
        return
    if shared_cooperative.serves(e, op):
        shared_cooperative.emit(e, op)
        return
    if e.job.form == "loops" and row.family == "tensor":
        for operand in (op.a, op.b):
            e.materialise(operand)
        _loops(e, op, row, _target(e, op))
        return
    _Blocks(e, op, _block(e, op, BLOCKS, fill=True)).emit(_target(e, op))


def _target(e: SharedEmitter, op: tp.Contract) -> Slot:
    """Memory of the result: the carried tile that it replaces, where its seed is that tile, or its own."""
    slot = e.inherits(op.result) if op.seed in e.slots else None
    if slot is None or e.slots.get(op.seed) is not slot:
        slot = e.allocate(op.result.element, op.result.type.size)
    return slot


def _block(
    e: SharedEmitter, op: tp.Contract, choices: tuple[tuple[int, int], ...], fill: bool
) -> tuple[int, int] | None:
    """Outputs per invocation: the first choice that fills the workgroup, or that the workgroup covers in one pass."""
    (m, n), size = op.result.shape, e.local_size
    for x, y in choices:
        if e.target.is_narrow and x * y > e.target.accumulators:
            continue
        if m % x == 0 and n % y == 0:
            blocks = m * n // (x * y)
            if (blocks >= size or x * y == 1) if fill else blocks <= size:
                return x, y
    return None


class _Blocks:
    """The arithmetic of one contraction: blocks of outputs over operands that are staged, decoded, or read as codes."""

    def __init__(self, e: SharedEmitter, op: tp.Contract, block: tuple[int, int] | None) -> None:
        assert block is not None
        self.e, self.op, self.block = e, op, block
        self.m, self.n = op.result.shape
        self.depth = op.a.shape[1]
        self.core = core_of(e.job, e.uses, op)
        self.stages: tuple[Stage, Stage] | None = None
        self.flag = self._special_flag()
        self.odd = e.b.variable("bool")  # whether this invocation has an odd seed; for `flag`
        self.count = self.m * self.n // (block[0] * block[1])

    def place(self, i: Value) -> tuple[Value, Value]:
        """First row and column of block `i`."""
        across = self.n // self.block[1]
        return i // across * self.block[0], i % across * self.block[1]

    def seeds(self, i: Value, value: tp.Value) -> list[Operand]:
        """States of block `i` from the codes of a tile; sees to `odd`."""
        b, (r0, c0) = self.e.b, self.place(i)
        at = [(r0 + r, c0 + c) for r in range(self.block[0]) for c in range(self.block[1])]
        states = [self.core.seed(b, self.e.at(value, coordinates)) for coordinates in at]
        if self.flag is not None and isinstance(self.core, FloatCore):
            self.odd.store(reduce(or_, [self.core.is_odd(b, state) for state in states]))
        return states

    def prepare(self) -> None:
        """Stages both operands where workgroup memory has room, else they are tiles of codes like any other."""
        e, op = self.e, self.op
        if op.a is not op.b and all(e.uses.feeds_only_contractions(v) for v in (op.a, op.b)):
            flag, core = self.flag, self.core
            if flag is not None and isinstance(core, FloatCore):
                if self._reserve(*(Sorted(e, core, *side, flag) for side in self._sides())):
                    return
                self.flag = None
            if any(self._reserve(*(kind(e, core, *side) for side in self._sides())) for kind in STAGES):
                return
        self.flag = None
        for operand in (op.a, op.b):
            e.materialise(operand)

    def _special_flag(self) -> Array | None:
        """A word that tells whether an infinity or NaN was staged, where a GPU's arithmetic is to depend on that."""
        e, core = self.e, self.core
        suited = isinstance(core, FloatCore) and tensor_block.serves(core) and self.depth > 0
        if not suited or e.target.is_cpu or e.target.is_narrow:  # a CPU device runs both sides of a branch
            return None
        e.shared_left -= WORD * shared_stage.VECTOR  # with what aligns the vectors beside it
        flag = e.b.shared("u32", 1)
        flag.store(0, 0)
        return flag

    def chunks(self) -> shared_double.Chunks | None:
        """f64 arithmetic for a loop's contraction, where that is faster (`Target.double_dots`)."""
        if self.flag is None or not isinstance(self.core, FloatCore):
            return None
        found = shared_double.Chunks.of(self.e, self.op, self.core, self.flag, self.block)
        if found is not None:
            self.core = found.core
        return found

    def _sides(self) -> tuple[tuple[tp.Value, int, bool], tuple[tp.Value, int, bool]]:
        return (self.op.a, 0, True), (self.op.b, 1, self.op.transposed)

    def _reserve(self, a: Stage, b: Stage) -> bool:
        before = self.e.shared_left
        if a.reserve() and b.reserve():
            self.stages = a, b
            return True
        self.e.shared_left = before
        return False

    def fill(self) -> None:
        if self.stages is not None:
            shared_stage.fill(self.e, [stage.chore() for stage in self.stages])

    def walk(self, i: Value, states: list[list[Variable]]) -> None:
        """Advances the accumulators of block `i` over all of k."""
        e, b, core = self.e, self.e.b, self.core
        (bm, bn), (r0, c0) = self.block, self.place(i)

        def group(g: Value) -> None:
            a, w = self._operands(g * core.width, r0, c0)
            for r in range(bm):
                for c in range(bn):
                    variables = states[r * bn + c]
                    acc = core.step(b, tuple(v.load() for v in variables), a[r], w[c])
                    for variable, value in zip(variables, acc, strict=True):
                        variable.store(value)

        if self.flag is not None:
            self._walk_sorted(self.flag, i, states)
        elif self.depth:
            assert self.depth % core.width == 0, (self.op.instruction, self.depth, core.width)
            e.serial(self.depth // core.width, group)

    def _walk_sorted(self, flag: Array, i: Value, states: list[list[Variable]]) -> None:
        e, b, core, (bm, bn), (r0, c0) = self.e, self.e.b, self.core, self.block, self.place(i)
        assert isinstance(core, FloatCore) and self.stages is not None
        left, right = self.stages
        assert isinstance(left, Sorted) and isinstance(right, Sorted)
        rows = self.rows(states)

        def walk(core: FloatCore) -> None:
            def group(g: Value) -> None:
                first = g * (core.width // 2)
                tensor_block.advance(
                    b,
                    core,
                    rows,
                    lambda which, j: left.words(which, first + j, r0, bm),
                    lambda which, j: right.words(which, first + j, c0, bn),
                )

            e.serial(self.depth // core.width, group)

        finite = FloatCore(core.rules, plain=True, calm=True)
        b.if_else(flag.load(0).ne(0) | self.odd.load(), lambda: walk(core), lambda: walk(finite))

    def _operands(self, k0: Value, r0: Value, c0: Value) -> tuple[list[list[Operand]], list[list[Operand]]]:
        """Decoded operands of one step: [row][k] of a and [column][k] of b."""
        e, b, core, op = self.e, self.e.b, self.core, self.op
        ks = range(core.width)
        if self.stages is not None:
            sides = zip(self.stages, (r0, c0), self.block, strict=True)
            a, w = (stage.read(k0, first, count) for stage, first, count in sides)
            return a, w
        a = [[core.operand(b, e.tiles[op.a].at((r0 + r, k0 + k)), 0) for k in ks] for r in range(self.block[0])]
        w = [[core.operand(b, _operand_b(e, op, k0 + k, c0 + c), 1) for k in ks] for c in range(self.block[1])]
        return a, w

    def results(self, i: Value, states: list[list[Variable]], slot: Slot) -> None:
        """Writes the accumulators of block `i` to memory."""
        e, (r0, c0), bn = self.e, self.place(i), self.block[1]
        for j, variables in enumerate(states):
            code = self.core.result(e.b, tuple(v.load() for v in variables))
            e.write_slot(slot, self.op.result.element, (r0 + j // bn) * self.n + c0 + j % bn, code)

    def rows(self, states: list[list[Variable]]) -> list[list[Variable]]:
        """[row][column] of a block's states, of a core whose states are one variable each."""
        across = self.block[1]
        return [[variables[0] for variables in states[i : i + across]] for i in range(0, len(states), across)]

    def variables(self, values: list[Operand]) -> list[list[Variable]]:
        return [[self.e.b.variable(part.kind, part) for part in state] for state in values]

    def emit(self, slot: Slot) -> None:
        """The whole contraction, from seeds in memory to results in memory."""
        self.prepare()
        self.fill()

        def block(i: Value) -> None:
            states = self.variables(self.seeds(i, self.op.seed))
            self.walk(i, states)
            self.results(i, states, slot)

        self.e.parallel(self.count, block)
        self.e.bind_slot(self.op.result, slot)


class Fragment(Carried):
    """An accumulator that stays in its invocations' registers through a loop (phobos-language.md C.4)."""

    def __init__(self, e: SharedEmitter, op: tp.Contract, block: tuple[int, int]) -> None:
        self.e, self.op = e, op
        self.blocks = _Blocks(e, op, block)
        self.chunks = self.blocks.chunks()
        outputs = block[0] * block[1]
        kinds = [part.kind for part in self.blocks.core.seed(e.b, e.zero_of(op.seed.element))]
        self.states = [[e.b.variable(kind) for kind in kinds] for _ in range(outputs)]

    @classmethod
    def of(cls, e: SharedEmitter, op: tp.Contract) -> Fragment | shared_cooperative.Fragment | None:
        """The fragment of a loop's contraction, None where one pass of the workgroup does not cover its result."""
        row = isa.lookup(op.instruction)
        if shared_cooperative.serves(e, op):
            return shared_cooperative.Fragment(e, op)
        if e.job.form == "loops" and row.family == "tensor":
            return None
        block = _block(e, op, FRAGMENTS, fill=False)
        return None if block is None or e.scope == "subgroup" else cls(e, op, block)

    def mine(self, body: Callable[[], None]) -> None:
        """Runs `body` in the invocations that own a block."""
        if self.blocks.count == self.e.local_size:
            body()
        else:
            with self.e.b.if_(self.e.lid < self.blocks.count):
                body()

    def prepare(self, value: tp.Value) -> Callable[[], None]:
        if self.e.fragments.get(value) is self:
            return lambda: None
        e, blocks = self.e, self.blocks

        def seed() -> None:
            for variables, state in zip(self.states, blocks.seeds(e.lid, value), strict=True):
                for variable, part in zip(variables, state, strict=True):
                    variable.store(part)

        return lambda: self.mine(seed)

    def enter(self, argument: tp.Value) -> None:
        e = self.e
        if argument is self.op.seed:
            e.fragments[argument] = self
            return
        size = argument.type.size
        slot = e.allocate(argument.element, size) if self.chunks is None else self.chunks.slot(size)
        self.mine(lambda: self.blocks.results(e.lid, self.states, slot))
        e.barrier()
        e.bind_slot(argument, slot)

    def advance(self, op: tp.Contract) -> None:
        """One contraction of the loop's body."""
        self.e.fragments[op.result] = self
        if self.chunks is not None:
            rows, place = self.blocks.rows(self.states), self.blocks.place(self.e.lid)
            self.chunks.advance(self.mine, place, rows, self.blocks.odd.load())
            return
        self.blocks.prepare()
        self.blocks.fill()
        self.mine(lambda: self.blocks.walk(self.e.lid, self.states))
        if self.blocks.stages is None:
            self.e.barrier()  # whatever comes next may write over what was read


def _operand_b(e: SharedEmitter, op: tp.Contract, k: Value, column: Value) -> Value:
    return e.tiles[op.b].at((column, k) if op.transposed else (k, column))


def _loops(e: SharedEmitter, op: tp.Contract, row: isa.Instruction, slot: Slot) -> None:
    """The decision record's form: four small loops, each marked DontUnroll."""
    m, n = op.result.shape
    total, size = m * n, e.local_size
    outputs = -(-total // size)
    groups = op.a.shape[1] // tensor.group_width(row, e.job.arch)
    e.counter.add(tensor.loops_trips(row, e.job.arch, outputs, groups))

    def place(o: Value) -> tuple[Value, Value, Value]:
        element = e.lid + o * size
        return element, element // n, element % n

    def load_a(o: Value, k: Value) -> Value:
        return e.tiles[op.a].at((place(o)[1], k))

    def load_b(o: Value, k: Value) -> Value:
        return _operand_b(e, op, k, place(o)[2])

    def load_c(o: Value) -> Value:
        _, r, c = place(o)
        return e.at(op.seed, (r, c))

    def store(o: Value, code: Value) -> None:
        e.write_slot(slot, op.result.element, place(o)[0], code)

    assert total % size == 0 or size > total, (total, size)
    if total < size:
        with e.b.if_(e.lid < total):
            tensor.emit_loops(e.b, row, e.job.arch, outputs, groups, load_a, load_b, load_c, store)
    else:
        tensor.emit_loops(e.b, row, e.job.arch, outputs, groups, load_a, load_b, load_c, store)
    e.barrier()
    e.bind_slot(op.result, slot)
