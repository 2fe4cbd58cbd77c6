"""Operands of scalar instructions: every class for one signature (rules: `classes`)."""

from __future__ import annotations

import numpy as np

from ..formats import Format
from .classes import DTYPES, Stream, build, codes, draw, from_float, signed_zero, specials, to_float


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
