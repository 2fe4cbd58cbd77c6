"""Which mapping and form serve a program on a device: the one place where that is decided.

form=None takes the register mapping where the program fits it and the device has subgroup shuffles, else the
workgroup mapping. On a CPU device the latter runs with one subgroup and subgroup barriers, since workgroup barriers
are dear there (tile-lowering.md A6); asked for by name, `shared` and `loops` are workgroups of as many
invocations as the kernel has threads, up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import UsageError
from ..isa import SM86
from ..tile import regions
from ..tile.facts import Facts
from ..tile.program import Contract, Load, Map, Program, Value
from . import cooperative
from .emitter import Job, Shader
from .registers import GROUP_INVOCATIONS, HELD_BY_CONTRACTIONS, RegistersEmitter
from .registers_contract import MIN_CHUNK
from .shared import SharedEmitter
from .sm86.chain_cores import ScalarCore
from .target import Target
from .uses import Uses, core_of

UNROLLED = 64  # above it NVIDIA's compiler took 28 s for an attention kernel (docs/performance.md)
UNROLLED_STEPS = 256  # of about a hundred instructions each: SwiftShader takes 10 ms for one
#: A GPU's compiler gives an invocation of so many no more registers than leave all of them in flight.
GPU_INVOCATIONS = 512
CPU_GROUPS = 32  # at least so many workgroups where there is work for them, to keep every core busy


@dataclass(frozen=True)
class Choice:
    """A form, how it is laid out, and what to say about the choice."""

    form: str
    plan: regions.Plan | None
    units_per_group: int
    local_size: int
    scope: str
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        return (self.form, self.units_per_group, self.local_size, self.scope)


def choose(
    program: Program,
    target: Target,
    aliases: dict[str, str],
    ctas: int,
    form: str | None,
    preferred: Callable[[], str] = lambda: "registers",
) -> Choice:
    """The mapping for one launch of `ctas` CTAs; UsageError where the form asked for cannot hold the program.

    preferred: asked for the faster mapping where both can hold the program and no form was asked for.
    """
    notes: list[str] = []
    if form is None and target.offers:
        choice = _cooperative(program, target)
        if choice is not None:
            return choice
    if form in (None, "registers"):
        try:
            if (
                form is None
                and (not target.is_cpu or target.subgroup_size == 1)
                and _is_large(program, target, aliases)
            ):
                raise regions.NoMapping("its tiles unroll to more code than a GPU's compiler takes well")
            if form is None and _unrolled_steps(program, target, aliases) > UNROLLED_STEPS:
                raise regions.NoMapping("its dots in integer arithmetic unroll to more code than a compiler takes well")
            if form is None and preferred() != "registers":
                raise regions.NoMapping(f"that was measured to be faster on {target.name}")
            return _registers(program, target, aliases, ctas)
        except regions.NoMapping as error:
            if form == "registers":
                raise UsageError(
                    f"form='registers' cannot hold kernel {program.name} on {target.name}: {error}; use form='shared'"
                ) from None
            notes.append(f"kernel {program.name}: workgroup mapping, since {error}")
    if form is None and target.is_cpu and target.subgroup_size > 1:
        return Choice("shared", None, 1, target.subgroup_size, "subgroup", tuple(notes))
    return Choice(form or "shared", None, 1, _workgroup(program, target), "workgroup", tuple(notes))


def _cooperative(program: Program, target: Target) -> Choice | None:
    """The workgroup mapping with the device's own matrix unit, where a dot goes through it and its memory suffices."""
    served = [op for op in program.contractions() if cooperative.offer_for(op, target) is not None]
    size = _workgroup(program, target)
    if not served or size % target.subgroup_size or size > target.subgroup_size * target.max_subgroups:
        return None
    if sum(cooperative.staged_bytes(op) for op in served) > target.shared_bytes:
        return None
    return Choice(cooperative.FORM, None, 1, size, "workgroup")


