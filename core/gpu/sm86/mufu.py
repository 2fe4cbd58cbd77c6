"""MUFU, the special function unit, in 32-bit integer arithmetic. Twin: `reference.mufu`; constants: `isa.mufu_tables`.

Rules (design.md 4.3; measured on an H200 over all 2^32 inputs of each function):

1. ``A = (C0[i] << s0) + C1[i] * x + ((C2[i] * S(x)) << s2) + bias`` with i the upper and x the lower bits of the
   reduced argument. A needs more than 32 bits, so it is split at s0: ``A >> s0 = C0 + C1 * (x >> s0) + (t >> s0)``
   with ``t = C1 * (x mod 2^s0) + ((C2 * S) << s2) + bias``; the low s0 bits of t are those of A.
2. S squares 17 bits to 15, each partial product truncated before the sum. With h = x >> 9 and l = x & 511 it is h * h
   plus 14 products of one bit with a shifted part, halved.
3. Every NaN gives 7fffffff; subnormal operands count as zero of their sign, except in TANH.

The coefficients lie in a storage buffer of two words a row (`table_words`), bound at `e.mufu_binding`; magnitudes
only, as the sign of a column is fixed for a function: word 0 is C0 and the 17th bit of C1 (its top bit), word 1 is C1
| C2 << 16.

EX2 has a ``native`` form that converts its argument with float operations on normal numbers; the rest is the same.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...formats import F16, F32
from ...isa import mufu_tables
from ...isa.mufu_tables import TANH_BINADES, UNITS
from ...spirv.builder import Builder, Value
from .pack import narrow, widen
from .resolve import use

FORMS = {"ex2": ("native",)}
USES = {"ex2_f16": ("MUFU.EX2",)}

TABLES = ("rcp", "rsq", "sqrt", "ex2", "lg2", "sin", "tanh")
#: Signs of C1 and C2 by table.
SIGNS = {
    "rcp": (-1, 1), "rsq": (-1, 1), "sqrt": (1, -1), "ex2": (1, 1), "lg2": (1, -1), "sin": (1, -1), "tanh": (1, -1),
}  # fmt: skip
_FRACTION = (1 << 23) - 1
_ONE = 127 << 23


@cache
def _first_rows() -> dict[str, int]:
    """Index of each table's first row in the buffer."""
    first, total = {}, 0
    for table in TABLES:
        first[table] = total
        total += len(mufu_tables.coefficients(table))
    return first


@cache
def table_words() -> NDArray[np.uint32]:
    """The coefficient buffer: uint32 [rows, 2], read-only, to be bound wherever MUFU is emitted."""
    rows = []
    for table in TABLES:
        for c0, *others in mufu_tables.coefficients(table):
            c1, c2 = (value * sign for value, sign in zip(others, SIGNS[table]))
            assert 0 <= c0 < 1 << 31 and 0 <= c1 < 1 << 17 and 0 <= c2 < 1 << 16, (table, c0, others)
            rows.append((c0 | c1 >> 16 << 31, (c1 & 0xFFFF) | c2 << 16))
    words = np.array(rows, np.uint32)
    words.flags.writeable = False
    return words


# ---- the interpolator --------------------------------------------------------------------------------------------


def square(e: Builder, x: Value) -> Value:
    """S of rule 2."""
    high, low = x >> 9, x & 511
    total = high * high
    for i in range(1, 8):
        total = total + e.bit(high, i) * (low >> (9 - i))
    for i in range(2, 9):
        total = total + e.bit(low, i) * (high >> (9 - i))
    return total >> 1


