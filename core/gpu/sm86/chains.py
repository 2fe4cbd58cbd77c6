"""Contraction cores: what one lane does for one output along k, for every instruction that a contraction may use.

A core is the arithmetic of a chain without its memory: the mappings (`registers`, `shared`) and `execute_matrix` load
codes, decode them with `operand`, and thread an accumulator through `step`:

    acc = core.seed(e, c)                                   # state: a tuple of values, to be kept in variables
    acc = core.step(e, acc, [a_k ...], [b_k ...])           # `width` decoded operands of each side, ascending k
    code = core.result(e, acc)

`side` of operand and operands_of_word is 0 for a and 1 for b; only IMMA and IDP.4A of mixed signedness ask for it. A
decoded operand and a state are tuples of `Value`s of any kind; a mapping only copies and shuffles them. k of a chain
is a multiple of `width`. The seed and the result are codes, and a chain that is cut in two (result of the first part
as the seed of the second) gives the same bits.

Which core serves an instruction on a device: `FORMS` lists candidates, fastest first; `Target.forms` holds the probe's
verdict. Every form gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...errors import UsageError
from ...formats import F16, Codes
from ...isa import Arch, Instruction
from ...spirv.builder import Builder, Value
from ..target import Target
from . import chain_cores, inexact, integer_tensor, resolve, tensor, tensor_float, tensor_wide

Operand = tuple[Value, ...]
State = tuple[Value, ...]


class Core(Protocol):
    """See the module's text.

    form: the name of the arithmetic. width: k's per step. outputs: accumulators of one lane that pay on a CPU device;
    more only makes the loop body outgrow the instruction cache (measured on lavapipe, benchmarks/bench_cores.py).
    """

    form: str
    width: int
    outputs: int

    def operand(self, e: Builder, code: Value, side: int | None = None) -> Operand: ...

    def operands_of_word(self, e: Builder, word: Value, side: int | None = None) -> list[Operand]: ...

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
    plain: bool = False,
    calm: bool = False,
    form: str | None = None,
) -> Core:
    """The core of a contraction's instruction on a device.

    a_exact16, b_exact16: every value of that operand is an f16 value (an f32 that was widened from f16).
    plain: the caller knows that `is_plain` holds for both operands; the addend may be anything.
    calm: no addend is infinite, NaN or tiny: the chain starts with an ordinary constant (`tensor_float.is_calm`).
    form: a candidate by name, else `form_of`. Where `target.inexact` (`mode="cooperative"`) it is no candidate at all.
    """
    if target.inexact and inexact.applies(instruction):
        return inexact.InexactCore(instruction)
    chosen = form or _chosen(instruction, target, a_exact16 and b_exact16)
    if chosen == resolve.NONE:
        resolve.refuse(instruction, target)
    if chosen not in candidates(instruction):
        raise UsageError(f"{instruction.key} has no form {chosen!r}; it has {', '.join(candidates(instruction))}")
    if instruction.family == "tensor":
        r = tensor.rules(instruction, arch)
        if chosen == "integer":
            return tensor.IntegerCore(r)
        return tensor_float.FloatCore(r, plain, calm) if plain or r.operand is F16 else tensor_wide.WideCore(r)
    if instruction.family == "integer_tensor" or instruction.function == "idp4a":
        return integer_tensor.IntegerTensorCore(instruction)
    make = _SCALAR.get((instruction.key, chosen))
    return make(chosen) if make else chain_cores.ScalarCore(instruction, chosen)


def is_plain(instruction: Instruction, codes: Codes) -> bool:
    """Whether an operand's codes are all within reach of the fastest core (`tensor_float`); False for other rows."""
    fmt = instruction.operands[0]
    return instruction.family == "tensor" and fmt is not None and tensor_float.is_plain(fmt, codes)


#: Cores that keep a chain's operands and accumulator decoded; any other pair goes through the row's scalar emitter.
_SCALAR: dict[tuple[str, str], Callable[[str], Core]] = {
    ("FFMA", "exact16"): chain_cores.SingleCore,
    ("FFMA", "native"): chain_cores.SingleCore,
    ("FFMA", "double"): chain_cores.SingleCore,
    ("HFMA2", "native"): lambda _: chain_cores.HalfChainCore(),
    ("HFMA2.BF16_V2", "double"): lambda _: chain_cores.BfloatChainCore(),
}


def _chosen(instruction: Instruction, target: Target, exact16: bool) -> str:
    # FMUL and FADD in the device's arithmetic are FFMA where the product is exact, if they are exact themselves.
    if instruction.key == "FFMA" and exact16 and all(target.form_of(key) == "native" for key in ("FMUL", "FADD")):
        return "exact16"
    return form_of(instruction, target)


def form_of(instruction: Instruction, target: Target) -> str:
    """The form that a device uses: the probe's verdict; without one the fastest for HMMA, whose needs are slight."""
    found = target.forms.get(instruction.key)
    if found == resolve.NONE:
        resolve.refuse(instruction, target)
    if found in candidates(instruction):
        return str(found)
    return candidates(instruction)[0] if instruction.family == "tensor" else resolve.INTEGER


def candidates(instruction: Instruction) -> tuple[str, ...]:
    """Names of the forms of a contraction's arithmetic, fastest first, `integer` last."""
    if instruction.family == "tensor":
        return ("float", "integer")
    if instruction.family == "integer_tensor" or instruction.function == "idp4a":
        return ("integer",)
    forms = resolve.candidates(instruction)
    return ("exact16", *forms) if instruction.key == "FFMA" else forms
