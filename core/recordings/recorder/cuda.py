"""A recorder on an NVIDIA card through the CUDA driver."""

from __future__ import annotations

import ctypes

import numpy as np

from .driver import Card, Kernel
from .mma_ptx import gemm_kernel, layout, tile_kernel
from .plan import Job
from .scalar_ptx import kernel

_BLOCK = 128


class CudaRecorder:
    """Runs jobs with the PTX of this package, one module per job. Use as a context manager."""

    def __init__(self, index: int = 0) -> None:
        self.card = Card(index)
        self.name = self.card.name
        self.capability = self.card.capability
        self.driver_version = self.card.driver_version

    def __enter__(self) -> CudaRecorder:
        return self

    def __exit__(self, *arguments: object) -> None:
        self.card.__exit__(*arguments)

    def supports(self, job: Job) -> str:
        """The driver assembles every job of the plan."""
        return ""

    def describe(self, job: Job) -> str:
        """The PTX spelling."""
        return job.ptx

    def run(self, job: Job) -> np.ndarray:
        """Output codes of a job. RecordingError if the card refuses the kernel."""
        return {"scalar": self._scalar, "matrix": self._matrix, "gemm": self._gemm}[job.kind](job)

    def _scalar(self, job: Job) -> np.ndarray:
        assert job.body is not None
        function = self.card.kernel(kernel("body", job.body, self.capability), "body", job.body.patch)
        operands = list(job.inputs.values())
        buffers = [self.card.upload(operand) for operand in operands]
        like = job.output_like
        out = self.card.upload(np.full_like(like, -1 if like.dtype == np.bool_ else np.iinfo(like.dtype).max))
        count = len(operands[0])
        addresses = [buffer.address for buffer in buffers] + [ctypes.c_uint64()] * (3 - len(buffers))
        function.launch((-(-count // _BLOCK), 1), _BLOCK, ctypes.c_uint32(count), *addresses, out.address)
        result = out.download(like)
        self._release(function, *buffers, out)
        if job.body.result == "pred":
            return result.astype(np.bool_)
        return result

    def _matrix(self, job: Job) -> np.ndarray:
        fragments = layout(job.row)
        function = self.card.kernel(tile_kernel("tiles", job.row, self.capability), "tiles")
        a, b, c = job.inputs.values()
        packed_c = fragments.c.pack(c)
        buffers = [self.card.upload(words) for words in (fragments.a.pack(a), fragments.b.pack(b), packed_c, ~packed_c)]
        count = 32 * len(a)
        function.launch(
            (-(-count // _BLOCK), 1), _BLOCK, ctypes.c_uint32(count), *(buffer.address for buffer in buffers)
        )
        words = buffers[3].download(packed_c)
        self._release(function, *buffers)
        return fragments.c.unpack(words, c.shape[1:])

    def _gemm(self, job: Job) -> np.ndarray:
        shape = job.row.shape
        assert shape is not None
        fragments = layout(job.row)
        function = self.card.kernel(gemm_kernel("gemm", job.row, self.capability), "gemm")
        a, b, c = job.inputs.values()
        mts, kts, nts = a.shape[0] // shape.m, a.shape[1] // shape.k, b.shape[1] // shape.n
        packed_c = fragments.c.pack(tiled(c, shape.m, shape.n))
        order = np.array(job.k_order, np.uint32)
        words = (
            fragments.a.pack(tiled(a, shape.m, shape.k)),
            fragments.b.pack(tiled(b, shape.k, shape.n)),
            packed_c,
            ~packed_c,
            order,
        )
        buffers = [self.card.upload(array) for array in words]
        function.launch(
            (nts, mts), 32, ctypes.c_uint32(kts), ctypes.c_uint32(nts), *(buffer.address for buffer in buffers)
        )
        result = fragments.c.unpack(buffers[3].download(packed_c), (shape.m, shape.n))
        self._release(function, *buffers)
        return untiled(result, c.shape)

    def _release(self, function: Kernel, *buffers) -> None:  # type: ignore[no-untyped-def]
        for buffer in buffers:
            buffer.free()
        function.unload()


def tiled(matrix: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """[m, n] -> [tiles in row-major order, rows, columns]."""
    m, n = matrix.shape
    return matrix.reshape(m // rows, rows, n // columns, columns).swapaxes(1, 2).reshape(-1, rows, columns)


def untiled(tiles: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of `tiled`."""
    rows, columns = tiles.shape[1:]
    return np.ascontiguousarray(
        tiles.reshape(shape[0] // rows, shape[1] // columns, rows, columns).swapaxes(1, 2).reshape(shape)
    )
