"""The third opinion on whole kernels: the language's operations on numpy arrays of values, one rounding each.

Written from phobos-language.md D, and from neither backend: numpy's own IEEE arithmetic where it has the operation, an
exact product and a sum rounded to odd for FFMA, integers for HMMA, `oracle_mufu` for MUFU. Functions take and give
typed arrays (float32, float16, int32, ...); bf16 is a uint16 of codes. A NaN that arithmetic makes is canonical.

Operations are called by name, so that a test may put a wrong one in the place of another.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import oracle_mufu
from phobos_sim.formats import F32

Array = np.ndarray
LOWEST = np.float32(-3.0e38)
CANONICAL = {np.dtype(np.float32): np.uint32(0x7FFFFFFF), np.dtype(np.float16): np.uint16(0x7FFF)}


def bits(x: Array) -> Array:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)


def canonical(x: Array) -> Array:
    """Every NaN with the one payload that arithmetic gives."""
    quiet = CANONICAL[x.dtype].view(x.dtype)
    return np.where(np.isnan(x), quiet, x)


def _arithmetic(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype, (a.dtype, b.dtype)
        with np.errstate(all="ignore"):
            return canonical(np.asarray(function(a, b), a.dtype))

    return apply


add = _arithmetic(np.add)  # f16 through f32 and back is one rounding: f32 has more than twice its bits
sub = _arithmetic(np.subtract)
mul = _arithmetic(np.multiply)
div = _arithmetic(np.divide)


def fma(a: Array, b: Array, c: Array) -> Array:
    """f32, one rounding: the f64 product is exact, the f64 sum is rounded to odd, so that f32 rounds as if once."""
    with np.errstate(all="ignore"):
        product, addend = np.float64(a) * np.float64(b), np.float64(c)
        total = np.asarray(product + addend)
        back = total - product
        error = (product - (total - back)) + (addend - back)
        code = total.view(np.int64)
        outward = (code ^ np.asarray(error).view(np.int64)) < 0  # the sum went away from zero
        odd = (code - outward) | 1
        code = np.where((error != 0) & np.isfinite(error), odd, code)
        return canonical(code.view(np.float64).astype(np.float32))


def chain(a: Array, b: Array, seed: Array) -> Array:
    """a [M, K] times b [K, N] in f32, from seed: one FFMA after the other, k ascending."""
    out = seed
    for k in range(a.shape[1]):
        out = fma(a[:, k, None], b[None, k, :], out)
    return out


def imad(a: Array, b: Array, seed: Array) -> Array:
    """Integers: exact, modulo 2^32."""
    total = a.astype(np.int64) @ b.astype(np.int64) + seed
    return total.astype(np.uint32).view(np.int32)


# ---- tensor cores ------------------------------------------------------------------------------------------------


def hmma(a: Array, b: Array, seed: Array) -> Array:
    """f16 a [M, K] times b [K, N] from an f32 or f16 seed on sm_86: groups of 8 along ascending k (design.md 4.1)."""
    out = seed
    for k in range(0, a.shape[1], 8):
        out = hmma_group(a[:, k : k + 8], b[k : k + 8], out)
    return out


def hmma_group(a: Array, b: Array, c: Array) -> Array:
    """One group: products and addend aligned to the largest exponent, truncated, summed, rounded once.

    Products of f16 are multiples of 2^-48, so an f32 result never has to be cut to a subnormal.
    """
    x, ex = _significand(a[:, None, :])
    y, ey = _significand(b.T[None, :, :])
    z, ez = _significand(c)
    product, exponent = x * y, ex + ey  # a product counts 2^(exponent - 20)
    floor = -132 if c.dtype == np.float32 else -20
    top = np.where(product != 0, exponent, -1000).max(axis=2)
    top = np.maximum(np.maximum(top, np.where(z != 0, ez, -1000)), floor)
    terms = _truncated(product, exponent - 20 - (top[..., None] - 24)).sum(axis=2)
    total = terms + _truncated(z, ez - _fraction(c) - (top - 24))
    with np.errstate(all="ignore"):
        special = np.float32(a)[:, None, :] * np.float32(b.T)[None, :, :]
        special = special.sum(axis=2) + np.float32(c)  # an infinity or a NaN where a term is one
        kinds = ~(np.isfinite(np.float32(a)).all(axis=1)[:, None] & np.isfinite(np.float32(b)).all(axis=0)[None])
        kinds = kinds | ~np.isfinite(np.float32(c))
        value = np.ldexp(total.astype(np.float64), top - 24)  # exact
        if c.dtype == np.float32:
            code = value.view(np.int64) & ~((1 << 29) - 1)  # 24 significant bits, toward zero
            value = code.view(np.float64)
        finite = value.astype(c.dtype) + c.dtype.type(0)  # a zero is +0
        return canonical(np.where(kinds, special.astype(c.dtype), finite))


def _fraction(x: Array) -> int:
    return 10 if x.dtype == np.float16 else 23


def _significand(x: Array) -> tuple[Array, Array]:
    """Signed integer significand and exponent; a subnormal has the smallest normal number's exponent."""
    fraction, code = _fraction(x), bits(x).astype(np.int64)
    width, bias = (5, 15) if fraction == 10 else (8, 127)
    field = code >> fraction & (1 << width) - 1
    whole = code & (1 << fraction) - 1 | (field > 0).astype(np.int64) << fraction
    return np.where(code >> (fraction + width), -whole, whole), np.maximum(field, 1) - bias


