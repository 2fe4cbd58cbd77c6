"""Input classes: which codes an instruction is recorded on, reproducible bit for bit.

Rules
 1. design.md 8: raw random bits; finite whole range; near one; subnormals; zeros beside huge factors; cancellation;
    sparse; infinities; huge; tiny. Scalar rows add: every pair of special values; integers and halves; ties of each
    narrower format; arguments of the transcendental functions; quotients next to a rounding point.
 2. One-operand rows of 8- and 16-bit formats are recorded exhaustively.
 3. Everything is drawn from numpy's Philox counter generator through its raw 64-bit stream (which numpy promises not
    to change), keyed by the seed and the name of what is drawn: a class never depends on what was drawn before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from ..formats import BF16, F16, F32, Format

MATRIX_CLASSES = (
    "raw",
    "finite",
    "near_one",
    "subnormal",
    "zeros_huge",
    "cancellation",
    "sparse",
    "infinities",
    "huge",
    "tiny",
)


DTYPES = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Stream:
    """Deterministic random bits for one (seed, label)."""

    def __init__(self, seed: int, *label: object) -> None:
        digest = hashlib.sha256(":".join(map(str, (seed, *label))).encode()).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest[:16], "little"))

    def bits(self, shape: tuple[int, ...]) -> np.ndarray:
        """uint64, all bits random."""
        count = int(np.prod(shape))
        return self._philox.random_raw(count).reshape(shape) if count else np.zeros(shape, np.uint64)

    def below(self, limit: int, shape: tuple[int, ...]) -> np.ndarray:
        """int64 in [0, limit)."""
        return ((self.bits(shape) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(np.int64)

    def between(self, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """int64 in [low, high]."""
        return self.below(high - low + 1, shape) + low

    def chance(self, one_in: int, shape: tuple[int, ...]) -> np.ndarray:
        """True once in `one_in`."""
        return self.below(one_in, shape) == 0


def codes(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Integers -> codes of the format's storage dtype (low bits kept)."""
    return (np.asarray(values).astype(np.uint64) & np.uint64((1 << fmt.bits) - 1)).astype(DTYPES[fmt.bits])


def build(stream: Stream, fmt: Format, exponents: np.ndarray, fraction: np.ndarray | None = None) -> np.ndarray:
    """Floats with random signs, these unbiased exponents (clipped to the format; emin - 1 is subnormal) and fractions."""
    biased = np.clip(exponents + fmt.bias, 0, 2 * fmt.bias).astype(np.uint64)
    bits = stream.bits(exponents.shape)
    kept = bits & np.uint64((1 << fmt.fraction_bits) - 1) if fraction is None else fraction.astype(np.uint64)
    sign = bits >> np.uint64(63)
    packed = ((sign << np.uint64(fmt.exponent_bits)) | biased) << np.uint64(fmt.fraction_bits) | kept
    return codes(packed << np.uint64(fmt.ignored_bits), fmt)


def specials(fmt: Format) -> np.ndarray:
    """Values at which something changes: zeros, ends of each range, one and its neighbours, infinities, NaNs."""
    if not fmt.is_float:
        top = 1 << (fmt.bits - 1)
        values = {0, 1, 2, 3, 7, 8, fmt.bits - 1, fmt.bits, 64, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, top // 2,
                  2 * top - 7, 2 * top - 8, 100 % (2 * top)}  # fmt: skip
        return codes(np.array(sorted(v % (2 * top) for v in values), np.uint64), fmt)
    fraction = fmt.fraction_bits
    one, infinity = fmt.bias << fraction, ((1 << fmt.exponent_bits) - 1) << fraction
    quiet = 1 << (fraction - 1)
    positive = [0, 1, 2, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1, one - 1, one, one + 1, one - (1 << fraction),
                one + quiet, one + (1 << fraction), one + (1 << fraction) + quiet // 2, infinity - 1, infinity - (1 << fraction),
                infinity, infinity + 1, infinity + quiet, infinity + quiet + 5, infinity + (1 << fraction) - 1]  # fmt: skip
    signed = [*positive, *(value | 1 << (fmt.exponent_bits + fraction) for value in positive)]
    shifted = [value << fmt.ignored_bits for value in signed]
    if fmt.ignored_bits:  # a NaN, an infinity and a zero that only ignored bits tell apart
        shifted += [(infinity << fmt.ignored_bits) + 1, (1 << fmt.ignored_bits) - 1]
    return codes(np.array(shifted, np.uint64), fmt)


