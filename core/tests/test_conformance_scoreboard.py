"""The scoreboard on real recordings: what is equal, what a wrong constant breaks, and what each set cannot see."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import SHARED, cli, llvmpipe, shared, swiftshader
from phobos_sim import formats, isa
from phobos_sim.errors import RecordingError
from phobos_sim.recordings import home
from phobos_sim.reference import execute
from phobos_sim.scoreboard import evaluate, report
from phobos_sim.scoreboard.engines import Function, Simulator
from phobos_sim.scoreboard.evaluate import Options, score

H200 = home() / "sm90-h200"
FAMILIES = (
    "convert",
    "corners",
    "double",
    "gemm",
    "half",
    "integer",
    "integer_tensor",
    "mufu",
    "sequences",
    "single",
    "tensor",
)


def h200(name: str) -> Path:
    path = H200 / f"{name}.npz"
    if not path.exists():
        pytest.skip("recordings: no sm90-h200 in this checkout")
    return path


def failures(outcome: evaluate.Score) -> str:
    return "\n".join([report.headline(outcome), *report.failures(outcome)])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_h200_recording_equals_the_reference(name: str) -> None:
    outcome = score([h200(name)], Simulator("reference"), Options(kill=False))
    assert outcome.passed, failures(outcome)


@pytest.mark.device
@pytest.mark.parametrize("name", FAMILIES)
def test_the_h200_recording_equals_lavapipe(name: str) -> None:
    outcome = score([h200(name)], Simulator(llvmpipe()), Options(kill=False))
    assert outcome.passed, failures(outcome)


@pytest.mark.device
def test_the_recordings_equal_swiftshader() -> None:
    """Rows of 64-bit formats are not available there; every other one is equal."""
    sets = [home(), *([SHARED / "silicon"] if (SHARED / "silicon").is_dir() else [])]
    icd = swiftshader()
    done = cli("score", *sets, "--device", "vulkan:swiftshader", "--no-kill", "--json", "-", timeout=400,
               VK_DRIVER_FILES=icd, VK_ICD_FILENAMES=icd)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rows = json.loads(done.stdout)["rows"]
    missing = {row["row"] for row in rows if row["unavailable"]}
    assert "SwiftShader" in json.loads(done.stdout)["engine"] and len(rows) > 300
    assert all("64" in name or name.startswith("D") for name in missing), missing


def test_the_public_and_recorded_sets_equal_the_reference() -> None:
    outcome = score([shared("silicon")], Simulator("reference"), Options(kill=False))
    assert outcome.passed, failures(outcome)
    assert outcome.duplicates == [("silicon/sm89-l40s-public", "silicon/sm89-ada-public")]
    assert outcome.results == 1_447_400


@pytest.mark.device
def test_the_public_and_recorded_sets_equal_lavapipe() -> None:
    outcome = score([shared("silicon")], Simulator(llvmpipe()), Options(kill=False))
    assert outcome.passed, failures(outcome)


def test_corner_vectors_equal_the_reference() -> None:
    outcome = score([home() / "corners"], Simulator("reference"))
    assert outcome.passed, failures(outcome)
    origins = {(row.set, row.arch): row.origin for row in outcome.rows}
    assert origins["corners/hmma", "sm_90"] == "silicon" and origins["corners/hmma", "sm_86"] == "derived"


# --- a wrong record is found, and the report says by what ------------------------------------------------------------

CHANGES = {
    "fraction_bits less": {"fraction_bits": 23, "floor_f32": -131, "floor_f16": -19},
    "fraction_bits more": {"fraction_bits": 25, "floor_f32": -133, "floor_f16": -21},
    "width16": {"width16": 16},
    "width_k8": {"width_k8": 4},
    "width_tf32": {"width_tf32": 8},
    "width_tf32_k4": {"width_tf32_k4": 2},
    "floor_f32": {"floor_f32": -126},
    "floor_f32 one higher": {"floor_f32": -131},
    "floor_f32 one lower": {"floor_f32": -133},
    "floor_f16": {"floor_f16": -14},
    "floor_f16 one higher": {"floor_f16": -19},
    "floor_f16 one lower": {"floor_f16": -21},
}


def wrong_arch(**changes: int) -> isa.Arch:
    """A changed record; its own checks would refuse some of these."""
    wrong = object.__new__(isa.Arch)
    for name in isa.Arch.__dataclass_fields__:
        object.__setattr__(wrong, name, changes.get(name, getattr(isa.SM86, name)))
    return wrong


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_constant_of_sm_86_is_found(change: str) -> None:
    wrong = wrong_arch(**CHANGES[change])

    def engine(name: str, arch: str, *codes: np.ndarray) -> np.ndarray:
        row = isa.lookup(name)
        return execute.mma(row, *codes, wrong) if row.family == "tensor" else execute.apply(row, *codes)

    sets = [home() / "corners", shared("silicon", "sm86-a2-public.npz")]
    outcome = score(sets, Function("changed record", engine), Options(arch="sm_86", kill=False))
    assert not outcome.passed
    found = {row.origin for row in outcome.rows if not row.passed}
    on_silicon = change.startswith(("fraction", "width_k8", "width_tf32_k4"))
    assert ("silicon" in found) == on_silicon, f"{change}: {found}"
    text = report.headline(outcome)
    assert f"{sum(not row.passed for row in outcome.rows)} rows differ" in text and "derived from the rules" in text
    assert report.to_json(outcome)["passed"] is False


RULES = (
    "nearest even at the end",
    "truncation at the end",
    "negative zero kept",
    "NaN payload of the addend kept",
    "NaN is quiet, without payload",
    "groups in descending order",
    "zero products set the exponent",
    "infinity times zero is ignored",
    "opposite infinities are no NaN",
)


@pytest.mark.parametrize("name", RULES)
def test_a_changed_rule_is_found_by_the_corner_vectors(name: str) -> None:
    from phobos_sim.scoreboard import mutants

    found = {mutant.name: mutant for mutant in mutants.TENSOR}[name]

    def engine(key: str, arch: str, *codes: np.ndarray) -> np.ndarray:
        row, record = isa.lookup(key), isa.ARCHS[arch]
        if row.family == "tensor":
            return found.run(row, record, codes) if found.applies(row, record) else execute.mma(row, *codes, record)
        return execute.mma(row, *codes) if row.is_matrix else execute.apply(row, *codes)

    outcome = score([home() / "corners" / "hmma.txt"], Function(name, engine), Options(arch="sm_86", kill=False))
    assert not outcome.passed
    assert all(row.first_place.startswith("vector ") for row in outcome.rows if not row.passed)


@pytest.mark.parametrize(
    "name, position",
    [*(("HMMA.16816.F32", i) for i in range(3)), *(("HMMA.16816.F16", i) for i in (1, 2))],
)
def test_a_nan_that_one_operand_loses_is_found_by_the_corner_vectors(name: str, position: int) -> None:
    def engine(key: str, arch: str, *codes: np.ndarray) -> np.ndarray:
        row, record = isa.lookup(key), isa.ARCHS[arch]
        if row.key == name:
            fmt = row.operands[position]
            assert fmt is not None
            kept = [*codes]
            kept[position] = np.where(formats.is_nan(kept[position], fmt), kept[position].dtype.type(0), kept[position])
            codes = tuple(kept)
        return execute.mma(row, *codes, record) if row.family == "tensor" else execute.apply(row, *codes)

    outcome = score([home() / "corners" / "hmma.txt"], Function("NaN lost", engine), Options(arch="sm_86", kill=False))
    assert [row.row for row in outcome.rows if not row.passed] == [name]


# --- kill scores -----------------------------------------------------------------------------------------------------


def test_the_kill_score_of_the_a2_set_shows_its_blind_spots() -> None:
    outcome = score([shared("silicon", "sm86-a2-public.npz")], Simulator("reference"))
    (summary,) = report.summaries(outcome)
    blind = set(summary["blind_spots"])
    assert {
        "no floor",
        "floor one higher",
        "zero products set the exponent",
        "negative zero kept",
        "NaN is quiet, without payload",
        "infinity times zero is ignored",
        "subnormal operands flushed",
    } <= blind
    assert {
        "one fraction bit less",
        "one fraction bit more",
        "nearest even at the end",
        "addend added last",
    } & blind == set()
    f16 = next(row for row in outcome.rows if row.instruction == "HMMA.1688.F16")
    assert {"two fraction bits less", "two fraction bits more", "one fraction bit less", "one fraction bit more"} & set(
        f16.survivors
    )
    assert any("nor, in HMMA.1688.F16" in line for line in report.blind_spots(outcome, summary["set"]))


@pytest.mark.parametrize(
    "name", ["tensor", "integer_tensor", "single", "half", "double", "mufu", "convert", "sequences", "integer"]
)
def test_no_wrong_model_survives_the_h200_recording(name: str) -> None:
    path = h200(name)
    outcome = score([path], Function("recorded", _never), Options())
    survivors = {row.row: row.survivors for row in outcome.rows if row.survivors}
    assert not survivors
    if name not in ("integer",):
        assert sum(len(row.killed) for row in outcome.rows) >= 15


def _never(name: str, arch: str, *codes: np.ndarray) -> np.ndarray:
    """An engine that is not looked at: kill scores come from the recording alone."""
    row = isa.lookup(name)
    result = row.result.dtype if row.result else codes[-1].dtype
    return np.zeros(codes[-1].shape, result)


def test_the_share_of_an_exact_dot() -> None:
    outcome = score([shared("silicon", "sm86-a2-public.npz")], Simulator("reference"))
    shares = {row.instruction: row.rounded for row in outcome.rows}
    for name, low, high in (("HMMA.1688.F32", 0.5, 0.75), ("HMMA.1688.F16", 0.99, 1.01)):
        pair = shares[name]
        assert pair is not None and low < pair[0] / pair[1] < high


def test_chunks_do_not_change_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    path = h200("corners")
    options = Options(under="sm_86")  # differences in the middle of rows
    whole = score([path], Simulator("reference"), options)
    assert any(row.worst is not None and row.worst.index >= 128 for row in whole.rows)
    chunks = evaluate.Recording.chunks
    monkeypatch.setattr(evaluate.Recording, "chunks", lambda self, row, results=0: chunks(self, row, 130))
    parts = score([path], Simulator("reference"), options)
    assert json.dumps(report.to_json(parts)) == json.dumps(report.to_json(whole))


def test_the_arch_option_and_other_rules() -> None:
    outcome = score([home() / "corners"], Simulator("reference"), Options(arch="sm_90", under="sm_86", kill=False))
    assert {row.arch for row in outcome.rows} == {"sm_90"} and {row.rules for row in outcome.rows} == {"sm_86"}
    wrong = {row.row for row in outcome.rows if not row.passed}
    assert "HMMA.16816.F32" in wrong and not outcome.passed
    with pytest.raises(RecordingError, match="nothing to score"):
        score([h200("corners")], Simulator("reference"), Options(arch="sm_86", kill=False))
