"""A recorder through Vulkan alone: the matrix rows that a device offers by VK_KHR_cooperative_matrix.

Rules
 1. A row is recorded where the device offers its exact shape and types at subgroup scope. The driver chooses the
    instruction; on NVIDIA that is the one mma.sync of that shape names, which recordings of one card both ways show.
 2. Vulkan does not say which architecture a device is: the CUDA driver is asked where it is there, else the user.
"""

from __future__ import annotations

import numpy as np

from ...errors import RecordingError, UnavailableError, UsageError
from ...gpu import cooperative
from ...gpu.device import open_device
from .plan import Job


class VulkanRecorder:
    """Runs matrix jobs as cooperative-matrix multiply-adds. Use as a context manager.

    capability: of the device, where the CUDA driver cannot be asked.
    """

    def __init__(self, device: str | int = 0, capability: int | None = None) -> None:
        self.device = open_device(f"vulkan:{device}")
        info = self.device.info
        if cooperative.EXTENSION not in info.extensions:
            raise UnavailableError(
                f"{info.name} has no {cooperative.EXTENSION}; record with --via cuda, or on a newer driver"
            )
        self.offers = cooperative.offers(self.device)
        self.name = info.name
        self.driver_version = f"{info.driver_name} {info.driver_info} (Vulkan)"
        self.capability = capability if capability is not None else _capability(info.name)

    def __enter__(self) -> VulkanRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        """The device stays open for whoever else uses it; it is closed at exit."""

    def supports(self, job: Job) -> str:
        """Empty, or why the device cannot run the job."""
        if job.kind != "matrix":
            return "Vulkan offers matrix rows only"
        wanted = cooperative.offer_of(job.row)
        if wanted is None or wanted not in self.offers:
            return f"{self.name} offers no cooperative matrix of this shape and these types"
        return ""

    def run(self, job: Job) -> np.ndarray:
        """Output codes of a matrix job."""
        try:
            return cooperative.multiply_add(self.device, job.row, *job.inputs.values())
        except UnavailableError as fault:
            raise RecordingError(f"{job.name}: {fault}") from None

    def describe(self, job: Job) -> str:
        """What was executed, for the manifest."""
        shape = job.row.shape
        assert shape is not None
        return f"OpCooperativeMatrixMulAddKHR {shape.m}x{shape.n}x{shape.k}"


def _capability(name: str) -> int:
    from .driver import Card

    try:
        with Card() as card:
            if card.name in name or name in card.name:
                return card.capability
    except UnavailableError:
        pass
    raise UsageError(f"Vulkan does not say which architecture {name} is; add --capability 86 (or what it is)")
