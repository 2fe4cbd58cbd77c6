"""The probe: its operands tell wrong models apart, it picks the fastest exact form, remembers it, and never guesses."""

from __future__ import annotations

import dataclasses
import json
import runpy
from pathlib import Path

import mutants
import numpy as np
import oracle_table
import pytest
from helpers import ROOT, llvmpipe
from instruction_checks import ROWS
from phobos_sim import isa
from phobos_sim.errors import InexactDeviceError, UnavailableError
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import execute, probe, probe_inputs, sm86
from phobos_sim.gpu.sm86 import chains, resolve, single
from phobos_sim.gpu.target import Target
from phobos_sim.spirv.builder import Builder, Value

SEVERAL = [row for row in ROWS if len(sm86.candidates(row)) > 1]


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> devices.Device:
    """lavapipe with nothing known about it, in this process or on disk."""
    device = devices.open_device(llvmpipe())
    monkeypatch.setenv("PHOBOS_CACHE", str(tmp_path))
    monkeypatch.setattr(probe, "_known", {})
    monkeypatch.setattr(device, "target", dataclasses.replace(device.target, forms={}))
    return device


def test_expected_digests_are_those_of_the_reference() -> None:
    """`script/update_probe_vectors` would write the file that is there."""
    written = runpy.run_path(str(ROOT / "script" / "update_probe_vectors"))["digests"]()
    assert written == probe._expected()


@pytest.mark.parametrize("row", SEVERAL, ids=lambda row: row.key)
def test_operands_tell_every_wrong_twin(row: isa.Instruction) -> None:
    """Each mutant of the row's oracle differs from it on at least one of the probe's operand tuples."""
    tuples = list(zip(*(column.tolist() for column in probe_inputs.hard(row, probe.COUNT)), strict=True))
    twins = mutants.mutants_of(row)
    assert twins, row.key
    for mutant in twins:
        for codes in tuples:
            right = oracle_table.evaluate(row, *codes)
            with mutant.active():
                wrong = oracle_table.evaluate(row, *codes)
            if wrong != right:
                break
        else:
            raise AssertionError(f"{row.key}: no operand tells {mutant.name!r}")


def test_operands_do_not_depend_on_the_machine() -> None:
    """The first operands, pinned: they come from a counter, not from numpy's generators."""
    a, b = probe_inputs.hard(isa.lookup("FADD"), 4)
    assert [f"{x:08x}" for x in (*a, *b)] == PINNED
    other = probe_inputs.hard(isa.lookup("FADD"), 4, seed=1)
    assert not np.array_equal(a, other[0])


PINNED = ["408c0f23", "d0030080", "83c57a83", "160c0001", "7a802900", "80840a54", "0000000b", "160bffff"]


def test_verdicts_are_remembered_on_disk(
    fresh: devices.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = probe.verdict(fresh, ["FFMA", "HADD2"])
    assert first == {"FFMA": "double", "HADD2": "native"}
    (path,) = tmp_path.glob("verdicts-*.json")
    assert json.loads(path.read_text()) == first
    probe.forget()
    monkeypatch.setattr(probe, "_ask", lambda device, asked: pytest.fail("asked again"))
    assert probe.verdict(fresh, ["FFMA", "HADD2"]) == first
    assert fresh.target.forms == first


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"FFMA": "magic"}', '{"no.such": "native"}', '{"FFMA": 3}'])
def test_a_damaged_file_counts_as_none(fresh: devices.Device, tmp_path: Path, damage: str) -> None:
    probe.verdict(fresh, ["FFMA"])
    (path,) = tmp_path.glob("verdicts-*.json")
    path.write_text(damage)
    probe.forget()
    assert probe.verdict(fresh, ["FFMA"]) == {"FFMA": "double"}


