"""Which instruction runs each dot, and why (phobos-language.md C.4, C.5, D.2)."""

from __future__ import annotations

import pytest
from helpers import ROOT
from lowering import body, notes, program, steps
from phobos_sim.errors import KernelError
from phobos_sim.formats import F16, F32, Format
from phobos_sim.lang import load
from phobos_sim.tile import program as tile
from phobos_sim.tile.lower_contract import Shape, refusal, warp_grid
from phobos_sim.tile.program import Program, walk

# threads, M, N, K: does the gate pass? (phobos-language.md C.5)
GATE = [
    (256, 64, 64, 32, True),
    (256, 128, 128, 32, True),
    (256, 32, 32, 16, False),
    (256, 16, 16, 16, False),
    (128, 32, 32, 64, True),
    (128, 32, 64, 32, True),
    (128, 16, 64, 16, True),
    (128, 16, 16, 64, False),
    (96, 64, 64, 16, False),
    (96, 48, 16, 16, True),
    (32, 16, 16, 16, True),
    (32, 16, 24, 16, False),
    (32, 16, 16, 8, False),
]


@pytest.mark.parametrize(("threads", "m", "n", "k", "passes"), GATE)
def test_the_gate(threads: int, m: int, n: int, k: int, passes: bool) -> None:
    assert (refusal(True, threads, F16, F16, F32, Shape(m, n, k), False, False) is None) == passes
    text = f"""
    @launch({threads})
    @tensorcore
    kernel k(A: tensor<f32>[{m}, {k}], B: tensor<f32>[{k}, {n}], C: tensor<f32>[{m}, {n}]) {{
      var acc: tile<f32>[{m}, {n}] = dot(A[:, :], B[:, :])
      C[:, :] = acc
    }}"""
    result = program(text, "k.ph")
    rounded = ["cvt.rn.f16.f32", "cvt.rn.f16.f32", "HMMA.16816.F32"]
    assert steps(result) == ["load A", "load B", *(rounded if passes else ["FFMA"]), "store C"]
    assert bool(notes(result, "path")) != passes


def test_the_warp_grid_tiles_the_fragments() -> None:
    for threads in range(32, 1025, 32):
        for rows in range(1, 9):
            for columns in range(1, 9):
                grid = warp_grid(threads, Shape(rows * 16, columns * 16, 16))
                exists = any(
                    rows % wm == 0 and columns % wn == 0
                    for wm in range(1, 33)
                    for wn in range(1, 33)
                    if wm * wn == threads // 32
                )
                assert (grid is not None) == exists
                if grid:
                    assert grid[0] * grid[1] == threads // 32 and rows % grid[0] == 0 and columns % grid[1] == 0


def test_reasons() -> None:
    def why(
        a: Format = F16, acc: Format = F32, m: int = 64, threads: int = 256, alias: bool = False, tc: bool = True
    ) -> str:
        return refusal(tc, threads, a, a, acc, Shape(m, 64, 32), alias, False) or ""

    from phobos_sim.formats import BF16

    assert why() == ""
    assert why(tc=False) == "not @tensorcore"
    assert why(a=BF16) == "element type bf16"
    assert why(acc=F16) == "result type f16 outside the GEMM loop"
    assert why(m=40) == "M = 40 not a multiple of 16"
    assert why(threads=96) == "no warp grid: 3 warps do not tile 4x4 fragments"
    assert why(alias=True) == "the target aliases an operand"


