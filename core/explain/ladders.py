"""Ladders: rows of models of one dot, each of which changes one rule of the one before.

A ladder leads from arithmetic that people expect to what the instruction does. The first step whose bits differ from
the step before is the rule that makes the two differ; its name is what a report says. Steps that cannot apply (tf32
bits of an f16 operand) are left out, so the ladder of an instruction is fixed.

Tensor cores: from a sequential IEEE chain (one fused multiply-add per k in f32, narrowed at the end for f16 results),
and from the correctly rounded dot; f16 results also from a sequential chain in f16. Other architectures: their numbers
are changed to this one's, one by one. Multiply-add chains: from the correctly rounded dot and from multiply, then add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..formats import F64, TF32, Format
from ..isa import ARCHS, Arch, Instruction
from . import groups
from .groups import Rules

IEEE = "sequential IEEE chain"
IEEE_F16 = "sequential f16 chain"
EXACT = "correctly rounded dot"
WIDE = "f32 accumulator, rounded at the end"
UNFUSED = "multiply, then add"

#: A step of a ladder: its rule's name, and the fields of `Rules` that it sets.
Change = tuple[str, dict[str, Any]]

#: What each rule of a ladder does, as a sentence about the step that puts it in.
MEANING = {
    "exact sum per group": (
        "R6, R10: the products of a group and its addend are summed exactly and rounded once; the chain rounds "
        "after every product"
    ),
    "rounding between groups": "R10: the running sum is rounded after every group; the exact dot is rounded only once",
    "kept window": (
        "R3, R5: of each term only the places down to 2^(E-F) are kept, E being the largest exponent of the group"
        " (here a term is still rounded to that place)"
    ),
    "truncation of terms": "R5: what lies below the window is cut off, not rounded: each cut term moves toward zero",
    "final truncation": "R7: the sum of a group is cut to 24 bits, not rounded",
    "floor": (
        "R4: E is not allowed below a floor, so that terms far below the smallest normal number lose bits or vanish"
    ),
    "sign of zero": "R8: a zero result is +0, whatever the signs",
    "NaN": "R9: every NaN is the canonical one; IEEE 754 recommends to keep a payload",
    "f16 rounding between groups": (
        "R7, R10: the accumulator is an f16: the sum of every group is rounded to f16 once, not kept in f32"
    ),
    "tf32 operand bits": "R1: the low 13 bits of a tf32 operand are not read",
    "group width": "R10: how many products are summed exactly before a rounding",
    "kept bits": "R5: F, the number of places kept below 2^E",
    "order of k": (
        "R10: groups chain along ascending k. Inside a group order never matters; which products share a group, "
        "and what the groups before left in the accumulator, does"
    ),
    "rounding after every product": (
        "The chain rounds its running sum after every product; the exact dot is rounded once"
    ),
    "16-bit rounding after every product": (
        "The accumulator has 16 bits: the running sum is rounded to them after every product"
    ),
    "fused multiply-add": "The product enters the sum exactly; FMUL and FADD round it first",
    "flush to zero": (
        ".FTZ: subnormal operands and addends are zero of their sign, and so are results that are below 2^-126 when "
        "rounded with an exponent without end"
    ),
}


@dataclass(frozen=True)
class Step:
    """One model of a ladder. rule: what it changes (the first step: the ladder's name). dot: its result, with every
    group.
    """

    rule: str
    dot: groups.Dot

    @property
    def code(self) -> int:
        return self.dot.code


@dataclass(frozen=True)
class Ladder:
    """From `start` to the instruction. changed: the rules whose step has other bits than the step before, in order."""

    start: str
    steps: tuple[Step, ...]

    @property
    def changed(self) -> tuple[str, ...]:
        pairs = zip(self.steps, self.steps[1:])
        return tuple(step.rule for before, step in pairs if step.code != before.code)

    @property
    def first(self) -> str | None:
        """The first rule that makes the two differ; None where every step has the same bits."""
        return self.changed[0] if self.changed else None

    @property
    def same(self) -> bool:
        """Whether start and end have the same bits (rules on the way may have changed them and changed them back)."""
        return self.steps[0].code == self.steps[-1].code

    @property
    def change(self) -> tuple[Step, Step] | None:
        """The first step whose bits differ, behind the step before it."""
        pairs = zip(self.steps, self.steps[1:])
        return next(((before, step) for before, step in pairs if step.code != before.code), None)

    def parting_group(self) -> int | None:
        """The first group at which the first rule changes the accumulator; None where the groupings differ."""
        if self.change is None:
            return None
        before, step = (one.dot.groups for one in self.change)
        if len(before) != len(step):
            return None
        return next((x.index for x, y in zip(before, step) if x.result.code != y.result.code), None)


def rules_of(instruction: Instruction, arch: Arch) -> Rules:
    """The rules of a matrix or multiply-add instruction on an architecture."""
    if instruction.family == "tensor":
        operand, result = str(instruction.keywords["operand"]), str(instruction.keywords["result"])
        return Rules(
            width=arch.width(operand, int(str(instruction.keywords["k"]))),
            bits=arch.fraction_bits,
            terms="rz",
            final="rn" if result == "f16" else "rz",
            floor=arch.floor(result),
            plus_zero=True,
            one_nan=True,
            between=result,
            tf32_low_bits=False,
        )
    own = instruction.result
    assert own is not None
    # an f64 NaN is passed on (docs/adr/0008), as IEEE 754 recommends
    one_nan = own is not F64
    return Rules(width=1, one_nan=one_nan, between=own.name, flush=bool(instruction.keywords.get("ftz")))


def _climb(start: str, first: Rules, changes: Sequence[Change], last: Rules, dot: Dotter) -> Ladder:
    """Applies the changes one by one; they must end at the instruction's rules."""
    steps, rules = [Step(start, dot(first))], first
    for rule, change in changes:
        rules = replace(rules, **change)
        steps.append(Step(rule, dot(rules)))
    assert rules == last, (start, rules, last)
    return Ladder(start, tuple(steps))


@dataclass(frozen=True)
class Dotter:
    """One dot's operands; called with rules it gives the dot."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    c: int
    operand: Format
    result: Format

    def __call__(self, rules: Rules) -> groups.Dot:
        return groups.dot(self.a, self.b, self.c, self.operand, self.result, rules)

    def permuted(self, order: Sequence[int]) -> Dotter:
        """The same products in another order: position k holds what stood at order[k]."""
        return replace(self, a=tuple(self.a[k] for k in order), b=tuple(self.b[k] for k in order))


def tensor_ladders(dot: Dotter, arch_rules: Rules) -> tuple[Ladder, ...]:
    """The ladders of an HMMA; `arch_rules` is `rules_of` it."""
    tf32, half = dot.operand is TF32, dot.result.name == "f16"
    tail: list[Change] = [
        ("kept window", {"bits": arch_rules.bits}),
        ("truncation of terms", {"terms": "rz"}),
        *([] if half else [("final truncation", {"final": "rz"})]),
        ("floor", {"floor": arch_rules.floor}),
        ("sign of zero", {"plus_zero": True}),
        ("NaN", {"one_nan": True}),
    ]
    low_bits: list[Change] = [("tf32 operand bits", {"tf32_low_bits": False})] if tf32 else []
    narrow: list[Change] = [("f16 rounding between groups", {"between": "f16"})] if half else []
    width: dict[str, Any] = {"width": arch_rules.width}
    base = Rules(width=1) if tf32 else Rules(width=1, tf32_low_bits=False)
    ladders = [
        _climb(IEEE, base, [("exact sum per group", width), *tail, *narrow, *low_bits], arch_rules, dot),
        _climb(
            EXACT,
            replace(base, width=None),
            [("rounding between groups", width), *tail, *narrow, *low_bits],
            arch_rules,
            dot,
        ),
    ]
    if half:
        start = replace(base, between="f16")
        ladders.append(_climb(IEEE_F16, start, [("exact sum per group", width), *tail, *low_bits], arch_rules, dot))
    return tuple(ladders)


def arch_ladder(dot: Dotter, instruction: Instruction, other: Arch, arch: Arch) -> Ladder:
    """From another architecture to this one: its numbers are exchanged one by one."""
    here, there = rules_of(instruction, arch), rules_of(instruction, other)
    changes: list[Change] = [
        ("group width", {"width": here.width}),
        ("kept bits", {"bits": here.bits}),
        ("floor", {"floor": here.floor}),
    ]
    return _climb(other.name, there, changes, here, dot)


def order_ladder(dot: Dotter, rules: Rules, order: Sequence[int]) -> Ladder:
    """From the same products in another order of k to the one given."""
    return Ladder(
        "k in another order", (Step("k in another order", dot.permuted(order)(rules)), Step("order of k", dot(rules)))
    )


def chain_ladders(dot: Dotter, rules: Rules) -> tuple[Ladder, ...]:
    """The ladders of a chain of FFMA, HFMA2, HFMA2.BF16_V2 or DFMA."""
    own = dot.result
    base = Rules(width=1, between=own.name)
    tail: list[Change] = [("NaN", {"one_nan": True})] if rules.one_nan else []
    tail += [("flush to zero", {"flush": True})] if rules.flush else []
    ladders = [
        _climb(EXACT, replace(base, width=None), [("rounding after every product", {"width": 1}), *tail], rules, dot),
        _climb(UNFUSED, replace(base, fused=False), [("fused multiply-add", {"fused": True}), *tail], rules, dot),
    ]
    if own.bits == 16:
        wide = replace(base, between="f32")
        name = "16-bit rounding after every product"
        ladders.append(_climb(WIDE, wide, [(name, {"between": own.name}), *tail], rules, dot))
    return tuple(ladders)


def other_arch(instruction: Instruction, arch: Arch, wanted: str | None) -> Arch | None:
    """The architecture to show beside: the one asked for, else sm_90 (sm_86 beside that); None where it lacks the
    instruction.
    """
    name = wanted or ("sm_86" if arch.name == "sm_90" else "sm_90")
    other = ARCHS[name]
    return other if other.has(instruction) and other is not arch else None
