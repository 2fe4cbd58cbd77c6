"""Hard operands for every row, as columns of codes: where wrong models part from right ones.

Classes of float operands: raw bits, special values, near one, sparse significands (exact ties), the smallest exponents,
the largest ones, magnitudes that occur in practice, one give or take a little; and operands made for each other:
cancellation, equal ones, zeros of both signs, ties of a conversion, integers and a half. Seeds are fixed, so a failure
repeats.
"""

from __future__ import annotations

import numpy as np
from phobos_sim import formats
from phobos_sim.formats import F32, FORMATS, Format
from phobos_sim.isa import Instruction

CLASSES = 8


def column(rng: np.random.Generator, fmt: Format, count: int) -> np.ndarray:
    """Codes of one operand, the classes mixed."""
    raw = rng.integers(0, 1 << 63, count, dtype=np.uint64) << np.uint64(1) | rng.integers(0, 2, count, dtype=np.uint64)
    special = rng.choice(np.array(formats.special_values(fmt), np.uint64), count)
    if not fmt.is_float:
        small = (rng.integers(-5, 6, count)).astype(np.uint64)
        return _trim(np.choose(rng.integers(0, 3, count), [raw, special, small]), fmt)
    fraction = raw & np.uint64((1 << fmt.fraction_bits) - 1)
    cleared = rng.integers(0, fmt.fraction_bits, count).astype(np.uint64)
    sparse = fraction >> cleared << cleared  # products and sums of short significands hit exact ties
    sign = (raw >> np.uint64(63)) << np.uint64(fmt.bits - 1)
    near = rng.integers(fmt.bias - 3, fmt.bias + 4, count)
    low = rng.integers(0, 3, count)
    high = rng.integers((1 << fmt.exponent_bits) - 4, (1 << fmt.exponent_bits) - 1, count)
    floats = [
        raw,
        special,
        sign | _place(near, fraction, fmt),
        sign | _place(near, sparse, fmt),
        sign | _place(low, fraction, fmt),
        sign | _place(high, fraction, fmt),
        sign | _place(rng.integers(fmt.bias - 12, fmt.bias + 9, count), fraction, fmt),
        sign | _place(fmt.bias - (raw & np.uint64(1)), fraction >> cleared, fmt),
    ]
    return _trim(np.choose(rng.integers(0, CLASSES, count), floats), fmt)


def _place(exponent: np.ndarray, fraction: np.ndarray, fmt: Format) -> np.ndarray:
    return ((exponent.astype(np.uint64) << np.uint64(fmt.fraction_bits)) | fraction) << np.uint64(fmt.ignored_bits)


def _trim(codes: np.ndarray, fmt: Format) -> np.ndarray:
    if fmt.bits == 1:
        return (codes & np.uint64(1)).astype(np.bool_)
    return codes.astype(fmt.dtype)


