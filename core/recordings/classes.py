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

import numpy as np

from ..formats import BF16, F16, Format

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
        return np.asarray(self.below(one_in, shape) == 0)


def codes(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Integers -> codes of the format's storage dtype (low bits kept)."""
    return (np.asarray(values).astype(np.uint64) & np.uint64((1 << fmt.bits) - 1)).astype(DTYPES[fmt.bits])


def build(stream: Stream, fmt: Format, exponents: np.ndarray, fraction: np.ndarray | None = None) -> np.ndarray:
    """Floats with random signs, these exponents (clipped to the format; emin - 1 is subnormal) and fractions."""
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
        values = {
            0,
            1,
            2,
            3,
            7,
            8,
            fmt.bits - 1,
            fmt.bits,
            64,
            top - 1,
            top,
            top + 1,
            2 * top - 1,
            2 * top - 2,
            top // 2,
            2 * top - 7,
            2 * top - 8,
            100 % (2 * top),
        }
        return codes(np.array(sorted(v % (2 * top) for v in values), np.uint64), fmt)
    fraction = fmt.fraction_bits
    one, infinity = fmt.bias << fraction, ((1 << fmt.exponent_bits) - 1) << fraction
    quiet = 1 << (fraction - 1)
    positive = [
        0,
        1,
        2,
        (1 << fraction) - 1,
        1 << fraction,
        (1 << fraction) + 1,
        one - 1,
        one,
        one + 1,
        one - (1 << fraction),
        one + quiet,
        one + (1 << fraction),
        one + (1 << fraction) + quiet // 2,
        infinity - 1,
        infinity - (1 << fraction),
        infinity,
        infinity + 1,
        infinity + quiet,
        infinity + quiet + 5,
        infinity + (1 << fraction) - 1,
    ]
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
