"""Runs whole kernels for the test_kernels_* files: arguments of every type, all backends and forms compared.

`agree` is the check: a launch on `reference` decides, and every form of the Vulkan device must store the same codes in
every argument, read-only ones included.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import hard_inputs
import helpers
import numpy as np
import phobos_sim as sim
import pytest
from phobos_sim import arrays, isa
from phobos_sim.errors import Source, UsageError
from phobos_sim.formats import Format
from phobos_sim.gpu import probe
from phobos_sim.gpu.sm86.resolve import missing
from phobos_sim.gpu.target import Target
from phobos_sim.lang.kernel import Kernel
from phobos_sim.lang.load import parse_source
from phobos_sim.launch import Launch

KERNELS = Path(__file__).parent / "kernels"


def kernel_of(text: str, name: str = "k.ph") -> Kernel:
    """The last kernel of a source, in the spelling that the name's ending says."""
    source = Source(name, text)
    tree = parse_source(source)
    return Kernel.from_tree(list(tree.kernels)[-1], source, tree)


@functools.cache
def module(name: str) -> Any:
    """The kernels of core/tests/kernels/<name>.py (or .ph)."""
    return sim.load(KERNELS / (name if "." in name else f"{name}.py"))


# ---- arguments ---------------------------------------------------------------------------------------------------


def numbers(fmt: Format, shape: Sequence[int], seed: int = 0, kind: str = "plain") -> Any:
    """A typed array. kind: ``plain`` finite magnitudes of practice (integers: raw), ``small`` integers from -4 to 4,
    ``hard`` every class of `hard_inputs`, ``edge`` plain with a hard element in about every other row and column."""
    rng = np.random.default_rng([seed, *shape, *fmt.name.encode()])
    size = int(np.prod(shape, dtype=np.int64))
    hard = hard_inputs.column(rng, fmt, max(size, 1))[:size]
    if kind == "plain" and fmt.is_integer:
        codes = rng.integers(0, 1 << 63, size, dtype=np.uint64).astype(fmt.dtype)
    elif kind == "hard" or fmt.bits == 1:
        codes = hard
    elif kind == "small":
        codes = _codes(rng.integers(-4, 5, size), fmt)
    else:
        codes = _codes(rng.standard_normal(size) * np.exp2(rng.integers(-3, 4, size)), fmt)
        if kind == "edge":
            codes = np.where(rng.random(size) < 0.5 / max(shape, default=1), hard, codes)
    return arrays.typed(codes.reshape(shape), fmt)


def _codes(values: np.ndarray, fmt: Format) -> np.ndarray:
    if not fmt.is_float:
        return values.astype(np.int64).astype(fmt.dtype)
    empty = arrays.typed(np.zeros(0, fmt.dtype), fmt)
    return arrays.as_codes(values.astype(empty.dtype), where="test")[0]


def arguments(
    kernel: Any,
    dims: Mapping[str, int],
    *scalars: Any,
    constants: Mapping[str, int] | None = None,
    seed: int = 0,
    kind: str = "plain",
) -> list[Any]:
    """Arguments of a kernel in order: arrays by its declared types and these dims, then `scalars` where it has them."""
    program = kernel.program(constants)
    extents = {**program.constants, **dims}
    tensors = {t.name: t for t in program.tensors}
    rest, out = iter(scalars), []
    for i, name in enumerate(program.parameters):
        if name in tensors:
            shape = [d if isinstance(d, int) else extents[d] for d in tensors[name].dims]
            out.append(numbers(tensors[name].element, shape, seed + i, kind))
        else:
            out.append(next(rest))
    return out


def copies(args: Sequence[Any]) -> list[Any]:
    """Copies of the arrays; memory that is given twice stays one, also under two shapes."""
    made: dict[tuple[int, int], Any] = {}

    def copy(a: Any) -> Any:
        if not isinstance(a, np.ndarray) or a.size == 0:
            return a
        first = made.setdefault((a.ctypes.data, a.nbytes), a.copy())
        return first.reshape(a.shape)

    return [copy(a) for a in args]


# ---- the check ---------------------------------------------------------------------------------------------------


def forms(kernel: Any, constants: Mapping[str, int] | None = None) -> tuple[str | None, ...]:
    """The forms that differ for a kernel: `loops` only where an HMMA runs."""
    chains = {isa.lookup(c.instruction).family for c in kernel.program(constants).contractions()}
    return ("registers", "shared", "loops", None) if "tensor" in chains else ("registers", "shared", None)


def same(got: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    """Every array of a launch's arguments equals the expected one, which come in order; scalars are passed over."""
    arrays_got, arrays_expected = ([x for x in args if isinstance(x, np.ndarray)] for args in (got, expected))
    for position, (a, b) in enumerate(zip(arrays_got, arrays_expected, strict=True)):
        helpers.assert_codes(a, b, f"{what}, array {position}")


def reference(kernel: Any, grid: Any, args: Sequence[Any], **options: Any) -> list[Any]:
    """The arguments after a launch on `reference`; those given stay as they are."""
    after = copies(args)
    kernel.launch(grid, *after, device="reference", **options)
    return after


def agree(
    kernel: Any,
    grid: Any,
    args: Sequence[Any],
    *,
    constants: Mapping[str, int] | None = None,
    registers: bool = True,
    device: str | None = None,
    only: Sequence[str | None] | None = None,
    **options: Any,
) -> list[Any]:
    """The arguments after a launch on `reference`, which every form on the device must equal in every code.

    registers: whether form="registers" must take the kernel; where False it may refuse.
    """
    expected = reference(kernel, grid, args, constants=constants)
    name = device or helpers.llvmpipe()
    for form in only or forms(kernel, constants):
        try:
            launched, after = on_device(kernel, grid, args, name, form, constants=constants, **options)
        except UsageError as error:
            assert form == "registers" and not registers, error
            continue
        same(after, expected, f"{kernel.name} {dict(constants or {})} form {form} ({launched.notes[0]})")
    return expected


def on_device(
    kernel: Any, grid: Any, args: Sequence[Any], device: str, form: str | None = None, **options: Any
) -> tuple[Launch, list[Any]]:
    after = copies(args)
    return kernel.launch(grid, *after, device=device, form=form, **options), after


# ---- other facts, other layouts ------------------------------------------------------------------------------------


@contextmanager
def facts(**changes: Any) -> Iterator[None]:
    """Launches within see the device's target with these facts changed: a device that has less, or is of another kind.

    An instruction whose form takes a feature that is gone uses its integer form, as the probe would have found.
    """
    ask = probe.target_for

    def changed(*args: Any, **options: Any) -> Target:
        target = replace(ask(*args, **options), **changes)
        rows = {key: isa.lookup(key) for key in target.forms}
        gone = {key for key, row in rows.items() if not row.is_matrix and missing(row, target.forms[key], target)}
        return replace(target, forms={key: "integer" if key in gone else form for key, form in target.forms.items()})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "target_for", changed)
        yield


@contextmanager
def constants_of(changes: Mapping[str, Any]) -> Iterator[None]:
    """Modules of the package with other constants, "gpu.registers.HELD" and the like; no shader is kept across."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setattr(f"phobos_sim.{name}", value)
        patch.setattr("phobos_sim.gpu.run._shaders", OrderedDict())
        patch.setattr("phobos_sim.gpu.run._launches", OrderedDict())
        yield
