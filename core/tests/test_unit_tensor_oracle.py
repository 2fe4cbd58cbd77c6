"""Tensor cores: reference against oracle, and the wrong models that corner vectors must catch."""

from __future__ import annotations

import numpy as np
import oracle_table
import oracle_tensor
import pytest
import strategies
from helpers import ROOT, assert_codes
from hypothesis import HealthCheck, given, settings
from mutants import TENSOR_MUTANTS, TensorMutant
from phobos_sim import isa
from phobos_sim.formats import FORMATS, dtype_of
from phobos_sim.isa import Arch, Instruction
from phobos_sim.recordings import corners
from phobos_sim.reference import execute

HMMA = [row for row in isa.INSTRUCTIONS if row.family == "tensor"]
IMMA = [row for row in isa.INSTRUCTIONS if row.family == "integer_tensor"]
PAIRS = [(row, arch) for row in HMMA for arch in isa.ARCHS.values() if arch.has(row)]
PAIRS = [pair for pair in PAIRS if pair[1].name in ("sm_70", "sm_75", "sm_86", "sm_90")]
CORNERS = [c for c in corners.read(ROOT / "recordings/corners/hmma.txt") if "sm_86" in c.expected]


def one(instruction: Instruction, arch: Arch, a: list[int], b: list[int], c: int) -> int:
    """One output element on the reference."""
    left, right, addend = (dtype_of(fmt) for fmt in instruction.operands if fmt)
    operands = np.array(a, left)[None, None, :], np.array(b, right)[None, :, None], np.array(c, addend).reshape(1, 1, 1)
    return int(execute.mma(instruction, *operands, arch=arch).item())


@pytest.mark.parametrize(("instruction", "arch"), PAIRS, ids=[f"{row.key}-{arch.name}" for row, arch in PAIRS])
@settings(max_examples=25, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=strategies.st.data())
def test_hmma_agrees_with_the_oracle(instruction: Instruction, arch: Arch, data: strategies.st.DataObject) -> None:
    options = instruction.keywords
    operand, result = FORMATS[str(options["operand"])], FORMATS[str(options["result"])]
    a, b, c = data.draw(strategies.dots(operand, result, int(str(options["k"]))))
    expected = oracle_table.evaluate_matrix(instruction, a, b, c, arch)
    assert f"{one(instruction, arch, a, b, c):08x}" == f"{expected:08x}", (a, b, c)


@pytest.mark.parametrize("instruction", IMMA, ids=lambda row: row.key)
def test_imma_agrees_with_the_oracle(instruction: Instruction) -> None:
    assert instruction.shape is not None
    rng = np.random.default_rng(5)
    t, m, n, k = 6, 3, 2, instruction.shape.k
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((t, m, k), (t, k, n)))
    c = rng.integers(0, 1 << 32, (t, m, n)).astype(np.uint32)
    c[0], c[1] = 0x7FFFFFFF, 0x80000000
    a[2:4], b[2:4] = 0xFF, 0x80
    a[0], b[0] = 1, 1
    right = np.array(
        [
            oracle_table.evaluate_matrix(instruction, a[i, r].tolist(), b[i, :, q].tolist(), int(c[i, r, q]), isa.SM86)
            for i in range(t) for r in range(m) for q in range(n)
        ],
        np.uint32,
    ).reshape(t, m, n)  # fmt: skip
    assert_codes(execute.mma(instruction, a, b, c), right, instruction.key)
    for wrong in ("saturate", "a_signed"):
        options = {**instruction.keywords, wrong: not instruction.keywords[wrong]}
        twin = [
            oracle_tensor.integer_element(a[i, 0].tolist(), b[i, :, 0].tolist(), int(c[i, 0, 0]), **options)
            for i in range(t)
        ]
        assert twin != right[:, 0, 0].tolist(), f"the inputs do not tell {wrong} apart"


def test_at_least_twelve_wrong_models() -> None:
    assert len({m.name for m in TENSOR_MUTANTS}) == len(TENSOR_MUTANTS) >= 12


@pytest.mark.parametrize("mutant", TENSOR_MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_corner_vectors_catch_the_wrong_model(mutant: TensorMutant) -> None:
    caught = []
    for corner in CORNERS:
        rules = oracle_tensor.rules_of(corner.instruction, isa.SM86)
        if mutant.only not in (None, rules.result.name):
            continue
        a, b, c = (operand.tolist() for operand in corner.operands)
        right, wrong = oracle_tensor.element(a, b, c, rules), oracle_tensor.element(a, b, c, mutant.rules(rules))
        assert right == corner.expected["sm_86"], corner.name
        if wrong != right:
            caught.append(corner.name)
    assert caught, f"no corner vector tells {mutant.name!r} apart"


@pytest.mark.parametrize("row", HMMA, ids=lambda row: row.key)
def test_chain_is_the_instruction_repeated(row: Instruction) -> None:
    """R10 over a whole K: the chain equals one instruction after the other, in any blocking of the outputs."""
    arch = isa.ARCHS["sm_70"] if row.until < 86 else isa.SM86
    options = row.keywords
    k = int(str(options["k"]))
    rng = np.random.default_rng(2)
    a, b = _random(rng, (70, 3 * k), str(options["operand"])), _random(rng, (3 * k, 66), str(options["operand"]))
    seed = _random(rng, (70, 66), str(options["result"]))
    step = seed[None]
    for at in range(0, 3 * k, k):
        step = execute.mma(row, a[None, :, at : at + k], b[None, at : at + k], step, arch)
    assert_codes(execute.chain(row, a, b, seed, arch), step[0], row.key)


def _random(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Normal values with a few infinities and NaN."""
    values = rng.standard_normal(shape).astype(np.float32)
    values[rng.random(shape) < 0.002] = np.inf
    values[rng.random(shape) < 0.001] = np.nan
    if name == "f16":
        return values.astype(np.float16).view(np.uint16)
    codes = values.view(np.uint32)
    return (codes >> np.uint32(16)).astype(np.uint16) if name == "bf16" else codes
