"""Text listings of a tile program: its operations (`compile --emit tile`), what runs and why (`--emit instructions`).

Rules
 1. Values are `%name.n` or `%n`; names are the source's, numbers make them unique.
 2. Every line of `instructions` is an instruction of `isa`, how many the program holds, and for a contraction its
    place, shape, path and the reason for it (phobos-language.md C.5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .program import (
    ArgMax,
    Block,
    BlockIndex,
    Broadcast,
    Constant,
    Contract,
    Dim,
    Extract,
    For,
    Gather,
    GridBarrier,
    If,
    Insert,
    Iota,
    Load,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Scan,
    Store,
    Transpose,
    Value,
    While,
    walk,
)  # fmt: skip


class Names:
    """Readable names for values, given at first sight."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._keep: list[Value] = []

    def __call__(self, value: Value) -> str:
        if id(value) not in self._names:
            number = len(self._keep)
            self._keep.append(value)
            self._names[id(value)] = f"%{value.name}.{number}" if value.name else f"%{number}"
        return self._names[id(value)]

    def typed(self, value: Value) -> str:
        return f"{self(value)}: {value.type!r}"

    def all(self, values: tuple[Value, ...] | list[Value]) -> str:
        return ", ".join(self(value) for value in values)


def listing(program: Program) -> str:
    """Every operation of a program, one a line, with the source line it came from."""
    names = Names()
    lines = [f"kernel {program.name}, {program.threads} threads"]
    for tensor in program.tensors:
        lines.append(f"  tensor {tensor.name}: {tensor.element.name}[{', '.join(map(str, tensor.dims))}]")
    lines += [f"  scalar {scalar.name} = {names.typed(scalar.value)}" for scalar in program.scalars]
    lines += [f"  constant {name} = {value}" for name, value in program.constants.items()]
    lines += [f"  promise {promise.dim} % {promise.multiple} == 0" for promise in program.promises]
    lines += _block(program.body, names, 1)
    lines += [f"  note ({note.kind}) {note.span}: {note.message}" for note in program.notes]
    return "\n".join(lines) + "\n"


def _block(block: Block, names: Names, depth: int) -> Iterator[str]:
    for op in block.ops:
        yield from _op(op, names, depth)
    if block.yields:
        yield f"{'  ' * depth}yield {names.all(block.yields)}"


def _op(op: Op, names: Names, depth: int) -> Iterator[str]:
    lead = "  " * depth
    results = ", ".join(names.typed(value) for value in op.results)
    head = f"{lead}{results} = " if results else lead
    match op:
        case For():
            inner = ", ".join(names.typed(value) for value in op.body.arguments)
            yield f"{head}for {names(op.lo)}, {names(op.hi)}, {names(op.step)} inits ({names.all(op.inits)})"
            yield f"{lead}  with {inner}"
            yield from _block(op.body, names, depth + 1)
        case While():
            yield f"{head}while inits ({names.all(op.inits)})"
            yield f"{lead}  with {', '.join(names.typed(value) for value in op.condition.arguments)}"
            yield from _block(op.condition, names, depth + 1)
            yield f"{lead}do with {', '.join(names.typed(value) for value in op.body.arguments)}"
            yield from _block(op.body, names, depth + 1)
        case If():
            yield f"{head}if {names(op.condition)}"
            yield from _block(op.then, names, depth + 1)
            yield f"{lead}else"
            yield from _block(op.orelse, names, depth + 1)
        case _:
            yield f"{head}{_simple(op, names)}  # line {op.span.line}"


def _slice(starts: tuple[Value, ...], sizes: tuple[int | None, ...], names: Names) -> str:
    parts = [
        names(start) if size is None else f"{names(start)} :+ {size}" for start, size in zip(starts, sizes, strict=True)
    ]
    return f"[{', '.join(parts)}]"


def _simple(op: Op, names: Names) -> str:
    match op:
        case Constant():
            return f"constant {op.code:#x}"
        case Dim():
            return f"dim {op.dim}"
        case BlockIndex():
            return f"block.{'xyz'[op.axis]}"
        case Map():
            return f"{op.instruction} {names.all(op.args)}"
        case Load():
            return f"load {op.tensor}{_slice(op.starts, op.sizes, names)}"
        case Store():
            return f"store {op.tensor}{_slice(op.starts, op.sizes, names)} = {names(op.value)}"
        case Extract():
            return f"extract {names(op.value)}{_slice(op.starts, op.sizes, names)}"
        case Insert():
            return f"insert {names(op.into)}{_slice(op.starts, op.sizes, names)} = {names(op.value)}"
        case Contract():
            how = "dot_t" if op.transposed else "dot"
            return f"{how} {op.path} {names(op.a)}, {names(op.b)} from {names(op.seed)} ({op.reason})"
        case Reduce():
            order = "serial" if op.lanes is None else f"{op.lanes} lanes"
            return f"reduce {op.combine} {names(op.value)} from {op.identity:#x}, {order}"
        case Scan():
            return f"scan {op.combine} {names(op.value)}"
        case Iota():
            return f"iota axis {op.axis}"
        case Gather():
            return f"gather {names(op.table)} at {names(op.index)}"
        case Broadcast() | Transpose() | Reshape() | ArgMax():
            return f"{type(op).__name__.lower()} {names(op.value)}"
        case GridBarrier():
            return "grid_barrier"
    return type(op).__name__


def instructions(program: Program) -> str:
    """The instructions of a program with counts, and every contraction with its path and reason."""
    counts: Counter[str] = Counter()
    lines = [f"kernel {program.name}, {program.threads} threads"]
    for op in walk(program.body):
        match op:
            case Map():
                counts[op.instruction] += op.result.type.size
            case Scan():
                counts[op.combine] += op.result.type.size
            case Reduce():
                counts[op.combine if op.combine != "max" else f"max.sel.{op.value.element.name}"] += op.value.type.size
            case Contract():
                rows, columns = op.result.shape
                shape = f"{rows}x{columns}x{op.a.shape[1]}"
                how = "dot_t" if op.transposed else "dot"
                lines.append(f"  {how} at line {op.span.line}: {op.path}, {shape}: {op.reason}")
                counts[op.instruction] += rows * columns * op.a.shape[1]
    lines += [f"  {count:>10} x {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    lines += (
        ["  (elements, or multiply-adds of a contraction, where each stands once in the program)"] if counts else []
    )
    lines += [f"  note ({note.kind}) {note.span}: {note.message}" for note in program.notes]
    return "\n".join(lines) + "\n"
