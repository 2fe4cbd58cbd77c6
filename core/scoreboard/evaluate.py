"""Scoring: every row of every set, streamed through an engine and compared as codes.

Rules
 1. A row's results are computed in chunks and compared; memory does not grow with the set.
 2. A GEMM row is executed as the recording was: one instruction per k tile, in the recorded order.
 3. Corner vectors in text form are sets of origin ``derived``, except for architectures that their file's ``silicon:``
    line names.
 4. The kill score counts the mutants that differ from at least one recorded result of a row. The share of a correctly
    rounded dot is taken over at most `SAMPLE` results spread over the row.
 5. A file that repeats an earlier one byte for byte is scored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import isa
from ..compare import Comparison, Difference, compare
from ..errors import InexactDeviceError, RecordingError
from ..formats import Codes, dtype_of
from ..isa import Arch, Instruction
from ..recordings import corners as corner_files
from ..recordings import loader
from ..recordings.loader import Recording
from ..recordings.manifest import Row
from . import mutants, rounded
from .engines import Engine, Unsupported

#: Results of a row that the correctly rounded dot is computed for.
SAMPLE = 8192
#: Results of a row that mutants see at once; most are told apart in the first few.
MUTANT_CHUNK = 1 << 15

Progress = Callable[[str, int], None]


@dataclass
class ClassScore:
    """One input class of a row."""

    name: str
    results: int
    equal: int


@dataclass
class RowScore:
    """One instruction of one set."""

    set: str
    row: str
    instruction: str
    kind: str
    arch: str
    card: str
    origin: str
    results: int
    equal: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    first: Difference | None = None
    worst: Difference | None = None
    first_place: str = ""
    first_operands: tuple[str, ...] = ()
    sample_operands: tuple[str, ...] = ()
    sample_code: str = ""
    classes: list[ClassScore] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    rounded: tuple[int, int] | None = None
    maturity: str = ""
    evidence: str = ""
    unavailable: str = ""
    fault: str = ""
    rules: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.unavailable) or self.equal == self.results


@dataclass
class Score:
    """The whole run."""

    engine: str
    rows: list[RowScore] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(row.passed for row in self.rows)

    @property
    def results(self) -> int:
        return sum(row.results for row in self.rows if not row.unavailable)

    @property
    def equal(self) -> int:
        return sum(row.equal for row in self.rows)


@dataclass(frozen=True)
class Options:
    """arch: only sets of this one. under: use another architecture's rules than the set's own. kill: kill score too."""

    arch: str | None = None
    under: str | None = None
    kill: bool = True
    instruction: str | None = None


def score(
    paths: list[Path], engine: Engine, options: Options | None = None, progress: Progress = lambda *_: None
) -> Score:
    """Score sets (npz files, folders, corner text files) against an engine. RecordingError for a damaged set."""
    options = options or Options()
    outcome = Score(engine.name)
    archives, texts = split_paths(paths)
    seen: dict[str, str] = {}
    recordings = []
    for path in archives:  # every set is checked before anything is computed
        recording = loader.load(path)
        earlier = seen.setdefault(recording.manifest.sha256, recording.name)
        if earlier != recording.name:
            outcome.duplicates.append((recording.name, earlier))
        elif options.arch in (None, recording.manifest.arch):
            recordings.append(recording)
    vectors = [(path, corner_files.read(path)) for path in texts]
    for recording in recordings:
        outcome.rows += _score_recording(recording, engine, options, progress)
    for path, found in vectors:
        outcome.rows += _score_corners(path, found, engine, options, progress)
    if not outcome.rows:
        raise RecordingError(
            f"nothing to score: no row of {', '.join(map(str, paths))} is left "
            f"(arch {options.arch or 'any'}, instruction {options.instruction or 'any'})"
        )
    return outcome


def split_paths(paths: list[Path]) -> tuple[list[Path], list[Path]]:
    """(npz files, corner text files) named by files and folders."""
    archives: list[Path] = []
    texts: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.txt")) + sorted(path.glob("*/*.txt"))
            texts += inside
            if not inside or any(path.glob("*.npz")) or any(path.glob("*/*.npz")):
                archives += loader.find([path])
        elif path.suffix == ".txt":
            texts.append(path)
        else:
            archives += loader.find([path])
    return archives, texts


def count(paths: list[Path]) -> int:
    """Results in all sets, for a progress bar; sets are not checked."""
    return sum(row.results for path in split_paths(paths)[0] for row in loader.manifest_of(path).rows)


def _score_recording(recording: Recording, engine: Engine, options: Options, progress: Progress) -> Iterator[RowScore]:
    own = recording.manifest.arch
    arch = _arch(options.under or own)
    for row in recording.manifest.rows:
        instruction = isa.lookup(row.instruction)
        if options.instruction and options.instruction not in (row.name, instruction.key, *instruction.ptx):
            continue
        found = RowScore(
            recording.name,
            row.name,
            instruction.key,
            row.kind,
            own,
            recording.manifest.card,
            recording.manifest.origin,
            row.results,
        )
        _evidence(found, instruction, arch)
        try:
            _run_row(found, recording, row, instruction, arch, engine, progress)
            if options.kill and row.kind != "gemm":
                _kill(found, recording, row, instruction, _arch(own))
                _rounded_share(found, recording, row, instruction)
        except InexactDeviceError as fault:  # the device has it and gives other bits: nothing is equal
            found.fault = str(fault)
            progress(found.row, found.results)
        except Unsupported as fault:
            found.unavailable = str(fault)
            progress(found.row, found.results - sum(c.results for c in found.classes))
        yield found


def _arch(name: str) -> Arch:
    if name not in isa.ARCHS:
        raise RecordingError(f"no rules for {name}; known are {', '.join(isa.ARCHS)}")
    return isa.ARCHS[name]


def _evidence(found: RowScore, instruction: Instruction, arch: Arch) -> None:
    found.rules = arch.name
    evidence = instruction.evidence.get(arch.name) or (arch.evidence if instruction.family == "tensor" else None)
    if evidence:
        found.maturity, found.evidence = evidence.maturity, evidence.text


def natural(
    row: Row, instruction: Instruction, arrays: tuple[Codes, ...], output: Codes
) -> tuple[tuple[Codes, ...], Codes]:
    """A chunk in the shapes and widths that `sim.execute` takes; RecordingError where a word has more bits."""
    narrow = tuple(_narrow(codes, fmt, row) for codes, fmt in zip(arrays, instruction.operands))
    result = _narrow(output, instruction.result, row)
    if row.kind == "dot":
        a, b, c = narrow
        return (a[:, None, :], b[:, :, None], c[:, None, None]), result[:, None, None]
    return narrow, result


def _narrow(codes: Codes, fmt: Any, row: Row) -> Codes:
    if fmt is None or codes.dtype == dtype_of(fmt):
        return codes
    narrow = codes.astype(dtype_of(fmt))
    back = narrow.astype(codes.dtype)
    if fmt.kind == "signed":  # a register holds a narrow signed integer sign-extended
        wide = narrow.view(f"int{fmt.bits}").astype(f"int{8 * codes.dtype.itemsize}").view(codes.dtype)
        back = np.where(codes == wide, wide, back)
    if (back != codes).any():
        raise RecordingError(f"row {row.name}: word {int(codes[back != codes][0]):x} does not fit {fmt.name}")
    return narrow


def execute(engine: Engine, row: Row, instruction: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
    """A chunk through the engine; a GEMM as one instruction per k tile."""
    if row.kind != "gemm":
        return engine(instruction, arch, operands)
    a, b, c = (codes[None] for codes in operands)
    assert instruction.shape is not None
    k = instruction.shape.k
    for tile in row.k_order:
        part = slice(tile * k, tile * k + k)
        c = engine(instruction, arch, (np.ascontiguousarray(a[:, :, part]), np.ascontiguousarray(b[:, part]), c))
    return np.asarray(c[0])


def _run_row(
    found: RowScore,
    recording: Recording,
    row: Row,
    instruction: Instruction,
    arch: Arch,
    engine: Engine,
    progress: Progress,
) -> None:
    total = Comparison(0, 0)
    equal_per_class: dict[str, list[int]] = {}
    for chunk in recording.chunks(row):
        operands, expected = natural(row, instruction, chunk.inputs, chunk.output)
        actual = np.asarray(execute(engine, row, instruction, arch, operands))
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            raise RecordingError(
                f"{engine.name} answered {row.name} with {actual.dtype} {actual.shape}, "
                f"expected {expected.dtype} {expected.shape}"
            )
        part = compare(actual, expected, instruction.result, offset=chunk.first_result)
        if part.first is not None and total.first is None:
            found.first_place, found.first_operands = _place(
                row, part.first, chunk.first_result, operands, expected.shape
            )
        total = total + part
        _count_classes(row, chunk.start, actual == expected, equal_per_class)
        progress(found.row, expected.size)
    found.equal, found.counts, found.first, found.worst = total.equal, total.counts, total.first, total.worst
    found.classes = [ClassScore(name, *numbers) for name, numbers in equal_per_class.items()]


def _count_classes(row: Row, start: int, equal: Any, totals: dict[str, list[int]]) -> None:
    """Add a chunk's results to the classes they belong to."""
    if not row.classes:
        return
    position = 0
    for name, units in row.classes:
        low, high = max(position, start), min(position + units, start + len(equal))
        position += units
        if low < high:
            part = equal[low - start : high - start]
            entry = totals.setdefault(name, [0, 0])
            entry[0] += part.size
            entry[1] += int(part.sum())


