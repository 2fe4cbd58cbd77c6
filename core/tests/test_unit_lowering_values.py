"""What an expression becomes: operation by operation, conversion by conversion (phobos-language.md C.1 to C.3, D)."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import ROOT
from lowering import body, notes, steps
from phobos_sim import isa
from phobos_sim.errors import KernelError
from phobos_sim.formats import BF16, F16, F32, F64, S64, Format
from phobos_sim.lang import load
from phobos_sim.lang.types import ELEMENTS, accumulator, conversion, instruction, join
from phobos_sim.reference import execute
from phobos_sim.tile import program as tile
from phobos_sim.tile.lower_base import index_constant
from phobos_sim.tile.lower_builtins import FLOOR, lanes
from phobos_sim.tile.lower_ops import fold
from phobos_sim.tile.program import Program, walk

PARAMS = (
    "A: tensor<f32>[4, 8], H: tensor<f16>[4, 8], B: tensor<bf16>[4, 8], D: tensor<f64>[4, 8], I: tensor<i32>[4, 8], "
    "J: tensor<i8>[4, 8], U: tensor<u8>[4, 8], L: tensor<i64>[4, 8], P: tensor<bool>[4, 8], "
    "s: f32, h: f16, n: i32, c: bool"
)
TILES = "".join(f"var {name.lower()}t = {name}[:, :]\n" for name in "AHBDIJULP")


def made(statement: str, attributes: str = "") -> list[str]:
    """The operations of a statement over one tile of every type (at, ht, bt, ...) and scalars s, h, n, c."""
    found = steps(body(PARAMS, TILES + statement, attributes))
    return found[9:]


def codes(result: Program) -> dict[int, tuple[str, int]]:
    """Constants of a program by the identity of their value."""
    return {
        id(op.result): (op.result.element.name, op.code) for op in walk(result.body) if isinstance(op, tile.Constant)
    }


# ---- joins and conversions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "joined", "accumulated"),
    [
        ("f16", "f16", "f16", "f16"),
        ("f16", "bf16", "f32", "f32"),
        ("f32", "f16", "f32", "f32"),
        ("bf16", "f64", "f64", "f64"),
        ("i8", "f16", "f16", "f16"),
        ("i64", "bf16", "bf16", "bf16"),
        ("i8", "i32", "i32", "i32"),
        ("i8", "i8", "i8", "i32"),
        ("i8", "u8", "i32", "i32"),
        ("i32", "i64", "i64", "i64"),
        ("bool", "bool", "bool", None),
        ("bool", "i32", None, None),
    ],
)
def test_joins(a: str, b: str, joined: str | None, accumulated: str | None) -> None:
    for x, y in ((a, b), (b, a)):
        assert join(ELEMENTS[x], ELEMENTS[y]) == (ELEMENTS[joined] if joined else None)
        assert accumulator(ELEMENTS[x], ELEMENTS[y]) == (ELEMENTS[accumulated] if accumulated else None)


def test_every_conversion_is_a_known_instruction_that_takes_and_gives_the_right_formats() -> None:
    for source in ELEMENTS.values():
        for target in ELEMENTS.values():
            steps_ = conversion(target, source)
            if steps_ is None:
                assert target.name == "pred" != source.name
                continue
            at = source
            for step in steps_:
                row = isa.lookup(step)
                assert row.operands == (at,), step
                assert row.result is not None
                at = row.result
            assert at == target


def test_every_operator_is_a_known_instruction() -> None:
    found = 0
    for op in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">="):
        for fmt in ELEMENTS.values():
            key = instruction(op, fmt)
            if key is not None:
                row = isa.lookup(key)
                assert len(row.operands) == 2 and row.operands == (fmt, fmt), key
                found += 1
    assert found > 100


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_use_known_instructions_and_well_formed_ssa(path: object) -> None:
    for kernel in load(str(path)).kernels.values():
        for constants in kernel.variants():
            check(kernel.program(constants))


def check(result: Program) -> None:
    """Every instruction is known and fits its operands; every operand is defined before its use, once."""
    defined = {id(scalar.value) for scalar in result.scalars}

    def visit(block: tile.Block) -> None:
        for op in block.ops:
            assert all(id(value) in defined for value in op.operands), op
            if isinstance(op, tile.Map):
                row = isa.lookup(op.instruction)
                assert len(row.operands) == len(op.args), op.instruction
                for wanted, given in zip(row.operands, op.args, strict=True):
                    assert wanted in (None, given.element), (op.instruction, given)
                assert row.result in (None, op.result.element), op.instruction
            for inner in op.blocks:
                defined.update(id(value) for value in inner.arguments)
                visit(inner)
                assert all(id(value) in defined for value in inner.yields), op
            if isinstance(op, (tile.For, tile.While)):
                assert [v.type for v in op.inits] == [v.type for v in op.body.yields] == [v.type for v in op.outs]
            if isinstance(op, tile.If):
                assert (
                    [v.type for v in op.then.yields] == [v.type for v in op.orelse.yields] == [v.type for v in op.outs]
                )
            assert not any(id(value) in defined for value in op.results), op
            defined.update(id(value) for value in op.results)

    visit(result.body)


# ---- untyped bindings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("at * at + at", ["mul.rn.f32", "add.rn.f32"]),  # fact 1: never contracted
        ("at + ht", ["cvt.f32.f16", "add.rn.f32"]),
        ("ht + bt", ["cvt.f32.f16", "cvt.f32.bf16", "add.rn.f32"]),
        ("it + ht", ["cvt.rn.f16.s32", "add.rn.f16"]),
        ("ht * 0.1", ["mul.rn.f16"]),  # the literal became f16 when compiling
        ("ht * s", ["cvt.rn.f16.f32", "mul.rn.f16"]),
        ("dt * s", ["cvt.f64.f32", "mul.rn.f64"]),
        ("it * 3", ["mul.lo.s32"]),
        ("it * n", ["cvt.s32.s64", "mul.lo.s32"]),
        ("it * s", ["cvt.rn.f32.s32", "mul.rn.f32"]),
        ("jt * jt", ["mul.lo.s8"]),
        ("ut + jt", ["cvt.s32.u8", "cvt.s32.s8", "add.s32"]),
        ("at % 2.0", ["rem.f32"]),
        ("at / 3.0", ["div.rn.f32"]),
        ("-at", ["sub.rn.f32"]),  # 0 - t: +0 for +0
        ("-s", ["neg.f32"]),  # a sign flip
        ("-3.0 * at", ["mul.rn.f32"]),
        ("exp(ht)", ["cvt.f32.f16", "exp.f32", "cvt.rn.f16.f32"]),
        ("sqrt(dt)", ["cvt.rn.f32.f64", "sqrt.approx.f32", "cvt.f64.f32"]),
        ("log(at)", ["log.f32"]),
        ("tanh(bt)", ["cvt.f32.bf16", "tanh.approx.f32", "cvt.rn.bf16.f32"]),
        ("round(at)", ["cvt.rni.f32.f32"]),
        ("pow(at, 2.0)", ["pow.f32"]),
        ("pow(ht, ht)", ["cvt.f32.f16", "cvt.f32.f16", "pow.f32", "cvt.rn.f16.f32"]),
        ("tmax(at, at)", ["max.sel.f32"]),
        ("tmax(ht, 0.0)", ["max.sel.f16"]),
        ("at < ht", ["cvt.f32.f16", "setp.lt.f32"]),
        ("at != at", ["setp.ne.f32"]),
        ("where(at < 0.0, at, 1.0)", ["setp.lt.f32", "selp"]),
        ("where(pt, ht, at)", ["cvt.f32.f16", "selp"]),
        ("argsel(at, at, it, 0)", ["setp.ge.f32", "selp"]),
        ("pt & !pt", ["not.pred", "and.pred"]),
        ("it ^ (it >> 16)", ["shr.s32", "xor.s32"]),
        ("~ut", ["not.u8"]),
        ("i8(at)", ["cvt.low8.s8.f32"]),  # i8(300.0) is 44
        ("i8(i32(at))", ["cvt.rzi.s32.f32", "cvt.s8.s32"]),
        ("u8(ht)", ["cvt.low8.u8.f16"]),
        ("i64(at)", ["cvt.rzi.s64.f32"]),
        ("f16(at)", ["cvt.rn.f16.f32"]),
        ("f16(it)", ["cvt.rn.f16.s32"]),
        ("bf16(ht)", ["cvt.rn.bf16.f16"]),
        ("f32(pt)", ["cvt.s32.pred", "cvt.rn.f32.s32"]),
        ("f32(at)", []),
        ("transpose(at)", ["transpose"]),
        ("flat(at) + 1.0", ["reshape", "add.rn.f32"]),
        ("tril(at)", ["iota", "iota", "setp.le.s32", "selp"]),
        ("cumsum(at)", ["scan"]),
        ("rowargmax(at)", ["argmax"]),
        ("iota(8) < n", ["iota", "cvt.s32.s64", "setp.lt.s32"]),
        ("gather(at, it)", ["gather"]),
        ("at[0 :+ 2, :]", ["extract"]),
        ("at[1, 2] * s", ["extract", "mul.rn.f32"]),
        ("A[1, 2] * s", ["load A", "mul.rn.f32"]),
        ("s * h", ["cvt.f32.f16", "mul.rn.f32"]),
        ("s * n", ["cvt.rn.f32.s64", "mul.rn.f32"]),
        ("c && s < 1.0", ["setp.lt.f32", "and.pred"]),
        ("i32(n) * 3", ["cvt.s32.s64", "mul.lo.s32"]),  # a sized integer wraps at 32 bits
        ("exp(s)", ["exp.f32"]),
        ("tmax(s, 1.0)", ["max.sel.f32"]),
        ("where(c, s, 1.0)", ["selp"]),
    ],
)
def test_untyped(expression: str, expected: list[str]) -> None:
    assert made(f"let y = {expression}") == expected


# ---- typed targets ----------------------------------------------------------------------------------------------

F16_TARGET = "var y: tile<f16>[4, 8] = "


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        # the example of D.5: f16( f32mul( ex2(f32(f16sub(x,m))), f32(z) ) )
        (F16_TARGET + "exp(ht - ht) * ht", "sub.rn.f16 cvt.f32.f16 exp.f32 cvt.f32.f16 mul.rn.f32 cvt.rn.f16.f32"),
        # G12: the scalar takes the target's type although the tile is wider
        (F16_TARGET + "at * 0.1", "cvt.f32.f16 mul.rn.f32 cvt.rn.f16.f32"),
        (F16_TARGET + "at * s", "cvt.rn.f16.f32 cvt.f32.f16 mul.rn.f32 cvt.rn.f16.f32"),
        (F16_TARGET + "at", "cvt.rn.f16.f32"),
        (F16_TARGET + "s", "cvt.rn.f16.f32"),
        (F16_TARGET + "exp(log(ht))", "cvt.f32.f16 log.f32 exp.f32 cvt.rn.f16.f32"),
        (F16_TARGET + "tmax(exp(ht), ht)", "cvt.f32.f16 exp.f32 cvt.f32.f16 max.sel.f32 cvt.rn.f16.f32"),
        (F16_TARGET + "f32(ht) + ht", "cvt.f32.f16 cvt.f32.f16 add.rn.f32 cvt.rn.f16.f32"),
        # form 7 is off where a subscript or a unary minus stands in the tree: sides first to the target's type
        (F16_TARGET + "A[:, :] + at", "load A cvt.rn.f16.f32 cvt.rn.f16.f32 add.rn.f16"),
        (F16_TARGET + "exp(H[:, :]) * ht", "load H cvt.f32.f16 exp.f32 cvt.rn.f16.f32 mul.rn.f16"),
        (F16_TARGET + "at + -at", "sub.rn.f32 cvt.rn.f16.f32 cvt.rn.f16.f32 add.rn.f16"),
        (F16_TARGET + "A[:, :] * 0.1", "load A cvt.rn.f16.f32 mul.rn.f16"),
        (F16_TARGET + "exp(A[:, :])", "load A exp.f32 cvt.rn.f16.f32"),
        ("var y: tile<f32>[4, 8] = H[:, :] + ht", "load H cvt.f32.f16 cvt.f32.f16 add.rn.f32"),
        # form 6: s1*t1 + s2*t2 in f32, whatever the target
        (F16_TARGET + "s * ht + 0.5 * ht", "cvt.f32.f16 mul.rn.f32 cvt.f32.f16 mul.rn.f32 add.rn.f32 cvt.rn.f16.f32"),
        ("var y: tile<f64>[4, 8] = s * dt + s * dt", "cvt.f64.f32 mul.rn.f64 cvt.f64.f32 mul.rn.f64 add.rn.f64"),
        # not form 6: the tile stands first
        (F16_TARGET + "ht * 0.5 + ht * 0.5", "mul.rn.f16 mul.rn.f16 add.rn.f16"),
        # opaque operands are evaluated untyped first
        (
            F16_TARGET + "where(pt, exp(ht), 0.0) * at",
            "cvt.f32.f16 exp.f32 cvt.rn.f16.f32 selp cvt.f32.f16 mul.rn.f32 cvt.rn.f16.f32",
        ),
        (F16_TARGET + "at / rowsum(at)", "add.rn.f32 over 32 div.rn.f32 cvt.rn.f16.f32"),
        # integers
        ("var y: tile<i8>[4, 8] = round(at * 127.0)", "mul.rn.f32 cvt.rni.f32.f32 cvt.low8.s8.f32"),
        ("var y: tile<i8>[4, 8] = A[:, :] * 0.5", "load A mul.rn.f32 cvt.low8.s8.f32"),
        ("var y: tile<i32>[4, 8] = jt + 300", "cvt.s32.s8 add.s32"),
        ("var y: tile<i32>[4, 8] = J[:, :] + jt", "load J cvt.s32.s8 cvt.s32.s8 add.s32"),
        ("var y: tile<f32>[4, 8] = f32(it * 3)", "mul.lo.s32 cvt.rn.f32.s32"),
        ("var y: tile<f32>[4, 8] = jt * s", "cvt.rn.f32.s8 mul.rn.f32"),
        ("var y: tile<bool>[4, 8] = at < 1.0", "setp.lt.f32"),
        # updates: the target is the left operand, in the join
        ("at += ht", "cvt.f32.f16 add.rn.f32"),
        ("ht += at", "cvt.f32.f16 add.rn.f32 cvt.rn.f16.f32"),
        ("ht -= exp(ht)", "cvt.f32.f16 exp.f32 cvt.f32.f16 sub.rn.f32 cvt.rn.f16.f32"),
        ("ht += 0.1", "add.rn.f16"),
        ("ht += A[:, :]", "load A cvt.f32.f16 add.rn.f32 cvt.rn.f16.f32"),
        ("ht += A[:, :] * at", "load A cvt.rn.f16.f32 cvt.rn.f16.f32 mul.rn.f16 add.rn.f16"),
        ("it <<= 3", "shl.s32"),
        ("it &= jt", "cvt.s32.s8 and.s32"),
        ("A[:, :] = at * ht", "cvt.f32.f16 mul.rn.f32 store A"),
        ("H[:, :] = at", "cvt.rn.f16.f32 store H"),
        ("H[:, :] += at", "load H cvt.f32.f16 add.rn.f32 cvt.rn.f16.f32 store H"),
        ("A[0, 0] = s * h", "cvt.f32.f16 mul.rn.f32 store A"),
        ("at[0 :+ 1, :] = ht[1 :+ 1, :]", "extract cvt.f32.f16 insert"),
        ("at[1, 2] += 1.0", "extract add.rn.f32 insert"),
        ("A[:, :] = 1", "store A"),
    ],
)
def test_typed(statement: str, expected: str) -> None:
    found = made(statement)
    assert found == _words(expected)


def _words(text: str) -> list[str]:
    """Splits a list of steps; `load X`, `store X` and `... over N` are one step each."""
    words = text.split(" ")
    result: list[str] = []
    while words:
        take = 2 if words[0] in ("load", "store") else 3 if len(words) > 2 and words[1] == "over" else 1
        result.append(" ".join(words[:take]))
        del words[:take]
    return result


def test_literals_are_rounded_to_f32_first() -> None:
    # 1 + 2^-11 + 2^-30 is above the f16 tie, its f32 rounding is on it: rounded twice it is 1.0, once 1.0009765625
    value = "1.000488282181322574615478515625"
    result = body("H: tensor<f16>[4, 8]", f"H[:, :] = {value}")
    assert ("f16", 0x3C00) in codes(result).values()
    result = body("D: tensor<f64>[4, 8]", "D[:, :] = 0.1")
    assert ("f64", 0x3FB99999A0000000) in codes(result).values()
    result = body("B: tensor<bf16>[4, 8]", "B[:, :] = 0.1")
    assert ("bf16", 0x3DCD) in codes(result).values()
    result = body("I: tensor<i32>[4, 8]", "var t: tile<i32>[4, 8] = I[:, :]\nt *= 2221713035\nI[:, :] = t")
    assert ("s32", 0x846CA68B) in codes(result).values()


def test_truncating_division_of_a_negative_constant_is_noted() -> None:
    assert notes(body("I: tensor<i64>[16]", "I[0] = -7 / 2"), "division")
    assert not notes(body("I: tensor<i64>[16]", "I[0] = 7 / 2 - 7"), "division")


def test_index_arithmetic_is_folded_and_wraps_in_64_bits() -> None:
    result = body(
        "I: tensor<i64>[16]",
        "let k = 3 * 5 - 1\nvar t: tile<i64>[16] = 0\nt[0 :+ k] = 1\n"
        "I[0] = 9223372036854775807 + 1\nI[1] = -7 / 2\nI[2] = -7 % 2\nI[3] = 7 / 0\nI[4] = 7 % 0\nI[5] = -1 >> 1\n"
        "I[6] = ~5",
    )
    stores = [op for op in walk(result.body) if isinstance(op, tile.Store)]
    named = codes(result)
    signed = [code - (1 << 64) if code >> 63 else code for _, code in (named[id(op.value)] for op in stores)]
    assert signed == [-(1 << 63), -3, -1, -1, -1, -1, -6]
    assert next(op for op in walk(result.body) if isinstance(op, tile.Insert)).sizes == (14,)


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">="])
def test_a_folded_constant_is_what_the_instruction_gives(op: str) -> None:
    numbers = (0, 1, -1, 2, -7, 63, 64, 255, (1 << 31) - 1, -(1 << 31), 1 << 32, (1 << 63) - 1, -(1 << 63))
    row = isa.lookup(str(instruction(op, S64)))
    for a in numbers:
        for b in numbers:
            folded = fold(op, index_constant(a), index_constant(b))
            operands = [np.array([x % (1 << 64)], np.uint64) for x in (a, b)]
            expected = int(execute.apply(row, *operands)[0])
            assert folded is None or int(folded.const) % (1 << row.result.bits) == expected, (a, op, b)


# ---- reductions -------------------------------------------------------------------------------------------------

# threads -> rows -> lanes (phobos-language.md D.6)
LANES = {
    256: {1: 32, 2: 32, 3: 32, 4: 32, 5: 32, 8: 32, 16: 16, 20: 8, 24: 8, 32: 8, 48: 4, 64: 4, 96: 2, 128: 2, 100: None,
          129: None, 512: None},
    128: {1: 32, 2: 32, 3: 32, 4: 32, 8: 16, 16: 8, 24: 4, 32: 4, 48: 2, 64: 2, 5: None, 20: None, 96: None, 100: None,
          128: None},
}  # fmt: skip


def test_lanes() -> None:
    for threads, table in LANES.items():
        for rows, expected in table.items():
            assert lanes(rows, threads, F32) == expected, (threads, rows)
            assert lanes(rows, threads, F16) is None


def test_reductions() -> None:
    found = {}
    for name in ("at", "ht", "bt", "dt"):
        for function in ("rowsum", "rowmax"):
            result = body(PARAMS, TILES + f"let y = {function}({name})", "@launch(64)")
            (op,) = [op for op in walk(result.body) if isinstance(op, tile.Reduce)]
            found[name, function] = (op.combine, op.lanes, op.identity)
    assert found["at", "rowsum"] == ("add.rn.f32", 16, 0)
    assert found["at", "rowmax"] == ("max", 16, 0xFF61B1E6)
    assert found["ht", "rowmax"] == ("max", None, 0xFBFF)
    assert found["bt", "rowsum"] == ("add.rn.bf16", None, 0)
    assert found["dt", "rowmax"] == ("max", None, 0xC7EC363CBF21F28A)


def test_the_floor_of_rowmax_is_the_rounded_decimal() -> None:
    import ml_dtypes
    import numpy as np

    kinds: dict[Format, type] = {F32: np.float32, F64: np.float64, BF16: ml_dtypes.bfloat16}
    for fmt, kind in kinds.items():
        array = np.array([-3.0e38]).astype(kind)
        assert FLOOR[fmt] == int(array.view(f"u{fmt.bits // 8}")[0])
    assert FLOOR[F16] == int(np.array([-65504.0], np.float16).view(np.uint16)[0])


def test_reductions_reduce_a_finished_tile() -> None:
    assert made("let y = rowsum(ht * ht)") == ["mul.rn.f16", "add.rn.f16 over serial"]


@pytest.mark.parametrize(
    "expression", ["rowsum(it)", "cumsum(it)", "rowmax(pt)", "exp(it)", "rowsum(s)", "tmax(pt, pt)"]
)
def test_functions_of_floats(expression: str) -> None:
    with pytest.raises(KernelError):
        made(f"let y = {expression}")


# ---- views, copies, masks ---------------------------------------------------------------------------------------

TWO = "X: tensor<f32>[M, 16], Y: tensor<f32>[M, 16]"


def loads(statements: str, attributes: str = "", params: str = TWO) -> int:
    """How often X is loaded where `x` is used twice."""
    result = body(params, statements + "\nY[0 :+ 4, :] = x + x", attributes)
    return steps(result).count("load X")


@pytest.mark.parametrize(
    ("statements", "attributes", "live"),
    [
        ("let x = X[ctx.block.x * 4 :+ 4, :]", "@aligned(M = 4)", True),
        ("let x = X[ctx.block.x * 4 :+ 4, :]", "@aligned(M = 8)", True),
        ("let x = X[ctx.block.x * 4 :+ 4, :]", "@aligned(M = 6)", False),
        ("let x = X[ctx.block.x * 4 :+ 4, :]", "", False),
        ("let x = X[ctx.block.x * 6 :+ 4, :]", "@aligned(M = 4)", False),
        ("let x = X[ctx.block.x * 4 + 8 :+ 4, :]", "@aligned(M = 4)", True),
        ("let x = X[ctx.block.x * 4 + 2 :+ 4, :]", "@aligned(M = 4)", False),
        ("let r = ctx.block.x * 4\nlet x = X[r : r + 4, :]", "@aligned(M = 4)", True),
        ("let x = X[M - 4 :+ 4, :]", "@aligned(M = 4)", True),  # a symbolic dim is taken to be a multiple of 4
        ("let x = X[M - 4 : M, 0 :+ 16]", "@aligned(M = 4)", True),
        ("let x = X[0 :+ 4, 4 :+ 16]", "@aligned(M = 4)", False),
        ("let x = X[0 :+ 1, :]", "", True),
        ("let x = X[1 :+ 1, :]", "", False),
        ("var x = X[0 :+ 4, :]", "@aligned(M = 4)", False),
        ("let z = X[0 :+ 4, :]\nlet x = z", "@aligned(M = 4)", True),
        ("let x = X[0 :+ 4, :] + 0.0", "@aligned(M = 4)", False),
    ],
)
def test_a_let_of_a_slice_is_live_unless_masked(statements: str, attributes: str, live: bool) -> None:
    assert loads(statements, attributes) == (2 if live else 1)


def test_a_slice_that_starts_at_a_loop_variable_counts_as_whole() -> None:
    text = "for i in range(0, M, 4) {\nlet x = X[i :+ 4, :]\nY[i :+ 4, :] = x + x\n}"
    assert steps(body(TWO, text)).count("load X") == 2


def test_static_extents() -> None:
    for start, live in (("ctx.block.x * 5", True), ("ctx.block.x * 3", False), ("5", True)):
        result = body("X: tensor<f32>[30, 16], Y: tensor<f32>[5, 16]", f"let x = X[{start} :+ 5, :]\nY[:, :] = x + x")
        assert steps(result).count("load X") == (2 if live else 1), start


def test_an_alias_sees_later_assignments_and_a_copy_does_not() -> None:
    text = "var t: tile<f32>[4, 16] = X[:, :]\n{} y = t\nt = t * 2.0\nY[:, :] = y"
    for word, doubled in (("let", True), ("var", False)):
        result = body("X: tensor<f32>[4, 16], Y: tensor<f32>[4, 16]", text.format(word))
        store = next(op for op in walk(result.body) if isinstance(op, tile.Store))
        product = next(op for op in walk(result.body) if isinstance(op, tile.Map))
        assert (store.value is product.result) == doubled


def test_flat_is_a_view_of_a_variable() -> None:
    text = "var t: tile<f32>[4, 16] = X[:, :]\nlet f = flat(t)\nt = t * 2.0\nY[:, :] = f"
    result = body("X: tensor<f32>[4, 16], Y: tensor<f32>[1, 64]", text)
    assert steps(result) == ["load X", "mul.rn.f32", "reshape", "store Y"]


def test_writing_under_a_live_view_is_noted() -> None:
    aligned = "@aligned(M = 4)"
    after = body(TWO, "let x = X[0 :+ 4, :]\nX[0 :+ 4, :] = 1.0\nY[0 :+ 4, :] = x", aligned)
    before = body(TWO, "let x = X[0 :+ 4, :]\nY[0 :+ 4, :] = x\nX[0 :+ 4, :] = 1.0", aligned)
    around = body(TWO, "let x = X[0 :+ 4, :]\nfor i in range(0, 4) {\nY[0 :+ 4, :] = x\nX[0 :+ 4, :] = 1.0\n}", aligned)
    inside = body(TWO, "for i in range(0, M, 4) {\nlet x = X[i :+ 4, :]\nX[i :+ 4, :] = x + 1.0\n}", aligned)
    assert [len(notes(result, "live-view")) for result in (after, before, around, inside)] == [1, 0, 1, 0]
    assert "copy it with `var x = ...`" in notes(after, "live-view")[0]


def test_an_update_of_an_element_of_a_tensor_is_noted_as_a_race() -> None:
    assert notes(body(TWO, "X[0, 0] += 1.0"), "race")
    assert not notes(body(TWO, "X[0, 0] = 1.0"), "race")


def test_slice_lengths_may_be_differences() -> None:
    text = "let i = ctx.block.x\nY[0 :+ 4, :] = X[i * 8 + 4 : i * 8 + 8, :]"
    load_ = next(op for op in walk(body(TWO, text).body) if isinstance(op, tile.Load))
    assert load_.sizes == (4, 16)


def test_broadcasts_into_a_store_are_explicit() -> None:
    result = body("X: tensor<f32>[1, 16], Y: tensor<f32>[4, 16]", "Y[:, :] = X[:, :]")
    store = next(op for op in walk(result.body) if isinstance(op, tile.Store))
    assert store.value.shape == (4, 16)
    with pytest.raises(KernelError, match="does not fit"):
        body("X: tensor<f32>[1, 16], Y: tensor<f32>[4, 16]", "X[:, :] = Y[:, :]")
    with pytest.raises(KernelError, match="does not fit"):
        body("X: tensor<f32>[1, 16], Y: tensor<f32>[4, 16]", "X[:, :] += Y[:, :]")


# ---- parameters, dims, constants --------------------------------------------------------------------------------


def test_dims_and_constants() -> None:
    result = body(
        "A: tensor<f32>[M, W], B: tensor<f32>[K, M], n: i32",
        "A[0 :+ 1, :] = f32(extent(A, 0) + extent(B, 0) + extent(A, 1) + n)",
        "@autotune(W in [8, 32])\n@aligned(K = W, M = 3)",
    )
    assert result.dims == ("M", "K")
    assert result.tensor("A").dims == ("M", 8)
    assert result.constants == {"W": 8}
    assert [(p.dim, p.multiple) for p in result.promises] == [("K", 8), ("M", 3)]
    assert result.parameters == ("A", "B", "n")
    assert [(s.name, s.value.element.name) for s in result.scalars] == [("n", "s32")]


def test_the_older_spelling_of_block_coordinates() -> None:
    for old, new in (("program_id(0)", "ctx.block.x"), ("program_id(2)", "ctx.block.z")):
        axes = [
            [
                op.axis
                for op in walk(body("A: tensor<f32>[M]", f"A[{text}] = 1.0").body)
                if isinstance(op, tile.BlockIndex)
            ]
            for text in (old, new)
        ]
        assert axes[0] == axes[1] != []


def test_grid_barrier() -> None:
    result = body("A: tensor<f32>[M], bar: tensor<i32>[2]", "A[0] = 1.0\ngrid_barrier(bar)\nA[1] = A[0]")
    assert steps(result) == ["store A", "gridbarrier", "load A", "store A"]
    for params in ("bar: tensor<f32>[2]", "bar: tensor<i32>[1]"):
        with pytest.raises(KernelError, match="grid_barrier takes"):
            body(params, "grid_barrier(bar)")


def test_unknown_attributes_are_noted() -> None:
    result = body("A: tensor<f32>[M]", "A[0] = 1.0", "@swizzle\n@padstage\n@unrol(3)\n@pipelin")
    assert len(notes(result, "attribute")) == 2
    assert "did you mean `pipeline`" in " ".join(notes(result, "attribute"))
