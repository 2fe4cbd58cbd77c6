"""The queue of one device: records dispatches into one command buffer, submits it and waits.

1. A batch is one command buffer. Between two dispatches of a batch stands a memory barrier, so each sees what the ones
   before it wrote; host writes before the batch and host reads after it are ordered too.
2. Command buffer, fence and descriptor sets are made once and used again: a batch is always waited for, so they are
   free. A descriptor set is written only where the buffers at its place in the batch have changed.
3. A batch that outlasts PHOBOS_TIMEOUT seconds (600) is a `DispatchTimeout`. Vulkan cannot stop work, so the device is
   abandoned with it: nothing of it is freed, and the next `open_device` opens it anew. So it is after Ctrl-C.
4. Limits are checked here, where the message can name them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..errors import DispatchTimeout, LaunchError, UsageError
from .memory import Buffer, Part
from .pipeline import Pipeline

if TYPE_CHECKING:
    from .device import Device

# one dispatch: pipeline, buffers in the order of their bindings, push constant words, workgroups in x, y, z
Item = tuple[Pipeline, Sequence[Buffer | Part], Sequence[int], tuple[int, int, int]]

DEFAULT_TIMEOUT = 600.0
WAIT_SLICE_NS = 100_000_000  # so that Ctrl-C is noticed
SETS_PER_POOL = 32


def timeout_seconds() -> float:
    """PHOBOS_TIMEOUT: how long one batch may take."""
    text = os.environ.get("PHOBOS_TIMEOUT", "").strip()
    if not text:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"PHOBOS_TIMEOUT is {text!r}; it is a number of seconds above 0")
    return seconds


class Queue:
    """The compute queue of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        vk = self.vk = device.vk
        queue = vk.ffi.new("VkQueue*")
        vk.vkGetDeviceQueue(device.handle, device.info.queue_family, 0, queue)
        self.handle = queue[0]
        pool_info = vk.make(
            "VkCommandPoolCreateInfo",
            flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
            queueFamilyIndex=device.info.queue_family,
        )
        self._pool = vk.create("vkCreateCommandPool", "VkCommandPool", device.handle, pool_info)
        command_info = vk.make(
            "VkCommandBufferAllocateInfo",
            commandPool=self._pool,
            level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            commandBufferCount=1,
        )
        self._commands = vk.ffi.new("VkCommandBuffer[1]")
        vk.call("vkAllocateCommandBuffers", device.handle, command_info, self._commands)
        self._command = self._commands[0]
        self._fence = vk.create("vkCreateFence", "VkFence", device.handle, vk.make("VkFenceCreateInfo"))
        self._fences = vk.array("VkFence", [self._fence])
        self._begin = vk.make("VkCommandBufferBeginInfo", flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)
        self._submit = vk.make("VkSubmitInfo", commandBufferCount=1, pCommandBuffers=self._commands)
        shader, transfer = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, vk.VK_PIPELINE_STAGE_TRANSFER_BIT
        self._stages = shader | transfer
        reads = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_TRANSFER_READ_BIT
        writes = vk.VK_ACCESS_SHADER_WRITE_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
        self._between = vk.make("VkMemoryBarrier", srcAccessMask=writes, dstAccessMask=reads | writes)
        self._to_host = vk.make("VkMemoryBarrier", srcAccessMask=writes, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT)
        self._sets = Sets(device)

    def run(self, batch: Sequence[Item], timeout: float | None = None) -> float:
        """Run the dispatches in order; seconds from submission to completion. `timeout`: instead of PHOBOS_TIMEOUT."""
        device = self.device
        with device.lock:
            device.check_alive()
            timeout = timeout or timeout_seconds()
            for item in batch:
                self._check(*item)
            if not batch:
                return 0.0
            self._record(batch)
            return self._go(timeout)

    def copy(self, source: Any, source_offset: int, target: Any, target_offset: int, nbytes: int) -> None:
        """Copy bytes between two VkBuffers and wait."""
        vk, device, command = self.vk, self.device, self._command
        with device.lock:
            device.check_alive()
            region = vk.make("VkBufferCopy", srcOffset=source_offset, dstOffset=target_offset, size=nbytes)
            vk.call("vkBeginCommandBuffer", command, self._begin)
            vk.vkCmdCopyBuffer(command, source, target, 1, region)
            self._barrier(self._stages, vk.VK_PIPELINE_STAGE_HOST_BIT, self._to_host)
            vk.call("vkEndCommandBuffer", command)
            self._go(timeout_seconds())

    def forget(self) -> None:
        """A buffer was destroyed: its handle may come back with another meaning."""
        self._sets.forget()

    # ---- checks --------------------------------------------------------------------------------------------------

    def _check(
        self, pipeline: Pipeline, buffers: Sequence[Buffer | Part], push: Sequence[int], groups: tuple[int, int, int]
    ) -> None:
        """Refuse what the device would take as undefined behaviour."""
        info = self.device.info
        if pipeline.device is not self.device or not pipeline._release.alive:
            raise LaunchError(f"{pipeline!r} is closed or belongs to another device than {info.name}")
        if len(buffers) != pipeline.bindings or len(push) != pipeline.push_words:
            raise LaunchError(f"{len(buffers)} buffers and {len(push)} push constant words for {pipeline!r}")
        for i, buffer in enumerate(buffers):
            if not buffer._release.alive:
                raise LaunchError(f"the buffer at binding {i} is closed")
            if buffer.nbytes > info.max_buffer_bytes:
                raise LaunchError(
                    f"the buffer at binding {i} has {buffer.nbytes} bytes; {info.name} binds {info.max_buffer_bytes} "
                    "at most (maxStorageBufferRange): bind it in parts, use smaller arrays or another device"
                )
        x, y, z = groups
        most = info.max_groups
        if not (0 < x <= most[0] and 0 < y <= most[1] and 0 < z <= most[2]):
            raise LaunchError(
                f"{x} x {y} x {z} workgroups: {info.name} runs 1 to {most[0]} x {most[1]} x {most[2]} in one dispatch"
            )

    # ---- recording -----------------------------------------------------------------------------------------------

    def _record(self, batch: Sequence[Item]) -> None:
        vk, command = self.vk, self._command
        vk.call("vkBeginCommandBuffer", command, self._begin)
        compute, stage = vk.VK_PIPELINE_BIND_POINT_COMPUTE, vk.VK_SHADER_STAGE_COMPUTE_BIT
        bound = None
        places: dict[int, int] = {}
        for i, (pipeline, buffers, push, groups) in enumerate(batch):
            if i:
                self._barrier(self._stages, self._stages, self._between)
            layout = pipeline.layout.handle
            if pipeline is not bound:
                vk.vkCmdBindPipeline(command, compute, pipeline.handle)
                bound = pipeline
            if buffers:
                place = places.get(len(buffers), 0)
                places[len(buffers)] = place + 1
                sets = self._sets.bind(place, buffers)
                vk.vkCmdBindDescriptorSets(command, compute, layout, 0, 1, sets, 0, vk.null)
            if push:
                words = vk.ffi.new("uint32_t[]", push)
                vk.vkCmdPushConstants(command, layout, stage, 0, 4 * len(push), words)
            vk.vkCmdDispatch(command, *groups)
        self._barrier(self._stages, vk.VK_PIPELINE_STAGE_HOST_BIT, self._to_host)
        vk.call("vkEndCommandBuffer", command)

    def _barrier(self, before: int, after: int, barrier: Any) -> None:
        null = self.vk.null
        self.vk.vkCmdPipelineBarrier(self._command, before, after, 0, 1, barrier, 0, null, 0, null)

    # ---- submitting ----------------------------------------------------------------------------------------------

    def _go(self, timeout: float) -> float:
        """Submit the recorded commands and wait; the device is abandoned where they do not end."""
        vk, device = self.vk, self.device
        start = perf_counter()
        try:
            vk.call("vkQueueSubmit", self.handle, 1, self._submit, self._fence)
            while True:
                left = int((timeout - (perf_counter() - start)) * 1e9)
                result = vk.call("vkWaitForFences", device.handle, 1, self._fences, 1, max(0, min(left, WAIT_SLICE_NS)))
                if result == vk.VK_SUCCESS:
                    break
                if left <= 0:
                    raise DispatchTimeout(
                        f"a dispatch on {device.info.name} did not end within {timeout:g} s (PHOBOS_TIMEOUT); "
                        "set PHOBOS_TIMEOUT higher or launch a smaller grid"
                    )
        except BaseException:
            device.abandon()
            raise
        seconds = perf_counter() - start
        vk.call("vkResetFences", device.handle, 1, self._fences)
        return seconds

    def close(self) -> None:
        vk, device = self.vk, self.device.handle
        self._sets.close()
        vk.vkDestroyFence(device, self._fence, vk.null)
        vk.vkDestroyCommandPool(device, self._pool, vk.null)


