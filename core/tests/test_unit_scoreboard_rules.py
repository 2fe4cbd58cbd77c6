"""The model that mutants are made of: right by default, and each of its rules can be set wrong."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from phobos_sim import formats, isa
from phobos_sim.recordings.tiles import matrix_classes, matrix_tiles
from phobos_sim.reference import execute
from phobos_sim.scoreboard import mutants, rounded
from phobos_sim.scoreboard.rules import hmma, rules_of

TENSOR = [
    (arch, row) for arch in isa.ARCHS.values() for row in isa.INSTRUCTIONS if row.family == "tensor" and arch.has(row)
]
IDS = [f"{arch.name}-{row.key}" for arch, row in TENSOR]


def tiles(row: isa.Instruction, name: str, count: int, seed: int = 7) -> tuple[np.ndarray, ...]:
    assert row.shape is not None and row.result is not None
    operands = tuple(f for f in row.operands if f is not None)
    return matrix_tiles(seed, row.key, operands, row.result, (row.shape.m, row.shape.n, row.shape.k), name, count)


def classes(row: isa.Instruction) -> tuple[str, ...]:
    assert row.result is not None
    return matrix_classes(tuple(f for f in row.operands if f is not None), row.result)


@pytest.mark.parametrize(("arch", "row"), TENSOR, ids=IDS)
def test_the_right_rules_are_the_reference(arch: isa.Arch, row: isa.Instruction) -> None:
    for name in classes(row):
        a, b, c = tiles(row, name, 2)
        expected = execute.mma(row, a, b, c, arch)
        actual = hmma(a, b, c, str(row.keywords["operand"]), str(row.keywords["result"]), rules_of(arch, row))
        assert np.array_equal(actual, expected), name


@pytest.mark.parametrize("row", [row for arch, row in TENSOR if arch.name == "sm_90"], ids=lambda row: row.key)
def test_every_mutant_differs_from_the_truth(row: isa.Instruction) -> None:
    """Each listed wrong model is told apart by the recorder's own inputs: none is equal to the truth."""
    arch = isa.ARCHS["sm_90"]
    alive = {mutant.name: mutant for mutant in mutants.of(row, arch)}
    assert len(alive) >= 20
    for name in classes(row):
        operands = tiles(row, name, 28, seed=1)
        truth = execute.mma(row, *operands, arch)
        for key, mutant in list(alive.items()):
            if (mutant.run(row, arch, operands) != truth).any():
                del alive[key]
    assert not alive, f"no input tells these from the truth: {sorted(alive)}"


def test_names_are_unique_and_every_rule_has_a_mutant() -> None:
    assert {mutant.rule for mutant in mutants.TENSOR} == {f"R{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)}
    for row in isa.INSTRUCTIONS:
        names = [mutant.name for mutant in mutants.of(row, isa.ARCHS["sm_90" if row.until > 90 else "sm_70"])]
        assert len(names) == len(set(names)), row.key


def exact(a: np.ndarray, b: np.ndarray, c: int, operand: formats.Format, result: formats.Format) -> int | None:
    """One finite dot by rationals, rounded to nearest even by comparing with neighbours; None for specials."""

    def value(code: int, fmt: formats.Format) -> Fraction | None:
        negative, exponent, significand = (part[()] for part in formats.split(np.array(code, fmt.dtype), fmt))
        if exponent > fmt.emax:
            return None
        magnitude = Fraction(int(significand)) * Fraction(2) ** (int(exponent) - fmt.fraction_bits)
        return -magnitude if negative else magnitude

    terms = [value(c, result)] + [
        x * y if x is not None and y is not None else None
        for x, y in ((value(int(p), operand), value(int(q), operand)) for p, q in zip(a, b))
    ]
    if any(term is None for term in terms):
        return None
    total = sum(terms, Fraction(0))  # type: ignore[arg-type]
    low, high = 0, result.infinity
    largest = Fraction(2) ** (result.emax + 1)  # the first number beyond the range, where infinity stands
    while high - low > 1:
        middle = (low + high) // 2
        found = value(middle, result)
        assert found is not None
        low, high = (middle, high) if found <= abs(total) else (low, middle)
    below = value(low, result)
    above = value(high, result) if high < result.infinity else largest
    assert below is not None and above is not None
    distance = (abs(total) - below) - (above - abs(total))
    code = low if distance < 0 or (distance == 0 and low % 2 == 0) else high
    return code | (result.sign_bit if total < 0 else 0)


@pytest.mark.parametrize("key", ["HMMA.16816.F32", "HMMA.1688.F16", "HMMA.1688.F32.BF16", "HMMA.1684.F32.TF32"])
def test_the_correctly_rounded_dot(key: str) -> None:
    row = isa.lookup(key)
    operand, result = row.operands[0], row.result
    assert operand is not None and result is not None
    checked = 0
    for name in classes(row):
        a, b, c = (part[:1] for part in tiles(row, name, 1))
        found = rounded.dot(a, b, c, operand.name, result.name)
        for m in range(0, 16, 3):
            for n in range(0, 8, 3):
                wanted = exact(a[0, m], b[0, :, n], int(c[0, m, n]), operand, result)
                if wanted is not None and wanted & (result.sign_bit - 1):
                    assert int(found[0, m, n]) == wanted, (name, m, n)
                    checked += 1
    assert checked > 100


def test_the_correctly_rounded_dot_of_specials_and_zeros() -> None:
    inf, nan, one, minus_zero = 0x7C00, 0x7E01, 0x3C00, 0x8000
    cases = (
        ([inf, one], [one, one], 0, 0x7F800000),
        ([inf, inf], [one, 0xBC00], 0, 0x7FFFFFFF),
        ([nan, one], [one, one], 0, 0x7FFFFFFF),
        ([inf, one], [0, one], 0, 0x7FFFFFFF),
        ([minus_zero, minus_zero], [one, one], 0x80000000, 0x80000000),
        ([one, 0xBC00], [one, one], 0x80000000, 0x00000000),
    )
    for a, b, c, expected in cases:
        got = rounded.dot(
            np.array([[a]], np.uint16),
            np.array([[[x] for x in b]], np.uint16),
            np.array([[[c]]], np.uint32),
            "f16",
            "f32",
        )
        assert int(got[0, 0, 0]) == expected, (a, b, c)
