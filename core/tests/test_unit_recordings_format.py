"""A recording is read as it was written, and anything else is refused before a value of it is used."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from phobos_sim.errors import RecordingError, UsageError
from phobos_sim.recordings import loader, manifest
from recording_samples import adds


def forge(path: Path, **arrays: object) -> None:
    """Replace arrays of a set and make size and hash right again, as a forger would."""
    with np.load(path, allow_pickle=False) as old:
        kept = {name: old[name] for name in old.files}
    content = io.BytesIO()
    np.savez(content, **{**kept, **arrays})  # type: ignore[arg-type]
    path.write_bytes(content.getvalue())
    reseal(path)


def reseal(path: Path, **changes: object) -> None:
    beside = path.with_suffix(".json")
    document = json.loads(beside.read_text())
    document.update(bytes=path.stat().st_size, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), **changes)
    document["seal"] = manifest.seal(document)
    beside.write_text(json.dumps(document))


def refused(path: Path, words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        loader.load(path)


def test_a_set_is_read_in_chunks_as_it_was_written(tmp_path: Path) -> None:
    path = adds(tmp_path, 1000)
    recording = loader.load(path)
    row = recording.manifest.rows[0]
    chunks = list(recording.chunks(row, 256))
    assert [chunk.start for chunk in chunks] == [0, 256, 512, 768]
    with np.load(path, allow_pickle=False) as whole:
        for position, name in enumerate(row.inputs):
            assert np.array_equal(np.concatenate([chunk.inputs[position] for chunk in chunks]), whole[name])
        assert np.array_equal(np.concatenate([chunk.output for chunk in chunks]), whole[row.output])


def test_the_same_arrays_give_the_same_file(tmp_path: Path) -> None:
    first, second = adds(tmp_path / "1"), adds(tmp_path / "2")
    assert first.read_bytes() == second.read_bytes()
    assert first.with_suffix(".json").read_bytes() == second.with_suffix(".json").read_bytes()


def test_truncated_longer_and_changed_files_are_refused(tmp_path: Path) -> None:
    path = adds(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-7])
    refused(path, "truncated")
    path.write_bytes(content + b"x")
    refused(path, "longer than recorded")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    path.write_bytes(bytes(flipped))
    refused(path, "changed or damaged")


def test_an_edited_manifest_is_refused(tmp_path: Path) -> None:
    path = adds(tmp_path)
    beside = path.with_suffix(".json")
    beside.write_text(beside.read_text().replace('"made up"', '"NVIDIA A2"'))
    refused(path, "seal")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version 2"),
        ({"format": "other"}, "not a manifest"),
        ({"arch": 86}, r"\.arch: expected string"),
        ({"arch": "A2"}, "does not look like"),
        ({"origin": "guess"}, "expected one of silicon, derived"),
        ({"seed": -1}, "outside 0"),
        ({"surprise": 1}, "unknown entry 'surprise'"),
        ({"rows": []}, "0 items"),
    ],
)
def test_the_schema_is_checked(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = adds(tmp_path)
    reseal(path, **change)
    refused(path, words)


def test_a_missing_entry_and_no_json_are_refused(tmp_path: Path) -> None:
    path = adds(tmp_path)
    beside = path.with_suffix(".json")
    document = json.loads(beside.read_text())
    del document["licence"]
    document["seal"] = manifest.seal(document)
    beside.write_text(json.dumps(document))
    refused(path, "'licence' is missing")
    beside.write_text("{not json")
    refused(path, "not a readable JSON manifest")
    beside.unlink()
    refused(path, "no manifest adds.json beside it")


def test_a_pickled_array_is_refused_and_never_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return open, (str(tmp_path / "exploded"), "w")  # type: ignore[return-value]

    path = adds(tmp_path)
    forge(path, **{"FADD.in0": np.array([Bomb()], dtype=object)})
    refused(path, "pickled objects")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(40, np.float32), "dtype <f4, expected uint32"),
        (np.zeros(40, np.uint64), "dtype <u8, expected uint32"),
        (np.zeros(40, ">u4"), "dtype >u4, expected uint32"),
        (np.zeros(39, np.uint32), r"shape \(39,\)"),
        (np.zeros((8, 5), np.uint32).T, "Fortran order"),
    ],
)
def test_arrays_that_are_not_what_the_manifest_says_are_refused(tmp_path: Path, array: object, words: str) -> None:
    path = adds(tmp_path)
    forge(path, **{"FADD.in1": array})
    refused(path, words)


def test_extra_missing_and_doubled_arrays_are_refused(tmp_path: Path) -> None:
    path = adds(tmp_path)
    forge(path, extra=np.zeros(3, np.uint32))
    refused(path, "not those of the manifest: extra")
    path = adds(tmp_path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("FADD.in0.npy", b"again")
    reseal(path)
    refused(path, "one is there twice")


def test_a_file_that_unpacks_too_far_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = adds(tmp_path)
    monkeypatch.setenv("PHOBOS_RECORDING_LIMIT", "500")
    refused(path, "would unpack to [0-9]+ bytes, the limit is 500")
    monkeypatch.setenv("PHOBOS_RECORDING_LIMIT", "much")
    with pytest.raises(UsageError, match="PHOBOS_RECORDING_LIMIT is 'much'; it is a number of bytes"):
        loader.load(path)


def test_a_header_may_not_promise_more_than_the_archive_holds(tmp_path: Path) -> None:
    path = adds(tmp_path)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<u4", "fortran_order": False, "shape": (40,)})
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["FADD.in0.npy"] = head.getvalue() + b"\0" * 8
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    reseal(path)
    refused(path, "truncated or padded")


def test_rows_must_fit_their_instruction(tmp_path: Path) -> None:
    path = adds(tmp_path)
    document = json.loads(path.with_suffix(".json").read_text())
    for change, words in (
        ({"instruction": "FADDD"}, "unknown instruction 'FADDD'"),
        ({"instruction": "FFMA"}, "do not fit"),
        ({"instruction": "DADD"}, "32-bit codes, DADD takes f64"),
        ({"kind": "matrix"}, "do not fit a matrix row"),
        ({"results": 39}, "39 results"),
        ({"classes": [["raw", 39]]}, "add up to 39"),
        ({"output": "nothing"}, "no array nothing"),
    ):
        reseal(path, rows=[{**document["rows"][0], **change}])
        refused(path, words)


def test_a_renamed_set_is_refused(tmp_path: Path) -> None:
    path = adds(tmp_path)
    for suffix in (".npz", ".json"):
        path.with_suffix(suffix).rename(tmp_path / f"other{suffix}")
    refused(tmp_path / "other.npz", "describes adds.npz, not other.npz")


def test_a_known_name_with_other_content_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "sm86-a2-public.npz"
    np.savez(target, x=np.zeros(3, np.uint32))
    refused(target, "the manifest says 327318")


def test_folders_and_files_are_found(tmp_path: Path) -> None:
    adds(tmp_path / "set")
    assert [path.name for path in loader.find([tmp_path])] == ["adds.npz"]
    with pytest.raises(RecordingError, match="no .npz in this folder"):
        loader.find([tmp_path / "set" / ".." / "empty"] if (tmp_path / "empty").mkdir() is None else [])
    with pytest.raises(RecordingError, match="no such file or folder"):
        loader.find([tmp_path / "nowhere"])
