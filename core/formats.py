"""Number formats: what a code of each width means, and the one place where each is rounded.

Every value in this package is an unsigned integer *code*. A `Format` says how wide the code is and, for floating
formats, where its fields are. Rounding and packing live here once per format, so the reference, the device code's
tests and the reports cannot disagree about what a format is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """One number format.

    bits: storage width of a code. kind: ``float``, ``signed``, ``unsigned`` or ``predicate``.
    exponent_bits, fraction_bits: field widths of a floating format (fraction without the hidden bit).
    ignored_bits: low bits of the storage word that the hardware does not read (tf32: 13).
    """

    name: str
    bits: int
    kind: str
    exponent_bits: int = 0
    fraction_bits: int = 0
    ignored_bits: int = 0

    def __post_init__(self) -> None:
        if self.kind == "float":
            total = 1 + self.exponent_bits + self.fraction_bits + self.ignored_bits
            assert total == self.bits, f"{self.name}: fields add up to {total}, storage has {self.bits} bits"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias

    @property
    def canonical_nan(self) -> int:
        """The one NaN that arithmetic produces: all ones but the sign."""
        return (1 << (self.bits - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << (self.fraction_bits + self.ignored_bits)

    @property
    def dtype(self) -> str:
        """Name of the numpy dtype that holds its codes: unsigned of the storage width, ``bool`` for predicates."""
        return "bool" if self.kind == "predicate" else f"uint{self.bits}"

    def __repr__(self) -> str:
        return self.name


F16 = Format("f16", 16, "float", 5, 10)
BF16 = Format("bf16", 16, "float", 8, 7)
TF32 = Format("tf32", 32, "float", 8, 10, 13)
F32 = Format("f32", 32, "float", 8, 23)
F64 = Format("f64", 64, "float", 11, 52)
S8 = Format("s8", 8, "signed")
U8 = Format("u8", 8, "unsigned")
S16 = Format("s16", 16, "signed")
S32 = Format("s32", 32, "signed")
U16 = Format("u16", 16, "unsigned")
U32 = Format("u32", 32, "unsigned")
S64 = Format("s64", 64, "signed")
PRED = Format("pred", 1, "predicate")

FORMATS = {f.name: f for f in (F16, BF16, TF32, F32, F64, S8, U8, S16, U16, S32, U32, S64, PRED)}
