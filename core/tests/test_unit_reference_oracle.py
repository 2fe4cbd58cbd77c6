"""Reference against oracle for every elementwise row, and the wrong twins that this comparison must catch."""

from __future__ import annotations

import hard_inputs
import numpy as np
import oracle_table
import pytest
import strategies
from helpers import assert_codes
from hypothesis import HealthCheck, given, settings
from mutants import MUTANTS, mutants_of
from phobos_sim import isa
from phobos_sim.formats import F32, dtype_of
from phobos_sim.isa import Instruction
from phobos_sim.reference import execute

ROWS = [row for row in isa.INSTRUCTIONS if not row.is_matrix]
rows = pytest.mark.parametrize("instruction", ROWS, ids=lambda row: row.key)


def oracle_codes(instruction: Instruction, tuples: list[tuple[int, ...]]) -> np.ndarray:
    results = [oracle_table.evaluate(instruction, *codes) for codes in tuples]
    return np.array(results, np.uint64).astype(dtype_of(instruction.result or F32))


def tuples_of(columns: list[np.ndarray]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns)))


@rows
def test_hard_inputs_agree(instruction: Instruction) -> None:
    columns = hard_inputs.columns(instruction)
    expected = oracle_codes(instruction, tuples_of(columns))
    assert_codes(execute.apply(instruction, *columns), expected, instruction.key)


@rows
@settings(max_examples=6, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=strategies.st.data())
def test_drawn_inputs_agree(instruction: Instruction, data: strategies.st.DataObject) -> None:
    tuples = data.draw(strategies.batches(instruction))
    columns = [np.array(c, np.uint64).astype(dtype_of(f or F32)) for c, f in zip(zip(*tuples), instruction.operands)]
    assert_codes(execute.apply(instruction, *columns), oracle_codes(instruction, tuples), instruction.key)


@rows
def test_wrong_twins_are_caught(instruction: Instruction) -> None:
    twins = mutants_of(instruction)
    assert twins, f"{instruction.key} has no wrong twin in mutants.py"
    columns = hard_inputs.columns(instruction)
    right = execute.apply(instruction, *columns).tolist()
    tuples = tuples_of(columns)
    for twin in twins:
        with twin.active():
            caught = any(oracle_table.evaluate(instruction, *t) != r for t, r in zip(tuples, right))
        assert caught, f"{instruction.key}: the hard inputs do not tell {twin.name!r} apart"


def test_every_mutant_is_used() -> None:
    used = {twin.name for row in ROWS for twin in mutants_of(row)}
    assert used == set(MUTANTS)


def test_apply_takes_any_shape() -> None:
    """Blocks, broadcasting and single elements give the same codes as one flat call."""
    instruction = isa.lookup("FFMA")
    a, b, c = hard_inputs.columns(instruction, 70_000)
    whole = execute.apply(instruction, a, b, c)
    assert_codes(execute.apply(instruction, a.reshape(7, -1), b.reshape(7, -1), c.reshape(7, -1)).ravel(), whole)
    assert_codes(execute.apply(instruction, a[:90, None], b[:90], c[0]), np.stack(
        [execute.apply(instruction, np.full(90, x), b[:90], np.full(90, c[0])) for x in a[:90]]
    ))  # fmt: skip
    assert execute.apply(instruction, a[5], b[5], c[5]).shape == ()
    assert execute.apply(instruction, a[5], b[5], c[5]) == whole[5]
    assert execute.apply(instruction, a[:0], b[:0], c[:0]).shape == (0,)
