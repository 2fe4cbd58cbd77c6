"""The instruction table: every key that lowering relies on, evidence on every row, a twin for every row."""

from __future__ import annotations

import inspect

import pytest
from phobos_sim import isa
from phobos_sim.formats import FORMATS
from phobos_sim.isa import mufu_tables
from phobos_sim.reference import execute

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("s8", "u8", "s32", "s64")
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _words(text: str) -> list[str]:
    return text.split()


NEEDED = [
    *_words("""add.rn.f32 sub.rn.f32 mul.rn.f32 fma.rn.f32 div.rn.f32 rcp.rn.f32 rem.f32 min.f32 max.f32 min.NaN.f32
    selp max.NaN.f32 min.ftz.f32 cvt.rni.f32.f32 exp.f32 log.f32 sqrt.approx.f32 tanh.approx.f32 pow.f32
    ex2.approx.ftz.f32 lg2.approx.ftz.f32 cvt.rzi.s8.f32 and.pred or.pred xor.pred not.pred setp.eq.pred setp.ne.pred
    HMMA.16816.F32 HMMA.1688.F32 HMMA.16816.F16 HMMA.1688.F16 HMMA.16816.F32.BF16 HMMA.1688.F32.BF16 HMMA.1688.F32.TF32
    HMMA.1684.F32.TF32 HMMA.884.F32 HMMA.884.F16 FADD FMUL FFMA HADD2 HMUL2 HFMA2 HFMA2.BF16_V2 DADD DFMA IMAD
    cvt.rn.f16.f32 cvt.f32.f16 cvt.rn.bf16.f32 cvt.f32.bf16 cvt.rn.f32.f64 cvt.rn.f16.f64 cvt.rn.bf16.f64
    cvt.f64.f32 cvt.f64.f16 cvt.f64.bf16 cvt.rn.bf16.f16 cvt.rn.f16.bf16"""),
    *(f"setp.{r}.{t}" for r in RELATIONS for t in (*FLOATS, *INTEGERS)),
    *(f"{op}.{t}" for op in ("neg", "rem", "max.sel") for t in (*FLOATS, *INTEGERS)),
    *(f"{op}.rn.{t}" for op in ("add", "sub", "mul", "fma", "div") for t in ("f16", "bf16", "f64")),
    *(f"{op}.{t}" for op in _words("add sub mul.lo div min max and or xor not shl shr") for t in INTEGERS),
    *(f"cvt.rzi.{i}.{f}" for i in ("s32", "s64") for f in FLOATS),
    *(f"cvt.low8.{i}.{f}" for i in ("s8", "u8") for f in FLOATS),
    *(f"cvt.rn.{f}.{i}" for f in FLOATS for i in INTEGERS),
    *(f"cvt.{a}.{b}" for a in INTEGERS for b in (*INTEGERS, "pred") if a != b),
    *(f"IMMA.{s}.{a}.{b}{end}" for s in ("8816", "16816", "16832") for a in ("S8", "U8") for b in ("S8", "U8")
      for end in ("", ".SAT")),
    *(f"IDP.4A.{a}.{b}" for a in ("S8", "U8") for b in ("S8", "U8")),
]  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_needed_names_are_there(name: str) -> None:
    assert name in (isa.lookup(name).key, *isa.lookup(name).ptx)


def test_an_unknown_name_lists_close_ones() -> None:
    with pytest.raises(isa.UnknownInstruction, match=r"'HMMA.16816.F23'; did you mean .*HMMA.16816.F32"):
        isa.lookup("HMMA.16816.F23")
    with pytest.raises(LookupError, match="docs/instructions.md"):
        isa.lookup("zzzzzzzzzzzzzzzz")


@pytest.mark.parametrize("row", isa.INSTRUCTIONS, ids=lambda row: row.key)
def test_every_row_is_complete(row: isa.Instruction) -> None:
    assert row.semantics and row.expansion and row.operands
    twin = execute.function(row)
    parameters = inspect.signature(twin).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - {"arch"}
    assert len(positional) == len(row.operands)
    assert set(row.keywords) <= keywords
    assert twin.__doc__
    target = "sm_70" if row.until < 86 else "sm_86"
    assert target in row.evidence
    assert row.since <= int(target[3:]) <= row.until
    if row.is_matrix:
        assert all(fmt is not None for fmt in (*row.operands, row.result))


def test_matrix_shapes_are_in_their_mnemonics() -> None:
    for row in isa.INSTRUCTIONS:
        if row.shape is not None:
            shape = row.key.split(".")[1]
            assert shape == f"{row.shape.m}{row.shape.n}{row.shape.k}"


def test_only_the_a2_set_validates_sm_86() -> None:
    """The set holds one group per result: nothing else may call itself validated on that silicon."""
    recorded = [row for row in isa.INSTRUCTIONS if "sm_86" in row.evidence]
    validated = {row.key for row in recorded if row.evidence["sm_86"].maturity == "validated"}
    assert validated == {"HMMA.1688.F32", "HMMA.1688.F16", "HMMA.1688.F32.BF16", "HMMA.1684.F32.TF32"}


def test_arch_widths_and_floors() -> None:
    sm86, sm90 = isa.SM86, isa.ARCHS["sm_90"]
    assert (sm86.width("f16", 16), sm86.width("f16", 8), sm86.width("tf32", 8), sm86.width("tf32", 4)) == (8, 8, 4, 4)
    assert (sm90.width("bf16", 16), sm90.width("f16", 8), sm90.width("tf32", 8), sm90.width("tf32", 4)) == (16, 8, 8, 4)
    assert isa.ARCHS["sm_70"].width("f16", 4) == 4
    assert (sm86.floor("f32"), sm86.floor("f16"), sm90.floor("f32"), sm90.floor("f16")) == (-132, -20, -133, -21)
    assert not sm86.has(isa.lookup("HMMA.884.F32"))
    assert not isa.ARCHS["sm_75"].has(isa.lookup("HMMA.16816.F32"))


def test_mufu_tables_are_whole() -> None:
    rows = {unit.table: mufu_tables.coefficients(unit.table) for unit in mufu_tables.UNITS.values()}
    assert sum(len(table) for table in rows.values()) == 627
    for unit in mufu_tables.UNITS.values():
        assert len(rows[unit.table]) == unit.rows
    assert [first for first, _, _ in mufu_tables.TANH_BINADES] == [0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43]


def test_formats_are_those_of_the_table() -> None:
    for row in isa.INSTRUCTIONS:
        for fmt in (*row.operands, row.result):
            assert fmt is None or FORMATS[fmt.name] is fmt
