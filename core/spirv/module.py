"""The sections of a SPIR-V module under construction: ids, types, constants, decorations, and their final order.

Integers have unsigned SPIR-V types only; kinds ``u32`` and ``i32`` share one type id. Types and constants are made at
their first use and exist once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

from .opcodes import OP
from .value import Value

if TYPE_CHECKING:
    from .builder import Builder

# SPIR-V enumerants that the builder uses (Khronos grammar; the disassembler has them all).
CAPABILITIES = {
    "Shader": 1, "Float16": 9, "Float64": 10, "Int64": 11, "Int16": 22, "Int8": 39,
    "GroupNonUniform": 61, "GroupNonUniformVote": 62, "GroupNonUniformArithmetic": 63, "GroupNonUniformBallot": 64,
    "GroupNonUniformShuffle": 65, "GroupNonUniformShuffleRelative": 66,
    "StorageBuffer16BitAccess": 4433, "StorageBuffer8BitAccess": 4448,
    "DenormPreserve": 4464, "RoundingModeRTZ": 4468, "VulkanMemoryModel": 5345, "CooperativeMatrixKHR": 6022,
}  # fmt: skip
STORAGE = {"Input": 1, "Workgroup": 4, "Function": 7, "PushConstant": 9, "StorageBuffer": 12}
DECORATION = {
    "Block": 2, "ArrayStride": 6, "BuiltIn": 11, "Aliased": 20, "Coherent": 23, "NonWritable": 24, "Binding": 33,
    "DescriptorSet": 34, "Offset": 35, "NoContraction": 42,
}  # fmt: skip
BUILTIN = {
    "WorkgroupId": 26, "LocalInvocationId": 27, "LocalInvocationIndex": 29, "SubgroupSize": 36,
    "SubgroupId": 40, "SubgroupLocalInvocationId": 41,
}  # fmt: skip
UNROLL, DONT_UNROLL = 1, 2
LOCAL_SIZE, DENORM_PRESERVE, ROUND_TOWARD_ZERO = 17, 4459, 4463
SCOPE_WORKGROUP, SCOPE_SUBGROUP = 2, 3
SEMANTICS_WORKGROUP_MEMORY, SEMANTICS_UNIFORM_MEMORY, SEMANTICS_ACQUIRE_RELEASE = 0x100, 0x40, 0x8
SEMANTICS_MAKE_AVAILABLE, SEMANTICS_MAKE_VISIBLE = 0x2000, 0x4000
GLSL450, VULKAN = 1, 3  # memory models
NON_PRIVATE_POINTER = 0x20
SPIRV_1_3, SPIRV_1_5 = 0x00010300, 0x00010500
# SPV_KHR_cooperative_matrix, which the grammar that opcodes.py is made from does not have
OPCODES = OP | {
    "TypeCooperativeMatrixKHR": 4456,
    "CooperativeMatrixLoadKHR": 4457,
    "CooperativeMatrixStoreKHR": 4458,
    "CooperativeMatrixMulAddKHR": 4459,
}

BITS = {"u8": 8, "u16": 16, "u32": 32, "i32": 32, "f32": 32, "u64": 64, "i64": 64, "f64": 64, "bool": 1, "f16": 16}
UNSIGNED = {"i32": "u32", "i64": "u64"}
NEEDS = {"u64": "Int64", "i64": "Int64", "f64": "Float64", "u16": "Int16", "u8": "Int8", "f16": "Float16"}


class ModuleWriter:
    """Words of one compute shader by section; `builder.Builder` adds the instructions."""

    def __init__(self, target: Any = None, local_size: tuple[int, int, int] = (1, 1, 1)) -> None:
        self.target = target
        self.local_size = local_size
        # NVIDIA's driver flushes 32-bit subnormals unless asked not to.
        self.preserves_subnormals = bool(getattr(target, "denorm_preserve", False))
        self.truncates_f64 = False  # all f64 arithmetic rounds toward zero
        self.next_id = 1
        self.capabilities = {"Shader"}
        self.extensions: set[str] = set()
        self.names: list[int] = []
        self.decorations: list[int] = []
        self.globals: list[int] = []  # types, constants, module-scope variables
        self.variables: list[int] = []  # Function variables, which SPIR-V wants at the start
        self.code: list[int] = []
        self.interface: list[int] = []  # inputs
        self.module_variables: list[int] = []  # all that are global, inputs too
        self.memory_model = GLSL450
        self._cache: dict[Any, int] = {}
        self.glsl = self.id()
        self.main = self.id()
        self.entry = self.id()

    # ---- ids, raw instructions -------------------------------------------------------------------------------

    def id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def emit(self, name: str, *words: int) -> None:
        """An instruction without a result."""
        self.code.append((len(words) + 1) << 16 | OPCODES[name])
        self.code.extend(words)

    def raw(self, name: str, type_id: int, *words: int) -> int:
        """An instruction with a result of the given type id; returns the result's id."""
        result = self.next_id
        self.next_id = result + 1
        self.code.append((len(words) + 3) << 16 | OPCODES[name])
        self.code.append(type_id)
        self.code.append(result)
        self.code.extend(words)
        return result

    def _value(self, id: int, kind: str) -> Value:
        """A value of this shader; the writer is only ever the base of a `Builder`."""
        return Value(cast("Builder", self), id, kind)

    def op(self, name: str, kind: str, *words: int) -> Value:
        return self._value(self.raw(name, self.type(kind), *words), kind)

    def _global(self, name: str, *words: int) -> None:
        self.globals.append((len(words) + 1) << 16 | OPCODES[name])
        self.globals.extend(words)
        if name == "Variable":
            self.module_variables.append(words[1])

    def decorate(self, target: int, decoration: str, *words: int) -> None:
        self.decorations.append((len(words) + 3) << 16 | OP["Decorate"])
        self.decorations.extend((target, DECORATION[decoration], *words))

    def capability(self, *names: str) -> None:
        self.capabilities.update(names)

    def use_vulkan_memory_model(self) -> None:
        """Before anything is emitted: accesses of memory that invocations share then say that they are shared."""
        self.memory_model = VULKAN
        self.capability("VulkanMemoryModel")

    def access(self, storage: str) -> tuple[int, ...]:
        """Memory operands of a load or store in a storage class."""
        shared = self.memory_model == VULKAN and storage in ("Workgroup", "StorageBuffer")
        return (NON_PRIVATE_POINTER,) if shared else ()

    # ---- types -----------------------------------------------------------------------------------------------

    def type(self, kind: str) -> int:
        """Type id of a kind; vectors are ``<kind>x<n>``."""
        kind = UNSIGNED.get(kind, kind)
        found = self._cache.get(kind)
        if found is not None:
            return found
        if kind in NEEDS:
            self.capability(NEEDS[kind])
        base, _, count = kind.partition("x")
        if count:
            args: tuple[Any, ...] = ("TypeVector", self.type(base), int(count))
        elif kind == "void":
            args = ("TypeVoid",)
        elif kind == "bool":
            args = ("TypeBool",)
        elif kind[0] == "f":
            args = ("TypeFloat", BITS[kind])
        else:
            args = ("TypeInt", BITS[kind], 0)
        result = self.id()
        self._global(args[0], result, *args[1:])
        self._cache[kind] = result
        return result

    def pointer_type(self, kind: str, storage: str) -> int:
        return self.typed(
            ("pointer", UNSIGNED.get(kind, kind), storage), "TypePointer", STORAGE[storage], self.type(kind)
        )

    def typed(self, key: Any, name: str, *words: int) -> int:
        if key not in self._cache:
            self._cache[key] = result = self.id()
            self._global(name, result, *words)
        return self._cache[key]

    # ---- constants -------------------------------------------------------------------------------------------

    def const(self, value: int | float | bool, kind: str = "u32") -> Value:
        """A constant: an integer is taken modulo the width, also for float kinds a Python float is a value."""
        if kind == "bool":
            key: Any = ("bool", bool(value))
            if key not in self._cache:
                self._cache[key] = result = self.id()
                self._global("ConstantTrue" if value else "ConstantFalse", self.type("bool"), result)
            return self._value(self._cache[key], "bool")
        if kind[0] == "f":
            bits = int.from_bytes(struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[kind], value), "little")
        else:
            bits = int(value) & ((1 << BITS[kind]) - 1)
        return self.const_bits(bits, kind)

    def const_bits(self, bits: int, kind: str) -> Value:
        """A constant given by its bit pattern."""
        key = ("const", UNSIGNED.get(kind, kind), bits)
        if key not in self._cache:
            words = [bits & 0xFFFFFFFF] + ([bits >> 32] if BITS[kind] == 64 else [])
            type_id = self.type(kind)
            self._cache[key] = result = self.id()
            self._global("Constant", type_id, result, *words)
        return self._value(self._cache[key], kind)

    def late_constant(self, id: int, value: int) -> None:
        """Gives a u32 constant whose id was used before its value was known."""
        self._global("Constant", self.type("u32"), id, value)

    def u32(self, value: int) -> Value:
        return self.const(value, "u32")

    def i32(self, value: int) -> Value:
        return self.const(value, "i32")

    def f32(self, value: float) -> Value:
        return self.const(value, "f32")

    def f32_bits(self, code: int) -> Value:
        return self.const_bits(code, "f32")

    def true(self) -> Value:
        return self.const(True, "bool")

    def false(self) -> Value:
        return self.const(False, "bool")

    def coerce(self, value: Any, kind: str) -> Value:
        return value if isinstance(value, Value) else self.const(value, kind)

    # ---- the finished module ---------------------------------------------------------------------------------

    def module(self) -> bytes:
        """The module, little-endian words: SPIR-V 1.3, with the Vulkan memory model 1.5."""
        void = self.type("void")
        function_type = self.typed(("function",), "TypeFunction", void)
        head: list[int] = []

        def put(name: str, *words: int) -> None:
            head.append((len(words) + 1) << 16 | OP[name])
            head.extend(words)

        modes: list[tuple[int, int]] = []
        if self.preserves_subnormals:
            self.capability("DenormPreserve")
            modes.append((DENORM_PRESERVE, 32))
        if self.truncates_f64:
            self.capability("RoundingModeRTZ")
            modes.append((ROUND_TOWARD_ZERO, 64))
        if modes:
            self.extensions.add("SPV_KHR_float_controls")
        for name in sorted(self.capabilities):
            put("Capability", CAPABILITIES[name])
        for name in sorted(self.extensions):
            put("Extension", *_string(name))
        put("ExtInstImport", self.glsl, *_string("GLSL.std.450"))
        put("MemoryModel", 0, self.memory_model)
        vulkan = self.memory_model == VULKAN
        put("EntryPoint", 5, self.main, *_string("main"), *(self.module_variables if vulkan else self.interface))
        put("ExecutionMode", self.main, LOCAL_SIZE, *self.local_size)
        for mode in modes:
            put("ExecutionMode", self.main, *mode)
        label = [5 << 16 | OP["Function"], void, self.main, 0, function_type, 2 << 16 | OP["Label"], self.entry]
        tail = [1 << 16 | OP["Return"], 1 << 16 | OP["FunctionEnd"]]
        words = [
            0x07230203,
            SPIRV_1_5 if vulkan else SPIRV_1_3,
            0,
            self.next_id,
            0,
            *head,
            *self.decorations,
            *self.globals,
        ]
        words += [*label, *self.variables, *self.code, *tail]
        return struct.pack(f"<{len(words)}I", *words)


def _string(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))
