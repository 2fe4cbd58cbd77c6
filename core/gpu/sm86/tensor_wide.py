"""HMMA with bf16 or tf32 operands in their whole range, on f32 significands and integer exponents.

Same rules as `tensor` (R1 to R10); `tensor_float` is faster and serves operands of moderate size. Products may lie
between 2^-302 and 2^256, so a value is split into a significand (f32, below 2 in magnitude) and an exponent:

1. Significands have 8 or 11 bits, so their product is exact in f32 and below 4. With q its exponent, a term is the
   product times 2^(F + q - E); below 2^-126 that factor is cut to zero, since the term truncates to zero.
2. Exponents are u32 with 21 bits of fraction: (e + 260) << 21, 0 for a zero. Two nonzero ones add up to 268..774; a
   zero's sum is 387 at most, which stands for -133, at or below every floor (R4), so a zero never sets E (R3). Every
   difference of sums, and it plus F + 127, stays within the i32 range of -1024..1023.
3. The accumulator is kept split as well, so that the addend is one more term: its significand is 1.f, less than 1 where
   the code is a subnormal, its exponent -126 at least.
4. A sum becomes that form by integers (R7): places below 2^-149 are cut, overflow makes it infinite.
5. R9: the f32 sum of the significands' products and the addend's significand is infinite or NaN exactly where the
   result is: significands of infinities and NaN are themselves, finite ones are far from overflow.

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
    """Contraction core for any bf16 or tf32 operands; operands and the state are (significand, exponent)."""

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
        significand, exponent = self._split(e, e.select(code.eq(SIGN), e.u32(0), code))
        return significand, e.select(exponent.eq(0), exponent, exponent + (_BIAS << _FRACTION))

    def result(self, e: Builder, acc: State) -> Value:
        """The accumulator's code, with the canonical NaN."""
        bits, field = acc[0].bits, (acc[1] >> _FRACTION) - (2 * _BIAS - F32.bias)
        magnitude = bits & ~SIGN
        # below 1 the significand is a subnormal's: adding one puts its digits where f32 has them
        subnormal = (magnitude.f + 1.0).bits & 0x7FFFFF
        code = e.select(magnitude < 0x3F800000, subnormal, (magnitude & 0x7FFFFF) | field << 23) | (bits & SIGN)
        code = e.select(magnitude >= F32.infinity, bits, code)
        return e.select(magnitude > F32.infinity, e.u32(F32.canonical_nan), code)

    # ---- one group -----------------------------------------------------------------------------------------------

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        f, (addend, own) = self.rules.fraction_bits, acc
        exponents = [x[1] + y[1] for x, y in zip(a, b, strict=True)]
        top = reduce(e.max, exponents)
        top = e.max(e.max(top, own), (2 * _BIAS + self.rules.floor) << _FRACTION)
        total, special = SignedSum(e, self.rules), addend
        shift = e.u32((F32.bias + f) << _FRACTION) - top

        def factor(exponent: Value) -> Value:
            return (e.max((exponent + shift).i, 0) << (23 - _FRACTION)).f

        total.add(e.convert(addend * factor(own), "i32"))
        for x, y, exponent in zip(a, b, exponents, strict=True):
            product = x[0] * y[0]
            special = special + product
            total.add(e.convert(product * factor(exponent), "i32"))
        significand, exponent = self._normalised(e, total, top)
        return e.select((special.bits & ~SIGN) >= F32.infinity, special, significand), exponent

    def _normalised(self, e: Builder, total: SignedSum, top: Value) -> State:
        """R7, R8: the state of the sum times 2^(E - F)."""
        magnitude, sign = total.magnitude_and_sign()
        bits = total.truncated(magnitude).bits
        exponent = (top >> _FRACTION) + (bits >> 23) - (F32.bias + self.rules.fraction_bits)
        lowest = 2 * _BIAS + F32.emin
        below = e.min(e.max((e.u32(lowest) - exponent).i, 0), 24).u  # places that a subnormal lacks
        significand = (bits & 0x7FFFFF) | 0x3F800000
        # 1.f 2^-d with d places cut: still below 2^-126 in value, and exact
        cut = (significand >> below << below) - (below << 23)
        empty = magnitude.eq(0) | below.eq(24)
        significand = e.select(empty, e.u32(0), cut | sign)
        significand = e.select(exponent.i > 2 * _BIAS + F32.emax, sign | F32.infinity, significand)
        exponent = e.select(empty, e.u32(0), e.max(exponent.i, lowest).u << _FRACTION)
        return significand.f, exponent
