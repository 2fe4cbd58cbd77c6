"""Contraction cores of scalar multiply-adds: FFMA, HFMA2, HFMA2.BF16_V2, DFMA, IMAD. See `chains` for the protocol.

1. A chain rounds once per k, in ascending order (phobos-language.md D.2), and is IEEE throughout: -0 and infinities
   by the usual rules, the canonical NaN when its result becomes visible.
2. FFMA where both operands are f16 values: the product is exact in f32, so FMUL and FADD give the fused result; where
   the device has fused multiply-add, that; else the exact product plus the accumulator in f64, rounded to odd, then to
   f32 (tile-lowering.md B).
3. HFMA2 keeps its accumulator as an f16 value in f32: exact product, sum rounded to odd, one magic addition
   (tile-lowering.md C). Nothing there is subnormal in f32.
4. HFMA2.BF16_V2 keeps it in f64, where the product of two bf16 is exact and nothing is subnormal either.
5. Anything else is the row's integer form, which every device has.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...formats import BF16, F32, F64
from ...isa import Instruction
from ...spirv.builder import Builder, Value
from . import pack, resolve
from .half import odd_sum_f32
from .single import odd_sum
from .tensor import SIGN
from .tensor_float import nearest_half, pack_half, unpack_half

Operand = tuple[Value, ...]
State = tuple[Value, ...]


class ScalarCore:
    """Any multiply-add row by one of its scalar emitters; operands and state are codes."""

    width = 1
    outputs = 4

    def __init__(self, instruction: Instruction, form: str) -> None:
        self.instruction, self.form = instruction, form
        self.bits = instruction.operands[0].bits if instruction.operands[0] is not None else 32

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand:
        return (code,)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]:
        if self.bits == 16:
            return [(word & 0xFFFF,), (word >> 16,)]
        assert self.bits == 32, self.instruction
        return [(word,)]

    def seed(self, e: Builder, code: Value) -> State:
        return (code,)

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        return (resolve.emit_form(e, self.instruction, self.form, a[0][0], b[0][0], acc[0]),)

    def result(self, e: Builder, acc: State) -> Value:
        return acc[0]


class SingleCore:
    """FFMA on f32 values. form: ``exact16`` (both operands are f16 values), ``native`` (fused), ``double``."""

    width = 1

    def __init__(self, form: str) -> None:
        self.form = form
        self.outputs = 16 if form == "double" else 64  # as in `integer_tensor`

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand:
        return (code.f,)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]:
        return [(word.f,)]

    def seed(self, e: Builder, code: Value) -> State:
        return (code.f,)

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        (x,), (y,), (c,) = a[0], b[0], acc
        if self.form == "exact16":
            return (x * y + c,)
        if self.form == "native":
            return (e.ext("Fma", "f32", x, y, c),)
        product = e.convert(x, "f64") * e.convert(y, "f64")
        odd = odd_sum(e, product, e.convert(c, "f64"))
        return (e.convert(e.bitcast(odd, "f64"), "f32"),)

    def result(self, e: Builder, acc: State) -> Value:
        bits = acc[0].bits
        return e.select(e.is_nan(bits), e.u32(F32.canonical_nan), bits)


class HalfChainCore:
    """HFMA2: operands and accumulator are f16 values in f32."""

    form = "native"
    width = 1
    outputs = 16

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand:
        return (e.extract(unpack_half(e, code), 0),)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]:
        pair = unpack_half(e, word)
        return [(e.extract(pair, i),) for i in range(2)]

    def seed(self, e: Builder, code: Value) -> State:
        return self.operand(e, code)

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        odd = odd_sum_f32(e, a[0][0] * b[0][0], acc[0])
        rounded = nearest_half(e, odd.f).bits
        # a zero keeps the sign of the sum; infinity and NaN pass
        return (((rounded & ~SIGN) | (odd & SIGN)).f,)

    def result(self, e: Builder, acc: State) -> Value:
        return pack_half(e, acc[0])


class BfloatChainCore:
    """HFMA2.BF16_V2: operands and accumulator are bf16 values in f64."""

    form = "double"
    width = 1
    outputs = 8

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand:
        return (self._widen(e, code),)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]:
        return [(self._widen(e, word & 0xFFFF),), (self._widen(e, word >> 16),)]

    def _widen(self, e: Builder, code: Value) -> Value:
        return e.bitcast(pack.widen_f64(e, BF16, code), "f64")

    def seed(self, e: Builder, code: Value) -> State:
        return self.operand(e, code)

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        odd = odd_sum(e, a[0][0] * b[0][0], acc[0])
        return (self._round(e, odd),)

    def _round(self, e: Builder, bits: Value) -> Value:
        """f64 bits to the nearest bf16 value, held as f64: 1.5 * 2^(exponent + 45) leaves 8 digits."""
        x = e.bitcast(bits, "f64")
        smallest = (F64.bias + BF16.emin) << 52
        field = e.max(bits & F64.infinity, smallest)
        magic = e.bitcast((field + (45 << 52)) | (1 << 51), "f64")
        rounded = ((x + magic) - magic).bits & (F64.sign_bit - 1)
        overflow = (rounded >= (F64.bias + BF16.emax + 1) << 52) & (rounded < F64.infinity)
        rounded = e.select(overflow, e.const(F64.infinity, "u64"), rounded)
        return e.bitcast(rounded | (bits & F64.sign_bit), "f64")

    def result(self, e: Builder, acc: State) -> Value:
        return pack.narrow_f64(e, BF16, acc[0].bits)