def columns(instruction: Instruction, count: int = 0, seed: int = 1) -> list[np.ndarray]:
    """Operand columns of an elementwise row, 800 or (MUFU) 2,500 rows; `*` operands are f32 here."""
    count = count or (2500 if instruction.family == "mufu" else 800)
    rng = np.random.default_rng([seed, *instruction.key.encode()])
    out = [column(rng, fmt or F32, count) for fmt in instruction.operands]
    first = instruction.operands[0]
    third = slice(0, count // 3)
    if len(out) >= 2 and first is not None and first.is_float and first == instruction.operands[1]:
        _relate(rng, out, first, third)
    if instruction.family == "convert" and first is not None and first.is_float:
        out[0][third] = _conversion_ties(rng, instruction, first, count // 3)
    if instruction.keywords.get("target") == "bf16" and instruction.function == "i2f" and out[0].dtype.itemsize > 1:
        out[0][third] = _double_ties(rng, count // 3).astype(out[0].dtype)
    if instruction.keywords.get("ftz") and len(out) > 1:
        _near_smallest_normal(rng, out)
    if instruction.family in ("mufu", "sequences") and first == F32:
        out[0][third] = _from_float(rng.uniform(-160, 140, count // 3), F32)  # arguments of exponentials
    return out


def _double_ties(rng: np.random.Generator, count: int) -> np.ndarray:
    """Integers of 31 bits that are ties of bf16, but for lowest bits that an f32 drops."""
    head = rng.integers(128, 256, count).astype(np.uint64) << np.uint64(23)
    return head | np.uint64(1 << 22) | rng.integers(0, 3, count).astype(np.uint64)


def _near_smallest_normal(rng: np.random.Generator, out: list[np.ndarray]) -> None:
    """f32 factors whose product is 2^-126 give or take a few units of its last places; a zero addend."""
    part = slice(-(len(out[0]) // 4), None)
    x = rng.random(len(out[0][part]))
    out[0][part] = (2.0**-126 * (1 + x)).astype(np.float32).view(np.uint32)
    out[1][part] = (1 / (1 + x)).astype(np.float32).view(np.uint32)
    for codes in out[2:]:
        codes[part] = 0


def _relate(rng: np.random.Generator, out: list[np.ndarray], fmt: Format, part: slice) -> None:
    """Cancellation: b near -a; c near -(a * b), with b near one; equal operands, zeros of both signs."""
    count = len(out[0][part])
    nudge = rng.integers(-2, 3, count).astype(out[0].dtype)
    flip = np.array(fmt.sign_bit, out[0].dtype)
    if len(out) == 2:
        sign = np.where(rng.integers(0, 2, count) == 1, flip, np.array(0, flip.dtype))
        out[1][part] = (out[0][part] ^ sign) + nudge
        zeros, nans = rng.integers(0, 8, count) == 0, rng.integers(0, 16, count) == 0
        for codes in out:
            codes[part][zeros] &= flip
            codes[part][nans] |= np.array(fmt.infinity | 1 << fmt.ignored_bits, flip.dtype)
    else:
        one = np.array(fmt.bias << (fmt.fraction_bits + fmt.ignored_bits), out[0].dtype)
        out[1][part] = one + nudge
        out[2][part] = (out[0][part] ^ flip) + rng.integers(-3, 4, count).astype(out[0].dtype)


def _conversion_ties(rng: np.random.Generator, instruction: Instruction, source: Format, count: int) -> np.ndarray:
    """Values halfway between two neighbours of the target, and their neighbours in the source."""
    target = FORMATS[str(instruction.keywords.get("target", "tf32"))]
    nudge = rng.integers(-1, 2, count).astype(source.dtype)
    if target.is_float:
        drop = source.fraction_bits - target.fraction_bits
        codes = column(rng, source, count)
        lowest = max(target.emin - target.fraction_bits, source.emin)  # where the target's subnormals lie
        exponent = rng.integers(lowest, max(target.emin + 2, lowest + 1), count) + source.bias
        fraction = column(rng, source, count).astype(np.uint64) & np.uint64((1 << source.fraction_bits) - 1)
        codes = np.where(rng.integers(0, 2, count) == 1, codes, _trim(_place(exponent, fraction, source), source))
        if drop > 0:
            mask = np.array(~((1 << drop) - 1) & ((1 << source.bits) - 1), source.dtype)
            codes = (codes & mask) | np.array(1 << (drop - 1), source.dtype)
        return codes + nudge
    halves = rng.integers(-1200, 1200, count) / 2
    scale = np.where(rng.random(count) < 0.5, 1.0, 2.0 ** rng.integers(0, 63, count))
    return _from_float(halves * scale, source) + nudge


def _from_float(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Input making only: float64 values as codes of a format, by cutting bits."""
    bits = values.astype(np.float64).view(np.uint64)
    if fmt.bits == 64:
        return bits
    single = values.astype(np.float32).view(np.uint32)
    if fmt.name == "f32":
        return single
    if fmt.name == "bf16":
        return (single >> np.uint32(16)).astype(np.uint16)
    with np.errstate(over="ignore"):
        return values.astype(np.float16).view(np.uint16)
