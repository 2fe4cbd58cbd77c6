"""What a physical Vulkan device is and offers, asked once and kept as plain data.

1. Features are requested where offered and only then (design.md section 7): 64-, 16- and 8-bit integers, float64,
   16- and 8-bit storage, subgroup operations on all of these, a required subgroup size with full subgroups, cooperative
   matrices and the memory model that they are defined in, and what a compiler tells about its code (`statistics`).
2. A feature or property that came with a later Vulkan version is asked for through that version or its extension.
3. llvmpipe stops all loops of an invocation together after 65,535 trips, silently (spirv-notes.md section 4.1): its
   `Target.loop_budget` is below that; other drivers have none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .target import Target
from .vulkan import Api

Version = tuple[int, int]

KINDS = {0: "other", 1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}
# the order in which devices are listed and the first usable one is taken (design.md section 10)
ORDER = {"discrete": 0, "integrated": 1, "virtual": 2, "cpu": 3, "other": 4}

DRIVER_ID_LLVMPIPE = 13
# below the driver's 65,535: loops that the driver itself makes out of our code count too
LLVMPIPE_LOOP_BUDGET = 65_000

CORE_FEATURES = ("shaderInt64", "shaderFloat64", "shaderInt16")

# feature struct, Vulkan version that has it, extension before that, its members
FEATURES: tuple[tuple[str, Version | None, str, tuple[str, ...]], ...] = (
    ("VkPhysicalDevice16BitStorageFeatures", (1, 1), "", ("storageBuffer16BitAccess",)),
    ("VkPhysicalDevice8BitStorageFeatures", (1, 2), "VK_KHR_8bit_storage", ("storageBuffer8BitAccess",)),
    (
        "VkPhysicalDeviceShaderFloat16Int8Features",
        (1, 2),
        "VK_KHR_shader_float16_int8",
        ("shaderInt8", "shaderFloat16"),
    ),
    (
        "VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures",
        (1, 2),
        "VK_KHR_shader_subgroup_extended_types",
        ("shaderSubgroupExtendedTypes",),
    ),
    (
        "VkPhysicalDeviceSubgroupSizeControlFeatures",
        (1, 3),
        "VK_EXT_subgroup_size_control",
        ("subgroupSizeControl", "computeFullSubgroups"),
    ),
    ("VkPhysicalDeviceVulkanMemoryModelFeatures", (1, 2), "VK_KHR_vulkan_memory_model", ("vulkanMemoryModel",)),
    ("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", None, "VK_KHR_cooperative_matrix", ("cooperativeMatrix",)),
    (
        "VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR",
        None,
        "VK_KHR_pipeline_executable_properties",
        ("pipelineExecutableInfo",),
    ),
)

# property struct, Vulkan version that has it, extension before that
PROPERTIES: tuple[tuple[str, Version | None, str], ...] = (
    ("VkPhysicalDeviceIDProperties", (1, 1), ""),
    ("VkPhysicalDeviceSubgroupProperties", (1, 1), ""),
    ("VkPhysicalDeviceMaintenance3Properties", (1, 1), ""),
    ("VkPhysicalDeviceDriverProperties", (1, 2), "VK_KHR_driver_properties"),
    ("VkPhysicalDeviceFloatControlsProperties", (1, 2), "VK_KHR_shader_float_controls"),
    ("VkPhysicalDeviceSubgroupSizeControlProperties", (1, 3), "VK_EXT_subgroup_size_control"),
)

#: Among `DeviceInfo.float_controls`: each width's rounding can be chosen apart.
INDEPENDENT_ROUNDING = "roundingModeIndependence"

# extensions that are enabled where offered because shaders may name them
WANTED_EXTENSIONS = ("VK_KHR_shader_float_controls", "VK_KHR_portability_subset")


@dataclass(frozen=True)
class DeviceInfo:
    """Facts of one physical device. Sizes in bytes. `index` is its place in the list that `vulkan:<index>` counts."""

    index: int
    name: str
    kind: str  # discrete, integrated, virtual, cpu, other
    api_version: tuple[int, int, int]
    vendor_id: int
    device_id: int
    driver_id: int
    driver_version: int
    driver_name: str
    driver_info: str
    device_uuid: str
    driver_uuid: str
    pipeline_cache_uuid: str
    queue_family: int | None
    subgroup_size: int
    subgroup_sizes: tuple[int, int]
    features: tuple[str, ...]
    extensions: tuple[str, ...] = field(repr=False)
    subgroup_shuffle: bool
    max_buffer_bytes: int  # maxStorageBufferRange
    max_allocation_bytes: int
    max_invocations: int
    max_group_size: tuple[int, int, int]
    max_groups: tuple[int, int, int]
    max_bindings: int
    max_push_words: int
    shared_bytes: int
    binding_alignment: int
    float_controls: tuple[str, ...] = ()
    max_subgroups: int = 1 << 16  # of a workgroup whose subgroup size is demanded

    @property
    def version(self) -> Version:
        return self.api_version[:2]

    @property
    def required_subgroup_size(self) -> bool:
        """Whether a pipeline can demand `subgroup_size` and full subgroups."""
        low, high = self.subgroup_sizes
        wanted = {"subgroupSizeControl", "computeFullSubgroups", "requiredSubgroupSizeInCompute"}
        return wanted <= set(self.features) and low <= self.subgroup_size <= high

    @cached_property
    def identity(self) -> str:
        """A hash that names device, driver and vector width, for the keys of caches on disk.

        llvmpipe's UUIDs are constants: driverInfo and the subgroup size tell its builds and widths apart (design.md 7).
        """
        facts = (
            self.vendor_id, self.device_id, self.name, self.driver_id, self.driver_version, self.driver_name,
            self.driver_info, self.device_uuid, self.driver_uuid, self.pipeline_cache_uuid, self.subgroup_size,
            self.subgroup_sizes, self.api_version, self.features,
        )  # fmt: skip
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]

    def target(self) -> Target:
        """The facts that emitters need; forms and `fused_fma` are the probe's to fill in."""
        has = set(self.features).__contains__
        return Target(
            name=self.name,
            kind="virtual" if self.kind == "other" else self.kind,
            subgroup_size=self.subgroup_size,
            subgroup_shuffle=self.subgroup_shuffle,
            required_subgroup_size=self.required_subgroup_size,
            subgroup_sizes=self.subgroup_sizes,
            max_subgroups=self.max_subgroups,
            max_invocations=self.max_invocations,
            shared_bytes=self.shared_bytes,
            max_buffer_bytes=self.max_buffer_bytes,
            max_groups=self.max_groups,
            int64=has("shaderInt64"),
            float64=has("shaderFloat64"),
            float16=has("shaderFloat16"),
            int16=has("shaderInt16"),
            int8=has("shaderInt8"),
            storage16=has("storageBuffer16BitAccess"),
            storage8=has("storageBuffer8BitAccess"),
            denorm_preserve="shaderDenormPreserveFloat32" in self.float_controls,
            truncates_f64={"shaderRoundingModeRTZFloat64", INDEPENDENT_ROUNDING} <= set(self.float_controls),
            loop_budget=LLVMPIPE_LOOP_BUDGET if self.driver_id == DRIVER_ID_LLVMPIPE else None,
        )


