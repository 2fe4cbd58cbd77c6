"""Where a dot to be explained can come from: numbers on the command line, an element of arrays in a file, a recording.

Rules
 1. FILE.npz holds a [M, K], b [K, N] and, if there is one, c [M, N] (any case of the names), typed or codes; ``--at
    i,j`` names an element of the product, K being a multiple of the instruction's k.
 2. SET:INSTRUCTION:INDEX is a result of a recording: SET a file (or its name without .npz), INSTRUCTION a row or its
    instruction, INDEX the flat index of the result or the name of a vector. Its architecture is the recording's, and
    what was recorded is compared. FILE.txt:NAME is a corner vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import isa
from ..arrays import read_npz
from ..errors import UsageError
from ..isa import Instruction
from .dispatch import codes_of

if TYPE_CHECKING:
    from ..recordings.loader import Recording
    from ..recordings.manifest import Row


@dataclass(frozen=True)
class Found:
    """An instruction with its operands. arch: the recording's, None where the caller chooses; expected: what was
    recorded.
    """

    instruction: Instruction
    operands: tuple[list[int], ...]
    arch: str | None = None
    expected: int | None = None
    note: str = ""


def is_reference(text: str) -> bool:
    """Whether an argument names a recorded result; no instruction has a colon in its name."""
    return ":" in text


def element(row: Instruction, path: Path, at: str) -> tuple[list[int], ...]:
    """Row i of a, column j of b and element (i, j) of c of an npz file."""
    arrays = {name.lower(): array for name, array in read_npz(path, where=f"--from {path}").items()}
    missing = [name for name in "ab" if name not in arrays]
    if missing:
        held = ", ".join(arrays) or "nothing"
        raise UsageError(
            f"--from {path}: no array {missing[0]!r}; it holds {held}; a [M, K], b [K, N] and c [M, N] are read"
        )
    a, b = arrays["a"], arrays["b"]
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise UsageError(f"--from {path}: a [M, K] and b [K, N] are needed, found {a.shape} and {b.shape}")
    i, j = position(at, (a.shape[0], b.shape[1]))
    c = arrays.get("c")
    if c is not None and c.shape != (a.shape[0], b.shape[1]):
        raise UsageError(f"--from {path}: c is {c.shape}, a b is {(a.shape[0], b.shape[1])}")
    addend = [0] if c is None else codes_of(row, 2, c[i : i + 1, j])
    return codes_of(row, 0, np.ascontiguousarray(a[i])), codes_of(row, 1, np.ascontiguousarray(b[:, j])), addend


def position(text: str, shape: Sequence[int]) -> tuple[int, ...]:
    """``3,5`` inside a shape."""
    try:
        at = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--at {text}: expected numbers such as 3,5") from None
    if len(at) != len(shape) or any(not 0 <= i < extent for i, extent in zip(at, shape)):
        raise UsageError(f"--at {text}: no element of an array of shape {tuple(shape)}")
    return at


def reference(text: str) -> Found:
    """A recorded result or a corner vector."""
    name, _, rest = text.partition(":")
    if name.endswith(".txt"):
        return _corner(_existing(name), rest)
    row_name, _, index = rest.rpartition(":")
    if not row_name:
        raise UsageError(f"{text}: expected SET:INSTRUCTION:INDEX, or FILE.txt:NAME for a corner vector")
    from ..recordings.loader import load

    recording = load(_existing(name))
    row = _row(recording, row_name)
    position = _index(row, index, text)
    operands, expected = _read(recording, row, position)
    fmts = isa.lookup(row.instruction)
    manifest = recording.manifest
    note = f"result {position} of {row.name}, {manifest.card} ({manifest.arch}, {manifest.origin})"
    return Found(fmts, operands, manifest.arch, expected, note)


def _existing(name: str) -> Path:
    from ..recordings import home

    tried = [Path(name), Path(f"{name}.npz"), home() / name, home() / f"{name}.npz"]
    for path in tried:
        if path.is_file():
            return path
    raise UsageError(f"{name}: no such recording; tried {', '.join(map(str, tried))}")


def _corner(path: Path, name: str) -> Found:
    from ..recordings.corners import read

    corners = {corner.name: corner for corner in read(path)}
    if name not in corners:
        raise UsageError(f"{path}: no vector {name!r}; it has {', '.join(corners)}")
    corner = corners[name]
    operands = tuple([int(code) for code in np.ravel(operand)] for operand in corner.operands)
    return Found(corner.instruction, operands, None, None, f"corner vector {name}: {corner.reason}")


def _row(recording: Recording, name: str) -> Row:
    rows = [row for row in recording.manifest.rows if row.name == name]
    rows = rows or [row for row in recording.manifest.rows if row.instruction == name]
    if len(rows) == 1:
        return rows[0]
    listed = ", ".join(row.name for row in (rows or recording.manifest.rows))
    what = f"{len(rows)} rows of {name}; name one:" if rows else f"no row {name!r}; it has"
    raise UsageError(f"{recording.path}: {what} {listed}")


def _index(row: Row, text: str, whole: str) -> int:
    labels = dict(row.labels)
    if text in labels:
        return labels[text]
    if not text.isdigit() or int(text) >= row.results:
        vectors = f", or a vector: {', '.join(labels)}" if labels else ""
        raise UsageError(
            f"{whole}: {text!r} is no result of {row.name}; give a number from 0 to {row.results - 1}{vectors}"
        )
    return int(text)


def _read(recording: Recording, row: Row, index: int) -> tuple[tuple[list[int], ...], int]:
    """Operands along k and the recorded code of one result."""
    for chunk in recording.chunks(row):
        at = index - chunk.first_result
        if not 0 <= at < chunk.output.size:
            continue
        expected = int(chunk.output.reshape(-1)[at])
        inputs = chunk.inputs
        if row.kind == "scalar":
            return tuple([int(x[at])] for x in inputs), expected
        if row.kind == "dot":
            a, b, c = inputs
            return (_ints(a[at]), _ints(b[at]), [int(c[at])]), expected
        where = np.unravel_index(at, chunk.output.shape)
        a, b, c = inputs
        if row.kind == "matrix":
            t, i, j = where
            return (_ints(a[t, i]), _ints(b[t, :, j]), [int(c[t, i, j])]), expected
        i, j = where
        order = _tiles(row)
        return (_ints(a[i][order]), _ints(b[:, j][order]), [int(c[i, j])]), expected
    raise AssertionError((row.name, index))


def _tiles(row: Row) -> np.ndarray[Any, Any]:
    """A gemm row's k in the order in which its tiles were executed."""
    shape = isa.lookup(row.instruction).shape
    assert shape is not None
    return np.concatenate([np.arange(tile * shape.k, (tile + 1) * shape.k) for tile in row.k_order])


def _ints(codes: np.ndarray[Any, Any]) -> list[int]:
    return [int(code) for code in codes]
