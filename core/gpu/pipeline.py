"""Compute pipelines and the two caches in front of their compilation.

1. In memory: by the content of the SPIR-V, the bindings, the push constants and the subgroup size, least recently
   used out.
2. On disk: one VkPipelineCache per device, driver and vector width, in the user's cache folder, written when the device
   is closed. Drivers check little of what they are handed, so the file carries a checksum. `PHOBOS_CACHE` names another
   folder, or `off`.
3. All resources are storage buffers of descriptor set 0; push constants are 32-bit words.
4. A pipeline that asks for a subgroup size gets exactly that, with full subgroups, or an error (tile-lowering.md A5).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import weakref
from collections import OrderedDict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from .device import Device

KEPT_PIPELINES = 1024
MAGIC = b"phobos-sim pipeline cache 1\n"
MAX_CACHE_BYTES = 256 << 20


def cache_folder() -> Path | None:
    """Where verdicts and compiled pipelines are kept between runs; None where they are not."""
    chosen = os.environ.get("PHOBOS_CACHE", "")
    if chosen.lower() in ("off", "0", "none"):
        return None
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("phobos-sim", appauthor=False))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a cache file in one step; a folder that cannot be written is no error, the cache is only not kept."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(name, path)
        except OSError:
            os.unlink(name)


@functools.lru_cache(maxsize=256)
def _digest(spirv: bytes) -> str:
    """A module's name; one that is asked for again (a bytes object keeps its hash) is not hashed anew."""
    return hashlib.sha256(spirv).hexdigest()


class Pipeline:
    """A compiled shader. `seconds` is what vkCreateComputePipelines took (lavapipe compiles at the first dispatch)."""

    def __init__(self, cache: Pipelines, handle: Any, layout: Layout, seconds: float, digest: str) -> None:
        self.device = cache.device
        self.handle, self.layout, self.seconds, self.digest = handle, layout, seconds, digest
        self.bindings, self.push_words = layout.bindings, layout.push_words
        self._release = weakref.finalize(self, cache.destroy, handle)
        self._release.atexit = False

    def __repr__(self) -> str:
        return f"<Pipeline {self.digest[:12]}: {self.bindings} buffers, {self.push_words} push constant words>"

    def close(self) -> None:
        """Destroy it now instead of when it is forgotten."""
        self._release()


class Layout:
    """The pipeline layout of `bindings` storage buffers and `push_words` words, shared by all pipelines like it."""

    def __init__(self, device: Device, set_layout: Any, bindings: int, push_words: int) -> None:
        vk = device.vk
        ranges = []
        if push_words:
            stage = vk.VK_SHADER_STAGE_COMPUTE_BIT
            ranges = [vk.make("VkPushConstantRange", stageFlags=stage, offset=0, size=4 * push_words)]
        info = vk.make(
            "VkPipelineLayoutCreateInfo",
            setLayoutCount=1,
            pSetLayouts=[set_layout],
            pushConstantRangeCount=len(ranges),
            pPushConstantRanges=ranges or None,
        )
        self.handle = vk.create("vkCreatePipelineLayout", "VkPipelineLayout", device.handle, info)
        self.set_layout, self.bindings, self.push_words = set_layout, bindings, push_words


