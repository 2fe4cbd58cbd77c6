"""Importer of the public tensor-core sets of github.com/north-numerical-computing/MATLAB-tensor-core.

Rules
 1. Layout: `<card>/<format>/a_<card>_<format>.txt`, `b_...` (hexadecimal words of the float32 value, 4, 8 or 16 a line,
    one dot product's operands) and `c_<card>_fp32.txt`, `d_<card>_fp32.txt`, `d_<card>_fp16.txt` (32-character binary
    words of a float32, one a line). Formats: fp16, bf16, tf32; fp8 folders are not instructions of the table.
 2. Operands become codes of their format; a value that the format does not hold is an error. In the f16-result set the
    addend is c rounded to nearest even to f16, and d is the float32 value of an f16.
 3. Which instruction ran follows from format, result and words a line (`silicon.public_instruction`).
The data is BSD-2-Clause; it is read from the user's checkout and never part of this project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from .. import __version__
from ..errors import RecordingError
from .manifest import Manifest, Row
from .silicon import PUBLIC, public_instruction
from .writer import write

#: folder of the repository -> (architecture, card)
CARDS = {
    "V100": ("sm_70", "NVIDIA V100"),
    "A100": ("sm_80", "NVIDIA A100"),
    "A30": ("sm_80", "NVIDIA A30"),
    "A2": ("sm_86", "NVIDIA A2"),
    "A40": ("sm_86", "NVIDIA A40"),
    "Ada": ("sm_89", "NVIDIA RTX 1000 Ada"),
    "L40S": ("sm_89", "NVIDIA L40S"),
    "H100": ("sm_90", "NVIDIA H100"),
    "H200": ("sm_90", "NVIDIA H200"),
    "B200": ("sm_100", "NVIDIA B200"),
}
FORMATS = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32"}


@dataclass(frozen=True)
class Imported:
    """One written set, and what of its card's folders was left out."""

    path: Path
    results: int
    left_out: tuple[str, ...]


def import_sets(source: Path, out: Path) -> list[Imported]:
    """Convert each card's folder below `source` to `out`/<arch>-<card>-public.npz; errors name file and line."""
    if not source.is_dir():
        raise RecordingError(
            f"{source}: no such folder; clone the repository and name it, or its model_validation folder"
        )
    cards = _cards(source)
    if not cards:
        raise RecordingError(
            f"{source}: no folder here is one of {', '.join(CARDS)} with a_<card>_<format>.txt below it"
        )
    return [_import_card(folder, out) for folder in cards]


def _cards(source: Path) -> list[Path]:
    candidates = [source, *(path for path in (*source.glob("*"), *source.glob("model_validation/*")) if path.is_dir())]
    return [path for path in sorted(candidates) if path.name in CARDS and any(path.glob("*/a_*.txt"))]


def _import_card(folder: Path, out: Path) -> Imported:
    arch, card = CARDS[folder.name]
    arrays: dict[str, np.ndarray] = {}
    rows: list[Row] = []
    left_out = tuple(path.name for path in sorted(folder.iterdir()) if path.is_dir() and path.name not in FORMATS)
    for name, operand in FORMATS.items():
        if (folder / name).is_dir():
            for row, found in _sets(folder / name, folder.name, name, operand):
                rows.append(row)
                arrays.update(found)
    if not rows:
        raise RecordingError(f"{folder}: neither fp16, bf16 nor tf32 with files a, b, c and d in it")
    file = f"{arch.replace('_', '')}-{folder.name.lower()}-public.npz"
    manifest = Manifest(
        file=file, bytes=0, sha256="", arch=arch, card=card, driver="not stated", origin="silicon",
        recorded_by="F. A. Khattak and M. Mikaitis", recorded_on=datetime.now(UTC).date().isoformat(),
        tool=f"phobos-sim {__version__} import matlab-tensor-core", licence="BSD-2-Clause", provenance=PUBLIC, seed=0,
        arrays={}, rows=tuple(rows),
    )  # fmt: skip
    return Imported(write(out, manifest, arrays), sum(row.results for row in rows), left_out)


