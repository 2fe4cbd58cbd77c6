"""The importer of the public sets, on a made-up sample of a few lines in their layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import cli
from phobos_sim.errors import RecordingError
from phobos_sim.recordings import loader
from phobos_sim.recordings.matlab import import_sets

ONE, TWO, THIRD = 0x3F800000, 0x40000000, 0x3EAAA000  # 1, 2 and an f16 near 1/3, as float32 words


def hexes(words: list[list[int]]) -> str:
    return "\n".join(" ".join(f"{word:08x}" for word in line) for line in words) + "\n\n"


def binaries(words: list[int]) -> str:
    return "\n".join(f"{word:032b} " for word in words) + "\n"


def sample(root: Path, card: str = "A2", width: int = 8) -> Path:
    """A checkout with fp16 (both results) and tf32 of one card, three lines each, and an fp8 folder."""
    folder = root / "model_validation" / card
    for name, columns in (("fp16", width), ("tf32", 4)):
        (folder / name).mkdir(parents=True)
        lines = [[ONE] * columns, [TWO, *[0] * (columns - 1)], [THIRD] * columns]
        for letter in "ab":
            (folder / name / f"{letter}_{card}_{name}.txt").write_text(hexes(lines))
        (folder / name / f"c_{card}_fp32.txt").write_text(binaries([0, ONE, 0x3F800001]))
        (folder / name / f"d_{card}_fp32.txt").write_text(binaries([0x41000000, 0x40A00000, ONE]))
    (folder / "fp16" / f"d_{card}_fp16.txt").write_text(binaries([0x41000000, 0x40A00000, 0x3FF1E000]))
    (folder / "E4M3").mkdir()
    return root


def test_a_checkout_becomes_a_set(tmp_path: Path) -> None:
    done = import_sets(sample(tmp_path / "checkout"), tmp_path / "out")
    assert [(item.path.name, item.results, item.left_out) for item in done] == [("sm86-a2-public.npz", 9, ("E4M3",))]
    recording = loader.load(done[0].path)
    assert recording.manifest.licence == "BSD-2-Clause" and recording.manifest.card == "NVIDIA A2"
    rows = {row.name: row for row in recording.manifest.rows}
    assert set(rows) == {"HMMA.1688.F32", "HMMA.1688.F16", "HMMA.1684.F32.TF32"}
    (chunk,) = recording.chunks(rows["HMMA.1688.F16"])
    a, _, c = chunk.inputs
    assert a.dtype == np.uint16 and a[2, 0] == 0x3555 and list(c) == [0, 0x3C00, 0x3C00]  # 1 + ulp rounds to f16
    assert [f"{int(code):04x}" for code in chunk.output] == ["4800", "4500", "3f8f"]
    (tf32,) = recording.chunks(rows["HMMA.1684.F32.TF32"])
    assert tf32.inputs[0].dtype == np.uint32 and int(tf32.inputs[0][2, 0]) == THIRD


@pytest.mark.parametrize(("card", "width", "row"), [("V100", 4, "HMMA.884.F32"), ("H100", 16, "HMMA.16816.F32")])
def test_the_width_says_which_instruction_ran(tmp_path: Path, card: str, width: int, row: str) -> None:
    (item,) = import_sets(sample(tmp_path, card, width) / "model_validation" / card, tmp_path / "out")
    assert row in {found.name for found in loader.manifest_of(item.path).rows}


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("a_A2_fp16.txt", hexes([[0x3F800001] * 8] * 3), "3f800001 .line 1. is no f16"),
        ("a_A2_fp16.txt", hexes([[ONE] * 7] * 3), "words a line"),
        ("a_A2_fp16.txt", "nonsense\n", "not a hexadecimal word"),
        ("b_A2_fp16.txt", hexes([[ONE] * 8] * 2), "do not belong together"),
        ("c_A2_fp32.txt", "0101\n", ":1: '0101' is not 32 binary digits"),
        ("d_A2_fp32.txt", "", "empty"),
    ],
)
def test_damaged_text_is_refused_with_its_place(tmp_path: Path, file: str, text: str, words: str) -> None:
    sample(tmp_path)
    (tmp_path / "model_validation" / "A2" / "fp16" / file).write_text(text)
    with pytest.raises(RecordingError, match=words):
        import_sets(tmp_path, tmp_path / "out")


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no such folder"):
        import_sets(tmp_path / "nowhere", tmp_path)
    with pytest.raises(RecordingError, match="no folder here is one of V100"):
        import_sets(tmp_path, tmp_path)


def test_the_verb(tmp_path: Path) -> None:
    sample(tmp_path / "checkout")
    done = cli("import", "matlab-tensor-core", tmp_path / "checkout", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "9 results; left out: E4M3" in done.stdout and "phobos-sim score" in done.stdout
    assert cli("import", "other", tmp_path, "--out", tmp_path).returncode == 2
