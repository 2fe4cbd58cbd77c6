"""Tensor parameters as a shader sees them: bindings, packing, masks and the widest access that alignment allows.

An element's index is computed in 32 bits (an array is at most maxStorageBufferRange bytes). 16- and 8-bit elements are
packed where the device has such storage; elsewhere the host widens the tensor to one word per element. A load outside
the tensor reads code 0, a store there is dropped; a slice that `tile.facts` proved inside carries no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..formats import Format
from ..spirv.builder import Builder, Value
from .target import Target

WORD = 32


def stored_bits(fmt: Format, target: Target) -> int:
    """Width of one element in the device's buffer."""
    bits = 8 if fmt.bits == 1 else fmt.bits
    if (bits == 16 and not target.storage16) or (bits == 8 and not target.storage8):
        return WORD
    return bits


@dataclass(frozen=True)
class Tensor:
    """One bound tensor: where it is, its element format and stored width, and its extents as shader values."""

    b: Builder
    binding: int
    format: Format
    bits: int
    extents: tuple[Value, ...]
    readonly: bool

    @property
    def _kind(self) -> str:
        return f"u{self.bits}"

    def _wide_kind(self, words: int) -> str:
        return {1: "u32", 2: "u32x2", 4: "u32x4", 8: "u64x4"}[words]

    def _decode(self, raw: Value) -> Value:
        if self.bits < WORD:
            raw = self.b.convert(raw, "u32")
        return raw.ne(0) if self.format.bits == 1 else raw

    def _encode(self, code: Value) -> Value:
        if self.format.bits == 1:
            code = self.b.select(code, self.b.u32(1), self.b.u32(0))
        return self.b.convert(code, self._kind) if self.bits < WORD else code

    def load(self, index: Value) -> Value:
        """The code of one element."""
        return self._decode(self.b.buffer(self.binding, self._kind, self.readonly).load(index))

    def store(self, index: Value, code: Value) -> None:
        self.b.buffer(self.binding, self._kind, self.readonly).store(index, self._encode(code))

    def widest_words(self, run: int, aligned: int, target: Target) -> int:
        """Words per access for runs of `run` elements at indices that `aligned` divides; 0 where none fits."""
        for words in (8, 4, 2, 1):
            elements = words * WORD // self.bits
            if words == 8 and not target.int64:
                continue
            if self.bits <= WORD and elements > 0 and run % elements == 0 and aligned % elements == 0:
                return words
        return 0

    def load_words(self, index: Value, count: int, words: int) -> list[Value]:
        """`count` consecutive 32-bit words from the element `index`, `words` per access (from `widest_words`)."""
        b, per = self.b, words * WORD // self.bits
        view = b.buffer(self.binding, self._wide_kind(words), self.readonly)
        first = index >> (per.bit_length() - 1) if per > 1 else index
        out: list[Value] = []
        for i in range(count // words):
            raw = view.load(first + i if i else first)
            if words == 1:
                out.append(raw)
            elif words == 8:
                for j in range(4):
                    pair = b.bitcast(b.extract(raw, j), "u32x2")
                    out += [b.extract(pair, 0), b.extract(pair, 1)]
            else:
                out += [b.extract(raw, j) for j in range(words)]
        return out

    def unpack(self, words: Sequence[Value]) -> list[Value]:
        """Element codes of packed words, in order."""
        if self.bits == WORD:
            return list(words)
        mask, per = (1 << self.bits) - 1, WORD // self.bits
        out = []
        for word in words:
            for i in range(per):
                part = word >> (i * self.bits) if i else word
                out.append(part if i == per - 1 else part & mask)
        return [self._decode32(v) for v in out]

    def _decode32(self, raw: Value) -> Value:
        return raw.ne(0) if self.format.bits == 1 else raw

    def load_run(self, index: Value, run: int, aligned: int, target: Target) -> list[Value]:
        """Codes of `run` consecutive elements from `index`, by the widest access."""
        words = self.widest_words(run, aligned, target)
        if not words:
            return [self.load(index + i if i else index) for i in range(run)]
        return self.unpack(self.load_words(index, run * self.bits // WORD, words))

    def store_run(self, index: Value, codes: Sequence[Value], aligned: int, target: Target) -> None:
        """Stores consecutive elements from `index`, by the widest access."""
        b = self.b
        words = min(4, self.widest_words(len(codes), aligned, target))
        if not words:
            for i, code in enumerate(codes):
                self.store(index + i if i else index, code)
            return
        packed = self._pack(codes)
        view = b.buffer(self.binding, self._wide_kind(words), self.readonly)
        per = words * WORD // self.bits
        first = index >> (per.bit_length() - 1) if per > 1 else index
        for i in range(0, len(packed), words):
            value = packed[i] if words == 1 else b.vector(*packed[i : i + words])
            view.store(first + i // words if i else first, value)

    def _pack(self, codes: Sequence[Value]) -> list[Value]:
        b = self.b
        if self.format.bits == 1:
            codes = [b.select(c, b.u32(1), b.u32(0)) for c in codes]
        if self.bits == WORD:
            return list(codes)
        per, out = WORD // self.bits, []
        for i in range(0, len(codes), per):
            word = codes[i]
            for j in range(1, per):
                word = word | codes[i + j] << (j * self.bits)
            out.append(word)
        return out
