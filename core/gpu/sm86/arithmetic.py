"""Sum, product, fused multiply-add, quotient and square root of any float format, on integer words.

The integer forms of FADD, HADD2, DADD and so on are these functions with a format; the families add their flushing and
their names. Results are rounded once and NaN are canonical (design.md 4.2). See `soft` for the representation.

Rules:
1. Invalid operations and NaN operands give the canonical NaN (`double` puts its own rule over it); infinities follow
   IEEE 754.
2. Quotient and root digits come from restoring division and square root, one bit a step, so no seed is needed.
"""

from __future__ import annotations

from ...formats import Format
from ...spirv.builder import BITS, Builder, Value
from . import soft
from .soft import Number, Wide


def add(e: Builder, fmt: Format, a: Value, b: Value) -> Value:
    """a + b, rounded to nearest even."""
    position = BITS[a.kind] - 3
    result = soft.round_pack(
        e, fmt, soft.add_numbers(e, soft.unpack(e, fmt, a, position), soft.unpack(e, fmt, b, position))
    )
    result = _infinite_sum(e, fmt, result, a, b)
    return e.select(_any_nan(e, fmt, a, b) | _opposite_infinities(e, fmt, a, b), _nan(e, fmt, a), result)


def multiply(e: Builder, fmt: Format, a: Value, b: Value, rounding: str = "rn", flush: bool = False) -> Value:
    """a * b, rounded once; toward zero a finite overflow gives the largest finite number. flush: .FTZ of results."""
    if fmt.bits == 16:
        number = soft.narrow_product(e, fmt, a, b)
    else:
        wide = soft.product(e, fmt, a, b)
        number = Number(wide.sign, wide.exponent, soft.sticky_word(e, wide.high, wide.low), wide.position)
    result = soft.round_pack(e, fmt, number, rounding, "infinity" if rounding == "rn" else "largest", flush)
    infinite, invalid = _infinite_product(e, fmt, a, b)
    result = e.select(infinite, number.sign | e.const(fmt.infinity, a.kind), result)
    return e.select(_any_nan(e, fmt, a, b) | invalid, _nan(e, fmt, a), result)


def fma(e: Builder, fmt: Format, a: Value, b: Value, c: Value, flush: bool = False) -> Value:
    """a * b + c with one rounding to nearest even. flush: .FTZ of results."""
    term = soft.addend(e, fmt, c)
    if fmt.bits == 16:
        product: Number | Wide = soft.narrow_product(e, fmt, a, b)
        assert isinstance(product, Number)
        total = soft.add_numbers(e, product, term)
    else:
        product = soft.product(e, fmt, a, b)
        zero = e.const(0, c.kind)
        total = soft.add_wide(e, product, Wide(term.sign, term.exponent, term.significand, zero, term.position))
    result = soft.round_pack(e, fmt, total, flush=flush)
    infinite, invalid = _infinite_product(e, fmt, a, b)
    product_code = product.sign | e.select(infinite, e.const(fmt.infinity, a.kind), e.const(0, a.kind))
    result = _infinite_sum(e, fmt, result, product_code, c)
    invalid = invalid | _opposite_infinities(e, fmt, product_code, c)
    return e.select(_any_nan(e, fmt, a, b, c) | invalid, _nan(e, fmt, a), result)


def divide(e: Builder, fmt: Format, a: Value, b: Value) -> Value:
    """a / b, rounded to nearest even; x / 0 is infinity, 0 / 0 is NaN."""
    head = BITS[a.kind] - 2
    x, y = (soft.normalised(e, soft.unpack(e, fmt, code, head)) for code in (a, b))
    steps = fmt.fraction_bits + 3
    remainder, quotient = x.significand, e.const(0, a.kind)
    for step in range(steps):
        fits = remainder >= y.significand
        remainder = remainder - e.select(fits, y.significand, e.const(0, a.kind))
        quotient = (quotient << 1) | e.select(fits, e.const(1, a.kind), e.const(0, a.kind))
        if step + 1 < steps:
            remainder = remainder << 1
    quotient = soft.sticky_word(e, quotient << 1, remainder)
    return quotient_code(e, fmt, a, b, Number(x.sign ^ y.sign, x.exponent - y.exponent + fmt.bias, quotient, steps))


