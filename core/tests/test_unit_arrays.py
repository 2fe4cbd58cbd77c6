"""Arrays as codes: views without copies, the right format, and an error for what cannot be read."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers import require_torch
from phobos_sim import arrays
from phobos_sim.errors import UsageError
from phobos_sim.formats import BF16, F16, F32, F64, FORMATS, S32, Format

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, "bool"])
def test_numpy_comes_in_as_a_view(name: str) -> None:
    array = np.zeros((3, 4), name)
    codes, fmt = arrays.as_codes(array)
    assert codes.dtype == fmt.dtype and codes.dtype.kind in "ub"
    codes[1, 2] = 1
    assert array.view(codes.dtype)[1, 2] == 1
    assert arrays.typed(codes, fmt).dtype == array.dtype


def test_bf16_and_strides() -> None:
    array = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    codes, fmt = arrays.as_codes(array.T[::2])
    assert fmt == BF16 and codes.dtype == np.uint16 and np.shares_memory(codes, array)
    assert arrays.typed(codes, BF16).dtype == ml_dtypes.bfloat16
    assert codes[0, 1] == 0x4080  # 4.0


class _Interface:
    """An array of another library that offers `__array_interface__`."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


class _DLPack:
    """An array of another library that offers DLPack only."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> object:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("wrapper", [_Interface, _DLPack])
def test_other_libraries(wrapper: type) -> None:
    array = np.float32([1.0, 2.0])
    codes, fmt = arrays.as_codes(wrapper(array))
    assert fmt == F32 and codes.tolist() == [0x3F800000, 0x40000000]
    assert np.shares_memory(codes, array)


def test_torch() -> None:
    require_torch()
    import torch

    tensor = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    codes, fmt = arrays.as_codes(tensor)
    assert fmt == BF16 and codes.tolist() == [0x3F80, 0x4000]
    codes[0] = 0x4040
    assert tensor[0] == 3.0
    back = arrays.typed(codes, BF16, like=tensor)
    assert back.dtype is torch.bfloat16 and back.tolist() == [3.0, 2.0]
    assert arrays.as_codes(torch.ones(2, dtype=torch.float16, requires_grad=True))[1] == F16


class _Cuda:
    __cuda_array_interface__ = {"shape": (1,)}


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([1.0, 2.0], "list is no array"),
        (np.zeros(2, np.complex64), "no number format for dtype complex64"),
        (np.zeros(2, ">f4"), "byte order"),
        (_Cuda(), "GPU memory"),
        (None, "NoneType is no array"),
    ],
)
def test_what_cannot_be_read(array: object, message: str) -> None:
    with pytest.raises(UsageError, match=f"argument A.*{message}"):
        arrays.as_codes(array, where="argument A")


@pytest.mark.parametrize(
    ("value", "fmt", "code"),
    [
        (1.0, "f32", 0x3F800000), (0.1, "f32", 0x3DCCCCCD), (0.1, "f16", 0x2E66), (1e300, "f32", 0x7F800000),
        (True, "pred", 1), (-1, "s32", 0xFFFFFFFF), (-1, "s64", (1 << 64) - 1), (200, "u8", 200),
        (3, "f32", 0x40400000),
        (np.float32(0.5), "f32", 0x3F000000), (np.int64(-2), "s32", 0xFFFFFFFE), (np.float64(0.1), "f32", 0x3DCCCCCD),
        (np.array(0x7F800001, np.uint32).view(np.float32), "f32", 0x7F800001), (2**24 + 1, "f32", 0x4B800000),
        (-0.0, "f64", 1 << 63), (10**30, "f32", 0x7149F2CA),
    ],
)  # fmt: skip
def test_scalars(value: object, fmt: str, code: int) -> None:
    assert arrays.scalar_code(value, FORMATS[fmt]) == code


@pytest.mark.parametrize(
    ("value", "fmt", "message"),
    [
        (1.5, "s32", "an integer"), (1 << 31, "s32", "does not fit s32"), (-1, "u8", "does not fit u8"),
        ("1", "f32", "a number is needed, found str"), (1, "pred", "a bool"), (1.0, "pred", "a bool"),
    ],
)  # fmt: skip
def test_scalars_that_do_not_fit(value: object, fmt: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"argument n.*{message}"):
        arrays.scalar_code(value, FORMATS[fmt], where="argument n")


def test_typed_integers() -> None:
    assert arrays.typed(np.array([0xFFFFFFFF], np.uint32), S32).tolist() == [-1]
    assert arrays.typed(np.array([0x3F800000], np.uint32), FORMATS["tf32"]).tolist() == [1.0]


@pytest.mark.parametrize(
    ("value", "fmt", "code"),
    [
        (2**64 + 2**40 + 1, F32, 0x5F800001),  # just above a tie: rounded once, not through f64
        (2**64 + 2**40, F32, 0x5F800000),
        (-(2**64) - 2**40 - 1, F32, 0xDF800001),
        (2**70 + 2**62 + 1, BF16, 0x6281),
        (2**128 - 2**103, F32, 0x7F800000),
        (2**128 - 2**103 - 1, F32, 0x7F7FFFFF),
        (10**400, F32, 0x7F800000),
        (-(10**400), F64, 0xFFF0000000000000),
        (2**1024 - 2**970, F64, 0x7FF0000000000000),
        (2**1024 - 2**970 - 1, F64, 0x7FEFFFFFFFFFFFFF),
        (2**1024 - 1, F16, 0x7C00),
        (2**64 + 2**12, F64, 0x43F0000000000001),
    ],
)
def test_large_integers_are_rounded_once(value: int, fmt: Format, code: int) -> None:
    assert arrays.scalar_code(value, fmt) == code


def test_a_result_without_axes_stays_one() -> None:
    for fmt in (F32, BF16, S32):
        assert arrays.typed(np.zeros((), fmt.dtype), fmt).shape == ()


def test_views_that_show_other_numbers_than_they_hold_are_refused() -> None:
    with pytest.raises(UsageError, match="masked"):
        arrays.as_codes(np.ma.array([1.0], mask=[True]))
    broken = _Interface(np.zeros(1))
    broken.__array_interface__ = {}
    with pytest.raises(UsageError, match="X: numpy cannot read its __array_interface__"):
        arrays.as_codes(broken, where="X")


def test_lazy_torch_views_are_refused() -> None:
    require_torch()
    import torch

    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(UsageError, match="lazily.*resolve_neg"):
            arrays.as_codes(torch._neg_view(torch.ones(2, dtype=dtype)))
    with pytest.raises(UsageError, match="lazily"):
        arrays.as_codes(torch.ones(2, dtype=torch.complex64).conj())


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_files_of_arrays_that_are_damaged_are_wrong_use(suffix: str, tmp_path: Path) -> None:
    path, read = tmp_path / f"a.{suffix}", getattr(arrays, f"read_{suffix}")
    save = np.save if suffix == "npy" else np.savez_compressed
    save(path, np.arange(1000) * 7919)
    whole = path.read_bytes()
    for size in (1, 5, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match="not an np|truncated or damaged"):
            read(path, where="a")
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 255
    path.write_bytes(damaged)
    if suffix == "npz":
        with pytest.raises(UsageError, match="truncated or damaged"):
            read(path, where="a")
    path.write_bytes(b"\x80\x04 anything")
    with pytest.raises(UsageError, match=f"^a: not an {suffix} file"):
        read(path, where="a")
    save(path, np.array([{}], dtype=object))
    with pytest.raises(UsageError, match="pickled objects, which are never loaded"):
        read(path, where="a")
    with pytest.raises(UsageError, match="no such file"):
        read(tmp_path / "b", where="a")
