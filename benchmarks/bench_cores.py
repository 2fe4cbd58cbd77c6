"""Contraction cores by themselves: one GEMM shader per core, without the compiler, to tune cores and mappings.

The layout is that of the register mapping on a CPU device: a unit of work is one subgroup, lane l holds `rows` rows
of a (l, l + lanes, ...) and row k0 + l of eight columns of b, whose elements travel by shuffle; 8 k's per trip of one
bottom-tested loop, 256 invocations per workgroup, no barrier. The inexact row is the same shader with an unfused
multiply and add: what exactness is measured against. Results are checked against the reference on eight rows.

Prints one JSON object; all rows run interleaved, and rates are by free times (harness.py). The inexact row comes in
several blockings: the fastest is the best plain shader. Arguments: a size (512), then parts of names to choose rows.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from harness import about, interleaved
from phobos_sim import isa
from phobos_sim.formats import Codes
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import probe
from phobos_sim.gpu.sm86 import chains, inexact
from phobos_sim.isa import SM86
from phobos_sim.reference import execute as reference
from phobos_sim.spirv.builder import DONT_UNROLL, Builder, Value

RUNS = 7
BLOCKINGS = (8, 16, 32, 64)
COLUMNS = STEP = 8
INVOCATIONS = 256
Part = tuple[Value, ...]


def words(e: Builder, vector: Value) -> list[Value]:
    """The 32-bit words of a loaded vector."""
    parts = [e.extract(vector, i) for i in range(int(vector.kind.partition("x")[2]))]
    if parts[0].kind != "u64":
        return parts
    return [e.extract(e.bitcast(part, "u32x2"), i) for part in parts for i in range(2)]


def shader(core: chains.Core, bits: int, lanes: int, rows: int) -> bytes:
    """C = A B with zero seeds: buffers A [M, K], B [K, N] of codes, C [M, N] of words; push: 0, M, N, K, trips."""
    e = Builder(None, (INVOCATIONS, 1, 1))
    e.push_constants(5)
    _, _, n, k, trips = (e.push(i) for i in range(5))
    kind = {8: "u32x2", 16: "u32x4", 32: "u64x4"}[bits]
    a, b, c = e.buffer(0, kind, True), e.buffer(1, kind, True), e.buffer(2, "u32x4")
    index = e.builtin("LocalInvocationIndex")
    lane = index & (lanes - 1)
    unit = e.builtin("WorkgroupId", 0) * (INVOCATIONS // lanes) + index // lanes
    first_row = unit // (n // COLUMNS) * (rows * lanes) + lane
    first_column = unit % (n // COLUMNS) * COLUMNS
    lane_numbers = [e.push(0) + i for i in range(STEP)]
    state = [
        [[e.variable(part.kind, part) for part in core.seed(e, e.u32(0))] for _ in range(COLUMNS)] for _ in range(rows)
    ]
    counter = e.variable("u32", 0)

    def decode(vector: Value, side: int) -> list[Part]:
        return [operand for word in words(e, vector) for operand in core.operands_of_word(e, word, side)]

    def trip() -> Value:
        t = counter.load()
        k0 = t * STEP
        mine = [decode(a.load(((first_row + r * lanes) * k + k0) >> 3), 0) for r in range(rows)]
        theirs = decode(b.load(((k0 + (lane & (STEP - 1))) * n + first_column) >> 3), 1)
        # k outermost: the chains of all outputs are then in flight together
        for g in range(0, STEP, core.width):
            for column in range(COLUMNS):
                part = [
                    tuple(e.shuffle(value, lane_numbers[g + i]) for value in theirs[column]) for i in range(core.width)
                ]
                for r in range(rows):
                    variables = state[r][column]
                    after = core.step(e, tuple(v.load() for v in variables), mine[r][g : g + core.width], part)
                    for variable, value in zip(variables, after):
                        variable.store(value)
        counter.store(t + 1)
        return t + 1 < trips

    e.do_while(trip, DONT_UNROLL)
    for r in range(rows):
        codes = [core.result(e, tuple(v.load() for v in variables)) for variables in state[r]]
        for q in range(0, COLUMNS, 4):
            c.store(((first_row + r * lanes) * n + first_column + q) >> 2, e.vector(*codes[q : q + 4]))
    return e.module()


@dataclass(frozen=True)
class Row:
    """One line of the table: a core by its row's key, whether its operands are plain, and their codes."""

    name: str
    key: str
    codes: Callable[[np.random.Generator, int], Codes]
    plain: bool = False
    exact16: bool = False
    inexact: bool = False
    outputs: int = 0  # 0: what the core says


