"""Inputs are the same everywhere and for ever, and each class holds what its name says."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from phobos_sim import formats, isa
from phobos_sim.formats import BF16, F16, F32, F64, S32, TF32, U8
from phobos_sim.recordings import home, loader
from phobos_sim.recordings.classes import Stream, draw, specials
from phobos_sim.recordings.operands import scalar_inputs
from phobos_sim.recordings.recorder.plan import Sizes, plan
from phobos_sim.recordings.tiles import MATRIX_CLASSES, matrix_classes, matrix_tiles

#: The first words of one stream; a change would make every published recording irreproducible.
PINNED = ["da6d27d3ff3a730f", "929f71f92c0e3e8d", "8e167d5a9cba23b6", "60e8a8800c193bad"]


def test_the_stream_is_pinned() -> None:
    drawn = Stream(1, "FADD", "raw").bits((4,))
    assert [f"{int(word):016x}" for word in drawn] == PINNED


def test_a_class_does_not_depend_on_what_was_drawn_before() -> None:
    columns, classes = scalar_inputs(1, (F32, F32), 16)
    again, _ = scalar_inputs(1, (F32, F32), 16)
    assert all(np.array_equal(x, y) for x, y in zip(columns, again))
    longer, more = scalar_inputs(1, (F32, F32), 32)
    assert [name for name, _ in classes] == [name for name, _ in more]
    assert np.array_equal(columns[0][:16], longer[0][:16])
    assert not np.array_equal(columns[0][:16], scalar_inputs(2, (F32, F32), 16)[0][0][:16])


@pytest.mark.parametrize("fmt", [F16, BF16, TF32, F32, F64], ids=str)
def test_classes_hold_what_they_say(fmt: formats.Format) -> None:
    stream = Stream(1, fmt.name)
    assert formats.is_subnormal(draw(stream, fmt, "subnormal", (200,)), fmt).mean() > 0.9
    near = draw(stream, fmt, "near_one", (200,))
    exponents = formats.split(near, fmt)[1]
    assert exponents.min() == -2 and exponents.max() == 1
    assert formats.is_zero(draw(stream, fmt, "sparse", (400,)), fmt).mean() > 0.7
    assert formats.split(draw(stream, fmt, "huge", (50,)), fmt)[1].min() >= fmt.emax - 2
    mixed = draw(stream, fmt, "infinities", (2000,))
    assert formats.is_nan(mixed, fmt).any() and formats.is_inf(mixed, fmt).any()
    listed = specials(fmt)
    assert (
        formats.is_nan(listed, fmt).any()
        and formats.is_inf(listed, fmt).any()
        and formats.is_zero(listed, fmt).sum() >= 2
    )


def test_narrow_one_operand_rows_are_exhaustive() -> None:
    for fmt, count in ((F16, 1 << 16), (BF16, 1 << 16), (U8, 256)):
        (column,), classes = scalar_inputs(1, (fmt,), 8)
        assert classes == [("exhaustive", count)] and np.array_equal(column, np.arange(count))
    assert scalar_inputs(1, (S32,), 8)[1][0] == ("raw", 8)


def test_matrix_classes_cover_the_design() -> None:
    assert matrix_classes((F16, F16, F32), F32) == (*MATRIX_CLASSES, "ties")
    assert matrix_classes((BF16, BF16, F32), F32) == (*MATRIX_CLASSES, "ties", "floor")
    row = isa.lookup("HMMA.16816.F32.BF16")
    assert row.shape is not None and row.result is not None
    operands = tuple(f for f in row.operands if f is not None)
    a, b, _ = matrix_tiles(1, row.key, operands, row.result, (16, 8, 16), "zeros_huge", 4)
    zero_a, zero_b = formats.is_zero(a, BF16), formats.is_zero(b, BF16)
    huge_b = formats.split(b, BF16)[1] >= BF16.emax - 2
    beside = zero_a.any(axis=1) & (huge_b & ~zero_b).any(axis=2)
    assert beside.any(), "no zero of one operand stands beside a huge value of the other"


def test_the_committed_recording_is_reproduced_by_its_seed() -> None:
    sets = sorted((home() / "sm90-h200").glob("*.npz"))
    if not sets:
        pytest.skip("recordings: no sm90-h200 in this checkout")
    jobs, _ = plan(90, 1, Sizes(), [])
    drawn = {(job.file, job.name): job for job in jobs}
    checked = 0
    for path in sets:
        recording = loader.load(path)
        for row in recording.manifest.rows:
            job = drawn.get((path.stem, row.name))
            if job is None:
                continue
            with np.load(path, allow_pickle=False) as stored:
                for name in row.inputs:
                    assert _digest(stored[name]) == _digest(job.inputs[name]), f"{path.stem} {row.name} {name}"
            checked += 1
            break  # one row a file: rows share their inputs
    assert checked >= 9


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
