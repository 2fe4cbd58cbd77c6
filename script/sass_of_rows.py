#!/usr/bin/env python3
"""Disassemble what the CUDA compiler makes of every row's PTX: evidence for the table's SASS column.

    python3 script/sass_of_rows.py [--arch 86 --arch 90] --json FILE

Needs ptxas and cuobjdump (a CUDA toolkit, no card). Writes {arch: {row: [SASS mnemonics of the body]}}.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
try:
    import phobos_sim
except ImportError:  # from a bare checkout: core/ is the package
    shim = Path(tempfile.mkdtemp())
    (shim / "phobos_sim").symlink_to(ROOT / "core")
    sys.path.insert(0, str(shim))
    import phobos_sim  # noqa: F401

from phobos_sim import isa  # noqa: E402
from phobos_sim.recordings.recorder.mma_ptx import tile_kernel  # noqa: E402
from phobos_sim.recordings.recorder.scalar_ptx import body_for, kernel  # noqa: E402

#: of the frame around a body: index arithmetic, memory, control
FRAME = re.compile(r"^(S2R|S2UR|ULDC|LDC|LDG|STG|EXIT|BRA|NOP|ISETP|IMAD|MOV|UMOV|LDCU|CS2R|IADD3|LEA|S2R)\b")
MNEMONIC = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")


def sass(ptx: str, arch: int) -> list[str]:
    """Mnemonics of an assembled module, in order, frame instructions kept."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "body.ptx"), Path(folder, "body.cubin")
        source.write_text(ptx)
        subprocess.run(["ptxas", f"-arch=sm_{arch}", str(source), "-o", str(cubin)], check=True)
        listing = subprocess.run(["cuobjdump", "-sass", str(cubin)], check=True, capture_output=True, text=True).stdout
    return [found[1] for line in listing.splitlines() if (found := MNEMONIC.match(line))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, action="append")
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    table: dict[str, dict[str, list[str]]] = {}
    for arch in options.arch or [86, 90]:
        jobs = {}
        for row in isa.INSTRUCTIONS:
            if not row.since <= arch <= row.until:
                continue
            if row.is_matrix:
                jobs[row.key] = tile_kernel("body", row, arch)
            elif found := body_for((row.key, *row.ptx), arch):
                jobs[row.key] = kernel("body", found[1], arch)
        with ThreadPoolExecutor() as pool:
            listings = list(pool.map(lambda text, arch=arch: sass(text, arch), jobs.values()))
        table[f"sm_{arch}"] = dict(zip(jobs, listings, strict=True))
    Path(options.json).write_text(json.dumps(table, indent=0) + "\n")
    for arch_name, rows in table.items():
        for key, names in rows.items():
            print(arch_name, key, " ".join(name for name in names if not FRAME.match(name)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