def _truncated(whole: Array, shift: Array) -> Array:
    """whole * 2^shift, toward zero."""
    size = np.abs(whole)
    size = np.where(shift >= 0, size << np.clip(shift, 0, 40), size >> np.clip(-shift, 0, 62))
    return np.where(whole < 0, -size, size)


# ---- functions and selections ------------------------------------------------------------------------------------


def _by_code(function: Callable[[int], int], x: Array) -> Array:
    codes, where = np.unique(bits(x), return_inverse=True)
    results = np.array([function(int(code)) for code in codes], np.uint32)
    return results[where].view(np.float32).reshape(x.shape)


def exp(x: Array) -> Array:
    """FMUL by f32(log2 e), MUFU.EX2."""
    return _by_code(oracle_mufu.ex2, mul(x, np.float32(np.log2(np.e))))


def sqrt(x: Array) -> Array:
    """MUFU.SQRT, a subnormal scaled before and after."""
    return _by_code(oracle_mufu.sqrt_approx, x)


def greater(a: Array, b: Array) -> Array:
    """tmax and the step of rowmax: a > b ? a : b, bits kept."""
    return np.where(a > b, a, b)


def to_f16(x: Array) -> Array:
    """f32 to f16, to nearest even, overflow to infinity."""
    with np.errstate(all="ignore"):
        return canonical(x.astype(np.float16))


def to_bf16(x: Array) -> Array:
    """f32 to codes of bf16, to nearest even."""
    code = bits(x).astype(np.uint64)
    rounded = (code + 0x7FFF + (code >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(x), 0x7FFF, rounded).astype(np.uint16)


def to_i8(x: Array) -> Array:
    """f32 to i8: toward zero, saturated to 16 bits, the low byte; a NaN is 0."""
    whole = np.trunc(np.where(np.isnan(x), 0, x))
    return np.clip(whole, -32768, 32767).astype(np.int64).astype(np.uint8).view(np.int8)


# ---- reductions --------------------------------------------------------------------------------------------------


def lanes_of(rows: int, threads: int) -> int:
    """How many lanes share a row of an f32 tile; 1 is the serial order (phobos-language.md D.6)."""
    per = threads // rows
    if per < 2:
        return 1
    lanes = min(1 << (per.bit_length() - 1), 32)
    while lanes >= 2 and rows * lanes % 32:
        lanes //= 2
    return lanes


def fold(x: Array, threads: int, step: Callable[[Array, Array], Array], start: np.float32) -> Array:
    """[R, C] to [R, 1]: each lane takes every L-th column, then a butterfly joins the lanes."""
    rows, columns = x.shape
    lanes = lanes_of(rows, threads)
    partial = [np.full(rows, start, np.float32) for _ in range(lanes)]
    for j in range(columns):
        partial[j % lanes] = step(partial[j % lanes], x[:, j])
    distance = lanes // 2
    while distance:
        partial = [step(partial[i], partial[i ^ distance]) for i in range(lanes)]
        distance //= 2
    return partial[0][:, None]


def rowsum(x: Array, threads: int) -> Array:
    return fold(x, threads, add, np.float32(0))


def rowmax(x: Array, threads: int) -> Array:
    return fold(x, threads, greater, LOWEST)


def cumsum(x: Array) -> Array:
    """Prefix sums down the rows, from +0."""
    out, running = [], np.zeros(x.shape[1], np.float32)
    for row in x:
        running = add(running, row)
        out.append(running)
    return np.array(out)


# ---- slices ------------------------------------------------------------------------------------------------------


def window(x: Array, starts: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """x[starts :+ sizes], zero outside."""
    out = np.zeros(sizes, x.dtype)
    part = x[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]
    out[tuple(slice(n) for n in part.shape)] = part
    return out


def put(x: Array, starts: tuple[int, ...], value: Array) -> None:
    """x[starts :+ shape of value] = value, dropped outside."""
    part = x[tuple(slice(s, s + n) for s, n in zip(starts, value.shape, strict=True))]
    part[...] = value[tuple(slice(n) for n in part.shape)]


assert F32.canonical_nan == CANONICAL[np.dtype(np.float32)]
