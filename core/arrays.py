"""Arrays in and out, as codes: numpy, ml_dtypes, torch (never imported), anything with `__array_interface__` or DLPack.

Rules (design.md 10)
 1. An array comes in as a view of unsigned codes plus its `Format`; nothing is copied where the layout allows.
 2. torch bf16 goes through int16, because numpy has no bf16; ml_dtypes is imported only to hand bf16 out.
 3. What cannot be read (memory of a GPU, a foreign byte order, a dtype without a format) is a UsageError that says what
    to pass instead.
 4. A file of arrays is read without unpickling; whatever is wrong with it is a UsageError.
"""

from __future__ import annotations

import math
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .errors import UsageError
from .formats import BF16, F16, F32, F64, PRED, S8, S16, S32, S64, TF32, U8, U16, U32, U64, Codes, Format, dtype_of

#: Format of each dtype by name. Unsigned dtypes serve as codes of other formats too; their owner knows which.
FORMAT_OF_DTYPE: dict[str, Format] = {
    "float16": F16, "bfloat16": BF16, "float32": F32, "float64": F64, "int8": S8, "uint8": U8, "int16": S16,
    "uint16": U16, "int32": S32, "uint32": U32, "int64": S64, "uint64": U64, "bool": PRED,
}  # fmt: skip

#: The same by scalar type, for those that numpy has itself: asking a dtype for its name takes microseconds.
_FORMAT_OF_TYPE = {np.dtype(name).type: fmt for name, fmt in FORMAT_OF_DTYPE.items() if name != "bfloat16"}
_DTYPE_OF_FORMAT = {fmt.name: name for name, fmt in FORMAT_OF_DTYPE.items()} | {TF32.name: "float32"}


def as_codes(array: Any, *, where: str = "array") -> tuple[Codes, Format]:
    """(view of the array's codes, format of its dtype); a change of the view changes the array.

    where: how messages name the array. Raises UsageError for what is no array or has no format.
    """
    values = _as_numpy(array, where)
    fmt = _FORMAT_OF_TYPE.get(values.dtype.type) or FORMAT_OF_DTYPE.get(values.dtype.name)
    if fmt is None:
        names = ", ".join(FORMAT_OF_DTYPE)
        raise UsageError(f"{where}: no number format for dtype {values.dtype}; use one of {names}")
    if not values.dtype.isnative:
        raise UsageError(f"{where}: byte order of {values.dtype.str} is foreign; convert it with astype")
    return values.view(dtype_of(fmt)), fmt


def is_torch(array: Any) -> bool:
    """Whether it is a torch tensor, without importing torch."""
    return type(array).__module__.partition(".")[0] == "torch" and hasattr(array, "data_ptr")


def _as_numpy(array: Any, where: str) -> np.ndarray[Any, Any]:
    if isinstance(array, np.ma.MaskedArray):
        raise UsageError(f"{where}: kernels know no masked elements; pass array.data or array.filled(...)")
    if isinstance(array, np.ndarray | np.generic):
        return np.asarray(array)
    if is_torch(array):
        return _from_torch(array, where)
    if hasattr(array, "__array_interface__"):
        return _from_interface(array, where)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, where)
    if hasattr(array, "__cuda_array_interface__"):
        raise UsageError(f"{where}: the array lives in GPU memory; pass a copy on the CPU")
    raise UsageError(
        f"{where}: {type(array).__name__} is no array; pass numpy, ml_dtypes, a torch CPU tensor, "
        "or anything with __array_interface__ or __dlpack__"
    )


def _from_torch(tensor: Any, where: str) -> np.ndarray[Any, Any]:
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu":
        raise UsageError(f"{where}: the tensor is on {tensor.device}; pass tensor.cpu()")
    if tensor.layout is not torch.strided:
        raise UsageError(f"{where}: a dense tensor is needed, found layout {tensor.layout}; pass tensor.to_dense()")
    if tensor.is_neg() or tensor.is_conj():  # views whose memory holds other numbers than they show
        raise UsageError(
            f"{where}: the tensor is negated or conjugated lazily; pass tensor.resolve_neg().resolve_conj()"
        )
    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except TypeError:
        raise UsageError(f"{where}: no number format for dtype {tensor.dtype}") from None


