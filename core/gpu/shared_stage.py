"""Staging of contraction operands in workgroup memory, laid out so that a lane reads four lines at a time.

Lines are a's rows or b's columns. `Packed` keeps the codes as 32-bit words of consecutive k's, [k word][line]: little
memory, and every invocation decodes what it reads. `Decoded` keeps a core's decoded operands, one array [k][line] for
each of their values: decoding happens once. A slice that only feeds contractions goes from its tensor straight into
these arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..spirv.builder import Array, Value
from ..tile import program as tp
from .sm86.chains import Core, Operand

if TYPE_CHECKING:
    from .shared import SharedEmitter

VECTOR = 4  # words per access
RUN = 8  # elements that one invocation brings in at a time


class Stage(Protocol):
    def reserve(self) -> bool:
        """Takes the memory; False where it does not fit or the operand is not of a kind for this stage."""
        ...

    def fill(self) -> None:
        """Brings the tile in; a barrier follows."""
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

    def _put(self, array: Array, row: Value, line: Value, word: Value) -> None:
        at = row * self.lines + line
        array.store_component(at >> 2, at & self.e.b.u32(3), word)


class Packed(_Stage):
    """Codes of 16 or 8 bits, two or four consecutive k's a word."""

    def reserve(self) -> bool:
        e = self.e
        self.load = e.direct_load(self.value, RUN)
        bits = self.value.element.bits
        self.per = 32 // bits if bits < 32 else 0
        if self.load is None or self.per == 0 or self.core.width % self.per or self.depth % RUN:
            return False
        taken = self._take(1, self.lines * self.depth // self.per)
        if taken is None:
            return False
        self.array = taken[0]
        return True

    def fill(self) -> None:
        e, per, load = self.e, self.per, self.load
        assert load is not None
        if self.lines_first:

            def rows(i: Value) -> None:
                line, first = i % self.lines, i // self.lines * RUN
                for j, word in enumerate(load(line, first)):
                    self._put(self.array, first // per + j, line, word)

            e.parallel(self.lines * self.depth // RUN, rows)
            return
        across, bits = self.lines // RUN, self.value.element.bits
        mask = (1 << bits) - 1

        def columns(i: Value) -> None:
            row, first = i // across, i % across * RUN
            fetched = [load(row * per + j, first) for j in range(per)]
            for n in range(RUN):
                word = None
                for j in range(per):
                    code = (fetched[j][n // per] >> (n % per * bits)) & mask
                    word = code if word is None else word | code << (j * bits)
                assert word is not None
                self._put(self.array, row, first + n, word)

        e.parallel(across * (self.depth // per), columns)

    def read(self, k: Value, line: Value, count: int) -> list[list[Operand]]:
        row = k // self.per
        out: list[list[Operand]] = [[] for _ in range(count)]
        for j in range(self.core.width // self.per):
            for operands, word in zip(out, self._vectors(self.array, row + j if j else row, line, count), strict=True):
                operands += self.core.operands_of_word(self.e.b, word, self.side)
        return out


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

    def fill(self) -> None:
        e, expression = self.e, self.e.tiles[self.value]

        def element(i: Value) -> None:
            line, k = i % self.lines, i // self.lines  # lines run fastest: neighbours write to different banks
            code = expression.at((line, k) if self.lines_first else (k, line))
            for array, part in zip(self.arrays, self.core.operand(e.b, code, self.side), strict=True):
                self._put(array, k, line, part.bits if part.kind == "f32" else part.u)

        e.parallel(self.lines * self.depth, element)

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
