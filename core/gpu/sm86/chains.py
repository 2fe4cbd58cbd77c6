"""Contraction cores: what one lane does for one output along k, for every instruction that a contraction may use.

A core is the arithmetic of a chain without its memory: the mappings (`registers`, `shared`) and `execute_matrix` load
codes, decode them with `operand`, and thread an accumulator through `step`:

    acc = core.seed(e, c)                                   # state: a tuple of values, to be kept in variables
    acc = core.step(e, acc, [a_k ...], [b_k ...])           # `width` decoded operands of each side, ascending k
    code = core.result(e, acc)

A decoded operand and a state are tuples of `Value`s of any kind; a mapping only copies and shuffles them. k of a chain is a
multiple of `width`. The seed and the result are codes, and a chain that is cut in two (result of the first part as the
seed of the second) gives the same bits.

Which core serves an instruction on a device: `FORMS` lists candidates, fastest first; `Target.forms` holds the probe's
verdict. Every form gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...errors import UsageError
from ...formats import F16
from ...isa import Arch, Instruction
from ...spirv.builder import Builder, Value
from ..target import Target
from . import tensor, tensor_float

Operand = tuple[Value, ...]
State = tuple[Value, ...]


class Core(Protocol):
    """See the module's text. form: the name of the arithmetic. width: k's per step."""

    form: str
    width: int

    def operand(self, e: Builder, code: Value) -> Operand: ...

    def operands_of_word(self, e: Builder, word: Value) -> list[Operand]: ...

    def seed(self, e: Builder, code: Value) -> State: ...

    def step(self, e: Builder, acc: State, a: Sequence[Operand], b: Sequence[Operand]) -> State: ...

    def result(self, e: Builder, acc: State) -> Value: ...


def core(
    instruction: Instruction,
    arch: Arch,
    target: Target,
    *,
    a_exact16: bool = False,
    b_exact16: bool = False,
    finite: bool = False,
    form: str | None = None,
) -> Core:
    """The core of a contraction's instruction on a device.

    a_exact16, b_exact16: every value of that operand is an f16 value (an f32 that was widened from f16).
    finite: the caller knows that no operand is infinite or NaN (the addend may be). form: a candidate by name.
    """
    chosen = form or form_of(instruction, target)
    if chosen not in candidates(instruction):
        raise UsageError(f"{instruction.key} has no form {chosen!r}; it has {', '.join(candidates(instruction))}")
    r = tensor.rules(instruction, arch)
    if chosen == "float":
        return tensor_float.HalfCore(r, finite)
    return tensor.IntegerCore(r)


def form_of(instruction: Instruction, target: Target) -> str:
    """The form that a device uses: the probe's verdict, else the fastest."""
    return target.forms.get(instruction.key) or candidates(instruction)[0]


def candidates(instruction: Instruction) -> tuple[str, ...]:
    """Names of the forms that an instruction has, fastest first, `integer` last."""
    if instruction.operands[0] is F16:
        return ("float", "integer")
    return ("integer",)
