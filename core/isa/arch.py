"""Tensor-core parameters of each architecture, as data.

The rules R1 to R10 are the same for all of them (docs/adr/0003); only these numbers differ. sm_86 is the product's
target. Adding an architecture is adding a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from .instruction import Evidence


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
