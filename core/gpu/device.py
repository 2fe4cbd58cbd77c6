"""Vulkan devices: list them, choose one by name, open it, use it, close it in the right order.

Names (design.md section 10): `vulkan` is the first usable of discrete, integrated, virtual, CPU; `vulkan:<index>`
counts in that order, of one kind the device that offers more features first; `vulkan:<part of the name>` must match one
device. `reference` is no Vulkan device and not known here.

Usable: Vulkan 1.1, a compute queue, and a smoke dispatch with the right answer.

1. One VkInstance and at most one open `Device` per physical device and process; all are closed at exit, the pipeline
   cache written, the instance last. A forked child starts afresh and never touches its parent's.
2. A device that was lost, or abandoned with work on it, is never used or freed again; the next `open_device` opens a
   new one.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DispatchTimeout, LaunchError, PhobosError, UnavailableError, UsageError
from .dispatch import Item, Queue
from .memory import Buffer, Part, Pool
from .physical import ORDER, DeviceInfo, Version, describe, enabled_features, version_of
from .pipeline import Pipeline, Pipelines
from .target import Target
from .vulkan import LOADER_HINT, Api, api

__all__ = ["Device", "DeviceInfo", "all_devices", "close_all", "devices", "emitter_hash", "open_device", "why_unusable"]

SMOKE_SECONDS = 60.0


@dataclass
class _State:
    """The process's instance, what it lists, and what is open."""

    pid: int = field(default_factory=os.getpid)
    instance: Any = None
    version: Version = (1, 0)
    physical: list[tuple[DeviceInfo, Any]] = field(default_factory=list)
    opened: dict[int, Device] = field(default_factory=dict)
    unusable: dict[int, str] = field(default_factory=dict)
    abandoned: bool = False


_state = _State()
_lock = threading.RLock()


class Device:
    """An open Vulkan device. Made by `open_device`; `target` is replaced by the probe once its verdict is known."""

    def __init__(self, info: DeviceInfo, physical: Any) -> None:
        vk = self.vk = api()
        self.info, self.physical = info, physical
        self.target: Target = info.target()
        #: Answers of the probe: instructions asked for -> the target then, and with their forms (`probe.target_for`).
        self.targets: dict[tuple[tuple[str, ...], str | None], tuple[Target, Target]] = {}
        self.lock = threading.RLock()
        self.alive = False
        priorities = vk.ffi.new("float[]", [1.0])
        queue = vk.make(
            "VkDeviceQueueCreateInfo", queueFamilyIndex=info.queue_family, queueCount=1, pQueuePriorities=priorities
        )
        features, extensions = self.wanted_features()
        create = vk.make(
            "VkDeviceCreateInfo",
            pNext=features,
            queueCreateInfoCount=1,
            pQueueCreateInfos=[queue],
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=extensions or None,
        )
        self.handle = vk.create("vkCreateDevice", "VkDevice", physical, create)
        self.alive = True
        self.pipelines = Pipelines(self)
        self._start()

    def _start(self) -> None:
        """What it takes to run anything."""
        self.queue = Queue(self)
        self.memory = Pool(self)

    def _stop(self) -> None:
        self.queue.close()
        self.memory.close()

    def wanted_features(self) -> tuple[Any, list[str]]:
        """The feature chain and the extensions that the device is created with."""
        return enabled_features(self.vk, self.info)

    def __repr__(self) -> str:
        return f"<Device {self.info.name}{'' if self.alive else ', not alive'}>"

    @property
    def name(self) -> str:
        return self.info.name

    def buffer(self, data: int | npt.NDArray[Any]) -> Buffer:
        """A storage buffer: of so many bytes, contents undefined, or holding a C-contiguous array's bytes.

        It is rounded up to whole words. Errors: `LaunchError` above maxStorageBufferRange, `OutOfMemory`.
        """
        nbytes = data if isinstance(data, int) else data.nbytes
        self.check_alive()
        limit = self.info.max_buffer_bytes
        if not 0 <= nbytes <= limit:
            raise LaunchError(
                f"a buffer of {nbytes} bytes: {self.info.name} binds {limit} at most (maxStorageBufferRange); "
                "use smaller arrays, launch in pieces or choose another device"
            )
        with self.lock:
            buffer = self.memory.buffer(max(4, nbytes + -nbytes % 4))
            if not isinstance(data, int):
                buffer.write(data)
        return buffer

    def pipeline(self, spirv: bytes, bindings: int, push_words: int = 0, subgroup_size: int | None = None) -> Pipeline:
        """The compiled form of a module whose entry point is `main`; cached by content.

        bindings: storage buffers in set 0, numbered from 0. push_words: 32-bit push constants.
        subgroup_size: demanded, with full subgroups; `UnavailableError` where the device cannot promise it.
        """
        self.check_alive()
        with self.lock:
            return self.pipelines.get(spirv, bindings, push_words, subgroup_size)

    def dispatch(
        self,
        pipeline: Pipeline,
        buffers: Sequence[Buffer | Part],
        push: Sequence[int] = (),
        groups: tuple[int, int, int] = (1, 1, 1),
    ) -> float:
        """Run one shader and wait; returns seconds from submission to completion."""
        return self.queue.run(((pipeline, buffers, push, groups),))

    def run(self, batch: Sequence[Item]) -> float:
        """Run (pipeline, buffers, push, groups) one after the other, each seeing what those before it wrote."""
        return self.queue.run(batch)

    def seconds_of(self, batch: Sequence[Item], repeats: int = 5) -> list[float]:
        """Seconds of each of `repeats` runs of the same batch, after one that is not counted (it compiles)."""
        self.queue.run(batch)
        return [self.queue.run(batch) for _ in range(repeats)]

    def check_alive(self) -> None:
        if not self.alive:
            raise UnavailableError(f"the device {self.info.name} is closed or was lost; open it again")

    def abandon(self) -> None:
        """Never touch the device again: it was lost, or work on it does not end."""
        self.alive = False
        _state.abandoned = True
        if _state.opened.get(self.info.index) is self:
            del _state.opened[self.info.index]

    def close(self) -> None:
        """Free everything on the device. Closing twice is harmless."""
        with self.lock:
            if not self.alive:
                return
            self._stop()
            self.pipelines.close()
            self.vk.vkDestroyDevice(self.handle, self.vk.null)
            self.alive = False
        if _state.opened.get(self.info.index) is self:
            del _state.opened[self.info.index]


