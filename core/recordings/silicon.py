"""Sets without a manifest that this program knows by name: what their arrays are.

Rules
 1. `<arch>-<card>-public.npz`: the public sets of MATLAB-tensor-core converted to codes. Keys `<in>.<out>.{a,b,c,d}`,
    one dot product a result; the width says which instruction ran: 4 HMMA.884 on sm_70 and HMMA.1684 for tf32, 8
    HMMA.1688, 16 HMMA.16816. Inputs are near one.
 2. `sm90-h200-mma.npz`: one mma.sync a tile, ten classes of equal size (integers: one).
 3. `sm90-h200-scalar.npz`: keys `<ptx>.in0 ...`, `<ptx>.out`, 16-bit values in the low half of a word.
 4. Rows of instructions that the table does not have (fp8) are left out.
The files are known by their sha256 too, so a changed one is refused like any other recording.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .. import isa
from .manifest import Manifest, Row
from .tiles import MATRIX_CLASSES

PUBLIC = (
    "github.com/north-numerical-computing/MATLAB-tensor-core, model_validation "
    "(F. A. Khattak and M. Mikaitis, Accurate Models of NVIDIA Tensor Cores)"
)
_OWN = "recorded for this project on an H200: raw random bits and nine more input classes"

#: file -> (bytes, sha256, card)
KNOWN = {
    "sm100-b200-public.npz": (
        538275,
        "de7fb75dc610e80306af79f926d573ffd0dadc8b967ace89703468ce25bd8f4d",
        "NVIDIA B200",
    ),
    "sm70-v100-public.npz": (102884, "2ad2a5454a54a54a674c313563a628e713b95bd403b5d4c334646d78c1c67790", "NVIDIA V100"),
    "sm80-a100-public.npz": (327268, "75c360db76512521cd2db179e40accc862f8373849be7190663d35b7e953b3ff", "NVIDIA A100"),
    "sm86-a2-public.npz": (327318, "c7ed47ad2647076fa4db7cb311308aa2352b5449e9e3569fba1187018f536ff6", "NVIDIA A2"),
    "sm89-ada-public.npz": (
        327282,
        "fe9b1d83829903243f04fbe07a6375971331bbf9c0b75dc0779c40a633cbfb6a",
        "NVIDIA RTX 1000 Ada",
    ),
    "sm89-l40s-public.npz": (327282, "fe9b1d83829903243f04fbe07a6375971331bbf9c0b75dc0779c40a633cbfb6a", "NVIDIA L40S"),
    "sm90-h100-public.npz": (538309, "478a29ffcc8f55a673e9af65061627acfe27259fa44f22c711ada6eb09b0cd8c", "NVIDIA H100"),
    "sm90-h200-public.npz": (538314, "936dc1207ad9ebfa72f35acf22e0a750c8b3df40c97443c3b3ad8f4f27ed4442", "NVIDIA H200"),
    "sm90-h200-mma.npz": (5538665, "e6602f8d64dffe70e0961faf9e6c1fb4283b38a334a93bb4bcb68a6d1fa78aeb", "NVIDIA H200"),
    "sm90-h200-scalar.npz": (
        6679546,
        "1a7004b36a81a0e328a1d185881d1a541b41df64d568dc58850caea5425faa69",
        "NVIDIA H200",
    ),
}

_MMA = {
    "f16_16816_f32": "HMMA.16816.F32",
    "f16_1688_f32": "HMMA.1688.F32",
    "f16_16816_f16": "HMMA.16816.F16",
    "f16_1688_f16": "HMMA.1688.F16",
    "bf16_16816_f32": "HMMA.16816.F32.BF16",
    "bf16_1688_f32": "HMMA.1688.F32.BF16",
    "tf32_1688_f32": "HMMA.1688.F32.TF32",
    "tf32_1684_f32": "HMMA.1684.F32.TF32",
    "s8_8816": "IMMA.8816.S8.S8",
    "s8_16832": "IMMA.16832.S8.S8",
    "u8s8_16832": "IMMA.16832.U8.S8",
    "s8sat_16832": "IMMA.16832.S8.S8.SAT",
}

Arrays = dict[str, tuple[str, tuple[int, ...]]]


def describe(path: Path) -> Manifest | None:
    """The manifest of a known file, or None."""
    known = KNOWN.get(path.name)
    if known is None:
        return None
    size, sha256, card = known
    arrays = headers(path)
    rows = {"mma": _mma_rows, "scalar": _scalar_rows}.get(path.stem.rsplit("-", 1)[1], _public_rows)
    try:
        found = tuple(rows(arrays))
    except (LookupError, ValueError):  # not this file at all: its hash will say so
        found = ()
    public = path.stem.endswith("public")
    return Manifest(
        file=path.name, bytes=size, sha256=sha256, arch=f"sm_{path.name[2:].split('-')[0]}", card=card,
        driver="not stated" if public else "580.159.04 (CUDA 13.0)", origin="silicon",
        recorded_by="F. A. Khattak and M. Mikaitis" if public else "phobos-sim project", recorded_on="not stated",
        tool="converted from the public text files" if public else "prototype recorder", seed=0,
        licence="BSD-2-Clause" if public else "MIT", provenance=PUBLIC if public else _OWN,
        arrays=arrays, rows=found,
    )  # fmt: skip


def headers(path: Path) -> Arrays:
    """Names, dtypes and shapes of an npz, from its headers alone; nothing where it is not one."""
    found: Arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as member:
                    np.lib.format.read_magic(member)
                    shape, _, dtype = np.lib.format.read_array_header_1_0(member)
                    found[entry.filename.removesuffix(".npy")] = (dtype.name, shape)
    except (zipfile.BadZipFile, ValueError, EOFError):
        return {}
    return found


def public_instruction(operand: str, result: str, width: int) -> str:
    """The instruction a public set's group belongs to."""
    if operand == "tf32":
        return "HMMA.1684.F32.TF32"
    shape = {4: "884", 8: "1688", 16: "16816"}[width]
    return f"HMMA.{shape}.{result.upper()}" + (".BF16" if operand == "bf16" else "")


