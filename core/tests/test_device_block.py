"""`tensor_block` and `tensor_double`, HMMA's arithmetic on a GPU's workgroups, run by any device as if it were one.

A device that cannot round f64 toward zero is made to: a sum that came out too large is taken one unit back.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import phobos_sim as sim
import pytest
from helpers import assert_codes, tool
from kernel_runs import kernel_of
from numpy.typing import NDArray
from phobos_sim.binding import Bound
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import mapping, measure, parts, run, samples
from phobos_sim.gpu.emitter import Job
from phobos_sim.gpu.sm86 import tensor_double
from phobos_sim.gpu.target import Target
from phobos_sim.isa import SM86
from phobos_sim.spirv.builder import Builder, Value
from phobos_sim.spirv.disassemble import disassemble
from phobos_sim.spirv.validate import validate
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
        case "infinities":  # far between, of both signs, never NaN by themselves
            return np.where(rng.random(shape) < 0.0005, codes & 0x8000 | 0x7C00, ordinary)
        case "cancelling":  # the first two products of a group, which decide where the others are cut off
            out = (rng.standard_normal(shape) * 2.0**-5).astype(np.float16)
            along_k = np.moveaxis(out, 0 if shape == (K, N) else 1, 0)  # a view
            along_k[0::8] = rng.standard_normal(along_k[0::8].shape) * 2.0**7
            along_k[1::8] = -along_k[0::8] if shape == (M, K) else along_k[0::8]
            return out.view(np.uint16)
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


def add_toward_zero(e: Builder, x: Value, total: Value) -> Value:
    """x + total for a total of 2^52 or more, in units of its last place."""
    nearest, high = total + x, tensor_double.words(e, total)[1]
    unit = tensor_double.of_words(e, e.u32(1), high) - tensor_double.of_words(e, e.u32(0), high)
    return e.select(nearest - total > x, nearest - unit, nearest)


def use(monkeypatch: pytest.MonkeyPatch, dots: str, **changes: Any) -> None:
    """Makes the device under test a GPU whose dots are computed so."""
    device = devices.open_device(device_name())
    size = device.target.subgroup_size
    if dots == "double" and not device.target.truncates_f64:
        monkeypatch.setattr(tensor_double, "round_toward_zero", lambda e: None)
        monkeypatch.setattr(tensor_double, "add", add_toward_zero)
        monkeypatch.setattr(tensor_double, "multiply_add", lambda e, x, y, total: add_toward_zero(e, x * y, total))
    target = replace(device.target, kind="discrete", subgroup_sizes=(32, size), truncates_f64=True, **changes)
    monkeypatch.setattr(device, "target", target)
    monkeypatch.setattr(measure, "prefers_double", lambda device: dots == "double")
    monkeypatch.setattr(run, "_shaders", OrderedDict())
    monkeypatch.setattr(run, "_launches", OrderedDict())


@pytest.mark.parametrize("kind", ["ordinary", "finite", "few specials", "infinities", "cancelling", "zeros"])
@pytest.mark.parametrize(
    ("case", "dot", "dots"),
    [
        ("carried", "dot", "single"),
        ("carried", "dot_t", "single"),
        ("changed", "dot", "single"),
        ("changed", "dot_t", "single"),
        ("f16", "dot", "single"),
        ("carried", "dot", "double"),
        ("carried", "dot_t", "double"),
        ("f16", "dot", "double"),
    ],
)
def test_the_block_gives_the_reference_codes(
    kind: str, case: str, dot: str, dots: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, dots)
    rng = np.random.default_rng(7)
    a = operand(rng, kind, (M, K)).view(np.float16)
    b = operand(rng, kind, (K, N) if dot == "dot" else (N, K)).view(np.float16)
    c = seed(rng, kind, CASES[case][0], (M, N))
    assert agree(kernel(dot, case), a, b, c, (2, 3)) == (dots == "double")


def agree(found: sim.Kernel, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], grid: tuple[int, int]) -> bool:
    """Compares the device's codes with the reference's; whether the shader's dots were in f64."""
    results = []
    for name, form in (("reference", None), (device_name(), "shared")):
        out = c.copy()
        launched = found.launch(grid, a, b, out, device=name, form=form)
        results.append(out.view(f"u{out.itemsize}"))
    assert_codes(results[1], results[0])
    return "dots in f64" in "".join(launched.notes)