def draw(stream: Stream, fmt: Format, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Codes of one class, every element for itself."""
    if name == "raw" or not fmt.is_float:
        return codes(stream.bits(shape), fmt)
    low, high = fmt.emin, fmt.bias  # exponents of the smallest normal and of the largest finite
    if name == "finite":
        return build(stream, fmt, stream.between(low - 1, high, shape))
    if name == "near_one":
        return build(stream, fmt, stream.between(-2, 1, shape))
    if name == "subnormal":
        return build(stream, fmt, np.full(shape, low - 1))
    if name == "sparse":
        return np.where(
            stream.below(8, shape) < 7, signed_zero(stream, fmt, shape), draw(stream, fmt, "near_one", shape)
        )
    if name == "infinities":
        return with_specials(stream, fmt, draw(stream, fmt, "finite", shape), 8)
    if name == "huge":
        return build(stream, fmt, stream.between(high - 2, high, shape))
    if name == "tiny":
        return build(stream, fmt, stream.between(low - 1, low + 3, shape))
    raise AssertionError(name)


def signed_zero(stream: Stream, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    return codes((stream.bits(shape) & np.uint64(1)) << np.uint64(fmt.bits - 1), fmt)


def with_specials(stream: Stream, fmt: Format, values: np.ndarray, one_in: int) -> np.ndarray:
    """Some elements replaced by infinities and NaNs of both signs."""
    quiet = np.uint64(1 << (fmt.fraction_bits + fmt.ignored_bits - 1))
    bits = stream.bits(values.shape)
    sign = (bits & np.uint64(1)) << np.uint64(fmt.bits - 1)
    payload = np.where(
        bits & np.uint64(14) == 0, quiet | (bits >> np.uint64(70 - fmt.bits if fmt.bits > 8 else 60)) % quiet, 0
    )
    value = codes(sign | np.uint64(fmt.infinity) | payload.astype(np.uint64), fmt)
    return np.where(stream.chance(one_in, values.shape), value, values)


def to_float(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Codes -> float64 (exact for all but NaN payloads)."""
    if fmt.bits == 64:
        return values.view(np.float64)
    if fmt is F16:
        return values.view(np.float16).astype(np.float64)
    wide = values.astype(np.uint32) << np.uint32(16) if fmt is BF16 else values.astype(np.uint32)
    if fmt.ignored_bits:
        wide = wide & np.uint32(0xFFFFFFFF << fmt.ignored_bits & 0xFFFFFFFF)
    return wide.view(np.float32).astype(np.float64)


def from_float(values: np.ndarray, fmt: Format) -> np.ndarray:
    """float64 -> codes near it (bf16 and tf32 truncate: inputs only need to be near)."""
    with np.errstate(all="ignore"):
        if fmt.bits == 64:
            return values.astype(np.float64).view(np.uint64)
        if fmt is F16:
            return values.astype(np.float16).view(np.uint16)
        wide = values.astype(np.float32).view(np.uint32)
    return (wide >> np.uint32(16)).astype(np.uint16) if fmt is BF16 else wide


# --- matrix tiles ----------------------------------------------------------------------------------------------------


def matrix_tiles(seed: int, label: str, formats: tuple[Format, ...], result: Format, shape: tuple[int, int, int], name: str,
                 count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """a [count, m, k], b [count, k, n], c [count, m, n] of one class for one matrix instruction."""
    stream = Stream(seed, label, name)
    m, n, k = shape
    a_fmt, b_fmt, c_fmt = formats
    shapes = ((count, m, k), (count, k, n), (count, m, n))
    if not a_fmt.is_float:
        return _integer_tiles(stream, formats, shapes)
    special: dict[str, Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]] = {
        "finite": _windowed, "subnormal": _subnormal, "zeros_huge": _zeros_huge, "cancellation": _cancellation,
        "infinities": _infinities, "tiny": _tiny, "ties": _matrix_ties, "floor": _floor,
    }  # fmt: skip
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


def _integer_tiles(stream: Stream, formats: tuple[Format, ...], shapes: tuple[tuple[int, ...], ...]):  # type: ignore[no-untyped-def]
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


def _windowed(stream, formats, result, shapes):  # type: ignore[no-untyped-def]
    """Whole range; every second tile within a window of binades, so that many terms overlap."""
    out = [draw(stream, fmt, "finite", s) for fmt, s in zip(formats, shapes, strict=True)]
    count = shapes[0][0]
    centres = []
    for index, (fmt, s) in enumerate(zip(formats[:2], shapes[:2], strict=True)):
        centre = stream.between(fmt.emin, fmt.bias - 1, (count, 1, 1))
        # the second factor brings the product back into the result's range where it can
        centre = (
            centre
            if index == 0
            else np.clip(stream.between(-40, 40, (count, 1, 1)) - centres[0], fmt.emin, fmt.bias - 1)
        )
        centres.append(centre)
        out[index][1::2] = build(stream, fmt, centre + stream.between(-7, 7, s))[1::2]
    out[2][1::2] = build(stream, formats[2], centres[0] + centres[1] + stream.between(-14, 14, shapes[2]))[1::2]
    return tuple(out)


def _subnormal(stream, formats, result, shapes):  # type: ignore[no-untyped-def]
    """Subnormal factors with subnormal, near-one or huge partners; every second addend subnormal or zero."""
    a, b, c = (draw(stream, fmt, "subnormal", s) for fmt, s in zip(formats, shapes, strict=True))
    partner = np.arange(shapes[1][0])[:, None, None] % 3
    b = np.where(partner == 1, draw(stream, formats[1], "near_one", shapes[1]), b)
    b = np.where(partner == 2, draw(stream, formats[1], "huge", shapes[1]), b)
    c = np.where(stream.chance(4, shapes[2]), draw(stream, formats[2], "tiny", shapes[2]), c)
    a[:, 1] = signed_zero(stream, formats[0], a[:, 1].shape)  # a row whose addends pass alone
    return a, b, np.where(stream.chance(4, shapes[2]), signed_zero(stream, formats[2], shapes[2]), c)


def _zeros_huge(stream, formats, result, shapes):  # type: ignore[no-untyped-def]
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


def _cancellation(stream, formats, result, shapes):  # type: ignore[no-untyped-def]
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


def _infinities(stream, formats, result, shapes):  # type: ignore[no-untyped-def]
    """Few enough infinities and NaNs that most results are decided by one of them."""
    a, b, c = (draw(stream, fmt, "near_one", s) for fmt, s in zip(formats, shapes, strict=True))
    rate = 8 * shapes[0][2]
    zeros = stream.chance(8, shapes[1])
    b = np.where(zeros, signed_zero(stream, formats[1], shapes[1]), b)
    return (with_specials(stream, formats[0], a, rate), with_specials(stream, formats[1], b, rate),
            with_specials(stream, formats[2], c, 16))  # fmt: skip


def _tiny(stream, formats, result, shapes):  # type: ignore[no-untyped-def]
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


def power(fmt: Format, exponent: np.ndarray, factor: np.ndarray | int = 1) -> np.ndarray:
    """Codes of factor * 2^exponent; the factor has at most the format's significant bits and the value fits."""
    return from_float(np.ldexp(np.asarray(factor, np.float64), exponent), fmt)


def _halves(fmt: Format, exponent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two exponents that the format holds and that add up to this one."""
    first = np.clip(exponent // 2, fmt.emin - fmt.fraction_bits, fmt.bias)
    return first, exponent - first


def _matrix_ties(stream, formats, result, shapes):  # type: ignore[no-untyped-def]
    """An addend, a product of half its last place (a tie), and a product far below that decides the tie."""
    count, m, k = shapes[0]
    n = shapes[2][2]
    low = max(result.emin, 2 * formats[0].emin + result.fraction_bits + 4)
    exponent = stream.between(low, min(result.bias, 2 * formats[0].bias) - 1, (count, 1, 1))
    a, b = np.zeros(shapes[0], DTYPES[formats[0].bits]), np.zeros(shapes[1], DTYPES[formats[1].bits])
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


def _floor(stream, formats, result, shapes):  # type: ignore[no-untyped-def]
    """Sums that reach the smallest result (f16: pass its half) only where terms far below it are kept.

    A block of 4, 8 or 16 products holds small terms 2^x and one or two large ones that leave just their sum missing; x
    runs through the lowest places of a group for 23 to 26 fraction bits, whatever the card.
    """
    count, m, k = shapes[0]
    a, b = np.zeros(shapes[0], DTYPES[formats[0].bits]), np.zeros(shapes[1], DTYPES[formats[1].bits])
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


# --- scalar operands -------------------------------------------------------------------------------------------------


def scalar_inputs(seed: int, formats: tuple[Format, ...], count: int) -> tuple[list[np.ndarray], list[tuple[str, int]]]:
    """Operand codes for one signature and the classes they come in, as (name, how many), in order.

    count: results per class; a class of special values has as many as it has.
    """
    label = " ".join(fmt.name for fmt in formats)
    if len(formats) == 1 and formats[0].bits <= 16:
        return [np.arange(1 << formats[0].bits).astype(DTYPES[formats[0].bits])], [("exhaustive", 1 << formats[0].bits)]
    if formats[0].name == "pred":
        if all(fmt.name == "pred" for fmt in formats):
            table = np.arange(1 << len(formats))
            return [(table >> i & 1).astype(np.bool_) for i in range(len(formats))], [("exhaustive", len(table))]
        stream = Stream(seed, label)
        return [codes(stream.bits((count,)), fmt) for fmt in formats], [("raw", count)]
    parts: list[tuple[str, list[np.ndarray]]] = []
    for name in _scalar_classes(formats):
        stream = Stream(seed, label, name)
        parts.append((name, _scalar_class(stream, formats, name, count)))
    columns = [np.concatenate([part[i] for _, part in parts]) for i in range(len(formats))]
    return columns, [(name, len(part[0])) for name, part in parts]


def _scalar_classes(formats: tuple[Format, ...]) -> tuple[str, ...]:
    if not formats[0].is_float:
        return ("raw", "small", "specials", "shifts") if len(formats) == 2 else ("raw", "small", "powers", "specials")
    common = ("raw", "finite", "near_one", "subnormal", "infinities", "huge", "tiny", "specials")
    if len(formats) == 1:
        return (*common, "arguments", "integers", "ties")
    return (*common, "zeros_huge", "cancellation", *(("quotients",) if len(formats) == 2 else ()))


def _scalar_class(stream: Stream, formats: tuple[Format, ...], name: str, count: int) -> list[np.ndarray]:
    shape = (count,)
    fmt = formats[0]
    if name == "specials":
        return _special_tuples(stream, formats)
    if not fmt.is_float:
        return [
            _integers(stream, f, name if i == 0 or name != "shifts" else "counts", shape) for i, f in enumerate(formats)
        ]
    if name == "arguments":
        return [build(stream, fmt, stream.between(-30, 7, shape))]
    if name == "integers":
        return [_near_integers(stream, fmt, shape)]
    if name == "ties":
        return [_ties(stream, fmt, shape)]
    if name == "zeros_huge":
        zero = stream.below(len(formats), shape)
        return [
            np.where(zero == i, signed_zero(stream, f, shape), draw(stream, f, "huge", shape))
            for i, f in enumerate(formats)
        ]
    if name == "finite" and len(formats) > 1:
        first = stream.between(fmt.emin - 1, fmt.bias, shape)
        span = fmt.fraction_bits + 3
        second = first + stream.between(-span, span, shape) if len(formats) == 2 else stream.between(-span, span, shape)
        third = first + second + stream.between(-span, span, shape)
        return [build(stream, f, e) for f, e in zip(formats, (first, second, third), strict=False)]
    if name == "subnormal" and len(formats) > 1:
        mixed = [draw(stream, f, "subnormal", shape) for f in formats]
        partner = build(stream, formats[1], stream.between(-3, fmt.fraction_bits, shape))
        mixed[1] = np.where(stream.chance(2, shape), partner, mixed[1])
        return mixed
    if name in ("cancellation", "quotients"):
        return _near_rounding(stream, formats, name, shape)
    return [draw(stream, f, name, shape) for f in formats]


def _special_tuples(stream: Stream, formats: tuple[Format, ...]) -> list[np.ndarray]:
    """Every pair of special values; for three operands a sample of the triples."""
    lists = [specials(f) for f in formats]
    if len(lists) <= 2:
        return [grid.ravel().copy() for grid in np.meshgrid(*lists, indexing="ij")]
    return [values[stream.below(len(values), (1600,))] for values in lists]


def _integers(stream: Stream, fmt: Format, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name == "small":
        return codes(stream.between(-9, 9, shape), fmt)
    if name == "counts":
        return codes(stream.between(-2, fmt.bits + 2, shape), fmt)
    if name == "powers":  # powers of two, their neighbours and ties of the float formats
        power = np.uint64(1) << stream.below(fmt.bits, shape).astype(np.uint64)
        fraction = power >> stream.between(1, 26, shape).astype(np.uint64)
        return codes(power + fraction + stream.between(-1, 1, shape).astype(np.uint64), fmt)
    return codes(stream.bits(shape), fmt)


def _near_integers(stream: Stream, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """k, k + 1/4, k + 1/2, k + 3/4 and their neighbours, k up to the ends of the integer types."""
    power = stream.below(33, shape)
    whole = np.ldexp(1.0, power) - stream.below(4, shape) + stream.below(4, shape) / 4.0
    near = from_float(np.where(stream.chance(2, shape), -whole, whole), fmt)
    return codes(near.astype(np.uint64) + stream.between(-1, 1, shape).astype(np.uint64), fmt)


def _ties(stream: Stream, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Halfway between neighbours of f16, bf16, tf32 (and f32), or one unit beside, through subnormals and overflow."""
    targets = [(10, -14, 15), (7, -126, 127), (10, -126, 127)] + ([(23, -126, 127)] if fmt.bits == 64 else [])
    which = stream.below(len(targets), shape)
    kept, low, high = (np.array([t[i] for t in targets])[which] for i in range(3))
    exponent = stream.between(-14, 16, shape)
    wide = low + (stream.bits(shape) >> np.uint64(40)).astype(np.int64) % (high - low + 1)
    exponent = np.where(stream.chance(2, shape), wide, np.minimum(exponent, high))
    # below the target's smallest normal fewer bits are kept
    exponent = np.where(stream.chance(5, shape), low - 1 - stream.below(11, shape), exponent)
    kept = np.maximum(kept - np.maximum(low - exponent, 0), 0)
    dropped = (fmt.fraction_bits - kept).astype(np.uint64)
    head = (stream.bits(shape) & np.uint64((1 << fmt.fraction_bits) - 1)) >> dropped << dropped
    head = np.where(stream.chance(8, shape), np.uint64((1 << fmt.fraction_bits) - 1) >> dropped << dropped, head)
    half = np.uint64(1) << (dropped - np.uint64(1))
    values = build(stream, fmt, exponent, head | half).astype(np.uint64)
    return codes(values + stream.between(-1, 1, shape).astype(np.uint64), fmt)


def _near_rounding(stream: Stream, formats: tuple[Format, ...], name: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """b = -a, or c = -a*b, or a = b*q, each up to an ulp or two: what is left is decided by the last bits."""
    fmt = formats[0]
    nudge = stream.between(-2, 2, shape).astype(np.uint64)
    window = (fmt.bias - 2) // 2
    a, b = (build(stream, fmt, stream.between(-window, window, shape)) for _ in range(2))
    flip = np.uint64(1 << (fmt.bits - 1))
    with np.errstate(all="ignore"):
        product = from_float(to_float(a, fmt) * to_float(b, fmt), fmt)
    if name == "quotients":
        return [codes(product.astype(np.uint64) + nudge, fmt), b]
    if len(formats) == 2:
        return [a, codes((a.astype(np.uint64) + nudge) ^ flip, fmt)]
    return [a, b, codes((product.astype(np.uint64) + nudge) ^ flip, formats[2])]
