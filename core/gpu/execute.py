"""One instruction on batches of codes on a Vulkan device: the device half of `sim.execute`, also used by the probe.

An elementwise instruction becomes one shader: an invocation takes four or eight elements, so that every access is 16
or 32 bytes wide (on a CPU device the number of accesses decides the time: tile-lowering.md A3); narrower codes are
widened to 32-bit words on the host. Batches are padded to whole workgroups
and split below every device's limits; there are no loops, so lavapipe's loop limit does not apply. Matrix instructions
go to `execute_matrix`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .. import isa
from ..formats import Codes, Format, dtype_of
from ..isa import Arch, Instruction
from ..spirv.builder import Builder, Value
from . import execute_matrix, probe, sm86
from .memory import Buffer
from .sm86 import mufu
from .target import Target

if TYPE_CHECKING:
    from .device import Device

LOCAL_SIZE = 64
#: Elements of one dispatch: at most 32 MiB a buffer and 16,384 workgroups.
MOST_ELEMENTS = 1 << 22


def execute(
    instruction: Instruction, codes: list[Codes], arch: Arch, device: Device, instructions: str | None = None
) -> Codes:
    """Codes of the results, of the operands' shape (matrix instructions: of c's).

    instructions: None, ``native`` or ``integer`` (`probe.target_for`). Raises UnavailableError for what the device
    lacks.
    """
    target = probe.target_for(device, (instruction.key,), instructions)
    if instruction.is_matrix:
        form = target.forms.get(instruction.key)
        return execute_matrix.run(device, instruction, codes[0], codes[1], codes[2], arch, form)
    return elementwise(device, target, instruction, codes)


def lanes(target: Target, formats: tuple[Format, ...], count: int) -> int:
    """Elements of one invocation of a batch of `count`; a small batch takes longer to compile than to run."""
    wide = target.is_cpu and target.int64 and all(fmt.bits < 64 for fmt in formats)
    return 8 if wide and count >= 1 << 18 else 4


def elementwise(device: Device, target: Target, instruction: Instruction, codes: list[Codes]) -> Codes:
    """As `execute`, for one row and the forms that `target` names."""
    formats = operand_formats(instruction, codes)
    width = lanes(target, formats, codes[0].size)
    module = shader(instruction, formats, target, tuple(sorted(target.forms.items())), width)
    flat = [np.ascontiguousarray(c).reshape(-1) for c in codes]
    out = np.empty(flat[0].size, dtype_of(formats[-1]))
    for first in range(0, out.size, MOST_ELEMENTS):
        part = slice(first, min(first + MOST_ELEMENTS, out.size))
        out[part] = _dispatch(device, module, formats, width, [c[part] for c in flat])
    return out.reshape(codes[0].shape)


def operand_formats(instruction: Instruction, codes: list[Codes]) -> tuple[Format, ...]:
    """Formats of the operands and of the result; "any format" is taken from the codes' width."""
    by_width = {1: isa.lookup("add.u8"), 2: isa.lookup("HADD2"), 4: isa.lookup("FADD"), 8: isa.lookup("DADD")}
    free = [c.dtype.itemsize for c, fmt in zip(codes, instruction.operands) if fmt is None]
    any_format = by_width[free[0]].result if free else None
    chosen = [fmt or any_format for fmt in (*instruction.operands, instruction.result)]
    assert all(fmt is not None for fmt in chosen), instruction.key
    return tuple(fmt for fmt in chosen if fmt is not None)


def _dispatch(device: Device, module: bytes, formats: tuple[Format, ...], width: int, codes: list[Codes]) -> Codes:
    """One dispatch of at most MOST_ELEMENTS elements, `width` to an invocation."""
    count = codes[0].size
    block = LOCAL_SIZE * width
    padded = -(-count // block) * block
    buffers: list[Buffer] = []
    try:
        buffers += [device.buffer(_words(c, fmt, padded)) for c, fmt in zip(codes, formats)]
        buffers.append(device.buffer(padded * _word_dtype(formats[-1]).itemsize))
        buffers.append(device.buffer(mufu.table_words()))
        pipeline = device.pipeline(module, len(buffers), 1)
        device.dispatch(pipeline, buffers, [0], (padded // block, 1, 1))
        words = buffers[-2].read(_word_dtype(formats[-1]), count)
    finally:
        for buffer in buffers:
            buffer.close()
    return np.asarray(words).astype(dtype_of(formats[-1]))


def _word_dtype(fmt: Format) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint64 if fmt.bits == 64 else np.uint32)


def _words(codes: Codes, fmt: Format, padded: int) -> NDArray[np.unsignedinteger]:
    """Codes as whole words, padded with zeros."""
    words = np.zeros(padded, _word_dtype(fmt))
    words[: codes.size] = codes
    return words


# ---- the shader --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def shader(
    instruction: Instruction,
    formats: tuple[Format, ...],
    target: Target,
    forms: tuple[tuple[str, str], ...],
    width: int = 4,
) -> bytes:
    """The module of one elementwise instruction: operands at bindings 0.., the result, then MUFU's tables.

    `forms` is `target.forms` once more: a target's equality leaves them out. width: elements of an invocation, 4 or 8.
    """
    e = Builder(target, (LOCAL_SIZE, 1, 1))
    e.push_constants(1)
    e.mufu_binding = len(formats)
    index = e.builtin("WorkgroupId", 0) * LOCAL_SIZE + e.builtin("LocalInvocationId", 0)
    operands = [load_lanes(e, binding, fmt, index, width) for binding, fmt in enumerate(formats[:-1])]
    results = [sm86.emit(e, instruction, *lane) for lane in zip(*operands)]
    store_lanes(e, len(formats) - 1, formats[-1], index, results)
    return e.module()


def load_lanes(e: Builder, binding: int, fmt: Format, index: Value, width: int) -> list[Value]:
    """The codes of one invocation, four or eight of them, in one access."""
    if width == 8:  # Vulkan has vectors of four, so eight words are four of 64 bits
        pairs = e.buffer(binding, "u64x4", readonly=True).load(index)
        halves = [e.bitcast(e.extract(pairs, i), "u32x2") for i in range(4)]
        codes = [e.extract(half, i) for half in halves for i in range(2)]
    else:
        words = e.buffer(binding, f"{'u64' if fmt.bits == 64 else 'u32'}x4", readonly=True).load(index)
        codes = [e.extract(words, i) for i in range(4)]
    return [code.ne(0) for code in codes] if fmt.bits == 1 else codes


def store_lanes(e: Builder, binding: int, fmt: Format, index: Value, codes: list[Value]) -> None:
    """The inverse of `load_lanes`."""
    if fmt.bits == 1:
        codes = [e.select(code, e.u32(1), e.u32(0)) for code in codes]
    if len(codes) == 8:
        codes = [e.bitcast(e.vector(*codes[i : i + 2]), "u64") for i in range(0, 8, 2)]
    e.buffer(binding, f"{codes[0].kind}x4").store(index, e.vector(*codes))
