"""Tiles for matrix instructions: the input classes of tensor cores (rules: `classes`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..formats import Format
from .classes import DTYPES, Stream, build, codes, draw, from_float, signed_zero, to_float, with_specials

MATRIX_CLASSES = (
    "raw", "finite", "near_one", "subnormal", "zeros_huge", "cancellation", "sparse", "infinities", "huge", "tiny",
)  # fmt: skip

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
Shapes = tuple[tuple[int, ...], ...]
Maker = Callable[[Stream, tuple[Format, ...], Format, Shapes], Arrays]


def matrix_tiles(
    seed: int,
    label: str,
    formats: tuple[Format, ...],
    result: Format,
    shape: tuple[int, int, int],
    name: str,
    count: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a [count, m, k], b [count, k, n], c [count, m, n] of one class for one matrix instruction."""
    stream = Stream(seed, label, name)
    m, n, k = shape
    a_fmt, b_fmt, c_fmt = formats
    shapes = ((count, m, k), (count, k, n), (count, m, n))
    if not a_fmt.is_float:
        return _integer_tiles(stream, formats, shapes)
    special: dict[str, Maker] = {
        "finite": _windowed,
        "subnormal": _subnormal,
        "zeros_huge": _zeros_huge,
        "cancellation": _cancellation,
        "infinities": _infinities,
        "tiny": _tiny,
        "ties": _matrix_ties,
        "floor": _floor,
    }
    if name in special:
        return special[name](stream, formats, result, shapes)
    a, b, c = (draw(stream, fmt, name, s) for fmt, s in zip(formats, shapes, strict=True))
    return a, b, c


def matrix_classes(formats: tuple[Format, ...], result: Format) -> tuple[str, ...]:
    """The classes a matrix instruction is recorded on: the ten, sums next to a rounding point, and, where products
    reach so low, sums that only the floor of rule R4 decides."""
    operand = formats[0]
    if not operand.is_float:
        return ("raw",)
    reaches = 2 * (operand.emin - operand.fraction_bits) < result.emin - result.fraction_bits
    return (*MATRIX_CLASSES, "ties", *(("floor",) if reaches else ()))


def _integer_tiles(stream: Stream, formats: tuple[Format, ...], shapes: Shapes) -> Arrays:
    """Random bytes; every third tile from the ends of the range with addends next to overflow."""
    a, b, c = (codes(stream.bits(s), fmt) for fmt, s in zip(formats, shapes, strict=True))
    extreme = np.arange(shapes[0][0]) % 3 == 1
    ends = np.array([0, 1, 127, 128, 255, 255, 128, 127], np.uint8)
    for operand, s in ((a, shapes[0]), (b, shapes[1])):
        operand[extreme] = ends[stream.below(8, s)][extreme]
    near = np.where(stream.chance(2, shapes[2]), np.int64(0x7FFFFFFF), np.int64(0x80000000)) + stream.between(
        -70000, 70000, shapes[2]
    )
    c[extreme] = codes(near & 0xFFFFFFFF, formats[2])[extreme]
    return a, b, c


def _windowed(stream: Stream, formats: tuple[Format, ...], result: Format, shapes: Shapes) -> Arrays:
    """Whole range; every second tile within a window of binades, so that many terms overlap."""
    a, b, c = (draw(stream, fmt, "finite", s) for fmt, s in zip(formats, shapes, strict=True))
    first, second = formats[:2]
    tiles = (shapes[0][0], 1, 1)
    centre_a = stream.between(first.emin, first.bias - 1, tiles)
    a[1::2] = build(stream, first, centre_a + stream.between(-7, 7, shapes[0]))[1::2]
    # the second factor brings the product back into the result's range where it can
    centre_b = np.clip(stream.between(-40, 40, tiles) - centre_a, second.emin, second.bias - 1)
    b[1::2] = build(stream, second, centre_b + stream.between(-7, 7, shapes[1]))[1::2]
    c[1::2] = build(stream, formats[2], centre_a + centre_b + stream.between(-14, 14, shapes[2]))[1::2]
    return a, b, c