def version_of(packed: int) -> tuple[int, int, int]:
    """(major, minor, patch) of a packed Vulkan version."""
    return packed >> 22 & 0x7F, packed >> 12 & 0x3FF, packed & 0xFFF


def _offered(version: Version, since: Version | None, extension: str, extensions: frozenset[str]) -> bool:
    return (since is not None and version >= since) or extension in extensions


def feature_chain(vk: Api, version: Version, extensions: frozenset[str]) -> tuple[Any, dict[str, Any]]:
    """An empty VkPhysicalDeviceFeatures2 with the feature structs that this device knows, and these by name."""
    chain, parts = None, {}
    for struct, since, extension, _ in FEATURES:
        if _offered(version, since, extension, extensions):
            chain = parts[struct] = vk.make(struct, pNext=chain)
    return vk.make("VkPhysicalDeviceFeatures2", pNext=chain), parts


def enabled_features(vk: Api, info: DeviceInfo) -> tuple[Any, list[str]]:
    """The VkPhysicalDeviceFeatures2 that enables what `info.features` lists, and the extensions that this takes."""
    extensions = frozenset(info.extensions)
    head, parts = feature_chain(vk, info.version, extensions)
    for name in CORE_FEATURES:
        setattr(head.features, name, name in info.features)
    names = [name for name in WANTED_EXTENSIONS if name in extensions]
    for struct, since, extension, members in FEATURES:
        if struct not in parts:
            continue
        for member in members:
            setattr(parts[struct], member, member in info.features)
        if since is None or info.version < since:
            names.append(extension)
    return head, names


def describe(vk: Api, physical: Any, instance_version: Version) -> DeviceInfo:
    """Ask one VkPhysicalDevice for all that `DeviceInfo` holds; its index is set by whoever sorts the list."""
    basic = vk.ffi.new("VkPhysicalDeviceProperties*")
    vk.vkGetPhysicalDeviceProperties(physical, basic)
    api_version = version_of(basic.apiVersion)
    version = min(api_version[:2], instance_version)
    extensions: frozenset[str] = frozenset()
    parts: dict[str, Any] = {}
    features: list[str] = []
    if version >= (1, 1):
        offered = vk.several("vkEnumerateDeviceExtensionProperties", "VkExtensionProperties", physical, vk.null)
        extensions = frozenset(vk.text(e.extensionName) for e in offered)
        features = _query_features(vk, physical, version, extensions)
        parts = _query_properties(vk, physical, version, extensions)
        control = parts.get("VkPhysicalDeviceSubgroupSizeControlProperties")
        if control is not None and control.requiredSubgroupSizeStages & vk.VK_SHADER_STAGE_COMPUTE_BIT:
            features.append("requiredSubgroupSizeInCompute")
    return _info(vk, physical, basic, (*version, api_version[2]), extensions, tuple(features), parts)


