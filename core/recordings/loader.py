"""Reading recordings: everything is checked before the first value is used, then streamed in chunks.

Rules
 1. A set is an npz with its manifest beside it, or one of the files that `silicon` describes. Size, sha256 and the
    header of every array are compared with the manifest; a file that differs in any way is refused (RecordingError)
    before a result is computed from it.
 2. Nothing is unpickled: a header with an object dtype, Fortran order or an unknown version is refused.
 3. An archive may not unpack to more than its manifest says, nor to more than PHOBOS_RECORDING_LIMIT bytes
    (default 8 GiB): a small file that would fill the memory is refused.
 4. Rows are read in chunks straight out of the archive, so memory does not grow with the set.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from .. import limits
from ..errors import RecordingError
from . import manifest as manifests
from .manifest import Manifest, Row

_DTYPES = {name: np.dtype(name) for name in ("bool", "uint8", "uint16", "uint32", "uint64")}


@dataclass(frozen=True)
class Recording:
    """A checked set. `name` is how reports call it: the folder and file without their endings."""

    path: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    def chunks(self, row: Row, results: int = 1 << 18) -> Iterator[Chunk]:
        """The row's inputs and output, about `results` results at a time."""
        with zipfile.ZipFile(self.path) as archive:
            yield from _chunks(archive, self.manifest, row, results)


@dataclass(frozen=True)
class Chunk:
    """Part of a row. start: first tile or element; first_result: flat index of its first result in the row."""

    start: int
    first_result: int
    inputs: tuple[np.ndarray, ...]
    output: np.ndarray


def limit() -> int:
    """Most bytes that a set may unpack to."""
    return limits.limit(limits.RECORDING_LIMIT, 8 << 30)


def find(paths: list[Path]) -> list[Path]:
    """The npz files named: files as they are, folders searched (also one level down), sorted."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted([*path.glob("*.npz"), *path.glob("*/*.npz")])
            if not inside:
                raise RecordingError(f"{path}: no .npz in this folder; record one (phobos-sim record) or name a file")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise RecordingError(f"{path}: no such file or folder")
    return found


def manifest_of(path: Path) -> Manifest:
    """The manifest of an npz, from beside it or known by name; its own seal is checked, the npz is not."""
    from . import silicon

    if not path.is_file():
        raise RecordingError(f"{path}: no such file")
    beside = path.with_suffix(".json")
    if beside.is_file():
        manifest = manifests.read(beside)
    else:
        described = silicon.describe(path)
        if described is None:
            raise RecordingError(
                f"{path}: no manifest {beside.name} beside it, and not one of the sets this program knows by name; a "
                "recording is an npz and its json (docs/recordings.md)"
            )
        manifest = described
    if manifest.file != path.name:
        raise RecordingError(f"{beside}: describes {manifest.file}, not {path.name}; was one of them renamed?")
    return manifest


def load(path: Path) -> Recording:
    """A set from its npz; RecordingError if anything about it is not as its manifest says."""
    manifest = manifest_of(path)
    _check_file(path, manifest)
    _check_archive(path, manifest)
    _check_rows(path, manifest)
    return Recording(path, manifest)


def _check_file(path: Path, manifest: Manifest) -> None:
    size = path.stat().st_size
    if size != manifest.bytes:
        word = "truncated" if size < manifest.bytes else "longer than recorded"
        raise RecordingError(
            f"{path}: {size} bytes, the manifest says {manifest.bytes}: the file is {word}; fetch it again"
        )
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != manifest.sha256:
        raise RecordingError(
            f"{path}: sha256 {digest.hexdigest()}, the manifest says {manifest.sha256}: the file was "
            "changed or damaged; fetch it again"
        )


def _check_archive(path: Path, manifest: Manifest) -> None:
    """Names, sizes and headers of all arrays, without unpacking them."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as fault:
        raise RecordingError(f"{path}: not an npz archive ({fault}); fetch it again") from None
    with archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        if set(entries) != set(manifest.arrays) or len(archive.infolist()) != len(entries):
            odd = sorted(set(entries) ^ set(manifest.arrays))
            raise RecordingError(
                f"{path}: its arrays are not those of the manifest: {', '.join(odd[:5]) or 'one is there twice'}"
            )
        total = sum(entry.file_size for entry in entries.values())
        if total > limit():
            raise RecordingError(
                f"{path}: would unpack to {total} bytes, the limit is {limit()} (PHOBOS_RECORDING_LIMIT)"
            )
        for name, (dtype, shape) in manifest.arrays.items():
            with archive.open(entries[name]) as member:
                _check_header(f"{path}: {name}", member, entries[name].file_size, dtype, shape)