def _sets(folder: Path, card: str, name: str, operand: str) -> Iterator[tuple[Row, dict[str, np.ndarray]]]:
    """The f32 and, where it is there, the f16 results of one format."""
    factors = [
        _narrow(read_hex(folder / f"{letter}_{card}_{name}.txt"), operand, folder / f"{letter}_{card}_{name}.txt")
        for letter in "ab"
    ]
    addend = read_binary(folder / f"c_{card}_fp32.txt")
    for result in ("f32", "f16"):
        path = folder / f"d_{card}_{'fp32' if result == 'f32' else 'fp16'}.txt"
        if not path.is_file():
            continue
        c, d = addend, read_binary(path)
        if result == "f16":
            c = c.view(np.float32).astype(np.float16).view(np.uint16)
            d = _narrow(d, "f16", path)
        if not len(factors[0]) == len(factors[1]) == len(c) == len(d):
            raise RecordingError(
                f"{folder}: {len(factors[0])}, {len(factors[1])}, {len(c)} and {len(d)} lines in a, b, c and d "
                f"({result} results); the files do not belong together"
            )
        key, width = f"{operand}.{result}", factors[0].shape[1]
        instruction = public_instruction(operand, result, width)
        row = Row(
            instruction,
            instruction,
            "dot",
            f"{operand} to {result}, groups of {width}",
            (f"{key}.a", f"{key}.b", f"{key}.c"),
            f"{key}.d",
            len(d),
            (("near_one", len(d)),),
        )
        yield row, {f"{key}.a": factors[0], f"{key}.b": factors[1], f"{key}.c": c, f"{key}.d": d}


def read_hex(path: Path) -> np.ndarray:
    """Lines of hexadecimal words -> uint32 [lines, words]."""
    lines = [
        [_word(token, 16, path, number) for token in line.replace(",", " ").split()]
        for number, line in enumerate(_lines(path), 1)
        if line.strip()
    ]
    widths = {len(line) for line in lines}
    if len(widths) != 1 or not widths <= {4, 8, 16}:
        raise RecordingError(f"{path}: {sorted(widths)} words a line, expected 4, 8 or 16 on each")
    return np.array(lines, np.uint32)


def read_binary(path: Path) -> np.ndarray:
    """Lines of one 32-digit binary word -> uint32 [lines]."""
    words = [(number, line.strip()) for number, line in enumerate(_lines(path), 1) if line.strip()]
    for number, word in words:
        if not re.fullmatch("[01]{32}", word):
            raise RecordingError(f"{path}:{number}: {word[:40]!r} is not 32 binary digits")
    if not words:
        raise RecordingError(f"{path}: empty")
    return np.array([int(word, 2) for _, word in words], np.uint32)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise RecordingError(f"{path}: cannot be read ({fault})") from None


def _word(token: str, base: int, path: Path, number: int) -> int:
    if not re.fullmatch("(0[xX])?[0-9a-fA-F]{1,8}", token):
        raise RecordingError(f"{path}:{number}: {token[:20]!r} is not a hexadecimal word of at most 8 digits")
    return int(token, base)


def _narrow(words: np.ndarray, operand: str, path: Path) -> np.ndarray:
    """Float32 words -> codes of a narrower format that holds each value exactly."""
    if operand == "f16":
        codes = words.view(np.float32).astype(np.float16).view(np.uint16)
        back = codes.view(np.float16).astype(np.float32).view(np.uint32)
    else:
        dropped = np.uint32(16 if operand == "bf16" else 13)
        back = words >> dropped << dropped
        codes = (words >> dropped).astype(np.uint16) if operand == "bf16" else words
    wrong = np.argwhere((back != words) & ~np.isnan(words.view(np.float32)))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise RecordingError(f"{path}: value {int(words[at]):08x} (line {at[0] + 1}) is no {operand}")
    return codes
