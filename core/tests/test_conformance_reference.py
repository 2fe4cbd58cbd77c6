"""The reference against recordings of real silicon and against the corner vectors: no mismatch at all."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import ROOT, assert_codes, shared
from phobos_sim import isa
from phobos_sim.formats import dtype_of
from phobos_sim.recordings import corners
from phobos_sim.recordings.corners import Corner
from phobos_sim.reference import execute

PUBLIC = {
    "sm70-v100": "sm_70", "sm80-a100": "sm_80", "sm86-a2": "sm_86", "sm89-ada": "sm_89", "sm89-l40s": "sm_89",
    "sm90-h100": "sm_90", "sm90-h200": "sm_90", "sm100-b200": "sm_100",
}  # fmt: skip
#: (formats, products per group in the set) -> instruction.
PUBLIC_ROWS = {
    ("f16.f32", 4): "HMMA.884.F32", ("f16.f16", 4): "HMMA.884.F16", ("f16.f32", 8): "HMMA.1688.F32",
    ("f16.f16", 8): "HMMA.1688.F16", ("f16.f32", 16): "HMMA.16816.F32", ("f16.f16", 16): "HMMA.16816.F16",
    ("bf16.f32", 8): "HMMA.1688.F32.BF16", ("bf16.f32", 16): "HMMA.16816.F32.BF16",
    ("tf32.f32", 4): "HMMA.1684.F32.TF32",
}  # fmt: skip
H200_MMA = {
    "f16_16816_f32": "HMMA.16816.F32", "f16_1688_f32": "HMMA.1688.F32", "f16_16816_f16": "HMMA.16816.F16",
    "f16_1688_f16": "HMMA.1688.F16", "bf16_16816_f32": "HMMA.16816.F32.BF16", "bf16_1688_f32": "HMMA.1688.F32.BF16",
    "tf32_1688_f32": "HMMA.1688.F32.TF32", "tf32_1684_f32": "HMMA.1684.F32.TF32", "s8_16832": "IMMA.16832.S8.S8",
    "u8s8_16832": "IMMA.16832.U8.S8", "s8sat_16832": "IMMA.16832.S8.S8.SAT", "s8_8816": "IMMA.8816.S8.S8",
}  # fmt: skip
CORNERS = [c for name in ("hmma", "reported") for c in corners.read(ROOT / f"recordings/corners/{name}.txt")]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_sets(name: str) -> None:
    with np.load(shared("silicon", f"{name}-public.npz"), allow_pickle=False) as data:
        kinds = sorted({key.rpartition(".")[0] for key in data.files})
        assert kinds
        for kind in kinds:
            a, b, c, d = (data[f"{kind}.{operand}"] for operand in "abcd")
            row = isa.lookup(PUBLIC_ROWS[kind, a.shape[1]])
            arch = isa.ARCHS[PUBLIC[name]]
            assert arch.has(row)
            result = execute.mma(row, a[:, None, :], b[:, :, None], c[:, None, None], arch)
            assert_codes(result.reshape(-1), d, f"{name} {kind}")


@pytest.mark.parametrize("name", H200_MMA)
def test_h200_matrix_instructions(name: str) -> None:
    with np.load(shared("silicon", "sm90-h200-mma.npz"), allow_pickle=False) as data:
        a, b, c, d = (data[f"{name}.{operand}"] for operand in "abcd")
    assert_codes(execute.mma(isa.lookup(H200_MMA[name]), a, b, c, isa.ARCHS["sm_90"]), d, name)


def test_h200_scalar_operations() -> None:
    with np.load(shared("silicon", "sm90-h200-scalar.npz"), allow_pickle=False) as data:
        names = sorted({key.rpartition(".")[0] for key in data.files})
        assert len(names) == 55
        for name in names:
            row = isa.lookup(name)
            formats = [fmt for fmt in row.operands if fmt is not None]
            operands = [data[f"{name}.in{i}"].astype(fmt.dtype) for i, fmt in enumerate(formats)]
            assert row.result is not None
            assert_codes(execute.apply(row, *operands), data[f"{name}.out"].astype(dtype_of(row.result)), name)


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: corner.name)
def test_corner_vectors(corner: Corner) -> None:
    for arch, code in corner.expected.items():
        run = execute.mma if corner.instruction.is_matrix else execute.apply
        keywords = {"arch": isa.ARCHS[arch]} if corner.instruction.is_matrix else {}
        result = run(corner.instruction, *corner.batch(), **keywords)
        digits = result.dtype.itemsize * 2
        assert f"{int(result.item()):0{digits}x}" == f"{code:0{digits}x}", f"{corner.name} on {arch}: {corner.reason}"


@pytest.mark.parametrize(("target", "drop"), [("f16", 13), ("bf16", 16)])
def test_every_tie_of_a_conversion(target: str, drop: int) -> None:
    """C3: halfway between every two finite neighbours, nearest even wins, and the tie above the largest is infinity."""
    exact = isa.lookup(f"cvt.f32.{target}")
    down = isa.lookup(f"cvt.rn.{target}.f32")
    fmt = exact.operands[0]
    assert fmt is not None
    below = np.arange(fmt.infinity, dtype=np.uint16)
    low = execute.apply(exact, below).view(np.float32).astype(np.float64)
    high = np.append(low[1:], 2.0 ** (fmt.emax + 1))
    ties = ((low + high) / 2).astype(np.float32)
    assert np.array_equal(ties.astype(np.float64), (low + high) / 2), "the ties must be exact in f32"
    expected = below + (below & np.uint16(1))
    assert_codes(execute.apply(down, ties.view(np.uint32)), expected, "ties")
    assert_codes(execute.apply(down, (-ties).view(np.uint32)), expected | np.uint16(0x8000), "negative ties")
    nudged = ties.view(np.uint32)
    assert_codes(execute.apply(down, nudged + np.uint32(1)), below + np.uint16(1), "just above the ties")
    assert_codes(execute.apply(down, nudged - np.uint32(1)), below, "just below the ties")


def test_copies_keep_payloads() -> None:
    """C13: selects and the language's maximum move bits; arithmetic on the same bits gives the canonical NaN."""
    bits = np.array([0x7F800001, 0xFFC12345, 0x80000000], np.uint32)
    yes = np.ones(3, np.bool_)
    assert_codes(execute.apply(isa.lookup("selp"), yes, bits, np.zeros_like(bits)), bits)
    assert_codes(execute.apply(isa.lookup("selp"), ~yes, np.zeros_like(bits), bits), bits)
    assert_codes(execute.apply(isa.lookup("max.sel.f32"), np.zeros_like(bits), bits), bits)
    negated = execute.apply(isa.lookup("neg.f32"), bits)  # an addition too (docs/adr/0008)
    assert_codes(negated, np.array([0x7FFFFFFF, 0x7FFFFFFF, 0], np.uint32))
    added = execute.apply(isa.lookup("FADD"), bits, np.full_like(bits, 0x80000000))
    assert_codes(added, np.array([0x7FFFFFFF, 0x7FFFFFFF, 0x80000000], np.uint32))


@pytest.mark.parametrize("name", ["ex2.approx.f16", "tanh.approx.f16"])
def test_half_mufu_on_all_inputs(name: str) -> None:
    """All 65,536 operands: the f32 function of the widened operand, truncated; an overflow is infinity."""
    import oracle_table

    codes = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    row = isa.lookup(name)
    expected = [oracle_table.evaluate(row, code) for code in codes.tolist()]
    assert_codes(execute.apply(row, codes), np.array(expected, np.uint16), name)
