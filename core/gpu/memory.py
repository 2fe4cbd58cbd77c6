"""Device memory: buffers, the way of bytes between numpy and them, and a pool that reuses what was freed.

1. A buffer lies in memory that the device reaches fast: device-local and mapped where there is such a type (a CPU
   device, an integrated GPU, a discrete one with a large BAR), else device-local and filled by staging copies.
2. Memory that the host maps without caching is written directly and read by a staging copy: reading it in place is
   slow.
3. Buffers are storage buffers of whole words. Their contents are undefined until written, also after reuse.
4. `Buffer.close` returns the memory to the pool; a buffer that is forgotten returns by itself.
"""

from __future__ import annotations

import mmap
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import LaunchError, UnavailableError
from .vulkan import OutOfMemory

if TYPE_CHECKING:
    from .device import Device

STAGING_BYTES = 32 << 20
POOL_BYTES = 64 << 20  # freed memory that is kept for reuse, at most
HUGE_FROM = 4 << 20  # buffers of a CPU device lie in huge pages from this size on


@dataclass(frozen=True)
class Block:
    """One VkBuffer with memory of its own. `bytes`: the mapping; `cached`: fast to read; `pooled`: reusable."""

    handle: Any
    memory: Any
    nbytes: int
    bytes: npt.NDArray[np.uint8] | None
    cached: bool
    pooled: bool


def _advise_huge_pages(memory: npt.NDArray[np.uint8]) -> None:
    """Asks Linux for huge pages; a wide matrix that is read down its columns misses the TLB at every row otherwise."""
    advice, page = getattr(mmap, "MADV_HUGEPAGE", None), mmap.PAGESIZE  # Linux has the advice
    if memory.nbytes < HUGE_FROM or advice is None:
        return
    import ctypes

    start = -(-memory.ctypes.data // page) * page
    end = (memory.ctypes.data + memory.nbytes) // page * page
    # advice: whatever comes of it, the memory is the same
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)


