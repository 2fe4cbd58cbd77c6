"""HMMA and IMMA on lavapipe: recordings, the reference, and the shape of the recorded loop form (issue list 4 to 6)."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensor_checks as checks
import tensor_inputs as inputs
from helpers import assert_codes, llvmpipe, shared, swiftshader, tool
from phobos_sim import isa
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import execute_matrix
from phobos_sim.gpu.sm86 import chains, tensor, tensor_float
from phobos_sim.gpu.target import Target
from phobos_sim.isa import ARCHS, SM86, Arch, Instruction
from phobos_sim.reference import execute as reference
from tensor_checks import HMMA, by_reference

IMMA = tuple(i for i in isa.INSTRUCTIONS if i.family == "integer_tensor")
FORMS = ("float", "integer", "loops")
#: One architecture for each set of numbers that a core sees: F = 23, 24, 25 and every width.
NUMBERS = ("sm_70", "sm_75", "sm_86", "sm_90")
PAIRS = [(row, ARCHS[name]) for row in HMMA for name in NUMBERS if ARCHS[name].has(row)]
pairs = pytest.mark.parametrize(("row", "arch"), PAIRS, ids=[f"{row.key}-{arch.name}" for row, arch in PAIRS])


@functools.cache
def device() -> devices.Device:
    return devices.open_device(llvmpipe())


# ---- recordings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", inputs.PUBLIC)
def test_public_sets(name: str, form: str) -> None:
    for what, key, arch, (a, b, c, d) in inputs.public_sets(
        shared("silicon", f"{name}-public.npz"), inputs.PUBLIC[name]
    ):
        actual = execute_matrix.run(device(), isa.lookup(key), a, b, c, ARCHS[arch], form)
        assert_codes(actual, d, f"{name} {what} {form}")


@pytest.mark.parametrize("name", inputs.H200)
def test_h200_recording(name: str) -> None:
    row = isa.lookup(inputs.H200[name])
    with np.load(shared("silicon", "sm90-h200-mma.npz"), allow_pickle=False) as data:
        a, b, c, d = (data[f"{name}.{part}"] for part in "abcd")
    for form in FORMS if row.family == "tensor" else ("integer",):
        assert_codes(execute_matrix.run(device(), row, a, b, c, ARCHS["sm_90"], form), d, f"{row.key} {form}")


def test_a_wrong_recording_is_noticed() -> None:
    row = isa.lookup("HMMA.1688.F32")
    a, b, c = inputs.batch(row, 1, 8)
    wrong = by_reference(row, a, b, c, SM86)
    wrong[5, 1, 2] ^= 1
    with pytest.raises(AssertionError, match="1 of .* differ, first at \\(5, 1, 2\\)"):
        assert_codes(execute_matrix.run(device(), row, a, b, c, SM86), wrong)


# ---- against the reference ---------------------------------------------------------------------------------------


@pairs
def test_every_pair_of_classes(row: Instruction, arch: Arch) -> None:
    """Two instructions in a chain, so that results come back as addends."""
    assert row.shape is not None
    a, b, c = inputs.batch(row, 1, 2 * row.shape.k)
    expected = by_reference(row, a, b, c, arch)
    for form in FORMS:
        assert_codes(execute_matrix.run(device(), row, a, b, c, arch, form), expected, f"{row.key} {arch.name} {form}")


@pairs
def test_floors_ties_and_last_bits(row: Instruction, arch: Arch) -> None:
    assert row.shape is not None
    a, b, c = inputs.lined_up(row, arch, 1, row.shape.k)
    expected = by_reference(row, a, b, c, arch)
    for form in FORMS:
        assert_codes(execute_matrix.run(device(), row, a, b, c, arch, form), expected, f"{row.key} {arch.name} {form}")


@pairs
def test_plain_operands(row: Instruction, arch: Arch) -> None:
    assert row.shape is not None
    a, b, c = inputs.plain_batch(row, 1, 3 * row.shape.k)
    assert chains.is_plain(row, a) and chains.is_plain(row, b)
    actual = execute_matrix.run(device(), row, a, b, c, arch, "float", plain=True)
    assert_codes(actual, by_reference(row, a, b, c, arch), f"{row.key} {arch.name}")


@pairs
def test_the_largest_sum(row: Instruction, arch: Arch) -> None:
    """sm_90 with 16 products does not fit a signed word."""
    a, b, c = inputs.fullest_group(row, arch)
    expected = by_reference(row, a, b, c, arch)
    for form, plain in (*((f, False) for f in FORMS), ("float", True)):
        actual = execute_matrix.run(device(), row, a, b, c, arch, form, plain)
        assert_codes(actual, expected, f"{row.key} {arch.name} {form} plain={plain}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
@pairs
def test_more_of_every_pair_of_classes(row: Instruction, arch: Arch, seed: int) -> None:
    assert row.shape is not None
    for make, plain, form in (
        (inputs.batch, False, "float"),
        (inputs.batch, False, "loops"),
        (inputs.plain_batch, True, "float"),
    ):
        a, b, c = make(row, seed, 3 * row.shape.k, 16)
        actual = execute_matrix.run(device(), row, a, b, c, arch, form, plain)
        assert_codes(actual, by_reference(row, a, b, c, arch), f"{row.key} {arch.name} {form} {seed}")


@pytest.mark.parametrize("row", IMMA, ids=[row.key for row in IMMA])
def test_imma(row: Instruction) -> None:
    """Random bytes and the extremes, with addends at both ends of s32."""
    assert row.shape is not None
    rng, k = np.random.default_rng(3), 2 * row.shape.k
    a, b = (rng.choice(np.array([0, 1, 127, 128, 255, 77], np.uint8), s) for s in ((40, 4, k), (40, k, 4)))
    a[:20], b[:20] = rng.integers(0, 256, (20, 4, k)), rng.integers(0, 256, (20, k, 4))
    c = rng.integers(0, 1 << 32, (40, 4, 4)).astype(np.uint32)
    c[::2] = rng.choice(np.array([0x7FFFFFFF, 0x7FFFF000, 0x80000000, 0x80000FFF], np.uint32), (20, 4, 4))
    assert_codes(execute_matrix.run(device(), row, a, b, c, SM86), by_reference(row, a, b, c, SM86), row.key)


def test_swiftshader() -> None:
    """Another compiler, which flushes subnormals and has no 64-bit type: the same bits."""
    driver = swiftshader()
    done = subprocess.run(
        [sys.executable, checks.__file__, "vulkan"], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert "SwiftShader" in report["device"]
    assert len(report["differ"]) > 30 and "HFMA2.BF16_V2 sm_86 integer" in report["differ"]
    assert {name: number for name, number in report["differ"].items() if number} == {}


# ---- what is plain -----------------------------------------------------------------------------------------------


def test_one_special_code_in_a_large_array_is_found() -> None:
    row, large = isa.lookup("HMMA.16816.F32"), np.zeros((3, tensor_float.PIECE // 2), np.uint16)
    assert chains.is_plain(row, large)
    for at in (0, large.size // 2, large.size - 1):
        large.reshape(-1)[at] = 0x7C00
        assert not chains.is_plain(row, large), at
        large.reshape(-1)[at] = 0


@pytest.mark.parametrize(
    ("key", "plain", "not_plain"),
    [
        ("HMMA.16816.F32", (0x0000, 0x8001, 0x7BFF, 0xFBFF), (0x7C00, 0xFC00, 0x7C01, 0xFFFF)),
        ("HMMA.16816.F32.BF16", (0x0000, 0x8000, 85 << 7, 169 << 7 | 0x807F), (84 << 7 | 0x7F, 170 << 7, 1, 0x7F80)),
        ("HMMA.1688.F32.TF32", (0x00001FFF, 0x80000000, 85 << 23), (0x00002000, 170 << 23, 0x7F800000, 0xFFFFFFFF)),
    ],
)
def test_what_is_plain(key: str, plain: tuple[int, ...], not_plain: tuple[int, ...]) -> None:
    row = isa.lookup(key)
    assert row.operands[0] is not None
    dtype = row.operands[0].dtype
    assert chains.is_plain(row, np.array(plain, dtype))
    for code in not_plain:
        assert not chains.is_plain(row, np.array([plain[0], code], dtype)), hex(code)


# ---- batches and chains ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "k"), [("float", 600_000), ("loops", 38_400)])
def test_a_chain_beyond_the_loop_limit(form: str, k: int) -> None:
    """lavapipe stops an invocation after 65,535 loop trips in all; the chain is cut before."""
    row, rng = isa.lookup("HMMA.16816.F32"), np.random.default_rng(4)
    assert (k // 8 if form == "float" else tensor.loops_trips(row, SM86, 1, k // 8)) > 65_535
    a = rng.standard_normal((1, 1, k)).astype(np.float16).view(np.uint16)
    b = rng.standard_normal((1, k, 2)).astype(np.float16).view(np.uint16)
    c = np.zeros((1, 1, 2), np.uint32)
    expected = reference.chain(row, a[0], b[0], c[0])[None]
    assert_codes(execute_matrix.run(device(), row, a, b, c, SM86, form), expected, form)


def test_large_batches_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over tiles, then rows or columns, never along k."""
    row = isa.lookup("HMMA.1688.F32")
    monkeypatch.setattr(execute_matrix, "MOST_OUTPUTS", 40)
    monkeypatch.setattr(execute_matrix, "MOST_ELEMENTS", 100)
    rng = np.random.default_rng(5)
    for t, m, n in ((7, 3, 5), (1, 9, 2), (1, 2, 9), (2, 33, 3), (1, 1, 1)):
        a, b = (
            rng.integers(0, 0x7C00, (t, m, 8)).astype(np.uint16),
            rng.integers(0, 0x7C00, (t, 8, n)).astype(np.uint16),
        )
        c = np.zeros((t, m, n), np.uint32)
        assert_codes(execute_matrix.run(device(), row, a, b, c, SM86), by_reference(row, a, b, c, SM86), f"{t} {m} {n}")