def interpolate(e: Builder, name: str, row: Value, x: Value) -> tuple[Value, Value]:
    """(A >> s0, t) of rule 1; the row counts from the start of the function's table."""
    unit = UNITS[name]
    sign1, sign2 = SIGNS[unit.table]
    words = _load_row(e, row + _first_rows()[unit.table])
    c0, others = e.extract(words, 0), e.extract(words, 1)
    c1, c2 = others & 0xFFFF, others >> 16
    if unit.table == "sqrt":
        c1 = c1 | ((c0 >> 31) << 16)
        c0 = c0 & 0x7FFFFFFF
    linear = c1 * (x & ((1 << unit.s0) - 1))
    quadratic = c2 * square(e, x << (17 - unit.x_bits) if unit.x_bits < 17 else x)
    quadratic = quadratic << unit.s2 if unit.s2 else quadratic
    # SQRT's sum needs all 32 bits: kept above zero, taken off again below (mufu.md, 32-bit arithmetic)
    offset = 1 << 27 if name == "sqrt" else 0
    t = _signed_sum(linear, sign1, quadratic, sign2) + (unit.bias + offset)
    carried = (t >> unit.s0) - (offset >> unit.s0) if offset else (t.i >> unit.s0).u
    head = c0 + carried + c1 * (x >> unit.s0) if sign1 > 0 else c0 + carried - c1 * (x >> unit.s0)
    return head, t


def _load_row(e: Builder, row: Value) -> Value:
    """Two words of the buffer; as one of 64 bits on a CPU, which loads lane by lane and component by component."""
    if e.target.is_cpu and e.target.int64:
        return e.bitcast(e.buffer(e.mufu_binding, "u64", readonly=True).load(row), "u32x2")
    return e.buffer(e.mufu_binding, "u32x2", readonly=True).load(row)


def _signed_sum(a: Value, sign_a: int, b: Value, sign_b: int) -> Value:
    if sign_a > 0:
        return a + b if sign_b > 0 else a - b
    return b - a


def _rounded(e: Builder, name: str, row: Value, x: Value) -> Value:
    """A >> shift."""
    unit = UNITS[name]
    return interpolate(e, name, row, x)[0] >> (unit.shift - unit.s0)


def _leading(e: Builder, high: Value, low: Value, bits: int) -> Value:
    """high * 2^bits + low > 0: (position of the leading one) << 23 | the 23 bits below it, truncated."""
    empty = high.eq(0)
    top = e.select(empty, low, high)
    lead = e.find_msb(top)
    # `top` moved up to bit 31, `low` right behind it
    behind = e.select(empty | lead.eq(31), e.u32(0), (low << (32 - bits)) >> ((lead + 1) & 31))
    fraction = (((top << (31 - lead)) | behind) >> 8) & _FRACTION
    place = lead + e.select(empty, e.u32(0), e.u32(bits))
    return (place << 23) | fraction


# ---- fields ------------------------------------------------------------------------------------------------------


def _exponent(e: Builder, a: Value) -> Value:
    return ((a >> 23) & 0xFF).i


def _finish(e: Builder, a: Value, code: Value) -> Value:
    """Rule 3 for NaN."""
    return e.select(e.is_nan(a), e.u32(F32.canonical_nan), code)


def _root_argument(e: Builder, a: Value) -> tuple[Value, Value]:
    """(fraction with the parity of the unbiased exponent as bit 23, half of that exponent rounded down)."""
    exponent = _exponent(e, a)
    fraction = (a & _FRACTION) | (((exponent + 1) & 1) << 23).u
    return fraction, (exponent - 127) >> 1


def _turned(e: Builder, shift: Value, a: Value) -> Value:
    """The significand shifted left by `shift` (right where negative, truncating); shifts beyond the word give 0."""
    significand = (a & _FRACTION) | 0x800000
    left = e.select(shift > 31, e.u32(0), significand << (shift & 31).u)
    right = significand >> e.min(-shift, 31).u
    return e.select(shift < 0, right, left)


# ---- functions ---------------------------------------------------------------------------------------------------


