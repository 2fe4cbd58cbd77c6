"""What a device can do, as the emitters need to know it: facts, limits and the probe's verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

# Accumulators per invocation that a GPU's compiler keeps in registers. Where subgroups may be narrower than 32, lanes
# share one small register file (Intel: 4 KiB for 8 to 32 lanes); an integrated GPU is given no more (docs/adr/0007).
GPU_ACCUMULATORS, NARROW_ACCUMULATORS = 16, 8
WIDE_SUBGROUP = 32


class Offer(NamedTuple):
    """One cooperative-matrix multiply-add: a [m, k] times b [k, n] plus c [m, n], and the formats' names."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    saturates: bool = False


@dataclass(frozen=True)
class Target:
    """Facts of one device and driver.

    truncates_f64: whether a shader can ask that its f64 arithmetic rounds toward zero, and no other. double_dots:
        whether dots of f16 are to make use of that (`measure.prefers_double`).
    denorm_preserve: whether a shader can ask that 32-bit subnormals are kept; every shader then does.
    forms: the probe's verdict, instruction key -> name of the fastest emitter form that gave exact results
        (``native``, ``double``, ... or ``integer``); an instruction that is not in it uses its integer form.
    subgroup_sizes: the narrowest and the widest that a shader may be compiled for; a shader can demand one of them
        where `required_subgroup_size`. max_subgroups: of one workgroup that does.
    inexact, offers, proven: `mode="cooperative"` alone sets these: float contractions need not be exact, and may go
        through these shapes of the device's matrix unit, which was found to be exact for these rows (`cooperative`).
    loop_budget: loop trips that one invocation may make in all (lavapipe: 65,535), or None.
    """

    name: str = "none"
    kind: str = "cpu"  # cpu, integrated, discrete, virtual
    subgroup_size: int = 1
    subgroup_shuffle: bool = False
    required_subgroup_size: bool = False
    subgroup_sizes: tuple[int, int] = (1, 1)
    max_subgroups: int = 1 << 16
    max_invocations: int = 128
    shared_bytes: int = 16384
    max_buffer_bytes: int = 1 << 27
    max_groups: tuple[int, int, int] = (65535, 65535, 65535)
    int64: bool = False
    float64: bool = False
    float16: bool = False
    int16: bool = False
    int8: bool = False
    storage16: bool = False
    storage8: bool = False
    fused_fma: bool = False
    denorm_preserve: bool = False
    truncates_f64: bool = False
    double_dots: bool = False
    loop_budget: int | None = None
    inexact: bool = False
    offers: frozenset[Offer] = frozenset()
    proven: frozenset[str] = frozenset()
    forms: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def is_narrow(self) -> bool:
        """Whether few registers of an invocation are to be counted on."""
        return not self.is_cpu and (self.kind == "integrated" or 1 < self.subgroup_sizes[0] < WIDE_SUBGROUP)

    @property
    def accumulators(self) -> int:
        """Accumulators per invocation that a GPU keeps in registers (on a CPU device that is a matter of the core)."""
        return NARROW_ACCUMULATORS if self.is_narrow else GPU_ACCUMULATORS

    @property
    def lanes(self) -> int:
        """Lanes of a unit of work: the narrowest subgroup, which leaves each lane most registers, where it pays."""
        return self.subgroup_sizes[0] if self.is_narrow and self.required_subgroup_size else self.subgroup_size

    def form_of(self, key: str) -> str:
        return self.forms.get(key, "integer")