def _query_features(vk: Api, physical: Any, version: Version, extensions: frozenset[str]) -> list[str]:
    head, parts = feature_chain(vk, version, extensions)
    vk.vkGetPhysicalDeviceFeatures2(physical, head)
    found = [name for name in CORE_FEATURES if getattr(head.features, name)]
    for struct, _, _, members in FEATURES:
        if struct in parts:
            found += [member for member in members if getattr(parts[struct], member)]
    return found


def _query_properties(vk: Api, physical: Any, version: Version, extensions: frozenset[str]) -> dict[str, Any]:
    chain, parts = None, {}
    for struct, since, extension in PROPERTIES:
        if _offered(version, since, extension, extensions):
            chain = parts[struct] = vk.make(struct, pNext=chain)
    head = vk.make("VkPhysicalDeviceProperties2", pNext=chain)
    vk.vkGetPhysicalDeviceProperties2(physical, head)
    return parts


def _queue_family(vk: Api, physical: Any) -> int | None:
    """The first queue family that computes."""
    families = vk.several("vkGetPhysicalDeviceQueueFamilyProperties", "VkQueueFamilyProperties", physical)
    for i, family in enumerate(families):
        if family.queueFlags & vk.VK_QUEUE_COMPUTE_BIT and family.queueCount:
            return i
    return None


def _info(
    vk: Api,
    physical: Any,
    basic: Any,
    api_version: tuple[int, int, int],
    extensions: frozenset[str],
    features: tuple[str, ...],
    parts: dict[str, Any],
) -> DeviceInfo:
    limits = basic.limits
    ids = parts.get("VkPhysicalDeviceIDProperties")
    subgroup = parts.get("VkPhysicalDeviceSubgroupProperties")
    driver = parts.get("VkPhysicalDeviceDriverProperties")
    control = parts.get("VkPhysicalDeviceSubgroupSizeControlProperties")
    floats = parts.get("VkPhysicalDeviceFloatControlsProperties")
    maintenance = parts.get("VkPhysicalDeviceMaintenance3Properties")
    size = subgroup.subgroupSize if subgroup else 1
    shuffles = bool(
        subgroup
        and subgroup.supportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT
        and subgroup.supportedOperations & vk.VK_SUBGROUP_FEATURE_SHUFFLE_BIT
    )
    controls = [name for name in dir(floats) if name.startswith("shader") and getattr(floats, name)] if floats else []
    if floats and floats.roundingModeIndependence == vk.VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL:
        controls.append(INDEPENDENT_ROUNDING)
    return DeviceInfo(
        index=-1,
        name=vk.text(basic.deviceName),
        kind=KINDS.get(basic.deviceType, "other"),
        api_version=api_version,
        vendor_id=basic.vendorID,
        device_id=basic.deviceID,
        driver_id=driver.driverID if driver else 0,
        driver_version=basic.driverVersion,
        driver_name=vk.text(driver.driverName) if driver else "",
        driver_info=vk.text(driver.driverInfo) if driver else "",
        device_uuid=bytes(ids.deviceUUID).hex() if ids else "",
        driver_uuid=bytes(ids.driverUUID).hex() if ids else "",
        pipeline_cache_uuid=bytes(basic.pipelineCacheUUID).hex(),
        queue_family=_queue_family(vk, physical),
        subgroup_size=size,
        subgroup_sizes=(control.minSubgroupSize, control.maxSubgroupSize) if control else (size, size),
        features=features,
        extensions=tuple(sorted(extensions)),
        subgroup_shuffle=shuffles,
        max_buffer_bytes=limits.maxStorageBufferRange,
        max_allocation_bytes=maintenance.maxMemoryAllocationSize if maintenance else 1 << 30,
        max_invocations=limits.maxComputeWorkGroupInvocations,
        max_group_size=tuple(limits.maxComputeWorkGroupSize),
        max_groups=tuple(limits.maxComputeWorkGroupCount),
        max_bindings=min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers),
        max_push_words=limits.maxPushConstantsSize // 4,
        shared_bytes=limits.maxComputeSharedMemorySize,
        binding_alignment=limits.minStorageBufferOffsetAlignment,
        float_controls=tuple(controls),
        max_subgroups=control.maxComputeWorkgroupSubgroups if control else 1 << 16,
    )
