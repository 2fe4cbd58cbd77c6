"""The nine acceptance checks of phobos-language.md G.1, what bits must and must not depend on, and the drafts of F.2.

The expected bits are numpy's or `oracle_kernels`', operation by operation; `agree` carries them to every form.

Seen to fail with: a chain that starts over at every K tile; a gate that ignores the threads; i8(300.0) saturated; the
aliasing rule left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle_kernels as o
import pytest
from kernel_runs import agree, arguments, module, reference, same

acceptance, source = module("acceptance"), module("source_docs.ph")
F = np.float32


def products(kernel: Any, m: int, n: int, k: int, **options: Any) -> np.ndarray:
    """C of one of the matmul variants on the same operands."""
    args = arguments(kernel, {"M": m, "N": n, "K": k}, seed=5)
    tile = {**kernel.constants, **options.get("constants", {})}
    return reference(kernel, (-(-m // tile["BM"]), -(-n // tile["BN"])), args, **options)[2].view(np.uint16)


# ---- G.1 -----------------------------------------------------------------------------------------------------------


def test_1_saxpy_and_vadd_round_after_every_operation() -> None:
    x, y, z, alpha = arguments(acceptance.saxpy, {"N": 700}, 0.7, kind="edge")
    after = agree(acceptance.saxpy, (3,), [x, y, z, alpha])
    same(after, [x, y, o.add(o.mul(F(alpha), x), y)], "saxpy")
    vadd = module("drafts").vadd
    x, y, z = arguments(vadd, {"N": 3000}, kind="edge")
    same(agree(vadd, (3,), [x, y, z]), [x, y, o.add(x, y)], "vadd")


@pytest.mark.parametrize("step", [4, 8, 16, 32])
def test_2_the_k_tile_does_not_change_an_f32_product(step: int) -> None:
    kernel = module("products").f32_fma
    a, b, c = arguments(kernel, {"M": 16, "N": 32, "K": 64}, seed=3)
    after = agree(kernel, (1, 2), [a, b, c], constants={"BK": step})
    same(after, [a, b, o.chain(a, b, np.zeros((16, 32), F))], f"BK = {step}")


def test_3_the_k_tile_and_the_api_do_not_change_hmma() -> None:
    default = products(acceptance.mm, 64, 32, 192)
    for step in (32, 64):
        assert (products(acceptance.mm, 64, 32, 192, constants={"BK": step}) == default).all()
    assert (products(acceptance.mm_wmma, 64, 32, 192) == default).all()
    args = arguments(acceptance.mm, {"M": 64, "N": 32, "K": 192}, seed=5)
    agree(acceptance.mm_wmma, (2, 1), args)
    expected = o.to_f16(o.hmma(args[0], args[1], np.zeros((64, 32), F)))
    assert (default == expected.view(np.uint16)).all()


def test_3_without_tensor_cores_it_is_the_ffma_chain() -> None:
    args = arguments(acceptance.mm, {"M": 64, "N": 32, "K": 192}, seed=5)
    chain = o.chain(args[0].astype(F), args[1].astype(F), np.zeros((64, 32), F))
    after = agree(acceptance.mm_fma, (2, 1), args)
    same(after, [*args[:2], o.to_f16(chain)], "FFMA")
    assert (after[2].view(np.uint16) != products(acceptance.mm, 64, 32, 192)).any()


def test_4_the_thread_count_decides_the_rounding_of_operands() -> None:
    a, b, c = arguments(acceptance.product_128, {}, seed=7)
    zero = np.zeros((32, 32), F)
    rounded = o.hmma(a.astype(np.float16), b.astype(np.float16), zero)
    exact = o.chain(a, b, zero)
    same(agree(acceptance.product_128, (1,), [a, b, c]), [a, b, rounded], "128 threads")
    same(agree(acceptance.product_256, (1,), [a, b, c]), [a, b, exact], "256 threads")
    assert (o.bits(rounded) != o.bits(exact)).mean() > 0.5


@pytest.mark.parametrize(
    "kernel, rows, lanes",
    [("sums_256", 1, 32), ("sums_256", 48, 4), ("sums_256", 96, 2), ("sums_256", 129, 1), ("sums_128", 5, 1)],
)
def test_5_rowsums_follow_their_lanes(kernel: str, rows: int, lanes: int) -> None:
    """[1e8, 1, -1e8, 1, ...]: what is lost depends on who adds what."""
    row = np.tile(np.array([1e8, 1, -1e8, 1], F), 16)
    x = np.tile(row, (rows, 1))
    partial = [F(0)] * lanes
    for j, value in enumerate(row):
        partial[j % lanes] += value
    while len(partial) > 1:
        half = len(partial) // 2
        partial = [partial[i] + partial[i + half] for i in range(half)]
    out = np.zeros((rows, 1), F)
    after = agree(
        getattr(module("rows"), kernel), (1,), [x, out, out.copy()], constants={"R": rows, "C": 64}, registers=False
    )
    assert (after[1] == partial[0]).all()


def test_5_the_sums_differ() -> None:
    row = np.tile(np.array([1e8, 1, -1e8, 1], F), 16)[None]
    sums = {float(o.rowsum(np.tile(row, (rows, 1)), 256)[0, 0]) for rows in (1, 48, 96, 129)}
    assert len(sums) > 1


def test_6_adding_a_product_is_not_starting_from_the_sum() -> None:
    kernel = module("products").seeds
    a, b, s, *_ = args = arguments(kernel, {}, seed=11)
    zero, scaled = np.zeros_like(s), o.mul(s, F(0.7))
    product = o.chain(a, b, zero)
    expected = [o.chain(a, b, s), o.add(s, product), o.add(scaled, product), o.add(scaled, product)]
    same(agree(kernel, (1,), args), [a, b, s, *expected], "seeds")
    assert (o.bits(expected[0]) != o.bits(expected[1])).any()


def test_7_softmax_of_a_row_of_minus_infinity() -> None:
    """The floor of rowmax is finite: exp(-inf - -3e38) = 0, the sum is 0, and 0 / 0 is the canonical NaN."""
    kernel = module("rows").softmax
    x, y = arguments(kernel, {"M": 4})
    x[1] = -np.inf
    after = agree(kernel, (1,), [x, y])
    assert (o.bits(after[1])[1] == 0x7FFFFFFF).all()
    assert np.isfinite(after[1][[0, 2, 3]]).all()
    top = arguments(module("rows").sums_128, {"M": 4, "N": 32})
    top[0][:] = -np.inf
    assert (o.bits(agree(module("rows").sums_128, (1,), top)[2]) == 0xFF61B1E6).all()


@pytest.mark.parametrize("constants", [{}, {"TM": 1}, {"TM": 12}])
def test_8_the_i8_kernel_of_the_source_document_is_exact(constants: dict[str, int]) -> None:
    """Whole blocks (IMMA), a single row and 12 rows (dp4a)."""
    kernel, m = source.i8_gemm, 48
    a, w, c = arguments(kernel, {"M": m, "N": 64, "K": 64}, kind="plain")
    tile = {**kernel.constants, **constants}
    after = agree(kernel, (m // tile["TM"], 2), [a, w, c], constants=constants)
    same(after, [a, w, o.imad(a[:, :32], w[:, :32].T, np.zeros((m, 64), np.int32))], str(constants))


def test_8_bytes_that_fit_no_word_are_multiplied_one_by_one() -> None:
    kernel, constants = module("products").i8_blocks, {"BM": 8, "BN": 8, "BK": 6}
    assert kernel.program(constants).contractions()[0].instruction == "IMAD"
    a, w, c = arguments(kernel, {"M": 8, "N": 8, "K": 18}, kind="plain")
    after = agree(kernel, (1, 1), [a, w, c], constants=constants)
    same(after, [a, w, o.imad(a, w.T, np.zeros((8, 8), np.int32))], "K % 4 != 0")


def test_9_conversions_to_bytes() -> None:
    """Saturated to 16 bits, then the low byte."""
    after = agree(acceptance.conversions, (1,), [np.full((1, 8), 99, np.int8)], registers=False)
    assert after[0].tolist() == [[44, 2, -1, 44, 2, -1, -1, 0]]


# ---- what bits depend on (issue 4) ---------------------------------------------------------------------------------


def test_tiles_pipelines_and_cta_order_change_nothing() -> None:
    default = products(acceptance.mm, 64, 64, 64)
    for constants in ({"BM": 64}, {"BN": 64}, {"BM": 64, "BN": 64, "BK": 64}):
        assert (products(acceptance.mm, 64, 64, 64, constants=constants) == default).all()
    assert (products(acceptance.mm_pipelined, 64, 64, 64) == default).all()
    for seed in range(3):
        assert (products(acceptance.mm, 64, 64, 64, order=("shuffled", seed)) == default).all()


def test_a_target_that_is_an_operand_changes_the_bits() -> None:
    p, v, apart = arguments(acceptance.aliased, {}, seed=13)
    through = o.add(p, o.chain(p, v, np.zeros_like(p)))
    chained = o.hmma(p.astype(np.float16), v.astype(np.float16), p)
    same(agree(acceptance.aliased, (1,), [p, v, apart]), [through, v, chained], "aliased")
    assert (o.bits(through) != o.bits(chained)).any()


# ---- whole programs ------------------------------------------------------------------------------------------------


def test_the_k_loop_of_the_source_document() -> None:
    a, b, c = arguments(source.k_loop, {"M": 70, "N": 66, "K": 40}, seed=17)
    whole = o.chain(np.pad(a, ((0, 0), (0, 8))), np.pad(b, ((0, 8), (0, 0))), np.zeros((70, 66), F))
    same(agree(source.k_loop, (2, 2), [a, b, c]), [a, b, whole], "k loop")


def test_the_fused_epilogues_of_the_source_document() -> None:
    q, k, v, out, scale, corr = args = arguments(source.epilogues, {}, 0.125, -1.5, seed=19)
    s = o.mul(o.chain(q, k.T, np.zeros((16, 16), F)), F(scale))
    expected = o.add(o.mul(out, F(corr)), o.chain(s, v, np.zeros((16, 16), F)))
    same(agree(source.epilogues, (1,), args), [q, k, v, expected], "epilogues")


DRAFTS = [
    ("vadd", (3,), {"N": 3000}, ()),
    ("softmax", (5,), {"M": 20}, ()),
    ("scaled_mm", (2, 1), {"M": 128, "N": 64, "K": 64}, (0.3,)),
    ("layer_norm", (3,), {"M": 12}, (1 / 512, 1e-5)),
    ("attention", (2,), {"Nq": 64, "Nk": 96}, (0.125,)),
]


@pytest.mark.parametrize("name, grid, dims, scalars", DRAFTS, ids=[entry[0] for entry in DRAFTS])
def test_the_drafts_agree(name: str, grid: tuple[int, ...], dims: dict[str, int], scalars: tuple[float, ...]) -> None:
    kernel = getattr(module("drafts"), name)
    agree(kernel, grid, arguments(kernel, dims, *scalars, kind="edge"))