def _check_header(where: str, member: IO[bytes], size: int, dtype: str, shape: tuple[int, ...]) -> None:
    """One array's header against the manifest; leaves the stream at the first value."""
    try:
        version = np.lib.format.read_magic(member)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        found_shape, fortran, found = np.lib.format.read_array_header_1_0(member)
    except (ValueError, zipfile.BadZipFile, EOFError) as fault:
        raise RecordingError(f"{where}: not a numpy array ({fault})") from None
    if found.hasobject:
        raise RecordingError(f"{where}: holds pickled objects, which are never loaded: they can run code")
    if fortran or found.newbyteorder("=") != _DTYPES[dtype] or found.byteorder == ">":
        raise RecordingError(f"{where}: dtype {found.str}{' in Fortran order' if fortran else ''}, expected {dtype}")
    if found_shape != shape:
        raise RecordingError(f"{where}: shape {found_shape}, the manifest says {shape}")
    expected = member.tell() + int(np.prod(shape, dtype=np.int64)) * found.itemsize
    if size != expected:
        raise RecordingError(f"{where}: {size} bytes, {expected} by its header: truncated or padded")


def _check_rows(path: Path, manifest: Manifest) -> None:
    """Every row names arrays that exist and fit together and an instruction whose formats they have."""
    from .. import isa

    for row in manifest.rows:
        where = f"{path}: row {row.name}"
        missing = [name for name in (*row.inputs, row.output) if name not in manifest.arrays]
        if missing:
            raise RecordingError(f"{where}: no array {missing[0]}")
        try:
            instruction = isa.lookup(row.instruction)
        except LookupError as fault:
            raise RecordingError(f"{where}: {fault}") from None
        shapes = [manifest.arrays[name][1] for name in (*row.inputs, row.output)]
        if not _fits(row, shapes, instruction):
            raise RecordingError(f"{where}: shapes {shapes} do not fit a {row.kind} row of {row.instruction}")
        for name, fmt in zip((*row.inputs, row.output), (*instruction.operands, instruction.result), strict=True):
            bits = 8 * _DTYPES[manifest.arrays[name][0]].itemsize
            if fmt is not None and bits < fmt.bits:
                raise RecordingError(f"{where}: {name} has {bits}-bit codes, {row.instruction} takes {fmt.name}")
        if row.results != int(np.prod(shapes[-1])):
            raise RecordingError(f"{where}: {row.results} results, its output has {int(np.prod(shapes[-1]))}")
        units = 1 if row.kind == "gemm" else shapes[-1][0]
        if row.classes and sum(count for _, count in row.classes) != units:
            raise RecordingError(f"{where}: its classes add up to {sum(c for _, c in row.classes)}, it has {units}")


def _fits(row: Row, shapes: list[tuple[int, ...]], instruction) -> bool:  # type: ignore[no-untyped-def]
    if len(row.inputs) != len(instruction.operands):
        return False
    if row.kind == "scalar":
        return not instruction.is_matrix and len(set(shapes)) == 1 and len(shapes[0]) == 1
    if not instruction.is_matrix:
        return False
    a, b, c, d = shapes
    k = instruction.shape.k
    if row.kind == "matrix":
        return len(a) == len(b) == len(c) == 3 and c == d == (a[0], a[1], b[2]) and b[:2] == (a[0], a[2]) and a[2] == k
    if row.kind == "dot":
        return len(a) == 2 and a == b and c == d == a[:1] and a[1] == k
    steps = list(range(a[1] // k)) if len(a) == 2 else []
    return (
        len(a) == len(b) == 2
        and c == d == (a[0], b[1])
        and b[0] == a[1]
        and sorted(row.k_order) == steps
        and a[1] % k == 0
    )


def _chunks(archive: zipfile.ZipFile, manifest: Manifest, row: Row, results: int) -> Iterator[Chunk]:
    """Open all arrays of the row side by side and read them in step."""
    names = (*row.inputs, row.output)
    shapes = [manifest.arrays[name][1] for name in names]
    dtypes = [_DTYPES[manifest.arrays[name][0]] for name in names]
    members = [archive.open(f"{name}.npy") for name in names]
    try:
        for member in members:
            np.lib.format.read_magic(member)
            np.lib.format.read_array_header_1_0(member)
        count = shapes[-1][0]
        per_unit = int(np.prod(shapes[-1][1:], dtype=np.int64))
        step = count if row.kind == "gemm" else max(1, results // max(1, per_unit))
        for start in range(0, count, step):
            size = min(step, count - start)
            parts = []
            for member, shape, dtype in zip(members, shapes, dtypes, strict=True):
                wanted = shape if row.kind == "gemm" else (size, *shape[1:])
                parts.append(_read(member, wanted, dtype))
            yield Chunk(start, start * per_unit, tuple(parts[:-1]), parts[-1])
    except (zipfile.BadZipFile, EOFError, zipfile.zlib.error) as fault:  # type: ignore[attr-defined]
        raise RecordingError(f"{archive.filename}: {row.name}: damaged archive ({fault})") from None
    finally:
        for member in members:
            member.close()


def _read(member: IO[bytes], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    data = bytearray()
    while len(data) < size:
        block = member.read(size - len(data))
        if not block:
            raise EOFError("it ends early")
        data += block
    array = np.frombuffer(data, dtype).reshape(shape)
    if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise RecordingError("a predicate holds something other than 0 and 1")
    return array
