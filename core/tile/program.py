"""The tile program: what a kernel computes, exactly, with nothing said about who computes it.

A program is SSA over tiles. A value's type is an element format and a static shape; shape ``()`` is a scalar that is
uniform over the CTA. Every operation is one SM86 instruction (or PTX sequence) applied elementwise, a contraction
with its chain, a reduction with its prescribed order, a movement of data, or structured control flow with explicit
carried values. Both backends execute this and nothing else: `reference` interprets it, `gpu` maps it to regions.

Memory (tensor parameters) is touched by `Load`, `Store` and `GridBarrier` only, in program order within a CTA.
Shapes broadcast as the language does: equal ranks, an axis of extent 1 stretches, a scalar goes anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from ..errors import Span
from ..formats import Format


@dataclass(frozen=True)
class TileType:
    """Element format and static shape; shape () is a CTA-uniform scalar."""

    element: Format
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"{self.element.name}[{', '.join(map(str, self.shape))}]" if self.shape else self.element.name


@dataclass(eq=False)
class Value:
    """One SSA value. `name` is the source variable it was bound to, for messages and listings only."""

    type: TileType
    name: str = ""

    @property
    def element(self) -> Format:
        return self.type.element

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape


@dataclass(frozen=True)
class TensorParam:
    """A tensor parameter: element format and one entry per axis, a fixed extent or the name of a symbolic dim."""

    name: str
    element: Format
    dims: tuple[int | str, ...]
    span: Span


@dataclass(frozen=True)
class ScalarParam:
    """A scalar parameter; `value` is the SSA value that the body reads."""

    name: str
    value: Value
    span: Span


@dataclass(eq=False)
class Op:
    """Base of all operations: where it stands in the source."""

    span: Span

    @property
    def operands(self) -> tuple[Value, ...]:
        return ()

    @property
    def results(self) -> tuple[Value, ...]:
        return ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        return ()


@dataclass(eq=False)
class Block:
    """A list of operations with arguments (carried values come in here) and yields (they leave here)."""

    arguments: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class OneResult(Op):
    """An operation that makes one value, `result`."""

    result: Value

    @property
    def results(self) -> tuple[Value, ...]:
        return (self.result,)


@dataclass(eq=False)
class Constant(OneResult):
    """A scalar constant, given as its code."""

    code: int


@dataclass(eq=False)
class Dim(OneResult):
    """Run-time extent of a symbolic dimension, as an s64 scalar."""

    dim: str


@dataclass(eq=False)
class BlockIndex(OneResult):
    """ctx.block.x/.y/.z (axis 0/1/2), as an s64 scalar."""

    axis: int


@dataclass(eq=False)
class Map(OneResult):
    """An instruction applied to every element; operands broadcast to the result's shape.

    `instruction` is a key of `isa.lookup` (SASS mnemonic or PTX spelling). A scalar operand goes to every element.
    """

    instruction: str
    args: tuple[Value, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.args


@dataclass(eq=False)
class Broadcast(OneResult):
    """A tile of the result's shape whose elements are the operand's, stretched; codes are copied."""

    value: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.value,)


@dataclass(eq=False)
class Load(OneResult):
    """A slice of a tensor: one s64 start per tensor axis; `sizes[i]` is the static length, or None for a point.

    The result's shape is the sizes that are not None. An element whose coordinates leave the tensor (any axis,
    negative or past the extent) reads as code 0. `transposed` is never set here: transposition is an operation.
    """

    tensor: str
    starts: tuple[Value, ...]
    sizes: tuple[int | None, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.starts


@dataclass(eq=False)
class Store(Op):
    """Writes a tile (or a scalar, stretched) to a slice; elements outside the tensor are dropped.

    The value's element format is the tensor's: conversions are Map operations before the store.
    """

    tensor: str
    starts: tuple[Value, ...]
    sizes: tuple[int | None, ...]
    value: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (*self.starts, self.value)


@dataclass(eq=False)
class Contract(OneResult):
    """out[i, j] = the instruction's chain over ascending k, started from seed[i, j].

    a is [M, K]; b is [K, N], or [N, K] where `transposed`; seed is [M, N] in the accumulator's format.
    `instruction`: FFMA, HFMA2, HFMA2.BF16_V2, DFMA, an HMMA or IMMA mnemonic, IDP.4A.*, or IMAD.
    `path` names the chosen path and `reason` why (phobos-language.md C.5).
    """

    instruction: str
    a: Value
    b: Value
    seed: Value
    transposed: bool
    path: str
    reason: str

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.a, self.b, self.seed)


@dataclass(eq=False)
class Reduce(OneResult):
    """[R, C] -> [R, 1] along axis 1 in the order of phobos-language.md D.6.

    combine: key of a two-operand instruction (FADD, HADD2, ...) or ``max`` for ``a > b ? a : b``.
    lanes: the number L of strided partial results joined by a butterfly, or None for the serial order.
    identity: code that every partial starts from.
    """

    combine: str
    value: Value
    lanes: int | None
    identity: int

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.value,)


@dataclass(eq=False)
class ArgMax(OneResult):
    """[R, C] -> s32 [R, 1]: index of the largest element, the lowest index among equals (G7)."""

    value: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.value,)


@dataclass(eq=False)
class Scan(OneResult):
    """Prefix sums down the rows (axis 0), serial from row 0, starting from +0; every prefix is kept."""

    combine: str
    value: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.value,)


@dataclass(eq=False)
class Iota(OneResult):
    """An s32 tile whose elements are their own coordinate along `axis`."""

    axis: int


@dataclass(eq=False)
class Transpose(OneResult):
    """[R, C] -> [C, R]."""

    value: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.value,)


@dataclass(eq=False)
class Reshape(OneResult):
    """The same elements in row-major order under another shape of the same size."""

    value: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.value,)


@dataclass(eq=False)
class Extract(OneResult):
    """A slice of a tile, as Load is one of a tensor: out-of-range elements read as code 0."""

    value: Value
    starts: tuple[Value, ...]
    sizes: tuple[int | None, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.value, *self.starts)


@dataclass(eq=False)
class Insert(OneResult):
    """The tile `into` with a slice replaced by `value` (a tile, or a scalar stretched); the rest unchanged."""

    into: Value
    starts: tuple[Value, ...]
    sizes: tuple[int | None, ...]
    value: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.into, *self.starts, self.value)


@dataclass(eq=False)
class Gather(OneResult):
    """out[i, j] = table.flat[index[i, j]]; an index outside the table reads as code 0."""

    table: Value
    index: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.table, self.index)


@dataclass(eq=False)
class For(Op):
    """for v in range(lo, hi, step): body.arguments = [v, *carried]; body.yields = the next carried values.

    lo, hi and step are s64 scalars, read once. No trip happens where lo >= hi (step > 0) or step <= 0.
    """

    lo: Value
    hi: Value
    step: Value
    inits: tuple[Value, ...]
    body: Block
    outs: tuple[Value, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.lo, self.hi, self.step, *self.inits)

    @property
    def results(self) -> tuple[Value, ...]:
        return self.outs

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.body,)


@dataclass(eq=False)
class While(Op):
    """condition.arguments = body.arguments = carried; condition.yields = [pred]; body.yields = next carried."""

    inits: tuple[Value, ...]
    condition: Block
    body: Block
    outs: tuple[Value, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.inits

    @property
    def results(self) -> tuple[Value, ...]:
        return self.outs

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.condition, self.body)


@dataclass(eq=False)
class If(Op):
    """Uniform branch; both blocks yield the results."""

    condition: Value
    then: Block
    orelse: Block
    outs: tuple[Value, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.condition,)

    @property
    def results(self) -> tuple[Value, ...]:
        return self.outs

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.then, self.orelse)


@dataclass(eq=False)
class GridBarrier(Op):
    """Every CTA waits for all others (phobos-language.md E.1)."""


@dataclass(frozen=True)
class Promise:
    """An @aligned promise: the extent of `dim` is a multiple of `multiple`."""

    dim: str
    multiple: int
    span: Span


@dataclass(frozen=True)
class Note:
    """Something lowering wants to say: an ignored attribute, a fallback, a live view that is written."""

    kind: str
    message: str
    span: Span


@dataclass(eq=False)
class Program:
    """One kernel with its constants bound. `dims`: symbolic dims in order of first mention."""

    name: str
    tensors: tuple[TensorParam, ...]
    scalars: tuple[ScalarParam, ...]
    parameters: tuple[str, ...]
    constants: dict[str, int]
    dims: tuple[str, ...]
    threads: int
    promises: tuple[Promise, ...]
    body: Block
    notes: list[Note] = field(default_factory=list)

    def tensor(self, name: str) -> TensorParam:
        return next(t for t in self.tensors if t.name == name)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """All operations, in program order."""
        return tuple(walk(self.body))

    @cached_property
    def makers(self) -> dict[Value, Op]:
        """The operation that makes each value; arguments of blocks have none."""
        return {value: op for op in self.ops for value in op.results}

    def written(self) -> frozenset[str]:
        return self._written

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(op.tensor for op in self.ops if isinstance(op, Store))

    def contractions(self) -> tuple[Contract, ...]:
        return self._contractions

    @cached_property
    def _contractions(self) -> tuple[Contract, ...]:
        return tuple(op for op in self.ops if isinstance(op, Contract))


def walk(block: Block) -> Iterator[Op]:
    """All operations of a block and its nested blocks, in program order."""
    for op in block.ops:
        yield op
        for inner in op.blocks:
            yield from walk(inner)
