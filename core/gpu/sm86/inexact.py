"""Contraction arithmetic for `mode="cooperative"`: plain f32, not what any NVIDIA instruction computes.

The decision record's speed hack, asked for by name and labelled in every result (docs/adr/0007); nothing here is ever a
default. It also is what exactness is measured against: the same loads, loops and registers with one multiply-add per k.

1. Operands are widened to f32 and multiplied and added in ascending k with one operation where the device has a fused
   one (GLSL's fma, which a device may round once or twice); NaN become canonical, an f16 or bf16 result is rounded once
   at the end of the chain.
2. Integer and f64 rows are exact and fast as they are; they have no such core.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...formats import BF16, F16, F32, TF32, Format
from ...isa import Instruction
from ...spirv.builder import Builder, Value
from . import pack
from .tensor_float import nearest_half, pack_half, unpack_half

Operand = tuple[Value, ...]
State = tuple[Value, ...]

FORMATS = (F16, BF16, TF32, F32)
NAME = "f32 multiply-add"
GROUP = 8  # k's per step of a matrix row, whose k is a multiple of it but for k4 forms


def applies(instruction: Instruction) -> bool:
    """Whether a contraction's row has an inexact stand-in."""
    return instruction.operands[0] in FORMATS and instruction.operands[1] in FORMATS


class InexactCore:
    """See `chains` for the protocol. An operand and the state are one f32."""

    form = "inexact"
    outputs = 32

    def __init__(self, instruction: Instruction) -> None:
        assert applies(instruction), instruction.key
        source, result = instruction.operands[0], instruction.result
        assert source is not None and result is not None
        self.source, self.format = source, result
        shape = instruction.shape
        self.width = 1 if shape is None else min(GROUP, shape.k)

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand:
        return (_widen(e, self.source, code),)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]:
        if self.source is F16:
            pair = unpack_half(e, word)
            return [(e.extract(pair, i),) for i in range(2)]
        if self.source is BF16:
            return [((word << 16).f,), ((word & 0xFFFF0000).f,)]
        return [self.operand(e, word)]

    def seed(self, e: Builder, code: Value) -> State:
        return (_widen(e, self.format, code),)

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        (total,) = acc
        for (x,), (y,) in zip(a, b, strict=True):
            total = e.ext("Fma", "f32", x, y, total)
        return (total,)

    def result(self, e: Builder, acc: State) -> Value:
        (total,) = acc
        if self.format is F16:
            return pack_half(e, nearest_half(e, total))
        if self.format is BF16:
            return pack.narrow(e, BF16, total.bits)
        bits = total.bits
        return e.select(e.is_nan(bits), e.u32(F32.canonical_nan), bits)


def _widen(e: Builder, fmt: Format, code: Value) -> Value:
    if fmt is F16:
        return e.extract(unpack_half(e, code), 0)
    if fmt is BF16:
        return (code << 16).f
    return (code & 0xFFFFE000 if fmt is TF32 else code).f