class Sets:
    """Descriptor sets by number of buffers and place in the batch, rewritten only where the buffers changed."""

    def __init__(self, device: Device) -> None:
        self.device, self.vk = device, device.vk
        self._pools: list[Any] = []
        self._sets: dict[int, list[Any]] = {}  # number of buffers -> VkDescriptorSet[1] arrays
        self._holds: dict[tuple[int, int], list[Any]] = {}

    def bind(self, place: int, buffers: Sequence[Buffer | Part]) -> Any:
        """The set for the `place`-th dispatch with so many buffers, which points to `buffers`."""
        count = len(buffers)
        sets = self._sets.setdefault(count, [])
        while place >= len(sets):
            sets.extend(self._allocate(count))
        wanted = [(b.handle, b.offset, b.nbytes) for b in buffers]
        if self._holds.get((count, place)) != wanted:
            self._write(sets[place][0], wanted)
            self._holds[count, place] = wanted
        return sets[place]

    def forget(self) -> None:
        """Write every set anew before its next use."""
        self._holds.clear()

    def _allocate(self, count: int) -> list[Any]:
        vk, device = self.vk, self.device.handle
        kind = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
        size = vk.make("VkDescriptorPoolSize", type=kind, descriptorCount=count * SETS_PER_POOL)
        info = vk.make("VkDescriptorPoolCreateInfo", maxSets=SETS_PER_POOL, poolSizeCount=1, pPoolSizes=[size])
        pool = vk.create("vkCreateDescriptorPool", "VkDescriptorPool", device, info)
        self._pools.append(pool)
        layouts = [self.device.pipelines.set_layout(count)] * SETS_PER_POOL
        allocate = vk.make(
            "VkDescriptorSetAllocateInfo", descriptorPool=pool, descriptorSetCount=SETS_PER_POOL, pSetLayouts=layouts
        )
        handles = vk.ffi.new("VkDescriptorSet[]", SETS_PER_POOL)
        vk.call("vkAllocateDescriptorSets", device, allocate, handles)
        return [vk.array("VkDescriptorSet", [handle]) for handle in handles]

    def _write(self, handle: Any, wanted: list[Any]) -> None:
        vk, count = self.vk, len(wanted)
        infos = vk.ffi.new("VkDescriptorBufferInfo[]", wanted)
        writes = vk.ffi.new("VkWriteDescriptorSet[]", count)
        for i in range(count):
            write = writes[i]
            write.sType = vk.VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET
            write.dstSet = handle
            write.dstBinding = i
            write.descriptorCount = 1
            write.descriptorType = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
            write.pBufferInfo = infos + i
        vk.vkUpdateDescriptorSets(self.device.handle, count, writes, 0, vk.null)

    def close(self) -> None:
        for pool in self._pools:
            self.vk.vkDestroyDescriptorPool(self.device.handle, pool, self.vk.null)
