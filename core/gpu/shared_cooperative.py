"""Contractions of the workgroup mapping through the device's own matrix unit: `mode="cooperative"` only.

The result of a dot is cut into the matrices that the device multiplies and adds at once; each subgroup owns some of
them, in registers through a loop over k. Operands are staged in workgroup memory as f16, rows padded so that they start
in different banks; accumulators pass through workgroup memory where they meet the rest of the program. What the unit
computes is the device's matter (`cooperative`); the order of k is ascending here as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..spirv import cooperative as spirv
from ..spirv.builder import Value
from ..spirv.cooperative import Matrix, MatrixType, MatrixVariable
from ..tile import program as tp
from . import cooperative
from .emitter import Carried

if TYPE_CHECKING:
    from .shared import SharedEmitter, Slot

VECTOR = 4  # halves per element of a staged array
RUN = cooperative.RUN
UNROLLED = 4  # steps along k of one stage that are written out


def serves(e: SharedEmitter, op: tp.Contract) -> bool:
    """Whether a contraction of this shader goes through the matrix unit."""
    return e.job.form == cooperative.FORM and cooperative.offer_for(op, e.target) is not None


def emit(e: SharedEmitter, op: tp.Contract) -> None:
    """The whole contraction, from seeds in memory to results in memory."""
    fragment = Fragment(e, op)
    fragment.take(fragment.read(op.seed))
    fragment.advance(op)
    e.fragments.pop(op.result)
    fragment.give(op.result)


class Stage:
    """One operand in workgroup memory, as the tile lies: [row][column]."""

    def __init__(self, e: SharedEmitter, value: tp.Value) -> None:
        self.e, self.value = e, value
        self.rows, self.columns = value.shape
        self.stride = cooperative.padded(self.columns) // VECTOR
        self.words = self.rows * self.stride
        free = e.halves.setdefault(self.words, [])
        if not free:
            e.shared_left -= 2 * VECTOR * self.words
            free.append(e.b.shared(f"f16x{VECTOR}", self.words))
        self.array = free.pop()

    def release(self) -> None:
        """For the next contraction, after a barrier."""
        self.e.halves[self.words].append(self.array)

    def fill(self) -> None:
        """Brings the tile in; a barrier follows."""
        e, b = self.e, self.e.b
        load = e.direct_load(self.value, RUN)
        across = self.columns // RUN

        def packed(row: Value, column: Value) -> list[Value]:
            codes = [e.tiles[self.value].at((row, column + j if j else column)) for j in range(RUN)]
            return [codes[j] | codes[j + 1] << 16 for j in range(0, RUN, 2)]

        def run(i: Value) -> None:
            row, first = i // across, i % across
            words = (load or packed)(row, first * RUN)
            at = row * self.stride + first * (RUN // VECTOR)
            for j in range(RUN // VECTOR):
                pair = b.vector(*words[2 * j : 2 * j + 2])
                self.array.store(at + j if j else at, b.bitcast(pair, f"f16x{VECTOR}"))

        e.parallel(self.rows * across, run)

    def matrix(self, type_: MatrixType, row: Value, column: Value, turned: bool) -> Matrix:
        """The matrix at a row and a column of the tile (multiples of four); turned: the tile holds its transpose."""
        layout = spirv.COLUMN_MAJOR if turned else spirv.ROW_MAJOR
        at = row * self.stride + column // VECTOR
        return spirv.load(self.e.b, type_, self.array, at, self.stride, layout)


class Fragment(Carried):
    """The accumulators of a contraction, those of one subgroup in its registers."""

    def __init__(self, e: SharedEmitter, op: tp.Contract) -> None:
        offer = cooperative.offer_for(op, e.target)
        assert offer is not None
        self.e, self.op, self.offer = e, op, offer
        self.m, self.n = op.result.shape
        self.across = self.n // offer.n
        self.count = self.m // offer.m * self.across
        subgroups = e.local_size // e.target.subgroup_size
        self.each = -(-self.count // subgroups)
        self.whole = self.count == self.each * subgroups
        self.a = MatrixType("f16", offer.m, offer.k, spirv.A)
        self.b = MatrixType("f16", offer.k, offer.n, spirv.B)
        self.c = MatrixType(offer.c, offer.m, offer.n, spirv.ACCUMULATOR)
        self.states = [MatrixVariable(e.b, self.c) for _ in range(self.each)]
        self.first = e.b.builtin("SubgroupId") * self.each

    def place(self, j: int) -> tuple[Value, Value]:
        """First row and column of the subgroup's j-th matrix."""
        i = self.first + j if j else self.first
        return i // self.across * self.offer.m, i % self.across * self.offer.n

    def mine(self, body: Callable[[int], None]) -> None:
        """`body(j)` for every matrix that the subgroup has."""
        for j in range(self.each):
            if self.whole:
                body(j)
            else:
                with self.e.b.if_(self.first + j < self.count):
                    body(j)

    # ---- accumulators and memory ---------------------------------------------------------------------------------

    def _memory(self) -> Slot:
        return self.e.allocate(self.op.result.element, self.op.result.type.size, self.offer.c)

    def _at(self, slot: Slot, j: int) -> Value:
        row, column = self.place(j)
        at = row * self.n + column
        return at if slot.offset is None else slot.offset + at

    def read(self, value: tp.Value) -> Slot:
        """A tile's codes in memory from which accumulators can be loaded."""
        e, fmt, shape = self.e, self.op.result.element, self.op.result.shape
        slot = self._memory()
        e.parallel(self.op.result.type.size, lambda i: e.write_slot(slot, fmt, i, e.at(value, e.split(i, shape))))
        return slot

    def take(self, slot: Slot) -> None:
        """Accumulators from memory."""
        e = self.e
        self.mine(lambda j: self.states[j].store(spirv.load(e.b, self.c, slot.array, self._at(slot, j), self.n)))
        e.barrier()
        e.free.append(slot)

    def give(self, value: tp.Value) -> None:
        """A tile of the accumulators' codes."""
        e, slot = self.e, self._memory()
        self.mine(lambda j: spirv.store(self.states[j].load(), slot.array, self._at(slot, j), self.n))
        e.barrier()
        e.bind_slot(value, slot)

    # ---- as a carried value --------------------------------------------------------------------------------------

    def prepare(self, value: tp.Value) -> Callable[[], None]:
        if self.e.fragments.get(value) is self:
            return lambda: None
        slot = self.read(value)  # before any carried value changes
        return lambda: self.take(slot)

    def enter(self, argument: tp.Value) -> None:
        if argument is self.op.seed:
            self.e.fragments[argument] = self
        else:
            self.give(argument)

    # ---- the contraction -----------------------------------------------------------------------------------------

    def advance(self, op: tp.Contract) -> None:
        """One contraction: stage, multiply and add over all of k."""
        e = self.e
        a, b = Stage(e, op.a), Stage(e, op.b)
        a.fill()
        b.fill()
        steps = op.a.shape[1] // self.offer.k
        if steps <= UNROLLED:
            for step in range(steps):
                self._step(a, b, e.b.u32(step * self.offer.k))
        else:
            e.serial(steps, lambda step: self._step(a, b, step * self.offer.k))
        e.barrier()  # the next trip stages over what was read
        a.release()
        b.release()
        e.fragments[op.result] = self

    def _step(self, a: Stage, b: Stage, k: Value) -> None:
        one_row = self.whole and self.across % self.each == 0  # then all matrices of the subgroup share a
        x: Matrix | None = None

        def one(j: int) -> None:
            nonlocal x
            row, column = self.place(j)
            if x is None or not one_row:
                x = a.matrix(self.a, row, k, turned=False)
            at = (column, k) if self.op.transposed else (k, column)
            y = b.matrix(self.b, *at, turned=self.op.transposed)
            self.states[j].store(spirv.multiply_add(x, y, self.states[j].load()))

        self.mine(one)
