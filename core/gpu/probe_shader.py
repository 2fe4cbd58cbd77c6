"""Runs many forms of many elementwise rows on the same device in few shaders: the probe's machinery.

All operands lie one row after the other in one buffer, all results in another, as 32-bit words (a predicate is 0 or 1,
a 64-bit code takes two words and starts at an even one). Invocation i of a shader computes element i of each unit in
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..formats import S32, Codes, Format, dtype_of
from ..isa import Instruction
from ..spirv.builder import Builder, Value
from . import sm86
from .sm86 import mufu
from .target import Target

if TYPE_CHECKING:
    from .device import Device

Unit = tuple[Instruction, str]

LOCAL_SIZE = 64
#: A shader is closed when it has this many SPIR-V words: compile time grows faster than size.
SHADER_WORDS = 12_000


def run(device: Device, units: Sequence[Unit], operands: Callable[[Instruction], list[Codes]]) -> list[Codes]:
    """Results of every unit (row and form) on the row's operands, which all have one length."""
    if not units:
        return []
    rows = {instruction.key: instruction for instruction, _ in units}
    codes = {key: operands(instruction) for key, instruction in rows.items()}
    count = next(iter(codes.values()))[0].size
    source, places = _gather(codes)
    results, size = _places(units, count)
    inputs, outputs, tables = device.buffer(source), device.buffer(4 * size), device.buffer(mufu.table_words())
    batch = []
    for module in _shaders(device.target, units, places, results):
        pipeline = device.pipeline(module, 3, 1)
        batch.append((pipeline, [inputs, outputs, tables], [0], (-(-count // LOCAL_SIZE), 1, 1)))
    try:
        device.run(batch)
        words = outputs.read(np.uint32)
    finally:
        for buffer in (inputs, outputs, tables):
            buffer.close()
    return [_extract(words, place, _result(i), count) for place, (i, _) in zip(results, units)]


def _result(instruction: Instruction) -> Format:
    """Format of the results; "any format" is 32 bits wide here, as in `probe_inputs.hard`."""
    return instruction.result or S32


def _word_dtype(fmt_bits: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint64 if fmt_bits == 64 else np.uint32)


def _gather(codes: dict[str, list[Codes]]) -> tuple[NDArray[np.uint32], dict[str, list[int]]]:
    """All operands as words, and where each starts."""
    parts: list[NDArray[np.uint32]] = []
    places: dict[str, list[int]] = {}
    size = 0
    for key, operands in codes.items():
        places[key] = []
        for operand in operands:
            words = operand.astype(_word_dtype(8 * operand.dtype.itemsize)).view(np.uint32)
            places[key].append(size)
            parts.append(words)
            size += words.size + words.size % 2
            parts.append(np.zeros(words.size % 2, np.uint32))
    return np.concatenate(parts), places


def _places(units: Sequence[Unit], count: int) -> tuple[list[int], int]:
    """Where each unit's results start, and the words of all."""
    padded = -(-count // LOCAL_SIZE) * LOCAL_SIZE
    places, size = [], 0
    for instruction, _ in units:
        places.append(size)
        size += padded * (2 if _result(instruction).bits == 64 else 1)
    return places, size


def _extract(words: NDArray[np.uint32], place: int, fmt: Format, count: int) -> Codes:
    if fmt.bits == 64:
        return words[place : place + 2 * count].view(np.uint64).copy()
    return words[place : place + count].astype(dtype_of(fmt))


def _shaders(target: Target, units: Sequence[Unit], places: dict[str, list[int]], results: list[int]) -> list[bytes]:
    modules: list[bytes] = []
    e: Builder | None = None
    for (instruction, form), result in zip(units, results):
        if e is None:
            e = Builder(target, (LOCAL_SIZE, 1, 1))
            e.push_constants(1)
            e.mufu_binding = 2
            index = e.builtin("WorkgroupId", 0) * LOCAL_SIZE + e.builtin("LocalInvocationId", 0)
        formats = instruction.operands
        values = [_load(e, fmt, place, index) for fmt, place in zip(formats, places[instruction.key])]
        _store(e, _result(instruction), result, index, sm86.emit_form(e, instruction, form, *values))
        if len(e.code) > SHADER_WORDS:
            modules.append(e.module())
            e = None
    return modules if e is None else [*modules, e.module()]


def _load(e: Builder, fmt: Format | None, place: int, index: Value) -> Value:
    if fmt is not None and fmt.bits == 64:
        return e.buffer(0, "u64", readonly=True).load(index + place // 2)
    code = e.buffer(0, "u32", readonly=True).load(index + place)
    return code.ne(0) if fmt is not None and fmt.bits == 1 else code


def _store(e: Builder, fmt: Format, place: int, index: Value, code: Value) -> None:
    if fmt.bits == 64:
        e.buffer(1, "u64").store(index + place // 2, code)
        return
    e.buffer(1, "u32").store(index + place, e.select(code, e.u32(1), e.u32(0)) if fmt.bits == 1 else code)