def _workgroup(program: Program, target: Target) -> int:
    """Invocations of a workgroup: as many as the kernel has threads, or as hold a dot's accumulators in registers."""
    wanted = min(program.threads, GROUP_INVOCATIONS if target.is_cpu else GPU_INVOCATIONS)
    if target.is_narrow:
        wanted = max([wanted, *(c.result.type.size // target.accumulators for c in program.contractions())])
    size = 32
    while size * 2 <= min(wanted, target.max_invocations):
        size *= 2
    return size


def _is_large(program: Program, target: Target, aliases: dict[str, str]) -> bool:
    """Whether the register mapping unrolls more accumulators per lane than a GPU's compiler and registers take."""
    plan = regions.plan(program, target.lanes, aliases)
    return sum(plan.registers(c.result) for c in program.contractions()) > UNROLLED


def _unrolled_steps(program: Program, target: Target, aliases: dict[str, str]) -> int:
    """Steps of integer arithmetic that the register mapping writes out: all of k, or a chunk of it where it loops."""
    uses, job = Uses(program.body), Job(program, Facts(), target, SM86, "registers")
    heavy = [c for c in program.contractions() if core_of(job, uses, c).outputs <= ScalarCore.outputs]
    if not heavy:
        return 0
    plan = regions.plan(program, target.lanes, aliases, _outputs(program, target))

    def is_walked(value: Value) -> bool:
        columns = plan.per_row(regions.matrix(plan.shape(value, value.shape))[1])
        maker = uses.definer.get(value)
        while isinstance(maker, Map) and len(maker.args) == 1:
            maker = uses.definer.get(maker.args[0])
        return columns > HELD_BY_CONTRACTIONS or (isinstance(maker, Load) and uses.feeds_only_contractions(value))

    def depth(c: Contract) -> int:
        k = c.a.shape[1]
        return min(k, max(MIN_CHUNK, target.lanes)) if is_walked(c.a) and is_walked(c.b) else k

    return sum(plan.registers(c.result) * depth(c) for c in heavy)


def _outputs(program: Program, target: Target) -> int:
    """Accumulators per lane that pay: a matter of the core on a CPU device; registers are what a GPU is short of."""
    if not target.is_cpu:
        return target.accumulators
    uses = Uses(program.body)
    job = Job(program, Facts(), target, SM86, "registers")
    return min((core_of(job, uses, c).outputs for c in program.contractions()), default=target.accumulators)


def _registers(program: Program, target: Target, aliases: dict[str, str], ctas: int) -> Choice:
    if not target.subgroup_shuffle:
        raise regions.NoMapping(f"{target.name} has no subgroup shuffles")
    lanes = target.lanes
    plan = regions.plan(program, lanes, aliases, _outputs(program, target))
    for contract in program.contractions():
        columns = plan.per_row(regions.matrix(plan.shape(contract.result, contract.result.shape))[1])
        if contract.transposed and columns > HELD_BY_CONTRACTIONS and columns % lanes:
            raise regions.NoMapping(f"a dot_t of {columns} columns, not whole subgroups of {lanes}, would be unrolled")
    units = ctas * plan.units
    per_group, limit = 1, min(GROUP_INVOCATIONS, target.max_invocations, lanes * target.max_subgroups)
    if target.is_cpu:
        limit = min(limit, max(lanes, units * lanes // CPU_GROUPS))  # a workgroup runs on one core
    while per_group * 2 * lanes <= limit and units % (per_group * 2) == 0:
        per_group *= 2
    return Choice("registers", plan, per_group, lanes * per_group, "subgroup")


def emit(job: Job, choice: Choice) -> Shader:
    """The shader of a choice."""
    if choice.plan is not None:
        return RegistersEmitter(job, choice.plan, choice.units_per_group).emit()
    return SharedEmitter(job, choice.local_size, choice.scope).emit()
