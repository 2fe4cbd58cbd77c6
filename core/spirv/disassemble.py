"""SPIR-V as text, in the layout of spirv-dis, from the Khronos grammar in grammar.json; no external tool.

The text assembles again: `spirv-as --preserve-numeric-ids` of `disassemble(m, friendly=False)` gives `m`. A comment at
the top counts what design.md section 6 rules on: loops, those marked DontUnroll, and OpPhi.
"""

from __future__ import annotations

import functools
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from ..errors import UsageError

MAGIC = 0x07230203
_COLUMN = 15  # where opcodes start, as in spirv-dis
_IDS = ("IdRef", "IdScope", "IdMemorySemantics")
_PAIRS = {
    "PairIdRefIdRef": ("IdRef", "IdRef"),
    "PairLiteralIntegerIdRef": ("LiteralInteger", "IdRef"),
    "PairIdRefLiteralInteger": ("IdRef", "LiteralInteger"),
}
# names that glslang and spirv-dis give to built-in variables
_GL_NAMES = {"WorkgroupId": "gl_WorkGroupID", "NumWorkgroups": "gl_NumWorkGroups", "WorkgroupSize": "gl_WorkGroupSize"}


@dataclass(frozen=True)
class Instruction:
    """One instruction: opcode name, result and result type ids (0: none), and its other operands.

    An operand is an id (``("id", 7)``) or text (``("text", "DontUnroll")``, ``("string", "main")``).
    """

    name: str
    words: tuple[int, ...] = field(repr=False)
    type: int = 0
    result: int = 0
    operands: tuple[tuple[str, Any], ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The operands that are enumerants or numbers."""
        return tuple(str(value) for kind, value in self.operands if kind == "text")


@functools.cache
def _grammar() -> dict[str, Any]:
    return dict(json.loads(resources.files(__package__).joinpath("grammar.json").read_text()))


@functools.cache
def _by_opcode() -> dict[int, tuple[str, list[list[str]]]]:
    return {code: (name, operands) for name, (code, operands) in _grammar()["instructions"].items()}


# ---- words to instructions ----------------------------------------------------------------------------------------


def _words(spirv: bytes) -> tuple[int, ...]:
    if len(spirv) < 20 or len(spirv) % 4 or struct.unpack_from("<I", spirv)[0] != MAGIC:
        raise UsageError(f"{len(spirv)} bytes that start with {spirv[:4].hex()} are not a little-endian SPIR-V module")
    return struct.unpack(f"<{len(spirv) // 4}I", spirv)


def parse(spirv: bytes) -> list[Instruction]:
    """All instructions of a module in order. Errors: `UsageError` for what is no SPIR-V or cut off."""
    words = _words(spirv)
    numeric: dict[int, tuple[str, int]] = {}  # type id -> (int or float, width)
    types: dict[int, int] = {}  # result id -> type id
    found, at = [], 5
    while at < len(words):
        count, code = words[at] >> 16, words[at] & 0xFFFF
        if count == 0 or at + count > len(words):
            raise UsageError(f"SPIR-V: word {at}: an instruction of {count} words in a module of {len(words)}")
        if code not in _by_opcode():
            raise UsageError(f"SPIR-V: word {at}: opcode {code} is not in the grammar (vendor extension)")
        instruction = _Reader(words[at : at + count], numeric, types).instruction()
        if instruction.name == "OpTypeInt":
            numeric[instruction.result] = ("int" if instruction.words[3] else "uint", instruction.words[2])
        elif instruction.name == "OpTypeFloat":
            numeric[instruction.result] = ("float", instruction.words[2])
        types[instruction.result] = instruction.type
        found.append(instruction)
        at += count
    return found


class _Reader:
    """Reads the operands of one instruction."""

    def __init__(self, words: tuple[int, ...], numeric: dict[int, tuple[str, int]], types: dict[int, int]) -> None:
        self.words, self.numeric, self.types = words, numeric, types
        self.at = 1
        self.type = self.result = 0
        self.operands: list[tuple[str, Any]] = []

    def instruction(self) -> Instruction:
        name, kinds = _by_opcode()[self.words[0] & 0xFFFF]
        self._read(kinds)
        if self.at != len(self.words):
            raise UsageError(f"SPIR-V: {name} of {len(self.words)} words where its operands take {self.at}")
        return Instruction(name, self.words, self.type, self.result, tuple(self.operands))

    def _read(self, kinds: list[list[str]]) -> None:
        for kind, quantifier in kinds:
            if quantifier == "*":
                while self.at < len(self.words):
                    self._operand(kind)
            elif quantifier != "?" or self.at < len(self.words):
                self._operand(kind)

    def _next(self) -> int:
        if self.at >= len(self.words):
            raise UsageError(f"SPIR-V: {_by_opcode()[self.words[0] & 0xFFFF][0]} lacks operands")
        self.at += 1
        return self.words[self.at - 1]

    def _operand(self, kind: str) -> None:
        enums = _grammar()["enums"]
        if kind == "IdResultType":
            self.type = self._next()
        elif kind == "IdResult":
            self.result = self._next()
        elif kind in _IDS:
            self.operands.append(("id", self._next()))
        elif kind in _PAIRS:
            for part in _PAIRS[kind]:
                self._operand(part)
        elif kind == "LiteralString":
            self.operands.append(("string", self._string()))
        elif kind == "LiteralContextDependentNumber":
            self.operands.append(("text", self._number()))
        elif kind == "LiteralExtInstInteger":
            number = self._next()
            self.operands.append(("text", _grammar()["glsl"].get(str(number), str(number))))
        elif kind == "LiteralSpecConstantOpInteger":
            name, kinds = _by_opcode()[self._next()]
            self.operands.append(("text", name[2:]))
            self._read([k for k in kinds if k[0] not in ("IdResultType", "IdResult")])
        elif kind in enums:
            self._enumerants(enums[kind])
        else:
            self.operands.append(("text", str(self._next())))

    def _enumerants(self, enum: dict[str, Any]) -> None:
        """An enumerant, or the set bits of a mask joined by ``|``, and the parameters that they bring."""
        value, values = self._next(), enum["values"]
        parts = [value]
        if enum["bits"] and value:
            parts = [1 << i for i in range(32) if value >> i & 1]
        known = [values.get(str(part), [str(part), []]) for part in parts]
        self.operands.append(("text", "|".join(name for name, _ in known)))
        for _, parameters in known:
            for parameter in parameters:
                self._operand(parameter)

    def _string(self) -> str:
        data = b""
        while b"\0" not in data:
            data += struct.pack("<I", self._next())
        return data.partition(b"\0")[0].decode("utf-8", "replace")

    def _number(self) -> str:
        """The literal of a constant of this instruction's type."""
        kind, width = self.numeric.get(self.type, ("uint", 32))
        bits = self._next()
        if width == 64:
            bits |= self._next() << 32
        if kind == "float":
            return float_text(bits, width)
        return str(bits - (1 << width) if kind == "int" and bits >> (width - 1) & 1 else bits)


def float_text(bits: int, width: int) -> str:
    """A float constant as spirv-dis writes it: decimal where that is exact to read back, else hexadecimal."""
    fraction_bits, bias = {16: (10, 15), 32: (23, 127), 64: (52, 1023)}[width]
    sign = "-" if bits >> (width - 1) else ""
    exponent = bits >> fraction_bits & (2 * bias + 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    if width > 16 and (0 < exponent <= 2 * bias or not (exponent or fraction)):
        value: float = struct.unpack("<f" if width == 32 else "<d", bits.to_bytes(width // 8, "little"))[0]
        return f"{value:.{9 if width == 32 else 17}g}"
    if not exponent and not fraction:
        return f"{sign}0x0p+0"
    if not exponent:  # subnormal: the leading bit becomes the one before the point
        shift = fraction_bits + 1 - fraction.bit_length()
        exponent, fraction = 1 - shift, fraction << shift & ((1 << fraction_bits) - 1)
    digits = f"{fraction << (-fraction_bits % 4):0{-(-fraction_bits // 4)}x}".rstrip("0")
    return f"{sign}0x1{'.' if digits else ''}{digits}p{exponent - bias:+d}"


# ---- names --------------------------------------------------------------------------------------------------------


def friendly_names(instructions: list[Instruction]) -> dict[int, str]:
    """Names for the ids that have an obvious one: types, constants, built-ins, buffers, OpName, main."""
    names: dict[int, str] = {}
    taken: set[str] = set()

    def name_of(id_: int) -> str:
        return names.get(id_, str(id_))

    def give(id_: int, text: str) -> None:
        text = re.sub(r"[^A-Za-z0-9_]", "_", text)
        if id_ in names or not text:
            return
        unique, n = text, 0
        while unique in taken:
            unique, n = f"{text}_{n}", n + 1
        names[id_] = unique
        taken.add(unique)

    for i in instructions:
        if i.name == "OpName":
            give(i.operands[0][1], i.operands[1][1])
        elif i.name == "OpEntryPoint":
            give(i.operands[1][1], i.operands[2][1])
        elif i.name == "OpDecorate" and i.texts[:1] == ("BuiltIn",):
            give(i.operands[0][1], _GL_NAMES.get(i.texts[1], "gl_" + i.texts[1].replace("Id", "ID")))
        elif i.name == "OpDecorate" and i.texts[:1] == ("Binding",):
            give(i.operands[0][1], f"buffer_{i.texts[1]}")
        elif i.name == "OpVariable" and i.texts[:1] == ("PushConstant",):
            give(i.result, "push")
    for i in instructions:
        maker = _NAMERS.get(i.name)
        if maker is not None:
            give(i.result, maker(i, name_of))
    return names


def _int_name(i: Instruction, _: Callable[[int], str]) -> str:
    return ("" if i.words[3] else "u") + {8: "char", 16: "short", 32: "int", 64: "long"}.get(
        i.words[2], f"int{i.words[2]}"
    )


def _constant_name(i: Instruction, name_of: Callable[[int], str]) -> str:
    text = i.texts[0]
    return f"{name_of(i.type)}_{text.replace('-', 'n').replace('+', '')}"


_NAMERS: dict[str, Callable[[Instruction, Callable[[int], str]], str]] = {
    "OpTypeVoid": lambda i, n: "void",
    "OpTypeBool": lambda i, n: "bool",
    "OpTypeInt": _int_name,
    "OpTypeFloat": lambda i, n: {16: "half", 32: "float", 64: "double"}.get(i.words[2], f"fp{i.words[2]}"),
    "OpTypeVector": lambda i, n: f"v{i.words[3]}{n(i.words[2])}",
    "OpTypeArray": lambda i, n: f"_arr_{n(i.words[2])}_{n(i.words[3])}",
    "OpTypeRuntimeArray": lambda i, n: f"_runtimearr_{n(i.words[2])}",
    "OpTypePointer": lambda i, n: f"_ptr_{i.texts[0]}_{n(i.words[3])}",
    "OpTypeStruct": lambda i, n: f"_struct_{i.result}",
    "OpConstant": _constant_name,
    "OpConstantTrue": lambda i, n: "true",
    "OpConstantFalse": lambda i, n: "false",
}


# ---- text ---------------------------------------------------------------------------------------------------------


def summary(instructions: list[Instruction]) -> str:
    """How many loops there are, how many carry which control, and how many OpPhi."""
    controls = [i.texts[0] for i in instructions if i.name == "OpLoopMerge"]
    marked = ", ".join(f"{controls.count(c)} {c}" for c in sorted(set(controls)))
    phis = sum(i.name == "OpPhi" for i in instructions)
    return f"{len(controls)} loops{f' ({marked})' if marked else ''}, {phis} phis"


def _lines(instructions: list[Instruction], names: dict[int, str]) -> Iterator[str]:
    for i in instructions:
        parts = [i.name]
        if i.type:
            parts.append("%" + names.get(i.type, str(i.type)))
        for kind, value in i.operands:
            if kind == "id":
                parts.append("%" + names.get(value, str(value)))
            elif kind == "string":
                escaped = value.replace("\\", "\\\\").replace('"', '\\"')
                parts.append(f'"{escaped}"')
            else:
                parts.append(value)
        left = f"%{names.get(i.result, str(i.result))} = " if i.result else ""
        yield f"{left:>{_COLUMN}}{' '.join(parts)}"


def disassemble(spirv: bytes, friendly: bool = True, header: bool = True) -> str:
    """The module as text; `friendly`: names for types, constants and built-ins instead of numbers."""
    instructions = parse(spirv)
    names = friendly_names(instructions) if friendly else {}
    text = "\n".join(_lines(instructions, names)) + "\n"
    if not header:
        return text
    _, version, generator, bound, schema = _words(spirv)[:5]
    head = [
        "; SPIR-V",
        f"; Version: {version >> 16 & 0xFF}.{version >> 8 & 0xFF}",
        f"; Generator: {generator >> 16}; {generator & 0xFFFF}",
        f"; Bound: {bound}",
        f"; Schema: {schema}",
        f"; {len(spirv)} bytes, {len(instructions)} instructions, {summary(instructions)}",
    ]
    return "\n".join(head) + "\n" + text
