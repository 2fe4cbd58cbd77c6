"""What a caller says a launch must store (`launch(..., expected=...)`), and how outputs differ from it.

Rules
 1. `expected` is a mapping from names of outputs, a list or tuple with one array per output in the order of the
    parameters, or the array of the only output. An output that a mapping leaves out may be anything.
 2. Codes are compared, never values, and element type and shape must be the tensor's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays
from .compare import compare
from .errors import DifferenceError, UsageError
from .formats import Codes

if TYPE_CHECKING:
    from .binding import Bound
    from .tile.program import Program


def outputs_of(program: Program) -> tuple[str, ...]:
    """The written tensors in the order of the parameters."""
    written = program.written()
    return tuple(name for name in program.parameters if name in written)


def read(bound: Bound, expected: Any) -> dict[str, Codes]:
    """Codes by name of output. Raises UsageError for what does not fit the kernel's outputs."""
    program = bound.program
    names = outputs_of(program)
    listed = ", ".join(names) or "nothing"
    if isinstance(expected, Mapping):
        for name in expected:
            if name not in names:
                raise UsageError(f"expected: kernel {program.name} does not write {name!r}; it writes {listed}")
        given = dict(expected)
    elif isinstance(expected, list | tuple):
        if len(expected) != len(names):
            raise UsageError(
                f"expected: kernel {program.name} writes {len(names)} arrays ({listed}), found {len(expected)}"
            )
        given = dict(zip(names, expected, strict=True))
    elif len(names) == 1:
        given = {names[0]: expected}
    else:
        raise UsageError(f"expected: kernel {program.name} writes {listed}; give a mapping by name, or a list")
    return {name: _codes(bound, name, array) for name, array in given.items()}


def _codes(bound: Bound, name: str, array: Any) -> Codes:
    codes, found = arrays.as_codes(array, where=f"expected {name}")
    element = bound.program.tensor(name).element
    if found != element and not (found.name == "f32" and element.name == "tf32"):
        raise UsageError(f"expected {name}: the kernel stores {element.name}, found {found.name}")
    shape = bound.tensors[name].shape
    if codes.shape != shape:
        raise UsageError(f"expected {name}: the output's shape is {shape}, found {codes.shape}")
    return codes


def differences(wanted: Mapping[str, Codes], outputs: Mapping[str, Codes], bound: Bound) -> str:
    """What differs, an output after the other, or an empty string where every code is the wanted one."""
    found = []
    for name, codes in wanted.items():
        if np.array_equal(codes, outputs[name]):
            continue
        result = compare(outputs[name], codes, bound.program.tensor(name).element)
        first = result.first
        assert first is not None
        place = ", ".join(str(int(i)) for i in np.unravel_index(first.index, codes.shape))
        ulp = f", {first.ulp} ulp" if first.ulp is not None and first.kind == "value" else ""
        found.append(
            f"{name}: {result.total - result.equal} of {result.total} codes differ, first [{place}]: "
            f"{first.actual:0{first.digits}x}, expected {first.expected:0{first.digits}x} ({first.kind}{ulp})"
        )
    return "; ".join(found)


def check(wanted: Mapping[str, Codes], outputs: Mapping[str, Codes], bound: Bound) -> None:
    """DifferenceError where an output is not what was wanted."""
    found = differences(wanted, outputs, bound)
    if found:
        raise DifferenceError(
            f"kernel {bound.program.name} does not store what `expected` says ({found}); nothing was written"
        )
