"""What a driver's compiler makes of a shader: seconds, and the statistics that it tells. For benchmarks; nothing runs.

1. VK_KHR_pipeline_executable_properties gives each compiled executable's figures under the driver's own names (Intel's:
   instruction count, loops, spills, fills). A driver without it (lavapipe 22.3) gives none.
2. The pipeline is made without any cache of ours, and the module's generator word, which means nothing, is counted up,
   so that a driver's own cache has not seen it: the seconds are a compilation's. lavapipe compiles at the first
   dispatch instead, which this module does not see.
3. A compiler can be asked where nothing can run: Intel's driver on a shim fails the smoke dispatch that `open_device`
   makes, AMD's with RADV_FORCE_FAMILY cannot even make a fence. So `compiler` opens a device without a queue.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from .. import isa
from ..errors import UnavailableError
from . import device as devices
from . import probe_matrix, sm86
from .sm86.resolve import missing
from .target import Target
from .vulkan import Filled

if TYPE_CHECKING:
    from .device import Device

FEATURE = "pipelineExecutableInfo"
_generators = itertools.count(1)
_UNIONS = {0: "b32", 1: "i64", 2: "u64", 3: "f64"}  # VkPipelineExecutableStatisticFormatKHR


@dataclass(frozen=True)
class Executable:
    """One piece of machine code of a pipeline: the driver's name for it, its subgroup size, its figures by name."""

    name: str
    subgroup_size: int
    figures: dict[str, int | float | bool]


@dataclass(frozen=True)
class Statistics:
    """What vkCreateComputePipelines took. executables: empty where the driver tells nothing.

    cpu_seconds: of this process; on a busy machine they tell more than `seconds`.
    """

    seconds: float
    cpu_seconds: float
    executables: tuple[Executable, ...]

    def largest(self, part: str) -> float | None:
        """The largest figure whose name has `part` in it, whatever the case; None where there is none."""
        found = [v for e in self.executables for name, v in e.figures.items() if part.lower() in name.lower()]
        return max(found, default=None)


class _Compiler(devices.Device):
    """A device without what it takes to run anything."""

    def _start(self) -> None:
        """Nothing."""

    def _stop(self) -> None:
        """Nothing was started."""


@contextmanager
def compiler(name: str) -> Iterator[Device]:
    """A device that is only asked to compile: it has no queue and no memory; closed at the end.

    Errors: as `open_device`, for what the loader does not list.
    """
    _, _, part = name.partition(":")
    known = devices.all_devices()
    if not known:
        raise UnavailableError("the Vulkan loader reports no device")
    info = devices._pick(known, part.strip() or "0")
    device = _Compiler(info, devices._load().physical[info.index][1])
    try:
        yield device
    finally:
        device.close()


def assumed_target(device: Device) -> Target:
    """The target with every row in its first form for which the device has the features: no probe can run here."""
    forms = {}
    for row in isa.INSTRUCTIONS:
        if row.is_matrix:
            forms[row.key] = probe_matrix.candidates(row)[0]
            continue
        usable = [form for form in sm86.candidates(row) if not missing(row, form, device.target)]
        if usable:
            forms[row.key] = usable[0]
    return replace(device.target, forms=forms)


def compile_statistics(
    device: Device, spirv: bytes, bindings: int, push_words: int = 0, subgroup_size: int | None = None
) -> Statistics:
    """Compiles a module once more, uncached, and asks for its statistics; arguments as `Device.pipeline`."""
    vk, pipelines = device.vk, device.pipelines
    layout = pipelines.layout(bindings, push_words)
    told = FEATURE in device.info.features
    flags = vk.VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR if told else 0
    fresh = spirv[:8] + next(_generators).to_bytes(4, "little") + spirv[12:]
    start, busy = perf_counter(), process_time()
    handle = pipelines.create(fresh, layout, subgroup_size, vk.null, flags)
    seconds, busy = perf_counter() - start, process_time() - busy
    try:
        return Statistics(seconds, busy, tuple(_executables(device, handle)) if told else ())
    finally:
        vk.vkDestroyPipeline(device.handle, handle, vk.null)


def _function(device: Device, name: str) -> Any:
    """A function of a device extension."""
    vk = device.vk
    address = vk.vkGetDeviceProcAddr(device.handle, vk.ffi.new("char[]", name.encode()))
    if address == vk.null:
        raise UnavailableError(f"{device.name} has no {name}")
    return vk.ffi.cast("PFN_" + name, address)


def _executables(device: Device, handle: Any) -> Iterator[Executable]:
    vk = device.vk
    info = vk.make("VkPipelineInfoKHR", pipeline=handle)
    properties = _all(device, "vkGetPipelineExecutablePropertiesKHR", "VkPipelineExecutablePropertiesKHR", info)
    for i, found in enumerate(properties):
        which = vk.make("VkPipelineExecutableInfoKHR", pipeline=handle, executableIndex=i)
        figures = _all(device, "vkGetPipelineExecutableStatisticsKHR", "VkPipelineExecutableStatisticKHR", which)
        values = {vk.text(f.name): getattr(f.value, _UNIONS[int(f.format)]) for f in figures}
        yield Executable(vk.text(found.name), int(found.subgroupSize), values)


def _all(device: Device, name: str, item: str, info: Any) -> Filled:
    """What a two-call enumeration of an extension fills."""
    vk, function = device.vk, _function(device, name)
    count = vk.ffi.new("uint32_t*")
    function(device.handle, info, count, vk.null)
    array = vk.ffi.new(item + "[]", max(1, count[0]))
    kind = {
        "VkPipelineExecutablePropertiesKHR": vk.VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR,
        "VkPipelineExecutableStatisticKHR": vk.VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR,
    }[item]
    for i in range(count[0]):
        array[i].sType = kind
    result = function(device.handle, info, count, array)
    if result < 0:
        vk.fail(name, result)
    return Filled(array, count[0])
