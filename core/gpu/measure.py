"""What is faster on a device for a kind of work: measured once per device and driver, then remembered.

Three kinds differ: contractions, row reductions, and elementwise work. For each, a small program (`samples`) runs
under both mappings; the faster one is the default for kernels of that kind (`form=None`). Where a device offers what
`tensor_double` needs, the contraction also runs with and without it. Bits are the same either way. Verdicts are kept
on disk beside the probe's, under the same identity: device, driver, and a hash of everything that emits code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import log
from ..formats import F16, F32, Codes
from ..tile import program as tp
from .device import emitter_hash
from .pipeline import cache_folder, write_atomically

if TYPE_CHECKING:
    from ..binding import Bound
    from .device import Device
    from .run import Result
    from .target import Target

RUNS, GPU_RUNS = 3, 16
LONG = 0.1  # seconds of one round, after which no other is run
FORMS = "registers", "shared"
DOTS = DOUBLE, SINGLE = "double", "single"
_known: dict[str, dict[str, str]] = {}


def kind_of(program: tp.Program) -> str:
    """The kind of work that decides a program's speed."""
    kinds = {type(op) for op in tp.walk(program.body)}
    if tp.Contract in kinds:
        return "contraction"
    return "reduction" if kinds & {tp.Reduce, tp.Scan, tp.ArgMax} else "pointwise"


def preferred(device: Device, kind: str) -> str:
    """``registers`` or ``shared``: the faster mapping for a kind of work on a device."""
    ways = {form: {"default": form} for form in FORMS}
    return _verdict(device, kind, FORMS, lambda: _fastest(device, kind, ways)) or "shared"


def prefers_double(device: Device) -> bool:
    """Whether dots of f16 in f64 (`tensor_double`) are faster on a device, and exact there."""

    def measured() -> str:
        try:
            exact = double_is_exact(device)
        except Exception as error:  # it does not even run
            if not device.alive:
                raise
            exact = False
            log.debug(f"{device.name}: dots in f64: {error}")
        if not exact:
            log.debug(f"{device.name}: dots in f64 are not exact here; they are not used")
            return SINGLE
        return _fastest(device, "contraction", {d: {"form": "shared", "double": d == DOUBLE} for d in DOTS})

    return can_double(device.target) and _verdict(device, "dots", DOTS, measured) == DOUBLE


def can_double(target: Target) -> bool:
    """Whether a device offers all that `tensor_double` needs."""
    return target.float64 and target.float16 and target.truncates_f64 and not target.is_cpu and not target.is_narrow


def double_is_exact(device: Device) -> bool:
    """Whether `tensor_double` gives the codes of the form that the probe found exact, on hard operands and seeds."""
    from ..isa import SM86, lookup
    from .probe_matrix import operands
    from .run import run
    from .samples import contraction

    size, depth = 256, 32
    for result in (F32, F16):
        program = contraction(result, seeded=True)
        (row,) = (lookup(c.instruction) for c in program.contractions())
        assert row.shape is not None
        a, b, c = operands(row, size * size // (row.shape.m * row.shape.n), seed=2)
        tensors = {"A": _tiled(a, size, depth), "B": _tiled(b, depth, size), "C": _tiled(c, size, size)}
        bound = _bound(program, tensors, {"M": size, "N": size, "K": depth}, (size // 64, size // 64, 1))
        found, expected = (run(device, bound, SM86, "shared", None, double=d).outputs["C"] for d in (True, False))
        if not np.array_equal(found, expected):
            return False
    return True


def _tiled(tiles: Codes, rows: int, columns: int) -> Codes:
    """A matrix of so many rows and columns from tiles [t, m, n]; those left over are dropped."""
    _, m, n = tiles.shape
    down, across = rows // m, columns // n
    grid = tiles[: down * across].reshape(down, across, m, n)
    return np.ascontiguousarray(grid.transpose(0, 2, 1, 3)).reshape(rows, columns)


def _bound(program: tp.Program, tensors: dict[str, Codes], dims: dict[str, int], grid: tuple[int, int, int]) -> Bound:
    from ..binding import Bound

    return Bound(program, tensors, {}, dims, grid, {name: name for name in tensors})


# ---- remembering -------------------------------------------------------------------------------------------------


def _verdict(device: Device, key: str, choices: tuple[str, ...], measured: Callable[[], str]) -> str:
    """What was found before, in this process or on disk, or is found now; "", not kept, where nothing ran."""
    identity = f"{device.info.identity}-{emitter_hash()}"
    known = _known.setdefault(identity, {})
    if known.get(key) not in choices:
        folder = cache_folder()
        path = None if folder is None else folder / f"mappings-{identity}.json"
        found = "" if path is None else _read(path).get(key, "")
        if found not in choices:
            found = measured()
            if found not in choices:
                return ""
            if path is not None:
                write_atomically(path, json.dumps(_read(path) | known | {key: found}).encode())  # others write it too
        known[key] = found
    return known[key]


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


# ---- measuring ---------------------------------------------------------------------------------------------------


def _fastest(device: Device, kind: str, ways: dict[str, dict[str, Any]]) -> str:
    """The name of the fastest way to run a kind's sample, "" where none ran. ways: name -> arguments of `run`."""
    from ..isa import SM86
    from .run import run
    from .samples import LARGE, SMALL

    sample = (SMALL if device.target.is_cpu else LARGE)[kind]
    program, dims = sample.make(), sample.dims
    rng = np.random.default_rng(0)
    tensors = {}
    for tensor in program.tensors:
        values = rng.standard_normal(tuple(dims[str(d)] for d in tensor.dims), np.float32)
        codes = values.astype(np.float16).view(np.uint16) if tensor.element.bits == 16 else values.view(np.uint32)
        tensors[tensor.name] = codes
    bound = _bound(program, tensors, dims, sample.grid)
    launches: dict[str, Callable[[], Result]] = {}
    for name, arguments in ways.items():
        launch = partial(run, device, bound, SM86, instructions=None, **{"form": None} | arguments)
        try:
            launch()
            launches[name] = launch
        except Exception as error:  # a way that a device cannot run is no candidate
            if not device.alive:
                raise
            log.debug(f"{device.name}: {name} cannot run the {kind} sample: {error}")
    seconds: dict[str, float] = {}
    # In turn: the clocks of a GPU that was idle rise while it is measured.
    for _ in range(RUNS if device.target.is_cpu else GPU_RUNS):
        for name, again in launches.items():
            seconds[name] = min(seconds.get(name, math.inf), _timed(device, again))
        if sum(seconds.values()) > LONG:
            break
    fastest = min(seconds, key=seconds.__getitem__) if seconds else ""
    figures = ", ".join(f"{name} {1e3 * s:.2f} ms" for name, s in seconds.items())
    log.debug(f"{device.name}: {kind} kernels take {fastest or 'neither'} by default ({figures})")
    return fastest


def _timed(device: Device, launch: Callable[[], Result]) -> float:
    """Seconds on the device; of CPU time on a CPU device, whose verdict other work on the machine would decide."""
    start = process_time()
    seconds = launch().seconds
    return process_time() - start if device.target.is_cpu else seconds