def normal(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.standard_normal((size, size)).astype(np.float32)


def f16(rng: np.random.Generator, size: int) -> Codes:
    return normal(rng, size).astype(np.float16).view(np.uint16)


def bf16(rng: np.random.Generator, size: int) -> Codes:
    return (normal(rng, size).view(np.uint32) >> 16).astype(np.uint16)


def f32(rng: np.random.Generator, size: int) -> Codes:
    return normal(rng, size).view(np.uint32)


def widened(rng: np.random.Generator, size: int) -> Codes:
    return f16(rng, size).view(np.float16).astype(np.float32).view(np.uint32)


def s8(rng: np.random.Generator, size: int) -> Codes:
    return rng.integers(0, 256, (size, size)).astype(np.uint8)


ROWS = (
    *(
        Row(f"f32 multiply-add, inexact, {n} outputs", "HMMA.16816.F32", f16, inexact=True, outputs=n)
        for n in BLOCKINGS
    ),
    Row("HMMA f16, f32", "HMMA.16816.F32", f16),
    Row("HMMA f16, f32, plain", "HMMA.16816.F32", f16, plain=True),
    Row("HMMA f16, f16", "HMMA.16816.F16", f16),
    Row("HMMA f16, f16, plain", "HMMA.16816.F16", f16, plain=True),
    Row("HMMA bf16", "HMMA.16816.F32.BF16", bf16),
    Row("HMMA bf16, plain", "HMMA.16816.F32.BF16", bf16, plain=True),
    Row("HMMA tf32", "HMMA.1688.F32.TF32", f32),
    Row("HMMA tf32, plain", "HMMA.1688.F32.TF32", f32, plain=True),
    Row("IMMA s8", "IMMA.8816.S8.S8", s8),
    Row("FFMA", "FFMA", f32),
    Row("FFMA of f16 values", "FFMA", widened, exact16=True),
    Row("HFMA2", "HFMA2", f16),
    Row("HFMA2 bf16", "HFMA2.BF16_V2", bf16),
)


@dataclass
class Prepared:
    """A row's pipeline and buffers."""

    row: Row
    core: chains.Core
    outputs: int
    code: bytes
    item: tuple
    operands: tuple[Codes, Codes]


def prepare(device: devices.Device, row: Row, size: int) -> Prepared:
    rng = np.random.default_rng(0)
    a, b = row.codes(rng, size), row.codes(rng, size)
    instruction = isa.lookup(row.key)
    if row.inexact:
        core: chains.Core = inexact.InexactCore(instruction)
    else:
        target = probe.target_for(device, (row.key, "FMUL", "FADD"))
        core = chains.core(instruction, SM86, target, a_exact16=row.exact16, b_exact16=row.exact16, plain=row.plain)
    lanes = device.target.subgroup_size
    rows = max(1, (row.outputs or core.outputs) // COLUMNS)
    code = shader(core, 8 * a.dtype.itemsize, lanes, rows)
    pipeline = device.pipeline(code, 3, 5)
    buffers = [device.buffer(a), device.buffer(b), device.buffer(4 * size * size)]
    units = size * size // (rows * lanes * COLUMNS)
    item = (pipeline, buffers, [0, size, size, size, size // STEP], (units * lanes // INVOCATIONS, 1, 1))
    return Prepared(row, core, rows * COLUMNS, code, item, (a, b))


def wrong(ready: Prepared, size: int) -> int:
    """Results of eight rows that are not the reference's."""
    instruction, (a, b) = isa.lookup(ready.row.key), ready.operands
    picked = slice(3, size, size // 8)
    zeros = np.zeros((len(range(size)[picked]), size), instruction.result.dtype)  # type: ignore[union-attr]
    expected = reference.chain(instruction, a[picked], b, zeros)
    return int(np.count_nonzero(ready.item[1][2].read(np.uint32, (size, size))[picked] != expected))


def main() -> int:
    size, wanted = int(sys.argv[1]) if sys.argv[1:] else 512, sys.argv[2:]
    device = devices.open_device(os.environ.get("PHOBOS_DEVICE"))
    chosen = [row for row in ROWS if not wanted or any(w in row.name for w in wanted)]
    ready = {row.name: prepare(device, row, size) for row in chosen}
    samples = interleaved({name: partial(device.run, [one.item]) for name, one in ready.items()}, RUNS)
    rows = []
    for name, one in ready.items():
        row = {"name": name, "form": one.core.form, "outputs": one.outputs, "spirv_bytes": len(one.code)}
        row |= samples[name].summary(size**3)
        rows.append(row if one.row.inexact else {**row, "wrong": wrong(one, size)})
    print(json.dumps({**about("cores", device), "size": size, "rows": rows}))
    return int(any(row.get("wrong") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
