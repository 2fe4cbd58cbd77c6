"""Grids on the command line: formulas of dims and constants, and what to say to somebody who gave none."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..lang.kernel import Kernel
    from ..tile.program import Program

OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def formula(option: str, text: str, names: Mapping[str, int]) -> int:
    """The value of a formula of + - * // % ( ), numbers and names: dims and constants."""

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name):
                raise UsageError(f"{option} {text}: no dim or constant {name!r}; known: {', '.join(names) or 'none'}")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATIONS:
                return OPERATIONS[type(operator)](value(left), value(right))
            case _:
                raise UsageError(f"{option} {text}: only numbers, dims, constants and + - * // % ( ) can stand there")

    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"{option} {text}: not a formula such as M//BM") from None
    except ZeroDivisionError:
        raise UsageError(f"{option} {text}: division by zero") from None


def ask(kernel: Kernel, program: Program) -> UsageError:
    """Nobody can know the grid but the kernel's author: what it may be made of, and an example."""
    constants = ", ".join(f"{name}={value}" for name, value in program.constants.items()) or "none"
    return UsageError(
        f"--grid is missing: how many CTAs should kernel {program.name} have? Formulas may name its dims "
        f"({', '.join(program.dims) or 'none'}) and constants ({constants}). "
        f"For example: --grid {example(kernel, program)}"
    )


def example(kernel: Kernel, program: Program) -> str:
    """A grid in which every CTA has a tile of its own, read off the places that the kernel stores to."""
    parts = []
    for axis in range(3):
        found = _tiles(kernel, program, axis)
        if found is None:
            break
        parts.append(found)
    text = ",".join(parts) or "1"
    return f"'{text}'" if "(" in text else text


def _tiles(kernel: Kernel, program: Program, axis: int) -> str | None:
    """How many tiles of a tensor's axis the block index of that axis counts, as a formula."""
    from ..tile.program import BlockIndex, Constant, Load, Map, Store, walk

    ops = list(walk(program.body))
    constants = {op.result: op.code for op in ops if isinstance(op, Constant)}
    steps = {op.result: 1 for op in ops if isinstance(op, BlockIndex) and op.axis == axis}
    for op in ops:
        if isinstance(op, Map) and op.instruction == "mul.lo.s64":
            for index, factor in (op.args, op.args[::-1]):
                if steps.get(index) == 1 and factor in constants:
                    steps[op.result] = constants[factor]
    for kind in (Store, Load):
        for op in ops:
            for start, dim in zip(op.starts, program.tensor(op.tensor).dims) if isinstance(op, kind) else ():
                if start in steps:
                    return _quotient(kernel, program, dim, steps[start])
    return None


def _quotient(kernel: Kernel, program: Program, dim: int | str, step: int) -> str:
    if isinstance(dim, int):
        return str(-(-dim // step))
    if step == 1:
        return dim
    names = [name for name, value in program.constants.items() if value == step]
    promised = [entry.multiple for entry in kernel.attributes.aligned if entry.dim == dim]
    alike = [name for name in names if name in promised or name.endswith(dim)]
    name = (alike or names)[0] if alike or len(names) == 1 else str(step)
    if any(promise.dim == dim and promise.multiple % step == 0 for promise in program.promises):
        return f"{dim}//{name}"
    return f"({dim}+{name}-1)//{name}"