# ---- the instance ------------------------------------------------------------------------------------------------


def _instance_version(vk: Api) -> Version:
    packed = vk.ffi.new("uint32_t*")
    vk.call("vkEnumerateInstanceVersion", packed)
    return version_of(packed[0])[:2]


def _load() -> _State:
    """The process's state with an instance and its devices listed, in the order of design.md section 10."""
    with _lock:
        if _state.pid != os.getpid():
            _forget()
        if _state.instance is None:
            vk = api()
            try:
                _state.version = min(_instance_version(vk), (1, 3))
            except AttributeError:
                raise UnavailableError(f"the Vulkan loader of this machine is of version 1.0; {LOADER_HINT}") from None
            _state.instance = _create_instance(vk, _state.version)
            handles = list(vk.several("vkEnumeratePhysicalDevices", "VkPhysicalDevice", _state.instance))
            found = [(describe(vk, handle, _state.version), handle) for handle in handles]
            found.sort(key=lambda pair: (ORDER[pair[0].kind], -len(pair[0].features)))
            _state.physical = [(replace(info, index=i), handle) for i, (info, handle) in enumerate(found)]
        return _state


def _create_instance(vk: Api, version: Version) -> Any:
    application = vk.make(
        "VkApplicationInfo", pApplicationName="phobos-sim", apiVersion=version[0] << 22 | version[1] << 12
    )
    offered = vk.several("vkEnumerateInstanceExtensionProperties", "VkExtensionProperties", vk.null)
    names = {vk.text(e.extensionName) for e in offered}
    wanted = [name for name in ("VK_KHR_portability_enumeration",) if name in names]
    info = vk.make(
        "VkInstanceCreateInfo",
        flags=vk.VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR if wanted else 0,
        pApplicationInfo=application,
        enabledExtensionCount=len(wanted),
        ppEnabledExtensionNames=wanted or None,
    )
    return vk.create("vkCreateInstance", "VkInstance", None, info)


def _forget() -> None:
    """Drop all state without freeing anything: it belongs to another process, or work on it does not end."""
    global _state, _lock
    for device in _state.opened.values():
        device.alive = False
    _state = _State()
    _lock = threading.RLock()  # another thread of the parent may have held it at the fork


def close_all() -> None:
    """Close every open device, then the instance. Runs at exit."""
    with _lock:
        if _state.pid != os.getpid() or _state.instance is None:
            return
        for device in list(_state.opened.values()):
            device.close()
        if not _state.abandoned:
            api().vkDestroyInstance(_state.instance, api().null)
        _forget()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget)


# ---- choosing ----------------------------------------------------------------------------------------------------


def all_devices() -> list[DeviceInfo]:
    """Every physical device that the loader reports, usable or not, in the order that `vulkan:<index>` counts."""
    return [info for info, _ in _load().physical]


def why_unusable(info: DeviceInfo) -> str:
    """Why a device cannot be used, or an empty string. Opens it."""
    try:
        _open(info.index)
    except PhobosError as error:
        return str(error)
    return ""