def _subnormal(stream: Stream, formats: tuple[Format, ...], result: Format, shapes: Shapes) -> Arrays:
    """Subnormal factors with subnormal, near-one or huge partners; every second addend subnormal or zero."""
    a, b, c = (draw(stream, fmt, "subnormal", s) for fmt, s in zip(formats, shapes, strict=True))
    partner = np.arange(shapes[1][0])[:, None, None] % 3
    b = np.where(partner == 1, draw(stream, formats[1], "near_one", shapes[1]), b)
    b = np.where(partner == 2, draw(stream, formats[1], "huge", shapes[1]), b)
    c = np.where(stream.chance(4, shapes[2]), draw(stream, formats[2], "tiny", shapes[2]), c)
    a[:, 1] = signed_zero(stream, formats[0], a[:, 1].shape)  # a row whose addends pass alone
    return a, b, np.where(stream.chance(4, shapes[2]), signed_zero(stream, formats[2], shapes[2]), c)


def _zeros_huge(stream: Stream, formats: tuple[Format, ...], result: Format, shapes: Shapes) -> Arrays:
    """At some k, one operand is zero and the other huge; elsewhere values are small, so a counted zero shows."""
    count, _, k = shapes[0]
    zero_at = stream.chance(2, (count, 1, k))
    first = stream.chance(2, (count, 1, k))
    small = [build(stream, fmt, stream.between(-9, -5, s)) for fmt, s in zip(formats, shapes, strict=True)]
    huge = [draw(stream, fmt, "huge", s) for fmt, s in zip(formats[:2], shapes[:2], strict=True)]
    zero = [signed_zero(stream, fmt, s) for fmt, s in zip(formats, shapes, strict=True)]
    zero_b, first_b = zero_at.transpose(0, 2, 1), first.transpose(0, 2, 1)
    a = np.where(zero_at, np.where(first, zero[0], huge[0]), small[0])
    b = np.where(zero_b, np.where(first_b, huge[1], zero[1]), small[1])
    c = np.where(stream.chance(3, shapes[2]), zero[2], small[2])
    # one result a tile whose every term is -0
    a[:, 0] = codes(np.array([1 << (formats[0].bits - 1)], np.uint64), formats[0])
    b[:, :, 0] &= codes(np.array([(1 << (formats[1].bits - 1)) - 1], np.uint64), formats[1])
    c[:, 0, 0] = codes(np.array([1 << (formats[2].bits - 1)], np.uint64), formats[2])[0]
    return a, b, c