# element types of a and b, declared accumulator or '', attributes, function -> path, conversions of the operands
ROWS = [
    ("f32", "f32", "f32", "", "dot", "FFMA", []),
    ("f32", "f32", "", "", "dot", "FFMA", []),
    ("f16", "f16", "f32", "", "dot", "FFMA", ["cvt.f32.f16", "cvt.f32.f16"]),
    ("f16", "f16", "", "", "dot", "HFMA2", []),
    ("f16", "f16", "f16", "", "dot_t", "HFMA2", []),
    ("f16", "f16", "", "@tensorcore", "dot", "HMMA.16816.F32", []),
    ("f16", "f16", "f16", "@tensorcore", "dot", "HFMA2", []),
    ("f16", "f32", "f32", "", "dot", "FFMA", ["cvt.f32.f16"]),
    ("f16", "f32", "f32", "@tensorcore", "dot", "HMMA.16816.F32", ["cvt.rn.f16.f32"]),
    ("f32", "f32", "f32", "@tensorcore(wmma)", "dot_t", "HMMA.16816.F32", ["cvt.rn.f16.f32", "cvt.rn.f16.f32"]),
    ("bf16", "bf16", "", "", "dot", "HFMA2.BF16_V2", []),
    ("bf16", "bf16", "f32", "@tensorcore", "dot", "FFMA", ["cvt.f32.bf16", "cvt.f32.bf16"]),
    ("bf16", "f16", "", "", "dot", "FFMA", ["cvt.f32.bf16", "cvt.f32.f16"]),
    ("f64", "f64", "", "@tensorcore", "dot", "DFMA", []),
    ("f32", "f64", "f64", "", "dot", "DFMA", ["cvt.f64.f32"]),
    ("i8", "i8", "", "", "dot_t", "IMMA.8816.S8.S8", []),
    ("i8", "i8", "i32", "@tensorcore", "dot_t", "IMMA.8816.S8.S8", []),
    ("u8", "i8", "i32", "", "dot_t", "IMMA.8816.U8.S8", []),
    ("i8", "i8", "i32", "", "dot", "IMAD", ["cvt.s32.s8", "cvt.s32.s8"]),
    ("i32", "i32", "", "", "dot", "IMAD", []),
    ("i64", "i32", "", "", "dot", "mad.lo.s64", ["cvt.s64.s32"]),
]


@pytest.mark.parametrize(("a", "b", "acc", "attribute", "function", "path", "conversions"), ROWS)
def test_paths(a: str, b: str, acc: str, attribute: str, function: str, path: str, conversions: list[str]) -> None:
    declared = f": tile<{acc}>[64, 64]" if acc else ""
    result = body(
        f"A: tensor<{a}>[64, 64], B: tensor<{b}>[64, 64], C: tensor<bool>[64, 64]",
        f"var p{declared} = {function}(A[:, :], B[:, :])\nC[:, :] = p == p",
        attribute,
    )
    found = steps(result)
    assert found[:-2] == ["load A", "load B", *conversions, path]
    contraction = result.contractions()[0]
    assert contraction.instruction == contraction.path and contraction.transposed == (function == "dot_t")
    assert contraction.seed.type == contraction.result.type


# M, N, K of an i8 dot_t -> path (phobos-language.md C.5: all three give the same bits)
@pytest.mark.parametrize(
    ("m", "n", "k", "path"),
    [
        (16, 32, 32, "IMMA.8816.S8.S8"),
        (8, 8, 16, "IMMA.8816.S8.S8"),
        (1, 32, 32, "IDP.4A.S8.S8"),
        (8, 8, 20, "IDP.4A.S8.S8"),
        (16, 12, 32, "IDP.4A.S8.S8"),
        (8, 8, 18, "IMAD"),
    ],
)
def test_integer_paths(m: int, n: int, k: int, path: str) -> None:
    result = body(
        f"A: tensor<i8>[{m}, {k}], B: tensor<i8>[{n}, {k}], C: tensor<i32>[{m}, {n}]",
        "C[:, :] = dot_t(A[:, :], B[:, :])",
    )
    assert result.contractions()[0].path == path


PARAMS = "A: tensor<f32>[32, 32], B: tensor<f32>[32, 32], C: tensor<f32>[32, 32]"
START = "var acc: tile<f32>[32, 32] = 1.5\nlet a = A[:, :]\nlet b = B[:, :]\n"


def seed_of(result: Program) -> tile.Op:
    """The operation that made the seed of the only contraction."""
    (contraction,) = result.contractions()
    return next(op for op in walk(result.body) if contraction.seed in op.results)


def test_plus_equals_starts_from_the_target_and_plus_starts_from_zero() -> None:
    joined = body(PARAMS, START + "acc += dot(a, b)\nC[:, :] = acc")
    apart = body(PARAMS, START + "acc = acc + dot(a, b)\nC[:, :] = acc")
    assert steps(joined) == ["load A", "load B", "FFMA", "store C"]
    assert steps(apart) == ["load A", "load B", "FFMA", "add.rn.f32", "store C"]
    codes = {id(op.result): op.code for op in walk(joined.body) if isinstance(op, tile.Constant)}
    start = seed_of(joined)
    assert isinstance(start, tile.Broadcast) and codes[id(start.value)] == 0x3FC00000
    codes = {id(op.result): op.code for op in walk(apart.body) if isinstance(op, tile.Constant)}
    start = seed_of(apart)
    assert isinstance(start, tile.Broadcast) and codes[id(start.value)] == 0


