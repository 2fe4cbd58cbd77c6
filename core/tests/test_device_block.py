"""`tensor_block`, the arithmetic of HMMA on a GPU's workgroups, run by whatever device there is as if it were one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import phobos_sim as sim
import pytest
from helpers import assert_codes
from kernel_runs import kernel_of
from numpy.typing import NDArray
from phobos_sim.gpu import device as devices
from runtime_samples import device_name

pytestmark = pytest.mark.device
M, N, K = 64, 96, 64

# f32: seeded from memory; the accumulator stays in registers, or is changed between the products
KERNEL = """@launch(64)
@tensorcore
@aligned(M=32, N=32, K=32)
kernel k(A: tensor<f16>[M, K], B: tensor<f16>[{b}], C: tensor<{acc}>[M, N]) {{
  let i = ctx.block.x * 32
  let j = ctx.block.y * 32
  var acc: tile<{acc}>[32, 32] = {seed}
  for k in range(0, K, 32) {{
    let a = A[i :+ 32, k :+ 32]
    let b = B[{slice}]
    acc += {dot}(a, b){change}
  }}
  C[i :+ 32, j :+ 32] = acc
}}
"""
SHAPES = {"dot": ("K, N", "k :+ 32, j :+ 32"), "dot_t": ("N, K", "j :+ 32, k :+ 32")}
CASES = {
    "carried": ("f32", "C[i :+ 32, j :+ 32]", "", "HMMA.16816.F32"),
    "changed": ("f32", "C[i :+ 32, j :+ 32]", "\n    acc = acc * 0.5", "HMMA.16816.F32"),
    "f16": ("f16", "0.0", "", "HMMA.16816.F16"),
}


def kernel(dot: str, case: str) -> sim.Kernel:
    (dims, part), (acc, start, change, instruction) = SHAPES[dot], CASES[case]
    found = kernel_of(KERNEL.format(dot=dot, b=dims, slice=part, acc=acc, seed=start, change=change))
    assert [op.instruction for op in found.program().contractions()] == [instruction]
    return found


def operand(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> NDArray[np.uint16]:
    codes = rng.integers(0, 0x10000, shape, np.uint16)
    ordinary = rng.standard_normal(shape).astype(np.float16).view(np.uint16)
    match kind:
        case "finite":
            return codes & 0xFBFF
        case "few specials":  # whole tiles without one, tiles with one
            rare = rng.random(shape) < 0.002
            return np.where(rare, codes | 0x7C00, np.where(rng.random(shape) < 0.2, 0x8001, ordinary))
        case "zeros":  # whole groups of zeros, beside numbers of every size
            return np.where(rng.random(shape) < 0.8, codes & 0x8000, codes & 0xFBFF)
    return ordinary


def seed(rng: np.random.Generator, kind: str, acc: str, shape: tuple[int, int]) -> NDArray[np.generic]:
    if kind == "zeros":
        sizes = rng.integers(0, 2**32, shape, np.uint32)
        near = (sizes & 0x807FFFFF) | np.uint32((127 - 100) << 23) + (rng.integers(-2, 2, shape) << 23).astype(
            np.uint32
        )
        codes = np.where(rng.random(shape) < 0.3, near, sizes)
        codes[rng.random(shape) < 0.3] = 0x80000000
        return codes.view(np.float32) if acc == "f32" else codes.astype(np.uint16).view(np.float16)
    return rng.standard_normal(shape).astype({"f32": np.float32, "f16": np.float16}[acc])


@pytest.mark.parametrize("kind", ["ordinary", "finite", "few specials", "zeros"])
@pytest.mark.parametrize(
    ("case", "dot"),
    [("carried", "dot"), ("carried", "dot_t"), ("changed", "dot"), ("changed", "dot_t"), ("f16", "dot")],
)
def test_the_block_gives_the_reference_codes(kind: str, case: str, dot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, found = devices.open_device(device_name()), kernel(dot, case)
    size = device.target.subgroup_size
    monkeypatch.setattr(device, "target", replace(device.target, kind="discrete", subgroup_sizes=(32, size)))
    rng = np.random.default_rng(7)
    a = operand(rng, kind, (M, K)).view(np.float16)
    b = operand(rng, kind, (K, N) if dot == "dot" else (N, K)).view(np.float16)
    c = seed(rng, kind, CASES[case][0], (M, N))
    results = []
    for name, form in (("reference", None), (device_name(), "shared")):
        out = c.copy()
        found.launch((2, 3), a, b, out, device=name, form=form)
        results.append(out.view(f"u{out.itemsize}"))
    assert_codes(results[1], results[0])


@pytest.mark.parametrize(
    ("start", "change"),
    [(start, "") for start in ("0.0", "1.0", "-3.5", "1e-30", "1e-40", "3e38")]
    + [("1.0", "\n    acc = acc * 1e-30"), ("1.0", "\n    acc = acc / 1e-39")],
)
@pytest.mark.parametrize("form", ["registers", "shared"])
def test_constant_seeds_of_every_size(start: str, change: str, form: str) -> None:
    """Ordinary ones need no test of the addend (`FloatCore.calm`); zeros, and then numbers, are added to each."""
    text = KERNEL.format(b="K, N", slice=SHAPES["dot"][1], acc="f32", seed=start, dot="dot", change=change)
    found = kernel_of(text)
    rng = np.random.default_rng(8)
    a = np.where(rng.random((M, K)) < 0.5, rng.standard_normal((M, K)), 0).astype(np.float16)
    a[:, : K // 2] = 0
    a[:8] = -0.0
    b = rng.standard_normal((K, N)).astype(np.float16)
    results = []
    for name, mapping in (("reference", None), (device_name(), form)):
        out = np.ones((M, N), np.float32)
        found.launch((2, 3), a, b, out, device=name, form=mapping)
        results.append(out.view(np.uint32))
    assert_codes(results[1], results[0])
