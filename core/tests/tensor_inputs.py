"""Operands of matrix instructions by class, and batches that pair every class with every other.

A class is a range of exponents and what is done to the fractions; specials and zeros are sprinkled over it. Tiles are
small, so a test covers all pairs of classes at little cost. `lined_up` makes operands for each other: sums around the
floor, ties, and terms that end just above or just below the last bit kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from phobos_sim.formats import Codes, Format
from phobos_sim.gpu.sm86 import tensor_float
from phobos_sim.isa import Arch, Instruction


@dataclass(frozen=True)
class Class:
    """Exponent fields as offsets: low and high from the bias, from zero (`end = 0`) or from the top (`end = 1`)."""

    name: str
    low: int
    high: int
    end: float = 0.5
    zeros: float = 0.0
    specials: float = 0.0
    ones: bool = False


CLASSES = (
    Class("near one", -3, 3),
    Class("full fractions, one sign", -1, 1, ones=True),
    Class("subnormal", 0, 2, end=0),
    Class("largest", -3, -1, end=1),
    Class("whole range", -10_000, 10_000),
    Class("zeros beside huge", -10_000, 10_000, zeros=0.6),
    Class("moderate, with zeros", -30, 30, zeros=0.2),
    Class("infinities and NaN", -6, 6, specials=0.06, zeros=0.2),
)


def codes(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...], kind: Class) -> Codes:
    """Codes of one class; ignored low bits are random."""
    top = (1 << fmt.exponent_bits) - 1
    base = {0: 0, 1: top}.get(kind.end, fmt.bias)
    low, high = (min(max(base + offset, 0), top - 1) for offset in (kind.low, kind.high))
    fraction = rng.integers(0, 1 << fmt.fraction_bits, shape)
    if kind.ones:
        fraction = np.full(shape, (1 << fmt.fraction_bits) - 1)
    words = rng.integers(low, high + 1, shape) << fmt.fraction_bits | fraction
    draw = rng.random(shape)
    words = np.where(draw < kind.zeros, 0, words)
    infinity = top << fmt.fraction_bits
    words = np.where(draw > 1 - kind.specials, infinity, words)
    words = np.where(draw > 1 - kind.specials / 4, infinity + rng.integers(1, 1 << fmt.fraction_bits, shape), words)
    if not kind.ones:
        words |= rng.integers(0, 2, shape) << (fmt.exponent_bits + fmt.fraction_bits)
    words = words << fmt.ignored_bits | rng.integers(0, 1 << fmt.ignored_bits, shape)
    return words.astype(fmt.dtype)


def batch(instruction: Instruction, seed: int, k: int, tile: int = 4) -> tuple[Codes, Codes, Codes]:
    """a [t, tile, k], b [t, k, tile], c [t, tile, tile]: every pair of operand classes, each addend class in turn."""
    rng = np.random.default_rng([seed, *instruction.key.encode()])
    left, right, addend = instruction.operands
    assert left is not None and right is not None and addend is not None
    parts: list[tuple[Codes, Codes, Codes]] = []
    for i, x in enumerate(CLASSES):
        for j, y in enumerate(CLASSES):
            z = CLASSES[(i + j + seed) % len(CLASSES)]
            shapes = ((1, tile, k), (1, k, tile), (1, tile, tile))
            parts.append(tuple(codes(rng, f, s, c) for f, s, c in zip((left, right, addend), shapes, (x, y, z))))  # type: ignore[arg-type]
    a, b, c = (np.concatenate(column) for column in zip(*parts))
    return a, b, c


def plain_batch(instruction: Instruction, seed: int, k: int, tile: int = 4) -> tuple[Codes, Codes, Codes]:
    """As `batch`, with operands that the fastest core may have; addends of every class."""
    rng = np.random.default_rng([seed, 7, *instruction.key.encode()])
    left, right, addend = instruction.operands
    assert left is not None and right is not None and addend is not None
    reach = 100 if left.bits == 16 and left.exponent_bits == 5 else 42
    kinds = [Class("", -w, w, zeros=zeros) for w in (2, 14, reach) for zeros in (0.0, 0.3, 0.95)]
    parts: list[tuple[Codes, Codes, Codes]] = []
    for x in kinds:
        for z in CLASSES:
            y = kinds[int(rng.integers(len(kinds)))]
            a, b = codes(rng, left, (1, tile, k), x), codes(rng, right, (1, k, tile), y)
            parts.append((a, b, codes(rng, addend, (1, tile, tile), z)))
    a, b, c = (np.concatenate(column) for column in zip(*parts))
    assert tensor_float.is_plain(left, a) and tensor_float.is_plain(right, b)
    return a, b, c


def lined_up(instruction: Instruction, arch: Arch, seed: int, k: int) -> tuple[Codes, Codes, Codes]:
    """Products at chosen distances below a common exponent, with short fractions; the addend near it, or small.

    The common exponents go along the floor and around one; distances cluster where a term leaves the kept bits, where
    an f16 result has its tie, and where 24 bits end.
    """
    rng = np.random.default_rng([seed, 11, *instruction.key.encode(), arch.capability])
    left, right, addend = instruction.operands
    assert left is not None and right is not None and addend is not None
    floor, kept, t, m, n = arch.floor(addend.name), arch.fraction_bits, 64, 2, 8
    tile = (t, 1, 1)
    top = np.where(rng.random(tile) < 0.6, floor + rng.integers(-6, 9, tile), rng.integers(-3, 4, tile))
    near = [0, 1, 2, 10, 11, 12, 13, 14, 18, 19, 20, 21, kept - 2, kept - 1, kept, kept, kept, kept + 1]
    below = rng.choice(near, (t, k, n))
    absent = rng.random((t, k, n)) > rng.random(tile)
    # Exact ties of an f16 result, beside an addend or alone, decided by one term around the last bit kept.
    tie = rng.random(tile) < 0.4
    power = tie & (np.arange(k) < 2)[:, None]
    top = np.where(tie, rng.choice([addend.emin, addend.emin, -1, 0, 3], tile), top)
    last = rng.choice([kept - 1, kept, kept, kept + 1, kept + 5, kept + 6, kept + 7], (t, n))
    below[:, :2] = np.where(tie, np.stack([np.full((t, n), 11), last], axis=1), below[:, :2])
    absent = np.where(tie, ~power, absent)
    mine = (top - below[:, :, :1]) // 2
    a = _short(rng, left, np.broadcast_to(np.swapaxes(mine, 1, 2), (t, m, k)), np.swapaxes(power, 1, 2))
    b = _short(rng, right, top - below - mine, power)
    b = np.where(absent, 0, b).astype(right.dtype)
    c = _short(rng, addend, top + np.where(tie, 0, rng.choice([-1, 0, 0, 0, 1, 12], (t, m, n))))
    c = np.where(rng.random((t, m, n)) < 0.2, rng.integers(0, 40, (t, m, n)), c)
    c = np.where(rng.random((t, m, n)) < 0.3, 0, c)
    return a, b, c.astype(addend.dtype)


def _short(rng: np.random.Generator, fmt: Format, exponent: np.ndarray, power: np.ndarray | bool = False) -> Codes:
    """+-1.f * 2^exponent with at most two bits in f, none where `power`; subnormal or zero where that is too small."""
    one = 1 << fmt.fraction_bits
    bits = 1 << rng.integers(0, fmt.fraction_bits + 1, (2, *exponent.shape))
    significand = one | np.where(power | (rng.random(exponent.shape) < 0.5), 0, (bits[0] | bits[1]) & (one - 1))
    exponent = np.minimum(exponent, fmt.emax)
    shift = np.clip(fmt.emin - exponent, 0, 62)
    words = np.where(shift > 0, significand >> shift, (exponent + fmt.bias << fmt.fraction_bits) + significand - one)
    words |= rng.integers(0, 2, exponent.shape) << (fmt.exponent_bits + fmt.fraction_bits)
    return (words << fmt.ignored_bits).astype(fmt.dtype)


def public_sets(path: object, arch: str) -> Iterator[tuple[str, str, str, tuple[Codes, Codes, Codes, Codes]]]:
    """(name, row key, arch, (a, b, c, d)) of a public recording, shaped as batches of tiles."""
    suffix = {"f16": "", "bf16": ".BF16", "tf32": ".TF32"}
    with np.load(path, allow_pickle=False) as data:  # type: ignore[call-overload]
        for name in sorted({key.rsplit(".", 1)[0] for key in data.files}):
            operand, result = name.split(".")
            a, b, c, d = (data[f"{name}.{part}"] for part in "abcd")
            form = {(4, "tf32"): "1684", (4, "f16"): "884", (8, "f16"): "1688", (16, "f16"): "16816"}
            shape = form.get((a.shape[1], operand)) or form[a.shape[1], "f16"]
            key = f"HMMA.{shape}.{result.upper()}{suffix[operand]}"
            yield name, key, arch, (a[:, None, :], b[:, :, None], c[:, None, None], d[:, None, None])


#: Key prefix in the H200 recording -> row key.
H200 = {
    "f16_16816_f32": "HMMA.16816.F32", "f16_1688_f32": "HMMA.1688.F32",
    "f16_16816_f16": "HMMA.16816.F16", "f16_1688_f16": "HMMA.1688.F16",
    "bf16_16816_f32": "HMMA.16816.F32.BF16", "bf16_1688_f32": "HMMA.1688.F32.BF16",
    "tf32_1688_f32": "HMMA.1688.F32.TF32", "tf32_1684_f32": "HMMA.1684.F32.TF32",
    "s8_16832": "IMMA.16832.S8.S8", "u8s8_16832": "IMMA.16832.U8.S8",
    "s8sat_16832": "IMMA.16832.S8.S8.SAT", "s8_8816": "IMMA.8816.S8.S8",
}  # fmt: skip

#: File -> arch of the public sets.
PUBLIC = {
    "sm70-v100": "sm_70", "sm80-a100": "sm_80", "sm86-a2": "sm_86", "sm89-ada": "sm_89", "sm89-l40s": "sm_89",
    "sm90-h100": "sm_90", "sm90-h200": "sm_90", "sm100-b200": "sm_100",
}  # fmt: skip


def fullest_group(instruction: Instruction, arch: Arch) -> tuple[Codes, Codes, Codes]:
    """Every product at its largest for its exponent and the addend likewise, both signs: the largest integer sum."""
    left, right, addend = instruction.operands
    assert left is not None and right is not None and addend is not None
    k = int(str(instruction.keywords["k"]))
    one = (left.bias << left.fraction_bits | ((1 << left.fraction_bits) - 1)) << left.ignored_bits
    a = np.full((1, 2, k), one, left.dtype)
    a[:, 1] |= np.array(left.sign_bit, left.dtype)
    b = np.full((1, k, 2), one, right.dtype)
    fractions = (1 << addend.fraction_bits) - 1
    plus = addend.bias << addend.fraction_bits | fractions
    return a, b, np.array([[[plus, plus | addend.sign_bit]] * 2], addend.dtype)
