"""Tile programs as text, for `compile --emit tile` and `--emit instructions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields

from ..tile.program import Block, Constant, Op, Program, Value, walk


class _Names:
    """Stable short names for SSA values: %0, %1.acc, ..."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._kept: list[Value] = []

    def of(self, value: Value) -> str:
        if id(value) not in self._names:
            self._names[id(value)] = f"%{len(self._names)}{'.' + value.name if value.name else ''}"
            self._kept.append(value)
        return self._names[id(value)]


def tile_listing(program: Program) -> str:
    """The whole program: parameters, then one operation a line with the source line it came from."""
    names = _Names()
    head = [f"kernel {program.name}, {program.threads} threads a CTA"]
    if program.constants:
        head.append("constants " + ", ".join(f"{name} = {value}" for name, value in program.constants.items()))
    head += [f"tensor {t.name}: {t.element.name}[{', '.join(map(str, t.dims))}]" for t in program.tensors]
    head += [f"scalar {s.name}: {s.value.type} = {names.of(s.value)}" for s in program.scalars]
    head += [f"aligned {p.dim} % {p.multiple} = 0" for p in program.promises]
    return "\n".join([*head, "", *_block(program.body, names, 0)])


def _block(block: Block, names: _Names, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if block.arguments:
        yield f"{pad}({', '.join(f'{names.of(v)}: {v.type}' for v in block.arguments)}):"
    for op in block.ops:
        yield f"{pad}{_operation(op, names)}"
        for index, inner in enumerate(op.blocks):
            if index:
                yield f"{pad}and"
            yield from _block(inner, names, depth + 1)
    if block.yields:
        yield f"{pad}yield {', '.join(map(names.of, block.yields))}"


def _operation(op: Op, names: _Names) -> str:
    results = ", ".join(f"{names.of(v)}: {v.type}" for v in op.results)
    plain = []
    for item in fields(op):
        value = getattr(op, item.name)
        if item.name in ("span", "reason") or isinstance(value, Value | Block):
            continue
        if isinstance(value, tuple) and value and isinstance(value[0], Value):
            continue
        if isinstance(op, Constant) and item.name == "code":
            plain.append(f"{value:0{max(1, op.result.element.bits // 4)}x}")
        elif value not in ((), False):
            plain.append(f"{value}" if isinstance(value, str) else f"{item.name}={value}")
    operands = [names.of(v) for v in op.operands]
    text = " ".join(filter(None, [type(op).__name__.lower(), *plain, ", ".join(operands)]))
    return f"{results + ' = ' if results else ''}{text}  ; line {op.span.line}"


def instruction_rows(program: Program) -> dict[str, object]:
    """What the program executes: each contraction with its path and reason, and the count of each instruction."""
    counts: Counter[str] = Counter()
    for op in walk(program.body):
        name = getattr(op, "instruction", None) or getattr(op, "combine", None)
        if name:
            counts[name] += 1
    return {
        "kernel": program.name,
        "threads": program.threads,
        "constants": dict(program.constants),
        "contractions": [
            {
                "place": str(op.span),
                "instruction": op.instruction,
                "path": op.path,
                "reason": op.reason,
                "shape": [*op.result.shape, op.a.shape[1]],
            }
            for op in program.contractions()
        ],
        "instructions": dict(counts),
        "notes": [f"{note.span}: {note.message}" for note in program.notes],
    }


def instruction_listing(program: Program) -> str:
    """`instruction_rows` for people, with what each instruction does and how well it is known on sm_86."""
    from .. import isa

    rows = instruction_rows(program)
    lines = [f"kernel {program.name}, {program.threads} threads a CTA, constants {program.constants or 'none'}"]
    for op in program.contractions():
        m, n = op.result.shape
        lines.append(f"dot {m} x {n} x {op.a.shape[1]} at {op.span}: {op.instruction}")
        lines.append(f"    {op.reason}")
    lines.append("instructions, and how often each stands in the program:")
    counts = rows["instructions"]
    assert isinstance(counts, dict)
    for name, count in sorted(counts.items()):
        try:
            row = isa.lookup(name)
        except LookupError:
            lines.append(f"  {count:4}  {name}")
            continue
        evidence = row.evidence.get("sm_86")
        maturity = evidence.maturity if evidence else "assumed"
        lines.append(f"  {count:4}  {name:24} {', '.join(row.expansion)}; {maturity}")
    lines += [f"note: {note.span}: {note.message}" for note in program.notes]
    return "\n".join(lines)
