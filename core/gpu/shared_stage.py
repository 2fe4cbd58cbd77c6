"""Staging of contraction operands in workgroup memory: decoded once, laid out so that a lane reads four at a time.

An operand of a core is a tuple of values (for HMMA with f16 operands: the value as f32 and its nominal exponent).
Each part gets an array [k][line], where lines are a's rows or b's columns, so that the block of lines that an
invocation owns is contiguous for every k. A slice that only feeds contractions goes from its tensor straight into
these arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spirv.builder import Array, Value
from ..tile import program as tp
from .sm86.chains import Core, Operand

if TYPE_CHECKING:
    from .shared import SharedEmitter

VECTOR = 4  # words per access
RUN = 8  # elements that one invocation brings in at a time


class Stage:
    """The decoded operand of one side of a contraction in workgroup memory."""

    def __init__(self, e: SharedEmitter, core: Core, value: tp.Value, side: int, lines_first: bool) -> None:
        """lines_first: the tile is [line, k] (a, and b of dot_t), else [k, line]."""
        self.e, self.core, self.value, self.side, self.lines_first = e, core, value, side, lines_first
        self.lines, self.depth = value.shape if lines_first else reversed(value.shape)
        self.width = VECTOR if self.lines % VECTOR == 0 else 1
        self.arrays: list[Array] = []
        self.kinds: list[str] = []

    @property
    def size_bytes(self) -> int:
        """Of one part."""
        return 4 * self.lines * self.depth

    def reserve(self, parts: list[str]) -> bool:
        """Takes the memory for parts of these kinds; False where it does not fit or a part is not 32 bits wide."""
        if (
            any(kind not in ("u32", "i32", "f32") for kind in parts)
            or len(parts) * self.size_bytes > self.e.shared_left
        ):
            return False
        self.e.shared_left -= len(parts) * self.size_bytes
        kind = "u32" if self.width == 1 else f"u32x{self.width}"
        self.arrays = [self.e.b.shared(kind, self.lines * self.depth // self.width) for _ in parts]
        self.kinds = parts
        return True

    def _put(self, k: Value, line: Value, operand: Operand) -> None:
        b = self.e.b
        for array, part in zip(self.arrays, operand, strict=True):
            word = part.bits if part.kind == "f32" else part.u
            at = k * self.lines + line
            if self.width == 1:
                array.store(at, word)
            else:
                array.store_component(at >> 2, at & b.u32(3), word)

    def fill(self) -> None:
        """Brings the tile in; a barrier follows."""
        e, rows, columns = self.e, *self.value.shape
        load = e.direct_load(self.value, RUN)
        if load is None:
            expression = e.tiles[self.value]

            def element(i: Value) -> None:
                # lines run fastest, so that neighbours write to different banks
                line, k = i % self.lines, i // self.lines
                code = expression.at((line, k) if self.lines_first else (k, line))
                self._put(k, line, self.core.operand(e.b, code, self.side))

            e.parallel(self.lines * self.depth, element)
            return

        def run(i: Value) -> None:
            if self.lines_first:
                row, first = i % rows, i // rows * RUN
            else:
                row, first = i // (columns // RUN), i % (columns // RUN) * RUN
            words = load(row, first)
            operands = [operand for word in words for operand in self.core.operands_of_word(e.b, word, self.side)]
            for j, operand in enumerate(operands):
                k, line = (first + j, row) if self.lines_first else (row, first + j)
                self._put(k, line, operand)

        e.parallel(rows * columns // RUN, run)

    def read(self, k: Value, line: Value, count: int) -> list[Operand]:
        """The decoded operands of `count` lines from `line` (a multiple of count) at one k."""
        b, at = self.e.b, k * self.lines + line
        parts = []
        for array, kind in zip(self.arrays, self.kinds, strict=True):
            if self.width == 1:
                words = [array.load(at + i) for i in range(count)]
            elif count % VECTOR == 0:
                first = at >> 2
                vectors = [array.load(first + i) for i in range(count // VECTOR)]
                words = [b.extract(vector, j) for vector in vectors for j in range(VECTOR)]
            else:
                words = [array.load_component((at + i) >> 2, (at + i) & b.u32(3)) for i in range(count)]
            parts.append([word.f if kind == "f32" else Value(b, word.id, kind) for word in words])
        return [tuple(part[i] for part in parts) for i in range(count)]
