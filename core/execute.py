"""`sim.execute`: one instruction on batches of codes or arrays, on the reference or a Vulkan device.

Rules (design.md 10)
 1. Unsigned codes in give unsigned codes of the natural width out; wider words are taken if their high bits are 0.
 2. Typed arrays (float16, bfloat16, int32, ...) in give typed arrays out; a mixture of both is an error.
 3. Matrix operands are a [t, m, k], b [t, k, n], c [t, m, n] with the instruction's k and any m and n; the operands of
    other instructions have one shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import arrays, choose, isa
from .errors import UsageError
from .formats import F32, TF32, U32, U64, Codes, Format, dtype_of
from .isa import Arch, Instruction


def execute(
    name: str,
    *operands: Any,
    arch: str = "sm_86",
    device: str | None = None,
    instructions: str | None = None,
) -> Any:
    """Executes an instruction by SASS mnemonic or PTX spelling: ``execute("FFMA", a, b, c)``.

    operands: numpy, ml_dtypes or torch arrays of the operand types, or unsigned codes. arch: whose instruction it is
    (matrix instructions differ). device: ``reference``, ``vulkan``, ... (`sim.use`). instructions: None, ``native`` or
    ``integer``, on a Vulkan device. Raises UsageError for names, shapes or types that do not fit, UnavailableError for
    a device that is not there.
    """
    instruction = find(name, arch)
    codes, result, like = _codes(instruction, operands)
    if instructions not in (None, "native", "integer"):
        raise UsageError(f"{name}: unknown instructions={instructions!r}; choose None, 'native' or 'integer'")
    _check_shapes(instruction, codes)
    out = _run(instruction, codes, isa.ARCHS[arch], device, instructions)
    return out if like is None else arrays.typed(out, result, like=like)


def find(name: str, arch: str = "sm_86") -> Instruction:
    """The row of a name on an architecture; UsageError if there is none."""
    if not isinstance(arch, str) or arch not in isa.ARCHS:
        raise UsageError(f"unknown arch {arch!r}; known are {', '.join(isa.ARCHS)}")
    if not isinstance(name, str):
        raise UsageError(f"an instruction is named by a string such as 'FFMA', found {name!r}")
    try:
        instruction = isa.lookup(name)
    except isa.UnknownInstruction as fault:
        raise UsageError(str(fault)) from None
    if not isa.ARCHS[arch].has(instruction):
        last = f" up to sm_{instruction.until}" if instruction.until < 999 else ""
        raise UsageError(f"{name} is no instruction of {arch}; it is there from sm_{instruction.since} on{last}")
    return instruction


def _run(
    instruction: Instruction, codes: list[Codes], arch: Arch, device: str | None, instructions: str | None
) -> Codes:
    chosen = choose.resolve(device)
    if chosen is not None:
        from .gpu.execute import execute as on_device

        return on_device(instruction, codes, arch, chosen, instructions)
    if instructions is not None:
        raise UsageError(f"instructions={instructions!r} is a choice of shaders; the reference backend has none")
    from .reference import execute as reference

    if instruction.is_matrix:
        a, b, c = codes
        return reference.mma(instruction, a, b, c, arch)
    return reference.apply(instruction, *codes)


# --- operands ------------------------------------------------------------------------------------------------------


def _codes(instruction: Instruction, operands: tuple[Any, ...]) -> tuple[list[Codes], Format, Any]:
    """(codes per operand, result format, an example of the typed operands or None where codes came in)."""
    arity = len(instruction.operands)
    if len(operands) != arity:
        raise UsageError(f"{instruction.key} takes {arity} operands, found {len(operands)}")
    read = [_read(instruction, i, operand) for i, operand in enumerate(operands)]
    any_format = next((found for (_, found), wanted in zip(read, instruction.operands) if wanted is None), U32)
    formats = [any_format if wanted is None else wanted for wanted in instruction.operands]
    kinds = [_kind(found, wanted) for (_, found), wanted in zip(read, formats)]
    if "wrong" in kinds or {"typed", "codes"} <= set(kinds):
        found = ", ".join(fmt.name for _, fmt in read)
        wanted = ", ".join(fmt.name for fmt in formats)
        what = "other types" if "wrong" in kinds else "a mixture of values and codes"
        raise UsageError(f"{instruction.key} takes {wanted}, or unsigned codes of all of them; found {what}: {found}")
    like = next((operand for operand, kind in zip(operands, kinds) if kind == "typed"), None)
    codes = [_narrowed(instruction, i, c, fmt) for i, ((c, _), fmt) in enumerate(zip(read, formats))]
    return codes, instruction.result or any_format, like


def _read(instruction: Instruction, position: int, operand: Any) -> tuple[Codes, Format]:
    """(codes, format of the operand's own dtype). Python integers, alone or in lists, are unsigned codes."""
    where = f"operand {position + 1} of {instruction.key}"
    if isinstance(operand, list | tuple) or (isinstance(operand, int) and not isinstance(operand, bool)):
        numbers = np.array(operand, object)
        if not all(isinstance(x, int | np.integer) and 0 <= x < 1 << 64 for x in numbers.flat):
            raise UsageError(f"{where}: numbers and lists are taken for unsigned codes, found {operand!r}")
        return numbers.astype(np.uint64), U64
    return arrays.as_codes(operand, where=where)


def _kind(found: Format, wanted: Format) -> str:
    """``typed``, ``codes``, ``either`` (an unsigned array of an unsigned operand is both) or ``wrong``."""
    if found == wanted:
        return "typed" if found.is_float or found.kind == "signed" else "either"
    if found == F32 and wanted == TF32:
        return "typed"
    return "codes" if found.kind == "unsigned" and wanted.kind != "predicate" else "wrong"


def _narrowed(instruction: Instruction, position: int, codes: Codes, fmt: Format) -> Codes:
    """Codes in the operand's natural width; UsageError where a wider word has high bits or a narrower one comes."""
    natural = dtype_of(fmt)
    where = f"operand {position + 1} of {instruction.key}"
    if codes.dtype.itemsize < natural.itemsize:
        raise UsageError(f"{where}: codes of {fmt.name} have {fmt.bits} bits, found {codes.dtype}")
    if codes.dtype.itemsize > natural.itemsize and codes.size and int(codes.max()) >> fmt.bits:
        raise UsageError(f"{where}: code {int(codes.max()):#x} does not fit {fmt.name} ({fmt.bits} bits)")
    return codes.astype(natural, copy=False)


def _check_shapes(instruction: Instruction, codes: list[Codes]) -> None:
    shapes = [c.shape for c in codes]
    if instruction.shape is None:
        if len(set(shapes)) != 1:
            raise UsageError(f"{instruction.key}: operands need one shape, found {', '.join(map(str, shapes))}")
        return
    k = instruction.shape.k
    a, b, c = shapes
    if not all(len(s) == 3 for s in shapes) or a != (c[0], c[1], k) or b != (c[0], k, c[2]):
        raise UsageError(
            f"{instruction.key} takes a [t, m, {k}], b [t, {k}, n], c [t, m, n]; found a {a}, b {b}, c {c}"
        )
