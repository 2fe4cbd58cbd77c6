"""Staging of contraction operands in workgroup memory, laid out so that a lane reads four lines at a time.

Lines are a's rows or b's columns. `Packed` keeps the codes as 32-bit words of consecutive k's, [k word][line]: little
memory, and every invocation decodes what it reads. `Decoded` keeps a core's decoded operands, one array [k][line] for
each of their values: decoding happens once. A slice that only feeds contractions goes from its tensor straight into
these arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Protocol

from ..spirv.builder import Array, Value
from ..tile import program as tp
from .sm86.chains import Core, Operand
from .sm86.tensor_float import FloatCore

if TYPE_CHECKING:
    from .shared import SharedEmitter

VECTOR = 4  # words per access
RUN = 8  # elements along lines that one invocation brings in at a time
PAIR = 2  # along k: one word
AHEAD = 8  # pieces of work whose reads an invocation issues at once


@dataclass(frozen=True)
class Chore:
    """`count` independent pieces of work: what a piece reads, and what it makes of that."""

    count: int
    fetch: Callable[[Value], list[Value]]
    keep: Callable[[Value, list[Value]], None]


class Stage(Protocol):
    def reserve(self) -> bool:
        """Takes the memory; False where it does not fit or the operand is not of a kind for this stage."""
        ...

    def chore(self) -> Chore:
        """How the tile is brought in."""
        ...

    def read(self, k: Value, line: Value, count: int) -> list[list[Operand]]:
        """[line][k]: decoded operands of `count` lines from `line` (a multiple of count), `core.width` k's from `k`."""
        ...


