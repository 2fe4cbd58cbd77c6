"""A recorder through Vulkan alone: the matrix rows that a device offers by VK_KHR_cooperative_matrix.

Rules
 1. A row is recorded where the device offers its exact shape and types at subgroup scope. The driver chooses the
    instruction; on NVIDIA that is the one mma.sync of that shape names, which recordings of one card both ways show.
 2. Vulkan does not say which architecture a device is: the CUDA driver is asked where it is there, else the user.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import RecordingError, UnavailableError, UsageError
from ...formats import Format
from ...gpu.device import Device, open_device
from ...gpu.physical import DeviceInfo
from ...gpu.vulkan import api
from ...isa import Instruction
from .cooperative_spirv import tile_module
from .plan import Job

_EXTENSION = "VK_KHR_cooperative_matrix"
#: VkComponentTypeKHR
_COMPONENTS = {"f16": 0, "f32": 1, "s8": 3, "s32": 5, "u8": 7}
_SCOPE_SUBGROUP = 3

Offer = tuple[int, int, int, int, int, int, bool]


class CooperativeDevice(Device):
    """An open device with cooperative matrices and the Vulkan memory model enabled."""

    def __init__(self, info: DeviceInfo, physical: Any) -> None:
        vk = api()
        memory = vk.make("VkPhysicalDeviceVulkanMemoryModelFeatures", vulkanMemoryModel=1)
        matrix = vk.make("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", cooperativeMatrix=1, pNext=memory)
        self._extra = matrix
        super().__init__(info, physical)

    def wanted_features(self) -> tuple[Any, list[str]]:
        """Those of every device, and the two this recorder needs."""
        vk = self.vk
        features, extensions = super().wanted_features()
        tail = features
        while tail.pNext != vk.ffi.NULL:
            tail = vk.ffi.cast("VkBaseOutStructure*", tail.pNext)
        tail.pNext = vk.ffi.cast("void*" if tail is features else "VkBaseOutStructure*", self._extra)
        return features, [*extensions, _EXTENSION]


class VulkanRecorder:
    """Runs matrix jobs as cooperative-matrix multiply-adds. Use as a context manager.

    capability: of the device, where the CUDA driver cannot be asked.
    """

    def __init__(self, device: str | int = 0, capability: int | None = None) -> None:
        plain = open_device(f"vulkan:{device}")
        info, physical = plain.info, plain.physical
        if _EXTENSION not in info.extensions:
            raise UnavailableError(f"{info.name} has no {_EXTENSION}; record with --via cuda, or on a newer driver")
        self.offers = offers(physical)
        self.name = info.name
        self.driver_version = f"{info.driver_name} {info.driver_info} (Vulkan)"
        self.capability = capability if capability is not None else _capability(info.name)
        self.device = CooperativeDevice(info, physical)

    def __enter__(self) -> VulkanRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.device.close()

    def supports(self, job: Job) -> str:
        """Empty, or why the device cannot run the job."""
        if job.kind != "matrix":
            return "Vulkan offers matrix rows only"
        wanted = offer_of(job.row)
        if wanted is None or wanted not in self.offers:
            return f"{self.name} offers no cooperative matrix of this shape and these types"
        return ""

    def run(self, job: Job) -> np.ndarray:
        """Output codes of a matrix job."""
        a, b, c = (np.ascontiguousarray(operand) for operand in job.inputs.values())
        buffers = [self.device.buffer(array) for array in (a, b, c, ~c)]
        try:
            pipeline = self.device.pipeline(tile_module(job.row), 4, 0, 32)
            self.device.dispatch(pipeline, buffers, (), (len(a), 1, 1))
            result = buffers[3].read(c.dtype, c.shape)
        except UnavailableError as fault:
            raise RecordingError(f"{job.name}: {fault}") from None
        finally:
            for buffer in buffers:
                buffer.close()
        return result

    def describe(self, job: Job) -> str:
        """What was executed, for the manifest."""
        shape = job.row.shape
        assert shape is not None
        return f"OpCooperativeMatrixMulAddKHR {shape.m}x{shape.n}x{shape.k}"


def offer_of(row: Instruction) -> Offer | None:
    """(M, N, K, types of A, B, C, saturating) that a row needs, None for types that the extension has not."""
    assert row.shape is not None
    names = [fmt.name if isinstance(fmt, Format) else "" for fmt in row.operands]
    if any(name not in _COMPONENTS for name in names):
        return None
    kinds = [_COMPONENTS[name] for name in names]
    return (
        row.shape.m,
        row.shape.n,
        row.shape.k,
        kinds[0],
        kinds[1],
        kinds[2],
        bool(row.keywords.get("saturate", False)),
    )


def offers(physical: Any) -> frozenset[Offer]:
    """What a physical device offers at subgroup scope."""
    from ...gpu.device import _load

    vk, state = api(), _load()
    address = vk.vkGetInstanceProcAddr(
        state.instance, vk.ffi.new("char[]", b"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
    )
    if address == vk.ffi.NULL:
        raise UnavailableError(f"the Vulkan loader does not know {_EXTENSION}; install a newer one")
    query = vk.ffi.cast("PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", address)
    count = vk.ffi.new("uint32_t*")
    query(physical, count, vk.ffi.NULL)
    found = vk.ffi.new("VkCooperativeMatrixPropertiesKHR[]", max(1, count[0]))
    for item in found:
        item.sType = vk.VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    query(physical, count, found)
    return frozenset(
        (p.MSize, p.NSize, p.KSize, int(p.AType), int(p.BType), int(p.CType), bool(p.saturatingAccumulation))
        for p in list(found)[: count[0]]
        if int(p.scope) == _SCOPE_SUBGROUP and int(p.CType) == int(p.ResultType)
    )


def _capability(name: str) -> int:
    from .driver import Card

    try:
        with Card() as card:
            if card.name in name or name in card.name:
                return card.capability
    except UnavailableError:
        pass
    raise UsageError(f"Vulkan does not say which architecture {name} is; add --capability 86 (or what it is)")
