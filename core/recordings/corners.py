"""Corner vectors: small inputs with a reason, as text that people review.

One vector a line: ``id instruction a=CODES b=CODES c=CODE ARCH=RESULT ... # reason``. For a matrix instruction a line
is one output element and `a`, `b` are codes along k (``0c00*2`` repeats, ``0c00@8`` puts at k = 8, unnamed positions
are +0, ``-`` names none); for others `a`, `b`, `c` are one code each. Files: ``recordings/corners/*.txt``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import isa
from ..errors import RecordingError
from ..formats import Codes
from ..isa import Instruction

_OPERANDS = ("a", "b", "c")


@dataclass(frozen=True)
class Corner:
    """One vector. operands: code arrays, [k] for the multiplicands of a matrix instruction, else []."""

    name: str
    instruction: Instruction
    operands: tuple[Codes, ...]
    expected: dict[str, int]
    reason: str

    def batch(self) -> tuple[Codes, ...]:
        """The operands as `sim.execute` takes them: a [1, 1, k], b [1, k, 1], c [1, 1, 1], or one element each."""
        if not self.instruction.is_matrix:
            return tuple(operand.reshape(1) for operand in self.operands)
        a, b, c = self.operands
        return a[None, None, :], b[None, :, None], c.reshape(1, 1, 1)


def read(path: str | Path) -> list[Corner]:
    """All vectors of one file; RecordingError names file, line and fault."""
    corners: list[Corner] = []
    seen: set[str] = set()
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise RecordingError(f"{path}: not a text file of corner vectors (docs/recordings.md)") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            corner = parse(line)
        except (ValueError, LookupError) as fault:
            raise RecordingError(f"{path}:{number}: {fault}") from None
        if corner.name in seen:
            raise RecordingError(f"{path}:{number}: vector {corner.name} is there twice")
        seen.add(corner.name)
        corners.append(corner)
    return corners


def parse(line: str) -> Corner:
    """One line; ValueError or LookupError says what is wrong."""
    text, mark, reason = line.partition("#")
    words = text.split()
    if not mark or not reason.strip():
        raise ValueError("a vector needs its reason behind a #")
    if len(words) < 4:
        raise ValueError("expected: id instruction a=... c=... ARCH=RESULT # reason")
    name, mnemonic, *assignments = words
    instruction = isa.lookup(mnemonic)
    values = dict(_assignment(word) for word in assignments)
    if len(values) != len(assignments):
        raise ValueError("an operand or architecture is given twice")
    arity = len(instruction.operands)
    operands = tuple(_operand(instruction, i, values.pop(letter)) for i, letter in enumerate(_OPERANDS[:arity]))
    unknown = sorted(set(values) - set(isa.ARCHS))
    if unknown:
        raise ValueError(f"unknown architecture or operand {', '.join(unknown)}")
    assert instruction.result is not None
    expected = {arch: _code(word, instruction.result.bits) for arch, word in values.items()}
    if not expected:
        raise ValueError("no architecture has a result")
    return Corner(name, instruction, operands, expected, reason.strip())


def _assignment(word: str) -> tuple[str, str]:
    key, mark, value = word.partition("=")
    if not mark or not value:
        raise ValueError(f"{word!r} is not NAME=CODES")
    return key, value


def _code(word: str, bits: int) -> int:
    try:
        code = int(word, 16)
    except ValueError:
        raise ValueError(f"{word!r} is no hexadecimal code") from None
    if code >> bits:
        raise ValueError(f"{word} does not fit {bits} bits")
    return code


def _operand(instruction: Instruction, position: int, text: str) -> Codes:
    fmt = instruction.operands[position]
    assert fmt is not None
    if instruction.shape is None or position == 2:
        return np.array(_code(text, fmt.bits), fmt.dtype)
    codes = np.zeros(instruction.shape.k, fmt.dtype)
    at = 0
    for item in text.split(",") if text != "-" else ():
        item, mark, place = item.partition("@")
        at = int(place) if mark else at
        word, mark, count = item.partition("*")
        end = at + (int(count) if mark else 1)
        if end > len(codes) or at < 0:
            raise ValueError(f"{item} leaves k = 0 to {len(codes) - 1}")
        codes[at:end] = _code(word, fmt.bits)
        at = end
    return codes
