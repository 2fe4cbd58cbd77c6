"""`sim.execute` on the reference: codes or values in and out, shapes, names, and every way to use it wrongly."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import phobos_sim as sim
import pytest
from helpers import assert_codes, require_torch
from phobos_sim.errors import UsageError


def run(name: str, *operands: object, **options: object) -> np.ndarray:
    return sim.execute(name, *operands, device="reference", **options)


def test_values_give_values() -> None:
    total = run("FADD", np.float32([1, 2]), np.float32([3, 4]))
    assert total.dtype == np.float32 and total.tolist() == [4, 6]
    bf16 = np.array([1, 2], ml_dtypes.bfloat16)
    assert run("add.rn.bf16", bf16, bf16).dtype == ml_dtypes.bfloat16
    assert run("setp.lt.f32", np.float32([1]), np.float32([2])).tolist() == [True]
    assert run("cvt.rzi.s32.f32", np.float32([-2.5])).tolist() == [-2]
    assert run("selp", np.array([True, False]), np.float32([1, 2]), np.float32([3, 4])).tolist() == [1, 4]


def test_codes_give_codes_of_the_natural_width() -> None:
    assert_codes(run("FADD", np.uint32([0x3F800000]), np.uint32([0x3F800000])), np.uint32([0x40000000]))
    wide = np.uint32([0x3C00])
    assert_codes(run("HADD2", wide, wide), np.uint16([0x4000]))
    assert_codes(run("HADD2", np.uint64([0x3C00]), np.uint16([0x3C00])), np.uint16([0x4000]))
    assert int(run("FADD", 0x3F800000, 0x3F800000)) == 0x40000000
    assert run("FADD", [0x3F800000, 0], [0, 0]).tolist() == [0x3F800000, 0]
    assert run("selp", np.array([True]), np.uint16([7]), np.uint16([9])).tolist() == [7]


def test_matrix_operands() -> None:
    a = np.ones((2, 5, 16), np.float16)
    b = np.full((2, 16, 3), 2, np.float16)
    c = np.ones((2, 5, 3), np.float32)
    out = run("HMMA.16816.F32", a, b, c)
    assert out.dtype == np.float32 and (out == 33).all() and out.shape == (2, 5, 3)
    codes = run("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", *(x.view(f"u{x.itemsize}") for x in (a, b, c)))
    assert_codes(codes, out.view(np.uint32))
    signed = run(
        "IMMA.8816.U8.S8", np.ones((1, 1, 16), np.uint8), -np.ones((1, 16, 1), np.int8), np.zeros((1, 1, 1), np.int32)
    )
    assert signed.dtype == np.int32 and signed.item() == -16


def test_arch_changes_a_matrix_instruction() -> None:
    a = np.zeros((1, 1, 16), np.uint16)
    a[0, 0, :4] = 0x0C00
    b = np.zeros((1, 16, 1), np.uint16)
    b[0, :4, 0] = 0x0800
    c = np.full((1, 1, 1), 0x3F800000, np.uint32)
    assert run("HMMA.16816.F32", a, b, c).item() == 0x3F800000
    assert run("HMMA.16816.F32", a, b, c, arch="sm_90").item() == 0x3F800001


def test_torch_tensors() -> None:
    require_torch()
    import torch

    out = run("HFMA2.BF16_V2", *(torch.full((3,), v, dtype=torch.bfloat16) for v in (2.0, 3.0, 1.0)))
    assert out.dtype is torch.bfloat16 and out.tolist() == [7.0] * 3


F, U = np.float32([1.0]), np.uint32([1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run("FADD", F, U), "a mixture of values and codes: f32, u32"),
        (lambda: run("HADD2", F, F), "found other types: f32, f32"),
        (lambda: run("HADD2", np.uint32([1 << 16]), U), "0x10000 does not fit f16"),
        (lambda: run("FADD", np.uint16([1]), U), "codes of f32 have 32 bits, found uint16"),
        (lambda: run("FADD", F), "takes 2 operands, found 1"),
        (lambda: run("FADD", F, np.float32([1, 2])), "operands need one shape"),
        (lambda: run("FADD", -1, 1), "unsigned codes, found -1"),
        (lambda: run("FADD", 1.5, 2.5), "float is no array"),
        (lambda: run("selp", F, F, F), "found other types"),
        (lambda: run("HADD", F, F), "unknown instruction 'HADD'; did you mean HADD2"),
        (lambda: run("FADD", F, F, arch="sm_85"), "unknown arch 'sm_85'"),
        (lambda: run("HMMA.884.F32", 1, 1, 1), "no instruction of sm_86"),
        (lambda: run("HFMA2.BF16_V2", 1, 1, 1, arch="sm_75"), "from sm_80 on"),
        (lambda: run("HMMA.16816.F32", 1, 1, 1), r"takes a \[t, m, 16\]"),
        (lambda: run("FADD", F, F, instructions="native"), "the reference backend has none"),
        (lambda: run("FADD", F, F, instructions="fast"), "unknown instructions='fast'"),
        (lambda: sim.execute("FADD", F, F, device="cuda"), "unknown device 'cuda'"),
    ],
)
def test_wrong_use(call: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("name", [None, 5, b"FADD"])
def test_a_name_is_a_string(name: object) -> None:
    with pytest.raises(UsageError, match="named by a string"):
        run(name, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown arch"):
        run("FADD", 1, 1, arch=[name])


def test_scalars_give_scalars() -> None:
    assert run("FADD", np.float32(1), np.float32(2)).shape == ()
    assert run("add.rn.bf16", *[np.array(1, ml_dtypes.bfloat16)] * 2).shape == ()
