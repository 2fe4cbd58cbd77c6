"""Tensor-core rows: HMMA and IMMA.

HMMA rules R1 to R10 and the numbers per architecture: design.md 4.1, `isa.arch`. IMMA is exact, wraps at 32 bits, and
.SAT clamps the exact sum. A row's options name its formats and its k; the architecture comes at execution.
"""

# A table: one row, one line where it fits.
# fmt: off
from __future__ import annotations

from .instruction import Evidence, Instruction, MmaShape
from .rows import MMA_SET, row

_RULES = "groups of exact products aligned to the largest exponent, truncated, summed exactly, chained along k"


def _hmma(
    key: str, operand: str, result: str, m: int, n: int, k: int, since: int = 80, until: int = 999
) -> Instruction:
    end = "truncated to f32" if result == "f32" else "rounded to nearest even to f16"
    # The A2 set holds one group of 8 (tf32: 4) near-one products per result.
    a2 = (k == 8 and operand != "tf32") or k == 4
    sm86 = (
        Evidence("validated", "public A2 set, all equal; near-one inputs, other rules derived")
        if a2
        else Evidence("derived", "the recorded group of the A2 set, chained by the published rules")
    )
    sm90 = Evidence("validated", f"{MMA_SET}; public H100 and H200 sets")
    evidence = {"sm_70": Evidence("validated", "public V100 set, all equal")} if until < 75 else {
        "sm_86": sm86, "sm_90": sm90}
    layout = f"m{m}n{n}k{k}.row.col.{result}.{operand}.{operand}.{result}"
    return row(key, "tensor.hmma", f"{operand} {operand} {result} -> {result}", f"a b + c: {_RULES}, each {end}",
               ptx=f"mma.sync.aligned.{layout}", evidence=evidence, shape=MmaShape(m, n, k), since=since, until=until,
               operand=operand, result=result, k=k)


def _imma(shape: MmaShape, a: str, b: str, saturate: bool) -> Instruction:
    name = f"{shape.m}{shape.n}{shape.k}" if shape.m > 8 else f"8{shape.n}{shape.k}"
    key = f"IMMA.{name}.{a.upper()}.{b.upper()}" + (".SAT" if saturate else "")
    recorded = key in ("IMMA.8816.S8.S8", "IMMA.16832.S8.S8", "IMMA.16832.U8.S8", "IMMA.16832.S8.S8.SAT")
    evidence = {
        "sm_86": Evidence("derived", "exact integer arithmetic"),
        "sm_90": Evidence("validated", MMA_SET) if recorded else Evidence("derived", "exact integer arithmetic"),
    }
    end = "the exact sum clamped to s32" if saturate else "wrapped at 32 bits"
    layout = f"m{shape.m}n{shape.n}k{shape.k}.row.col{'.satfinite' if saturate else ''}.s32.{a}.{b}.s32"
    return row(key, "integer_tensor.imma", f"{a} {b} s32 -> s32", f"a b + c, {end}", ptx=f"mma.sync.aligned.{layout}",
               evidence=evidence, shape=shape, since=75 if shape.m == 8 else 80,
               a_signed=a == "s8", b_signed=b == "s8", saturate=saturate)


ROWS: tuple[Instruction, ...] = (
    _hmma("HMMA.16816.F32", "f16", "f32", 16, 8, 16),
    _hmma("HMMA.16816.F16", "f16", "f16", 16, 8, 16),
    _hmma("HMMA.1688.F32", "f16", "f32", 16, 8, 8, since=75),
    _hmma("HMMA.1688.F16", "f16", "f16", 16, 8, 8, since=75),
    _hmma("HMMA.16816.F32.BF16", "bf16", "f32", 16, 8, 16),
    _hmma("HMMA.1688.F32.BF16", "bf16", "f32", 16, 8, 8),
    _hmma("HMMA.1688.F32.TF32", "tf32", "f32", 16, 8, 8),
    _hmma("HMMA.1684.F32.TF32", "tf32", "f32", 16, 8, 4),
    _hmma("HMMA.884.F32", "f16", "f32", 8, 8, 4, since=70, until=70),
    _hmma("HMMA.884.F16", "f16", "f16", 8, 8, 4, since=70, until=70),
    *(
        _imma(shape, a, b, saturate)
        for shape in (MmaShape(8, 8, 16), MmaShape(16, 8, 16), MmaShape(16, 8, 32))
        for a in ("s8", "u8")
        for b in ("s8", "u8")
        for saturate in (False, True)
    ),
)
