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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import log
from ..formats import Codes
from ..tile import program as tp
from .device import emitter_hash
from .pipeline import cache_folder, write_atomically

if TYPE_CHECKING:
    from .device import Device
    from .run import Result
    from .target import Target

RUNS, GPU_RUNS = 3, 16
LONG = 0.1  # seconds of one round, after which no other is run
DOTS = ("double", "single")
_known: dict[str, dict[str, str]] = {}


def kind_of(program: tp.Program) -> str:
    """The kind of work that decides a program's speed."""
    kinds = {type(op) for op in tp.walk(program.body)}
    if tp.Contract in kinds:
        return "contraction"
    return "reduction" if kinds & {tp.Reduce, tp.Scan, tp.ArgMax} else "pointwise"


def preferred(device: Device, kind: str) -> str:
    """``registers`` or ``shared``: the faster mapping for a kind of work on a device."""

    def measured() -> str:
        ways = {form: {"default": form} for form in ("registers", "shared")}
        found = _measure(device, kind, ways)
        return found.fastest or "shared"

    return _verdict(device, kind, ("registers", "shared"), measured)


def prefers_double(device: Device) -> bool:
    """Whether dots of f16 in f64 (`tensor_double`) are faster there, at equal bits."""
    if not can_double(device.target):
        return False

    def measured() -> str:
        found = _measure(device, "contraction", {name: {"form": "shared", "double": name == "double"} for name in DOTS})
        codes = list(found.outputs.values())
        if any(not np.array_equal(codes[0], other) for other in codes[1:]):
            log.debug(f"{device.name}: dots in f64 gave other bits; they are not used")
            return "single"
        return found.fastest or "single"

    return _verdict(device, "dots", DOTS, measured) == "double"


def can_double(target: Target) -> bool:
    """Whether a device offers all that `tensor_double` needs."""
    return target.float64 and target.float16 and target.truncates_f64 and not target.is_cpu and not target.is_narrow


def _verdict(device: Device, key: str, choices: tuple[str, ...], measured: Callable[[], str]) -> str:
    """What was found before, in this process or on disk, or is found now."""
    identity = f"{device.info.identity}-{emitter_hash()}"
    known = _known.setdefault(identity, {})
    folder = cache_folder()
    path = None if folder is None else folder / f"mappings-{identity}.json"
    if path is not None and not known:
        known.update(_read(path))
    if known.get(key) not in choices:
        known[key] = measured()
        if path is not None:
            write_atomically(path, json.dumps(known).encode())
    return known[key]


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


@dataclass
class _Found:
    """The name of the fastest way, "" where none ran, and what each way computed."""

    fastest: str
    outputs: dict[str, Codes]


def _measure(device: Device, kind: str, ways: dict[str, dict[str, Any]]) -> _Found:
    """Runs a kind's sample in each way: name -> arguments of `run`."""
    from ..binding import Bound
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
    bound = Bound(program, tensors, {}, dims, sample.grid, {name: name for name in tensors})
    seconds: dict[str, float] = {}
    outputs: dict[str, Codes] = {}
    launches: dict[str, Callable[[], Result]] = {}
    for name, arguments in ways.items():
        launch = partial(run, device, bound, SM86, instructions=None, **{"form": None} | arguments)
        try:
            outputs[name] = next(iter(launch().outputs.values()))
            launches[name] = launch
        except Exception as error:  # a way that a device cannot run is no candidate
            log.debug(f"{device.name}: {name} cannot run the {kind} sample: {error}")
    # In turn: the clocks of a GPU that was idle rise while it is measured.
    for _ in range(RUNS if device.target.is_cpu else GPU_RUNS):
        for name, again in launches.items():
            seconds[name] = min(seconds.get(name, math.inf), _timed(device, again))
        if sum(seconds.values()) > LONG:
            break
    fastest = min(seconds, key=seconds.__getitem__) if seconds else ""
    figures = ", ".join(f"{name} {1e3 * s:.2f} ms" for name, s in seconds.items())
    log.debug(f"{device.name}: {kind} kernels take {fastest or 'neither'} by default ({figures})")
    return _Found(fastest, outputs)


def _timed(device: Device, launch: Callable[[], Result]) -> float:
    """Seconds on the device; of CPU time on a CPU device, whose verdict other work on the machine would decide."""
    start = process_time()
    seconds = launch().seconds
    return process_time() - start if device.target.is_cpu else seconds
