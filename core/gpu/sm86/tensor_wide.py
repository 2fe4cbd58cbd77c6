"""HMMA with bf16 or tf32 operands in their whole range, on f32 significands and integer exponents.

Same rules as `tensor` (R1 to R10); `tensor_float` is faster and serves operands of moderate size. Products may lie
between 2^-302 and 2^256, so a value is split into a significand (f32, below 2 in magnitude) and an exponent:

1. Significands have 8 or 11 bits, so their product is exact in f32 and below 4. With q its exponent, a term is the
   product times 2^(F + q - E); below 2^-126 that factor is cut to zero, since the term truncates to zero.
2. Exponents are u32 with 21 bits of fraction: (e + 260) << 21, 0 for a zero. Two nonzero ones add up to 268..774; a
   zero's sum is 387 at most, which stands for -133, at or below every floor (R4), so a zero never sets E (R3). Every
   difference of sums, and it plus F + 127, stays within the i32 range of -1024..1023.
3. The addend is an integer term: its significand shifted left by F - 23, then right by its distance from E.
4. The result is put together as an integer, with subnormals truncated at 2^-149 and overflow to infinity (R7).
5. R9: the f32 sum of the significands' products, and of the addend where it is infinite or NaN, is infinite or NaN
   exactly where the result is: significands of infinities and NaN are themselves, finite ones are far from overflow.

Needs of the device's floats: as `tensor_float` for f32 results; nothing is subnormal in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ...formats import BF16, F32
from ...spirv.builder import Builder, Value
from .tensor import SIGN, Rules
from .tensor_float import SignedSum

_FRACTION = 21  # of an exponent
_BIAS = 260

Operand = tuple[Value, ...]
State = tuple[Value, ...]


class WideCore:
    """Contraction core for any bf16 or tf32 operands; an operand is (significand, exponent); the state is the code."""

    form = "float"
    outputs = 16

    def __init__(self, r: Rules) -> None:
        assert r.result is F32 and r.operand.exponent_bits == 8, r
        self.rules, self.width = r, r.width

    # ---- operands ------------------------------------------------------------------------------------------------

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand:
        return self._split(e, code << 16 if self.rules.operand is BF16 else code & 0xFFFFE000)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]:
        if self.rules.operand is BF16:
            return [self.operand(e, word), self._split(e, word & 0xFFFF0000)]
        return [self.operand(e, word)]

    def _split(self, e: Builder, bits: Value) -> Operand:
        """R1: an f32 code whose low fraction bits are zero."""
        field = bits & F32.infinity
        one = (bits & SIGN) | 0x3F800000
        scaled = ((bits & ~F32.infinity) | 0x3F800000).f
        significand = e.select(field.eq(0), scaled - one.f, scaled)
        significand = e.select(field.eq(F32.infinity), bits.f, significand)
        exponent = (e.max(field, 1 << 23) >> (23 - _FRACTION)) + ((_BIAS - F32.bias) << _FRACTION)
        return significand, e.select((bits & ~SIGN).eq(0), e.u32(0), exponent)

    # ---- the accumulator -----------------------------------------------------------------------------------------

    def seed(self, e: Builder, code: Value) -> State:
        """-0 becomes +0 (R8)."""
        return (e.select(code.eq(SIGN), e.u32(0), code),)

    def result(self, e: Builder, acc: State) -> Value:
        code = acc[0]
        return e.select((code & ~SIGN) > F32.infinity, e.u32(F32.canonical_nan), code)

    # ---- one group -----------------------------------------------------------------------------------------------

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        f, code = self.rules.fraction_bits, acc[0]
        magnitude = code & ~SIGN
        field = code & F32.infinity
        own = (e.max(field, 1 << 23) >> (23 - _FRACTION)) + ((2 * _BIAS - F32.bias) << _FRACTION)
        own = e.select(magnitude.eq(0), e.u32(0), own)
        exponents = [x[1] + y[1] for x, y in zip(a, b, strict=True)]
        top = reduce(e.max, exponents)
        top = e.max(e.max(top, own), (2 * _BIAS + self.rules.floor) << _FRACTION)

        total = SignedSum(e, self.rules)
        total.add(self._addend(e, code, top - own))
        shift = e.u32((F32.bias + f) << _FRACTION) - top
        special = e.select(field.eq(F32.infinity), code, e.u32(0)).f
        for x, y, exponent in zip(a, b, exponents, strict=True):
            product = x[0] * y[0]
            special = special + product
            factor = (e.max((exponent + shift).i, 0) << (23 - _FRACTION)).f
            total.add(e.convert(product * factor, "i32"))
        following = self._pack(e, total, top)
        return (e.select((special.bits & ~SIGN) >= F32.infinity, special.bits, following),)

    def _addend(self, e: Builder, code: Value, distance: Value) -> Value:
        """The accumulator as a signed term in units of 2^(E - F)."""
        hidden = e.select((code & F32.infinity).eq(0), e.u32(0), e.u32(1 << 23))
        significand = (code & 0x7FFFFF) | hidden
        term = (significand << (self.rules.fraction_bits - 23)) >> e.min(distance >> _FRACTION, 31)
        flip = code.i >> 31
        return (term.i ^ flip) - flip

    def _pack(self, e: Builder, total: SignedSum, top: Value) -> Value:
        """R7, R8: the code of the sum times 2^(E - F)."""
        magnitude, sign = total.magnitude_and_sign()
        bits = total.truncated(magnitude).bits
        # Exponent field of the result: that of the integer, moved by E - F.
        field = ((bits >> 23) + (top >> _FRACTION)).i - (2 * _BIAS + self.rules.fraction_bits)
        fraction = bits & 0x7FFFFF
        normal = (field << 23).u | fraction
        subnormal = (fraction | (1 << 23)) >> e.min(e.max(1 - field, 0), 31).u
        code = e.select(field < 1, subnormal, normal)
        code = e.select(field >= 255, e.u32(F32.infinity), code)
        return e.select(magnitude.eq(0), e.u32(0), code | sign & e.select(code.eq(0), e.u32(0), e.u32(SIGN)))
