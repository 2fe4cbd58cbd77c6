"""What a device can do, as the emitters need to know it: facts, limits and the probe's verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """Facts of one device and driver.

    denorm_preserve: whether a shader can ask that 32-bit subnormals are kept; every shader then does.
    forms: the probe's verdict, instruction key -> name of the fastest emitter form that gave exact results
        (``native``, ``double``, ... or ``integer``); an instruction that is not in it uses its integer form.
    loop_budget: loop trips that one invocation may make in all (lavapipe: 65,535), or None.
    """

    name: str = "none"
    kind: str = "cpu"  # cpu, integrated, discrete, virtual
    subgroup_size: int = 1
    subgroup_shuffle: bool = False
    required_subgroup_size: bool = False
    max_invocations: int = 128
    shared_bytes: int = 16384
    max_buffer_bytes: int = 1 << 27
    max_groups: tuple[int, int, int] = (65535, 65535, 65535)
    int64: bool = False
    float64: bool = False
    int16: bool = False
    int8: bool = False
    storage16: bool = False
    storage8: bool = False
    fused_fma: bool = False
    denorm_preserve: bool = False
    loop_budget: int | None = None
    forms: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    def form_of(self, key: str) -> str:
        return self.forms.get(key, "integer")
