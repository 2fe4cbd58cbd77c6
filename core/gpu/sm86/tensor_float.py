"""HMMA with f16 operands on 32-bit floats: the fast contraction core (spirv-notes.md section 2, generalised).

Same rules as `tensor` (R1 to R10). A product of two f16 values has at most 22 significant bits and lies between 2^-48 and
2^32, so it is exact in f32; so is its scaling by 2^(F - E); and OpConvertFToS truncates toward zero, which is R5. The
sum of a group is an integer (R6). Why each step is exact, for F = 23, 24, 25 and 4, 8 or 16 products:

1. Nominal exponents are kept as f32 exponent fields (biased by 127, in place). Two nonzero operands add up to 226..284, an
   addend to at most 381 with the same bias of 254; a product with a zero factor adds up to 142 at most, so it never
   sets E (R3) and needs no test.
2. f32 results: where some product is nonzero, E is -28 or more. The floor (R4) is then idle, a result is 0 or at
   least 2^-53, an f32-subnormal addend truncates away, and no result overflows, since products below 2^32 are cut
   off beside an addend near 2^128. Where all products are zero the result is the addend, unchanged: its last place is
   a multiple of 2^(E - F). So this core is exact also where the device flushes subnormals.
3. f16 results: E is raised to the floor, at or above the exponent sum of zero factors, and the smallest unit is 2^-46.
4. The sum's magnitude stays below 2^31 but for F = 25 with 16 products, where it may reach 2.22e9; then half of the
   sum, taken from two part sums, gives the sign, and the magnitude fits an unsigned word.
5. `m & ~(m >> 24)` clears the first bit below the 24 leading ones (and some below it), so that converting to f32 in
   round-to-nearest (or toward zero) truncates (R7).
6. For f16 results the truncated 24 bits get a sticky last bit, then one magic addition rounds to nearest even.
7. R9: the f32 sum of the addend and all products is infinite or NaN exactly where the group's result is, with its sign:
   finite sums are far from overflow. For f32 results this sum runs along the whole chain and is looked at once.

Needs of the device's floats: exact multiplication of normal numbers, conversion that truncates; for f16 results and
specials also round-to-nearest addition, infinities and NaN. Nothing needs subnormals or a NaN payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ...formats import F16, F32
from ...spirv.builder import Builder, Value
from .tensor import SIGN, Rules

_EXPONENT = 0x7F800000
_SMALLEST = 113 << 23  # exponent field of 2^-14, the smallest normal f16
_LOWEST_PRODUCT = 2 * _SMALLEST

Operand = tuple[Value, ...]
State = tuple[Value, ...]


class HalfCore:
    """Contraction core for f16 operands. An operand is (value as f32, nominal exponent); see `chains` for the protocol.

    finite: leave R9 out for operands; a NaN or infinity among them gives a wrong result (the caller knows there is none).
    State: f32 results (code, and unless finite the f32 sum of all terms); f16 results (value as f32).
    """

    form = "float"

    def __init__(self, r: Rules, finite: bool = False) -> None:
        assert r.operand is F16, r
        self.rules, self.width, self.finite = r, r.width, finite
        self.wide = r.largest_sum >= 1 << 31

    # ---- operands ------------------------------------------------------------------------------------------------

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand:
        """R1: an f16 code (in the low half of the word; the high half is not read)."""
        return self._operand(e, e.extract(unpack_half(e, code), 0))

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]:
        """The two elements of a word, low half first."""
        pair = unpack_half(e, word)
        return [self._operand(e, e.extract(pair, i)) for i in range(2)]

    def _operand(self, e: Builder, value: Value) -> Operand:
        field = value.bits & _EXPONENT
        return value, e.select(field.eq(0), e.u32(0), e.max(field, _SMALLEST))

    # ---- the accumulator -----------------------------------------------------------------------------------------

    def seed(self, e: Builder, code: Value) -> State:
        """-0 becomes +0 (R8)."""
        if self.rules.result is F16:
            value = e.extract(unpack_half(e, e.select(code.eq(F16.sign_bit), e.u32(0), code)), 0)
            return (value,)
        code = e.select(code.eq(SIGN), e.u32(0), code)
        return (code,) if self.finite else (code, code.f)

    def result(self, e: Builder, acc: State) -> Value:
        """The accumulator's code, with the canonical NaN."""
        if self.rules.result is F16:
            return pack_half(e, acc[0])
        code = acc[0]
        if not self.finite:
            bits = acc[1].bits
            code = e.select((bits & ~SIGN) >= F32.infinity, bits, code)
        return e.select((code & ~SIGN) > F32.infinity, e.u32(F32.canonical_nan), code)

    # ---- one group -----------------------------------------------------------------------------------------------

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        products = [x[0] * y[0] for x, y in zip(a, b, strict=True)]
        exponents = [x[1] + y[1] for x, y in zip(a, b, strict=True)]
        top = reduce(e.max, exponents)
        if self.rules.result is F16:
            return self._step_f16(e, acc[0], products, top)
        return self._step_f32(e, acc, products, top)

    def _step_f32(self, e: Builder, acc: State, products: list[Value], top: Value) -> State:
        f = self.rules.fraction_bits
        code = acc[0]
        top = e.max(top, (code & _EXPONENT) + (127 << 23))
        keep = top < _LOWEST_PRODUCT
        magnitude, sign = self._sum(e, code.f, products, top)
        value = (magnitude & ~(magnitude >> 24)).i
        value = self._to_float(e, value)
        scale = (top - ((127 + f) << 23)).f
        following = (value * scale).bits | sign
        following = e.select(keep, code, following)
        if self.finite:
            # An infinite or NaN addend passes: its exponent alone is above every finite one.
            following = e.select(top >= (382 << 23), code, following)
            return (following,)
        return following, reduce(lambda x, y: x + y, products, acc[1])

    def _step_f16(self, e: Builder, value: Value, products: list[Value], top: Value) -> State:
        f = self.rules.fraction_bits
        field = value.bits & _EXPONENT
        own = e.select(field.eq(0), e.u32(0), e.max(field, _SMALLEST))
        top = e.max(e.max(top, own + (127 << 23)), (254 + self.rules.floor) << 23)
        magnitude, sign = self._sum(e, value, products, top)
        kept = self._to_float(e, (magnitude & ~(magnitude >> 24)).i)
        lost = magnitude - e.convert(kept, "u32" if self.wide else "i32").u
        odd = kept.bits | e.min(lost, 1)
        scale = ((top - ((127 + f) << 23)) | sign).f
        following = nearest_half(e, odd.f * scale)
        total = reduce(lambda x, y: x + y, products, value)
        special = (total.bits & ~SIGN) >= F32.infinity
        return (e.select(special, total, following),)

    def _sum(self, e: Builder, addend: Value, products: list[Value], top: Value) -> tuple[Value, Value]:
        """R5, R6: the magnitude (u32) of the sum in units of 2^(E - F), and its sign in bit 31."""
        scale = (e.u32((381 + self.rules.fraction_bits) << 23) - top).f
        terms = [e.convert(p * scale, "i32") for p in (addend, *products)]
        if not self.wide:
            total = reduce(lambda x, y: x + y, terms)
            return e.ext("SAbs", "i32", total).u, total.u & SIGN
        split = self.width // 2 + 1
        first, second = (reduce(lambda x, y: x + y, part) for part in (terms[:split], terms[split:]))
        half = (first >> 1) + (second >> 1) + (first & second & 1)
        total = (first + second).u
        return e.select(half < 0, -total, total), half.u & SIGN

    def _to_float(self, e: Builder, magnitude: Value) -> Value:
        return e.convert(magnitude.u if self.wide else magnitude, "f32")


