"""What is recorded: one job per row of the instruction table that a card has, grouped into files by family.

Rules
 1. Every row of the table with a PTX body for the card's compute capability is recorded; rows without one are listed
    with the reason, never left out silently.
 2. Scalar rows of one signature share their inputs within a file. Matrix rows have inputs of their own.
 3. Corner vectors (recordings/corners/*.txt) go into `corners.npz`: matrix vectors on the diagonal of a tile, eight or
    sixteen at a time, so every other element of that tile is one more recorded dot.
 4. GEMMs: one mma.sync per k tile, accumulator in registers, k tiles ascending; one with k tiles descending, which
    shows that order is part of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ... import isa
from ...formats import FORMATS, Format
from ...isa import Instruction
from ..classes import DTYPES, Stream, build, codes
from ..corners import Corner
from ..operands import scalar_inputs
from ..tiles import matrix_classes, matrix_tiles
from .scalar_ptx import Body, body_for


@dataclass(frozen=True)
class Sizes:
    """How much is recorded: results per scalar class, tiles per matrix class (integers need fewer), largest GEMM."""

    scalar: int = 768
    integer: int = 192
    tiles: int = 28
    integer_tiles: int = 24
    gemm: int = 256


@dataclass
class Job:
    """One row to run: inputs by array name; the output array gets the name `<name>.d` or `<name>.out`."""

    file: str
    name: str
    row: Instruction
    kind: str
    ptx: str
    inputs: dict[str, np.ndarray]
    classes: list[tuple[str, int]]
    body: Body | None = None
    labels: list[tuple[str, int]] = field(default_factory=list)
    k_order: tuple[int, ...] = ()

    @property
    def output(self) -> str:
        return f"{self.name}.{'out' if self.kind == 'scalar' else 'd'}"

    @property
    def output_like(self) -> np.ndarray:
        """An empty array of the output's shape and dtype."""
        first = list(self.inputs.values())
        if self.kind != "scalar":
            return np.empty_like(first[2])
        assert self.body is not None
        return np.empty(len(first[0]), DTYPES[max(8, FORMATS[self.body.result].bits)])


def plan(
    capability: int, seed: int, sizes: Sizes, corners: Iterable[Corner]
) -> tuple[list[Job], list[tuple[str, str]]]:
    """All jobs for a card, in file order, and the rows that are left out with the reason."""
    jobs: list[Job] = []
    skipped: list[tuple[str, str]] = []
    for row in isa.INSTRUCTIONS:
        if not row.since <= capability <= row.until:
            skipped.append((row.key, f"sm_{capability} does not have it"))
        elif row.is_matrix:
            jobs.append(_matrix(row, seed, sizes))
        else:
            found = body_for((row.key, *row.ptx), capability)
            if found is None:
                skipped.append((row.key, f"no PTX body for sm_{capability}"))
            else:
                jobs.append(_scalar(row, *found, seed, sizes))
    jobs += _corner_jobs(list(corners), capability)
    jobs += _gemms(capability, seed, sizes.gemm)
    return jobs, skipped


def _matrix(row: Instruction, seed: int, sizes: Sizes) -> Job:
    assert row.shape is not None
    shape = (row.shape.m, row.shape.n, row.shape.k)
    formats = _formats(row)
    assert row.result is not None
    names = matrix_classes(formats, row.result)
    count = sizes.tiles if formats[0].is_float else sizes.integer_tiles
    drawn = [matrix_tiles(seed, row.key, formats, row.result, shape, name, count) for name in names]
    inputs = {f"{row.key}.{letter}": np.concatenate([part[i] for part in drawn]) for i, letter in enumerate("abc")}
    return Job(row.family, row.key, row, "matrix", row.ptx[0], inputs, [(name, count) for name in names])


def _formats(row: Instruction) -> tuple[Format, ...]:
    return tuple(f for f in row.operands if f is not None)


