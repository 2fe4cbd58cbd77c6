"""Runs one row of the instruction table on codes: resolves its family and function and applies its options."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module

import numpy as np

from ..formats import Codes
from ..isa import SM86, Arch, Instruction
from . import integer_tensor, tensor

#: Elements that are worked on at once: the int64 temporaries then stay in a core's caches.
BLOCK = 1 << 14

# glibc hands every block above 128 KiB back to the system and fetches it anew, page by page, which doubles the time of
# the temporaries here. Freeing one large block (never touched) once raises that limit for the process.
_released = np.empty(1 << 24, np.uint8)
del _released


@cache
def function(instruction: Instruction) -> Callable[..., Codes]:
    """The numpy twin of a row."""
    module = import_module(f".{instruction.family}", __package__)
    return getattr(module, instruction.function)  # type: ignore[no-any-return]


def apply(instruction: Instruction, *codes: Codes) -> Codes:
    """An elementwise instruction on operand codes that broadcast; the result has the broadcast shape."""
    twin, keywords = function(instruction), instruction.keywords
    shapes = {np.shape(c) for c in codes}
    if shapes == {()}:  # one element: numpy's scalars would warn where arrays wrap
        return twin(*(np.reshape(c, 1) for c in codes), **keywords).reshape(())
    shape = np.broadcast_shapes(*shapes)
    size = math.prod(shape)
    if size <= 2 * BLOCK:
        return twin(*(np.asarray(c) for c in codes), **keywords)
    flat = [c if np.ndim(c) == 0 else np.broadcast_to(c, shape).reshape(-1) for c in codes]
    parts = [
        twin(*(c if np.ndim(c) == 0 else c[start : start + BLOCK] for c in flat), **keywords)
        for start in range(0, size, BLOCK)
    ]
    return np.concatenate(parts).reshape(shape)


def mma(instruction: Instruction, a: Codes, b: Codes, c: Codes, arch: Arch = SM86) -> Codes:
    """Batches of a matrix instruction: a [t, m, k], b [t, k, n], c [t, m, n] -> [t, m, n]."""
    keywords = {"arch": arch} if instruction.family == "tensor" else {}
    return function(instruction)(a, b, c, **keywords, **instruction.keywords)


def chain(instruction: Instruction, a: Codes, b: Codes, seed: Codes, arch: Arch = SM86) -> Codes:
    """A contraction: out[i, j] is the instruction's chain over ascending k, started from seed[i, j].

    a [M, K], b [K, N], seed [M, N]. Multiply-adds take one k a step, IDP.4A four, matrix instructions their own k;
    K is a multiple of the step.
    """
    if instruction.family == "tensor":
        return tensor.hmma_chain(a, b, seed, arch=arch, **instruction.keywords)  # type: ignore[arg-type]
    if instruction.family == "integer_tensor":
        assert instruction.shape is not None
        return integer_tensor.imma_chain(a, b, seed, k=instruction.shape.k, **instruction.keywords)  # type: ignore[arg-type]
    if instruction.function == "idp4a":
        return integer_tensor.imma_chain(a, b, seed, k=4, saturate=False, **instruction.keywords)  # type: ignore[arg-type]
    twin, keywords = function(instruction), instruction.keywords
    out = np.array(seed)
    rows = max(1, BLOCK // max(1, b.shape[1]))
    for m in range(0, len(out), rows):
        part = out[m : m + rows]
        for k in range(a.shape[1]):
            part = twin(a[m : m + rows, k, None], b[k], part, **keywords)
        out[m : m + rows] = part
    return out
