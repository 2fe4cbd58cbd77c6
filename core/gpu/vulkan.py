"""The only module that touches the `vulkan` binding: loading, structs, calls, results.

The binding is used for its declarations (`vulkan.ffi`, `vulkan.lib`, the VK_ constants); its wrappers are not.
Rules, each for something that was met (spirv-notes.md section 5):

1. The import happens at the first use of a device. A missing binding, loader or driver is an `UnavailableError` that
   says what to install.
2. `Api.make` builds every struct. It keeps whatever the struct points to alive as long as the struct itself, also
   through structs embedded by value; the binding's own constructor loses those (a dangling `stage.pName`) and `pCode`.
3. A struct that a call reads must be held in a variable until the call returns; so must an array that a call fills.
4. Every VkResult is looked at. Errors name the call and the result.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ..errors import UnavailableError

# struct -> its VkStructureType
STRUCTURE_TYPES = {
    "VkApplicationInfo": "APPLICATION_INFO",
    "VkBufferCopy": "",
    "VkBufferCreateInfo": "BUFFER_CREATE_INFO",
    "VkCommandBufferAllocateInfo": "COMMAND_BUFFER_ALLOCATE_INFO",
    "VkCommandBufferBeginInfo": "COMMAND_BUFFER_BEGIN_INFO",
    "VkCommandPoolCreateInfo": "COMMAND_POOL_CREATE_INFO",
    "VkComputePipelineCreateInfo": "COMPUTE_PIPELINE_CREATE_INFO",
    "VkDescriptorBufferInfo": "",
    "VkDescriptorPoolCreateInfo": "DESCRIPTOR_POOL_CREATE_INFO",
    "VkDescriptorPoolSize": "",
    "VkDescriptorSetAllocateInfo": "DESCRIPTOR_SET_ALLOCATE_INFO",
    "VkDescriptorSetLayoutBinding": "",
    "VkDescriptorSetLayoutCreateInfo": "DESCRIPTOR_SET_LAYOUT_CREATE_INFO",
    "VkDeviceCreateInfo": "DEVICE_CREATE_INFO",
    "VkDeviceQueueCreateInfo": "DEVICE_QUEUE_CREATE_INFO",
    "VkFenceCreateInfo": "FENCE_CREATE_INFO",
    "VkInstanceCreateInfo": "INSTANCE_CREATE_INFO",
    "VkMemoryAllocateInfo": "MEMORY_ALLOCATE_INFO",
    "VkMemoryBarrier": "MEMORY_BARRIER",
    "VkPhysicalDevice16BitStorageFeatures": "PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES",
    "VkPhysicalDevice8BitStorageFeatures": "PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES",
    "VkPhysicalDeviceCooperativeMatrixFeaturesKHR": "PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR",
    "VkPhysicalDeviceDriverProperties": "PHYSICAL_DEVICE_DRIVER_PROPERTIES",
    "VkPhysicalDeviceFeatures2": "PHYSICAL_DEVICE_FEATURES_2",
    "VkPhysicalDeviceFloatControlsProperties": "PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES",
    "VkPhysicalDeviceIDProperties": "PHYSICAL_DEVICE_ID_PROPERTIES",
    "VkPhysicalDeviceMaintenance3Properties": "PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES",
    "VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR": (
        "PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR"
    ),
    "VkPhysicalDeviceProperties2": "PHYSICAL_DEVICE_PROPERTIES_2",
    "VkPhysicalDeviceShaderFloat16Int8Features": "PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES",
    "VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures": "PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES",
    "VkPhysicalDeviceSubgroupProperties": "PHYSICAL_DEVICE_SUBGROUP_PROPERTIES",
    "VkPhysicalDeviceSubgroupSizeControlFeatures": "PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES",
    "VkPhysicalDeviceSubgroupSizeControlProperties": "PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES",
    "VkPhysicalDeviceVulkanMemoryModelFeatures": "PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES",
    "VkPipelineCacheCreateInfo": "PIPELINE_CACHE_CREATE_INFO",
    "VkPipelineExecutableInfoKHR": "PIPELINE_EXECUTABLE_INFO_KHR",
    "VkPipelineInfoKHR": "PIPELINE_INFO_KHR",
    "VkPipelineLayoutCreateInfo": "PIPELINE_LAYOUT_CREATE_INFO",
    "VkPipelineShaderStageCreateInfo": "PIPELINE_SHADER_STAGE_CREATE_INFO",
    "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo": "PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO",
    "VkPushConstantRange": "",
    "VkShaderModuleCreateInfo": "SHADER_MODULE_CREATE_INFO",
    "VkSubmitInfo": "SUBMIT_INFO",
    "VkWriteDescriptorSet": "WRITE_DESCRIPTOR_SET",
}

LOADER_HINT = (
    "install a Vulkan loader and a driver: Debian, Ubuntu: apt-get install libvulkan1 mesa-vulkan-drivers; "
    "Fedora: dnf install vulkan-loader mesa-vulkan-drivers; Arch: pacman -S vulkan-icd-loader vulkan-swrast; "
    "or run on the device `reference`, which needs none"
)


class VulkanError(UnavailableError):
    """A Vulkan call failed. `result` is the name of its VkResult."""

    def __init__(self, message: str, result: str) -> None:
        self.result = result
        super().__init__(message)


class DeviceLost(VulkanError):
    """The driver gave the device up (VK_ERROR_DEVICE_LOST)."""


class OutOfMemory(VulkanError):
    """The host or the device has no memory for this."""


class Api:
    """The binding: `vk.vkQueueSubmit` is the C function, `vk.VK_SUCCESS` the constant, `vk.ffi` cffi's."""

    def __init__(self, binding: ModuleType) -> None:
        self.ffi: Any = binding.ffi
        self._lib: Any = binding.lib
        self._fields: dict[str, dict[str, Any]] = {}
        self._kept: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self.null: Any = self.ffi.NULL

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._lib, name)
        setattr(self, name, value)  # found without __getattr__ from now on
        return value

    # ---- structs ---------------------------------------------------------------------------------------------

    def make(self, ctype: str, **fields: Any) -> Any:
        """A pointer to a new, zeroed struct with `fields` set; sType is filled in.

        A field that is a pointer takes a struct made here, bytes, a str, or a list of any of these; an embedded struct
        takes one made here. All of them live as long as the result does.
        """
        struct = self.ffi.new(ctype + "*")
        kept: list[Any] = []
        if STRUCTURE_TYPES[ctype]:
            struct.sType = getattr(self, "VK_STRUCTURE_TYPE_" + STRUCTURE_TYPES[ctype])
        types = self._fields.get(ctype)
        if types is None:
            types = self._fields[ctype] = {name: field.type for name, field in self.ffi.typeof(ctype).fields}
        for name, value in fields.items():
            if value is None:
                continue
            kind = types[name]
            if kind.kind == "struct":
                kept.append(value)
                setattr(struct, name, value[0])
            elif kind.kind == "pointer":
                setattr(struct, name, self._pointer(kind, value, kept))
            else:
                setattr(struct, name, value)
        if kept:
            self._kept[struct] = kept
        return struct

    def _pointer(self, kind: Any, value: Any, kept: list[Any]) -> Any:
        """`value` as a C pointer of type `kind`; what it points to goes into `kept`."""
        ffi = self.ffi
        if isinstance(value, str):
            value = ffi.new("char[]", value.encode())
        elif isinstance(value, bytes):
            value = ffi.from_buffer(value)
        elif isinstance(value, list | tuple):
            value = self.array(kind.item, value, kept)
        kept.append(value)
        return ffi.cast(kind, value)

    def array(self, item: Any, values: Sequence[Any], kept: list[Any] | None = None) -> Any:
        """A C array of type `item`. Structs are copied in; without `kept` the caller keeps what they point to."""
        ffi = self.ffi
        item = ffi.typeof(item) if isinstance(item, str) else item
        array = ffi.new(ffi.getctype(item, "[]"), max(1, len(values)))
        for i, value in enumerate(values):
            if isinstance(value, str):
                value = ffi.new("char[]", value.encode())
            if kept is not None:
                kept.append(value)
            array[i] = value[0] if item.kind == "struct" else value
        return array

    # ---- calls -----------------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any) -> int:
        """A call whose VkResult must not be an error; returns it (VK_TIMEOUT and the like are not errors)."""
        result: int = getattr(self, name)(*args)
        if result < 0:
            self.fail(name, result)
        return result

    def fail(self, name: str, result: int) -> None:
        """Raise the error that belongs to a VkResult."""
        text = self.ffi.typeof("VkResult").elements.get(result, str(result))
        if text == "VK_ERROR_DEVICE_LOST":
            raise DeviceLost(
                f"{name}: the driver gave the Vulkan device up ({text}): it crashed, was reset or took too long; "
                "the next launch opens it anew",
                text,
            )
        if text in ("VK_ERROR_OUT_OF_DEVICE_MEMORY", "VK_ERROR_OUT_OF_HOST_MEMORY"):
            raise OutOfMemory(f"{name}: no memory left ({text}); use smaller arrays or another device", text)
        if text == "VK_ERROR_INCOMPATIBLE_DRIVER":
            chosen = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
            where = f" in {chosen} (VK_DRIVER_FILES)" if chosen else ""
            raise VulkanError(f"{name}: the Vulkan loader found no driver{where} ({text}); {LOADER_HINT}", text)
        raise VulkanError(f"{name} failed: {text}", text)

    def create(self, name: str, handle: str, owner: Any, info: Any) -> Any:
        """vkCreate...(owner, info, no allocator, &handle); `owner` None for an instance."""
        out = self.ffi.new(handle + "*")
        self.call(name, *(() if owner is None else (owner,)), info, self.null, out)
        return out[0]

    def several(self, name: str, item: str, *args: Any) -> Filled:
        """What a two-call enumeration fills. Hold it in a variable while its items are in use."""
        count = self.ffi.new("uint32_t*")
        function = getattr(self, name)
        while True:
            function(*args, count, self.null)
            array = self.ffi.new(item + "[]", max(1, count[0]))
            result = function(*args, count, array)
            if result is None or result == self.VK_SUCCESS:
                return Filled(array, count[0])
            if result < 0:
                self.fail(name, result)

    def text(self, chars: Any) -> str:
        """A fixed-size or zero-terminated C string."""
        raw: bytes = self.ffi.string(chars)
        return raw.decode("utf-8", "replace")


class Filled(Sequence[Any]):
    """The first `size` items of a C array, which it keeps alive."""

    def __init__(self, array: Any, size: int) -> None:
        self.array, self.size = array, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: Any) -> Any:
        if not 0 <= i < self.size:
            raise IndexError(i)
        return self.array[i]


@functools.cache
def api() -> Api:
    """The binding, imported at the first call. Errors: `UnavailableError` without a binding or a loader."""
    try:
        import vulkan
    except ImportError as error:
        raise UnavailableError(
            f"the Python package `vulkan` cannot be imported here ({error}); pip install vulkan, "
            f"or run on the device `reference`, which needs none (Python: {sys.executable})"
        ) from None
    except OSError:
        raise UnavailableError(f"no Vulkan loader (libvulkan.so.1) on this machine; {LOADER_HINT}") from None
    return Api(vulkan)
