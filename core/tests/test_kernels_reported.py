"""cases/reported.md in whole kernels: small inputs that other tools got wrong, each for its whole kind.

C2, C3, C7 to C12 and C14 are instructions (test_device_instructions_recorded). Every case here runs on every form.

Seen to fail with: rowmax by fmax; a payload bit lost in a copy; the status of an endless loop not read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import oracle_kernels as o
import pytest
from helpers import cli, llvmpipe
from kernel_runs import KERNELS, agree, arguments, facts, module, on_device, reference, same
from phobos_sim.errors import KernelError, LaunchError, LoopLimitError, PhobosError

reported = module("reported")
F, H = np.float32, np.float16
QUIET = 0x7FFFFFFF


def test_c1_bf16_integers_are_multiplied_as_numbers() -> None:
    a, b, *_ = arguments(reported.bf16_product, {}, kind="small")
    a, b = (np.clip(x.astype(F), -2, 2).astype(ml_dtypes.bfloat16) for x in (a, b))
    out = np.zeros((16, 16), F), np.zeros((16, 16), ml_dtypes.bfloat16)
    exact = a.astype(F) @ b.astype(F)
    after = agree(reported.bf16_product, (1,), [a, b, *out])
    same(after, [a, b, exact, exact.astype(ml_dtypes.bfloat16)], "C1")


@pytest.mark.parametrize("position", range(8))
def test_c4_a_nan_survives_a_row_sum(position: int) -> None:
    row = np.array([1, 2, 3, 4, 5, 6, 7, 8], F).astype(ml_dtypes.bfloat16)
    row.view(np.uint16)[position] = 0x7FC1
    x = np.tile(row, (4, 1))
    out = np.zeros((4, 1), ml_dtypes.bfloat16)
    after = agree(module("rows").sums_bf16, (1,), [x, out, out.copy()], constants={"C": 8})
    assert (after[1].view(np.uint16) == 0x7FFF).all()


@pytest.mark.parametrize("products, code", [(1, 0x6800), (8, 0x6804), (16, 0x6808)])
def test_c5_groups_are_summed_before_they_are_rounded(products: int, code: int) -> None:
    a, b = np.zeros((16, 16), H), np.ones((16, 16), H)
    a[:, :products] = 1
    assert reported.f16_accumulator.program().contractions()[0].instruction == "HMMA.16816.F16"
    after = agree(reported.f16_accumulator, (1,), [a, b, np.zeros((16, 16), H)])
    assert (after[2].view(np.uint16) == code).all()


def test_c6_an_f32_accumulator_keeps_what_f16_would_lose() -> None:
    a, b = np.ones((16, 16), H), np.ones((16, 16), H)
    a[:, 0] = 2048
    after = agree(reported.f32_accumulator, (1,), [a, b, np.zeros((16, 16), F)])
    assert (o.bits(after[2]) == 0x4500F000).all()


def test_c13_a_copy_keeps_every_bit() -> None:
    a = np.zeros((4, 64), np.uint32)
    a[0, :3] = 0x7F800001, 0xFFC12345, 0x80000000
    a[1:] = arguments(reported.copy, {}, kind="hard")[0].view(np.uint32)[1:]
    same(agree(reported.copy, (1,), [a.view(F), np.zeros((4, 64), F)]), [a.view(F), a.view(F)], "C13")


def _nearly(target: float, rng: np.random.Generator) -> np.ndarray:
    """16 f16 values whose squares sum up to just below a target: twelve at random, four that fill the rest up."""
    v = rng.standard_normal(12)
    v = list((v / np.linalg.norm(v) * np.sqrt(target * 0.9)).astype(H))
    for _ in range(4):
        rest = max(0.0, target - float(np.square(np.array(v, np.float64)).sum()))
        root = H(np.sqrt(rest))
        v.append(root if float(root) ** 2 <= rest else np.nextafter(root, H(0)))
    return np.array(v, H)


def test_c15_carries_into_the_next_exponent() -> None:
    """Vectors whose dot with themselves lands on 1 - ulp, 1, 1 + ulp, and so at other powers of two."""
    rng = np.random.default_rng(15)
    ulp = 2.0**-23
    targets = [s * 4.0**e for e in range(-3, 4) for s in (1 - ulp / 2, 1, 1, 1 + ulp, 1 + 2 * ulp) for _ in range(7)]
    v = np.stack([_nearly(t, rng) for t in [*targets, *targets[:11]]])
    v[0], v[1] = [0.5] * 4 + [0] * 12, [0.25] * 16
    assert len(v) == 256
    after = agree(reported.self_products, (16,), [v, np.zeros((256, 16), F)])
    expected = np.concatenate([o.hmma(part, part.T, np.zeros((16, 16), F)) for part in v.reshape(16, 16, 16)])
    same(after, [v, expected], "C15")
    own = expected[np.arange(256), np.arange(256) % 16]
    powers = np.exp2(np.round(np.log2(own))).astype(F)
    apart = o.bits(own).astype(np.int64) - o.bits(powers).astype(np.int64)
    assert {-2, -1, 0, 1} <= set(apart.tolist()), sorted(set(apart.tolist()))
    wide = v.astype(F)
    kernel = module("products").f32_fma_t
    chain = o.chain(wide[:16], wide[:16].T, np.zeros((16, 16), F))
    same(agree(kernel, (1, 1), [wide[:16], wide[:16], np.zeros((16, 16), F)]), [wide[:16]] * 2 + [chain], "C15, FFMA")


def test_c17_a_nan_in_a_row_maximum() -> None:
    """`a > b ? a : b` literally: a NaN is taken where it is the second operand, and dropped by the next one."""
    x = np.full((4, 32), -1, F)
    for row, column in ((0, 0), (1, 31)):
        x[row, column] = np.nan
    x[2] = np.nan
    out = np.zeros((4, 1), F)
    after = agree(module("rows").sums_128, (1,), [x, out, out.copy()])
    same(after, [x, o.rowsum(x, 128), o.rowmax(x, 128)], "C17")
    assert (o.bits(after[1])[:3] == QUIET).all()


def test_c17_softmax_of_nothing_but_minus_infinity() -> None:
    x = np.full((4, 64), -np.inf, F)
    after = agree(module("rows").softmax, (1,), [x, np.zeros((4, 64), F)])
    assert (o.bits(after[1]) == QUIET).all()


def test_c18_k_of_zero_is_the_initial_value() -> None:
    kernel = module("products").f32_fma
    a, b, c = arguments(kernel, {"M": 16, "N": 16, "K": 0})
    same(agree(kernel, (1, 1), [a, b, c]), [a, b, np.zeros_like(c)], "K = 0")


def test_c18_a_row_of_one() -> None:
    kernel = module("products").matrix_vector
    a, b, c = arguments(kernel, {"K": 24})
    same(agree(kernel, (1,), [a, b, c]), [a, b, o.chain(a, b, np.zeros_like(c))], "M = 1")


@pytest.mark.parametrize("grid", [(0,), (1, 0), (1, 1, 0), (-1,), ()])
def test_c18_an_empty_grid_is_an_error(grid: tuple[int, ...]) -> None:
    args = arguments(module("memory").add, {"M": 4, "N": 16})
    for device in ("reference", llvmpipe()):
        with pytest.raises(LaunchError, match="grid"):
            module("memory").add.launch(grid, *args, device=device)


@pytest.mark.parametrize("dims", [{"M": 0, "N": 16}, {"M": 4, "N": 0}, {"M": 0, "N": 0}])
def test_c18_empty_tensors_are_read_as_zero_and_never_written(dims: dict[str, int]) -> None:
    agree(module("memory").add, (1, 1), arguments(module("memory").add, dims))


def test_c20_sums_overflow_step_by_step() -> None:
    """HFMA2 and f16 sums round at every step: infinity where a partial sum passes 65504 by half a unit or more."""
    a, b = np.zeros((8, 16), H), np.ones((16, 8), H)
    a[0, :3] = 65504, 15, -65504  # half a unit is 16: stays
    a[1, :3] = 65504, 16, -65504  # a tie, to even: infinity
    a[2, :4] = 60000, 60000, -60000, -60000
    a[3, :4] = 60000, -60000, 60000, -60000
    a[4, :2] = -65504, -16
    a[5, :3] = 65504, 8, 8
    after = agree(reported.f16_sums, (1,), [a, b, np.zeros((8, 8), H), np.zeros((8, 1), H)], registers=False)
    assert after[2][:6, 0].tolist() == [0, np.inf, np.inf, 0, -np.inf, 65504]
    assert np.isinf(after[3][:3]).all() or np.isnan(after[3][:3]).any()


def test_c20_hmma_overflows_only_with_its_groups_sum() -> None:
    a, b = np.zeros((16, 16), H), np.ones((16, 16), H)
    a[0, :4] = 60000, 60000, -60000, -60000  # one group: exact
    a[1, 0], a[1, 8:10] = 60000, (60000, -60000)  # the second group starts from the first one's 60000 + 2048
    a[2, 0:2], a[2, 8] = (60000, 60000), -60000  # the first group overflows, and that stays
    after = agree(reported.f16_accumulator, (1,), [a, b, np.zeros((16, 16), H)])
    assert after[2][:3, 0].tolist() == [2048, float(H(62048)), np.inf]


# ---- C16: failures -------------------------------------------------------------------------------------------------


def test_c16_an_error_in_the_second_kernel_is_found_when_it_is_asked_for() -> None:
    broken = module("broken")
    x = np.arange(8, dtype=F)
    y = np.zeros(8, F)
    agree(broken.fine, (1,), [x, y])
    with pytest.raises(KernelError, match=r"broken.py:\d+:\d+: error: `C` is not defined"):
        broken.wrong.launch((1,), x, y, device=llvmpipe())
    assert (y == 0).all()
    agree(broken.fine, (1,), [x, y])


def test_c16_the_command_line_says_so_at_once(tmp_path: Path) -> None:
    done = cli("run", KERNELS / "broken.py", "--kernel", "wrong", "--dim", "N=8", "--out", tmp_path / "out", timeout=60)
    assert done.returncode == 2 and "broken.py" in done.stderr and "`C` is not defined" in done.stderr
    assert not list(tmp_path.rglob("*.npy"))


def _failing(kernel: Any, args: list[Any], error: type[PhobosError], **options: Any) -> None:
    with pytest.raises(error):
        kernel.launch((1,), *args, **options)


def test_c16_a_launch_that_fails_writes_nothing_and_the_next_one_runs() -> None:
    """A loop without end stores into X at every turn before it is stopped."""
    kernel = module("control").endless_stores
    x = np.full(8, 7, F)
    with facts(loop_budget=100):
        for form in ("registers", "shared", None):
            _failing(kernel, [x], LoopLimitError, device=llvmpipe(), form=form)
            assert (x == 7).all()
    fine = module("broken").fine
    on_device(fine, (1,), [x, np.zeros(8, F)], llvmpipe())
    same(reference(fine, (1,), [x, np.zeros(8, F)]), [x, x + F(1)], "after a failure")


def test_c16_a_failure_between_two_launches_is_only_its_own() -> None:
    fine, y = module("broken").fine, np.zeros(8, F)
    _failing(fine, [np.zeros(7, F), y], LaunchError, device=llvmpipe())
    _failing(fine, [np.zeros(8, np.float64), y], LaunchError, device=llvmpipe())
    fine.launch((1,), np.ones(8, F), y, device=llvmpipe())
    assert (y == 2).all()
