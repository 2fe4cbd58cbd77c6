"""Deliberately wrong models, as data: what the tests must be able to tell from the right one.

Tensor mutants change one field of `oracle_tensor.Rules` (issue list: fraction bits, width, final rounding, double
rounding, floor, zero products, -0, addend last, sequential FMA, NaN payload, subnormals, broken chain, and more).
Other mutants replace one function of the oracle; `MUTANTS_OF` says which apply to a row's function, at least one each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from types import ModuleType

import oracle as o
import oracle_mufu
import oracle_tensor
from oracle_tensor import Rules
from phobos_sim.formats import F16, F32, FORMATS
from phobos_sim.isa import Instruction


@dataclass(frozen=True)
class TensorMutant:
    """The right rules of sm_86 with `changes`; only: the result format that it concerns, or None."""

    name: str
    changes: tuple[tuple[str, object], ...]
    only: str | None = None

    def rules(self, right: Rules) -> Rules:
        return replace(right, **dict(self.changes))  # type: ignore[arg-type]


def _tensor(name: str, only: str | None = None, **changes: object) -> TensorMutant:
    return TensorMutant(name, tuple(changes.items()), only)


TENSOR_MUTANTS = (
    _tensor("23 fraction bits", fraction_bits=23),
    _tensor("25 fraction bits", fraction_bits=25),
    _tensor("width halved", width=4),
    _tensor("width doubled", width=16),
    _tensor("rounds to nearest at the end", "f32", ends="rn"),
    _tensor("truncates f16 results", "f16", ends="rz"),
    _tensor("rounds f16 twice, through f32", "f16", f16_through_f32=True),
    _tensor("keeps f32 between f16 groups", "f16", rounds_f16_between=False),
    _tensor("no floor", floor=-100_000),
    _tensor("floor -126", "f32", floor=-126),
    _tensor("floor -14", "f16", floor=-14),
    _tensor("zero products set the exponent", zero_products_set_exponent=True),
    _tensor("product exponents normalised", normalises_products=True),
    _tensor("addend does not set the exponent", addend_sets_exponent=False),
    _tensor("terms rounded to nearest", aligns="rn"),
    _tensor("-0 kept", keeps_minus_zero=True),
    _tensor("addend added last", addend_last=True),
    _tensor("sequential fused multiply-add", sequential=True),
    _tensor("NaN payload kept", keeps_payload=True),
    _tensor("subnormal operands flushed", flushes_operands=True),
    _tensor("subnormal results flushed", flushes_results=True),
    _tensor("chain broken: groups summed afterwards", chained=False),
    _tensor("groups along descending k", descending=True),
    _tensor("overflow clamps to the largest finite", overflow="largest"),
    _tensor("tf32 reads the ignored bits", reads_ignored_bits=True),
)


@dataclass(frozen=True)
class Mutant:
    """A model that is wrong in one way: `attribute` of `module` replaced by `wrong`."""

    name: str
    module: ModuleType
    attribute: str
    wrong: Callable[..., object]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Puts the wrong function in place."""
        right = getattr(self.module, self.attribute)
        setattr(self.module, self.attribute, self.wrong)
        try:
            yield
        finally:
            setattr(self.module, self.attribute, right)


_encode, _flush, _negate, _decode, _from_int = o.encode, o.flush, o.negate, o.decode, o.from_int
_bitwise, _related, _table = o.bitwise, o.related, oracle_mufu.table


def _truncates(negative, magnitude, fmt, mode="rn", overflow="infinity"):  # type: ignore[no-untyped-def]
    return _encode(negative, magnitude, fmt, "rz", overflow)


def _directly(a, source, target):  # type: ignore[no-untyped-def]
    value = o.to_int(a, source)
    return _encode(value < 0, Fraction(abs(value)), target)


def _flushed_late(negative, magnitude, fmt, mode="rn", overflow="infinity"):  # type: ignore[no-untyped-def]
    return _flush(_encode(negative, magnitude, fmt, mode, overflow), fmt)


def _ties_up(value: Fraction) -> int:
    return int(value + Fraction(1, 2))