def ex2(e: Builder, a: Value) -> Value:
    """MUFU.EX2: 2^a; results below 2^-126 are +0."""
    exponent = _exponent(e, a) - 127
    fixed = _turned(e, exponent, a)  # |a| with 23 fraction bits, truncated
    negative = (a & 0x80000000).ne(0)
    complement = e.select((fixed & _FRACTION).eq(0), -fixed, ~fixed)  # one's complement unless whole
    code = _power(e, e.select(negative, complement, fixed))
    code = e.select(exponent >= 7, e.select(negative, e.u32(0), e.u32(F32.infinity)), code)
    return _finish(e, a, code)


def ex2_native(e: Builder, a: Value) -> Value:
    """As `ex2`; the fixed-point argument by a float conversion, which truncates (tile-lowering.md D)."""
    x = a.f
    fixed = e.convert(e.max(x, -127.0) * e.f32(2.0**23), "i32")
    below = e.select((x < 0.0) & (fixed.u & _FRACTION).ne(0), e.i32(1), e.i32(0))
    code = e.select(x >= 128.0, e.u32(F32.infinity), _power(e, (fixed - below).u))
    return _finish(e, a, code)


def _power(e: Builder, fixed: Value) -> Value:
    """2^(fixed / 2^23) of a signed fixed-point number above -128."""
    exponent = (fixed.i >> 23) + 127
    fraction = fixed & _FRACTION
    y = _rounded(e, "ex2", fraction >> 17, fraction & 0x1FFFF)
    return e.select(exponent <= 0, e.u32(0), (exponent << 23).u | (y & _FRACTION))


def lg2(e: Builder, a: Value) -> Value:
    """MUFU.LG2: log2 a."""
    fraction = a & _FRACTION
    head, t = interpolate(e, "lg2", fraction >> 17, fraction & 0x1FFFF)  # head : t mod 2^12, 38 fraction bits
    exponent = _exponent(e, a)
    high = ((exponent - 127) << 23) + (head >> 3).i  # high : low of 13 bits, 36 fraction bits
    low = ((head & 7) << 10) | ((t & 0xFFF) >> 2)
    below = high < 0
    high = e.select(below, ~high, high).u
    low = e.select(below, ~low & 0x1FFF, low)
    code = _leading(e, high, low, 13) + ((127 - 36) << 23)
    code = e.select((high | low).eq(0), e.u32(0), code) | e.select(below, e.u32(0x80000000), e.u32(0))
    code = e.select(a.eq(_ONE), e.u32(0), code)
    code = e.select(exponent.eq(255), e.u32(F32.infinity), code)
    code = e.select((a & 0x80000000).ne(0), e.u32(F32.canonical_nan), code)
    code = e.select(exponent.eq(0), e.u32(0xFF800000), code)
    return _finish(e, a, code)


def rcp(e: Builder, a: Value) -> Value:
    """MUFU.RCP: 1 / a; results below 2^-126 are zero of the sign."""
    fraction = a & _FRACTION
    y = _rounded(e, "rcp", fraction >> 16, fraction & 0xFFFF)  # 24 bits, or exactly 2^24 where the fraction is 0
    field = _exponent(e, a)
    exponent = 253 - field + e.select(fraction.eq(0), e.i32(1), e.i32(0))
    # y of 2^24 has no bits below its leading one, like y >> 1
    code = e.select(exponent <= 0, e.u32(0), (exponent << 23).u | (y & _FRACTION))
    code = e.select(field.eq(0), e.u32(F32.infinity), e.select(field.eq(255), e.u32(0), code))
    return _finish(e, a, code | (a & 0x80000000))


def rsq(e: Builder, a: Value) -> Value:
    """MUFU.RSQ: 1 / sqrt a."""
    fraction, half = _root_argument(e, a)
    y = _rounded(e, "rsq", fraction >> 17, fraction & 0x1FFFF)
    code = e.select(fraction.eq(0), (127 - half) << 23, ((126 - half) << 23) | (y & _FRACTION).i).u
    return _root_specials(e, a, code, e.u32(0), (a & 0x80000000) | F32.infinity)


