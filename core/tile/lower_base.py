"""State of one lowering: the block being built, what names stand for, and notes.

Rules
 1. Constants, dims, block coordinates and widened scalar parameters are emitted once, in the program's entry, so that
    they dominate every use.
 2. A scalar carries what is known of it when compiling: its value if constant, a linear form (for slice lengths), its
    known divisor and the loop variables it uses (for the masking analysis of phobos-language.md C.2).
 3. Names are lexical; `let` of a slice is a live view unless masked, `let` of a tile variable an alias (0.2, C.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from ..errors import KernelError, Span
from ..formats import BF16, F16, F32, F64, PRED, S64, Format
from ..lang import spelling as say
from ..lang import syntax as syn
from ..lang.attributes import Attributes
from .program import (
    Block,
    BlockIndex,
    Broadcast,
    Constant,
    Dim,
    Map,
    Note,
    Op,
    ScalarParam,
    TensorParam,
    TileType,
    Value,
)


@dataclass(frozen=True)
class Linear:
    """constant + sum of coefficient * value, for index scalars."""

    constant: int
    terms: tuple[tuple[Value, int], ...] = ()

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        terms = dict(self.terms)
        for value, factor in other.terms:
            terms[value] = terms.get(value, 0) + sign * factor
        kept = tuple((value, factor) for value, factor in terms.items() if factor)
        return Linear(self.constant + sign * other.constant, kept)

    def times(self, factor: int) -> Linear:
        return Linear(self.constant * factor, tuple((v, f * factor) for v, f in self.terms) if factor else ())


@dataclass(frozen=True)
class Scalar:
    """A scalar operand: an SSA value, or a constant that has not been emitted yet.

    const: an int (index), a float already rounded to f32, or a bool. divisor: known divisor (0 for the constant 0).
    linear: of index scalars. loops: the loop variables it uses. index: an index scalar, not a sized integer.
    """

    format: Format
    value: Value | None = None
    const: int | float | bool | None = None
    divisor: int = 1
    linear: Linear | None = None
    loops: frozenset[int] = frozenset()
    index: bool = False


Operand = Scalar | Value


def index_constant(n: int) -> Scalar:
    """An index scalar that is known when compiling."""
    return Scalar(S64, None, n, abs(n), Linear(n), index=True)


def index_value(value: Value, divisor: int = 1, loops: frozenset[int] = frozenset()) -> Scalar:
    """An index scalar known only at run time."""
    return Scalar(S64, value, None, divisor, Linear(0, ((value, 1),)), loops, True)


# ---- what a name stands for -------------------------------------------------------------------------------------


@dataclass(eq=False)
class Variable:
    """A `var`: its type is fixed, its value is the current SSA value. `index`: a scalar slot of index type."""

    name: str
    type: TileType
    value: Value
    span: Span
    index: bool = False


@dataclass(eq=False)
class Bound:
    """A `let` (or loop variable) that was evaluated once."""

    name: str
    operand: Operand
    span: Span
    what: str = "a let"


@dataclass(eq=False)
class View:
    """A live window onto a tensor: every use loads. `written` is where the tensor was stored to since."""

    name: str
    tensor: TensorParam
    starts: tuple[Value, ...]
    sizes: tuple[int | None, ...]
    type: TileType
    span: Span
    written: Span | None = None


@dataclass(eq=False)
class Alias:
    """A read-only second name of a tile variable or view, perhaps under another shape (`flat`)."""

    name: str
    target: Variable | View
    span: Span
    shape: tuple[int, ...] | None = None


@dataclass(eq=False)
class Tensor:
    """A tensor parameter."""

    param: TensorParam

    @property
    def span(self) -> Span:
        return self.param.span


Binding = Variable | Bound | View | Alias | Tensor


@dataclass
class Scope:
    """Names of one block; `parent` is the enclosing one."""

    parent: Scope | None = None
    names: dict[str, Binding] = field(default_factory=dict)

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def visible(self) -> Iterator[str]:
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent


# ---- control flow that statements can leave ---------------------------------------------------------------------


@dataclass(eq=False)
class Loop:
    """A loop being lowered. run: this trip goes on; live: the loop goes on. None where no jump can clear them."""

    run: Variable | None
    live: Variable | None


@dataclass(eq=False)
class Frame:
    """A kernel or an inlined function. alive: not returned yet. result: the slot of early returns.

    returned: operands of `return` at the end of the body, or of all returns in a dry run (`probing`).
    """

    name: str
    declared: syn.Type | None = None
    loops: list[Loop] = field(default_factory=list)
    alive: Variable | None = None
    result: Variable | None = None
    probing: bool = False
    returned: list[tuple[Operand | None, Span]] = field(default_factory=list)
    kernel: bool = False
    depth: int = 0


@dataclass
class Context:
    """Everything one lowering knows. `inline` lowers a call of a module's function (set by `lower`)."""

    module: syn.Module
    kernel: syn.Kernel
    attributes: Attributes
    constants: dict[str, int]
    promises: dict[str, int]
    scope: Scope
    root: Scope
    frame: Frame
    inline: Callable[[Context, syn.Call], Operand | None]
    entry: Block = field(default_factory=Block)
    blocks: list[Block] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    cache: dict[object, Value] = field(default_factory=dict)
    gemm: frozenset[int] = frozenset()
    calls: list[syn.Call] = field(default_factory=list)
    loop_count: int = 0
    inlined: int = 0

    @property
    def spelling(self) -> str:
        return self.module.spelling

    @property
    def threads(self) -> int:
        return self.attributes.threads

    # ---- emission ----

    def emit(self, op: Op) -> None:
        self.blocks[-1].ops.append(op)

    def map(self, instruction: str, result: TileType, *args: Value, span: Span, name: str = "") -> Value:
        value = Value(result, name)
        self.emit(Map(span, value, instruction, args))
        return value

    def stretch(self, value: Value, shape: tuple[int, ...], span: Span) -> Value:
        """The tile of that shape whose elements are the value's."""
        if value.shape == shape:
            return value
        result = Value(TileType(value.element, shape))
        self.emit(Broadcast(span, result, value))
        return result

    def once(self, key: object, make: Callable[[Value], Op], element: Format, name: str = "") -> Value:
        """A scalar of the entry block, emitted at its first use (rule 1)."""
        if key not in self.cache:
            value = Value(TileType(element), name)
            self.entry.ops.append(make(value))
            self.cache[key] = value
        return self.cache[key]

    def constant(self, element: Format, code: int, span: Span) -> Value:
        return self.once((element, code), lambda value: Constant(span, value, code), element)

    def zero(self, element: Format, shape: tuple[int, ...], span: Span) -> Value:
        """A tile (or scalar) of code 0."""
        return self.stretch(self.constant(element, 0, span), shape, span)

    def dim(self, name: str, span: Span) -> Value:
        return self.once(("dim", name), lambda value: Dim(span, value, name), S64, name)

    def block_index(self, axis: int, span: Span) -> Value:
        return self.once(("block", axis), lambda value: BlockIndex(span, value, axis), S64, f"block.{'xyz'[axis]}")

    def parameter(self, param: ScalarParam) -> Value:
        """An integer parameter as an index scalar."""
        key = ("parameter", param.name)
        instruction = f"cvt.s64.{param.value.element.name}"
        return self.once(key, lambda value: Map(param.span, value, instruction, (param.value,)), S64, param.name)

    def value(self, operand: Operand, span: Span) -> Value:
        """An operand as an SSA value; constants are emitted."""
        if isinstance(operand, Value):
            return operand
        if operand.value is not None:
            return operand.value
        assert operand.const is not None
        code = constant_code(operand.format, operand.const)
        assert code is not None
        return self.constant(operand.format, code, span)

    # ---- blocks, scopes, notes ----

    @contextmanager
    def nested(self, block: Block) -> Iterator[Block]:
        """Emission goes into `block`, names into a new scope."""
        self.blocks.append(block)
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            yield block
        finally:
            self.scope = outer
            self.blocks.pop()

    @contextmanager
    def dry(self) -> Iterator[None]:
        """Everything emitted, noted or assigned inside is forgotten."""
        notes, ops, cache, views = list(self.notes), list(self.entry.ops), dict(self.cache), list(self.views)
        written = [(view, view.written) for view in views]
        values = [(variable, variable.value) for variable in self._variables()]
        calls = list(self.calls)
        try:
            with self.nested(Block()):
                yield
        finally:
            self.notes[:], self.entry.ops[:], self.cache, self.views[:] = notes, ops, cache, views
            self.calls[:] = calls
            for view, span in written:
                view.written = span
            for variable, value in values:
                variable.value = value

    def _variables(self) -> Iterator[Variable]:
        scope: Scope | None = self.scope
        while scope is not None:
            yield from (entry for entry in scope.names.values() if isinstance(entry, Variable))
            scope = scope.parent
        for loop in self.frame.loops:
            yield from (flag for flag in (loop.run, loop.live) if flag is not None)
        yield from (flag for flag in (self.frame.alive, self.frame.result) if flag is not None)

    def bind(self, name: str, binding: Binding) -> None:
        self.scope.names[name] = binding

    def note(self, kind: str, message: str, span: Span) -> None:
        self.notes.append(Note(kind, message, span))

    def fail(self, message: str, node: syn.Node | Span, hint: str = "") -> NoReturn:
        raise KernelError(message, node.span if isinstance(node, syn.Node) else node, say.calls(self.spelling, hint))


def constant_code(element: Format, const: int | float | bool) -> int | None:
    """The code of a compile-time constant in a format, or None where an instruction has to make it (D.5).

    A float constant is already an f32 value; an integer converts from i64 directly.
    """
    if element == PRED:
        return int(const) if isinstance(const, bool) else None
    if element.is_integer:
        return const & ((1 << element.bits) - 1) if isinstance(const, int) else None
    if isinstance(const, int) and abs(const) > 1 << 24:
        return int(np.float64(const).view(np.uint64)) if element == F64 and abs(const) <= 1 << 53 else None
    if element == F32:
        return int(np.float32(const).view(np.uint32))
    if element == F64:
        return int(np.float64(const).view(np.uint64))
    if element == F16:
        with np.errstate(over="ignore"):
            return int(np.float32(const).astype(np.float16).view(np.uint16))
    if element == BF16:
        bits = int(np.float32(const).view(np.uint32))
        return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return None