def quotient_code(e: Builder, fmt: Format, a: Value, b: Value, quotient: Number) -> Value:
    """The code of a / b, from the quotient of the significands where both are finite and not zero."""
    result = soft.round_pack(e, fmt, quotient)
    a_zero, b_zero = (soft.magnitude(e, fmt, code).eq(0) for code in (a, b))
    a_inf, b_inf = (soft.is_inf(e, fmt, code) for code in (a, b))
    result = e.select(a_inf | b_zero, quotient.sign | e.const(fmt.infinity, a.kind), result)
    result = e.select(a_zero | b_inf, quotient.sign, result)
    return e.select(_any_nan(e, fmt, a, b) | (a_zero & b_zero) | (a_inf & b_inf), _nan(e, fmt, a), result)


def square_root(e: Builder, fmt: Format, a: Value) -> Value:
    """The square root, rounded to nearest even; negative operands but -0 give NaN."""
    x, exponent = even_exponent(e, fmt, a)
    # x has its leading bit at fraction_bits or one above; the root gets fraction_bits + 3 bits, two radicand bits a
    # step.
    steps = fmt.fraction_bits + 3
    zero, one = e.const(0, a.kind), e.const(1, a.kind)
    remainder, root = zero, zero
    for step in range(steps):
        shift = fmt.fraction_bits - 2 * step
        if shift >= 0:
            pair = (x >> shift) & 3
        elif shift == -1:
            pair = (x << 1) & 3
        else:
            pair = zero
        remainder = (remainder << 2) | pair
        trial = (root << 2) | one
        fits = remainder >= trial
        remainder = remainder - e.select(fits, trial, zero)
        root = (root << 1) | e.select(fits, one, zero)
    significand = soft.sticky_word(e, root << 1, remainder)
    return root_code(e, fmt, a, Number(e.const(0, a.kind), exponent, significand, steps))


def even_exponent(e: Builder, fmt: Format, a: Value) -> tuple[Value, Value]:
    """(significand with one bit more where the exponent is odd, biased exponent of the root)."""
    x = soft.normalised(e, soft.unpack(e, fmt, a, fmt.fraction_bits))
    unbiased = x.exponent - fmt.bias
    odd = unbiased & 1
    return x.significand << odd.u, (unbiased >> 1) + fmt.bias


def root_code(e: Builder, fmt: Format, a: Value, root: Number) -> Value:
    """The code of sqrt a, from the root of the significand where a is finite and above zero."""
    result = soft.round_pack(e, fmt, root)
    passed = soft.magnitude(e, fmt, a).eq(0) | a.eq(fmt.infinity)
    result = e.select(passed, a, result)
    invalid = soft.is_nan(e, fmt, a) | (soft.sign_of(e, fmt, a).ne(0) & soft.magnitude(e, fmt, a).ne(0))
    return e.select(invalid, _nan(e, fmt, a), result)


# ---- infinities and NaN ------------------------------------------------------------------------------------------


def _nan(e: Builder, fmt: Format, like: Value) -> Value:
    return e.const(fmt.canonical_nan, like.kind)


def _any_nan(e: Builder, fmt: Format, *codes: Value) -> Value:
    result = soft.is_nan(e, fmt, codes[0])
    for code in codes[1:]:
        result = result | soft.is_nan(e, fmt, code)
    return result


def _infinite_sum(e: Builder, fmt: Format, result: Value, a: Value, b: Value) -> Value:
    result = e.select(soft.is_inf(e, fmt, b), b, result)
    return e.select(soft.is_inf(e, fmt, a), a, result)


def _opposite_infinities(e: Builder, fmt: Format, a: Value, b: Value) -> Value:
    differ = soft.sign_of(e, fmt, a ^ b).ne(0)
    return soft.is_inf(e, fmt, a) & soft.is_inf(e, fmt, b) & differ


def _infinite_product(e: Builder, fmt: Format, a: Value, b: Value) -> tuple[Value, Value]:
    """(one factor is infinite, infinity times zero)."""
    a_inf, b_inf = soft.is_inf(e, fmt, a), soft.is_inf(e, fmt, b)
    a_zero, b_zero = (soft.magnitude(e, fmt, code).eq(0) for code in (a, b))
    return a_inf | b_inf, (a_inf & b_zero) | (a_zero & b_inf)
