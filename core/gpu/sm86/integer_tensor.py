"""Integer tensor cores (IMMA) and IDP.4A as contraction cores. Twin: `reference/integer_tensor.py`.

1. Products of 8-bit codes and their sum are exact; the result wraps at 32 bits (design.md 4.1, measured on sm_90).
2. .SAT clamps the exact sum of the addend and one instruction's products, so its chain has the instruction's k as
   width; where the sum wraps instead, any width gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ...isa import Instruction
from ...spirv.builder import Builder, Value

#: k's per step where the sum wraps: the elements of one word.
WRAP_WIDTH = 4


class IntegerTensorCore:
    """Contraction core for 8-bit operands and an s32 (u32) accumulator; see `chains` for the protocol.

    An operand is its value as i32; the state is the accumulator's code.
    """

    form = "integer"
    outputs = 64  # less than that, and loads are most of the work

    def __init__(self, instruction: Instruction) -> None:
        options = instruction.keywords
        self.signed = bool(options["a_signed"]), bool(options["b_signed"])
        self.saturate = bool(options.get("saturate", False))
        self.width = instruction.shape.k if self.saturate and instruction.shape else WRAP_WIDTH

    def operand(self, e: Builder, code: Value, side: int | None = None) -> tuple[Value, ...]:
        """An 8-bit code, high bits of the word zero."""
        return (((code << 24).i >> 24) if self._signed(side) else code.i,)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[tuple[Value, ...]]:
        """The four elements of a word, lowest byte first."""
        if self._signed(side):
            return [((((word << (24 - 8 * i)) if i < 3 else word).i >> 24),) for i in range(4)]
        return [(((word >> (8 * i)) & 0xFF if i < 3 else word >> 24).i,) for i in range(4)]

    def _signed(self, side: int | None) -> bool:
        a, b = self.signed
        assert side is not None or a == b, "operands of different signedness: say which side"
        return self.signed[side or 0]

    def seed(self, e: Builder, code: Value) -> tuple[Value, ...]:
        return (code.i,)

    def step(
        self, e: Builder, acc: tuple[Value, ...], a: Sequence[tuple[Value, ...]], b: Sequence[tuple[Value, ...]]
    ) -> tuple[Value, ...]:
        products = [x * y for (x,), (y,) in zip(a, b, strict=True)]
        if not self.saturate:
            return (reduce(lambda x, y: x + y, products, acc[0]),)
        addend, total = acc[0], reduce(lambda x, y: x + y, products)
        result = addend + total
        overflow = ((addend ^ result) & (total ^ result)) < 0
        return (e.select(overflow, (addend >> 31) ^ 0x7FFFFFFF, result),)

    def result(self, e: Builder, acc: tuple[Value, ...]) -> Value:
        return acc[0].u
