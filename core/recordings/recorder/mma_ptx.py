"""Matrix rows: which lane holds which element, and the PTX of one mma per warp and of a GEMM's k loop.

Rules
 1. Fragment layouts are those of the PTX ISA ("Matrix fragments for mma"), written as index arrays: `rows[lane, i]`
    and `columns[lane, i]` of the i-th element a lane holds. Elements fill 32-bit registers from the low end.
 2. The host packs whole tiles with these arrays and unpacks results with them, so a kernel only loads registers,
    executes one mma.sync and stores registers; `check_layout` proves an instruction's layout on the card itself, with
    small integers whose products are exact in every architecture's arithmetic.
 3. m8n8k4 (sm_70) runs four independent tiles, one per quad pair; a tile is recorded by giving all four the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...isa import Instruction
from .scalar_ptx import ptx_version


@dataclass(frozen=True)
class Fragment:
    """Where a warp keeps one matrix: element (rows, columns) of [lane, i], and the bits of an element."""

    rows: np.ndarray
    columns: np.ndarray
    bits: int

    @property
    def registers(self) -> int:
        return int(self.rows.shape[1]) * self.bits // 32

    def pack(self, tiles: np.ndarray) -> np.ndarray:
        """[t, rows, columns] codes -> [t, 32, registers] words."""
        per_register = 32 // self.bits
        elements = tiles[:, self.rows, self.columns].astype(np.uint32)
        elements = elements.reshape(len(tiles), 32, self.registers, per_register)
        shifts = np.arange(per_register, dtype=np.uint32) * np.uint32(self.bits)
        return np.ascontiguousarray(np.bitwise_or.reduce(elements << shifts, axis=3))

    def unpack(self, words: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """[t, 32, registers] words -> [t, rows, columns] codes."""
        per_register = 32 // self.bits
        shifts = np.arange(per_register, dtype=np.uint32) * np.uint32(self.bits)
        mask = np.uint32((1 << self.bits) - 1) if self.bits < 32 else np.uint32(0xFFFFFFFF)
        elements = (words[..., None] >> shifts & mask).reshape(len(words), 32, -1)
        tiles = np.zeros((len(words), *shape), np.uint16 if self.bits == 16 else np.uint32)
        tiles[:, self.rows, self.columns] = elements
        return tiles


@dataclass(frozen=True)
class Layout:
    """Fragments of one matrix instruction."""

    a: Fragment
    b: Fragment
    c: Fragment


def layout(row: Instruction) -> Layout:
    """Fragments of a matrix row, from its shape and operand widths."""
    assert row.shape is not None
    operand, result = row.operands[0], row.result
    assert operand is not None and result is not None
    m, k = row.shape.m, row.shape.k
    if (m, k) == (8, 4):
        return _quad_pair_layout(result.bits)
    group = np.arange(32) >> 2  # the lane's row of A and column of B
    inner = np.arange(32) & 3  # its position along k and along the columns of C
    run = 32 // operand.bits  # neighbours along k that share a register
    blocks = range(0, k, 4 * run)  # registers a lane needs to cover k
    a_rows, a_columns = _stack(
        [(group + 8 * half, block + inner * run + i) for block in blocks for half in range(m // 8) for i in range(run)]
    )
    b_rows, b_columns = _stack([(block + inner * run + i, group) for block in blocks for i in range(run)])
    c_rows, c_columns = _stack([(group + 8 * half, 2 * inner + i) for half in range(m // 8) for i in range(2)])
    return Layout(
        Fragment(a_rows, a_columns, operand.bits),
        Fragment(b_rows, b_columns, operand.bits),
        Fragment(c_rows, c_columns, result.bits),
    )


def _stack(places: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = zip(*(np.broadcast_arrays(row, column) for row, column in places), strict=True)
    return np.stack(rows, axis=1), np.stack(columns, axis=1)


def _quad_pair_layout(result_bits: int) -> Layout:
    """m8n8k4 with row.col operands: a lane holds one row of A and one column of B."""
    lane = np.arange(32)
    own = (lane & 3) + np.where(lane < 16, 0, 4)
    along = np.broadcast_to(np.arange(4), (32, 4))
    line = np.broadcast_to(own[:, None], (32, 4))
    i = np.arange(8)
    if result_bits == 16:
        rows, columns = np.broadcast_arrays(own[:, None], i[None, :])
    else:
        rows = (lane & 1)[:, None] + (i & 2)[None, :] + np.where(lane < 16, 0, 4)[:, None]
        columns = (i & 4)[None, :] + (lane & 2)[:, None] + (i & 1)[None, :]
    return Layout(Fragment(line, along, 16), Fragment(along, line, 16), Fragment(rows, columns, result_bits))


def _registers(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def _loads(name: str, count: int, base: str) -> list[str]:
    return [f"ld.global.b32 %{name}{i}, [{base} + {4 * i}];" for i in range(count)]


def _mma(row: Instruction, fragments: Layout) -> str:
    spelling = next(name for name in row.ptx if name.startswith("mma.sync"))
    c = _registers("c", fragments.c.registers)
    return f"{spelling} {c}, {_registers('a', fragments.a.registers)}, {_registers('b', fragments.b.registers)}, {c};"


def _header(capability: int, name: str, parameters: str, fragments: Layout) -> list[str]:
    return [
        f".version {ptx_version(capability)}",
        f".target sm_{capability}",
        ".address_size 64",
        f".visible .entry {name}({parameters})",
        "{",
        *(f".reg .b32 %{n}<{f.registers}>;" for n, f in zip("abc", (fragments.a, fragments.b, fragments.c))),
        ".reg .u32 %i, %n, %s, %lane, %k, %kt, %mt, %nt, %nts;",
        ".reg .u64 %pa, %pb, %pc, %pd, %po, %o;",
        ".reg .pred %done;",
    ]


def tile_kernel(name: str, row: Instruction, capability: int) -> str:
    """Module text of `name(n, a, b, c, d)`: warp i executes the instruction on packed tile i."""
    fragments = layout(row)
    lines = _header(
        capability, name, ".param .u32 n, .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d", fragments
    )
    lines += [
        "mov.u32 %i, %ctaid.x;",
        "mov.u32 %n, %ntid.x;",
        "mov.u32 %s, %tid.x;",
        "mad.lo.u32 %i, %i, %n, %s;",
        "ld.param.u32 %n, [n];",
        "setp.ge.u32 %done, %i, %n;",
        "@%done ret;",
    ]
    for letter, fragment in (("a", fragments.a), ("b", fragments.b), ("c", fragments.c), ("d", fragments.c)):
        lines += [
            f"ld.param.u64 %p{letter}, [{letter}];",
            f"mul.wide.u32 %o, %i, {4 * fragment.registers};",
            f"add.u64 %p{letter}, %p{letter}, %o;",
        ]
    for letter, fragment in (("a", fragments.a), ("b", fragments.b), ("c", fragments.c)):
        lines += _loads(letter, fragment.registers, f"%p{letter}")
    lines.append(_mma(row, fragments))
    lines += [f"st.global.b32 [%pd + {4 * i}], %c{i};" for i in range(fragments.c.registers)]
    return "\n".join([*lines, "ret;", "}", ""])


def gemm_kernel(name: str, row: Instruction, capability: int) -> str:
    """Module text of `name(kts, nts, a, b, c, d, order)`: one warp per output tile, k tiles in the order given.

    a is packed [m tile, k tile, lane, register], b [k tile, n tile, lane, register], c and d [m tile, n tile, ...];
    order holds kts 32-bit k-tile numbers. The accumulator stays in registers over the whole loop.
    """
    f = layout(row)
    lines = _header(
        capability,
        name,
        ".param .u32 kts, .param .u32 nts, .param .u64 a, .param .u64 b, .param .u64 c, "
        ".param .u64 d, .param .u64 order",
        f,
    )
    lines += [
        "mov.u32 %nt, %ctaid.x;",
        "mov.u32 %mt, %ctaid.y;",
        "mov.u32 %lane, %tid.x;",
        "ld.param.u32 %n, [kts];",
        "ld.param.u32 %nts, [nts];",
        "ld.param.u64 %po, [order];",
        "mad.lo.u32 %i, %mt, %nts, %nt;",
        "mad.lo.u32 %i, %i, 32, %lane;",
    ]
    for letter in "cd":
        lines += [
            f"ld.param.u64 %p{letter}, [{letter}];",
            f"mul.wide.u32 %o, %i, {4 * f.c.registers};",
            f"add.u64 %p{letter}, %p{letter}, %o;",
        ]
    lines += [
        *_loads("c", f.c.registers, "%pc"),
        "mov.u32 %k, 0;",
        "LOOP:",
        "mul.wide.u32 %o, %k, 4;",
        "add.u64 %o, %po, %o;",
        "ld.global.u32 %kt, [%o];",
        "mad.lo.u32 %i, %mt, %n, %kt;",
        "mad.lo.u32 %i, %i, 32, %lane;",
        f"mul.wide.u32 %o, %i, {4 * f.a.registers};",
        "ld.param.u64 %pa, [a];",
        "add.u64 %pa, %pa, %o;",
        *_loads("a", f.a.registers, "%pa"),
        "mad.lo.u32 %i, %kt, %nts, %nt;",
        "mad.lo.u32 %i, %i, 32, %lane;",
        f"mul.wide.u32 %o, %i, {4 * f.b.registers};",
        "ld.param.u64 %pb, [b];",
        "add.u64 %pb, %pb, %o;",
        *_loads("b", f.b.registers, "%pb"),
        _mma(row, f),
        "add.u32 %k, %k, 1;",
        "setp.lt.u32 %done, %k, %n;",
        "@%done bra LOOP;",
    ]
    lines += [f"st.global.b32 [%pd + {4 * i}], %c{i};" for i in range(f.c.registers)]
    return "\n".join([*lines, "ret;", "}", ""])