def _from_interface(array: Any, where: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(array)
    except (TypeError, ValueError) as fault:
        raise UsageError(f"{where}: numpy cannot read its __array_interface__ ({fault}); pass a numpy array") from None


def _from_dlpack(array: Any, where: str) -> np.ndarray[Any, Any]:
    try:
        return np.from_dlpack(array)
    except (TypeError, BufferError, RuntimeError) as fault:
        raise UsageError(f"{where}: numpy cannot take this DLPack array ({fault}); pass a numpy array") from None


def typed(codes: Codes, fmt: Format, *, like: Any = None) -> Any:
    """Codes as an array of values of their format: torch where `like` is a tensor, else numpy (bf16: ml_dtypes)."""
    codes = np.asarray(codes, order="C")  # ascontiguousarray would give 0-d results an axis
    if like is not None and is_torch(like):
        return _to_torch(codes, fmt)
    if fmt == BF16:
        import ml_dtypes

        return codes.view(ml_dtypes.bfloat16)
    return codes.view(_DTYPE_OF_FORMAT[fmt.name])


def _to_torch(codes: Codes, fmt: Format) -> Any:
    torch = sys.modules["torch"]
    if fmt == BF16:
        return torch.from_numpy(codes.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(codes.view(_DTYPE_OF_FORMAT[fmt.name]))


def scalar_code(value: Any, fmt: Format, *, where: str = "scalar") -> int:
    """A Python or numpy number (or 0-d array) as a code: floats rounded to nearest even, integers checked for range."""
    if isinstance(value, np.generic) or (hasattr(value, "ndim") and value.ndim == 0):
        codes, found = as_codes(value, where=where)
        if found == fmt or (found.is_float and fmt == TF32 and found == F32):
            return int(codes)  # the same bits, also of a NaN
        value = value.item()
    if fmt.kind == "predicate":
        if not isinstance(value, bool):
            raise UsageError(f"{where}: a bool is needed, found {value!r}")
        return int(value)
    if not isinstance(value, int | float):
        raise UsageError(f"{where}: a number is needed, found {type(value).__name__}")
    return _float_code(value, fmt) if fmt.is_float else _integer_code(value, fmt, where)


def _integer_code(value: int | float, fmt: Format, where: str) -> int:
    if isinstance(value, float):
        raise UsageError(f"{where}: an integer ({fmt.name}) is needed, found {value!r}")
    if not fmt.lowest_integer <= value <= fmt.largest:
        raise UsageError(f"{where}: {value} does not fit {fmt.name} ({fmt.lowest_integer} to {fmt.largest})")
    return value & ((1 << fmt.bits) - 1)


def _float_code(value: int | float, fmt: Format) -> int:
    from .reference import convert

    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        codes = np.array([value], np.int64).view(np.uint64)
        return int(convert.i2f(codes, source="s64", target=fmt.name)[0])
    number = float(value) if isinstance(value, float) else _float_of_integer(value, fmt)
    codes = np.array([number], np.float64).view(np.uint64)
    return int(codes[0]) if fmt == F64 else int(convert.f2f(codes, source="f64", target=fmt.name)[0])


def _float_of_integer(value: int, fmt: Format) -> float:
    """A double that rounds to `fmt` as the integer itself does: rounded to odd, so that a second rounding is exact."""
    size, sign = abs(value), -1.0 if value < 0 else 1.0
    shift = size.bit_length() - 53
    if shift <= 0 or shift > 1024 - 53 or fmt == F64:
        try:
            return float(value)
        except OverflowError:  # 2^1024 or more, or rounded to it
            return sign * math.inf
    odd = size >> shift | (size & ((1 << shift) - 1) != 0)
    return sign * math.ldexp(float(odd), shift)


_DAMAGE = (OSError, ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def read_npy(path: Path, *, where: str) -> np.ndarray[Any, Any]:
    """The array of a .npy file. where: how messages name it. UsageError for everything that is not one."""
    _begins(path, b"\x93NUMPY", where, "an npy file; numpy.save writes one")
    try:
        array: np.ndarray[Any, Any] = np.load(path, allow_pickle=False)
    except _DAMAGE as fault:
        raise UsageError(f"{where}: {_damage(fault)}") from None
    return array


def read_npz(path: Path, *, where: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a .npz file by name. where: how messages name it. UsageError for everything that is not one."""
    _begins(path, b"PK", where, "an npz file; numpy.savez writes one")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _DAMAGE as fault:
        raise UsageError(f"{where}: {_damage(fault)}") from None


def _begins(path: Path, magic: bytes, where: str, what: str) -> None:
    try:
        with path.open("rb") as file:
            begin = file.read(len(magic))
    except FileNotFoundError:
        raise UsageError(f"{where}: cannot be read: no such file") from None
    except OSError as fault:
        raise UsageError(f"{where}: cannot be read: {fault.strerror}") from None
    if begin != magic:
        raise UsageError(f"{where}: not {what}")


def _damage(fault: Exception) -> str:
    if "allow_pickle" in str(fault):
        return "holds pickled objects, which are never loaded: they can run code; save arrays of numbers"
    if isinstance(fault, MemoryError):
        return f"does not fit this machine's memory ({fault})"
    return f"truncated or damaged ({fault or type(fault).__name__}); write it again"
