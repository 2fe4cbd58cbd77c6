"""Explanations of dots: the result is the reference's, every number adds up, the named rule is the right one."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import oracle_ladder
import phobos_sim as sim
import pytest
import tensor_inputs
from helpers import ROOT, assert_codes
from phobos_sim import isa
from phobos_sim.errors import UsageError
from phobos_sim.explain import numbers
from phobos_sim.explain.explanation import DotExplanation, explain_dot
from phobos_sim.explain.groups import Group
from phobos_sim.explain.ladders import Ladder
from phobos_sim.formats import BF16, F16, F32, TF32, special_values
from phobos_sim.recordings import corners
from phobos_sim.reference import execute

HMMA = [row for row in isa.INSTRUCTIONS if row.family == "tensor"]
PAIRS = [(row, arch) for row in HMMA for arch in isa.ARCHS.values() if arch.has(row)]
CORNERS = [
    corner
    for name in ("hmma.txt", "reported.txt")
    for corner in corners.read(ROOT / "recordings/corners" / name)
    if corner.instruction.family == "tensor"
]
# instruction and architecture of the thousand random dots of which the ladders are recomputed by rationals
SAMPLED = [
    ("HMMA.16816.F32", "sm_86"), ("HMMA.16816.F16", "sm_86"), ("HMMA.16816.F32.BF16", "sm_86"),
    ("HMMA.1688.F32.TF32", "sm_86"), ("HMMA.16816.F32", "sm_90"), ("HMMA.884.F16", "sm_70"), ("HMMA.1688.F16", "sm_75"),
    ("HMMA.1684.F32.TF32", "sm_90"),
]  # fmt: skip


def explained(corner: corners.Corner, arch: str) -> DotExplanation:
    a, b, c = (np.ravel(x).tolist() for x in corner.operands)
    return explain_dot(corner.instruction, isa.ARCHS[arch], a, b, c[0])


def random_dots(row: isa.Instruction, count: int, seed: int) -> list[tuple[list[int], list[int], int]]:
    """Dots of every input class of `tensor_inputs`, addends alike."""
    rng = np.random.default_rng([seed, *row.key.encode()])
    left, right, addend = row.operands
    assert left and right and addend and row.shape
    dots = []
    for i in range(count):
        x, y, z = (tensor_inputs.CLASSES[int(rng.integers(len(tensor_inputs.CLASSES)))] for _ in range(3))
        if i % 3 == 0:  # near one everywhere, where the window decides
            x = y = z = tensor_inputs.CLASSES[0]
        a = tensor_inputs.codes(rng, left, (row.shape.k,), x).tolist()
        b = tensor_inputs.codes(rng, right, (row.shape.k,), y).tolist()
        dots.append((a, b, int(tensor_inputs.codes(rng, addend, (1,), z)[0])))
    return dots


@pytest.mark.parametrize(("row", "arch"), PAIRS, ids=[f"{row.key}-{arch.name}" for row, arch in PAIRS])
def test_results_are_those_of_the_reference(row: isa.Instruction, arch: isa.Arch) -> None:
    dots = random_dots(row, 16, 1)
    left, right, addend = row.operands
    assert left and right and addend
    a = np.array([x for x, _, _ in dots], left.dtype)[:, None, :]
    b = np.array([y for _, y, _ in dots], right.dtype)[:, :, None]
    c = np.array([z for _, _, z in dots], addend.dtype)[:, None, None]
    expected = execute.mma(row, a, b, c, arch).ravel()
    found = np.array([explain_dot(row, arch, *dot).dot.code for dot in dots], expected.dtype)
    assert_codes(found, expected, f"{row.key} on {arch.name}")


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: corner.name)
def test_corner_vectors(corner: corners.Corner) -> None:
    for arch, code in corner.expected.items():
        explanation = explained(corner, arch)
        assert f"{explanation.dot.code:x}" == f"{code:x}", arch
        for group in explanation.dot.groups:
            check_group(group, explanation)
        for ladder in explanation.ladders:
            check_ladder(ladder, explanation)


@pytest.mark.parametrize(("name", "arch"), SAMPLED, ids=["-".join(pair) for pair in SAMPLED])
def test_the_named_rule_of_random_dots(name: str, arch: str) -> None:
    """Both steps around the first change are recomputed with exact rationals, and so are those before."""
    row = isa.lookup(name)
    named = set()
    for dot in random_dots(row, 125, 2):
        explanation = explain_dot(row, isa.ARCHS[arch], *dot)
        for ladder in explanation.ladders:
            check_ladder(ladder, explanation)
            named.add(ladder.first)
        for group in explanation.dot.groups:
            check_group(group, explanation)
    assert len(named - {None}) >= 2, named  # the dots are of use only where several rules are named


def check_ladder(ladder: Ladder, explanation: DotExplanation) -> None:
    """The named rule is that of the first step whose bits differ from the step before."""
    operands, row, arch = explanation.operands, explanation.instruction, explanation.arch
    rules = [step.rule for step in ladder.steps]
    before = None
    for i, rule in enumerate(rules):
        code = oracle_ladder.element(
            list(operands.a), list(operands.b), operands.c, row, arch, ladder.start, set(rules[1 : i + 1])
        )
        assert f"{ladder.steps[i].code:08x}" == f"{code:08x}", (ladder.start, rule)
        if before is not None and code != before:
            assert ladder.first == rule
            return
        before = code
    assert ladder.first is None
    assert ladder.steps[-1].code == explanation.dot.code


def check_group(group: Group, explanation: DotExplanation) -> None:
    """Kept and lost bits are the term; the kept integers are the sum; the sum is the result and what was dropped."""
    if group.special:
        return
    assert group.rounding is not None
    for term in group.terms:
        unit = min(group.lowest, term.unit)
        whole = abs(term.kept) << (group.lowest - unit)
        assert whole + (term.lost << (term.unit - unit)) == term.significand << (term.unit - unit), term
        assert term.kept <= 0 if term.negative else term.kept >= 0
        if term.k is not None and term.a is not None and term.b is not None and term.a.finite and term.b.finite:
            value = numbers.fraction_of(term.a) * numbers.fraction_of(term.b)
            assert abs(value) == term.significand * Fraction(2) ** term.unit
    place, products = Fraction(2) ** group.lowest, [term for term in group.terms if term.k is not None]
    gone = {term.k for term in products if 0 < term.significand * Fraction(2) ** term.unit < place}
    assert {term.k for term in products} & set(explanation.absorbed) == gone
    assert sum(term.kept for term in group.terms) == group.total
    present = [term.exponent for term in group.terms if term.significand]
    assert group.raw == max(present, default=None)
    if group.E is not None and group.raw is not None:
        floor = explanation.arch.floor(explanation.operands.result.name)
        assert max(group.raw, floor) == group.E
        assert group.lowest == group.E - explanation.arch.fraction_bits
        assert set(group.set_by) == {t.name for t in group.terms if t.significand and t.exponent == group.raw}
    rounding = group.rounding
    if rounding.direction != "overflow" and group.total:
        exact = abs(group.total) * Fraction(2) ** group.lowest
        low = rounding.kept * Fraction(2) ** rounding.last + rounding.dropped * Fraction(2) ** rounding.unit
        assert low == exact
        moved = abs(numbers.fraction_of(group.result)) - rounding.kept * Fraction(2) ** rounding.last
        assert moved == (Fraction(2) ** rounding.last if rounding.direction == "away from zero" else 0)


# --- what the ladders say about single vectors ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "start", "rule"),
    [
        ("T1", 0, "exact sum per group"), ("T2", 1, "kept window"), ("T3", 1, "final truncation"), ("T7", 1, "floor"),
        ("T9", 0, "sign of zero"), ("T13", 1, "f16 rounding between groups"), ("T16", 0, "kept window"),
        ("T21b", 0, "floor"), ("T24", 1, "rounding between groups"), ("T25b", 0, "NaN"),
        ("T26", 0, "tf32 operand bits"), ("C5b", 2, "exact sum per group"),
    ],
)  # fmt: skip
def test_rules_of_corner_vectors(name: str, start: int, rule: str) -> None:
    corner = next(corner for corner in CORNERS if corner.name == name)
    assert explained(corner, "sm_86").ladders[start].first == rule


def test_truncation_of_terms_is_named() -> None:
    """Two terms of three quarters of the lowest place: whole ones when rounded, nothing when truncated."""
    row = isa.lookup("HMMA.16816.F32")
    explanation = explain_dot(row, isa.SM86, [0x0A00, 0x0A00], [0x0C00, 0x0C00], 0x3F800000)
    assert explanation.ladders[1].first == "truncation of terms"
    assert explanation.absorbed == (0, 1)


@pytest.mark.parametrize(
    ("name", "rule"), [("T5", "group width"), ("T2", "kept bits"), ("T21b", "floor"), ("T6", None)]
)
def test_the_number_that_tells_two_architectures_apart(name: str, rule: str | None) -> None:
    corner = next(corner for corner in CORNERS if corner.name == name)
    ladder = explained(corner, "sm_86").arch_ladder
    assert ladder is not None and ladder.first == rule
    assert ladder.start == "sm_90"


def test_absorption_of_c5() -> None:
    """2048 + 8 in f16: a chain of f16 additions absorbs every one, a group none."""
    explanation = sim.explain("HMMA.16816.F16", [0x3C00] * 8, [0x3C00] * 8, 0x6800)
    assert isinstance(explanation, DotExplanation)
    assert explanation.dot.code == 0x6804
    assert explanation.absorbed == () and explanation.products == 8
    chain = explanation.ladders[2]
    assert (chain.start, chain.steps[0].code, chain.first) == ("sequential f16 chain", 0x6800, "exact sum per group")
    alone = sim.explain("HFMA2", [0x3C00] * 8, [0x3C00] * 8, 0x6800)
    assert isinstance(alone, DotExplanation)
    assert alone.absorbed == tuple(range(8))


def test_decimals_of_tf32_fill_the_register() -> None:
    explanation = sim.explain("HMMA.1688.F32.TF32", [1.0001], [3.0], -3.0)
    assert isinstance(explanation, DotExplanation)
    assert (explanation.dot.code, explanation.rule) == (0, "tf32 operand bits")


def test_order_of_k_is_named_for_c19() -> None:
    """The same products, k permuted: other bits, by the order alone; inside a group the order never matters."""
    a, b = [0x6C00, 0, 0, 0, 0, 0, 0, 0, 0x3C00], [0xEC00, 0, 0, 0, 0, 0, 0, 0, 0x3C00]
    explanation = sim.explain("HMMA.16816.F32", a, b, 0x4B800000)
    assert isinstance(explanation, DotExplanation)
    assert explanation.order.first == "order of k"
    assert explanation.order.steps[0].code != explanation.dot.code
    assert "order of k" in str(explanation)
    first = explanation.order.steps[0].dot.groups[0].terms[0]
    assert (first.a.code, first.b.code) == (0x3C00, 0x3C00)  # type: ignore[union-attr]  # zeros at the end stay there
    rng = np.random.default_rng(3)
    row = isa.lookup("HMMA.16816.F32")
    for x, y, z in random_dots(row, 20, 3):
        inside = [int(k) for half in (0, 8) for k in half + rng.permutation(8)]
        assert explain_dot(row, isa.SM86, x, y, z, order=inside).order.first is None


def test_longer_dots_chain_instructions() -> None:
    row = isa.lookup("HMMA.16816.F32")
    rng = np.random.default_rng(4)
    a, b = ((rng.random(80) - 0.5).astype(np.float16).view(np.uint16) for _ in range(2))
    explanation = explain_dot(row, isa.SM86, a.tolist(), b.tolist(), 0)
    seed = np.zeros((1, 1), np.uint32)
    assert explanation.dot.code == int(execute.chain(row, a[None, :], b[:, None], seed)[0, 0])
    assert len(explanation.dot.groups) == 10
    assert str(explanation).count("Group ") < 10  # only those that matter are drawn
    everything = explanation.document("all")
    assert sum(getattr(block, "text", "").startswith("Group ") for block in everything.blocks) == 10


# --- chains of multiply-adds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["FFMA", "FFMA.FTZ", "HFMA2", "HFMA2.BF16_V2", "DFMA", "FADD", "FADD.FTZ", "FMUL",
                                  "FMUL.FTZ", "HADD2", "HMUL2", "add.rn.bf16", "mul.rn.bf16"])  # fmt: skip
def test_multiply_adds_are_those_of_the_reference(name: str) -> None:
    row = isa.lookup(name)
    fmt = row.result
    assert fmt is not None
    rng = np.random.default_rng([5, *name.encode()])
    special = np.array(special_values(fmt), np.uint64)
    one = np.uint64(fmt.bias << fmt.fraction_bits)
    operands = []
    for _ in row.operands:
        raw = rng.integers(0, 1 << min(fmt.bits, 63), 60, dtype=np.uint64)
        near = one + rng.integers(0, 4 << fmt.fraction_bits, 60, dtype=np.uint64)
        codes = np.concatenate([rng.choice(special, 180), raw, near])
        operands.append(rng.permutation(codes).astype(fmt.dtype))
    expected = execute.apply(row, *operands)
    found = []
    for each in zip(*operands):
        explanation = sim.explain(name, *(np.array([code]) for code in each))
        assert isinstance(explanation, DotExplanation)
        found.append(explanation.dot.code)
    assert_codes(np.array(found, fmt.dtype), expected, name)


def test_a_chain_of_ffma_and_why_it_is_not_the_exact_dot() -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.random(40).astype(np.float32) - np.float32(0.5) for _ in range(2))
    explanation = sim.explain("FFMA", a, b, 0.5)
    assert isinstance(explanation, DotExplanation)
    row = isa.lookup("FFMA")
    seed = np.full((1, 1), 0x3F000000, np.uint32)
    chain = execute.chain(row, a.view(np.uint32)[None], b.view(np.uint32)[:, None], seed)
    assert explanation.dot.code == int(chain[0, 0])
    assert [ladder.start for ladder in explanation.ladders] == ["correctly rounded dot", "multiply, then add"]
    exact = sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b)), Fraction(1, 2))
    assert explanation.exact == exact
    assert explanation.ladders[0].steps[0].code == numbers.round_fraction(exact, F32)


# --- input ---------------------------------------------------------------------------------------------------------


def test_operands_as_codes_arrays_and_numbers() -> None:
    codes = sim.explain("HMMA.16816.F32", [0x3C00, 0x3800], [0x3C00, 0x3C00], 0)
    typed = sim.explain("HMMA.16816.F32", np.array([1, 0.5], np.float16), np.ones(2, np.float16), np.float32(0))
    plain = sim.explain("HMMA.16816.F32", [1.0, 0.5], [1.0, 1.0])
    assert codes.to_dict() == typed.to_dict() == plain.to_dict()
    assert json.loads(codes.json())["result"]["code"] == "3fc00000"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sim.explain("HMMA.16816.F3", [0], [0]), "did you mean"),
        (lambda: sim.explain("HMMA.16816.F32", [0], [0], arch="sm_99"), "unknown arch"),
        (lambda: sim.explain("HMMA.884.F32", [0], [0]), "no instruction of sm_86"),
        (lambda: sim.explain("exp.f32", 1.0), "FMUL, MUFU.EX2"),
        (lambda: sim.explain("HMMA.16816.F32", [0x10000], [0]), "16 bits"),
        (lambda: sim.explain("HMMA.16816.F32", np.zeros(2, np.float32), [0]), "found f32"),
        (lambda: sim.explain("HMMA.16816.F32", [0], [0], [0, 0]), "one number"),
        (lambda: sim.explain("HMMA.16816.F32", [0], [0], 0, order=[1, 1]), "permutation"),
        (lambda: sim.explain("MUFU.EX2", [0, 0]), "one operand of one element"),
        (lambda: sim.explain("FFMA", [0]), "takes a, b"),
    ],
)
def test_wrong_use_says_what_to_do(call: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("fmt", [F16, F32], ids=str)
def test_numbers_are_read_as_people_write_them(fmt: object) -> None:
    assert isinstance(fmt, type(F16))
    for code in itertools.chain(special_values(fmt), range(1, 1 << fmt.bits, (1 << fmt.bits) // 501)):
        number = numbers.decode(code, fmt)
        if number.kind == "nan":
            continue
        again = numbers.read_number(number.text if "." in number.text or "e" in number.text or "inf" in number.text
                                    else f"{number.text}.0", fmt)  # fmt: skip
        assert f"{again.code:x}" == f"{code:x}", number
        assert numbers.read_number(number.hex, fmt).code == code
    assert numbers.read_number("0.1", F16).note == "0.1 is no f16; the nearest is 2e66 (0.1)"
    assert numbers.read_number("1000", F16).note.endswith("the decimal is 1000.0")
    assert numbers.read_number("1e20", BF16).note.endswith("the decimal is 1.0e20")
    assert numbers.read_number("1.0e20", BF16).code == 0x60AD and not numbers.read_number("0800", F16).note
    assert numbers.read_number("1.0001", TF32).code == 0x3F800347  # the register, whose low bits R1 does not read
    assert numbers.read_number("-1/3", F32).code == 0xBEAAAAAB
    with pytest.raises(UsageError, match="neither a decimal"):
        numbers.read_number("one", F16)
    for far in ("1*9999999999", "1@9999999999", "1*65530,1*65530"):
        with pytest.raises(UsageError, match="k ends at 65536"):
            numbers.read_vector(far, F16)
    with pytest.raises(UsageError, match="at most 65536 are explained"):
        sim.explain("HMMA.16816.F32", np.ones(65537, np.float16), np.ones(65537, np.float16))
    assert numbers.read_vector("3c00*2,1.5@4", F16)[0] == [0x3C00, 0x3C00, 0, 0, 0x3E00]
