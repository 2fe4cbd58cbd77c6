"""One matrix instruction on batches of tiles: a [t, m, k], b [t, k, n], c [t, m, n] -> [t, m, n], on a Vulkan device.

One invocation per output; operands lie in buffers of one word per element. Any m and n; k may be a multiple of the
instruction's, then the instruction is chained along k. Used by `sim.execute`, the probe and the tests, so it is simple
before it is fast.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..formats import Codes, Format, dtype_of
from ..isa import Arch, Instruction
from ..spirv.builder import DONT_UNROLL, Builder, Value
from .sm86 import chains, tensor
from .target import Target

if TYPE_CHECKING:
    from .device import Device

LOCAL_SIZE = 64
#: Outputs of one dispatch and elements of one buffer at most: within every device's limits.
MOST_OUTPUTS = 32768 * LOCAL_SIZE
MOST_ELEMENTS = 1 << 24
#: Push constants: the opaque zero, outputs, rows, columns, k of the buffers, first k, groups.
_WORDS = 7


def run(
    device: Device,
    instruction: Instruction,
    a: Codes,
    b: Codes,
    c: Codes,
    arch: Arch,
    form: str | None = None,
    plain: bool = False,
) -> Codes:
    """Codes of the results, in the dtype of c. form: None, `loops` or a form of `chains.core`; plain: as there."""
    (t, m, k), n = a.shape, b.shape[2]
    assert b.shape == (t, k, n) and c.shape == (t, m, n), (a.shape, b.shape, c.shape)
    if not c.size:
        return c.copy()
    outputs, elements = t * m * n, max(t * m * k, t * k * n)
    if outputs > MOST_OUTPUTS or elements > MOST_ELEMENTS:
        axis = 0 if t > 1 else 1 if m >= n else 2
        halves = zip(_halves(a, axis), _halves(b, axis, 1), _halves(c, axis, -1), strict=True)
        return np.concatenate([run(device, instruction, *parts, arch, form, plain) for parts in halves], axis=axis)
    form = form or chains.form_of(instruction, device.target)
    code, width, trips = _shader(instruction, arch, device.target, form, plain)
    assert k % width == 0, (instruction.key, arch.name, k, width)
    pipeline = device.pipeline(code, 3, _WORDS)
    buffers = [device.buffer(_words(x)) for x in (a, b, c)]
    # A chain may be cut anywhere between groups: the result so far is the next seed.
    most = (device.target.loop_budget or 1 << 30) * 7 // 8 // trips
    groups = -(-outputs // LOCAL_SIZE)
    batch = [
        (pipeline, buffers, [0, outputs, m, n, k, g * width, min(most, k // width - g)], (groups, 1, 1))
        for g in range(0, k // width, most)
    ]
    device.run(batch)
    result = buffers[2].read(_word_dtype(c.dtype), c.shape)
    for buffer in buffers:
        buffer.close()
    return np.asarray(result).astype(c.dtype)


def _halves(x: Codes, axis: int, absent: int | None = None) -> list[Codes]:
    """x in two parts along an axis of the outputs. a has no columns, b no rows (`absent`: its axis to leave whole)."""
    if x.shape[axis] == 1 or axis == absent or (absent is None and axis == 2):
        return [x, x]
    return np.array_split(x, 2, axis=axis)


def _word_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.uint64 if dtype.itemsize == 8 else np.uint32)


def _words(codes: Codes) -> NDArray[np.unsignedinteger]:
    return np.ascontiguousarray(codes, dtype=_word_dtype(codes.dtype))


def _kind(fmt: Format | None) -> str:
    return "u64" if fmt is not None and dtype_of(fmt).itemsize == 8 else "u32"


@functools.cache
def _shader(instruction: Instruction, arch: Arch, target: Target, form: str, plain: bool) -> tuple[bytes, int, int]:
    """(module, k's per group, loop trips per group)."""
    e = Builder(target, (LOCAL_SIZE, 1, 1))
    e.push_constants(_WORDS)
    outputs, rows, columns, depth, first, groups = (e.push(i) for i in range(1, _WORDS))
    a, b, c = (e.buffer(i, _kind(fmt)) for i, fmt in enumerate(instruction.operands))
    index = e.builtin("WorkgroupId", 0) * LOCAL_SIZE + e.builtin("LocalInvocationId", 0)
    inside = index < outputs
    output = e.select(inside, index, e.u32(0))
    row, column = output // columns, output % columns
    tile = row // rows

    def load_a(k: Value) -> Value:
        return a.load(row * depth + first + k)

    def load_b(k: Value) -> Value:
        return b.load((tile * depth + first + k) * columns + column)

    def store(code: Value) -> None:
        with e.if_(inside):
            c.store(index, code)

    if form == "loops":
        width = tensor.group_width(instruction, arch)
        tensor.emit_loops(
            e, instruction, arch, 1, groups,
            lambda _, k: load_a(k), lambda _, k: load_b(k), lambda _: c.load(output), lambda _, code: store(code),
        )  # fmt: skip
        return e.module(), width, 1 + 2 * width
    core = chains.core(instruction, arch, target, plain=plain, form=form)
    state = [e.variable(part.kind, part) for part in core.seed(e, c.load(output))]
    group = e.variable("u32", 0)

    def trip() -> Value:
        g = group.load()
        x, y = (
            [core.operand(e, load(g * core.width + i), side) for i in range(core.width)]
            for side, load in enumerate((load_a, load_b))
        )
        for variable, value in zip(state, core.step(e, tuple(v.load() for v in state), x, y), strict=True):
            variable.store(value)
        following = g + 1
        group.store(following)
        return following < groups

    e.do_while(trip, DONT_UNROLL)
    store(core.result(e, tuple(v.load() for v in state)))
    return e.module(), core.width, 1