def _public_rows(arrays: Arrays) -> Iterator[Row]:
    for key in sorted({name.rsplit(".", 1)[0] for name in arrays}):
        operand, result = key.split(".")
        shape = arrays[f"{key}.a"][1]
        instruction = public_instruction(operand, result, shape[1])
        yield Row(
            instruction,
            instruction,
            "dot",
            f"{operand} to {result}, groups of {shape[1]}",
            (f"{key}.a", f"{key}.b", f"{key}.c"),
            f"{key}.d",
            shape[0],
            (("near_one", shape[0]),),
        )


def _mma_rows(arrays: Arrays) -> Iterator[Row]:
    for key, instruction in _MMA.items():
        row = isa.lookup(instruction)
        tiles, m, n = arrays[f"{key}.d"][1]
        names = MATRIX_CLASSES if row.operands[0] is not None and row.operands[0].is_float else ("raw",)
        yield Row(
            instruction,
            instruction,
            "matrix",
            row.ptx[0],
            tuple(f"{key}.{letter}" for letter in "abc"),
            f"{key}.d",
            tiles * m * n,
            tuple((name, tiles // len(names)) for name in names),
        )


def _scalar_rows(arrays: Arrays) -> Iterator[Row]:
    for key in dict.fromkeys(name.rsplit(".", 1)[0] for name in arrays):
        inputs = tuple(name for name in arrays if name.rsplit(".", 1)[0] == key and not name.endswith(".out"))
        count = arrays[f"{key}.out"][1][0]
        yield Row(key, isa.lookup(key).key, "scalar", key, inputs, f"{key}.out", count, (("mixed", count),))