def _cancellation(stream: Stream, formats: tuple[Format, ...], result: Format, shapes: Shapes) -> Arrays:
    """Products cancel in pairs (neighbours, or one half of k against the other), exactly or up to an ulp; the addend
    cancels one product in every second tile."""
    count, _, k = shapes[0]
    a, b = (build(stream, fmt, stream.between(-6, 6, s)) for fmt, s in zip(formats[:2], shapes[:2], strict=True))
    step = np.uint64(1 << formats[1].ignored_bits)
    for tile in range(count):
        distance = (1, k // 2, 2, 4 if k > 4 else 1)[tile % 4]
        heads = [i for i in range(k) if (i // distance) % 2 == 0 and i + distance < k]
        tails = [i + distance for i in heads]
        a[tile][:, tails] = a[tile][:, heads] ^ codes(np.array([1 << (formats[0].bits - 1)], np.uint64), formats[0])
        nudge = stream.below(2, (len(heads), b.shape[2])).astype(np.uint64) * step
        b[tile][tails] = b[tile][heads] ^ codes(nudge, formats[1])
    c = build(stream, formats[2], stream.between(-16, 2, shapes[2]))
    product = -to_float(a[:, :, 0], formats[0])[:, :, None] * to_float(b[:, 0, :], formats[1])[:, None, :]
    c[1::2] = from_float(product, formats[2])[1::2]
    return a, b, c


def _infinities(stream: Stream, formats: tuple[Format, ...], result: Format, shapes: Shapes) -> Arrays:
    """Few enough infinities and NaNs that most results are decided by one of them."""
    a, b, c = (draw(stream, fmt, "near_one", s) for fmt, s in zip(formats, shapes, strict=True))
    rate = 8 * shapes[0][2]
    zeros = stream.chance(8, shapes[1])
    b = np.where(zeros, signed_zero(stream, formats[1], shapes[1]), b)
    return (
        with_specials(stream, formats[0], a, rate),
        with_specials(stream, formats[1], b, rate),
        with_specials(stream, formats[2], c, 16),
    )


def _tiny(stream: Stream, formats: tuple[Format, ...], result: Format, shapes: Shapes) -> Arrays:
    """Products around the lowest exponents that the result can hold (the floor of rule R4), or the lowest there are."""
    bottom = result.emin - result.fraction_bits
    half = max((bottom - 4) // 2, formats[0].emin - 1)
    out = [
        build(stream, fmt, np.maximum(half + stream.between(-4, 6, s), fmt.emin - 1))
        for fmt, s in zip(formats[:2], shapes[:2], strict=True)
    ]
    c = np.where(
        stream.chance(2, shapes[2]),
        draw(stream, formats[2], "subnormal", shapes[2]),
        draw(stream, formats[2], "tiny", shapes[2]),
    )
    return out[0], out[1], np.where(stream.chance(4, shapes[2]), signed_zero(stream, formats[2], shapes[2]), c)


def empty(fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Codes of +0."""
    return np.zeros(shape, DTYPES[fmt.bits])


def power(fmt: Format, exponent: np.ndarray, factor: np.ndarray | int = 1) -> np.ndarray:
    """Codes of factor * 2^exponent; the factor has at most the format's significant bits and the value fits."""
    return from_float(np.ldexp(np.asarray(factor, np.float64), exponent), fmt)


def _halves(fmt: Format, exponent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two exponents that the format holds and that add up to this one."""
    first = np.clip(exponent // 2, fmt.emin - fmt.fraction_bits, fmt.bias)
    return first, exponent - first


def _matrix_ties(stream: Stream, formats: tuple[Format, ...], result: Format, shapes: Shapes) -> Arrays:
    """An addend, a product of half its last place (a tie), and a product far below that decides the tie."""
    count, m, k = shapes[0]
    n = shapes[2][2]
    low = max(result.emin, 2 * formats[0].emin + result.fraction_bits + 4)
    exponent = stream.between(low, min(result.bias, 2 * formats[0].bias) - 1, (count, 1, 1))
    a, b = empty(formats[0], shapes[0]), empty(formats[1], shapes[1])
    below = exponent - result.fraction_bits - 1
    far = np.maximum(exponent - stream.between(22, 27, (count, 1, n)), 2 * (formats[0].emin - formats[0].fraction_bits))
    place = np.arange(count) % (k // 2)
    for at, height in ((place, np.broadcast_to(below, far.shape)), (place + k // 2 * (np.arange(count) % 2), far)):
        left, _ = _halves(formats[0], height[:, :, :1])
        at = np.where((at == place) & (height is far), (at + 1) % k, at)
        sign = np.where(stream.chance(2, (count, m)), -1, 1)
        for tile in range(count):
            a[tile, :, at[tile]] = power(formats[0], np.broadcast_to(left[tile, 0], (m,)), sign[tile])
            b[tile, at[tile]] = power(formats[1], height[tile, 0] - left[tile, 0])
    return a, b, build(stream, formats[2], np.broadcast_to(exponent, shapes[2]))


def _floor(stream: Stream, formats: tuple[Format, ...], result: Format, shapes: Shapes) -> Arrays:
    """Sums that reach the smallest result (f16: pass its half) only where terms far below it are kept.

    A block of 4, 8 or 16 products holds small terms 2^x and one or two large ones that leave just their sum missing; x
    runs through the lowest places of a group for 23 to 26 fraction bits, whatever the card.
    """
    count, m, k = shapes[0]
    a, b = empty(formats[0], shapes[0]), empty(formats[1], shapes[1])
    half = result.fraction_bits == 10
    edge = result.emin - result.fraction_bits - half
    lowest = 2 * (formats[0].emin - formats[0].fraction_bits)
    low, high = (edge - 24, edge - 15) if half else (edge - 14, edge - 1)
    for tile in range(count):
        width = min(k, (4, 8, 16)[tile % 3])
        start = width * int(stream.below(k // width, (1,))[0])
        x = max(low + tile % (high - low + 1), lowest)
        missing = (1 << (edge - x)) - (0 if half else width - 2)
        # the large part in two factors of at most seven bits (an f16 sum passes its tie with any small term at all)
        large = [missing, 0] if half else [missing >> 7 << 7, missing & 127]
        for offset in range(width):
            factor = large[offset] if offset < 2 else 1
            zeros = (factor & -factor).bit_length() - 1 if factor else 0
            # each term in two halves: a subnormal factor would raise the exponent of the large product
            first, second = (int(e) for e in _halves(formats[0], np.array(x + zeros)))
            a[tile, :, start + offset] = power(formats[0], np.array(first))
            sign = -1 if tile % 5 == 4 else 1
            b[tile, start + offset] = power(formats[1], np.array(second), sign * (factor >> zeros))
    c = np.where(
        stream.chance(4, shapes[2]),
        signed_zero(stream, formats[2], shapes[2]),
        codes(np.zeros(shapes[2], np.uint64), formats[2]),
    )
    return a, b, c