def _scalar(row: Instruction, ptx: str, body: Body, seed: int, sizes: Sizes) -> Job:
    formats = body.formats
    count = sizes.scalar if any(f.is_float for f in formats) else sizes.integer
    columns, classes = scalar_inputs(seed, formats, count)
    signature = "-".join(body.operands)
    inputs = {f"{signature}.in{i}": column for i, column in enumerate(columns)}
    return Job(row.family, row.key, row, "scalar", ptx, inputs, classes, body)


def _corner_jobs(corners: list[Corner], capability: int) -> Iterator[Job]:
    """One job per instruction that a corner vector names."""
    rows = {corner.instruction.key: corner.instruction for corner in corners}
    for key, row in rows.items():
        own = [corner for corner in corners if corner.instruction.key == key]
        if not row.since <= capability <= row.until:
            continue
        if row.is_matrix:
            yield _matrix_corners(row, own)
            continue
        found = body_for((row.key, *row.ptx), capability)
        if found is None:
            continue
        inputs = {
            f"{key}.in{i}": np.concatenate([corner.batch()[i] for corner in own]) for i in range(len(row.operands))
        }
        labels = [(corner.name, i) for i, corner in enumerate(own)]
        yield Job("corners", key, row, "scalar", found[0], inputs, [("corners", len(own))], found[1], labels)


def _matrix_corners(row: Instruction, own: list[Corner]) -> Job:
    assert row.shape is not None
    m, n, k = row.shape.m, row.shape.n, row.shape.k
    tiles = -(-len(own) // n)
    a, b, c = (
        np.zeros(s, own[0].operands[i].dtype) for i, s in enumerate(((tiles, m, k), (tiles, k, n), (tiles, m, n)))
    )
    labels = []
    for index, corner in enumerate(own):
        tile, place = divmod(index, n)
        a[tile, place], b[tile, :, place], c[tile, place, place] = corner.operands
        labels.append((corner.name, tile * m * n + place * n + place))
    inputs = {f"{row.key}.a": a, f"{row.key}.b": b, f"{row.key}.c": c}
    return Job("corners", row.key, row, "matrix", row.ptx[0], inputs, [("corners", tiles)], labels=labels)


#: instruction, m, n, k, descending k
_GEMMS = (
    ("HMMA.16816.F32", 256, 256, 256, False),
    ("HMMA.16816.F32", 64, 64, 256, True),
    ("HMMA.16816.F16", 128, 128, 256, False),
    ("HMMA.16816.F32.BF16", 128, 128, 256, False),
    ("HMMA.1688.F32.TF32", 64, 64, 256, False),
    ("HMMA.1688.F32", 64, 64, 128, False),
    ("IMMA.16832.S8.S8", 128, 128, 256, False),
    ("IMMA.8816.S8.S8", 64, 64, 128, False),
)


def _gemms(capability: int, seed: int, largest: int) -> Iterator[Job]:
    """Whole-kernel recordings: values near one in two thirds, raw bits of any magnitude in the rest of the rows."""
    for key, m, n, k, descending in _GEMMS:
        row = isa.lookup(key)
        if not row.since <= capability <= row.until or max(m, n, k) > largest:
            continue
        assert row.shape is not None
        name = f"{key}@{m}x{n}x{k}{'-descending' if descending else ''}"
        stream = Stream(seed, "gemm", key, m, n, k)
        a, b, c = (
            _gemm_operand(stream, fmt, shape)
            for fmt, shape in zip(_formats(row), ((m, k), (k, n), (m, n)), strict=True)
        )
        order = tuple(range(k // row.shape.k))
        inputs = {f"{name}.{letter}": operand for letter, operand in zip("abc", (a, b, c), strict=True)}
        yield Job("gemm", name, row, "gemm", row.ptx[0], inputs, [], k_order=order[::-1] if descending else order)


def _gemm_operand(stream: Stream, fmt: Format, shape: tuple[int, int]) -> np.ndarray:
    if not fmt.is_float:
        return codes(stream.bits(shape), fmt)
    values = build(stream, fmt, stream.between(-4, 1, shape))
    spread = build(stream, fmt, stream.between(-14, 6, shape))
    return np.where(np.arange(shape[0])[:, None] % 3 == 2, spread, values)