def sqrt(e: Builder, a: Value) -> Value:
    """MUFU.SQRT: sqrt a; subnormals are zero of their sign."""
    fraction, half = _root_argument(e, a)
    y = _rounded(e, "sqrt", fraction >> 17, fraction & 0x1FFFF)
    code = ((half + 127) << 23).u | (y & _FRACTION)
    return _root_specials(e, a, code, e.u32(F32.infinity), a & 0x80000000)


def _root_specials(e: Builder, a: Value, code: Value, of_infinity: Value, of_zero: Value) -> Value:
    exponent = _exponent(e, a)
    code = e.select(exponent.eq(255), of_infinity, code)
    code = e.select((a & 0x80000000).ne(0), e.u32(F32.canonical_nan), code)
    return _finish(e, a, e.select(exponent.eq(0), of_zero, code))


def tanh(e: Builder, a: Value) -> Value:
    """MUFU.TANH: below 2^-8 the operand itself, subnormals included; 1 from 8 on."""
    size = a & 0x7FFFFFFF
    fraction = a & _FRACTION
    exponent = _exponent(e, a)
    binade = exponent - 119
    first, segments, unit = (_choose(e, binade, [row[i] for row in TANH_BINADES]) for i in range(3))
    row = first + (fraction >> (23 - segments))
    x = (fraction >> (6 - segments)) & 0x1FFFF
    head, t = interpolate(e, "tanh", row, x)
    code = _leading(e, head, t & 0x3FFF, 14) + ((unit + (127 - 42)) << 23)
    code = e.select(binade < 0, size, e.select(exponent >= 130, e.u32(_ONE), code))
    return _finish(e, a, code | (a & 0x80000000))


def _choose(e: Builder, index: Value, values: list[int]) -> Value:
    """values[index] by selects; the first below the list, the last above it."""
    result = e.u32(values[0])
    for i, value in enumerate(values):
        if i and value != values[i - 1]:
            result = e.select(index >= i, e.u32(value), result)
    return result


def sin(e: Builder, a: Value) -> Value:
    """MUFU.SIN: sine of a turns."""
    return _circular(e, a, cosine=False)


def cos(e: Builder, a: Value) -> Value:
    """MUFU.COS: cosine of a turns."""
    return _circular(e, a, cosine=True)


def _circular(e: Builder, a: Value, cosine: bool) -> Value:
    shift = _exponent(e, a) - 125
    fixed = _turned(e, shift, a)  # |a| in quarter turns with 23 fraction bits, modulo 2^32
    quadrant = fixed >> 23
    sign = a & 0x80000000
    if cosine:
        quadrant, sign = quadrant + 1, e.u32(0)
    fraction = e.select((quadrant & 1).ne(0), ~fixed, fixed) & _FRACTION
    sign = sign ^ ((quadrant & 2) << 30)
    head, t = interpolate(e, "sin", fraction >> 17, fraction & 0x1FFFF)
    low = t & 0x7FF
    code = e.select((head | low).eq(0), e.u32(0), _leading(e, head, low, 11) + ((127 - 37) << 23))
    infinite = _exponent(e, a).eq(255)
    return e.select(infinite, e.u32(F32.canonical_nan), code | sign)


def ex2_f16(e: Builder, a: Value) -> Value:
    """MUFU.EX2.F16: EX2 of the widened operand, truncated to f16; from 2^16 on infinity."""
    return _truncated(e, use(e, "MUFU.EX2", widen(e, F16, a)))


def tanh_f16(e: Builder, a: Value) -> Value:
    """MUFU.TANH.F16: TANH of the widened operand, truncated to f16."""
    return _truncated(e, tanh(e, widen(e, F16, a)))


def _truncated(e: Builder, a: Value) -> Value:
    return narrow(e, F16, a, "rz", "infinity")
