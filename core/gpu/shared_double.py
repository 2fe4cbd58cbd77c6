"""Operands of `tensor_double` in workgroup memory, and the walk along k over them.

A chunk of `CHUNK` k's is staged at a time: a GPU keeps as many workgroups as their memory allows, and a larger chunk
costs more by that than it saves in barriers. One array holds all of it; after the loop the result's tile lies there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from ..formats import F64
from ..spirv.builder import Array, Value, Variable
from ..tile import program as tp
from . import shared_stage
from .shared_stage import VECTOR, Chore
from .sm86 import tensor_double
from .sm86.tensor_float import FloatCore

if TYPE_CHECKING:
    from .shared import SharedEmitter, Slot

CHUNK = 16
Place = tuple[Value, Value]  # first row and column of an invocation's block


class _Words:
    """Rows of one word for each line of an operand, somewhere in the array; a vector is `VECTOR` lines' words."""

    def __init__(self, array: Array, base: int, lines: int) -> None:
        self.array, self.base, self.across = array, base // VECTOR, lines // VECTOR

    def load(self, row: int | Value, line: Value, count: int) -> list[Value]:
        """Of `count` lines from `line`, a multiple of `count`."""
        b, array = self.array.b, self.array
        first = self.base + row * self.across
        if count % VECTOR:
            return [array.load_component(first + (line + i >> 2), line + i & b.u32(3)) for i in range(count)]
        vectors = [array.load(first + (line >> 2) + i) for i in range(count // VECTOR)]
        return [b.extract(vector, i) for vector in vectors for i in range(VECTOR)]

    def store(self, row: Value, offset: int, line: Value, word: Value) -> None:
        """In row `row` + `offset`: what depends on the place alone is computed once for all offsets."""
        at = row * self.across + (line >> 2)
        self.array.store_component(at + (self.base + offset * self.across), line & 3, word)


class _Side:
    """One operand's chunk. load: None where it cannot be staged.

    It is planned before the loop's body is emitted and read at the product, which is right for tensors that nothing
    writes; others have no `direct_load`.
    """

    def __init__(
        self, e: SharedEmitter, width: int, value: tp.Value, side: int, lines_first: bool, flag: Array
    ) -> None:
        """width: k's of a group; flag becomes 1 where a code is infinite or NaN; the rest as for a stage."""
        self.flag = flag
        self.e, self.width, self.side, self.lines_first = e, width, side, lines_first
        self.lines, self.depth = value.shape if lines_first else (value.shape[1], value.shape[0])
        self.chunk = min(CHUNK, self.depth)
        fits = value.element.bits == 16 and not (self.lines % VECTOR or self.chunk % width or self.depth % self.chunk)
        self.load = e.direct_load(value, width if lines_first else 2) if fits else None
        size = self.lines * self.chunk
        self.sizes = (size, size, size // 2, size // width)

    def place(self, array: Array, base: int) -> None:
        parts = []
        for size in self.sizes:
            parts.append(_Words(array, base, self.lines))
            base += size
        self.magnitudes, self.turns, self.exponents, self.ends = parts

    def chore(self, k0: Value) -> Chore:
        """Bringing in the chunk from k0 on; a piece is one line's group."""
        load, lines, width = self.load, self.lines, self.width
        assert load is not None

        def fetch(i: Value) -> list[Value]:
            line, k = i % lines, k0 + i // lines * width
            if self.lines_first:
                return load(line, k)
            return [load(k + j if j else k, line & ~1)[0] for j in range(width)]  # two lines each

        def keep(i: Value, found: list[Value]) -> None:
            b, line = self.e.b, i % lines
            if self.lines_first:
                codes = found
            else:
                low = (line & 1).eq(0)
                pairs = zip(found[::2], found[1::2], strict=True)
                codes = [b.select(low, x & 0xFFFF | y << 16, x >> 16 | y & 0xFFFF0000) for x, y in pairs]
            self._keep(i // lines, line, codes)

        return Chore(lines * (self.chunk // width), fetch, keep)

    def _keep(self, group: Value, line: Value, codes: list[Value]) -> None:
        b, first = self.e.b, group * self.width
        for k, turn in enumerate(tensor_double.turns(b, codes)):
            self.turns.store(first, k, line, turn)
        for j, word in enumerate(codes):
            self.exponents.store(group * (self.width // 2), j, line, tensor_double.exponents(b, word, self.side))
            for half, high in enumerate(tensor_double.magnitudes(b, word)):
                self.magnitudes.store(first, 2 * j + half, line, high)
        self.ends.store(group, 0, line, tensor_double.end(codes, self.side))
        with b.if_(reduce(or_, map(tensor_double.specials, codes)).ne(0)):
            self.flag.store(0, 1)


class _Group:
    """`tensor_double.Lines` of one group: `count` lines from `line`."""

    def __init__(self, side: _Side, group: Value, line: Value, count: int) -> None:
        self.side, self.group, self.at = side, group, (line, count)

    def exponents(self, pair: int | Value) -> list[Value]:
        words = self.side.exponents.load(self.group * (self.side.width // 2) + pair, *self.at)
        return [self.side.e.b.bitcast(word, "f16x2") for word in words]

    def magnitudes(self, k: int | Value) -> list[Value]:
        return self.side.magnitudes.load(self.group * self.side.width + k, *self.at)

    def turns(self, k: int | Value) -> list[Value]:
        return self.side.turns.load(self.group * self.side.width + k, *self.at)

    def ends(self) -> list[Value]:
        return self.side.ends.load(self.group, *self.at)


class _Elements(Array):
    """An array of vectors as one of words."""

    def __init__(self, vectors: Array) -> None:
        super().__init__(vectors.b, vectors.variable, "u32", vectors.storage)
        self.vectors = vectors

    def load(self, index: Value) -> Value:
        return self.vectors.load_component(index >> 2, index & 3)

    def store(self, index: Value, value: Value) -> None:
        self.vectors.store_component(index >> 2, index & 3, value)


class Chunks:
    """Both operands of a loop's contraction. Their memory is the result's once the loop is over."""

    def __init__(
        self, e: SharedEmitter, core: FloatCore, sides: tuple[_Side, _Side], outputs: int, flag: Array
    ) -> None:
        self.e, self.sides, self.flag = e, sides, flag
        self.core, self.finite = (tensor_double.core_of(core.rules, plain) for plain in (False, True))
        self.words = _words(sides, outputs)
        e.shared_left -= 4 * self.words
        array = e.b.shared(f"u32x{VECTOR}", self.words // VECTOR)
        sides[0].place(array, 0)
        sides[1].place(array, sum(sides[0].sizes))
        self.array = array
        tensor_double.round_toward_zero(e.b)
        e.dots_in_f64 = True

    @classmethod
    def of(
        cls, e: SharedEmitter, op: tp.Contract, core: FloatCore, flag: Array, block: tuple[int, int]
    ) -> Chunks | None:
        """None where something does not suit: the device, the program, the shapes, or the memory that is left.

        core: one that `tensor_block` serves.
        """
        if not e.target.double_dots or _uses_f64(e):
            return None
        if block[0] * block[1] > e.target.accumulators:
            return None
        if not all(e.uses.feeds_only_contractions(value) for value in (op.a, op.b)):
            return None
        width = core.width
        sides = _Side(e, width, op.a, 0, True, flag), _Side(e, width, op.b, 1, op.transposed, flag)
        outputs = op.result.type.size
        if any(side.load is None for side in sides) or 4 * _words(sides, outputs) > e.shared_left:
            return None
        return cls(e, core, sides, outputs, flag)

    def slot(self, size: int) -> Slot:
        """Memory of the result's codes, after a barrier: other invocations may still read operands."""
        assert size <= self.words, (size, self.words)
        self.e.barrier()
        return self.e.slot_in(_Elements(self.array), size)

    def advance(
        self, mine: Callable[[Callable[[], None]], None], place: Place, states: list[list[Variable]], odd: Value
    ) -> None:
        """One contraction. mine: runs code in the invocations that own a block. odd: whether an addend may be."""
        e, b = self.e, self.e.b
        (left, right), (row, column) = self.sides, place

        def walk(core: tensor_double.Core) -> None:
            def group(g: Value) -> None:
                columns = _Group(right, g, column, len(states[0]))
                if core.plain:
                    tensor_double.advance(b, core, states, _Group(left, g, row, len(states)), columns)
                    return
                for i, line in enumerate(states):  # a shader takes the registers of its hungriest path
                    tensor_double.advance(b, core, [line], _Group(left, g, row + i if i else row, 1), columns)

            e.serial(left.chunk // core.width, group)

        def chunk(c: Value) -> None:
            shared_stage.fill(e, [side.chore(c * left.chunk) for side in self.sides])
            special = self.flag.load(0).ne(0) | odd
            mine(lambda: b.if_else(special, lambda: walk(self.core), lambda: walk(self.finite)))

        e.serial(left.depth // left.chunk, chunk)


def _words(sides: tuple[_Side, _Side], outputs: int) -> int:
    return max(sum(map(sum, (side.sizes for side in sides))), -(-outputs // VECTOR) * VECTOR)


def _uses_f64(e: SharedEmitter) -> bool:
    """Whether anything else of the shader computes in f64."""
    values = (v for op in e.program.ops for v in (*op.results, *op.operands))
    return "double" in e.target.forms.values() or any(value.element is F64 for value in values)
