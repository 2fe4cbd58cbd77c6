"""SPIR-V of one cooperative-matrix multiply-add per subgroup: SPV_KHR_cooperative_matrix.

Rules
 1. One workgroup is one subgroup and one tile: a [m, k], b [k, n], c and d [m, n], row-major in buffers 0 to 3.
 2. The module uses the Vulkan memory model, which the extension's loads and stores are defined for.
 3. Integer operands name their signs in the multiply-add; .SAT is its SaturatingAccumulation.
"""

from __future__ import annotations

import struct

from ..formats import Format
from ..isa import Instruction

_SUBGROUP = 3
_ROW_MAJOR = 0
_ACCUMULATOR = 2
_SIGNED = {"a": 1, "b": 2, "c": 4, "d": 8}
_SATURATING = 16

# numbers of the SPIR-V registry
_OP = {"EntryPoint": 15, "ExecutionMode": 16, "Capability": 17, "Extension": 10, "MemoryModel": 14, "Decorate": 71,
       "MemberDecorate": 72, "TypeVoid": 19, "TypeInt": 21, "TypeFloat": 22, "TypeVector": 23, "TypeRuntimeArray": 29,
       "TypeStruct": 30, "TypePointer": 32, "TypeFunction": 33, "Constant": 43, "Function": 54, "FunctionEnd": 56,
       "Variable": 59, "Load": 61, "AccessChain": 65, "IMul": 132, "Label": 248, "Return": 253,
       "TypeCooperativeMatrix": 4456, "CooperativeMatrixLoad": 4457, "CooperativeMatrixStore": 4458,
       "CooperativeMatrixMulAdd": 4459}  # fmt: skip
_CAPABILITIES = {"Shader": 1, "Float16": 9, "Int8": 39, "StorageBuffer16BitAccess": 4433,
                 "StorageBuffer8BitAccess": 4448, "VulkanMemoryModel": 5345, "CooperativeMatrixKHR": 6022}  # fmt: skip


class _Module:
    """Words in the order of a module's sections; ids from 1."""

    def __init__(self) -> None:
        self.next = 1
        self.sections: dict[str, list[int]] = {name: [] for name in ("head", "entry", "decorations", "types", "body")}

    def id(self) -> int:
        self.next += 1
        return self.next - 1

    def emit(self, section: str, name: str, *words: int) -> None:
        self.sections[section] += [(len(words) + 1) << 16 | _OP[name], *words]

    def typed(self, name: str, *words: int) -> int:
        """A type, whose id is its first operand."""
        result = self.id()
        self.emit("types", name, result, *words)
        return result

    def valued(self, section: str, name: str, kind: int, *words: int) -> int:
        result = self.id()
        self.emit(section, name, kind, result, *words)
        return result

    def bytes(self) -> bytes:
        body = [word for section in self.sections.values() for word in section]
        return struct.pack(f"<{5 + len(body)}I", 0x07230203, 0x00010500, 0, self.next, 0, *body)


