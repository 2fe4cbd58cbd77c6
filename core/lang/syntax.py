"""The syntax tree that both spellings of Phobos share.

Rules
 1. One tree for `.ph` text and for the Python spelling (phobos-language.md A.2, B.2); nothing in it says which it was
    read from, except `Module.spelling`, which only words hints.
 2. Every node carries its span. Spans do not take part in comparison, so print -> read gives an equal tree.
 3. The tree is what the text says: no types, no constants folded, parentheses gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from ..errors import Span

ARITHMETIC = ("+", "-", "*", "/", "%")
BITWISE = ("&", "|", "^", "<<", ">>")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
LOGICAL = ("&&", "||")
BINARY = ARITHMETIC + BITWISE + COMPARISONS + LOGICAL
UNARY = ("-", "!", "~")
ASSIGNMENTS = ("=", *(op + "=" for op in ARITHMETIC + BITWISE))
SCALARS = ("f16", "bf16", "f32", "f64", "i8", "u8", "i32", "i64", "bool")


@dataclass(frozen=True)
class Node:
    """Base of every node: where it stands."""

    span: Span = field(compare=False, repr=False, kw_only=True)


# ---- expressions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expr(Node):
    """Base of expressions."""


@dataclass(frozen=True)
class IntLit(Expr):
    """A decimal integer, signed 64-bit."""

    value: int


@dataclass(frozen=True)
class FloatLit(Expr):
    """A decimal fraction, held as f64; the language reads it as f32 (phobos-language.md D.5)."""

    value: float


@dataclass(frozen=True)
class BoolLit(Expr):
    """true or false."""

    value: bool


@dataclass(frozen=True)
class Name(Expr):
    """A variable, parameter, symbolic dim or autotune constant."""

    id: str


@dataclass(frozen=True)
class Member(Expr):
    """value.name: only `ctx.block.x` and its like."""

    value: Expr
    name: str


@dataclass(frozen=True)
class Unary(Expr):
    """-x, !x or ~x."""

    op: str
    operand: Expr


@dataclass(frozen=True)
class Binary(Expr):
    """left op right, for every operator of BINARY."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Call(Expr):
    """A builtin, a conversion or a function of the module."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Sub(Node):
    """Base of subscripts: one per axis."""


@dataclass(frozen=True)
class Point(Sub):
    """A[i]: one element."""

    index: Expr


@dataclass(frozen=True)
class Range(Sub):
    """A[a : b], A[: b] (start None) or A[:] (both None)."""

    start: Expr | None
    stop: Expr | None


@dataclass(frozen=True)
class Window(Sub):
    """A[start :+ length]."""

    start: Expr
    length: Expr


@dataclass(frozen=True)
class Index(Expr):
    """value[subs]."""

    value: Expr
    subs: tuple[Sub, ...]


# ---- types ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Type(Node):
    """Base of types."""


@dataclass(frozen=True)
class ScalarType(Type):
    """One of SCALARS."""

    name: str


@dataclass(frozen=True)
class TensorType(Type):
    """tensor<element>[dims]: global memory, dims are names or constants."""

    element: ScalarType
    dims: tuple[Expr, ...]


@dataclass(frozen=True)
class TileType(Type):
    """tile<element>[dims]: dims are constant expressions."""

    element: ScalarType
    dims: tuple[Expr, ...]


# ---- statements -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stmt(Node):
    """Base of statements."""


@dataclass(frozen=True)
class Let(Stmt):
    """let name[: type] = value."""

    name: str
    type: Type | None
    value: Expr


@dataclass(frozen=True)
class Var(Stmt):
    """var name[: type] [= value]; without a value only for a tile type."""

    name: str
    type: Type | None
    value: Expr | None


@dataclass(frozen=True)
class Assign(Stmt):
    """target op value, op one of ASSIGNMENTS; target a Name or an Index of a Name."""

    target: Name | Index
    op: str
    value: Expr


@dataclass(frozen=True)
class For(Stmt):
    """for[<unroll n>] var in range(lo, hi[, step]) body."""

    var: str
    lo: Expr
    hi: Expr
    step: Expr | None
    unroll: int | None
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class While(Stmt):
    """while condition body."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class If(Stmt):
    """if condition then [else orelse]; `else if` is an orelse of one If."""

    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(frozen=True)
class ExprStmt(Stmt):
    """An expression for its effect."""

    value: Expr


@dataclass(frozen=True)
class Break(Stmt):
    """break."""


@dataclass(frozen=True)
class Continue(Stmt):
    """continue."""


@dataclass(frozen=True)
class Return(Stmt):
    """return [value]."""

    value: Expr | None


# ---- module -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttrArg(Node):
    """Base of attribute arguments; a value is an IntLit, FloatLit, BoolLit or Name."""


@dataclass(frozen=True)
class Positional(AttrArg):
    """@launch(256)."""

    value: Expr


@dataclass(frozen=True)
class Keyword(AttrArg):
    """@aligned(M = TILE_M)."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Choices(AttrArg):
    """@autotune(TILE_M in [16, 128])."""

    name: str
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Attr(Node):
    """@name(args)."""

    name: str
    args: tuple[AttrArg, ...]


@dataclass(frozen=True)
class Param(Node):
    """name: type; only a function's parameter may lack the type."""

    name: str
    type: Type | None


@dataclass(frozen=True)
class Kernel(Node):
    """A kernel: attributes in source order, parameters, body."""

    name: str
    attrs: tuple[Attr, ...]
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Function(Node):
    """A function, inlined at every call."""

    name: str
    attrs: tuple[Attr, ...]
    params: tuple[Param, ...]
    returns: Type | None
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Module(Node):
    """Kernels and functions in source order.

    spelling: ``python`` or ``ph``. outside: names that the surrounding Python module defines, which a kernel cannot
    see (a better message when it tries). Neither takes part in comparison.
    """

    items: tuple[Kernel | Function, ...]
    spelling: str = field(default="ph", compare=False)
    outside: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def kernels(self) -> dict[str, Kernel]:
        return {item.name: item for item in self.items if isinstance(item, Kernel)}

    @property
    def functions(self) -> dict[str, Function]:
        return {item.name: item for item in self.items if isinstance(item, Function)}


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below a node, in source order."""
    for item in fields(node):
        value = getattr(node, item.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (entry for entry in value if isinstance(entry, Node))


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it, in source order."""
    yield node
    for child in children(node):
        yield from walk(child)


def dump(node: Node, indent: int = 0) -> str:
    """The tree as indented text, one node a line with its place (`compile --emit syntax`)."""
    plain = []
    for item in fields(node):
        value = getattr(node, item.name)
        if item.name in ("span", "spelling", "outside") or isinstance(value, Node):
            continue
        if isinstance(value, tuple) and (not value or isinstance(value[0], Node)):
            continue
        if value is not None:
            plain.append(f"{item.name}={value!r}")
    head = f"{'  ' * indent}{type(node).__name__} {' '.join(plain)}".rstrip()
    lines = [f"{head}  @{node.span.line}:{node.span.column}"]
    lines += [dump(child, indent + 1) for child in children(node)]
    return "\n".join(lines)