@pytest.mark.parametrize(
    ("statement", "after"),
    [
        ("acc = dot(acc, b)", []),
        ("acc += dot(b, acc)", ["add.rn.f32"]),
        ("let q = acc\nacc += dot(q, b)", ["add.rn.f32"]),
    ],
)
def test_a_target_that_is_an_operand_goes_through_a_temporary(statement: str, after: list[str]) -> None:
    result = body(PARAMS, START + statement + "\nC[:, :] = acc", "@launch(128)\n@tensorcore")
    (contraction,) = result.contractions()
    assert (contraction.path, contraction.reason) == ("FFMA", "the target aliases an operand")
    assert [step for step in steps(result) if not step.startswith(("load", "store"))] == ["FFMA", *after]


def test_the_accumulator_is_not_narrower_than_an_operand() -> None:
    for acc, element in (("f16", "f32"), ("f32", "f64"), ("bf16", "f16"), ("i32", "f32")):
        with pytest.raises(KernelError):
            body(f"A: tensor<{element}>[16, 16]", f"var t: tile<{acc}>[16, 16] = dot(A[:, :], A[:, :])")


def test_integer_products_convert_to_other_targets_afterwards() -> None:
    text = "var t: tile<f32>[8, 8] = dot_t(A[:, :], A[:, :])\nt += dot_t(A[:, :], A[:, :])\nC[:, :] = t"
    result = body("A: tensor<i8>[8, 16], C: tensor<f32>[8, 8]", text)
    names = [step for step in steps(result) if not step.startswith("load")]
    product = ["IMMA.8816.S8.S8", "cvt.rn.f32.s32"]
    assert names == [*product, *product, "add.rn.f32", "store C"]


# ---- the GEMM loop ----------------------------------------------------------------------------------------------

GEMM = """
@launch(256)
@tensorcore
@aligned(M = 64, N = 64, K = 32)
kernel k(A: tensor<f16>[M, K], B: tensor<f16>[K, N], C: tensor<f16>[M, N], alpha: f32, beta: f32) {{
  let i = ctx.block.x * 64
  let j = ctx.block.y * 64
  var acc: tile<{acc}>[64, 64] = 0.0
  for k in range(0, K, 32) {{
    {let} a = A[i :+ 64, k :+ 32]
    {let} b = B[k :+ 32, j :+ 64]
    acc += dot(a, b)
  }}
  {epilogue}
}}
"""


def gemm(epilogue: str = "C[i :+ 64, j :+ 64] = acc", acc: str = "f16", let: str = "var", **replaced: str) -> Program:
    text = GEMM.format(acc=acc, let=let, epilogue=epilogue)
    for old, new in replaced.items():
        assert old.replace("_", " ") in text
        text = text.replace(old.replace("_", " "), new)
    return program(text, "k.ph")


SCALED = ["cvt.f32.f16", "mul.rn.f32"]
EPILOGUES = [
    ("C[i :+ 64, j :+ 64] = acc", []),
    ("C[i :+ 64, j :+ 64] = alpha * acc", [*SCALED, "cvt.rn.f16.f32"]),
    ("C[i :+ 64, j :+ 64] = acc * 0.1", [*SCALED, "cvt.rn.f16.f32"]),
    (
        "let p = C[i :+ 64, j :+ 64]\n  C[i :+ 64, j :+ 64] = alpha * acc + beta * p",
        ["load C", *SCALED, *SCALED, "add.rn.f32", "cvt.rn.f16.f32"],
    ),
    (
        "let p = C[i :+ 64, j :+ 64]\n  C[i :+ 64, j :+ 64] = p + alpha * acc",
        ["load C", *SCALED, "cvt.f32.f16", "add.rn.f32", "cvt.rn.f16.f32"],
    ),
]


@pytest.mark.parametrize(("epilogue", "expected"), EPILOGUES)
def test_an_f16_accumulator_runs_on_tensor_cores_in_the_gemm_loop(epilogue: str, expected: list[str]) -> None:
    for let in ("var", "let"):
        found = steps(gemm(epilogue, let=let))
        assert found == ["for", "load A", "load B", "HMMA.16816.F16", *expected, "store C"]