def _payload(fmt, *operands):  # type: ignore[no-untyped-def]
    nan = [c for c in operands if c >> fmt.bits == 0 and _decode(c, fmt).kind == "nan"]
    return nan[0] if nan else fmt.canonical_nan | fmt.sign_bit  # x86's default NaN is negative


def _to_nearest(a, b, fmt, mode="rn", ftz=False):  # type: ignore[no-untyped-def]
    return o.fused(a, b, (a ^ b) & fmt.sign_bit, fmt)


def _saturating(value: int, fmt) -> int:  # type: ignore[no-untyped-def]
    return _from_int(o.saturate(value, fmt), fmt)


def _zero_ignored(code, fmt):  # type: ignore[no-untyped-def]
    number = _decode(code, fmt)
    return (o.power(fmt.bias + 2) if number.kind == "infinite" else number.magnitude) * (1 - 2 * number.negative), False


def _off_by_one(name: str) -> tuple[tuple[int, int, int], ...]:
    return tuple((c0 + 1, c1, c2) for c0, c1, c2 in _table(name))


def _tf32_to_even(a: int) -> int:
    x = _decode(a, F32)
    return _encode(x.negative, x.magnitude, FORMATS["tf32"]) if x.kind == "finite" else a & 0xFFFFE000


MUTANTS: dict[str, Mutant] = {
    m.name: m
    for m in (
        Mutant("truncates", o, "encode", _truncates),
        Mutant("rounds ties up", o, "nearest_even", _ties_up),
        Mutant("NaN payload kept", o, "not_a_number", _payload),
        Mutant("flushes subnormals", o, "kept", _flush),
        Mutant(
            "flushes subnormal results", o, "encode", lambda negative, m, fmt, *rest: _flush(_encode(negative, m, fmt, *rest), fmt)
        ),
        Mutant("never flushes", o, "flush", lambda code, fmt: code),
        Mutant("multiply-add not fused", o, "fused", None),  # type: ignore[arg-type]
        Mutant("FMUL.RZ rounds to nearest", o, "multiply", _to_nearest),
        Mutant("both zeros equal in a minimum", o, "order", _zero_ignored),
        Mutant("negation flips a NaN", o, "negate", lambda c, f: c ^ f.sign_bit),
        Mutant("a converted NaN is canonical", o, "converted_nan", lambda a, s, t: t.canonical_nan),
        Mutant("a converted NaN keeps its payload", o, "converted_nan", lambda a, s, t: t.infinity | 1),
        Mutant("integers go to bf16 directly", o, "to_float", _directly),
        Mutant("a result is flushed after it was rounded as a subnormal", o, "encode_ftz", _flushed_late),
        Mutant("ne is true for NaN", o, "unordered", lambda relation: relation == "ne"),
        Mutant("every comparison is true for NaN", o, "unordered", lambda relation: True),
        Mutant(
            "equal counts as greater", o, "related", lambda x, y, r: _related(x, y, {"gt": "ge", "ge": "gt"}.get(r, r))
        ),
        Mutant(
            "comparison reversed", o, "related",
            lambda x, y, r: _related(y, x, r) if r not in ("eq", "ne") else not _related(x, y, r),
        ),
        Mutant("select swapped", o, "pick", lambda first, a, b: b if first else a),
        Mutant("integers saturate", o, "from_int", _saturating),
        Mutant("integers read as unsigned", o, "to_int", lambda code, fmt: code),
        Mutant(
            "integers read as signed", o, "to_int",
            lambda code, fmt: code - (1 << fmt.bits) if code >> (fmt.bits - 1) else code,
        ),
        Mutant("division floors", o, "truncated_quotient", lambda a, b: a // b),
        Mutant("shift count taken modulo the width", o, "count", lambda code, fmt: code % fmt.bits),
        Mutant("bits inverted", o, "bitwise", lambda a, b, table: _bitwise(a, b, table ^ 0b1110)),
        Mutant("out of range wraps", o, "saturate", lambda value, fmt: value),
        Mutant("NaN becomes the lowest integer", o, "nan_as_integer", lambda s, t: 1 << (t.bits - 1)),
        Mutant("NaN becomes 0", o, "nan_as_integer", lambda s, t: 0),
        Mutant("integral rounding floors", o, "whole", lambda m, rounding: m.numerator // m.denominator),
        Mutant("integral rounding to nearest", o, "whole", lambda m, rounding: o.nearest_even(m)),
        Mutant(
            "byte conversion saturates to the byte", o, "low_byte", lambda a, s, t: o.to_integer(a, s, t, "rzi")
        ),
        Mutant("tf32 rounds to even", o, "away_tf32", _tf32_to_even),
        Mutant("squarer not truncated", oracle_mufu, "square", lambda x: x * x >> 19),
        Mutant("coefficient off by one", oracle_mufu, "table", _off_by_one),
        Mutant("no scaling of large or small operands", oracle_mufu, "scale", lambda b: oracle_mufu.ONE),
        Mutant("subnormals not scaled", oracle_mufu, "small", lambda a: False),
        Mutant("f16 form rounded to nearest", oracle_mufu, "narrow", lambda f, a: o.convert(f(o.convert(a, F16, F32)), F32, F16)),
        Mutant("turns rounded to nearest", oracle_mufu, "turns", lambda a: o.multiply(a, 0x3E22F983, F32)),
    )
}  # fmt: skip


def _unfused(a, b, c, fmt, mode="rn", overflow="infinity", ftz=False):  # type: ignore[no-untyped-def]
    product = _fused(a, b, (a ^ b) & fmt.sign_bit, fmt, ftz=ftz)
    return _fused(product, fmt.bias << fmt.fraction_bits, c, fmt, ftz=ftz)


_fused = o.fused
MUTANTS["multiply-add not fused"] = Mutant("multiply-add not fused", o, "fused", _unfused)

_ROUNDS = ("truncates", "rounds ties up", "NaN payload kept", "flushes subnormals")
_COMPARES = ("comparison reversed",)
_WRAPS = ("integers saturate",)

#: family.function -> names of the mutants that the tests must tell apart; refined per row in `mutants_of`.
MUTANTS_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("half.hmul2", "double.dmul"), _ROUNDS),
    **dict.fromkeys(("single.fadd", "single.fsub", "single.ffma", "single.fmul"), ("NaN payload kept",)),
    **dict.fromkeys(("half.hadd2", "half.hsub2", "double.dadd", "double.dsub"), _ROUNDS[:3]),
    **dict.fromkeys(("half.hfma2", "double.dfma"), (*_ROUNDS, "multiply-add not fused")),
    **dict.fromkeys(("single.fmnmx", "half.hmnmx2"), ("NaN payload kept", "both zeros equal in a minimum")),
    **dict.fromkeys(("single.fneg", "half.hneg2", "double.dneg"), ("negation flips a NaN",)),
    "single.frnd": ("NaN payload kept",),
    **dict.fromkeys(("single.fsetp", "half.hsetp2", "double.dsetp"), ("comparison reversed", "every comparison is true for NaN")),
    **dict.fromkeys(("single.fmax_select", "half.hmax_select", "double.dmax_select"), ("equal counts as greater", "select swapped")),
    **dict.fromkeys(("double.ddiv", "sequences.div_rn", "sequences.rcp_rn"), ("truncates", "NaN payload kept", "flushes subnormals")),
    **dict.fromkeys(("double.drem", "sequences.rem"), ("multiply-add not fused", "integral rounding to nearest")),
    "sequences.sqrt_rn": ("truncates", "NaN payload kept", "flushes subnormals"),
    "sequences.hdiv": ("truncates",),
    "sequences.hrem": ("integral rounding to nearest",),
    "convert.f2f": (),
    "convert.rna_tf32": ("tf32 rounds to even",),
    "convert.f2i": ("out of range wraps",),
    "convert.low_byte": ("byte conversion saturates to the byte",),
    "convert.i2f": (),
    "convert.i2i": (),
    **dict.fromkeys(("integer.iadd", "integer.isub", "integer.imul", "integer.imad", "integer.ineg", "integer.ishl"), _WRAPS),
    **dict.fromkeys(("integer.idiv", "integer.irem", "integer.ishr", "integer.imnmx", "integer.isetp", "integer.imax_select"), ()),
    **dict.fromkeys(("integer.iand", "integer.ior", "integer.ixor"), ("bits inverted",)),
    "integer.inot": _WRAPS,
    "integer.select": ("select swapped",),
    "integer.idp4a": (),
    **dict.fromkeys((f"mufu.{f}" for f in ("rcp", "rsq", "sqrt", "ex2", "lg2", "sin", "cos", "tanh")), ("squarer not truncated", "coefficient off by one")),
    **dict.fromkeys(("mufu.ex2_f16", "mufu.tanh_f16"), ("f16 form rounded to nearest",)),
    "sequences.ex2_approx": ("truncates",),
    **dict.fromkeys((f"sequences.{f}_approx" for f in ("lg2", "rsqrt", "sqrt", "div")), ("subnormals not scaled",)),
    **dict.fromkeys(("sequences.rcp_approx", "sequences.div_full"), ("no scaling of large or small operands",)),
    **dict.fromkeys(("sequences.sin_approx", "sequences.cos_approx"), ("turns rounded to nearest",)),
    **dict.fromkeys(("sequences.exp", "sequences.log", "sequences.pow"), ("truncates", "coefficient off by one")),
}  # fmt: skip
# ruff: noqa: E501


