"""HMMA on 32-bit floats: the fast contraction core (spirv-notes.md section 2, generalised).

Same rules as `tensor` (R1 to R10). A product of two operands has at most 22 significant bits. Where it lies well inside
f32's range it is exact there; so is its scaling by 2^(F - E); and OpConvertFToS truncates toward zero, which is R5. The
sum of a group is an integer (R6). f16 operands always qualify, bf16 and tf32 ones where every nonzero value has an
exponent of -42 to 42 (`is_plain`; `tensor_wide` serves the others). Why each step is exact, for F = 23, 24, 25 and 4, 8
or 16 products:

1. Nominal exponents are kept as f32 exponent fields (biased by 127, in place), 0 for a zero. Two nonzero operands add
   up to at least 226 (f16) or 170, an addend to at most 381 with the same bias of 254; a product with a zero factor
   adds up to 142 or 169 at most, so it never sets E (R3) and needs no test.
2. f32 results: where some product is nonzero, E is -84 or more. The floor (R4) is then idle, a result is 0 or at least
   2^-109, an f32-subnormal addend truncates away, and no result overflows, since products below 2^86 are cut off beside
   an addend near 2^128. Where all products are zero the result is the addend, unchanged: its last place is a multiple
   of 2^(E - F). So this core is exact also where the device flushes subnormals.
3. f16 results: E is raised to the floor, at or above the exponent sum of zero factors, and the smallest unit is 2^-46.
4. The sum's magnitude stays below 2^31 but for F = 25 with 16 products, where it may reach 2.22e9; then half of the
   sum, taken from two part sums, gives the sign, and the magnitude fits an unsigned word.
5. `m & ~(m >> 24)` clears the first bit below the 24 leading ones (and some below it), so that converting to f32 in
   round-to-nearest (or toward zero) truncates (R7).
6. For f16 results the truncated 24 bits get a sticky last bit, then one magic addition rounds to nearest even.
7. R9: the f32 sum of the addend and all products is infinite or NaN exactly where the group's result is, with its
   sign: finite sums are far from overflow.

Needs of the device's floats: exact multiplication of normal numbers, conversion that truncates; for f16 results and
specials also round-to-nearest addition, infinities and NaN. Nothing needs subnormals or a NaN payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ...formats import BF16, F16, F32, Codes, Format
from ...spirv.builder import Builder, Value
from .tensor import SIGN, Rules

_EXPONENT = 0x7F800000
_SMALLEST = 113 << 23  # exponent field of 2^-14, the smallest normal f16
#: Where all products are zero, E may be raised to this, and an addend that is no smaller stays as it is.
SMALL = -100
#: Exponents of plain bf16 and tf32 operands: 3 * 42 < 127 keeps products with a zero below all others.
_WINDOW = 42

PIECE = 1 << 18  # codes looked at together

Operand = tuple[Value, ...]
State = tuple[Value, ...]


def is_plain(fmt: Format, codes: Codes) -> bool:
    """Whether `FloatCore(plain=True)` may have these operands: finite, and bf16 or tf32 exponents within the window."""
    # piece by piece: no copy of a large array, and a piece stays in the cache
    if codes.size > PIECE:
        flat = codes.reshape(-1)
        return all(is_plain(fmt, flat[i : i + PIECE]) for i in range(0, flat.size, PIECE))
    shift = fmt.fraction_bits + fmt.ignored_bits
    if fmt is F16:
        return bool(((codes & np.array(fmt.infinity, codes.dtype)) != fmt.infinity).all())
    magnitude = codes & np.array((fmt.sign_bit - 1) & ~((1 << fmt.ignored_bits) - 1), codes.dtype)
    lowest, highest = (fmt.bias - _WINDOW) << shift, (fmt.bias + _WINDOW + 1) << shift
    return bool(((magnitude == 0) | ((magnitude >= lowest) & (magnitude < highest))).all())


def is_calm(fmt: Format, code: int) -> bool:
    """Whether a seed is 0 or of ordinary size: no addend of its chain is then odd, where operands are plain."""
    if not fmt.is_float:
        return False
    magnitude = code & (fmt.sign_bit - 1)
    return magnitude == 0 or abs((magnitude >> fmt.fraction_bits) - fmt.bias) <= _WINDOW


class SignedSum:
    """R6: the running sum of a group's truncated terms; see 4 of the module's text."""

    def __init__(self, e: Builder, r: Rules) -> None:
        self.e, self.wide, self.count, self.half = e, r.largest_sum >= 1 << 31, 0, r.width // 2 + 1
        self.parts: list[Value] = []

    def add(self, term: Value) -> None:
        if not self.parts or (self.wide and self.count == self.half):
            self.parts.append(term)
        else:
            self.parts[-1] = self.parts[-1] + term
        self.count += 1

    def magnitude_and_sign(self) -> tuple[Value, Value]:
        """(u32, sign in bit 31)."""
        e = self.e
        if not self.wide:
            (total,) = self.parts
            return e.ext("SAbs", "i32", total).u, total.u & SIGN
        first, second = self.parts
        half = (first >> 1) + (second >> 1) + (first & second & 1)
        total = (first + second).u
        return e.select(half < 0, -total, total), half.u & SIGN

    def truncated(self, magnitude: Value) -> Value:
        """The 24 leading bits of a magnitude as f32; see 5."""
        kept = magnitude & ~(magnitude >> 24)
        return self.e.convert(kept if self.wide else kept.i, "f32")


class FloatCore:
    """Contraction core on f32; an operand is (value, nominal exponent field); see `chains` for the protocol.

    plain: the caller knows that `is_plain` holds for all operands (not the addend); anything else gives wrong results.
    calm: it also knows that no addend is odd (`is_odd`), which is so from a calm seed on.
    State: the code for f32 results, the value as f32 for f16 results.
    """

    form = "float"
    outputs = 32
    smallest = SMALL  # of addends that are not odd

    def __init__(self, r: Rules, plain: bool = False, calm: bool = False) -> None:
        assert r.operand is F16 or plain, "bf16 and tf32 in their whole range are for tensor_wide"
        self.rules, self.width, self.plain = r, r.width, plain
        self.calm = calm and plain and r.result is F32
        self.lowest_product = 2 * _SMALLEST if r.operand is F16 else (254 - 2 * _WINDOW) << 23

    # ---- operands ------------------------------------------------------------------------------------------------

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand:
        """R1: a code in the low bits of a word; the high bits of an f16 word are not read, those of bf16 are zero."""
        if self.rules.operand is F16:
            return self._operand(e, e.extract(unpack_half(e, code), 0))
        return self._operand(e, (code << 16 if self.rules.operand is BF16 else code & 0xFFFFE000).f)

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]:
        """The elements of a word, low half first."""
        if self.rules.operand is F16:
            pair = unpack_half(e, word)
            return [self._operand(e, e.extract(pair, i)) for i in range(2)]
        if self.rules.operand is BF16:
            return [self.operand(e, word), self._operand(e, (word & 0xFFFF0000).f)]
        return [self.operand(e, word)]

    def _operand(self, e: Builder, value: Value) -> Operand:
        field = value.bits & _EXPONENT
        if self.rules.operand is F16:
            field = e.select(field.eq(0), e.u32(0), e.max(field, _SMALLEST))
        return value, field

    def exponents(self, e: Builder, word: Value) -> tuple[Value, Value]:
        """Of a word of two f16 codes: their nominal exponent fields in one word, and whether either is not finite."""
        low, high = (field for _, field in self.operands_of_word(e, word))
        return low >> 16 | high, e.max(low, high) >= F32.infinity

    # ---- the accumulator -----------------------------------------------------------------------------------------

    def seed(self, e: Builder, code: Value) -> State:
        """-0 becomes +0 (R8)."""
        if self.rules.result is F16:
            value = e.extract(unpack_half(e, e.select(code.eq(F16.sign_bit), e.u32(0), code)), 0)
            return (value,)
        return (e.select(code.eq(SIGN), e.u32(0), code),)

    def result(self, e: Builder, acc: State) -> Value:
        """The accumulator's code, with the canonical NaN."""
        if self.rules.result is F16:
            return pack_half(e, acc[0])
        code = acc[0]
        return e.select((code & ~SIGN) > F32.infinity, e.u32(F32.canonical_nan), code)

    # ---- one group -----------------------------------------------------------------------------------------------

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State:
        top = reduce(e.max, [x[1] + y[1] for x, y in zip(a, b, strict=True)])
        if self.calm:
            top = e.max(top, (254 + SMALL) << 23)
        top = self.raised(e, acc, top)
        scale, total, float_sum = self.scale(e, top), SignedSum(e, self.rules), self.addend(acc)
        total.add(e.convert(float_sum * scale, "i32"))
        # Each product is used up at once: the fewer values live, the fewer spills.
        for x, y in zip(a, b, strict=True):
            product = x[0] * y[0]
            if not self.plain:
                float_sum = float_sum + product
            total.add(e.convert(product * scale, "i32"))
        return self.next_state(e, acc, total, top, float_sum)

    def next_state(self, e: Builder, acc: State, total: SignedSum, top: Value, float_sum: Value) -> State:
        """R6 to R9. total: in units of 2^(E - F); float_sum: of all terms in f32, read unless operands are plain."""
        summed = self._summed(e, total, top)
        if self.calm:
            return (summed,)
        if self.rules.result is F32:
            summed = e.select(top < self.lowest_product, acc[0], summed)
        if self.plain:  # the exponent of an infinite or NaN addend is above every finite one
            return (e.select(top >= (382 << 23), acc[0], summed),)
        special = (float_sum.bits & ~SIGN) >= F32.infinity
        return (e.select(special, float_sum.bits if self.rules.result is F32 else float_sum, summed),)

    def is_odd(self, e: Builder, acc: State) -> Value:
        """Whether an addend is infinite, NaN, or nonzero and below 2^`smallest`."""
        magnitude = self.addend(acc).bits & ~SIGN
        small = (magnitude - 1) < ((127 + self.smallest) << 23) - 1  # and not 0
        return (magnitude >= F32.infinity) | small

    def addend(self, acc: State) -> Value:
        """The accumulator as f32."""
        return acc[0] if self.rules.result is F16 else acc[0].f

    def raised(self, e: Builder, acc: State, top: Value) -> Value:
        """R3, R4: the largest exponent field of the products, with the addend and the floor."""
        if self.rules.result is F16:
            field = acc[0].bits & _EXPONENT
            own = e.select(field.eq(0), e.u32(0), e.max(field, _SMALLEST))
            return e.max(e.max(top, own + (127 << 23)), (254 + self.rules.floor) << 23)
        return e.max(top, (acc[0] & _EXPONENT) + (127 << 23))

    def scale(self, e: Builder, top: Value) -> Value:
        """2^(F - E): R5 in units of 2^(E - F) is a multiplication by it and a truncating conversion."""
        return (e.u32((381 + self.rules.fraction_bits) << 23) - top).f

    def _summed(self, e: Builder, total: SignedSum, top: Value) -> Value:
        """R6 to R8 where nothing is infinite or NaN and E is `SMALL` or more."""
        magnitude, sign = total.magnitude_and_sign()
        kept, unit = total.truncated(magnitude), top - ((127 + self.rules.fraction_bits) << 23)
        if self.rules.result is F32:
            return (kept * unit.f).bits | sign
        lost = magnitude - e.convert(kept, "u32" if total.wide else "i32").u
        odd = (kept.bits | e.min(lost, 1)).f
        return nearest_half(e, odd * (unit | sign).f)


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
