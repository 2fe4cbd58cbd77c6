"""Every sample that the builder makes passes spirv-val; two are held as text, reviewed in golden/*.spvasm.

PHOBOS_REGENERATE=1 writes the golden files anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import tool
from phobos_sim.spirv.builder import Builder
from phobos_sim.spirv.disassemble import disassemble, parse
from phobos_sim.spirv.validate import InvalidModule, validate
from spirv_samples import SAMPLES

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_valid(name: str) -> None:
    tool("spirv-val")
    validate(SAMPLES[name]())


def test_spirv_val_refuses_what_is_wrong() -> None:
    tool("spirv-val")
    b = Builder()
    b.emit("Store", 999, 999)
    with pytest.raises(InvalidModule, match="999"):
        validate(b.module())


@pytest.mark.parametrize("name", ["copy", "control"])
def test_golden_text(name: str) -> None:
    text = disassemble(SAMPLES[name]())
    path = GOLDEN / f"{name}.spvasm"
    if os.environ.get("PHOBOS_REGENERATE"):
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; if that is meant, run again with PHOBOS_REGENERATE=1"


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_shader_gives_the_same_bytes(name: str) -> None:
    assert SAMPLES[name]() == SAMPLES[name]()


@pytest.mark.parametrize("name", SAMPLES)
def test_every_float_result_carries_no_contraction(name: str) -> None:
    instructions = parse(SAMPLES[name]())
    marked = {i.operands[0][1] for i in instructions if i.name == "OpDecorate" and i.texts == ("NoContraction",)}
    floats = {i.result for i in instructions if i.name == "OpTypeFloat"}
    operations = [
        i
        for i in instructions
        if (i.type in floats and i.name.startswith(("OpF", "OpConvert", "OpExtInst"))) or i.name == "OpConvertFToS"
    ]
    assert all(i.result in marked for i in operations)
    assert bool(operations) == (name in ("words", "floats", "wide", "narrow"))


@pytest.mark.parametrize("name", SAMPLES)
def test_integers_are_unsigned_and_there_is_no_phi(name: str) -> None:
    instructions = parse(SAMPLES[name]())
    assert not [i for i in instructions if i.name == "OpPhi"]
    assert all(i.texts[1] == "0" for i in instructions if i.name == "OpTypeInt")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_buffer_is_read_only_or_coherent(name: str) -> None:
    """Without Coherent a barrier need not show one invocation's stores to another: lavapipe does, a GPU may not."""
    instructions = parse(SAMPLES[name]())
    decorated = [(i.operands[0][1], i.texts[0]) for i in instructions if i.name == "OpDecorate"]
    buffers = {target for target, decoration in decorated if decoration == "Binding"}
    assert buffers
    for buffer in buffers:
        assert {d for t, d in decorated if t == buffer} & {"NonWritable", "Coherent"}, buffer
