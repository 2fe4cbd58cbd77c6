"""Names that the language gives a meaning to: builtins, conversions, attributes, and what a later stage will bring.

Rules
 1. Builtins and signatures: phobos-language.md E.1 and E.2.
 2. Names that need per-thread execution are known, so that meeting one is a clear error (design.md 5).
 3. Builtins that version 0.2 of the language removed are known for the same reason (E.3).
"""

from __future__ import annotations

from dataclasses import dataclass

from .syntax import SCALARS

LATER_STAGE = 'the "per-thread language" stage'


@dataclass(frozen=True)
class Builtin:
    """One builtin: its signature as a user writes it and how many arguments it takes."""

    signature: str
    arity: int
    meaning: str

    @property
    def name(self) -> str:
        return self.signature.partition("(")[0]


_ROWS = (
    Builtin("dot(a, b)", 2, "[M, K] x [K, N] -> [M, N]"),
    Builtin("dot_t(a, b)", 2, "[M, K] x [N, K] -> [M, N]"),
    Builtin("exp(t)", 1, "e to the t, by MUFU.EX2"),
    Builtin("log(t)", 1, "natural logarithm, by MUFU.LG2"),
    Builtin("sqrt(t)", 1, "square root, by MUFU.SQRT"),
    Builtin("tanh(t)", 1, "hyperbolic tangent, by MUFU.TANH"),
    Builtin("round(t)", 1, "nearest integer, ties to even"),
    Builtin("pow(a, b)", 2, "ex2(b * lg2(a))"),
    Builtin("tmax(a, b)", 2, "a > b ? a : b"),
    Builtin("where(c, a, b)", 3, "c ? a : b"),
    Builtin("argsel(va, vb, ia, ib)", 4, "va >= vb ? ia : ib"),
    Builtin("rowmax(t)", 1, "[R, C] -> [R, 1]"),
    Builtin("rowsum(t)", 1, "[R, C] -> [R, 1]"),
    Builtin("rowargmax(t)", 1, "[R, C] -> i32 [R, 1]"),
    Builtin("cumsum(t)", 1, "prefix sums down the rows"),
    Builtin("tril(t)", 1, "keeps column <= row, else 0"),
    Builtin("transpose(t)", 1, "[R, C] -> [C, R]"),
    Builtin("flat(t)", 1, "[R, C] -> [1, R*C]"),
    Builtin("iota(n)", 1, "i32 [1, n]: 0, 1, ... n-1"),
    Builtin("gather(table, index)", 2, "table's elements at the indices"),
    Builtin("extent(x, d)", 2, "run-time extent of axis d"),
    Builtin("program_id(d)", 1, "older spelling of ctx.block"),
    Builtin("grid_barrier(bar)", 1, "every CTA waits for all others"),
    Builtin("barrier()", 0, "the CTA's barrier"),
    *(Builtin(f"{name}(x)", 1, f"conversion to {name}") for name in SCALARS if name != "bool"),
)

BUILTINS: dict[str, Builtin] = {row.name: row for row in _ROWS}

_SHUFFLES = "shfl shfl_xor shfl_up shfl_down shfl_idx ballot any all"
_COLLECTIVES = "warp_sum warp_max warp_partial cta_sum cta_max sum"
_PARTS = "elem store word byteperm popcount f16bits bytemask generate atomic_add atomic_cas"
PER_THREAD = frozenset(f"{_SHUFFLES} {_COLLECTIVES} {_PARTS}".split(" "))
PER_THREAD_CONTEXT = frozenset({"thread", "warp", "lane"})

REMOVED = frozenset({"qdot_t", "qmma_t", "rms_norm_q_t"})

ATTRIBUTES: dict[str, str] = {
    "launch": "@launch(threads[, minBlocks[, maxRegs]])",
    "autotune": "@autotune(NAME in [values], ...)",
    "aligned": "@aligned(DIM = multiple, ...)",
    "tensorcore": "@tensorcore, @tensorcore(sync), @tensorcore(wmma)",
    "pipeline": "@pipeline",
    "cluster": "@cluster(NAME in [values], ...)",
    "dynshared": "@dynshared",
    "persistent": "@persistent",
    "padstage": "@padstage",
    "registers": "@registers",
    "swizzle": "@swizzle",
    "key": "@key(NAME, ...)",
}

_KEYWORDS = "kernel let var if else for in while true false fn return break continue"
KEYWORDS = frozenset(_KEYWORDS.split(" "))
