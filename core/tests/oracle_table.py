"""The oracle by row: every function of the instruction table on Python integers (`evaluate`, `evaluate_matrix`)."""

from __future__ import annotations

from collections.abc import Callable

import oracle as o
import oracle_mufu
import oracle_tensor
from phobos_sim.formats import F32, F64, FORMATS, S8, U8, Format
from phobos_sim.isa import Arch, Instruction


def _f(name: str) -> Format:
    return FORMATS[name]


def _narrow(operation: Callable[..., int], a: int, b: int, fmt: Format) -> int:
    return o.convert(operation(o.convert(a, fmt, F32), o.convert(b, fmt, F32), F32), F32, fmt)


def _greater(a: int, b: int, fmt: Format) -> int:
    return o.pick(o.compare(a, b, fmt, "gt"), a, b)


#: family.function -> callable on codes with the row's options.
TABLE: dict[str, Callable[..., int]] = {
    "single.fadd": lambda a, b, ftz=False: o.add(a, b, F32, ftz),
    "single.fsub": lambda a, b, ftz=False: o.add(a, o.negate(b, F32), F32, ftz),
    "single.fmul": lambda a, b, ftz=False, rounding="rn": o.multiply(a, b, F32, rounding, ftz),
    "single.ffma": lambda a, b, c, ftz=False: o.fused(a, b, c, F32, ftz=ftz),
    "single.fmnmx": lambda a, b, maximum, nan, ftz: o.extremum(
        *(o.flush(x, F32) if ftz else x for x in (a, b)), F32, maximum, nan
    ),
    "single.fneg": lambda a: o.negate(a, F32),
    "single.frnd": lambda a, rounding: o.round_integral(a, F32, rounding),
    "single.fsetp": lambda a, b, compare: o.compare(a, b, F32, compare),
    "single.fmax_select": lambda a, b: _greater(a, b, F32),
    "half.hadd2": lambda a, b, fmt: o.add(a, b, _f(fmt)),
    "half.hsub2": lambda a, b, fmt: o.add(a, o.negate(b, _f(fmt)), _f(fmt)),
    "half.hmul2": lambda a, b, fmt: o.multiply(a, b, _f(fmt)),
    "half.hfma2": lambda a, b, c, fmt: o.fused(a, b, c, _f(fmt)),
    "half.hmnmx2": lambda a, b, fmt, maximum, nan: o.extremum(a, b, _f(fmt), maximum, nan),
    "half.hneg2": lambda a, fmt: o.negate(a, _f(fmt)),
    "half.hsetp2": lambda a, b, fmt, compare: o.compare(a, b, _f(fmt), compare),
    "half.hmax_select": lambda a, b, fmt: _greater(a, b, _f(fmt)),
    "double.dadd": lambda a, b: o.add(a, b, F64),
    "double.dsub": lambda a, b: o.add(a, o.negate(b, F64), F64),
    "double.dmul": lambda a, b: o.multiply(a, b, F64),
    "double.dfma": lambda a, b, c: o.fused(a, b, c, F64),
    "double.ddiv": lambda a, b: o.divide(a, b, F64),
    "double.drem": lambda a, b: o.remainder(a, b, F64),
    "double.dneg": lambda a: o.negate(a, F64),
    "double.dsetp": lambda a, b, compare: o.compare(a, b, F64, compare),
    "double.dmax_select": lambda a, b: _greater(a, b, F64),
    "convert.f2f": lambda a, source, target, rounding: o.convert(a, _f(source), _f(target), rounding),
    "convert.rna_tf32": lambda a: o.away_tf32(a),
    "convert.f2i": lambda a, source, target, rounding: o.to_integer(a, _f(source), _f(target), rounding),
    "convert.low_byte": lambda a, source, target: o.low_byte(a, _f(source), _f(target)),
    "convert.i2f": lambda a, source, target: o.to_float(a, _f(source), _f(target)),
    "convert.i2i": lambda a, source, target: o.resize(a, _f(source), _f(target)),
    "integer.iadd": lambda a, b, fmt: o.from_int(a + b, _f(fmt)),
    "integer.isub": lambda a, b, fmt: o.from_int(a - b, _f(fmt)),
    "integer.imul": lambda a, b, fmt: o.from_int(a * b, _f(fmt)),
    "integer.imad": lambda a, b, c, fmt: o.from_int(a * b + c, _f(fmt)),
    "integer.idiv": lambda a, b, fmt: o.divide_int(a, b, _f(fmt)),
    "integer.irem": lambda a, b, fmt: o.remainder_int(a, b, _f(fmt)),
    "integer.iand": lambda a, b, fmt: o.bitwise(a, b, 0b1000),
    "integer.ior": lambda a, b, fmt: o.bitwise(a, b, 0b1110),
    "integer.ixor": lambda a, b, fmt: o.bitwise(a, b, 0b0110),
    "integer.ishl": lambda a, b, fmt: o.shift_left(a, b, _f(fmt)),
    "integer.ishr": lambda a, b, fmt: o.shift_right(a, b, _f(fmt)),
    "integer.ineg": lambda a, fmt: o.from_int(-a, _f(fmt)),
    "integer.inot": lambda a, fmt: o.from_int(-1 - a, _f(fmt)),
    "integer.imnmx": lambda a, b, fmt, maximum: o.pick((o.to_int(a, _f(fmt)) > o.to_int(b, _f(fmt))) == maximum, a, b),
    "integer.isetp": lambda a, b, fmt, compare: o.related(o.to_int(a, _f(fmt)), o.to_int(b, _f(fmt)), compare),
    "integer.imax_select": lambda a, b, fmt: o.pick(o.to_int(a, _f(fmt)) > o.to_int(b, _f(fmt)), a, b),
    "integer.select": lambda p, a, b: o.pick(bool(p), a, b),
    "integer.idp4a": lambda a, b, c, a_signed, b_signed: o.dot4(
        a, b, c, S8 if a_signed else U8, S8 if b_signed else U8
    ),
    "sequences.div_rn": lambda a, b: o.divide(a, b, F32),
    "sequences.rcp_rn": lambda a: o.divide(0x3F800000, a, F32),
    "sequences.sqrt_rn": lambda a: o.square_root(a, F32),
    "sequences.rem": lambda a, b: o.remainder(a, b, F32),
    "sequences.hdiv": lambda a, b, fmt: _narrow(o.divide, a, b, _f(fmt)),
    "sequences.hrem": lambda a, b, fmt: _narrow(o.remainder, a, b, _f(fmt)),
    **oracle_mufu.TABLE,
}


def evaluate(instruction: Instruction, *codes: int) -> int:
    """One element of an elementwise row, as a code."""
    return int(TABLE[f"{instruction.family}.{instruction.function}"](*codes, **instruction.keywords))


def evaluate_matrix(instruction: Instruction, a: list[int], b: list[int], c: int, arch: Arch) -> int:
    """One output element of a matrix row: a and b along k."""
    if instruction.family == "tensor":
        return oracle_tensor.element(a, b, c, oracle_tensor.rules_of(instruction, arch))
    return oracle_tensor.integer_element(a, b, c, **instruction.keywords)