def test_an_empty_batch() -> None:
    row = isa.lookup("HMMA.1688.F32")
    c = np.zeros((0, 2, 2), np.uint32)
    out = execute_matrix.run(device(), row, np.zeros((0, 2, 8), np.uint16), np.zeros((0, 8, 2), np.uint16), c, SM86)
    assert out.shape == (0, 2, 2) and out.dtype == np.uint32


# ---- the modules -------------------------------------------------------------------------------------------------


def module(row: Instruction, form: str, plain: bool = False) -> bytes:
    return execute_matrix._shader(row, SM86, Target(int64=True, float64=True), form, plain)[0]


@pytest.mark.parametrize("row", [i for i in HMMA if SM86.has(i)], ids=lambda row: row.key)
def test_the_loop_form_is_the_recorded_one(row: Instruction, tmp_path: Path) -> None:
    """Four loops marked DontUnroll, no OpPhi, no float, no 64-bit integer; small whatever the width."""
    code = module(row, "loops")
    path = tmp_path / "loops.spv"
    path.write_bytes(code)
    text = subprocess.run([tool("spirv-dis"), path], capture_output=True, text=True, check=True, timeout=60).stdout
    assert text.count("DontUnroll") == 4 and text.count("OpLoopMerge") == 4
    assert "OpPhi" not in text and "OpTypeFloat" not in text and "OpTypeInt 64" not in text
    assert len(code) < 8000


