"""Small recordings for tests: made by the recorder from the reference, as if it were a card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from phobos_sim import isa
from phobos_sim.recordings.manifest import Manifest, Row
from phobos_sim.recordings.recorder.plan import Job, Sizes
from phobos_sim.recordings.recorder.record import Recorded, Who, record
from phobos_sim.recordings.writer import write
from phobos_sim.reference import execute

SMALL = Sizes(scalar=24, integer=12, tiles=2, integer_tiles=2, gemm=128)


class ReferenceCard:
    """A card whose silicon is the reference. change: applied to every result, to make it a faulty one."""

    name = "reference card"
    driver_version = "0"

    def __init__(self, capability: int = 90, change: Callable[[Job, np.ndarray], np.ndarray] | None = None) -> None:
        self.capability = capability
        self.change = change
        self.ran: list[str] = []

    def supports(self, job: Job) -> str:
        return ""

    def describe(self, job: Job) -> str:
        return job.ptx

    def run(self, job: Job) -> np.ndarray:
        self.ran.append(job.name)
        result = self._run(job)
        return self.change(job, result) if self.change else result

    def _run(self, job: Job) -> np.ndarray:
        operands = tuple(job.inputs.values())
        arch = isa.ARCHS[f"sm_{self.capability}"]
        if job.kind == "scalar":
            return np.asarray(execute.apply(job.row, *operands))
        if job.kind == "matrix":
            return execute.mma(job.row, *operands, arch)
        a, b, c = (operand[None] for operand in operands)
        assert job.row.shape is not None
        for tile in job.k_order:
            part = slice(tile * job.row.shape.k, (tile + 1) * job.row.shape.k)
            c = execute.mma(job.row, a[:, :, part], b[:, part], c, arch)
        return c[0]


def recorded(folder: Path, capability: int = 90, **options: object) -> Recorded:
    """A small recording of the reference card."""
    return record(folder, ReferenceCard(capability), [], sizes=SMALL, who=Who("test", on="2026-11-30"), **options)  # type: ignore[arg-type]


def adds(folder: Path, count: int = 40, name: str = "adds.npz") -> Path:
    """A set of one FADD row: raw bits."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 1 << 32, count, dtype=np.uint32) for _ in range(2))
    arrays = {"FADD.in0": a, "FADD.in1": b, "FADD.out": execute.apply(isa.lookup("FADD"), a, b)}
    row = Row("FADD", "FADD", "scalar", "add.rn.f32", ("FADD.in0", "FADD.in1"), "FADD.out", count, (("raw", count),))
    manifest = Manifest(
        file=name,
        bytes=0,
        sha256="",
        arch="sm_86",
        card="made up",
        driver="none",
        origin="derived",
        recorded_by="test",
        recorded_on="2026-11-30",
        tool="test",
        licence="MIT",
        provenance="test",
        seed=5,
        arrays={},
        rows=(row,),
    )
    return write(folder, manifest, arrays)
