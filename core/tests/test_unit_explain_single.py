"""Explanations of MUFU and conversions: results of the reference, true values by other means, numbers that add up."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import oracle as o
import phobos_sim as sim
import pytest
from helpers import assert_codes
from phobos_sim import isa
from phobos_sim.explain import exact, mufu, numbers
from phobos_sim.explain.conversions import ConversionExplanation, explain_conversion
from phobos_sim.explain.mufu import MufuExplanation, explain_mufu
from phobos_sim.formats import BF16, F16, F32, F64, FORMATS, Format, round_pack, special_values
from phobos_sim.reference import execute

MUFU = [row for row in isa.INSTRUCTIONS if row.family == "mufu"]
CONVERSIONS = [row for row in isa.INSTRUCTIONS if row.family == "convert"]


def inputs(fmt: Format, seed: str, count: int) -> list[int]:
    """Special values, raw bits, and magnitudes around one."""
    rng = np.random.default_rng([*seed.encode()])
    codes = list(special_values(fmt))
    codes += rng.integers(0, 1 << min(fmt.bits, 63), count, dtype=np.uint64).tolist() if fmt.bits > 1 else []
    if fmt.is_float:
        one = fmt.bias << fmt.fraction_bits
        near = one + rng.integers(-8 << fmt.fraction_bits, 12 << fmt.fraction_bits, count)
        codes += (near | rng.integers(0, 2, count) << (fmt.bits - 1) if fmt.bits < 64 else near).tolist()
    return [int(code) % (1 << fmt.bits) for code in codes]


@pytest.mark.parametrize("row", MUFU, ids=lambda row: row.key)
def test_mufu_is_that_of_the_reference(row: isa.Instruction) -> None:
    fmt = row.operands[0]
    assert fmt is not None and row.result is not None
    codes = inputs(fmt, row.key, 120) + [x << 23 for x in range(0, 256, 3) if fmt == F32]
    expected = execute.apply(row, np.array(codes, fmt.dtype))
    found = [explain_mufu(row, isa.SM86, code) for code in codes]
    assert_codes(np.array([e.code for e in found], expected.dtype), expected, row.key)
    for explanation in found:
        one = explanation.steps.pass_
        if one is not None:
            assert sum(one.parts) == one.A and one.value == one.A >> one.shift
            assert 0 <= one.true_square - one.square < 16 and 0 <= one.x < 1 << one.x_bits


def at(function: str, x: Fraction) -> Fraction:
    """The value at a rational, which need not be a number of any format."""
    value = exact._FUNCTIONS[function](x)
    assert value is not None
    return value


_IDENTITIES = {
    "ex2": lambda x: (at("ex2", x) * at("ex2", Fraction(1, 3) - x), at("ex2", Fraction(1, 3))),
    "lg2": lambda x: (at("lg2", 3 * x), at("lg2", x) + at("lg2", Fraction(3))),
    "rcp": lambda x: (at("rcp", x) * x, Fraction(1)),
    "rsq": lambda x: (at("rsq", x) ** 2 * x, Fraction(1)),
    "sqrt": lambda x: (at("sqrt", x) ** 2, x),
    "tanh": lambda x: (at("tanh", 2 * x) * (1 + at("tanh", x) ** 2), 2 * at("tanh", x)),
    "sin": lambda x: (at("sin", x) ** 2 + at("cos", x) ** 2, Fraction(1)),
    "cos": lambda x: (at("cos", 2 * x), 2 * at("cos", x) ** 2 - 1),
}  # fmt: skip
_LIBM = {
    "ex2": lambda x: 2.0**x, "lg2": math.log2, "rcp": lambda x: 1 / x, "rsq": lambda x: 1 / math.sqrt(x),
    "sqrt": math.sqrt, "tanh": math.tanh,
}  # fmt: skip


@pytest.mark.parametrize("function", _IDENTITIES)
def test_true_values_hold_their_identities_to_300_digits(function: str) -> None:
    """Which function it is says libm, to two neighbours of a double; how exact it is says an identity in rationals."""
    rng = np.random.default_rng([7, *function.encode()])
    for x in (0.001 + 8 * rng.random(25)).astype(np.float32).tolist():
        one, other = _IDENTITIES[function](Fraction(x))
        assert abs(one - other) < Fraction(1, 10**300)
        if function in _LIBM:
            mine, libm = (np.array(v).view(np.int64) for v in (float(at(function, Fraction(x))), _LIBM[function](x)))
            assert abs(int(mine) - int(libm)) <= 2
    assert abs(at("sin", Fraction(1, 12)) - Fraction(1, 2)) < Fraction(1, 10**300)


@pytest.mark.parametrize(
    ("function", "x", "value"),
    [
        ("ex2", 3.0, 8), ("ex2", -149.0, Fraction(1, 2**149)), ("lg2", 0.125, -3), ("rcp", 3.0, Fraction(1, 3)),
        ("sin", 0.25, 1), ("sin", -0.75, 1), ("sin", 7.0, 0), ("cos", 0.5, -1), ("cos", 0.25, 0), ("tanh", 0.0, 0),
    ],
)  # fmt: skip
def test_values_that_are_exact(function: str, x: float, value: Fraction | int) -> None:
    assert exact.value(function, numbers.decode(int(np.float32(x).view(np.uint32)), F32)) == value


def test_sqrt_and_rcp_are_correctly_rounded_by_the_oracle() -> None:
    for code in inputs(F32, "roots", 150):
        number = numbers.decode(code, F32)
        assert exact.code("sqrt", number, F32) == o.square_root(code, F32), f"{code:08x}"
        assert exact.code("rcp", number, F32) == o.divide(0x3F800000, code, F32), f"{code:08x}"


def test_distance_from_the_correctly_rounded_value() -> None:
    explanation = sim.explain("MUFU.TANH", 0.3)
    assert isinstance(explanation, MufuExplanation)
    assert (explanation.best, explanation.off) == (0x3E9526EE, -63)
    assert explanation.error is not None and -63 < explanation.error < -62
    assert "+63 ulp" in str(explanation)
    assert explanation.steps.pass_ is not None and explanation.steps.pass_.segment == 11
    half = sim.explain("MUFU.EX2.F16", np.float16(-0.3))
    assert isinstance(half, MufuExplanation)
    assert half.narrowing is not None and half.narrowing.mode == "rz" and half.narrowing.places == 13


def test_the_squarer_loses_less_than_it_keeps() -> None:
    for x in (0, 1, 3, 0x1FFFF, 0x15555):
        assert mufu.squared(x) <= x * x >> 19


@pytest.mark.parametrize("row", CONVERSIONS, ids=lambda row: row.key)
def test_conversions_are_those_of_the_reference(row: isa.Instruction) -> None:
    fmt = row.operands[0]
    assert fmt is not None
    codes = inputs(fmt, row.key, 60)
    expected = execute.apply(row, np.array(codes, fmt.dtype))
    found = [explain_conversion(row, isa.SM86, code) for code in codes]
    assert_codes(np.array([e.code for e in found], expected.dtype), expected, row.key)
    for explanation in found:
        check_rounding(explanation)
    for explanation in found[::12]:
        assert str(explanation) and explanation.to_dict()["result"]["code"]


def check_rounding(e: ConversionExplanation) -> None:
    """Kept and dropped bits are the exact value, and the result is what was kept, moved by one place or not at all."""
    r = e.rounding
    if r is None or not e.total or r.direction == "overflow" or (e.source.is_integer and e.target == BF16):
        return
    kept, dropped = r.kept * Fraction(2) ** r.last, r.dropped * Fraction(2) ** r.unit
    assert kept + dropped == abs(e.total) * Fraction(2) ** e.unit
    if e.target.is_float:
        value = abs(numbers.fraction_of(numbers.decode(e.code, e.target)))
        assert value - kept == (Fraction(2) ** r.last if r.direction == "away from zero" else 0)


def test_ties_saturation_and_low_bits_are_said() -> None:
    assert "It is a tie." in str(sim.explain("cvt.rn.f16.f32", 0x3F801000))
    assert "end of the range" in str(sim.explain("cvt.rzi.s32.f32", 3e9))
    assert "the low 8 bits of 300 (12c) are kept: 44" in str(sim.explain("cvt.low8.s8.f32", 300.0))
    assert "shift" in str(sim.explain("cvt.f32.bf16", np.array([0x7F81], np.uint16)))
    assert "through f32" in str(sim.explain("cvt.rn.bf16.s32", np.array([16777217], np.int32)))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "tf32"])
def test_rounding_of_integers_is_that_of_the_formats_module(name: str) -> None:
    fmt = FORMATS[name]
    rng = np.random.default_rng([8, *name.encode()])
    for _ in range(400):
        total = int(rng.integers(1 << 61, 1 << 62)) >> int(rng.integers(0, 61))
        unit = int(rng.integers(fmt.emin - 70, fmt.emax + 2))
        for mode in ("rn", "rz"):
            negative = bool(rng.integers(2))
            expected = int(round_pack(np.array([negative]), unit, np.array([total]), fmt, mode=mode)[0])
            assert numbers.round_exact(-total if negative else total, unit, fmt, mode).code == expected
    assert numbers.round_fraction(Fraction(1, 3), F64) == 0x3FD5555555555555
    assert numbers.steps_between(F16.sign_bit, 0, F16) == 0
