"""PTX of every scalar row: one short body per operation, over untyped registers.

Rules
 1. A body is what a compiler for the row's chip makes of the operation. Where PTX has one instruction for it, the
    body is that instruction, spelled as the row is; language functions (`exp.f32`, `rem.f32`, `max.sel.f32`) and
    conversions without an instruction of their own are the sequences of docs/instructions.md.
 2. Registers are `.bN`, which PTX accepts for every type of that width. 8-bit integers live sign- or zero-extended in
    32-bit registers, 16-bit floats in 16-bit ones, predicates as 0 or 1 in memory.
 3. `{d}` is the result, `{a}`, `{b}`, `{c}` the operands; `%t` (32 bits), `%h` (16), `%l` (64) and `%q` (predicate)
    are temporaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...formats import FORMATS, Format

# PTX ISA version that knows a target; a newer driver accepts every older version.
PTX_VERSION = {70: "6.4", 72: "6.4", 75: "7.0", 80: "7.0", 86: "7.1", 87: "7.4", 89: "7.8", 90: "7.8", 100: "8.6",
               103: "8.8", 110: "9.0", 120: "8.7", 121: "8.8"}  # fmt: skip

#: sin and cos multiply their argument by 1/2pi before MUFU, which takes revolutions; by 1.0 shows MUFU itself.
REVOLUTIONS = (0x3E22F983, 0x3F800000)

INTEGERS = ("s8", "u8", "s32", "s64")
FLOATS = ("f16", "bf16", "f32", "f64")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclass(frozen=True)
class Body:
    """PTX of one operation: formats of operands and result, the lines, and the first capability that takes them.

    patch: (old, new) 32-bit constant that is replaced in the assembled code, for an instruction that PTX cannot spell.
    """

    operands: tuple[str, ...]
    result: str
    lines: tuple[str, ...]
    since: int = 70
    patch: tuple[int, int] | None = None

    @property
    def formats(self) -> tuple[Format, ...]:
        return tuple(FORMATS[name] for name in self.operands)


def ptx_version(capability: int) -> str:
    """PTX ISA version for a compute capability (the newest known one at or below it)."""
    return PTX_VERSION[max(known for known in PTX_VERSION if known <= max(capability, 70))]


@cache
def bodies() -> dict[str, Body]:
    """Operation -> its body."""
    table: dict[str, Body] = {}

    def add(
        key: str, operands: str, result: str, *lines: str, since: int = 70, patch: tuple[int, int] | None = None
    ) -> None:
        assert key not in table, key
        table[key] = Body(tuple(operands.split()), result, lines, since, patch)

    def plain(key: str, operands: str, result: str, since: int = 70) -> None:
        arguments = ", ".join("{" + letter + "}" for letter, _ in zip("abc", operands.split()))
        add(key, operands, result, f"{key} {{d}}, {arguments};", since=since)

    for fill in (_single, _double, _half, _brain, _compare_select, _conversions, _integers):
        fill(add, plain)
    return table


def body_for(spellings: tuple[str, ...], capability: int) -> tuple[str, Body] | None:
    """The first spelling with a body that this capability takes, and that body."""
    for key in spellings:
        body = bodies().get(key)
        if body is not None and body.since <= capability:
            return key, body
    return None


def _single(add, plain) -> None:  # type: ignore[no-untyped-def]
    for ftz in ("", ".ftz"):
        for operation in ("add", "sub", "mul"):
            plain(f"{operation}.rn{ftz}.f32", "f32 f32", "f32")
        plain(f"fma.rn{ftz}.f32", "f32 f32 f32", "f32")
        for operation in ("min", "max"):
            plain(f"{operation}{ftz}.f32", "f32 f32", "f32")
        for operation in (
            "ex2.approx",
            "lg2.approx",
            "rcp.approx",
            "rsqrt.approx",
            "sqrt.approx",
            "sin.approx",
            "cos.approx",
        ):
            plain(f"{operation}{ftz}.f32", "f32", "f32")
        plain(f"div.full{ftz}.f32", "f32 f32", "f32")
    plain("mul.rz.f32", "f32 f32", "f32")
    for operation in ("min", "max"):
        plain(f"{operation}.NaN.f32", "f32 f32", "f32", since=80)
        add(f"{operation}.NaN.ftz.f32", "f32 f32", "f32", f"{operation}.ftz.NaN.f32 {{d}}, {{a}}, {{b}};", since=80)
    plain("div.rn.f32", "f32 f32", "f32")
    plain("div.approx.f32", "f32 f32", "f32")
    for operation in ("rcp.rn.f32", "sqrt.rn.f32", "neg.f32", "cvt.rni.f32.f32", "cvt.rzi.f32.f32"):
        plain(operation, "f32", "f32")
    plain("tanh.approx.f32", "f32", "f32", since=75)
    # PTX has no spelling for these two: the reduction before them is multiplied by 1.0 in the assembled code
    for key, source in (("MUFU.SIN", "sin.approx.ftz.f32"), ("MUFU.COS", "cos.approx.ftz.f32")):
        add(key, "f32", "f32", f"{source} {{d}}, {{a}};", patch=REVOLUTIONS)
    add("exp.f32", "f32", "f32", "mul.rn.f32 %t0, {a}, 0f3FB8AA3B;", "ex2.approx.ftz.f32 {d}, %t0;")
    add("log.f32", "f32", "f32", "lg2.approx.ftz.f32 %t0, {a};", "mul.rn.f32 {d}, %t0, 0f3F317218;")
    add(
        "pow.f32",
        "f32 f32",
        "f32",
        "lg2.approx.ftz.f32 %t0, {a};",
        "mul.rn.f32 %t1, {b}, %t0;",
        "ex2.approx.ftz.f32 {d}, %t1;",
    )
    add("rem.f32", "f32 f32", "f32", *_remainder32("{a}", "{b}", "{d}"))


def _remainder32(a: str, b: str, d: str) -> tuple[str, ...]:
    """Language remainder: q = a/b rounded, truncated, then a - q*b with one rounding; a where b is infinite."""
    return (
        f"div.rn.f32 %t4, {a}, {b};",
        "cvt.rzi.f32.f32 %t5, %t4;",
        "neg.f32 %t6, %t5;",
        f"fma.rn.f32 %t7, %t6, {b}, {a};",
        f"testp.infinite.f32 %q1, {b};",
        f"selp.b32 {d}, {a}, %t7, %q1;",
    )


def _double(add, plain) -> None:  # type: ignore[no-untyped-def]
    for operation in ("add", "sub", "mul", "div"):
        plain(f"{operation}.rn.f64", "f64 f64", "f64")
    plain("fma.rn.f64", "f64 f64 f64", "f64")
    plain("neg.f64", "f64", "f64")
    add(
        "rem.f64",
        "f64 f64",
        "f64",
        "div.rn.f64 %l0, {a}, {b};",
        "cvt.rzi.f64.f64 %l1, %l0;",
        "neg.f64 %l2, %l1;",
        "fma.rn.f64 %l3, %l2, {b}, {a};",
        "testp.infinite.f64 %q1, {b};",
        "selp.b64 {d}, {a}, %l3, %q1;",
    )


def _half(add, plain) -> None:  # type: ignore[no-untyped-def]
    for operation in ("add", "sub", "mul"):
        plain(f"{operation}.rn.f16", "f16 f16", "f16")
    plain("fma.rn.f16", "f16 f16 f16", "f16")
    for operation in ("min", "max"):
        plain(f"{operation}.f16", "f16 f16", "f16", since=80)
        plain(f"{operation}.NaN.f16", "f16 f16", "f16", since=80)
    for operation in ("ex2.approx.f16", "tanh.approx.f16"):
        plain(operation, "f16", "f16", since=75)
    plain("neg.f16", "f16", "f16")
    widen = ("cvt.f32.f16 %t0, {a};", "cvt.f32.f16 %t1, {b};")
    add("div.rn.f16", "f16 f16", "f16", *widen, "div.rn.f32 %t2, %t0, %t1;", "cvt.rn.f16.f32 {d}, %t2;")
    add("rem.f16", "f16 f16", "f16", *widen, *_remainder32("%t0", "%t1", "%t2"), "cvt.rn.f16.f32 {d}, %t2;")


def _widen_bf16(target: str, source: str) -> tuple[str, ...]:
    """bf16 is the upper half of an f32: the sm_86 form is a shift."""
    return (f"cvt.u32.u16 {target}, {source};", f"shl.b32 {target}, {target}, 16;")


def _brain(add, plain) -> None:  # type: ignore[no-untyped-def]
    # sm_86 has no bf16 add or multiply: a compiler writes them as fma with 1.0, -1.0 or -0.0
    add("add.rn.bf16", "bf16 bf16", "bf16", "mov.b16 %h0, 0x3f80;", "fma.rn.bf16 {d}, {a}, %h0, {b};", since=80)
    add("sub.rn.bf16", "bf16 bf16", "bf16", "mov.b16 %h0, 0xbf80;", "fma.rn.bf16 {d}, {b}, %h0, {a};", since=80)
    add("mul.rn.bf16", "bf16 bf16", "bf16", "mov.b16 %h0, 0x8000;", "fma.rn.bf16 {d}, {a}, {b}, %h0;", since=80)
    plain("fma.rn.bf16", "bf16 bf16 bf16", "bf16", since=80)
    for operation in ("min", "max"):
        plain(f"{operation}.bf16", "bf16 bf16", "bf16", since=80)
        plain(f"{operation}.NaN.bf16", "bf16 bf16", "bf16", since=80)
    plain("neg.bf16", "bf16", "bf16", since=80)
    widen = (*_widen_bf16("%t0", "{a}"), *_widen_bf16("%t1", "{b}"))
    narrow = "cvt.rn.bf16.f32 {d}, %t2;"
    add("div.rn.bf16", "bf16 bf16", "bf16", *widen, "div.rn.f32 %t2, %t0, %t1;", narrow, since=80)
    add("rem.bf16", "bf16 bf16", "bf16", *widen, *_remainder32("%t0", "%t1", "%t2"), narrow, since=80)


def _compare_select(add, plain) -> None:  # type: ignore[no-untyped-def]
    flag = "selp.b32 {d}, 1, 0, %q0;"
    widen = (*_widen_bf16("%t0", "{a}"), *_widen_bf16("%t1", "{b}"))
    for name in COMPARISONS:
        for fmt in ("f32", "f64", "f16", "s32", "s64"):
            add(f"setp.{name}.{fmt}", f"{fmt} {fmt}", "pred", f"setp.{name}.{fmt} %q0, {{a}}, {{b}};", flag)
        add(f"setp.{name}.bf16", "bf16 bf16", "pred", *widen, f"setp.{name}.f32 %q0, %t0, %t1;", flag)
        for fmt, wide in (("s8", "s32"), ("u8", "u32")):
            add(f"setp.{name}.{fmt}", f"{fmt} {fmt}", "pred", f"setp.{name}.{wide} %q0, {{a}}, {{b}};", flag)
        if name in ("eq", "ne"):
            add(f"setp.{name}.pred", "pred pred", "pred", f"setp.{name}.u32 %q0, {{a}}, {{b}};", flag)
    greater = {
        "f32": ("setp.gt.f32", "b32"),
        "f64": ("setp.gt.f64", "b64"),
        "f16": ("setp.gt.f16", "b16"),
        "s8": ("setp.gt.s32", "b32"),
        "u8": ("setp.gt.u32", "b32"),
        "s32": ("setp.gt.s32", "b32"),
        "s64": ("setp.gt.s64", "b64"),
    }
    for fmt, (compare, width) in greater.items():
        add(
            f"max.sel.{fmt}",
            f"{fmt} {fmt}",
            fmt,
            f"{compare} %q0, {{a}}, {{b}};",
            f"selp.{width} {{d}}, {{a}}, {{b}}, %q0;",
        )
    add("max.sel.bf16", "bf16 bf16", "bf16", *widen, "setp.gt.f32 %q0, %t0, %t1;", "selp.b16 {d}, {a}, {b}, %q0;")
    add("selp", "pred f32 f32", "f32", "setp.ne.u32 %q0, {a}, 0;", "selp.b32 {d}, {b}, {c}, %q0;")


def _conversions(add, plain) -> None:  # type: ignore[no-untyped-def]
    for key, source, target in (
        ("cvt.rn.f16.f32", "f32", "f16"),
        ("cvt.rz.f16.f32", "f32", "f16"),
        ("cvt.f32.f16", "f16", "f32"),
        ("cvt.rn.f32.f64", "f64", "f32"),
        ("cvt.rn.f16.f64", "f64", "f16"),
        ("cvt.f64.f32", "f32", "f64"),
        ("cvt.f64.f16", "f16", "f64"),
    ):
        plain(key, source, target)
    plain("cvt.rn.bf16.f32", "f32", "bf16", since=80)
    plain("cvt.rna.tf32.f32", "f32", "tf32", since=80)
    # sm_86 has no conversion from f64 or integers to bf16: through f32, for f64 rounded to odd, so once in all
    add(
        "cvt.rn.bf16.f64",
        "f64",
        "bf16",
        "cvt.rz.f32.f64 %t0, {a};",
        "cvt.f64.f32 %l0, %t0;",
        "setp.neu.f64 %q0, %l0, {a};",
        "or.b32 %t1, %t0, 1;",
        "selp.b32 %t2, %t1, %t0, %q0;",
        "cvt.rn.bf16.f32 {d}, %t2;",
        since=80,
    )
    add("cvt.f32.bf16", "bf16", "f32", *_widen_bf16("{d}", "{a}"))
    add("cvt.f64.bf16", "bf16", "f64", *_widen_bf16("%t0", "{a}"), "cvt.f64.f32 {d}, %t0;")
    add("cvt.rn.bf16.f16", "f16", "bf16", "cvt.f32.f16 %t0, {a};", "cvt.rn.bf16.f32 {d}, %t0;", since=80)
    add("cvt.rn.f16.bf16", "bf16", "f16", *_widen_bf16("%t0", "{a}"), "cvt.rn.f16.f32 {d}, %t0;")
    for fmt in FLOATS:
        _float_to_integer(add, fmt)
        _integer_to_float(add, fmt)
    for source in INTEGERS:
        for target in INTEGERS:
            if source != target:
                add(f"cvt.{target}.{source}", source, target, _between_integers(target, source))
    for target in INTEGERS:
        select = "selp.b64 {d}, 1, 0, %q0;" if target == "s64" else "selp.b32 {d}, 1, 0, %q0;"
        add(f"cvt.{target}.pred", "pred", target, "setp.ne.u32 %q0, {a}, 0;", select)


def _float_to_integer(add, fmt: str) -> None:  # type: ignore[no-untyped-def]
    # bf16 has no conversion of its own: through f32, exactly
    before, source, type_name = (_widen_bf16("%t0", "{a}"), "%t0", "f32") if fmt == "bf16" else ((), "{a}", fmt)
    conversions = [
        ("rzi", "s32"),
        ("rzi", "s64"),
        *((("rni", "s32"), ("rzi", "u32"), ("rzi", "s8")) if fmt == "f32" else ()),
    ]
    for rounding, target in conversions:
        add(
            f"cvt.{rounding}.{target}.{fmt}",
            fmt,
            target,
            *before,
            f"cvt.{rounding}.{target}.{type_name} {{d}}, {source};",
        )
    for target, middle in (("s8", "s16"), ("u8", "u16")):
        add(
            f"cvt.low8.{target}.{fmt}",
            fmt,
            target,
            *before,
            f"cvt.rzi.{middle}.{type_name} %h0, {source};",
            f"cvt.u32.{middle} {{d}}, %h0;",
        )


def _integer_to_float(add, fmt: str) -> None:  # type: ignore[no-untyped-def]
    sources = [
        ("s8", "s32"),
        ("u8", "u32"),
        ("s32", "s32"),
        ("s64", "s64"),
        *([("u32", "u32")] if fmt == "f32" else []),
    ]
    for source, wide in sources:
        convert: tuple[str, ...]
        if fmt == "bf16":
            convert = (f"cvt.rn.f32.{wide} %t0, {{a}};", "cvt.rn.bf16.f32 {d}, %t0;")
        else:
            convert = (f"cvt.rn.{fmt}.{wide} {{d}}, {{a}};",)
        add(f"cvt.rn.{fmt}.{source}", source, fmt, *convert, since=80 if fmt == "bf16" else 70)


def _between_integers(target: str, source: str) -> str:
    if source == "s64":
        return "cvt.u32.u64 {d}, {a};"
    if target == "s64":
        return f"cvt.s64.{'u32' if source == 'u8' else 's32'} {{d}}, {{a}};"
    return "mov.b32 {d}, {a};"


def _integers(add, plain) -> None:  # type: ignore[no-untyped-def]
    for fmt, wide, narrow in (("s8", "s32", "s16"), ("u8", "u32", "u16"), ("s32", "s32", None), ("s64", "s64", None)):
        bits = "b64" if fmt == "s64" else "b32"
        pair = f"{fmt} {fmt}"
        for operation in ("add", "sub", "mul.lo", "min", "max"):
            add(f"{operation}.{fmt}", pair, fmt, f"{operation}.{wide} {{d}}, {{a}}, {{b}};")
        for operation in ("div", "rem"):
            if narrow is None:
                add(f"{operation}.{fmt}", pair, fmt, f"{operation}.{wide} {{d}}, {{a}}, {{b}};")
            else:  # a compiler divides bytes in 16 bits
                add(
                    f"{operation}.{fmt}",
                    pair,
                    fmt,
                    "cvt.u16.u32 %h0, {a};",
                    "cvt.u16.u32 %h1, {b};",
                    f"{operation}.{narrow} %h2, %h0, %h1;",
                    "cvt.u32.u16 {d}, %h2;",
                )
        for operation in ("and", "or", "xor"):
            add(f"{operation}.{fmt}", pair, fmt, f"{operation}.{bits} {{d}}, {{a}}, {{b}};")
        add(f"not.{fmt}", fmt, fmt, f"not.{bits} {{d}}, {{a}};")
        add(f"neg.{fmt}", fmt, fmt, f"neg.{'s64' if fmt == 's64' else 's32'} {{d}}, {{a}};")
        # counts are unsigned and clamp at the width; a 64-bit count is brought into 32 bits first
        count = ("min.u64 %l0, {b}, 64;", "cvt.u32.u64 %t0, %l0;") if fmt == "s64" else ("mov.b32 %t0, {b};",)
        add(f"shl.{fmt}", pair, fmt, *count, f"shl.{bits} {{d}}, {{a}}, %t0;")
        add(f"shr.{fmt}", pair, fmt, *count, f"shr.{wide} {{d}}, {{a}}, %t0;")
    for operation in ("and", "or", "xor"):
        add(
            f"{operation}.pred",
            "pred pred",
            "pred",
            "setp.ne.u32 %q0, {a}, 0;",
            "setp.ne.u32 %q1, {b}, 0;",
            f"{operation}.pred %q2, %q0, %q1;",
            "selp.b32 {d}, 1, 0, %q2;",
        )
    add("not.pred", "pred", "pred", "setp.ne.u32 %q0, {a}, 0;", "not.pred %q1, %q0;", "selp.b32 {d}, 1, 0, %q1;")
    for fmt in ("s32", "s64"):
        plain(f"mad.lo.{fmt}", f"{fmt} {fmt} {fmt}", fmt)
    for left, right in (("s32", "s32"), ("u32", "s32"), ("s32", "u32"), ("u32", "u32")):
        total = "u32" if (left, right) == ("u32", "u32") else "s32"
        plain(f"dp4a.{left}.{right}", f"u32 u32 {total}", total)


# memory type and register width of each format
_LOAD = {
    "pred": ("u8", 32),
    "s8": ("s8", 32),
    "u8": ("u8", 32),
    "f16": ("b16", 16),
    "bf16": ("b16", 16),
    "s16": ("b16", 16),
    "f32": ("b32", 32),
    "tf32": ("b32", 32),
    "s32": ("b32", 32),
    "u32": ("b32", 32),
    "f64": ("b64", 64),
    "s64": ("b64", 64),
}


def kernel(name: str, body: Body, capability: int) -> str:
    """Module text of one kernel `name(n, in0, in1, in2, out)`: one thread per result."""
    letters = "abc"[: len(body.operands)]
    registers = {letter: f"%x{letter}" for letter in letters}
    lines = []
    for index, (letter, fmt) in enumerate(zip(letters, body.operands, strict=True)):
        lines += [
            f"ld.param.u64 %p, [in{index}];",
            f"mul.wide.u32 %o, %i, {_bytes(fmt)};",
            "add.u64 %p, %p, %o;",
            f"ld.global.{_LOAD[fmt][0]} {registers[letter]}, [%p];",
        ]
    values = dict(registers, d="%xd")
    lines += [line.format(**values) for line in body.lines]
    store = _LOAD[body.result][0].replace("s8", "u8")
    lines += [
        "ld.param.u64 %p, [out];",
        f"mul.wide.u32 %o, %i, {_bytes(body.result)};",
        "add.u64 %p, %p, %o;",
        f"st.global.{store} [%p], %xd;",
    ]
    declarations = [
        f".reg .b{_LOAD[fmt][1]} {registers[letter]};" for letter, fmt in zip(letters, body.operands, strict=True)
    ]
    declarations.append(f".reg .b{_LOAD[body.result][1]} %xd;")
    parameters = ", ".join(f".param .u64 in{index}" for index in range(3))
    return "\n".join(
        [
            f".version {ptx_version(capability)}",
            f".target sm_{capability}",
            ".address_size 64",
            f".visible .entry {name}(.param .u32 n, {parameters}, .param .u64 out)",
            "{",
            ".reg .b32 %t<8>; .reg .b16 %h<4>; .reg .b64 %l<4>; .reg .pred %q<3>;",
            ".reg .u32 %i, %n, %s; .reg .u64 %p, %o; .reg .pred %done;",
            *declarations,
            "mov.u32 %i, %ctaid.x;",
            "mov.u32 %n, %ntid.x;",
            "mov.u32 %s, %tid.x;",
            "mad.lo.u32 %i, %i, %n, %s;",
            "ld.param.u32 %n, [n];",
            "setp.ge.u32 %done, %i, %n;",
            "@%done ret;",
            *lines,
            "ret;",
            "}",
            "",
        ]
    )


def _bytes(fmt: str) -> int:
    return max(8, FORMATS[fmt].bits) // 8