class Pipelines:
    """All pipelines of one device, their layouts and the driver's cache."""

    def __init__(self, device: Device) -> None:
        self.device, self.vk = device, device.vk
        self._set_layouts: dict[int, Any] = {}
        self._layouts: dict[tuple[int, int], Layout] = {}
        self._known: OrderedDict[tuple[str, int, int, int], Pipeline] = OrderedDict()
        self._living: dict[int, Any] = {}  # address -> handle
        self._loaded = self._read()
        self._fresh = 0  # pipelines made since the cache was read
        info = self.vk.make(
            "VkPipelineCacheCreateInfo", initialDataSize=len(self._loaded), pInitialData=self._loaded or None
        )
        self._cache = self.vk.create("vkCreatePipelineCache", "VkPipelineCache", device.handle, info)

    # ---- layouts -------------------------------------------------------------------------------------------------

    def set_layout(self, bindings: int) -> Any:
        """The descriptor set layout of `bindings` storage buffers."""
        vk = self.vk
        if bindings not in self._set_layouts:
            slots = [
                vk.make(
                    "VkDescriptorSetLayoutBinding",
                    binding=i,
                    descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                    descriptorCount=1,
                    stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
                )
                for i in range(bindings)
            ]
            info = vk.make("VkDescriptorSetLayoutCreateInfo", bindingCount=bindings, pBindings=slots or None)
            self._set_layouts[bindings] = vk.create(
                "vkCreateDescriptorSetLayout", "VkDescriptorSetLayout", self.device.handle, info
            )
        return self._set_layouts[bindings]

    def layout(self, bindings: int, push_words: int) -> Layout:
        info = self.device.info
        if bindings > info.max_bindings:
            raise UnavailableError(f"a shader with {bindings} buffers: {info.name} takes {info.max_bindings} at most")
        if push_words > info.max_push_words:
            raise UnavailableError(
                f"a shader with {push_words} push constant words: {info.name} takes {info.max_push_words} at most"
            )
        key = bindings, push_words
        if key not in self._layouts:
            self._layouts[key] = Layout(self.device, self.set_layout(bindings), bindings, push_words)
        return self._layouts[key]

    # ---- pipelines -----------------------------------------------------------------------------------------------

    def get(self, spirv: bytes, bindings: int, push_words: int, subgroup_size: int | None) -> Pipeline:
        """The pipeline of a module, made at the first asking. See `Device.pipeline`."""
        digest = _digest(spirv)
        key = digest, bindings, push_words, subgroup_size or 0
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        layout = self.layout(bindings, push_words)
        start = perf_counter()
        handle = self.create(spirv, layout, subgroup_size, self._cache)
        self._living[self._address(handle)] = handle
        made = Pipeline(self, handle, layout, perf_counter() - start, digest)
        self._fresh += 1
        self._known[key] = made
        if len(self._known) > KEPT_PIPELINES:
            self._known.popitem(last=False)
        return made

    def _address(self, handle: Any) -> int:
        return int(self.vk.ffi.cast("uintptr_t", handle))

    def create(self, spirv: bytes, layout: Layout, subgroup_size: int | None, cache: Any, flags: int = 0) -> Any:
        """A new VkPipeline, the caller's to destroy."""
        vk, device = self.vk, self.device.handle
        if len(spirv) < 20 or len(spirv) % 4 or spirv[:4] != b"\x03\x02\x23\x07":
            raise UsageError(f"{len(spirv)} bytes that start with {spirv[:4].hex()} are not a SPIR-V module")
        module_info = vk.make("VkShaderModuleCreateInfo", codeSize=len(spirv), pCode=spirv)
        module = vk.create("vkCreateShaderModule", "VkShaderModule", device, module_info)
        try:
            stage = vk.make(
                "VkPipelineShaderStageCreateInfo",
                stage=vk.VK_SHADER_STAGE_COMPUTE_BIT,
                module=module,
                pName="main",
                **self._subgroups(subgroup_size),
            )
            info = vk.make(
                "VkComputePipelineCreateInfo", flags=flags, stage=stage, layout=layout.handle, basePipelineIndex=-1
            )
            out = vk.ffi.new("VkPipeline*")
            vk.call("vkCreateComputePipelines", device, cache, 1, info, vk.null, out)
            return out[0]
        finally:
            vk.vkDestroyShaderModule(device, module, vk.null)

    def _subgroups(self, size: int | None) -> dict[str, Any]:
        """The stage's fields that demand a subgroup size and full subgroups."""
        if size is None:
            return {}
        info = self.device.info
        low, high = info.subgroup_sizes
        if not info.required_subgroup_size or not low <= size <= high or size & (size - 1):
            raise UnavailableError(
                f"a shader for subgroups of {size}: {info.name} offers {low} to {high}"
                f"{'' if info.required_subgroup_size else ', none of which can be demanded'}"
            )
        demand = self.vk.make("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo", requiredSubgroupSize=size)
        return {"pNext": demand, "flags": self.vk.VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT}

    def destroy(self, handle: Any) -> None:
        if self._living.pop(self._address(handle), None) is not None and self.device.alive:
            self.vk.vkDestroyPipeline(self.device.handle, handle, self.vk.null)

    # ---- the cache on disk ---------------------------------------------------------------------------------------

    def _path(self) -> Path | None:
        folder = cache_folder()
        return folder and folder / "pipelines" / f"{self.device.info.identity}.bin"

    def _read(self) -> bytes:
        """The driver's data of an earlier run, or nothing where there is none or it is damaged."""
        path = self._path()
        try:
            data = path.read_bytes() if path else b""
        except OSError:
            return b""
        head, payload = data[: len(MAGIC) + 32], data[len(MAGIC) + 32 :]
        return payload if head == MAGIC + hashlib.sha256(payload).digest() else b""

    def save(self) -> None:
        """Write the driver's cache, if there is anything new in it."""
        path, vk = self._path(), self.vk
        if path is None or not self._fresh or not self.device.alive:
            return
        size = vk.ffi.new("size_t*")
        vk.call("vkGetPipelineCacheData", self.device.handle, self._cache, size, vk.null)
        if not len(self._loaded) < size[0] <= MAX_CACHE_BYTES:
            return
        data = vk.ffi.new("char[]", size[0])
        vk.call("vkGetPipelineCacheData", self.device.handle, self._cache, size, data)
        payload = bytes(vk.ffi.buffer(data, size[0]))
        write_atomically(path, MAGIC + hashlib.sha256(payload).digest() + payload)
        self._loaded, self._fresh = payload, 0

    def close(self) -> None:
        """Save the cache and destroy everything."""
        vk, device = self.vk, self.device.handle
        self.save()
        self._known.clear()
        for handle in list(self._living.values()):
            self.destroy(handle)
        for layout in self._layouts.values():
            vk.vkDestroyPipelineLayout(device, layout.handle, vk.null)
        for set_layout in self._set_layouts.values():
            vk.vkDestroyDescriptorSetLayout(device, set_layout, vk.null)
        vk.vkDestroyPipelineCache(device, self._cache, vk.null)
        self._layouts.clear()
        self._set_layouts.clear()
