"""`phobos-sim compile FILE`: what a kernel becomes, at each step from syntax tree to shader."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UnavailableError, UsageError
from .options import Device, Form, Json, Kernel, Settings, integers, pick_kernel, write_json

if TYPE_CHECKING:
    from ..gpu.emitter import Shader
    from ..gpu.target import Target
    from ..lang.kernel import Kernel as PhobosKernel
    from ..tile.program import Program


class Emit(StrEnum):
    """What can be shown."""

    syntax = "syntax"
    tile = "tile"
    instructions = "instructions"
    spirv_asm = "spirv-asm"
    spirv = "spirv"
    python = "python"
    ph = "ph"


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A kernel source, .py or .ph.")],
    emit: Annotated[Emit, typer.Option("--emit", help="What to show.")] = Emit.instructions,
    kernel: Kernel = None,
    settings: Settings = None,
    dim: Annotated[
        list[str] | None,
        typer.Option("--dim", metavar="NAME=N", help="Extent of a symbolic dim, for spirv; default 512."),
    ] = None,
    form: Form = None,
    device: Device = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write there instead of stdout.")] = None,
    json: Json = None,
) -> None:
    """Show what a kernel becomes."""
    from .. import choose
    from ..launch import FORMS

    if form not in FORMS:
        raise UsageError(f"unknown form {form!r}; forms are loops, registers and shared")
    if device is not None:
        choose.open_named(device)
    chosen = pick_kernel(file, kernel)
    constants = integers("--set", settings)
    if emit is Emit.syntax:
        from ..lang.syntax import dump

        text = dump(chosen.tree)
        write_json({"kernel": chosen.name, "syntax": text.splitlines()}, json)
    elif emit in (Emit.python, Emit.ph):
        text = _spelling(chosen, emit)
        write_json({"kernel": chosen.name, emit.value: text}, json)
    elif emit in (Emit.tile, Emit.instructions):
        from ..tile.listing import instructions, listing

        program = chosen.program(constants)
        text = listing(program) if emit is Emit.tile else instructions(program)
        write_json({**_rows(program), "listing": text.splitlines()}, json)
    else:
        _emit_shader(chosen.program(constants), emit, integers("--dim", dim), form, device, out, json)
        return
    if json != "-":
        _write(text.rstrip("\n") + "\n", out)


def _write(data: str | bytes, out: Path | None) -> None:
    try:
        if out is not None:
            out.write_bytes(data.encode() if isinstance(data, str) else data)
        elif isinstance(data, str):
            sys.stdout.write(data)
        else:
            sys.stdout.buffer.write(data)
    except OSError as error:
        if out is None:
            raise
        raise UsageError(f"--out {out}: cannot write there: {error.strerror}") from error


def _rows(program: Program) -> dict[str, object]:
    """What runs and why, as JSON."""
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
        "notes": [f"{note.span}: {note.message}" for note in program.notes],
    }


def _spelling(kernel: PhobosKernel, emit: Emit) -> str:
    from ..lang.printer import to_ph, to_python

    return (to_ph if emit is Emit.ph else to_python)(kernel.module)


def _emit_shader(
    program: Program,
    emit: Emit,
    dims: dict[str, int],
    form: str | None,
    device: str | None,
    out: Path | None,
    json: str | None,
) -> None:
    from ..spirv.disassemble import disassemble

    if emit is Emit.spirv and out is None and json != "-" and sys.stdout.isatty():
        raise UsageError("--emit spirv writes binary; give --out FILE or redirect stdout")
    target = _target(program, device)
    shader = _shader(program, dims, form, target)
    if json is not None:
        data = {
            "kernel": program.name,
            "target": target.name,
            "description": shader.description,
            "bindings": list(shader.bindings),
            "push_words": shader.push_words,
            "bytes": len(shader.code),
        }
        write_json(data, json)
    if json != "-":
        _write(shader.code if emit is Emit.spirv else disassemble(shader.code), out)


def _target(program: Program, device: str | None) -> Target:
    """The facts of the device that a launch would use; without any, those that every Vulkan device guarantees."""
    from .. import choose
    from ..gpu.probe import target_for
    from ..gpu.run import instructions_of
    from ..gpu.target import Target

    if device == choose.REFERENCE:
        raise UsageError("the reference has no shaders; --emit spirv needs a Vulkan device, or none named at all")
    try:
        found = choose.resolve(device)
    except UnavailableError:
        if device is not None:
            raise
        found = None
    if found is None:
        print("phobos-sim: no Vulkan device here; this is for one with the guaranteed minimum", file=sys.stderr)
        return Target()
    return target_for(found, instructions_of(program))


def _shader(program: Program, dims: dict[str, int], form: str | None, target: Target) -> Shader:
    """The shader for these dims (a shader serves every launch that shares alignment and bounds with this one)."""
    from ..gpu import mapping
    from ..gpu.emitter import Job
    from ..isa import SM86
    from ..tile import facts

    unknown = [name for name in dims if name not in program.dims]
    if unknown:
        raise UsageError(f"--dim {unknown[0]}: kernel {program.name} has the dims {', '.join(program.dims) or 'none'}")
    bound = {name: dims.get(name, _default_extent(program, name)) for name in program.dims}
    extents = {t.name: tuple(bound[d] if isinstance(d, str) else d for d in t.dims) for t in program.tensors}
    aliases = {t.name: t.name for t in program.tensors}
    known = facts.analyse(program, extents, bound, (1, 1, 1), {})
    choice = mapping.choose(program, target, aliases, 1, form)
    return mapping.emit(Job(program, known, target, SM86, choice.form, aliases), choice)


def _default_extent(program: Program, dim: str) -> int:
    """512, rounded up to what the kernel's promises ask."""
    multiple = max((p.multiple for p in program.promises if p.dim == dim), default=1)
    return -(-512 // multiple) * multiple