def test_the_pattern_reads_the_previous_values_from_the_store_s_slice() -> None:
    result = gemm("let p = C[0 :+ 64, 0 :+ 64]\n  C[i :+ 64, j :+ 64] = acc + p")
    load = next(op for op in walk(result.body) if isinstance(op, tile.Load) and op.tensor == "C")
    store = next(op for op in walk(result.body) if isinstance(op, tile.Store))
    products = {id(op.result): op for op in walk(result.body) if isinstance(op, tile.Map)}
    for read, written in zip(load.starts, store.starts, strict=True):
        assert products[id(read)].args == products[id(written)].args


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("no promise for M", {"M_=_64,": ""}),
        ("only the store may be cut off", {"epilogue": "C[i :+ 64, j + 8 :+ 64] = acc"}),
        ("a panel may be cut off", {"A[i_:+": "A[i + 8 :+"}),
        ("a coarser promise", {"N_=_64": "N = 96"}),
        ("the accumulator is read later", {"epilogue": "C[i :+ 64, j :+ 64] = acc\n  C[0, 0] = acc[0, 0]"}),
        ("a statement between", {"epilogue": "let z = 1\n  C[i :+ 64, j :+ 64] = acc"}),
        ("a third statement in the loop", {"acc_+=": "let z = 1\n    acc +="}),
        ("a sum in the epilogue", {"epilogue": "C[i :+ 64, j :+ 64] = acc + acc"}),
        ("a unary minus", {"epilogue": "C[i :+ 64, j :+ 64] = -1.0 * acc"}),
        ("no @tensorcore", {"@tensorcore": ""}),
        ("a thread count without a warp grid", {"@launch(256)": "@launch(96)"}),
        ("a variable start", {"=_0.0": "= alpha"}),
    ],
)
def test_what_leaves_the_gemm_pattern(what: str, options: dict[str, str]) -> None:
    assert gemm(**options).contractions()[0].path == "HFMA2"


def test_missing_promises_do_not_matter_for_an_f32_accumulator() -> None:
    ragged = gemm(acc="f32", **{"@aligned(M_=_64,_N_=_64,_K_=_32)": ""})
    assert ragged.contractions()[0].path == "HMMA.16816.F32"


def test_scalars_of_an_epilogue_outside_the_pattern_take_the_target_s_type() -> None:
    inside = steps(gemm("C[i :+ 64, j :+ 64] = acc * alpha", acc="f32"))
    outside = steps(gemm("let z = 1\n  C[i :+ 64, j :+ 64] = acc * alpha", acc="f32"))
    assert inside[-3:] == ["mul.rn.f32", "cvt.rn.f16.f32", "store C"]
    assert outside[-5:] == ["cvt.rn.f16.f32", "cvt.f32.f16", "mul.rn.f32", "cvt.rn.f16.f32", "store C"]


def test_flash_attention_with_small_tiles_mixes_paths() -> None:
    kernel = load(ROOT / "examples" / "flash_attention_f16.py").flash_attention_f16
    assert [c.path for c in kernel.program().contractions()] == ["HMMA.16816.F32", "HMMA.16816.F32"]
    small = kernel.program({"BR": 16, "BC": 16})
    assert [c.path for c in small.contractions()] == ["FFMA", "HMMA.16816.F32"]
    assert notes(small, "path") == ["dot_t falls back to FFMA: no warp grid: 4 warps do not tile 1x1 fragments"]


def test_a_dot_straight_into_a_slice_that_may_be_cut_off() -> None:
    params = "A: tensor<f32>[M, 16], B: tensor<f32>[16, 16], C: tensor<f32>[M, 16]"
    store = "C[ctx.block.x * 16 :+ 16, :] = dot(A[ctx.block.x * 16 :+ 16, :], B[:, :])"
    assert steps(body(params, store, "@aligned(M = 32)")) == ["load A", "load B", "FFMA", "store C"]
    added = steps(body(params, store.replace(" = ", " += "), "@aligned(M = 16)"))
    assert added == ["load C", "load A", "load B", "FFMA", "store C"]
    for attributes in ("", "@aligned(M = 24)", "@aligned(M = 8)"):
        with pytest.raises(KernelError, match="may be cut off"):
            body(params, store, attributes)
