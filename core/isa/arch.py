"""Tensor-core parameters of each architecture, as data.

The rules R1 to R10 are the same for all of them (docs/adr/0003); only these numbers differ. sm_86 is the product's
target. Adding an architecture is adding a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from .instruction import Evidence, Instruction


@dataclass(frozen=True)
class Arch:
    """How one architecture groups, aligns and rounds an HMMA.

    fraction_bits: F, bits kept below the group's largest exponent. width16, width_k8, width_tf32: products per group
    for 16-bit operands, for 16-bit operands in k8 (and k4) shapes, and for tf32. width_tf32_k4: for the k4 tf32 form.
    floor_f32, floor_f16: lowest group exponent, for f32 and f16 results.
    """

    name: str
    capability: int
    fraction_bits: int
    width16: int
    width_k8: int
    width_tf32: int | None
    width_tf32_k4: int | None
    floor_f32: int
    floor_f16: int
    evidence: Evidence

    def __post_init__(self) -> None:
        assert self.width16 % self.width_k8 == 0 or self.width_k8 % self.width16 == 0, self
        assert self.floor_f32 == -126 - (self.fraction_bits - 18), (self.name, self.floor_f32)
        assert self.floor_f16 == -14 - (self.fraction_bits - 18), (self.name, self.floor_f16)

    def has(self, instruction: Instruction) -> bool:
        """Whether this architecture has the instruction at all."""
        return instruction.since <= self.capability <= instruction.until

    def width(self, operand: str, k: int) -> int:
        """Products per group of an HMMA with these operands and this k (rule R10 chains the groups)."""
        if operand == "tf32":
            width = self.width_tf32_k4 if k == 4 else self.width_tf32
        else:
            width = self.width16 if k == 16 else self.width_k8
        assert width is not None and k % min(width, k) == 0, (self.name, operand, k)
        return min(width, k)

    def floor(self, result: str) -> int:
        """Lowest group exponent (rule R4) for results of this format."""
        return self.floor_f16 if result == "f16" else self.floor_f32


def _arch(name: str, bits: int, w16: int, k8: int, tf32: int | None, tf32_k4: int | None, evidence: Evidence) -> Arch:
    floor = -(bits - 18)
    return Arch(name, int(name[3:]), bits, w16, k8, tf32, tf32_k4, floor - 126, floor - 14, evidence)


_SETS = "public set of github.com/north-numerical-computing/MATLAB-tensor-core"

# fmt: off
ARCHS: dict[str, Arch] = {
    arch.name: arch
    for arch in (
        _arch("sm_70", 23, 4, 4, None, None, Evidence("validated", f"{_SETS}, V100; its floors -131/-19 are assumed")),
        _arch("sm_75", 24, 8, 8, None, None, Evidence("derived", "published models only, no recording")),
        _arch("sm_80", 24, 8, 8, 4, 4, Evidence("validated", f"{_SETS}, A100")),
        _arch("sm_86", 24, 8, 8, 4, 4, Evidence(
            "validated", f"{_SETS}, A2: near-one inputs only; floor, specials and chains are published or derived")),
        _arch("sm_89", 24, 8, 8, 4, 4, Evidence("validated", f"{_SETS}, RTX 1000 Ada and L40S")),
        _arch("sm_90", 25, 16, 8, 8, 4, Evidence(
            "validated", f"{_SETS}, H100 and H200; raw random bits recorded on an H200 for this project")),
        _arch("sm_100", 25, 16, 8, 8, 4, Evidence(
            "validated", f"{_SETS}, B200; its tf32 set has 4 nonzero products, width 8 is published")),
    )
}
# fmt: on

SM86 = ARCHS["sm_86"]