def _place(
    row: Row, first: Difference, offset: int, operands: tuple[Codes, ...], shape: tuple[int, ...]
) -> tuple[str, tuple[str, ...]]:
    """Where the first difference lies, in words, and the operands of that one result in hexadecimal."""
    label = next((name for name, index in row.labels if index == first.index), "")
    index = np.unravel_index(first.index - offset, shape)
    if row.kind == "scalar":
        values: tuple[Codes, ...] = tuple(operand[index] for operand in operands)
        where = f"element {first.index}"
    elif row.kind == "gemm":
        a, b, c = operands
        values, where = (a[index[0]], b[:, index[1]], c[index]), f"row {index[0]}, column {index[1]}"
    else:
        a, b, c = operands
        tile, m, n = index
        values = (a[tile, m], b[tile, :, n], c[index])
        where = f"tile {first.index // int(np.prod(shape[1:]))}, row {m}, column {n}"
    return (f"vector {label}, {where}" if label else where), _words(values)


def _words(values: tuple[Codes, ...]) -> tuple[str, ...]:
    """Operands of one result as the explain verb takes them."""
    return tuple(",".join(f"0x{int(v):0{2 * value.dtype.itemsize}x}" for v in np.ravel(value)) for value in values)


def _kill(found: RowScore, recording: Recording, row: Row, instruction: Instruction, arch: Arch) -> None:
    """Which mutants of the set's own architecture the row tells from the truth."""
    listed = mutants.of(instruction, arch)
    alive = {mutant.name: mutant for mutant in listed}
    for chunk in recording.chunks(row, MUTANT_CHUNK):
        operands, expected = natural(row, instruction, chunk.inputs, chunk.output)
        for name, mutant in list(alive.items()):
            if (mutant.run(instruction, arch, operands) != expected).any():
                del alive[name]
        if not alive:
            break
    found.killed = [mutant.name for mutant in listed if mutant.name not in alive]
    found.survivors = list(alive)