def _text(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def _element(module: _Module, fmt: Format) -> int:
    if fmt.is_float:
        return module.typed("TypeFloat", fmt.bits)
    return module.typed("TypeInt", fmt.bits, int(fmt.kind == "signed"))


def tile_module(row: Instruction) -> bytes:
    """The module of a matrix row with f16 or integer operands."""
    assert row.shape is not None and row.result is not None
    m, n, k = row.shape.m, row.shape.n, row.shape.k
    formats = [f for f in row.operands if f is not None] + [row.result]
    module = _Module()
    _head(module, formats)
    void, u32 = module.typed("TypeVoid"), module.typed("TypeInt", 32, 0)
    constants = {
        value: module.valued("types", "Constant", u32, value)
        for value in sorted({0, 1, 2, 3, m, n, k, m * k, k * n, m * n})
    }
    elements: dict[Format, int] = {}
    for fmt in formats:
        if fmt not in elements:
            elements[fmt] = _element(module, fmt)
    shapes = ((m, k, 0), (k, n, 1), (m, n, _ACCUMULATOR), (m, n, _ACCUMULATOR))
    buffers = [_buffer(module, elements[fmt], fmt.bits // 8, binding) for binding, fmt in enumerate(formats)]
    matrices: dict[tuple[int, ...], int] = {}
    for fmt, (rows, columns, use) in zip(formats, shapes):
        key = (elements[fmt], constants[_SUBGROUP], constants[rows], constants[columns], constants[use])
        if key not in matrices:
            matrices[key] = module.typed("TypeCooperativeMatrix", *key)
    kinds = [
        matrices[elements[fmt], constants[_SUBGROUP], constants[rows], constants[columns], constants[use]]
        for fmt, (rows, columns, use) in zip(formats, shapes)
    ]
    group = _entry(module, void, u32, [variable for variable, _, _ in buffers])
    _body(module, row, group, buffers, kinds, u32, constants, shapes)
    return module.bytes()


def _head(module: _Module, formats: list[Format]) -> None:
    bits = {fmt.bits for fmt in formats}
    names = ["Shader", "VulkanMemoryModel", "CooperativeMatrixKHR"]
    names += ["Float16", "StorageBuffer16BitAccess"] if 16 in bits else []
    names += ["Int8", "StorageBuffer8BitAccess"] if 8 in bits else []
    for name in names:
        module.emit("head", "Capability", _CAPABILITIES[name])
    module.emit("head", "Extension", *_text("SPV_KHR_cooperative_matrix"))
    module.emit("head", "MemoryModel", 0, 3)  # Logical, Vulkan


def _buffer(module: _Module, element: int, size: int, binding: int) -> tuple[int, int, int]:
    """(variable, pointer type of an element, id of the element type) of one storage buffer."""
    array = module.typed("TypeRuntimeArray", element)
    block = module.typed("TypeStruct", array)
    module.emit("decorations", "Decorate", array, 6, size)  # ArrayStride
    module.emit("decorations", "Decorate", block, 2)  # Block
    module.emit("decorations", "MemberDecorate", block, 0, 35, 0)  # Offset
    pointer = module.typed("TypePointer", 12, block)  # StorageBuffer
    variable = module.valued("types", "Variable", pointer, 12)
    module.emit("decorations", "Decorate", variable, 34, 0)  # DescriptorSet
    module.emit("decorations", "Decorate", variable, 33, binding)  # Binding
    return variable, module.typed("TypePointer", 12, element), element


def _entry(module: _Module, void: int, u32: int, buffers: list[int]) -> int:
    """Entry point, its function's start, and the workgroup's number."""
    vector = module.typed("TypeVector", u32, 3)
    pointer = module.typed("TypePointer", 1, vector)  # Input
    scalar = module.typed("TypePointer", 1, u32)
    group = module.valued("types", "Variable", pointer, 1)
    module.emit("decorations", "Decorate", group, 11, 26)  # BuiltIn WorkgroupId
    function_type = module.typed("TypeFunction", void)
    zero = module.valued("types", "Constant", u32, 0)
    main = module.valued("body", "Function", void, 0, function_type)
    module.emit("entry", "EntryPoint", 5, main, *_text("main"), group, *buffers)  # GLCompute
    module.emit("entry", "ExecutionMode", main, 17, 32, 1, 1)  # LocalSize
    module.emit("body", "Label", module.id())
    place = module.valued("body", "AccessChain", scalar, group, zero)
    return module.valued("body", "Load", u32, place)


def _body(module: _Module, row: Instruction, group: int, buffers, kinds, u32: int, constants, shapes) -> None:  # type: ignore[no-untyped-def]
    pointers = []
    for (variable, element, _), (rows, columns, _use) in zip(buffers, shapes):
        start = module.valued("body", "IMul", u32, group, constants[rows * columns])
        pointers.append(module.valued("body", "AccessChain", element, variable, constants[0], start))
    loaded = [
        module.valued(
            "body", "CooperativeMatrixLoad", kinds[i], pointers[i], constants[_ROW_MAJOR], constants[shapes[i][1]]
        )
        for i in range(3)
    ]
    result = module.valued("body", "CooperativeMatrixMulAdd", kinds[3], *loaded, *_operand_flags(row))
    module.emit("body", "CooperativeMatrixStore", pointers[3], result, constants[_ROW_MAJOR], constants[shapes[3][1]])
    module.emit("body", "Return")
    module.emit("body", "FunctionEnd")


def _operand_flags(row: Instruction) -> list[int]:
    if row.family != "integer_tensor":
        return []
    options = row.keywords
    mask = _SIGNED["c"] | _SIGNED["d"] | (_SATURATING if options["saturate"] else 0)
    return [mask | (_SIGNED["a"] if options["a_signed"] else 0) | (_SIGNED["b"] if options["b_signed"] else 0)]
