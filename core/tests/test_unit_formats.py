"""Formats: fields, splitting and packing, the one rounding function, distances."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import oracle
import pytest
from helpers import assert_codes
from phobos_sim import formats
from phobos_sim.formats import BF16, F16, F32, F64, FORMATS, TF32, Format, dtype_of

FLOATS = (F16, BF16, TF32, F32, F64)
floats = pytest.mark.parametrize("fmt", FLOATS, ids=str)


def sample(fmt: Format) -> np.ndarray:
    """Every code of a 16-bit format, else the special values and random bits."""
    if fmt.bits == 16:
        return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    special = np.array(formats.special_values(fmt), np.uint64)
    raw = np.random.default_rng(0).integers(0, 1 << 64, 2000, dtype=np.uint64)
    return np.concatenate([special, raw]).astype(dtype_of(fmt)) & np.array(
        ~((1 << fmt.ignored_bits) - 1) & ((1 << fmt.bits) - 1), dtype_of(fmt)
    )


@floats
def test_pack_is_the_inverse_of_split(fmt: Format) -> None:
    codes = sample(fmt)
    finite = codes[~formats.is_nan(codes, fmt) & ~formats.is_inf(codes, fmt)]
    assert_codes(formats.pack(*formats.split(finite, fmt), fmt), finite, fmt.name)


@floats
def test_split_means_what_the_oracle_decodes(fmt: Format) -> None:
    codes = sample(fmt)[:3000]
    negative, exponent, significand = formats.split(codes, fmt)
    for code, n, e, s in zip(codes.tolist(), negative.tolist(), exponent.tolist(), significand.tolist()):
        number = oracle.decode(code, fmt)
        assert n == number.negative
        if number.kind == "finite":
            assert s * oracle.power(e - fmt.fraction_bits) == number.magnitude
        else:
            assert e == fmt.emax + 1


@floats
def test_classes_partition_all_codes(fmt: Format) -> None:
    codes = sample(fmt)
    finite = formats.split(codes, fmt)[1] <= fmt.emax
    nan, inf = formats.is_nan(codes, fmt), formats.is_inf(codes, fmt)
    assert np.array_equal(finite.astype(int) + nan + inf, np.ones(len(codes)))
    kinds = [oracle.decode(code, fmt).kind for code in codes.tolist()]
    assert np.array_equal(nan, [kind == "nan" for kind in kinds])
    assert np.array_equal(inf, [kind == "infinite" for kind in kinds])


@floats
@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("overflow", ["infinity", "largest"])
def test_round_pack_rounds_as_the_oracle(fmt: Format, mode: str, overflow: str) -> None:
    rng = np.random.default_rng(3)
    count = 1500
    significand = rng.integers(0, 1 << 62, count) >> rng.integers(0, 62, count)
    significand[::5] = (significand[::5] >> 30 << 1 | 1) << 20  # exact ties
    exponent = rng.integers(fmt.emin - fmt.fraction_bits - 70, fmt.emax + 4, count)
    exponent[:300] = fmt.emin - fmt.fraction_bits - rng.integers(0, 30, 300)
    negative = rng.integers(0, 2, count) == 1
    codes = formats.round_pack(negative, exponent, significand, fmt, mode=mode, overflow=overflow)
    right = [
        oracle.encode(n, s * oracle.power(e), fmt, mode, overflow)
        for n, e, s in zip(negative.tolist(), exponent.tolist(), significand.tolist())
    ]
    assert_codes(codes, np.array(right, np.uint64).astype(dtype_of(fmt)), f"{fmt} {mode}")


def test_rounding_to_nearest_differs_from_truncation() -> None:
    """The comparison above can fail: the two modes part on its inputs."""
    odd = np.array([(1 << 24) + 1, (1 << 25) + 3])
    nearest = formats.round_pack(False, 0, odd, F32)
    assert not np.array_equal(nearest, formats.round_pack(False, 0, odd, F32, mode="rz"))


def test_a_zero_keeps_its_sign_whatever_its_exponent() -> None:
    for exponent in (-5000, 0, 5000):
        codes = formats.round_pack(np.array([False, True]), exponent, np.zeros(2, np.int64), F32)
        assert codes.tolist() == [0, 0x80000000]


def test_bit_length() -> None:
    values = [0, 1, 2, 3, (1 << 53) - 1, 1 << 53, (1 << 54) - 1, (1 << 61) + 1, (1 << 62) - 1]
    assert formats.bit_length(np.array(values)).tolist() == [v.bit_length() for v in values]


def test_shift_right_sticky_keeps_a_trace() -> None:
    values = np.array([8, 9, 1, 0])
    assert formats.shift_right_sticky(values, 3).tolist() == [1, 1, 1, 0]
    assert formats.shift_right_sticky(values, 2).tolist() == [2, 3, 1, 0]
    assert formats.shift_right_sticky(values, 5000).tolist() == [1, 1, 1, 0]


@floats
def test_distance_counts_neighbours(fmt: Format) -> None:
    step = 1 << fmt.ignored_bits
    dtype = dtype_of(fmt)
    one = fmt.bias << (fmt.fraction_bits + fmt.ignored_bits)
    pairs = [(one, one + step, 1), (0, fmt.sign_bit, 0), (step, fmt.sign_bit | step, 2), (fmt.largest, fmt.infinity, 1)]
    a, b, steps = (np.array(column, object) for column in zip(*pairs))
    assert formats.distance(a.astype(dtype), b.astype(dtype), fmt).tolist() == steps.tolist()
    ends = np.array([fmt.infinity], dtype), np.array([fmt.infinity | fmt.sign_bit], dtype)
    assert formats.distance(*ends, fmt).tolist() == [2 * (fmt.infinity >> fmt.ignored_bits)]


def test_integer_distance_does_not_overflow() -> None:
    ends = np.array([1 << 63], np.uint64), np.array([(1 << 63) - 1], np.uint64)
    assert formats.distance(*ends, FORMATS["s64"]).tolist() == [(1 << 64) - 1]


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_special_values_are_codes_and_cover_the_edges(fmt: Format) -> None:
    codes = formats.special_values(fmt)
    assert all(0 <= code < 1 << fmt.bits for code in codes)
    assert len(set(codes)) == len(codes)
    if fmt.is_float:
        numbers = [oracle.decode(code, fmt) for code in codes]
        assert {n.kind for n in numbers} == {"finite", "infinite", "nan"}
        magnitudes = {n.magnitude for n in numbers if n.kind == "finite"}
        smallest = oracle.power(fmt.emin - fmt.fraction_bits)
        assert {Fraction(0), Fraction(1), smallest, oracle.power(fmt.emin)} <= magnitudes
        assert {0, fmt.sign_bit, fmt.canonical_nan, fmt.infinity, fmt.largest} <= set(codes)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_dtype_holds_the_codes(fmt: Format) -> None:
    assert dtype_of(fmt).itemsize == max(1, fmt.bits // 8)
    assert dtype_of(fmt).kind == ("b" if fmt.kind == "predicate" else "u")
