"""Cooperative matrices (SPV_KHR_cooperative_matrix): one matrix that the lanes of a subgroup hold together.

1. The extension's loads and stores are defined in the Vulkan memory model, so a module with them uses it: `use` turns
   the builder over, whose loads and stores of workgroup memory and buffers are then non-private and whose barriers make
   writes available and visible.
2. A matrix is loaded from and stored to an array of scalars or vectors of its own component type; `stride` counts
   elements of that array.
3. The instructions must be met by all lanes of a subgroup alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from .builder import Array, Builder, Value
from .module import NON_PRIVATE_POINTER, SCOPE_SUBGROUP

A, B, ACCUMULATOR = 0, 1, 2  # CooperativeMatrixUse
ROW_MAJOR, COLUMN_MAJOR = 0, 1  # CooperativeMatrixLayout


@dataclass(frozen=True)
class MatrixType:
    """component: kind of an element, f16 or f32. use: `A`, `B` or `ACCUMULATOR`."""

    component: str
    rows: int
    columns: int
    use: int


class Matrix:
    """One matrix as an SSA value."""

    def __init__(self, b: Builder, type_: MatrixType, id: int) -> None:
        self.b, self.type, self.id = b, type_, id


class MatrixVariable:
    """A Function variable that holds a matrix."""

    def __init__(self, b: Builder, type_: MatrixType) -> None:
        self.b, self.type = b, type_
        self.pointer = b.function_variable(_type(b, type_), ("matrix", type_))

    def load(self) -> Matrix:
        return Matrix(self.b, self.type, self.b.raw("Load", _type(self.b, self.type), self.pointer))

    def store(self, matrix: Matrix) -> None:
        assert matrix.type == self.type
        self.b.emit("Store", self.pointer, matrix.id)


def use(b: Builder) -> None:
    """Makes a shader one that may have matrices; before anything is emitted."""
    b.use_vulkan_memory_model()
    b.capability("CooperativeMatrixKHR")
    b.extensions.add("SPV_KHR_cooperative_matrix")


def load(b: Builder, type_: MatrixType, array: Array, index: Value, stride: int, layout: int = ROW_MAJOR) -> Matrix:
    """The matrix whose first element is at `index`."""
    words = (b.u32(layout).id, b.u32(stride).id, NON_PRIVATE_POINTER)
    return Matrix(b, type_, b.raw("CooperativeMatrixLoadKHR", _type(b, type_), array.pointer(index), *words))


def store(matrix: Matrix, array: Array, index: Value, stride: int) -> None:
    """Writes a matrix in rows."""
    b = matrix.b
    words = (b.u32(ROW_MAJOR).id, b.u32(stride).id, NON_PRIVATE_POINTER)
    b.emit("CooperativeMatrixStoreKHR", array.pointer(index), matrix.id, *words)


def multiply_add(x: Matrix, y: Matrix, z: Matrix) -> Matrix:
    """x y + z."""
    assert (x.type.use, y.type.use, z.type.use) == (A, B, ACCUMULATOR)
    assert (x.type.columns, x.type.rows, y.type.columns) == (y.type.rows, z.type.rows, z.type.columns)
    b = x.b
    return Matrix(b, z.type, b.raw("CooperativeMatrixMulAddKHR", _type(b, z.type), x.id, y.id, z.id))


def _type(b: Builder, type_: MatrixType) -> int:
    words = (SCOPE_SUBGROUP, type_.rows, type_.columns, type_.use)
    component = b.type(type_.component)
    return b.typed(("matrix", type_), "TypeCooperativeMatrixKHR", component, *(b.u32(word).id for word in words))
