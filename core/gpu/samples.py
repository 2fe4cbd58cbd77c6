"""Small tile programs whose only purpose is to be timed: one for each kind of work that mappings differ on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import Source, Span
from ..formats import F16, F32, S64, Format
from ..tile.program import (
    Block,
    BlockIndex,
    Broadcast,
    Constant,
    Contract,
    Dim,
    For,
    Load,
    Map,
    Op,
    Program,
    Reduce,
    Store,
    TensorParam,
    TileType,
    Value,
)

SPAN = Span(Source("<sample>", ""), 1, 1, 1, 1)


class _Writer:
    """Appends operations to a block and returns their values."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def constant(self, code: int, fmt: Format = S64) -> Value:
        value = Value(TileType(fmt))
        self.ops.append(Constant(SPAN, value, code))
        return value

    def map(self, key: str, *args: Value, fmt: Format = S64, shape: tuple[int, ...] = ()) -> Value:
        value = Value(TileType(fmt, shape))
        self.ops.append(Map(SPAN, value, key, args))
        return value

    def block_start(self, axis: int, size: int) -> Value:
        index = Value(TileType(S64))
        self.ops.append(BlockIndex(SPAN, index, axis))
        return self.map("mul.lo.s64", index, self.constant(size))

    def load(self, tensor: str, fmt: Format, starts: tuple[Value, ...], shape: tuple[int, ...]) -> Value:
        value = Value(TileType(fmt, shape))
        self.ops.append(Load(SPAN, value, tensor, starts, shape))
        return value


def _program(name: str, tensors: Sequence[tuple[str, Format, tuple[str, ...]]], body: Block, threads: int) -> Program:
    params = tuple(TensorParam(t, fmt, dims, SPAN) for t, fmt, dims in tensors)
    dims = tuple(dict.fromkeys(d for _, _, names in tensors for d in names))
    return Program(name, params, (), tuple(t for t, _, _ in tensors), {}, dims, threads, (), body)


def contraction(result: Format = F32, seeded: bool = False) -> Program:
    """C = A B with f16 operands, 64 x 64 x 32 tiles on 256 threads. seeded: C = C + A B."""
    m = n = 64
    k = 32
    tile, key = TileType(result, (m, n)), f"HMMA.16816.{result.name.upper()}"
    w = _Writer()
    row, column = w.block_start(0, m), w.block_start(1, n)
    if seeded:
        start = w.load("C", result, (row, column), (m, n))
    else:
        start = Value(tile)
        w.ops.append(Broadcast(SPAN, start, w.constant(0, result)))
    depth = Value(TileType(S64))
    w.ops.append(Dim(SPAN, depth, "K"))
    at, acc, body = Value(TileType(S64)), Value(tile), _Writer()
    a = body.load("A", F16, (row, at), (m, k))
    b = body.load("B", F16, (at, column), (k, n))
    following, out = Value(tile), Value(tile)
    body.ops.append(Contract(SPAN, following, key, a, b, acc, False, key, "sample"))
    loop = Block([at, acc], body.ops, [following])
    w.ops.append(For(SPAN, w.constant(0), depth, w.constant(k), (start,), loop, (out,)))
    w.ops.append(Store(SPAN, "C", (row, column), (m, n), out))
    tensors = [("A", F16, ("M", "K")), ("B", F16, ("K", "N")), ("C", result, ("M", "N"))]
    return _program("contraction", tensors, Block(ops=w.ops), 256)


def reduction() -> Program:
    """Y = X - sum of its row, four rows of 512 a CTA, 128 threads."""
    shape = (4, 512)
    w = _Writer()
    row, zero = w.block_start(0, shape[0]), w.constant(0)
    x = w.load("X", F32, (row, zero), shape)
    total = Value(TileType(F32, (shape[0], 1)))
    w.ops.append(Reduce(SPAN, total, "FADD", x, 32, 0))
    w.ops.append(Store(SPAN, "Y", (row, zero), shape, w.map("sub.rn.f32", x, total, fmt=F32, shape=shape)))
    return _program("reduction", [("X", F32, ("M", "W")), ("Y", F32, ("M", "W"))], Block(ops=w.ops), 128)


def pointwise() -> Program:
    """Z = X + Y, 1024 elements a CTA, 256 threads."""
    w = _Writer()
    at = w.block_start(0, 1024)
    x, y = w.load("X", F32, (at,), (1024,)), w.load("Y", F32, (at,), (1024,))
    w.ops.append(Store(SPAN, "Z", (at,), (1024,), w.map("add.rn.f32", x, y, fmt=F32, shape=(1024,))))
    return _program("pointwise", [(t, F32, ("N",)) for t in "XYZ"], Block(ops=w.ops), 256)


@dataclass(frozen=True)
class Sample:
    """A program with the extents and the grid that it is timed on."""

    make: Callable[[], Program]
    dims: dict[str, int]
    grid: tuple[int, int, int]


#: On a CPU device, where compiling takes longer than running and nobody should wait for either.
SMALL = {
    "contraction": Sample(contraction, {"M": 256, "N": 256, "K": 128}, (4, 4, 1)),
    "reduction": Sample(reduction, {"M": 256, "W": 512}, (64, 1, 1)),
    "pointwise": Sample(pointwise, {"N": 1 << 19}, (512, 1, 1)),
}
#: On a GPU: enough work for all of it.
LARGE = {
    "contraction": Sample(contraction, {"M": 1024, "N": 1024, "K": 512}, (16, 16, 1)),
    "reduction": Sample(reduction, {"M": 8192, "W": 512}, (2048, 1, 1)),
    "pointwise": Sample(pointwise, {"N": 1 << 22}, (4096, 1, 1)),
}
