"""Shaders of kernels without a launch, for benchmarks of compilers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from phobos_sim.gpu import mapping
from phobos_sim.gpu.emitter import Job, Shader
from phobos_sim.gpu.target import Target
from phobos_sim.isa import SM86
from phobos_sim.tile import facts
from phobos_sim.tile.program import Program


def of_kernel(
    program: Program, dims: Mapping[str, int], grid: tuple[int, int, int], target: Target, form: str | None
) -> tuple[Shader, str]:
    """The shader that a launch of these extents would run on a device, and the form it has."""
    extents = {t.name: tuple(dims[d] if isinstance(d, str) else d for d in t.dims) for t in program.tensors}
    aliases = {t.name: t.name for t in program.tensors}
    known = facts.analyse(program, extents, dict(dims), grid, {})
    choice = mapping.choose(program, target, aliases, prod(grid), form)
    return mapping.emit(Job(program, known, target, SM86, choice.form, aliases), choice), choice.form


def with_forms(target: Target, forms: dict[str, str]) -> Target:
    """The target with other verdicts."""
    return replace(target, forms=forms)


def is_large(program: Program, target: Target) -> bool:
    """Whether the register mapping would unroll to more than a GPU's compiler takes well."""
    return not target.is_cpu and mapping._is_large(program, target, {t.name: t.name for t in program.tensors})
