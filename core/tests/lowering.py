"""What the tests of the front end and of lowering share: a kernel from a few lines, and a program as short text."""

from __future__ import annotations

import textwrap

from phobos_sim.errors import Source
from phobos_sim.lang import syntax as syn
from phobos_sim.lang.kernel import Kernel
from phobos_sim.lang.load import parse_source
from phobos_sim.tile import program as tile
from phobos_sim.tile.program import Program, walk

HEAD = "from __future__ import annotations\nimport phobos.lang as ph\n"


def module(text: str, name: str = "kernel.py") -> syn.Module:
    """The tree of a source; the Python spelling gets its imports."""
    text = textwrap.dedent(text)
    return parse_source(Source(name, HEAD + text if name.endswith(".py") else text))


def program(text: str, name: str = "kernel.py", kernel: str = "", **constants: int) -> Program:
    """The tile program of a source's last kernel (or the one named)."""
    tree = module(text, name)
    wanted = kernel or list(tree.kernels)[-1]
    return Kernel.from_tree(wanted, tree.span.source, tree).program(constants or None)


def body(params: str, statements: str, attributes: str = "", functions: str = "") -> Program:
    """The program of `kernel k(params) { statements }` in .ph text."""
    return program(f"{functions}\n{attributes}\nkernel k({params}) {{\n{statements}\n}}\n", "kernel.ph")


def steps(block: tile.Program | tile.Block) -> list[str]:
    """The operations of a program in order, as short words; constants, dims and index arithmetic are left out."""
    found = []
    for op in walk(block.body if isinstance(block, Program) else block):
        match op:
            case tile.Map() if op.result.shape or op.result.element.name != "s64":
                found.append(op.instruction)
            case tile.Contract():
                found.append(op.path)
            case tile.Reduce():
                found.append(f"{op.combine} over {op.lanes or 'serial'}")
            case tile.Load():
                found.append(f"load {op.tensor}")
            case tile.Store():
                found.append(f"store {op.tensor}")
            case tile.Constant() | tile.Dim() | tile.BlockIndex() | tile.Broadcast() | tile.Map():
                continue
            case _:
                found.append(type(op).__name__.lower())
    return found


def notes(result: Program, kind: str) -> list[str]:
    """The messages of one kind."""
    return [note.message for note in result.notes if note.kind == kind]