def _rounded_share(found: RowScore, recording: Recording, row: Row, instruction: Instruction) -> None:
    """(equal, sampled) of a correctly rounded dot, for floating tensor-core rows, and the first result that differs."""
    if instruction.family != "tensor":
        return
    operand, result = str(instruction.keywords["operand"]), str(instruction.keywords["result"])
    stride = max(1, row.results // SAMPLE)
    equal = sampled = 0
    for chunk in recording.chunks(row, MUTANT_CHUNK):
        (a, b, c), expected = natural(row, instruction, chunk.inputs, chunk.output)
        a, b, c, expected = (part[::stride] for part in (a, b, c, expected))
        same = rounded.dot(a, b, c, operand, result) == expected
        equal += int(same.sum())
        sampled += expected.size
        if not same.all() and not found.sample_code:
            tile, m, n = (int(i) for i in np.argwhere(~same)[0])
            found.sample_operands = _words((a[tile, m], b[tile, :, n], c[tile, m, n]))
            found.sample_code = f"0x{int(expected[tile, m, n]):0{2 * expected.dtype.itemsize}x}"
    found.rounded = equal, sampled


def _score_corners(
    path: Path, found: list[corner_files.Corner], engine: Engine, options: Options, progress: Progress
) -> Iterator[RowScore]:
    """Text vectors: one row per instruction and architecture."""
    measured = silicon_of(path)
    keys = {(corner.instruction.key, arch) for corner in found for arch in corner.expected}
    for key, own in sorted(keys):
        instruction = isa.lookup(key)
        if options.arch not in (None, own) or (
            options.instruction and options.instruction not in (key, *instruction.ptx)
        ):
            continue
        mine = [corner for corner in found if corner.instruction.key == key and own in corner.expected]
        origin, card = ("silicon", "H200") if own in measured else ("derived", "rules")
        arch = _arch(options.under or own)
        row = RowScore(f"{path.parent.name}/{path.stem}", key, key, "corners", own, card, origin, len(mine))
        _evidence(row, instruction, arch)
        try:
            _run_corners(row, mine, instruction, own, arch, engine, options.kill)
        except InexactDeviceError as fault:
            row.fault = str(fault)
        except Unsupported as fault:
            row.unavailable = str(fault)
        progress(key, 0)
        yield row


def _run_corners(
    row: RowScore,
    mine: list[corner_files.Corner],
    instruction: Instruction,
    own: str,
    arch: Arch,
    engine: Engine,
    kill: bool,
) -> None:
    assert instruction.result is not None
    expected = np.array([corner.expected[own] for corner in mine], dtype_of(instruction.result))
    operands = tuple(np.concatenate([corner.batch()[i] for corner in mine]) for i in range(len(instruction.operands)))
    actual = np.asarray(engine(instruction, arch, operands)).reshape(-1)
    outcome = compare(actual, expected, instruction.result)
    row.equal, row.counts, row.first, row.worst = outcome.equal, outcome.counts, outcome.first, outcome.worst
    row.classes = [ClassScore("corners", len(mine), outcome.equal)]
    if outcome.first is not None:
        corner = mine[outcome.first.index]
        row.first_place = f"vector {corner.name}: {corner.reason}"
        row.first_operands = _words(corner.operands)
    if kill:
        right = isa.ARCHS[own]
        for mutant in mutants.of(instruction, right):
            wrong = np.asarray(mutant.run(instruction, right, operands)).reshape(-1)
            (row.killed if (wrong != expected).any() else row.survivors).append(mutant.name)


def silicon_of(path: Path) -> tuple[str, ...]:
    """Architectures whose results in a corner file were measured, by its line ``# silicon: sm_90``."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("# silicon:"):
            return tuple(line.split(":", 1)[1].replace(",", " ").split())
    return ()
