"""The CUDA driver API through ctypes: a card, modules from PTX text, buffers, launches.

Nothing but the driver's own library is needed. PTX is assembled by the driver; where a body asks for a constant of the
assembled code to be replaced, the driver's linker hands out the code first (rule 1 of `Card.module`).
"""

from __future__ import annotations

import ctypes
import struct
from ctypes.util import find_library
from dataclasses import dataclass

import numpy as np

from ...errors import RecordingError, UnavailableError

_PTX_INPUT = 1  # CU_JIT_INPUT_PTX
_INFO_BUFFER, _INFO_SIZE, _ERROR_BUFFER, _ERROR_SIZE = 3, 4, 5, 6  # CUjit_option
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


class Driver:
    """libcuda, with every call checked."""

    def __init__(self) -> None:
        for name in ("libcuda.so.1", find_library("cuda"), "nvcuda.dll"):
            try:
                self._library = ctypes.CDLL(name) if name else None
            except OSError:
                self._library = None
            if self._library is not None:
                break
        if self._library is None:
            raise UnavailableError(
                "recording needs an NVIDIA card and its driver, and libcuda.so.1 was not found here; install the "
                "NVIDIA driver (no CUDA toolkit is needed), or record on another machine"
            )
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))  # type: ignore[union-attr]
            raise DriverError(f"{name} failed: {(text.value or b'?').decode()} (status {status})")


class DriverError(RecordingError):
    """A driver call failed; the message names the call and the driver's words."""

    exit_status = 4


@dataclass
class Kernel:
    """A function of a loaded module."""

    card: Card
    handle: ctypes.c_void_p
    module: ctypes.c_void_p

    def launch(self, grid: tuple[int, int], block: int, *arguments: ctypes.c_uint32 | ctypes.c_uint64) -> None:
        """Run and wait. Arguments are 32-bit counts or device addresses."""
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        self.card.driver.call("cuLaunchKernel", self.handle, grid[0], grid[1], 1, block, 1, 1, 0, None, pointers, None)
        self.card.driver.call("cuCtxSynchronize")

    def unload(self) -> None:
        self.card.driver.call("cuModuleUnload", self.module)


class Card:
    """One NVIDIA card with its primary context. Use as a context manager."""

    def __init__(self, index: int = 0) -> None:
        self.driver = Driver()
        device = ctypes.c_int()
        self.driver.call("cuDeviceGet", ctypes.byref(device), index)
        self._device = device
        name = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", name, 256, device)
        self.name = name.value.decode()
        major, minor = (self._attribute(number) for number in (_MAJOR, _MINOR))
        self.capability = 10 * major + minor
        self.driver_version = _driver_version(self.driver)
        context = ctypes.c_void_p()
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.driver.call("cuCtxSetCurrent", context)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def kernel(self, ptx: str, name: str, patch: tuple[int, int] | None = None) -> Kernel:
        """Assemble PTX and take its function `name`.

        patch: a 32-bit constant of the assembled code and its replacement; it must occur exactly once.
        """
        image = ptx.encode() if patch is None else _patched(self._assemble(ptx), *patch)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(4096)
        options = (ctypes.c_int * 2)(_ERROR_BUFFER, _ERROR_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), 4096)
        try:
            self.driver.call("cuModuleLoadDataEx", ctypes.byref(module), ctypes.c_char_p(image), 2, options, values)
        except DriverError as error:
            raise DriverError(f"{name}: {error}\n{log.value.decode(errors='replace')}") from None
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return Kernel(self, function, module)

    def _assemble(self, ptx: str) -> bytes:
        state, image, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        text = ptx.encode() + b"\0"
        self.driver.call("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
        try:
            self.driver.call(
                "cuLinkAddData_v2",
                state,
                _PTX_INPUT,
                ctypes.c_char_p(text),
                ctypes.c_size_t(len(text)),
                b"body.ptx",
                0,
                None,
                None,
            )
            self.driver.call("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(size))
            return ctypes.string_at(image.value or 0, size.value)
        finally:
            self.driver.call("cuLinkDestroy", state)

    def upload(self, array: np.ndarray) -> Buffer:
        buffer = Buffer(self, array.nbytes)
        contiguous = np.ascontiguousarray(array)
        self.driver.call(
            "cuMemcpyHtoD_v2",
            buffer.address,
            ctypes.c_void_p(contiguous.ctypes.data),
            ctypes.c_size_t(contiguous.nbytes),
        )
        return buffer


class Buffer:
    """Device memory; `address` is a kernel argument."""

    def __init__(self, card: Card, size: int) -> None:
        self._card = card
        self.size = size
        self.address = ctypes.c_uint64()
        card.driver.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(max(size, 16)))

    def download(self, like: np.ndarray) -> np.ndarray:
        """Contents as an array of this shape and dtype."""
        host = np.empty_like(like, order="C")
        self._card.driver.call(
            "cuMemcpyDtoH_v2", ctypes.c_void_p(host.ctypes.data), self.address, ctypes.c_size_t(host.nbytes)
        )
        return host

    def free(self) -> None:
        self._card.driver.call("cuMemFree_v2", self.address)


def _patched(image: bytes, old: int, new: int) -> bytes:
    """The assembled code with one 32-bit constant replaced."""
    before, after = struct.pack("<I", old), struct.pack("<I", new)
    found = image.count(before)
    if found != 1:
        raise DriverError(
            f"the constant {old:08x} occurs {found} times in the assembled code, expected once: this driver "
            "assembles the body differently, so the row cannot be recorded"
        )
    return image.replace(before, after)


def _driver_version(driver: Driver) -> str:
    """The driver's release (from its management library), else the CUDA version it implements."""
    cuda = ctypes.c_int()
    driver.call("cuDriverGetVersion", ctypes.byref(cuda))
    version = f"CUDA {cuda.value // 1000}.{cuda.value % 1000 // 10}"
    try:
        management = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(96)
        if management.nvmlInit_v2() == 0 and management.nvmlSystemGetDriverVersion(text, 96) == 0:
            return f"{text.value.decode()} ({version})"
    except (OSError, AttributeError):
        pass
    return version
