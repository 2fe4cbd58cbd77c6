"""Contractions of the workgroup mapping: every invocation owns a block of outputs and walks k in ascending order.

The recorded loop form (docs/adr/0003) and the chain cores have the same owner map, so switching `form` changes the
arithmetic's shape and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import isa
from ..spirv.builder import Value
from ..tile import program as tp
from .sm86 import chains, tensor

if TYPE_CHECKING:
    from .shared import SharedEmitter, Slot

BLOCKS = ((4, 4), (4, 2), (2, 2), (2, 1), (1, 1))


def emit(e: SharedEmitter, op: tp.Contract) -> None:
    """out[i, j] = chain over k of a[i, k] * b[k, j], from seed[i, j]."""
    for operand in (op.a, op.b):
        e.materialise(operand)
    seed_slot = e.inherits(op.result) if op.seed in e.slots else None
    if seed_slot is not None and e.slots.get(op.seed) is not seed_slot:
        seed_slot = None
    slot = seed_slot or e.allocate(op.result.element, op.result.type.size)
    row = isa.lookup(op.instruction)
    if e.job.form == "loops" and row.family == "tensor":
        _loops(e, op, row, slot)
    else:
        _blocks(e, op, row, slot)
    e.bind_slot(op.result, slot)


def _operand_b(e: SharedEmitter, op: tp.Contract, k: Value, column: Value) -> Value:
    return e.tiles[op.b].at((column, k) if op.transposed else (k, column))


def _blocks(e: SharedEmitter, op: tp.Contract, row: isa.Instruction, slot: Slot) -> None:
    b = e.b
    m, n = op.result.shape
    depth = op.a.shape[1]
    core = chains.core(row, e.job.arch, e.target)
    bm, bn = next(
        (x, y) for x, y in BLOCKS if m % x == 0 and n % y == 0 and (m * n // (x * y) >= e.local_size or x * y == 1)
    )
    fmt = op.result.element

    def block(i: Value) -> None:
        r0, c0 = i // (n // bn) * bm, i % (n // bn) * bn
        state = []
        for r in range(bm):
            for c in range(bn):
                parts = core.seed(b, e.at(op.seed, (r0 + r, c0 + c)))
                state.append([b.variable(p.kind, p) for p in parts])

        def group(g: Value) -> None:
            k0 = g * core.width
            a = [[core.operand(b, e.tiles[op.a].at((r0 + r, k0 + k)), 0) for k in range(core.width)] for r in range(bm)]
            w = [[core.operand(b, _operand_b(e, op, k0 + k, c0 + c), 1) for k in range(core.width)] for c in range(bn)]
            for r in range(bm):
                for c in range(bn):
                    variables = state[r * bn + c]
                    acc = core.step(b, tuple(v.load() for v in variables), a[r], w[c])
                    for variable, value in zip(variables, acc, strict=True):
                        variable.store(value)

        if depth:
            assert depth % core.width == 0, (op.instruction, depth, core.width)
            e.serial(depth // core.width, group)
        for r in range(bm):
            for c in range(bn):
                code = core.result(b, tuple(v.load() for v in state[r * bn + c]))
                e.write_slot(slot, fmt, (r0 + r) * n + c0 + c, code)

    e.parallel(m * n // (bm * bn), block)


def _loops(e: SharedEmitter, op: tp.Contract, row: isa.Instruction, slot: Slot) -> None:
    """The decision record's form: four small loops, each marked DontUnroll."""
    m, n = op.result.shape
    total, size = m * n, e.local_size
    outputs = -(-total // size)
    groups = op.a.shape[1] // tensor.group_width(row, e.job.arch)
    e.counter.add(tensor.loops_trips(row, e.job.arch, outputs, groups))

    def place(o: Value) -> tuple[Value, Value, Value]:
        element = e.lid + o * size
        return element, element // n, element % n

    def load_a(o: Value, k: Value) -> Value:
        return e.tiles[op.a].at((place(o)[1], k))

    def load_b(o: Value, k: Value) -> Value:
        return _operand_b(e, op, k, place(o)[2])

    def load_c(o: Value) -> Value:
        _, r, c = place(o)
        return e.at(op.seed, (r, c))

    def store(o: Value, code: Value) -> None:
        e.write_slot(slot, op.result.element, place(o)[0], code)

    assert total % size == 0 or size > total, (total, size)
    if total < size:
        with e.b.if_(e.lid < total):
            tensor.emit_loops(e.b, row, e.job.arch, outputs, groups, load_a, load_b, load_c, store)
    else:
        tensor.emit_loops(e.b, row, e.job.arch, outputs, groups, load_a, load_b, load_c, store)
    e.barrier()
