"""The recorder: its plan, its PTX for every capability, resuming, verifying, and what it refuses to write."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import cli, tool
from phobos_sim import isa
from phobos_sim.cli import record as verb
from phobos_sim.errors import RecordingError, UnavailableError
from phobos_sim.formats import FORMATS
from phobos_sim.gpu.cooperative_tile import tile_module
from phobos_sim.recordings import corners, home, loader
from phobos_sim.recordings.recorder import record as record_module
from phobos_sim.recordings.recorder.driver import Driver, DriverError, _patched
from phobos_sim.recordings.recorder.mma_ptx import Fragment, gemm_kernel, layout, tile_kernel
from phobos_sim.recordings.recorder.plan import Job, Sizes, plan
from phobos_sim.recordings.recorder.record import check_layouts, layout_job, record
from phobos_sim.recordings.recorder.scalar_ptx import bodies, body_for, kernel
from phobos_sim.scoreboard.engines import Simulator
from phobos_sim.scoreboard.evaluate import Options, score
from phobos_sim.scoreboard.report import headline
from recording_samples import SMALL, ReferenceCard, recorded

MATRIX = [row for row in isa.INSTRUCTIONS if row.is_matrix]
SCALAR = [row for row in isa.INSTRUCTIONS if not row.is_matrix]


def vectors() -> list[corners.Corner]:
    return [corner for path in sorted((home() / "corners").glob("*.txt")) for corner in corners.read(path)]


def test_every_row_has_a_body_of_its_own_formats() -> None:
    used = set()
    for row in SCALAR:
        found = body_for((row.key, *row.ptx), 90)
        assert found is not None, f"{row.key} cannot be recorded"
        _, body = found
        used |= {spelling for spelling in (row.key, *row.ptx) if spelling in bodies()}
        wanted = [fmt.name if fmt else name for fmt, name in zip(row.operands, body.operands)]
        assert list(body.operands) == wanted, row.key
        assert row.result is None or body.result == row.result.name, row.key
    assert set(bodies()) == used, f"bodies without a row: {sorted(set(bodies()) - used)}"


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.key)
def test_fragments_hold_every_element(row: isa.Instruction) -> None:
    assert row.shape is not None
    found = layout(row)
    m, n, k = row.shape.m, row.shape.n, row.shape.k
    for fragment, shape in ((found.a, (m, k)), (found.b, (k, n)), (found.c, (m, n))):
        seen = np.zeros(shape, int)
        np.add.at(seen, (fragment.rows, fragment.columns), 1)
        assert seen.min() == seen.max() > 0  # m8n8k4 holds each element once per quad pair
    rng = np.random.default_rng(1)
    tiles = rng.integers(0, 1 << found.c.bits, (3, m, n), dtype=np.uint64).astype(f"u{found.c.bits // 8}")
    assert np.array_equal(found.c.unpack(found.c.pack(tiles), (m, n)), tiles)


def _assembles(text: str, capability: int, folder: Path) -> None:
    source = folder / "kernel.ptx"
    source.write_text(text)
    done = subprocess.run(
        ["ptxas", f"-arch=sm_{capability}", str(source), "-o", str(folder / "kernel.cubin")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"sm_{capability}: {done.stderr}\n{text}"


@pytest.mark.parametrize("capability", [75, 80, 86, 89, 90, 120])
def test_the_ptx_assembles(capability: int, tmp_path: Path) -> None:
    """One module with a kernel per row: what ptxas is asked for would take minutes kernel by kernel."""
    if shutil.which("ptxas") is None:
        pytest.skip("CUDA: no ptxas on PATH (a CUDA toolkit; no card is needed)")
    kernels = []
    for row in SCALAR:
        found = body_for((row.key, *row.ptx), capability)
        if found and row.since <= capability:
            kernels.append(kernel(f"scalar{len(kernels)}", found[1], capability))
    for row in MATRIX:
        if row.since <= capability <= row.until:
            kernels += [tile_kernel(f"tile{len(kernels)}", row, capability)]
            kernels += [gemm_kernel(f"gemm{len(kernels)}", row, capability).replace("LOOP", f"LOOP{len(kernels)}")]
    assert len(kernels) > 150
    head, bodies_only = "\n".join(kernels[0].splitlines()[:3]), ["\n".join(text.splitlines()[3:]) for text in kernels]
    _assembles("\n".join([head, *bodies_only]), capability, tmp_path)


def test_the_plan_names_what_it_leaves_out() -> None:
    jobs, skipped = plan(86, 1, SMALL, [])
    planned = {job.row.key for job in jobs}
    assert planned | {name for name, _ in skipped} == {row.key for row in isa.INSTRUCTIONS}
    assert ("HMMA.884.F32", "sm_86 does not have it") in skipped
    assert all("PTX body" in reason or "does not have it" in reason for _, reason in skipped)


def test_a_recording_holds_every_corner_vector(tmp_path: Path) -> None:
    done = record(tmp_path, ReferenceCard(), vectors(), sizes=SMALL)
    held = {
        label: loader.load(path)
        for path in done.files
        for row in loader.manifest_of(path).rows
        for label, _ in row.labels
    }
    assert set(held) == {corner.name for corner in vectors() if corner.instruction.since <= 90}
    recording = next(loader.load(path) for path in done.files if path.stem == "corners")
    known = {corner.name: corner for corner in vectors()}
    checked = 0
    for row in recording.manifest.rows:
        output = np.concatenate([chunk.output.ravel() for chunk in recording.chunks(row)])
        for label, index in row.labels:
            if "sm_90" in known[label].expected:
                assert int(output[index]) == known[label].expected["sm_90"], label
                checked += 1
    assert checked > 50


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    stopped = ReferenceCard()
    whole = recorded(tmp_path / "whole")

    def pull_the_plug(job: Job, result: np.ndarray) -> np.ndarray:
        if len(stopped.ran) > 60:
            raise KeyboardInterrupt
        return result

    stopped.change = pull_the_plug
    with pytest.raises(KeyboardInterrupt):
        record(tmp_path / "broken", stopped, [], sizes=SMALL)
    assert not list((tmp_path / "broken").glob("*.npz"))
    second = ReferenceCard()
    record(tmp_path / "broken", second, [], sizes=SMALL)
    assert 0 < len(second.ran) <= len(plan(90, 1, SMALL, [])[0]) + len(MATRIX) - 22
    for path in whole.files:
        assert (tmp_path / "broken" / path.name).read_bytes() == path.read_bytes()
    assert not (tmp_path / "broken" / ".partial").exists()


def test_verify_stops_at_an_unreliable_card(tmp_path: Path) -> None:
    runs: dict[str, int] = {}

    def flaky(job: Job, result: np.ndarray) -> np.ndarray:
        runs[job.name] = runs.get(job.name, 0) + 1
        if job.name == "FMUL" and runs[job.name] == 2:
            result = result.copy()
            result[7] ^= 1
        return result

    with pytest.raises(RecordingError, match="verification: FMUL gave .* at result 7"):
        record(tmp_path, ReferenceCard(change=flaky), [], sizes=SMALL, verify=True)
    runs.clear()
    record(tmp_path / "once", ReferenceCard(change=flaky), [], sizes=SMALL)
    assert runs["FMUL"] == 1


def test_a_wrong_layout_is_found_before_anything_is_recorded() -> None:
    row = isa.lookup("HMMA.16816.F32")
    check_layouts(ReferenceCard(), [layout_job(row)[0]])

    def swapped(job: Job, result: np.ndarray) -> np.ndarray:
        return result[:, [8, *range(1, 8), 0, *range(9, 16)]]

    with pytest.raises(RecordingError, match="fragment layout"):
        check_layouts(ReferenceCard(change=swapped), [layout_job(row)[0]])


def test_rows_that_a_card_refuses_are_listed_and_the_rest_is_kept(tmp_path: Path) -> None:
    def refuse(job: Job, result: np.ndarray) -> np.ndarray:
        if job.name == "MUFU.SIN":
            raise DriverError("the constant occurs 0 times")
        return result

    done = record(tmp_path, ReferenceCard(change=refuse), [], sizes=SMALL)
    assert done.failed == (("mufu/MUFU.SIN", "the constant occurs 0 times"),)
    rows = {row.name for path in done.files for row in loader.manifest_of(path).rows}
    assert "MUFU.COS" in rows and "MUFU.SIN" not in rows


def test_a_constant_is_replaced_once_or_not_at_all() -> None:
    image = b"head" + (0x3E22F983).to_bytes(4, "little") + b"tail"
    assert _patched(image, 0x3E22F983, 0x3F800000) == b"head" + (0x3F800000).to_bytes(4, "little") + b"tail"
    with pytest.raises(DriverError, match="occurs 0 times"):
        _patched(b"nothing", 0x3E22F983, 1)
    with pytest.raises(DriverError, match="occurs 2 times"):
        _patched(image + image, 0x3E22F983, 1)


def test_without_a_driver_the_message_says_what_is_missing() -> None:
    try:
        Driver()
    except DriverError:
        pytest.skip("CUDA: a driver is here, but no card answers")
    except UnavailableError as fault:
        assert "libcuda.so.1 was not found" in str(fault) and fault.exit_status == 4
    else:
        pytest.skip("CUDA: a driver is here, so its absence cannot be tested")


def test_gemms_differ_with_the_order_of_k(tmp_path: Path) -> None:
    jobs = {job.name: job for job in plan(90, 1, Sizes(), [])[0] if job.kind == "gemm"}
    job = jobs["HMMA.16816.F32@64x64x256-descending"]
    ascending = Job(job.file, job.name, job.row, job.kind, job.ptx, job.inputs, [], k_order=job.k_order[::-1])
    card = ReferenceCard()
    assert (card.run(job) != card.run(ascending)).any()
    assert max(max(j.inputs[f"{j.name}.a"].shape) for j in jobs.values()) == 256


@pytest.mark.parametrize("key", ["HMMA.16816.F32", "HMMA.1688.F16", "IMMA.16832.U8.S8.SAT", "IMMA.8816.S8.S8"])
def test_cooperative_matrix_modules_are_valid(key: str, tmp_path: Path) -> None:
    validator = tool("spirv-val")
    module = tmp_path / "tile.spv"
    module.write_bytes(tile_module(isa.lookup(key)))
    done = subprocess.run([validator, "--target-env", "vulkan1.2", str(module)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_fragment_packing_puts_the_first_element_lowest() -> None:
    fragment = Fragment(np.zeros((32, 2), int), np.tile(np.arange(2), (32, 1)), 16)
    words = fragment.pack(np.array([[[0x1111, 0x2222]]], np.uint16))
    assert words.shape == (1, 32, 1) and int(words[0, 0, 0]) == 0x22221111
    assert FORMATS["f16"].bits == fragment.bits


class Opened(ReferenceCard):
    """A card as the verb opens one."""

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""


def test_the_verb_writes_one_file_to_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "open_recorder", lambda *_: Opened(86))
    monkeypatch.setattr(record_module, "Sizes", lambda: SMALL)
    out = tmp_path / "my-card"
    verb.command(out=out, by="someone", json=str(tmp_path / "out.json"))
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["arch"] == "sm_86" and not told["failed"] and len(told["files"]) == 11
    with zipfile.ZipFile(tmp_path / "my-card.zip") as archive:
        archive.extractall(tmp_path / "sent")
    for path in loader.find([tmp_path / "sent" / "my-card"]):
        assert loader.load(path).manifest.recorded_by == "someone"
    done = score([tmp_path / "sent" / "my-card"], Simulator("reference"), Options(kill=False))
    assert done.passed, headline(done)


def test_the_verb_without_a_card_exits_with_4(tmp_path: Path) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("CUDA: a card is here, so its absence cannot be tested")
    done = cli("record", "--out", tmp_path / "x")
    assert done.returncode == 4 and "libcuda.so.1 was not found" in done.stderr
    assert cli("record", "--out", tmp_path / "x", "--via", "smoke").returncode == 2
    assert not (tmp_path / "x").exists()