def mutants_of(instruction: Instruction) -> list[Mutant]:
    """The wrong twins of an elementwise row."""
    names = list(MUTANTS_OF[f"{instruction.family}.{instruction.function}"])
    return [MUTANTS[name] for name in dict.fromkeys([*names, *_by_options(instruction)])]


def _by_options(instruction: Instruction) -> list[str]:
    """What depends on a row's options rather than on its function."""
    options, first = instruction.keywords, instruction.operands[0]
    names: list[str] = []
    if options.get("ftz"):
        names.append("never flushes")
    if first is None:
        return names
    if instruction.family == "single" and instruction.function in ("fadd", "fsub", "fmul", "ffma"):
        names += ["FMUL.RZ rounds to nearest"] if options.get("rounding") == "rz" else ["rounds ties up"]
        names += [] if options.get("ftz") or options.get("rounding") else ["truncates"]
        names += [] if options.get("ftz") else ["flushes subnormals"]
        if options.get("ftz") and instruction.function in ("fmul", "ffma"):
            names.append("a result is flushed after it was rounded as a subnormal")
        names += ["multiply-add not fused"] if instruction.function == "ffma" else []
    if instruction.function == "f2f":
        narrows = first.emin < FORMATS[str(options["target"])].emin or first.name == "f64"
        names.append("flushes subnormal results" if narrows else "flushes subnormals")
        passes = "f64" in (options["source"], options["target"]) and options["target"] != "bf16"
        passes |= options["source"] == "bf16" and options["target"] != "f16"
        names.append("a converted NaN is canonical" if passes else "a converted NaN keeps its payload")
    signed = first.kind == "signed" or options.get("a_signed") or options.get("b_signed")
    sign = "integers read as unsigned" if signed else "integers read as signed"
    if instruction.function in ("i2f", "idiv", "irem", "ishr", "imnmx", "imax_select", "idp4a"):
        names.append(sign)
    if instruction.function == "i2f" and options["target"] == "bf16" and first.bits >= 32:
        names.append("integers go to bf16 directly")
    if instruction.function in ("idiv", "irem") and first.kind == "signed":
        names.append("division floors")
    if instruction.function in ("ishl", "ishr"):
        names.append("shift count taken modulo the width")
    if instruction.function == "isetp":
        names.append("comparison reversed")
    if instruction.function == "i2i":
        names.append(sign if first.bits < (instruction.result or first).bits else "integers saturate")
    if instruction.function == "f2i":
        lowest = first.name == "f64" or options["target"] == "s64"
        names += ["NaN becomes 0" if lowest else "NaN becomes the lowest integer"] if options["target"] != "u32" else []
    if options.get("rounding") in ("rni", "rzi"):
        names.append("integral rounding floors" if options["rounding"] == "rni" else "integral rounding to nearest")
    if options.get("compare") == "ne" and first.is_float:
        names.append("ne is true for NaN")
    return names


__all__ = ["MUTANTS", "TENSOR_MUTANTS", "Mutant", "TensorMutant", "mutants_of", "oracle_tensor"]
