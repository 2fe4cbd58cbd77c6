"""From a row of the instruction table to the SPIR-V of one of its forms.

A family file holds, for each function of its rows, the integer form under the plain name and further forms as
``<function>_<form>``; `FORMS` lists those, fastest first, under ``"<function>"`` or under the function and the first
values of the row's options (``"fmul rz"``). `NEEDS` says which device features a form takes, `USES` which other rows a
function is made of. Which form an emitter uses is the probe's verdict, found in `e.target.forms`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from ... import isa
from ...errors import InexactDeviceError, UnavailableError
from ...isa import Instruction
from ...spirv.builder import Builder, Value
from ..target import Target

INTEGER = "integer"
#: The verdict on an instruction none of whose forms is exact on a device.
NONE = "none"

FEATURE_NAMES = {"int64": "shaderInt64", "float64": "shaderFloat64"}


@cache
def _family(name: str) -> ModuleType:
    return import_module(f".{name}", __package__)


def _listed(table: dict[str, tuple[str, ...]], instruction: Instruction) -> tuple[str, ...]:
    """The entry for the function and as many of the row's option values as it names."""
    words = [instruction.function, *(str(value) for _, value in instruction.options)]
    while words:
        found = table.get(" ".join(words))
        if found is not None:
            return found
        words.pop()
    return ()


def candidates(instruction: Instruction) -> tuple[str, ...]:
    """Names of the row's forms, fastest first; ``integer`` is the last."""
    return (*_listed(getattr(_family(instruction.family), "FORMS", {}), instruction), INTEGER)


def uses(instruction: Instruction) -> tuple[str, ...]:
    """Keys of the rows that this one is made of, by the device's form of each."""
    return _listed(getattr(_family(instruction.family), "USES", {}), instruction)


@cache
def closure(key: str) -> tuple[str, ...]:
    """The row of a key and all rows that it is made of."""
    instruction = isa.lookup(key)
    found = [instruction.key]
    for used in uses(instruction):
        found += [k for k in closure(used) if k not in found]
    return tuple(found)


def needs_tables(instruction: Instruction) -> bool:
    """Whether its emitter reads the coefficient tables of MUFU (`mufu.table_words`) at `e.mufu_binding`."""
    return any(isa.lookup(key).family == "mufu" for key in closure(instruction.key))


def features(instruction: Instruction, form: str) -> tuple[str, ...]:
    """Device features (fields of `Target`) that a form takes."""
    family = _family(instruction.family)
    found = set(getattr(family, "NEEDS", {}).get(form, ()))
    formats = (*instruction.operands, instruction.result)
    if any(fmt is not None and fmt.bits == 64 for fmt in formats):
        found.add("int64")
        if form != INTEGER and any(fmt is not None and fmt.name == "f64" for fmt in formats):
            found.add("float64")
    return tuple(sorted(found))


def missing(instruction: Instruction, form: str, target: Target) -> tuple[str, ...]:
    """The features of `features` that a device lacks."""
    return tuple(name for name in features(instruction, form) if not getattr(target, name))


def function(instruction: Instruction, form: str) -> Callable[..., Value]:
    """The emitter of one form."""
    name = instruction.function if form == INTEGER else f"{instruction.function}_{form}"
    return getattr(_family(instruction.family), name)  # type: ignore[no-any-return]


def refuse(instruction: Instruction, target: Target) -> NoReturn:
    """What a verdict of `NONE` means for everyone who asks."""
    raise InexactDeviceError(
        f"{instruction.key}: no form of this instruction gives exact results on {target.name}; "
        "use device='reference' or another device (`phobos-sim doctor` lists the probe's verdicts)"
    )


def emit_form(e: Builder, instruction: Instruction, form: str, *values: Value) -> Value:
    """The result of an instruction on operand codes, by the form named."""
    if form == NONE:
        refuse(instruction, e.target)
    absent = missing(instruction, form, e.target)
    if absent:
        names = " and ".join(FEATURE_NAMES[name] for name in absent)
        raise UnavailableError(
            f"{instruction.key}: {e.target.name} lacks {names}, which this instruction needs; "
            "use device='reference' or another device"
        )
    return function(instruction, form)(e, *values, **instruction.keywords)


def emit(e: Builder, instruction: Instruction, *values: Value) -> Value:
    """The result of an instruction on operand codes, by the form that the probe found (else the integer form)."""
    return emit_form(e, instruction, e.target.form_of(instruction.key), *values)


def use(e: Builder, key: str, *values: Value) -> Value:
    """`emit` for a part of a sequence."""
    return emit(e, isa.lookup(key), *values)