class Buffer:
    """A storage buffer of `nbytes` bytes on one device."""

    def __init__(self, pool: Pool, block: Block, nbytes: int) -> None:
        self.pool, self.block, self.nbytes = pool, block, nbytes
        self.handle = block.handle
        self.offset = 0
        self._release = weakref.finalize(self, pool.release, block)
        self._release.atexit = False

    def __repr__(self) -> str:
        return f"<Buffer of {self.nbytes} bytes{'' if self._release.alive else ', closed'}>"

    def close(self) -> None:
        """Give the memory back; the buffer and its views must not be used afterwards. Closing twice is harmless."""
        self._release()

    def part(self, offset: int, nbytes: int) -> Part:
        """A piece to bind in place of the whole: offset a multiple of the device's binding alignment."""
        alignment = self.pool.device.info.binding_alignment
        if offset % alignment or offset < 0 or nbytes <= 0 or offset + nbytes > self.nbytes:
            raise LaunchError(
                f"part [{offset}, {offset + nbytes}) of a buffer of {self.nbytes} bytes: must lie inside and start at "
                f"a multiple of {alignment} on {self.pool.device.info.name}"
            )
        return Part(self, offset, nbytes)

    def view(self, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[Any]:
        """The mapped memory itself as a flat array, valid until `close`; `UnavailableError` where it is not mapped."""
        self._check(0, self.nbytes)
        if self.block.bytes is None:
            raise UnavailableError(f"buffers of {self.pool.device.info.name} are not mapped here; use write and read")
        return self.block.bytes[: self.nbytes].view(dtype)

    def write(self, array: npt.NDArray[Any], offset: int = 0) -> None:
        """Copy a C-contiguous array's bytes into the buffer, starting at byte `offset`."""
        data = _flat(array)
        self._check(offset, data.nbytes)
        if self.block.bytes is not None:
            self.block.bytes[offset : offset + data.nbytes] = data
        else:
            self.pool.upload(self.block, offset, data)

    def read_into(self, array: npt.NDArray[Any], offset: int = 0) -> None:
        """Fill a C-contiguous array from the buffer, starting at byte `offset`."""
        data = _flat(array)
        self._check(offset, data.nbytes)
        if self.block.bytes is not None and (self.block.cached or data.nbytes <= 4096):
            data[:] = self.block.bytes[offset : offset + data.nbytes]
        else:
            self.pool.download(self.block, offset, data)

    def read(
        self, dtype: npt.DTypeLike = np.uint32, shape: int | tuple[int, ...] | None = None, offset: int = 0
    ) -> npt.NDArray[Any]:
        """A new array of `dtype` and `shape` (default: flat, all of the rest) with the buffer's bytes from `offset`."""
        if shape is None:
            shape = (self.nbytes - offset) // np.dtype(dtype).itemsize
        array = np.empty(shape, dtype)
        self.read_into(array, offset)
        return array

    def _check(self, offset: int, nbytes: int) -> None:
        if not self._release.alive:
            raise LaunchError("the buffer is closed")
        if offset < 0 or offset + nbytes > self.nbytes:
            raise LaunchError(f"bytes [{offset}, {offset + nbytes}) are outside a buffer of {self.nbytes} bytes")
        self.pool.device.check_alive()


class Part:
    """A piece of a buffer, to be bound."""

    def __init__(self, buffer: Buffer, offset: int, nbytes: int) -> None:
        self.buffer, self.offset, self.nbytes = buffer, offset, nbytes
        self.handle = buffer.handle
        self._release = buffer._release


def _flat(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of a C-contiguous array, not copied."""
    if not array.flags.c_contiguous:
        raise LaunchError(f"an array of shape {array.shape} and strides {array.strides} is not C-contiguous")
    return array.reshape(-1).view(np.uint8)


def _size_class(nbytes: int) -> int:
    """`nbytes` rounded up so that sizes near each other share freed memory: to 1/8 of a power of two, 256 at least."""
    step = 1 << max(6, (nbytes - 1).bit_length() - 4)
    return max(256, -(-nbytes // step) * step)


class Pool:
    """All buffers of one device."""

    def __init__(self, device: Device) -> None:
        self.device, self.vk = device, device.vk
        self._free: dict[int, list[Block]] = {}
        self._free_bytes = 0
        self._all: dict[int, Block] = {}  # every block that exists, by id
        self._staging: Buffer | None = None
        self._direct, self._host = self._memory_types()
        self.closed = False

    # ---- memory types ------------------------------------------------------------------------------------------

    def _memory_types(self) -> tuple[list[int], list[int]]:
        """Memory type indices in order of preference: for buffers, and for staging (always mapped and coherent)."""
        vk = self.vk
        properties = vk.ffi.new("VkPhysicalDeviceMemoryProperties*")
        vk.vkGetPhysicalDeviceMemoryProperties(self.device.physical, properties)
        local, visible = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
        coherent, cached = vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
        mapped = visible | coherent
        self._flags = [properties.memoryTypes[i].propertyFlags for i in range(properties.memoryTypeCount)]
        self._mapped, self._cached = mapped, cached

        def having(*wanted: int) -> list[int]:
            found: list[int] = []
            for flags in wanted:
                found += [i for i, has in enumerate(self._flags) if has & flags == flags and i not in found]
            return found

        if self.device.info.kind == "discrete":
            direct = having(local | mapped | cached, local | mapped, local, mapped)
        else:
            direct = having(local | mapped | cached, mapped | cached, local | mapped, mapped, local)
        return direct, having(mapped | cached, mapped)

    # ---- blocks ------------------------------------------------------------------------------------------------

    def buffer(self, nbytes: int, kinds: list[int] | None = None) -> Buffer:
        """A buffer of at least one word; contents undefined."""
        if self.closed:
            raise LaunchError(f"the device {self.device.info.name} is closed")
        size = _size_class(nbytes)
        free = self._free.get(size) if kinds is None else None
        if free:
            block = free.pop()
            self._free_bytes -= size
        else:
            try:
                block = self._allocate(size, kinds or self._direct)
            except OutOfMemory:
                self.trim()
                block = self._allocate(size, kinds or self._direct)
        return Buffer(self, block, nbytes)

    def _allocate(self, size: int, kinds: list[int]) -> Block:
        vk, device = self.vk, self.device.handle
        usage = (
            vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
            | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
            | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
        )
        info = vk.make("VkBufferCreateInfo", size=size, usage=usage, sharingMode=vk.VK_SHARING_MODE_EXCLUSIVE)
        handle = vk.create("vkCreateBuffer", "VkBuffer", device, info)
        memory = None
        try:
            needs = vk.ffi.new("VkMemoryRequirements*")
            vk.vkGetBufferMemoryRequirements(device, handle, needs)
            memory, flags = self._memory(needs, kinds)
            vk.call("vkBindBufferMemory", device, handle, memory, 0)
            mapping = self._map(memory, size) if flags & self._mapped == self._mapped else None
        except BaseException:
            vk.vkDestroyBuffer(device, handle, vk.null)
            if memory is not None:
                vk.vkFreeMemory(device, memory, vk.null)
            raise
        block = Block(handle, memory, size, mapping, bool(flags & self._cached), kinds is self._direct)
        self._all[id(block)] = block
        return block

    def _memory(self, needs: Any, kinds: list[int]) -> tuple[Any, int]:
        """Memory of the first type in `kinds` that takes the buffer and has room, and the type's flags."""
        vk = self.vk
        allowed = [i for i in kinds if needs.memoryTypeBits >> i & 1]
        for i in allowed:
            info = vk.make("VkMemoryAllocateInfo", allocationSize=needs.size, memoryTypeIndex=i)
            try:
                return vk.create("vkAllocateMemory", "VkDeviceMemory", self.device.handle, info), self._flags[i]
            except OutOfMemory:
                if i == allowed[-1]:
                    raise
        raise UnavailableError(f"{self.device.info.name} has no memory type for storage buffers")

    def _map(self, memory: Any, size: int) -> npt.NDArray[np.uint8]:
        """The memory as bytes; it stays mapped until it is freed."""
        vk = self.vk
        pointer = vk.ffi.new("void**")
        vk.call("vkMapMemory", self.device.handle, memory, 0, size, 0, pointer)
        found = np.frombuffer(vk.ffi.buffer(pointer[0], size), np.uint8)
        if self.device.info.kind == "cpu":
            _advise_huge_pages(found)
        return found

    def release(self, block: Block) -> None:
        """Take a block back: for reuse, or to be freed where enough is kept."""
        if self.closed or id(block) not in self._all:
            return
        if not block.pooled or self._free_bytes + block.nbytes > POOL_BYTES or not self.device.alive:
            self._destroy(block)
        else:
            self._free.setdefault(block.nbytes, []).append(block)
            self._free_bytes += block.nbytes

    def _destroy(self, block: Block) -> None:
        del self._all[id(block)]
        if not self.device.alive:
            return  # the device was lost or abandoned at work: its memory goes with the process
        self.device.queue.forget()
        self.vk.vkDestroyBuffer(self.device.handle, block.handle, self.vk.null)
        self.vk.vkFreeMemory(self.device.handle, block.memory, self.vk.null)

    def trim(self) -> None:
        """Free all memory that waits for reuse."""
        free, self._free, self._free_bytes = self._free, {}, 0
        for blocks in free.values():
            for block in blocks:
                self._destroy(block)

    def close(self) -> None:
        """Free everything, also what is still in use somewhere."""
        for block in list(self._all.values()):
            self._destroy(block)
        self._free.clear()
        self.closed = True

    # ---- staging -----------------------------------------------------------------------------------------------

    def _staged(self) -> tuple[Buffer, npt.NDArray[np.uint8]]:
        if self._staging is None:
            self._staging = self.buffer(STAGING_BYTES, self._host)
        mapped = self._staging.block.bytes
        assert mapped is not None
        return self._staging, mapped

    def upload(self, block: Block, offset: int, data: npt.NDArray[np.uint8]) -> None:
        """Bytes from the host to a block, piece by piece."""
        with self.device.lock:
            staging, mapped = self._staged()
            for at in range(0, data.nbytes, STAGING_BYTES):
                piece = data[at : at + STAGING_BYTES]
                mapped[: piece.nbytes] = piece
                self.device.queue.copy(staging.handle, 0, block.handle, offset + at, piece.nbytes)

    def download(self, block: Block, offset: int, data: npt.NDArray[np.uint8]) -> None:
        """Bytes of a block to the host, piece by piece."""
        with self.device.lock:
            staging, mapped = self._staged()
            for at in range(0, data.nbytes, STAGING_BYTES):
                piece = data[at : at + STAGING_BYTES]
                self.device.queue.copy(block.handle, offset + at, staging.handle, 0, piece.nbytes)
                piece[:] = mapped[: piece.nbytes]
