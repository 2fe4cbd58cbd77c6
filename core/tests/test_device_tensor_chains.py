"""Contraction cores of scalar multiply-adds on lavapipe against the chains of the reference."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensor_inputs as inputs
from helpers import assert_codes, llvmpipe
from phobos_sim import isa
from phobos_sim.formats import F16, F32, Codes
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import execute_matrix, probe
from phobos_sim.gpu.sm86 import chains
from phobos_sim.gpu.target import Target
from phobos_sim.isa import SM86, Instruction
from phobos_sim.reference import execute as reference
from phobos_sim.spirv.builder import Builder

K = 24
FLOAT_CHAINS = [
    (key, form)
    for key in ("FFMA", "HFMA2", "HFMA2.BF16_V2", "DFMA")
    for form in chains.candidates(isa.lookup(key))
    if form not in ("exact16",) and (key, form) not in (("FFMA", "native"), ("DFMA", "native"))
]
INTEGER_CHAINS = ["IMAD", "IDP.4A.S8.S8", "IDP.4A.U8.S8", "IDP.4A.S8.U8", "IDP.4A.U8.U8"]


@functools.cache
def device() -> devices.Device:
    return devices.open_device(llvmpipe())


def check(row: Instruction, a: Codes, b: Codes, c: Codes, form: str | None) -> None:
    """a [t, m, k], b [t, k, n], c [t, m, n]: every tile's chain. Skips forms that a GPU's probe does not choose."""
    if form is not None and not device().target.is_cpu and probe.verdict(device(), [row.key])[row.key] != form:
        pytest.skip(f"Vulkan: {device().name} computes {row.key} in another form")
    expected = np.stack([reference.chain(row, *tile) for tile in zip(a, b, c)])
    assert_codes(execute_matrix.run(device(), row, a, b, c, SM86, form), expected, f"{row.key} {form}")


@pytest.mark.parametrize(("key", "form"), FLOAT_CHAINS)
def test_float_chains(key: str, form: str) -> None:
    """Every pair of operand classes: specials, subnormals, zeros of both signs, overflow, cancellation."""
    row = isa.lookup(key)
    check(row, *inputs.batch(row, 1, K), form)


@pytest.mark.parametrize(("key", "form"), FLOAT_CHAINS)
def test_chains_full_of_ties(key: str, form: str) -> None:
    """Short fractions at close exponents: sums that lie on a tie, or next to one, decide how often one rounds."""
    row, rng = isa.lookup(key), np.random.default_rng(2)
    fmt = row.operands[0]
    assert fmt is not None
    t, digits = 24, fmt.fraction_bits + 1

    def values(shape: tuple[int, ...], spread: int) -> Codes:
        bits = rng.integers(0, digits, shape)
        fraction = np.where(rng.random(shape) < 0.5, 0, 1 << np.minimum(bits, digits - 2)).astype(np.int64)
        exponent = rng.integers(-spread, 1, shape) + fmt.bias
        sign = rng.integers(0, 2, shape).astype(np.uint64) << np.uint64(fmt.bits - 1)
        return (sign | (exponent.astype(np.uint64) << np.uint64(digits - 1)) | fraction.astype(np.uint64)).astype(
            fmt.dtype
        )

    check(row, values((t, 4, K), min(digits, 13)), values((t, K, 4), min(digits, 13)), values((t, 4, 4), 2), form)


@pytest.mark.parametrize(("key", "form"), FLOAT_CHAINS)
def test_ties_decided_by_the_last_bit_of_a_product(key: str, form: str) -> None:
    """c +- half a unit in its last place times (1 + u)(1 - u), u the last place of one.

    That is the smallest way off a tie, and a sum in twice the width loses it; also for results in the subnormal range.
    """
    row = isa.lookup(key)
    fmt = row.operands[0]
    assert fmt is not None
    f, one = fmt.fraction_bits, fmt.bias << fmt.fraction_bits
    cases = []
    for low in (0, 1):  # 1: the addend is subnormal
        for fraction in (0, 1, 2, 3, (1 << f) - 2, (1 << f) - 1):
            c = fraction if low else one | fraction
            half = fmt.emin - f - 1 if low else -f - 1
            for b in (one - 2, one - 1, one):  # 1 - u, 1 - u / 2, 1
                for shift in (half // 2, half // 2 + 3):
                    a = one + 1 + (shift << f)
                    factor = b + (half - shift << f)
                    cases += [(a | s, factor, c | z) for s in (0, fmt.sign_bit) for z in (0, fmt.sign_bit)]
    cases = [case for case in cases if all(0 <= x < 1 << fmt.bits for x in case)]
    assert len(cases) > 200
    a, b, c = (np.array(column, fmt.dtype)[:, None, None] for column in zip(*cases))
    check(row, a, b, c, form)


@pytest.mark.parametrize(("key", "form"), FLOAT_CHAINS)
def test_chains_in_the_subnormal_range(key: str, form: str) -> None:
    """Every step rounds at the smallest place there is."""
    row, rng = isa.lookup(key), np.random.default_rng(5)
    fmt = row.operands[0]
    assert fmt is not None
    f, t = fmt.fraction_bits, 40
    sign = rng.integers(0, 2, (t, K, 4)).astype(np.uint64) << np.uint64(fmt.bits - 1)
    a = (rng.integers(fmt.bias - 3, fmt.bias + 1, (t, 4, K)) << f | rng.integers(0, 1 << f, (t, 4, K))).astype(
        fmt.dtype
    )
    b = (rng.integers(0, 3 << f, (t, K, 4)).astype(np.uint64) | sign).astype(fmt.dtype)
    c = rng.integers(0, 2 << f, (t, 4, 4)).astype(fmt.dtype)
    check(row, a, b, c, form)
    check(row, a[:, :, :1], b[:, :1], c, form)


def test_ffma_on_f16_values() -> None:
    """Products are exact, so FMUL and FADD do; the addend may be anything."""
    row, rng = isa.lookup("FFMA"), np.random.default_rng(3)

    def widened(shape: tuple[int, ...], kind: inputs.Class) -> Codes:
        codes = inputs.codes(rng, F16, shape, kind)
        with np.errstate(invalid="ignore"):
            return codes.view(np.float16).astype(np.float32).view(np.uint32)

    parts = [
        (widened((1, 4, K), x), widened((1, K, 4), y), inputs.codes(rng, F32, (1, 4, 4), z))
        for x in inputs.CLASSES
        for y, z in zip(inputs.CLASSES, inputs.CLASSES[::-1])
    ]
    a, b, c = (np.concatenate(column) for column in zip(*parts))
    check(row, a, b, c, "exact16")


@pytest.mark.parametrize("key", INTEGER_CHAINS)
def test_integer_chains(key: str) -> None:
    """Wrap-around at 32 bits."""
    row, rng = isa.lookup(key), np.random.default_rng(4)
    most, dtype = (1 << 32, np.uint32) if key == "IMAD" else (256, np.uint8)
    a, b = (rng.integers(0, most, s).astype(dtype) for s in ((6, 5, K), (6, K, 3)))
    c = rng.integers(0, 1 << 32, (6, 5, 3)).astype(np.uint32)
    check(row, a, b, c, None)


def test_the_form_follows_the_probe() -> None:
    """exact16 where FMUL and FADD are native and both operands are f16 values; else the verdict on FFMA."""
    row = isa.lookup("FFMA")
    native = Target(forms={"FMUL": "native", "FADD": "native", "FFMA": "double"}, float64=True, int64=True)
    assert chains.core(row, SM86, native, a_exact16=True, b_exact16=True).form == "exact16"
    assert chains.core(row, SM86, native, a_exact16=True).form == "double"
    flushing = Target(forms={"FMUL": "integer", "FADD": "native", "FFMA": "integer"})
    assert chains.core(row, SM86, flushing, a_exact16=True, b_exact16=True).form == "integer"
    assert chains.core(row, SM86, Target()).form == "integer"
    assert chains.core(isa.lookup("HMMA.16816.F32"), SM86, Target()).form == "float"
    distrusted = Target(forms={"HMMA.16816.F32": "integer"})
    assert chains.core(isa.lookup("HMMA.16816.F32"), SM86, distrusted).form == "integer"


def test_mixed_signedness_asks_for_the_side() -> None:
    core = chains.core(isa.lookup("IDP.4A.U8.S8"), SM86, Target())
    with pytest.raises(AssertionError, match="say which side"):
        core.operand(None, None)  # type: ignore[arg-type]


PACKED = [
    ("HMMA.16816.F32", False), ("HMMA.16816.F32.BF16", False), ("HMMA.16816.F32.BF16", True),
    ("HMMA.1688.F32.TF32", False), ("HMMA.1688.F32.TF32", True),
    ("FFMA", False), ("HFMA2", False), ("HFMA2.BF16_V2", False),
    ("IMMA.16832.S8.U8", False), ("IMMA.16832.U8.S8", False),
]  # fmt: skip


@pytest.mark.parametrize("form", ["float", "integer"])
@pytest.mark.parametrize(("key", "plain"), PACKED)
def test_operands_of_packed_words(key: str, plain: bool, form: str) -> None:
    """Decoding a word gives what decoding its elements one by one gives, for both sides."""
    row = isa.lookup(key)
    if form not in chains.candidates(row):
        form = chains.candidates(row)[0]
    target = Target(float64=True, int64=True, forms={"HFMA2": "native", "HFMA2.BF16_V2": "double"})
    core = chains.core(row, SM86, target, plain=plain, form=form if row.is_matrix else None)
    e = Builder(target, (64, 1, 1))
    e.push_constants(1)
    index = e.builtin("WorkgroupId", 0) * 64 + e.builtin("LocalInvocationId", 0)
    word = e.buffer(0).load(index)
    differ = e.u32(0)
    fmt = row.operands[0]
    assert fmt is not None
    for side in range(2):
        elements = core.operands_of_word(e, word, side)
        assert len(elements) == 32 // fmt.bits
        for i, packed in enumerate(elements):
            code = (word >> (i * fmt.bits)) & ((1 << fmt.bits) - 1)
            for x, y in zip(packed, core.operand(e, code, side), strict=True):
                same = (x.bits if x.kind[0] == "f" else x).eq(y.bits if y.kind[0] == "f" else y)
                differ = differ | e.select(same, e.u32(0), e.u32(1 << (2 * i + side)))
    e.buffer(1).store(index, differ)
    words = np.random.default_rng(6).integers(0, 1 << 32, 4096).astype(np.uint32)
    source, result = device().buffer(words), device().buffer(words.nbytes)
    device().dispatch(device().pipeline(e.module(), 2, 1), [source, result], [0], (64, 1, 1))
    assert_codes(result.read(), np.zeros_like(words), key)
