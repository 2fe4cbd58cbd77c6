"""`dot` and `dot_t` in whole kernels: every path of the hardware table, ragged in every axis, on every form.

Seen to fail with: HMMA's groups of 16; the last, ragged trip over K left out; b of dot_t read as [K, N]; accumulators
that pass through the core where a loop makes no trip; a reused launch that keeps the core for plain operands.
"""

from __future__ import annotations

import numpy as np
import oracle_kernels as o
import pytest
from kernel_cases import PRODUCTS, Case
from kernel_runs import arguments, module, reference, same

# kernel -> the instruction of its (last) product, where the constants do not change it
PATHS = {
    "f32_fma": "FFMA", "f32_fma_t": "FFMA", "f32_tensorcore": "HMMA.16816.F32", "f16_fma": "HFMA2",
    "f16_gemm": "HMMA.16816.F16", "f16_gemm_epilogue": "HMMA.16816.F16", "f16_into_f32": "FFMA",
    "f16_tensorcore": "HMMA.16816.F32", "f16_tensorcore_t": "HMMA.16816.F32", "mixed_fma": "FFMA",
    "mixed_tensorcore": "HMMA.16816.F32", "bf16_fma": "HFMA2.BF16_V2", "bf16_into_f32": "FFMA", "f64_fma": "DFMA",
    "i8_blocks": "IMMA.8816.S8.S8", "u8_by_i8": "IMMA.8816.U8.S8", "i8_dot": "IMAD", "i32_dot": "IMAD",
    "i64_dot": "mad.lo.s64", "powers": "FFMA", "accumulate": "HMMA.16816.F32",
}  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case.id)
def test_products_agree(case: Case) -> None:
    case.agree()


@pytest.mark.parametrize("name", PATHS)
def test_products_take_their_path(name: str) -> None:
    assert {c.instruction for c in getattr(module("products"), name).program().contractions()} == {PATHS[name]}


@pytest.mark.parametrize(
    "constants, instruction",
    [({"BM": 12, "BK": 12}, "IDP.4A.S8.S8"), ({"BK": 6}, "IMAD"), ({"BM": 1}, "IDP.4A.S8.S8"), ({}, "IMMA.8816.S8.S8")],
)
def test_shapes_decide_the_integer_path(constants: dict[str, int], instruction: str) -> None:
    """All of them are exact, so the bits are those of int32 in numpy."""
    kernel, dims = module("products").i8_blocks, {"M": 25, "N": 30, "K": 50}
    tile = {**kernel.constants, **constants}
    args = arguments(kernel, dims, constants=constants)
    grid = -(-dims["M"] // tile["BM"]), -(-dims["N"] // tile["BN"])
    assert kernel.program(constants).contractions()[0].instruction == instruction
    after = reference(kernel, grid, args, constants=constants)
    same(after, [*args[:2], o.imad(args[0], args[1].T, np.zeros((25, 30), np.int32))], instruction)


def test_a_ragged_k_is_filled_with_zeros() -> None:
    """K = 29 under tiles of 8 is three zero terms more: they only turn a sum of -0 into +0 (G11)."""
    kernel = module("products").f32_fma
    args = arguments(kernel, {"M": 16, "N": 16, "K": 29})
    args[0][3], args[1][:, 5] = -0.0, 1.0
    after = reference(kernel, (1, 1), args)
    padded = np.pad(args[0], ((0, 0), (0, 3))), np.pad(args[1], ((0, 3), (0, 0)))
    same(after, [*args[:2], o.chain(*padded, np.zeros((16, 16), np.float32))], "FFMA")
    assert not np.signbit(after[2][3, 5])


def test_f32_operands_are_rounded_for_tensor_cores() -> None:
    kernel = module("products").f32_tensorcore
    args = arguments(kernel, {"M": 32, "N": 32, "K": 32})
    expected = o.hmma(args[0].astype(np.float16), args[1].astype(np.float16), np.zeros((32, 32), np.float32))
    same(reference(kernel, (1, 1), args), [*args[:2], expected], "HMMA")