class _Stage:
    """What both kinds share: the shape of one side and the memory it takes."""

    def __init__(self, e: SharedEmitter, core: Core, value: tp.Value, side: int, lines_first: bool) -> None:
        """lines_first: the tile is [line, k] (a, and b of dot_t), else [k, line]."""
        self.e, self.core, self.value, self.side, self.lines_first = e, core, value, side, lines_first
        self.lines, self.depth = value.shape if lines_first else (value.shape[1], value.shape[0])

    def _take(self, count: int, words: int) -> list[Array] | None:
        """`count` arrays of `words` words, as vectors over lines."""
        if 4 * count * words > self.e.shared_left or self.lines % VECTOR:
            return None
        self.e.shared_left -= 4 * count * words
        return [self.e.b.shared(f"u32x{VECTOR}", words // VECTOR) for _ in range(count)]

    def _vectors(self, array: Array, row: Value, line: Value, count: int) -> list[Value]:
        """`count` words of one row of lines."""
        b, at = self.e.b, row * self.lines + line
        if count % VECTOR == 0:
            first = at >> 2
            vectors = [array.load(first + i if i else first) for i in range(count // VECTOR)]
            return [b.extract(vector, j) for vector in vectors for j in range(VECTOR)]
        return [array.load_component((at + i) >> 2, (at + i) & b.u32(3)) for i in range(count)]

    def _put(self, array: Array, row: Value, line: Value, words: Sequence[Value]) -> None:
        """Words of one row of lines, `VECTOR` of them at a time from a multiple of it."""
        first = (row * self.lines + line) // VECTOR
        for i in range(0, len(words), VECTOR):
            array.store(first + i // VECTOR if i else first, self.e.b.vector(*words[i : i + VECTOR]))


class Packed(_Stage):
    """Codes of 16 or 8 bits, two or four consecutive k's a word."""

    def reserve(self) -> bool:
        e = self.e
        bits = self.value.element.bits
        self.per = 32 // bits if bits < 32 else 0
        self.load = e.direct_load(self.value, self.per if self.lines_first else RUN) if self.per else None
        if self.load is None or self.per == 0 or self.core.width % self.per or self.depth % RUN:
            return False
        taken = self._take(1, self.lines * self.depth // self.per)
        if taken is None:
            return False
        self.array = taken[0]
        return True

    def chore(self) -> Chore:
        per, load = self.per, self.load
        assert load is not None
        if self.lines_first:
            groups = self.lines // VECTOR

            def rows(i: Value) -> list[Value]:
                line, word = i % groups * VECTOR, i // groups
                return [load(line + j if j else line, word * per)[0] for j in range(VECTOR)]

            return Chore(
                groups * (self.depth // per),
                rows,
                lambda i, words: self._put(self.array, i // groups, i % groups * VECTOR, words),
            )
        across, bits = self.lines // RUN, self.value.element.bits
        mask = (1 << bits) - 1

        def columns(i: Value) -> list[Value]:
            row, first = i // across * per, i % across * RUN
            return [word for j in range(per) for word in load(row + j if j else row, first)]

        def keep(i: Value, fetched: list[Value]) -> None:
            words, each = [], RUN // per
            for n in range(RUN):
                codes = [(fetched[j * each + n // per] >> (n % per * bits)) & mask for j in range(per)]
                words.append(reduce(or_, [code << (j * bits) if j else code for j, code in enumerate(codes)]))
            self._put(self.array, i // across, i % across * RUN, words)

        return Chore(across * (self.depth // per), columns, keep)

    def read(self, k: Value, line: Value, count: int) -> list[list[Operand]]:
        row = k // self.per
        out: list[list[Operand]] = [[] for _ in range(count)]
        for j in range(self.core.width // self.per):
            for operands, word in zip(out, self._vectors(self.array, row + j if j else row, line, count), strict=True):
                operands += self.core.operands_of_word(self.e.b, word, self.side)
        return out


class Sorted(Packed):
    """As `Packed`, for `tensor_block`: exponents are found once, and so is whether a code is infinite or NaN.

    `flag` then becomes 1; it is cleared before the barrier that comes ahead of any tile.
    """

    core: FloatCore

    def __init__(
        self, e: SharedEmitter, core: FloatCore, value: tp.Value, side: int, lines_first: bool, flag: Array
    ) -> None:
        super().__init__(e, core, value, side, lines_first)
        self.flag = flag

    def reserve(self) -> bool:
        taken = self._take(1, self.lines * self.depth // 2) if super().reserve() else None
        if taken is None:
            return False
        self.exponents = taken[0]
        return True

    def _put(self, array: Array, row: Value, line: Value, words: Sequence[Value]) -> None:
        super()._put(array, row, line, words)
        exponents, special = zip(*(self.core.exponents(self.e.b, word) for word in words), strict=True)
        super()._put(self.exponents, row, line, exponents)
        with self.e.b.if_(reduce(or_, special)):
            self.flag.store(0, 1)

    def words(self, which: int, row: Value, line: Value, count: int) -> list[Value]:
        """Codes or exponents (`tensor_block`) of `count` lines from `line` (a multiple of count), two k's a word."""
        return self._vectors((self.array, self.exponents)[which], row, line, count)


class Decoded(_Stage):
    """Decoded operands of a core."""

    def reserve(self) -> bool:
        e = self.e
        self.kinds = [part.kind for part in self.core.operand(e.b, e.zero_of(self.value.element), self.side)]
        if any(kind not in ("u32", "i32", "f32") for kind in self.kinds):
            return False
        taken = self._take(len(self.kinds), self.lines * self.depth)
        if taken is None:
            return False
        self.arrays = taken
        return True

    def chore(self) -> Chore:
        e, bits, groups, across = self.e, self.value.element.bits, self.lines // VECTOR, self.lines // RUN
        load = e.direct_load(self.value, PAIR if self.lines_first else RUN) if bits == 16 else None
        if load is None:
            return self._elements()
        if not self.lines_first:
            return Chore(
                across * self.depth,
                lambda i: load(i // across, i % across * RUN),
                lambda i, words: self._keep(i // across, i % across * RUN, self._decoded(words)),
            )

        def rows(i: Value) -> list[Value]:
            line, k = i % groups * VECTOR, i // groups * PAIR
            return [load(line + j if j else line, k)[0] for j in range(VECTOR)]

        def keep(i: Value, words: list[Value]) -> None:
            line, k, operands = i % groups * VECTOR, i // groups * PAIR, self._decoded(words)
            for j in range(PAIR):
                self._keep(k + j if j else k, line, operands[j::PAIR])

        return Chore(groups * (self.depth // PAIR), rows, keep)

    def _elements(self) -> Chore:
        e, expression, groups = self.e, self.e.tiles[self.value], self.lines // VECTOR

        def codes(i: Value) -> list[Value]:
            line, k = i % groups * VECTOR, i // groups
            places = [(line + j if j else line, k) for j in range(VECTOR)]
            return [expression.at(place if self.lines_first else place[::-1]) for place in places]

        def keep(i: Value, found: list[Value]) -> None:
            operands = [self.core.operand(e.b, code, self.side) for code in found]
            self._keep(i // groups, i % groups * VECTOR, operands)

        return Chore(groups * self.depth, codes, keep)

    def _decoded(self, words: list[Value]) -> list[Operand]:
        return [operand for word in words for operand in self.core.operands_of_word(self.e.b, word, self.side)]

    def _keep(self, k: Value, line: Value, operands: Sequence[Operand]) -> None:
        """Operands of consecutive lines at one k."""
        for index, array in enumerate(self.arrays):
            parts = [operand[index] for operand in operands]
            self._put(array, k, line, [part.bits if part.kind == "f32" else part.u for part in parts])

    def read(self, k: Value, line: Value, count: int) -> list[list[Operand]]:
        b, out = self.e.b, [[] for _ in range(count)]  # type: ignore[var-annotated]
        for j in range(self.core.width):
            parts = []
            for array, kind in zip(self.arrays, self.kinds, strict=True):
                words = self._vectors(array, k + j if j else k, line, count)
                parts.append([word.f if kind == "f32" else Value(b, word.id, kind) for word in words])
            for i in range(count):
                out[i].append(tuple(part[i] for part in parts))
        return out


def fill(e: SharedEmitter, chores: Sequence[Chore]) -> None:
    """Brings tiles in, between two barriers: before the first, other invocations may still read what was there.

    All reads are issued ahead of that barrier where an invocation has few to make: they are what takes long. Chores
    that are small together are spread over all invocations; where registers are few, the invocations that have nothing
    to do read what another one does, which takes less of them than a branch.
    """
    b, size, branches = e.b, e.local_size, not e.target.is_narrow
    if sum(-(-chore.count // size) for chore in chores) > AHEAD:
        e.barrier()
        for chore in chores:
            e.parallel(chore.count, lambda i, chore=chore: chore.keep(i, chore.fetch(i)), barrier=False)  # type: ignore[misc]
        e.barrier()
        return
    pieces: list[tuple[Chore, Value, bool]] = []
    taken = 0  # invocations that have work
    for chore in chores:
        start = taken if branches and taken + chore.count <= size else 0
        taken = start + chore.count
        first = e.lid - start if start else e.lid  # of those before, far beyond every count
        for done in range(0, chore.count, size):
            pieces.append((chore, first + done if done else first, done + size <= chore.count and not start))
    fetched: list[Callable[[], list[Value]]] = []
    for chore, at, whole in pieces:
        if whole or not branches:
            values = chore.fetch(at if whole else b.min(at, chore.count - 1))
            fetched.append(lambda values=values: values)  # type: ignore[misc]
            continue
        with b.if_(at < chore.count):
            variables = [b.variable(value.kind, value) for value in chore.fetch(at)]
        fetched.append(lambda variables=variables: [variable.load() for variable in variables])  # type: ignore[misc]
    e.barrier()
    for (chore, at, whole), values_of in zip(pieces, fetched, strict=True):
        with nullcontext() if whole else b.if_(at < chore.count):
            chore.keep(at, values_of())
    e.barrier()