def devices() -> list[DeviceInfo]:
    """The usable devices; empty where there is no loader, no driver or none that passes."""
    try:
        return [info for info in all_devices() if not why_unusable(info)]
    except UnavailableError:
        return []


def open_device(name: str | None = None) -> Device:
    """The device of that name, opened at the first asking; None is `vulkan`: the first usable one.

    Errors: `UsageError` for a name that is none or that fits several, `UnavailableError` for what is not there.
    """
    kind, colon, part = (name or "vulkan").partition(":")
    if kind != "vulkan" or (colon and not part.strip()):
        raise UsageError(
            f"unknown device {name!r}: use `reference`, `vulkan`, `vulkan:<index>` or `vulkan:<part of the name>` "
            "(`phobos-sim doctor` lists what is here)"
        )
    known = all_devices()
    if not known:
        raise UnavailableError(f"the Vulkan loader reports no device; {LOADER_HINT}")
    if not colon:
        reasons = []
        for info in known:
            reason = why_unusable(info)
            if not reason:
                return _open(info.index)
            reasons.append(f"{info.name}: {reason}")
        raise UnavailableError(f"no usable Vulkan device; {'; '.join(reasons)}")
    return _open(_pick(known, part.strip()).index)


def _pick(known: list[DeviceInfo], part: str) -> DeviceInfo:
    """The one device that an index or a part of a name means."""
    listing = ", ".join(f"vulkan:{info.index} {info.name}" for info in known)
    if part.isdecimal():
        if int(part) >= len(known):
            raise UnavailableError(f"no device vulkan:{part}; there are {listing}")
        return known[int(part)]
    lower = part.lower()
    matches = [info for info in known if info.name.lower() == lower] or [
        info for info in known if lower in info.name.lower()
    ]
    if not matches:
        raise UnavailableError(f"no Vulkan device has {part!r} in its name; there are {listing}")
    if len(matches) > 1:
        several = ", ".join(f"vulkan:{info.index} {info.name}" for info in matches)
        raise UsageError(f"vulkan:{part} is ambiguous; it fits {several}; choose one by its index")
    return matches[0]


def _open(index: int) -> Device:
    """The open device at an index, after its smoke dispatch."""
    with _lock:
        state = _load()
        if index in state.opened:
            return state.opened[index]
        if index in state.unusable:
            raise UnavailableError(state.unusable[index])
        info, physical = state.physical[index]
        try:
            device = _open_checked(info, physical)
        except DispatchTimeout:
            raise UnavailableError(
                f"{info.name} did not finish a test dispatch within {SMOKE_SECONDS:g} s"
                f"{' (an abandoned one may still run on it)' if state.abandoned else ''}"
            ) from None
        except PhobosError as error:
            state.unusable[index] = str(error)
            raise
        state.opened[index] = device
        return device


def _open_checked(info: DeviceInfo, physical: Any) -> Device:
    if info.version < (1, 1):
        raise UnavailableError(f"{info.name} has Vulkan {info.version[0]}.{info.version[1]}; 1.1 is needed")
    if info.queue_family is None:
        raise UnavailableError(f"{info.name} has no compute queue")
    device = Device(info, physical)
    try:
        _smoke(device)
    except BaseException:
        device.close()
        raise
    return device


@functools.cache
def _smoke_module() -> bytes:
    """out[i] = 3 * in[i] + push[1] on 64 words."""
    from ..spirv.builder import Builder

    b = Builder(local_size=(16, 1, 1))
    b.push_constants(2)
    index = b.builtin("WorkgroupId", 0) * 16 + b.builtin("LocalInvocationId", 0)
    b.buffer(1).store(index, b.buffer(0).load(index) * 3 + b.push(1))
    return b.module()


def _smoke(device: Device) -> None:
    """A dispatch that must give the right answer."""
    words = np.arange(64, dtype=np.uint32) * np.uint32(0x01234567)
    source, target = device.buffer(words), device.buffer(words.nbytes)
    try:
        pipeline = device.pipeline(_smoke_module(), 2, 2)
        device.queue.run([(pipeline, [source, target], [0, 0xFFFFFFF5], (4, 1, 1))], SMOKE_SECONDS)
        wrong = int(np.count_nonzero(target.read() != words * np.uint32(3) + np.uint32(0xFFFFFFF5)))
    finally:
        source.close()
        target.close()
    if wrong:
        raise UnavailableError(f"{device.name}: a test dispatch gave {wrong} wrong words of 64")


@functools.cache
def emitter_hash() -> str:
    """A hash of the sources that make device code, for the keys of caches of what that code did."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder in ("gpu", "isa", "spirv", "tile"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".json"):
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]
