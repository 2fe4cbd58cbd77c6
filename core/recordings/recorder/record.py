"""The recording run: every job on the card, resumable, verified, written file by file.

Rules
 1. A file is written when its last row is done. Results of rows of an unfinished file lie in `<out>/.partial/`, under a
    name that holds a hash of the row's inputs and of the card: an interrupted run goes on where it stopped, a changed
    plan or card starts over.
 2. `verify` runs every row twice and stops at the first code that differs.
 3. Before anything is recorded, each matrix instruction proves its fragment layout with small integers, whose products
    are exact in every architecture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Protocol

import numpy as np

from ... import __version__
from ...errors import RecordingError
from ...isa import Instruction
from ..classes import Stream
from ..corners import Corner
from ..manifest import Manifest, Row
from ..writer import write
from .plan import Job, Sizes, plan

Progress = Callable[[str, int, int], None]


class Recorder(Protocol):
    """What executes jobs: a card through the CUDA driver or through Vulkan."""

    name: str
    capability: int
    driver_version: str

    def supports(self, job: Job) -> str:
        """Empty, or why it cannot run a job."""

    def run(self, job: Job) -> np.ndarray:
        """Output codes of a job; RecordingError if the card refuses it."""

    def describe(self, job: Job) -> str:
        """What was executed, for the manifest."""


@dataclass(frozen=True)
class Who:
    """Who records, and under which licence the result may be used."""

    by: str = "anonymous"
    licence: str = "MIT"
    on: str = ""

    @property
    def date(self) -> str:
        return self.on or datetime.now(UTC).date().isoformat()


@dataclass(frozen=True)
class Recorded:
    """What a run produced: files, rows without a recording (with the reason), rows that the card refused."""

    files: tuple[Path, ...]
    skipped: tuple[tuple[str, str], ...]
    failed: tuple[tuple[str, str], ...]


def record(
    out: Path,
    recorder: Recorder,
    corners: list[Corner],
    *,
    seed: int = 1,
    sizes: Sizes | None = None,
    who: Who | None = None,
    verify: bool = False,
    progress: Progress = lambda *_: None,
) -> Recorded:
    """Record every row the card has into `out`. RecordingError if a layout or a verification fails."""
    jobs, skipped = plan(recorder.capability, seed, sizes or Sizes(), corners)
    reasons = [(job, recorder.supports(job)) for job in jobs]
    skipped += [(f"{job.file}/{job.name}", reason) for job, reason in reasons if reason]
    jobs = [job for job, reason in reasons if not reason]
    if not jobs:
        raise RecordingError(f"{recorder.name} can record nothing: {skipped[-1][1]}")
    check_layouts(recorder, [job for job in jobs if job.kind == "matrix"])
    partial = out / ".partial"
    failed: list[tuple[str, str]] = []
    results: dict[str, list[tuple[Job, np.ndarray]]] = {}
    files: list[Path] = []
    for number, job in enumerate(jobs):
        progress(f"{job.file}: {job.name}", number, len(jobs))
        try:
            result = _run_or_resume(recorder, job, partial, verify)
        except RecordingError as fault:
            if "verification" in str(fault):
                raise
            failed.append((f"{job.file}/{job.name}", str(fault)))
            continue
        results.setdefault(job.file, []).append((job, result))
    for file, done in results.items():
        files.append(_write(out, file, done, recorder, seed, who or Who()))
    progress("done", len(jobs), len(jobs))
    rmtree(partial, ignore_errors=True)
    return Recorded(tuple(files), tuple(skipped), tuple(failed))


def _run_or_resume(recorder: Recorder, job: Job, partial: Path, verify: bool) -> np.ndarray:
    kept = partial / f"{_fingerprint(recorder, job)}.npy"
    if kept.is_file():
        return np.load(kept, allow_pickle=False)  # type: ignore[no-any-return]
    result = recorder.run(job)
    if verify:
        again = recorder.run(job)
        if not np.array_equal(result, again):
            where = np.flatnonzero(result.ravel() != again.ravel())[0]
            raise RecordingError(
                f"verification: {job.name} gave {result.ravel()[where]:x} and then {again.ravel()[where]:x} at "
                f"result {where}; the card or its memory is not reliable, nothing of it was kept"
            )
    partial.mkdir(parents=True, exist_ok=True)
    beside = kept.with_suffix(".new.npy")
    np.save(beside, result, allow_pickle=False)
    beside.replace(kept)
    return result


def _fingerprint(recorder: Recorder, job: Job) -> str:
    digest = hashlib.sha256(
        f"{recorder.name}|{recorder.driver_version}|{job.file}|{job.name}|{job.ptx}|{job.k_order}".encode()
    )
    for name, array in job.inputs.items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def _write(out: Path, file: str, done: list[tuple[Job, np.ndarray]], recorder: Recorder, seed: int, who: Who) -> Path:
    arrays: dict[str, np.ndarray] = {}
    rows = []
    for job, result in done:
        arrays.update(job.inputs)
        arrays[job.output] = result
        rows.append(
            Row(
                job.name,
                job.row.key,
                job.kind,
                recorder.describe(job),
                tuple(job.inputs),
                job.output,
                int(result.size),
                tuple(job.classes),
                tuple(job.labels),
                job.k_order,
            )
        )
    manifest = Manifest(
        file=f"{file}.npz", bytes=0, sha256="", arch=f"sm_{recorder.capability}", card=recorder.name,
        driver=recorder.driver_version, origin="silicon", recorded_by=who.by, recorded_on=who.date,
        tool=f"phobos-sim {__version__} record", licence=who.licence, seed=seed, arrays={}, rows=tuple(rows),
        provenance=f"recorded on this card, one kernel per row; inputs drawn from seed {seed} (docs/recordings.md)",
    )  # fmt: skip
    return write(out, manifest, arrays)


def check_layouts(recorder: Recorder, jobs: list[Job]) -> None:
    """Prove each matrix instruction's fragment layout on the card; RecordingError names one that is wrong."""
    for row in {job.row.key: job.row for job in jobs}.values():
        job, expected = layout_job(row)
        found = recorder.run(job)
        if not np.array_equal(found, expected):
            raise RecordingError(
                f"{row.key}: the fragment layout of this program is not the card's; please report the card"
            )


def layout_job(row: Instruction) -> tuple[Job, np.ndarray]:
    """A tile of small integers (floats: -7 to 7) and its exact product."""
    assert row.shape is not None
    m, n, k = row.shape.m, row.shape.n, row.shape.k
    stream = Stream(0, "layout", row.key)
    low = [0 if f is not None and f.name.startswith("u") else -7 for f in row.operands]
    a, b, c = (stream.between(low[i], 7, s) for i, s in enumerate(((2, m, k), (2, k, n), (2, m, n))))
    product = a @ b + c
    inputs = {
        letter: _integer_codes(values, fmt) for letter, values, fmt in zip("abc", (a, b, c), row.operands, strict=True)
    }
    return Job("layout", row.key, row, "matrix", row.ptx[0], inputs, []), _integer_codes(product, row.result)


def _integer_codes(values: np.ndarray, fmt) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Small integers as codes of a format."""
    if fmt.name == "f16":
        return values.astype(np.float16).view(np.uint16)
    if fmt.is_float:
        wide = values.astype(np.float32).view(np.uint32)
        return (wide >> np.uint32(16)).astype(np.uint16) if fmt.bits == 16 else wide
    return values.astype(np.int64).astype({8: np.uint8, 32: np.uint32}[fmt.bits])