def tiled(m: int, n: int, k: int, threads: int) -> sim.Kernel:
    text = KERNEL.format(b="K, N", slice=SHAPES["dot"][1], acc="f32", seed="0.0", dot="dot", change="")
    changes = {
        "launch(64)": f"launch({threads})", "M=32, N=32, K=32": f"M={m}, N={n}, K={k}", "x * 32": f"x * {m}",
        "y * 32": f"y * {n}", "[32, 32]": f"[{m}, {n}]", "i :+ 32": f"i :+ {m}", "j :+ 32": f"j :+ {n}",
        "k :+ 32": f"k :+ {k}", "K, 32)": f"K, {k})",
    }  # fmt: skip
    for old, new in changes.items():
        text = text.replace(old, new)
    found = kernel_of(text)
    assert [op.instruction for op in found.program().contractions()] == ["HMMA.16816.F32"]
    return found


# blocks of 4 x 4 and 4 x 2, a chunk of k's and several, a result larger than its operands' memory; blocks of 8 x 4 take
# more registers than there are
TILES = {
    (64, 64, 32, 256): True,
    (64, 32, 16, 128): True,
    (32, 64, 64, 128): True,
    (32, 32, 32, 128): True,
    (64, 128, 32, 512): True,
    (64, 64, 32, 128): False,
}


