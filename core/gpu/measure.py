"""Which mapping is faster on a device for a kind of work: measured once per device and driver, then remembered.

Three kinds differ: contractions, row reductions, and elementwise work. For each, a small program (`samples`) runs
under both mappings; the faster one is the default for kernels of that kind (`form=None`). Bits are the same either
way. Verdicts are kept on disk beside the probe's, under the same identity: device, driver, and a hash of everything
that emits code.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from .. import log
from ..tile import program as tp
from .device import emitter_hash
from .pipeline import cache_folder, write_atomically

if TYPE_CHECKING:
    from .device import Device
    from .run import Result

RUNS = 3
_known: dict[str, dict[str, str]] = {}


def kind_of(program: tp.Program) -> str:
    """The kind of work that decides a program's speed."""
    kinds = {type(op) for op in tp.walk(program.body)}
    if tp.Contract in kinds:
        return "contraction"
    return "reduction" if kinds & {tp.Reduce, tp.Scan, tp.ArgMax} else "pointwise"


def preferred(device: Device, kind: str) -> str:
    """``registers`` or ``shared``: the faster mapping for a kind of work on a device."""
    identity = f"{device.info.identity}-{emitter_hash()}"
    known = _known.setdefault(identity, {})
    if kind in known:
        return known[kind]
    folder = cache_folder()
    path = None if folder is None else folder / f"mappings-{identity}.json"
    if path is not None and not known:
        known.update(_read(path))
    if kind not in known:
        known[kind] = _measure(device, kind)
        if path is not None:
            write_atomically(path, json.dumps(known).encode())
    return known[kind]


def _read(path) -> dict[str, str]:  # type: ignore[no-untyped-def]
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in found.items() if v in ("registers", "shared")} if isinstance(found, dict) else {}


def _measure(device: Device, kind: str) -> str:
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
    seconds, runs = {}, range(RUNS + 1)
    for form in ("registers", "shared"):
        try:
            times = [_timed(device, partial(run, device, bound, SM86, None, None, default=form)) for _ in runs]
        except Exception as error:  # a mapping that a device cannot run is no candidate
            log.debug(f"{device.name}: {form} cannot run the {kind} sample: {error}")
            continue
        seconds[form] = min(times[1:])
    chosen = min(seconds, key=seconds.__getitem__) if seconds else "shared"
    figures = ", ".join(f"{form} {1e3 * s:.2f} ms" for form, s in seconds.items())
    log.debug(f"{device.name}: {kind} kernels take {chosen} by default ({figures})")
    return chosen


def _timed(device: Device, launch: Callable[[], Result]) -> float:
    """Seconds on the device; of CPU time on a CPU device, whose verdict other work on the machine would decide."""
    start = process_time()
    seconds = launch().seconds
    return process_time() - start if device.target.is_cpu else seconds