def test_only_what_is_needed_is_probed(fresh: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integer rows and sequences cost nothing; the parts of a sequence are probed with it."""
    asked: list[str] = []
    ask = probe._ask
    monkeypatch.setattr(probe, "_ask", lambda device, rows: asked.extend(r.key for r in rows) or ask(device, rows))
    assert set(probe.verdict(fresh, ["add.s32", "setp.lt.s32"]).values()) == {"integer"}
    assert asked == []
    assert probe.verdict(fresh, ["rem.f16"]) == {
        "rem.f16": "integer", "cvt.f32.f16": "native", "rem.f32": "integer", "div.rn.f32": "native",
        "cvt.rzi.f32.f32": "native", "FFMA": "double", "cvt.rn.f16.f32": "native",
    }  # fmt: skip
    assert sorted(asked) == ["FFMA", "cvt.f32.f16", "cvt.rn.f16.f32", "cvt.rzi.f32.f32", "div.rn.f32"]


def _sum_with_payloads(e: Builder, a: Value, b: Value, *, ftz: bool = False) -> Value:
    return (a.f + b.f).bits


def test_a_wrong_native_form_is_passed_over(fresh: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "fadd_native", _sum_with_payloads)
    assert probe.verdict(fresh, ["FADD"]) == {"FADD": "integer"}
    with pytest.raises(UnavailableError, match=r"FADD: instructions='native'.*llvmpipe"):
        probe.target_for(fresh, ["FADD"], "native")


def test_an_instruction_without_an_exact_form_is_an_error(
    fresh: devices.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single, "fadd_native", _sum_with_payloads)
    monkeypatch.setattr(single, "fadd", _sum_with_payloads)
    assert probe.verdict(fresh, ["FADD"]) == {"FADD": "none"}
    one = np.array([0x3F800000], np.uint32)
    with pytest.raises(UnavailableError, match="FADD: no form of this instruction gives exact results on llvmpipe"):
        execute.execute(isa.lookup("FADD"), [one, one], isa.SM86, fresh)


def test_integer_forces_every_part(fresh: devices.Device) -> None:
    target = probe.target_for(fresh, ["rem.f32", "HMMA.16816.F32"], "integer")
    assert set(target.forms) == {"rem.f32", "div.rn.f32", "cvt.rzi.f32.f32", "FFMA", "HMMA.16816.F32"}
    assert set(target.forms.values()) == {"integer"}


@pytest.mark.parametrize(
    ("key", "lacks"),
    [
        ("DADD", "shaderInt64"),
        ("rem.f64", "shaderInt64"),
        ("add.s64", "shaderInt64"),
        ("cvt.rn.f16.f64", "shaderInt64"),
    ],
)
def test_a_missing_feature_names_the_operation(key: str, lacks: str) -> None:
    """A device without 64-bit types: an error, never 32 bits instead."""
    row = isa.lookup(key)
    e = Builder(Target(name="a small device"))
    values = [e.const(0, "u64") for _ in row.operands]
    with pytest.raises(UnavailableError, match=rf"{key}: a small device lacks {lacks}"):
        sm86.emit(e, row, *values)


def test_debug_log_names_the_forms(
    fresh: devices.Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    probe.verdict(fresh, ["FMUL"])
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("PHOBOS_LOG", "debug")
    probe.verdict(fresh, ["FFMA", "add.s32"])
    assert capsys.readouterr().err.endswith("FFMA: double form\n")


def test_every_row_has_its_emitters() -> None:
    """Each form of each row is a function of its family; parts of sequences are keys of the table."""
    for row in ROWS:
        for form in sm86.candidates(row):
            assert callable(resolve.function(row, form)), (row.key, form)
        for key in sm86.uses(row):
            assert isa.lookup(key).key == key, (row.key, key)


@pytest.mark.parametrize("name", ["HMMA.16816.F32", "IMMA.16816.S8.S8", "FFMA"])
def test_a_contraction_whose_forms_all_failed_is_an_error(name: str) -> None:
    """In a kernel too: the fastest form stands in only where there is no verdict."""
    row = isa.lookup(name)
    target = Target("broken", forms={name: resolve.NONE})
    with pytest.raises(InexactDeviceError, match=f"{name}: no form of this instruction gives exact results on broken"):
        chains.core(row, isa.SM86, target)
    with pytest.raises(InexactDeviceError):
        chains.form_of(row, target)
    assert chains.form_of(row, Target("new")) in chains.candidates(row)