@pytest.mark.parametrize("kind", ["finite", "zeros"])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_double_dots_of_every_block(
    tile: tuple[int, int, int, int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, "double", shared_bytes=49152)
    m, n, _, _ = tile
    rng = np.random.default_rng(9)
    a, b = operand(rng, kind, (2 * m, 128)), operand(rng, kind, (128, n))
    a[:8] &= 0x8000
    c = np.zeros((2 * m, n), np.float32)
    assert agree(tiled(*tile), a.view(np.float16), b.view(np.float16), c, (2, 1)) == TILES[tile]


def test_double_dots_keep_seeds_of_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds whose last place is about the smallest unit of a product, beside no product, tiny ones and large ones."""
    use(monkeypatch, "double")
    rng = np.random.default_rng(10)
    sign, fraction = rng.integers(0, 2, (M, N), np.uint32) << 31, rng.integers(0, 1 << 23, (M, N), np.uint32)
    c = (sign | rng.integers(127 - 60, 127 + 20, (M, N), np.uint32) << 23 | fraction).view(np.float32)
    a, b = operand(rng, "finite", (M, K)), operand(rng, "finite", (K, N))
    a[: M // 2] &= 0x8000
    a[M // 2 : 3 * M // 4] &= 0x83FF  # subnormals
    b[:, : N // 2] &= 0x83FF
    assert agree(kernel("dot", "carried"), a.view(np.float16), b.view(np.float16), c, (2, 3))


def test_double_dots_pass_seeds_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "double")
    rng = np.random.default_rng(12)
    a, b = (operand(rng, "ordinary", shape).view(np.float16) for shape in ((M, K), (K, N)))
    c = rng.standard_normal((M, N)).astype(np.float32)
    c[3, 5], c[40, 70], c[63, 95] = np.inf, -np.inf, np.nan
    assert agree(kernel("dot", "carried"), a, b, c, (2, 3))


def test_double_dots_of_a_slice_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "double")
    text = KERNEL.format(b="N, K", slice="0 :+ 1, 0 :+ 1", acc="f32", seed="0.0", dot="dot_t", change="")
    text = text.replace("    let b = B[0 :+ 1, 0 :+ 1]\n", "").replace("dot_t(a, b)", "dot_t(a, a)")
    rng = np.random.default_rng(13)
    a, b = (operand(rng, "finite", shape).view(np.float16) for shape in ((M, K), (N, K)))
    assert agree(kernel_of(text), a, b, np.zeros((M, N), np.float32), (2, 3))


OVERWRITTEN = """@launch(64)
@tensorcore
@aligned(M=32, N=32, K=32)
kernel k(A: tensor<f16>[M, K], B: tensor<f16>[K, N], C: tensor<f32>[M, N]) {
  let i = ctx.block.x * 32
  let j = ctx.block.y * 32
  var acc: tile<f32>[32, 32] = 0.0
  for k in range(0, K, 32) {
    var a = A[i :+ 32, k :+ 32]
    let b = B[k :+ 32, j :+ 32]
    let z: tile<f16>[32, 32] = 0.0
    A[i :+ 32, k :+ 32] = z
    acc += dot(a, b)
  }
  C[i :+ 32, j :+ 32] = acc
}
"""


@pytest.mark.parametrize("dots", ["single", "double"])
def test_an_operand_that_is_overwritten_before_the_product(dots: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `var` is a copy: what a chunk is staged from must not change, whatever stands between."""
    use(monkeypatch, dots)
    rng = np.random.default_rng(14)
    a, b = (operand(rng, "ordinary", shape).view(np.float16) for shape in ((M, K), (K, N)))
    found = kernel_of(OVERWRITTEN)
    results = []
    for name, form in (("reference", None), (device_name(), "shared")):
        left, out = a.copy(), np.zeros((M, 32), np.float32)
        found.launch((2, 1), left, np.ascontiguousarray(b[:, :32]), out, device=name, form=form)
        assert not left.any()
        results.append(out.view(np.uint32))
    assert_codes(results[1], results[0])


def test_double_dots_must_be_exact_on_a_device_to_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hard operands and seeds tell rounding toward zero from any other."""
    device = devices.open_device(device_name())
    use(monkeypatch, "double", shared_bytes=49152)
    assert measure.double_is_exact(device)
    monkeypatch.setattr(tensor_double, "round_toward_zero", lambda e: None)
    monkeypatch.setattr(tensor_double, "add", lambda e, x, total: x + total)
    monkeypatch.setattr(tensor_double, "multiply_add", lambda e, x, y, total: x * y + total)
    monkeypatch.setattr(run, "_shaders", OrderedDict())
    monkeypatch.setattr(run, "_launches", OrderedDict())
    assert not measure.double_is_exact(device)


MIXED = KERNEL.replace("C: tensor", "D: tensor<f64>[1], C: tensor").replace(
    "  C[i", "  D[0 :+ 1] = D[0 :+ 1] * 3.0\n  C[i"
)


@pytest.mark.parametrize("reason", ["memory", "f64"])
def test_dots_are_in_single_precision_where_double_does_not_suit(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "double", **({"shared_bytes": 8000} if reason == "memory" else {}))
    shape = {"b": "K, N", "slice": SHAPES["dot"][1], "acc": "f32", "seed": "0.0", "dot": "dot", "change": ""}
    rng = np.random.default_rng(11)
    a, b = (operand(rng, "ordinary", s).view(np.float16) for s in ((M, K), (K, N)))
    c = np.zeros((M, N), np.float32)
    if reason == "memory":
        assert not agree(kernel_of(KERNEL.format(**shape)), a, b, c, (2, 3))
        return
    d = np.array([1 / 3])
    launched = kernel_of(MIXED.format(**shape)).launch((2, 3), a, b, d, c, device=device_name(), form="shared")
    assert "dots in f64" not in "".join(launched.notes)


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
    for name, used in (("reference", None), (device_name(), form)):
        out = np.ones((M, N), np.float32)
        found.launch((2, 3), a, b, out, device=name, form=used)
        results.append(out.view(np.uint32))
    assert_codes(results[1], results[0])


def test_a_shader_with_double_dots_says_how_it_rounds() -> None:
    tool("spirv-val")
    program = samples.contraction()
    able = {
        "kind": "discrete",
        "float64": True,
        "float16": True,
        "truncates_f64": True,
        "storage16": True,
        "shared_bytes": 49152,
    }
    target = Target(**able, max_invocations=1024, forms={"HMMA.16816.F32": "float"})  # type: ignore[arg-type]
    tensors = {t.name: np.zeros((64, 64), f"u{t.element.bits // 8}") for t in program.tensors}
    aliases = {name: name for name in tensors}
    bound = Bound(program, tensors, {}, dict.fromkeys("MNK", 64), (1, 1, 1), aliases)
    codes = []
    for dots in (True, False):
        job = Job(program, parts.analyse(bound), replace(target, double_dots=dots), SM86, "shared", aliases)
        codes.append(mapping.emit(job, mapping.choose(program, job.target, aliases, 1, "shared")).code)
        validate(codes[-1])
    assert ["RoundingModeRTZ 64" in disassemble(code) for code in codes] == [True, False]