# ---- f16 values held in f32 --------------------------------------------------------------------------------------


def unpack_half(e: Builder, word: Value) -> Value:
    """Both halves of a word as f32, exactly, subnormals and NaN included (measured on lavapipe and SwiftShader)."""
    return e.ext("UnpackHalf2x16", "f32x2", word)


def nearest_half(e: Builder, x: Value) -> Value:
    """x (f32, normal, zero, infinite or NaN) rounded to nearest even to an f16 value, held as f32; a zero result is +0.

    Adding 1.5 * 2^(e + 13), with e the exponent of x but at least -14, leaves the digits that f16 has. For infinity and
    NaN the sum wraps to something small, and they pass. From 2^16 on the detour over 2^112 makes infinity.
    """
    magic = ((e.max(x.bits & _EXPONENT, _SMALLEST) + (13 << 23)) | 0x400000).f
    rounded = (x + magic) - magic
    return rounded * 2.0**112 * 2.0**-112


def pack_half(e: Builder, value: Value) -> Value:
    """The f16 code of an f32 that holds an f16 value; NaN becomes 7fff."""
    bits = value.bits
    magnitude = bits & ~SIGN
    normal = (magnitude >> 13) - (112 << 10)
    subnormal = (magnitude.f + 0.5).bits - 0x3F000000  # 0.5 has its last place at 2^-24, as f16 subnormals do
    code = e.select(magnitude < _SMALLEST, subnormal, normal)
    code = e.select(magnitude >= F32.infinity, e.u32(F16.infinity), code)
    code = code | ((bits & SIGN) >> 16)
    return e.select(magnitude > F32.infinity, e.u32(F16.canonical_nan), code)
