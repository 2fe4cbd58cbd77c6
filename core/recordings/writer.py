"""Writing a recording: a reproducible npz and its manifest.

The same arrays give the same bytes: entries keep their order, carry no time of writing and are compressed with one
fixed setting. Both files appear at once or not at all (written beside, then renamed).
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from .manifest import Manifest, to_json


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An npz of these arrays, the same bytes every time."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            body = io.BytesIO()
            np.lib.format.write_array(body, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(entry, body.getvalue())
    return target.getvalue()


def write(folder: Path, manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write `manifest.file` and its JSON into the folder, hashes and array list filled in; returns the npz path."""
    folder.mkdir(parents=True, exist_ok=True)
    content = npz_bytes(arrays)
    listed = {name: (array.dtype.name, tuple(array.shape)) for name, array in arrays.items()}
    sealed = replace(manifest, bytes=len(content), sha256=hashlib.sha256(content).hexdigest(), arrays=listed)
    path = folder / manifest.file
    for target, data in ((path, content), (path.with_suffix(".json"), to_json(sealed).encode())):
        beside = target.with_name(target.name + ".new")
        beside.write_bytes(data)
        beside.replace(target)
    return path
