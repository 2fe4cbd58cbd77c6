"""`mode="cooperative"`: exactness given up by name, labelled in every result, and never where nobody asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import phobos_sim as sim
import pytest
from helpers import assert_codes, cli, tool
from phobos_sim import isa
from phobos_sim.cli.options import describe
from phobos_sim.errors import UsageError
from phobos_sim.gpu import cooperative, execute_matrix, mapping
from phobos_sim.gpu import device as devices
from phobos_sim.gpu.emitter import Job, Shader
from phobos_sim.gpu.target import Offer, Target
from phobos_sim.isa import SM86
from phobos_sim.spirv.module import OPCODES
from phobos_sim.spirv.validate import validate
from phobos_sim.tile import facts
from runtime_samples import device_name

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sim.load(ROOT / "benchmarks" / "kernels.py")
DTYPES = {"f16": np.float16, "f32": np.float32, "s8": np.int8, "s32": np.int32}
SIZE = 64
FLOATS = ["hmma_f32", "hmma_f16", "ffma", "ffma_f16", "hfma2"]

pytestmark = pytest.mark.device


def run(name: str, values: np.ndarray, **options: object) -> tuple[np.ndarray, sim.Launch]:
    """Codes and report of one product of two arrays with the same values."""
    kernel = getattr(KERNELS, name)
    a, b, c = kernel.program().tensors
    out = np.zeros((SIZE, SIZE), DTYPES[c.element.name])
    operands = (values.astype(DTYPES[t.element.name]) for t in (a, b))
    launch = kernel.launch((1, 1), *operands, out, **options)
    return out.view(f"uint{c.element.bits}"), launch


def small_integers() -> np.ndarray:
    """Whatever the order and the rounding, every product and sum of these is exact, also in f16."""
    return np.random.default_rng(1).integers(-3, 4, (SIZE, SIZE))


def fractions() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((SIZE, SIZE))


@pytest.mark.parametrize("form", ["registers", "shared"])
@pytest.mark.parametrize("name", FLOATS)
def test_what_needs_no_rounding_is_right(name: str, form: str) -> None:
    expected, _ = run(name, small_integers(), device="reference")
    found, launch = run(name, small_integers(), device=device_name(), form=form, mode="cooperative")
    assert_codes(found, expected)
    assert not launch.exact  # equal by luck of the data is no promise


@pytest.mark.parametrize("name", ["hmma_f32", "hmma_f16"])
def test_the_arithmetic_is_another_one(name: str) -> None:
    expected, exact = run(name, fractions(), device=device_name())
    found, _ = run(name, fractions(), device=device_name(), mode="cooperative")
    assert exact.exact and exact.inexact == {}
    assert np.count_nonzero(found != expected)


def test_every_report_says_so() -> None:
    _, launch = run("hmma_f32", fractions(), device=device_name(), mode="cooperative")
    assert launch.inexact == {launch.paths[0].place: "f32 multiply-add"}
    assert launch.form is not None and launch.form.endswith(", inexact")
    assert launch.paths[0].instruction.startswith("INEXACT ") and "HMMA.16816.F32" in launch.paths[0].reason
    assert launch.notes[0].startswith("INEXACT") and launch.paths[0].place in launch.notes[0]
    assert describe(launch)["exact"] is False


def test_the_command_line_says_so(tmp_path: Path) -> None:
    source = ROOT / "benchmarks" / "kernels.py"
    arguments = ["run", str(source), "--kernel", "hmma_f32", "--grid", "1,1", "--device", device_name()]
    arguments += [part for dim in "MNK" for part in ("--dim", f"{dim}={SIZE}")]
    for mode, labelled in (("cooperative", True), ("exact", False)):
        report = tmp_path / f"{mode}.json"
        shown = cli(*arguments, "--mode", mode, "--json", report)
        assert shown.returncode == 0, shown.stderr
        assert ("INEXACT" in shown.stdout) == labelled
        assert json.loads(report.read_text())["exact"] is not labelled


def test_integer_dots_stay_exact() -> None:
    values = np.random.default_rng(3).integers(-128, 128, (SIZE, SIZE))
    expected, _ = run("imma", values, device="reference")
    found, launch = run("imma", values, device=device_name(), mode="cooperative")
    assert_codes(found, expected)
    assert launch.exact and launch.inexact == {} and "inexact" not in str(launch.form)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"mode": "fast"}, "unknown mode 'fast'"),
        ({"mode": "cooperative", "form": "loops"}, "recorded exact form"),
        ({"mode": "cooperative", "device": "reference"}, "the reference backend is exact always"),
    ],
)
def test_wrong_use(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run("hmma_f32", fractions(), **{"device": device_name(), **options})


# ---- the device's own matrix unit: emission without a device that has one ------------------------------------------

UNIT = Target(
    name="unit", kind="discrete", subgroup_size=32, subgroup_sizes=(32, 32), subgroup_shuffle=True,
    required_subgroup_size=True, max_invocations=1024, shared_bytes=49152, int64=True, int16=True, storage16=True,
    storage8=True, inexact=True,
    offers=frozenset(Offer(16, n, 16, "f16", "f16", c) for n in (8, 16) for c in ("f32", "f16")),
)  # fmt: skip


def emitted(kernel: sim.Kernel, target: Target) -> tuple[mapping.Choice, Shader]:
    program = kernel.program()
    dims = dict.fromkeys(program.dims, 128)
    extents = {t.name: tuple(dims[d] if isinstance(d, str) else d for d in t.dims) for t in program.tensors}
    aliases = {name: name for name in extents}
    known = facts.analyse(program, extents, dims, (2, 2, 1), {})
    choice = mapping.choose(program, target, aliases, 4, None)
    return choice, mapping.emit(Job(program, known, target, SM86, choice.form, aliases), choice)


def kernels() -> list[sim.Kernel]:
    attention = sim.load(ROOT / "examples" / "flash_attention_f16.py").kernels.values()
    return [KERNELS.hmma_f32, KERNELS.hmma_f16, *attention]


@pytest.mark.parametrize("kernel", kernels(), ids=lambda k: k.name)
@pytest.mark.parametrize("shared_bytes", [49152, 24576])
def test_matrix_unit_shaders_are_valid(kernel: sim.Kernel, shared_bytes: int) -> None:
    tool("spirv-val")
    choice, shader = emitted(kernel, replace(UNIT, shared_bytes=shared_bytes))
    assert choice.form == "cooperative" and shader.subgroup_size == 32
    validate(shader.code, "vulkan1.2")
    assert opcodes(shader.code).count(OPCODES["CooperativeMatrixMulAddKHR"]) >= len(kernel.program().contractions())


def opcodes(code: bytes) -> list[int]:
    words, found, at = np.frombuffer(code, "<u4"), [], 5
    while at < len(words):
        found.append(int(words[at]) & 0xFFFF)
        at += int(words[at]) >> 16
    return found


def test_only_the_mode_and_a_fitting_offer_lead_to_the_unit() -> None:
    for change in (
        {"offers": frozenset()},
        {"offers": frozenset({Offer(16, 16, 16, "f16", "f16", "f16")})},  # no f32 result
        {"offers": frozenset({Offer(48, 8, 16, "f16", "f16", "f32")})},  # does not divide the tile
        {"shared_bytes": 4096},
    ):
        choice, shader = emitted(KERNELS.hmma_f32, replace(UNIT, **change))  # type: ignore[arg-type]
        assert choice.form != "cooperative", change
        assert OPCODES["CooperativeMatrixMulAddKHR"] not in opcodes(shader.code)
    assert emitted(KERNELS.ffma, UNIT)[0].form != "cooperative"


def test_a_rows_own_shape_is_preferred_and_only_it_can_be_exact() -> None:
    program = KERNELS.hmma_f32.program()
    (op,) = program.contractions()
    assert cooperative.offer_for(op, UNIT) == Offer(16, 8, 16, "f16", "f16", "f32")
    other = replace(UNIT, offers=frozenset({Offer(16, 16, 16, "f16", "f16", "f32")}))
    place, key = str(op.span), "HMMA.16816.F32"
    assert cooperative.stand_ins(program, UNIT, "cooperative") == {place: "cooperative matrix 16x8x16"}
    assert cooperative.stand_ins(program, UNIT, "shared") == {place: "f32 multiply-add"}
    for target, exact in ((UNIT, True), (other, False)):
        proven = replace(target, proven=frozenset({key}))
        found = cooperative.stand_ins(program, proven, "cooperative")
        assert (found == {}) == exact
        said = cooperative.notes(program, proven, "cooperative", SM86, found)
        assert any(note.startswith("INEXACT") for note in said) != exact
        assert cooperative.stand_ins(program, proven, "shared") == {place: "f32 multiply-add"}
    assert cooperative.stand_ins(program, replace(UNIT, inexact=False), "cooperative") == {}


@pytest.mark.parametrize("wrong", [0, 1])
def test_one_wrong_result_in_the_probe_is_enough(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.open_device(device_name())
    row = isa.lookup("HMMA.16816.F32")
    monkeypatch.setattr(cooperative, "_proofs", {})
    monkeypatch.setattr(cooperative, "offers", lambda _: UNIT.offers)
    monkeypatch.setattr(cooperative, "LANES", device.info.subgroup_size)

    def unit(_: object, row: isa.Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        results = execute_matrix.run(device, row, a, b, c, SM86)
        results.reshape(-1)[-1] ^= wrong
        return results

    monkeypatch.setattr(cooperative, "multiply_add", unit)
    assert cooperative._proves(device, device.target, row, SM86) is (wrong == 0)
    assert cooperative._proves(device, device.target, row, isa.ARCHS["sm_90"]) is False  # another arch's bits