def test_every_module_is_valid(tmp_path: Path) -> None:
    files = []
    for row in (*HMMA, *IMMA[:4]):
        for form in FORMS if row.family == "tensor" else ("integer",):
            for plain in (False, True) if form == "float" else (False,):
                for arch in ("sm_70", "sm_86", "sm_90"):
                    if ARCHS[arch].has(row):
                        target = Target(int64=True, float64=True)
                        files.append(tmp_path / f"{row.key}.{form}.{plain}.{arch}.spv")
                        files[-1].write_bytes(execute_matrix._shader(row, ARCHS[arch], target, form, plain)[0])
    for path in files:
        result = subprocess.run(
            [tool("spirv-val"), "--target-env", "vulkan1.1", path], capture_output=True, text=True, timeout=60
        )
        assert result.returncode == 0, f"{path.name}: {result.stdout}{result.stderr}"


def test_loops_trips_counts_every_loop() -> None:
    """Outputs, groups, and twice the width."""
    row = isa.lookup("HMMA.16816.F32")
    assert tensor.loops_trips(row, SM86, 16, 64) == 16 * (1 + 64 * 17)
    assert tensor.loops_trips(row, ARCHS["sm_90"], 1, 1) == 1 + 33


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(Exception, match="HMMA.16816.F32 has no form 'fast'; it has float, integer"):
        chains.core(isa.lookup("HMMA.16816.F32"), SM86, Target(), form="fast")
