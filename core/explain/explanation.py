"""The explanation of one dot: facts only. `describe` turns them into a report, `to_dict` into JSON.

A dot may be longer than its instruction: k is any multiple of the instruction's, chained along ascending k (R10), as a
contraction of a kernel is. Beside the result stand the models people expect (ladders), another architecture, and the
same products in another order of k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..errors import UsageError
from ..formats import FORMATS, Format
from ..isa import Arch, Instruction
from . import ladders, numbers
from .groups import Dot, Group
from .ladders import Dotter, Ladder
from .numbers import Number
from .report import Report

#: Rows of the table that are explained as a chain of one multiply-add per k.
CHAINS = ("FFMA", "FFMA.FTZ", "HFMA2", "HFMA2.BF16_V2", "DFMA")


@dataclass(frozen=True)
class Beside:
    """A model beside the result: its code, the steps it lies above the result (None: NaN), its error in ulp of the
    exact sum.
    """

    name: str
    number: Number
    steps: int | None
    error: Fraction | None


@dataclass(frozen=True, repr=False)
class DotExplanation(Report):
    """One dot taken apart.

    a, b: codes along k; c: the addend's code. dot: every group with its terms. ladders: from what people expect to the
    instruction. arch_ladder: from another architecture. order: the same products with k in another order (order_name).
    exact: the exact sum (None where a term is not finite). notes: what should be said about how inputs were read.
    """

    instruction: Instruction
    arch: Arch
    operands: Dotter
    dot: Dot
    ladders: tuple[Ladder, ...]
    arch_ladder: Ladder | None
    order: Ladder
    order_name: str
    exact: Fraction | None
    expected: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def tensor(self) -> bool:
        """Whether it is a tensor core's dot; else it is a chain of multiply-adds."""
        return self.instruction.family == "tensor"

    @property
    def single(self) -> bool:
        """One multiply-add, whose order does not matter."""
        return not self.tensor and len(self.dot.groups) == 1

    @property
    def result(self) -> Number:
        return numbers.decode(self.dot.code, self.operands.result)

    @property
    def products(self) -> int:
        """How many products are not zero."""
        return sum(not term.zero for group in self.dot.groups for term in group.terms if term.k is not None)

    @property
    def absorbed(self) -> tuple[int, ...]:
        """k of the nonzero products of which nothing is left in the sum: cut to zero, or rounded away by their step."""
        return absorbed(self.dot)

    @property
    def cut(self) -> tuple[int, ...]:
        """k of the products that lost some bits, not all, to the window."""
        terms = [term for group in self.dot.groups for term in group.terms]
        return tuple(term.k for term in terms if term.k is not None and term.lost and not term.absorbed)

    @property
    def rule(self) -> str | None:
        """The first rule that makes the result differ from the first ladder's start (None: it does not differ)."""
        return self.ladders[0].first

    @property
    def beside(self) -> tuple[Beside, ...]:
        """The result, the ladders' starts, the other architecture, and the other order of k."""
        name = self.arch.name if self.tensor else self.instruction.key
        models = [(name, self.dot.code), *((ladder.start, ladder.steps[0].code) for ladder in self.ladders)]
        if self.arch_ladder is not None:
            models.append((self.arch_ladder.start, self.arch_ladder.steps[0].code))
        if not self.single:
            models.append((self.order_name, self.order.steps[0].code))
        return tuple(self._beside(name, code) for name, code in models)

    def _beside(self, name: str, code: int) -> Beside:
        fmt = self.operands.result
        number = numbers.decode(code, fmt)
        error = None
        if self.exact is not None and number.finite:
            error = (numbers.fraction_of(number) - self.exact) / ulp(self.exact, fmt)
        return Beside(name, number, numbers.steps_between(code, self.dot.code, fmt), error)

    def document(self, groups: str = "some") -> Any:
        """The report as blocks; groups: ``some`` (those that matter) or ``all``."""
        from .describe_dot import document

        return document(self, groups)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values; codes are hexadecimal text, integers of any size are integers."""
        from .describe_json import dot

        return dot(self)


def ulp(value: Fraction, fmt: Format) -> Fraction:
    """Distance of neighbours at a value."""
    if value == 0:
        return Fraction(2) ** (fmt.emin - fmt.fraction_bits)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    return Fraction(2) ** (min(max(exponent, fmt.emin), fmt.emax) - fmt.fraction_bits)


def absorbed(dot: Dot) -> tuple[int, ...]:
    """k of the nonzero products that leave no trace: cut to zero by the window, or a step that returns its addend."""
    gone: list[int] = []
    for group in dot.groups:
        if group.special:
            continue
        if dot.rules.width == 1 and dot.rules.bits is None:
            gone += [t.k for t in group.terms if t.k is not None and not t.zero and _unmoved(group)]
        gone += [t.k for t in group.terms if t.k is not None and t.absorbed]
    return tuple(gone)


def _unmoved(group: Group) -> bool:
    return group.result.code == group.addend.code or (group.addend.kind == "zero" and group.result.kind == "zero")


def explain_dot(
    instruction: Instruction,
    arch: Arch,
    a: Sequence[int],
    b: Sequence[int],
    c: int,
    *,
    other: str | None = None,
    order: Sequence[int] | None = None,
    expected: int | None = None,
    notes: Sequence[str] = (),
) -> DotExplanation:
    """a, b: codes along k (the shorter one is filled up with +0, to a multiple of the instruction's k).

    other: architecture to show beside. order: a permutation of k to compare with (default: k reversed). expected: a
    code that was measured or given elsewhere. Raises UsageError.
    """
    operand, result = instruction.operands[0], instruction.result
    assert operand is not None and result is not None
    step = instruction.shape.k if instruction.shape is not None else 1
    length = max(len(a), len(b), 1)
    if length > numbers.MAX_K:
        raise UsageError(f"k is {length}; at most {numbers.MAX_K} are explained: give a part of the dot")
    length += -length % step
    dotter = Dotter(_filled(a, length), _filled(b, length), int(c), operand, result)
    rules = ladders.rules_of(instruction, arch)
    dot = dotter(rules)
    tensor = instruction.family == "tensor"
    beside = ladders.other_arch(instruction, arch, other) if tensor else None
    permutation, name = _order(order, length, dotter)
    return DotExplanation(
        instruction=instruction,
        arch=arch,
        operands=dotter,
        dot=dot,
        ladders=ladders.tensor_ladders(dotter, rules) if tensor else ladders.chain_ladders(dotter, rules),
        arch_ladder=None if beside is None else ladders.arch_ladder(dotter, instruction, beside, arch),
        order=ladders.order_ladder(dotter, rules, permutation),
        order_name=name,
        exact=_exact(dotter, rules),
        expected=expected,
        notes=tuple(notes),
    )


def _filled(codes: Sequence[int], length: int) -> tuple[int, ...]:
    return (*map(int, codes), *[0] * (length - len(codes)))


def _order(order: Sequence[int] | None, length: int, dotter: Dotter) -> tuple[list[int], str]:
    """The permutation to compare with and its name; zeros at the end stay where they are, so that they do not shift
    groups.
    """
    if order is not None:
        used = [int(k) for k in order]
        if sorted(used) != list(range(len(used))) or len(used) > length:
            raise UsageError(f"an order of k is a permutation of 0 to {length - 1}, found {', '.join(map(str, used))}")
        rest = [*used, *range(len(used), length)]
        return rest, "k permuted"
    pairs = zip(dotter.a, dotter.b)
    used_up = max((k + 1 for k, pair in enumerate(pairs) if any(pair)), default=0)
    return [*reversed(range(used_up)), *range(used_up, length)], "k reversed"


def _exact(dotter: Dotter, rules: Any) -> Fraction | None:
    """The exact sum of what the instruction reads, where every term is finite."""
    fmt = numbers.operand_format(dotter.operand, rules.tf32_low_bits)
    left = [numbers.decode(x, fmt) for x in dotter.a]
    right = [numbers.decode(x, fmt) for x in dotter.b]
    addend = numbers.decode(dotter.c, FORMATS[dotter.result.name])
    if not all(number.finite for number in (*left, *right, addend)):
        return None
    products = (numbers.fraction_of(x) * numbers.fraction_of(y) for x, y in zip(left, right))
    return sum(products, numbers.fraction_of(addend))
