"""Writes one SPIR-V compute shader, instruction by instruction.

`Builder` owns the module: types, constants, decorations, buffers and the words of `main`. `Value` is one SSA result;
its Python operators emit instructions, so device code reads like the numpy reference beside it.

Rules that every shader obeys (design.md section 6, tile-lowering.md A8):

* Integers have unsigned SPIR-V types only. Signedness is a property of the `Value` (kinds ``u32`` and ``i32`` share one
  type id) and picks the instruction: shift, compare, divide, convert.
* Every float operation carries NoContraction; a zero that must not be folded comes from `opaque_zero`.
* Loop state lives in Function variables; there is no OpPhi. Loops are bottom-tested (a top-tested loop runs its body
  once more, masked, on lavapipe and SwiftShader), with `DontUnroll` where asked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .opcodes import GLSL, OP
from .value import Array, Value, Variable

__all__ = ["BITS", "DONT_UNROLL", "UNROLL", "Array", "Builder", "Value", "Variable"]

# SPIR-V enumerants that the builder uses (Khronos grammar; the disassembler has them all).
CAPABILITIES = {
    "Shader": 1, "Float16": 9, "Float64": 10, "Int64": 11, "Int16": 22, "Int8": 39,
    "GroupNonUniform": 61, "GroupNonUniformVote": 62, "GroupNonUniformArithmetic": 63, "GroupNonUniformBallot": 64,
    "GroupNonUniformShuffle": 65, "GroupNonUniformShuffleRelative": 66,
    "StorageBuffer16BitAccess": 4433, "StorageBuffer8BitAccess": 4448,
    "DenormPreserve": 4464,
}  # fmt: skip
STORAGE = {"Input": 1, "Workgroup": 4, "Function": 7, "PushConstant": 9, "StorageBuffer": 12}
DECORATION = {
    "Block": 2, "ArrayStride": 6, "BuiltIn": 11, "Aliased": 20, "NonWritable": 24, "Binding": 33,
    "DescriptorSet": 34, "Offset": 35, "NoContraction": 42,
}  # fmt: skip
BUILTIN = {
    "WorkgroupId": 26, "LocalInvocationId": 27, "LocalInvocationIndex": 29, "SubgroupSize": 36,
    "SubgroupId": 40, "SubgroupLocalInvocationId": 41,
}  # fmt: skip
UNROLL, DONT_UNROLL = 1, 2
LOCAL_SIZE, DENORM_PRESERVE = 17, 4459
SCOPE_WORKGROUP, SCOPE_SUBGROUP = 2, 3
SEMANTICS_WORKGROUP_MEMORY, SEMANTICS_UNIFORM_MEMORY, SEMANTICS_ACQUIRE_RELEASE = 0x100, 0x40, 0x8
SPIRV_1_3 = 0x00010300

BITS = {"u8": 8, "u16": 16, "u32": 32, "i32": 32, "f32": 32, "u64": 64, "i64": 64, "f64": 64, "bool": 1, "f16": 16}
_UNSIGNED = {"i32": "u32", "i64": "u64"}
_NEEDS = {"u64": "Int64", "i64": "Int64", "f64": "Float64", "u16": "Int16", "u8": "Int8", "f16": "Float16"}


class Builder:
    """One compute shader under construction. `target` is what the device can do (gpu.target.Target), for emitters."""

    def __init__(self, target: Any = None, local_size: tuple[int, int, int] = (1, 1, 1)) -> None:
        self.target = target
        self.local_size = local_size
        self.mufu_binding = 0  # where the shader's author binds MUFU's coefficient tables, for the emitters
        # NVIDIA's driver flushes 32-bit subnormals unless asked not to.
        self.preserves_subnormals = bool(getattr(target, "denorm_preserve", False))
        self.next_id = 1
        self.capabilities = {"Shader"}
        self.extensions: set[str] = set()
        self.names: list[int] = []
        self.decorations: list[int] = []
        self.globals: list[int] = []  # types, constants, module-scope variables
        self.variables: list[int] = []  # Function variables, which SPIR-V wants at the start
        self.code: list[int] = []
        self.interface: list[int] = []
        self._cache: dict[Any, int] = {}
        self._values: dict[Any, Value] = {}
        self._arrays: dict[Any, Array] = {}
        self._push_size = 0
        self.glsl = self.id()
        self.main = self.id()
        self.entry = self.id()

    # ---- ids, raw instructions -------------------------------------------------------------------------------

    def id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def emit(self, name: str, *words: int) -> None:
        """An instruction without a result."""
        self.code.append((len(words) + 1) << 16 | OP[name])
        self.code.extend(words)

    def raw(self, name: str, type_id: int, *words: int) -> int:
        """An instruction with a result of the given type id; returns the result's id."""
        result = self.next_id
        self.next_id = result + 1
        self.code.append((len(words) + 3) << 16 | OP[name])
        self.code.append(type_id)
        self.code.append(result)
        self.code.extend(words)
        return result

    def op(self, name: str, kind: str, *words: int) -> Value:
        return Value(self, self.raw(name, self.type(kind), *words), kind)

    def _global(self, name: str, *words: int) -> None:
        self.globals.append((len(words) + 1) << 16 | OP[name])
        self.globals.extend(words)

    def decorate(self, target: int, decoration: str, *words: int) -> None:
        self.decorations.append((len(words) + 3) << 16 | OP["Decorate"])
        self.decorations.extend((target, DECORATION[decoration], *words))

    def capability(self, *names: str) -> None:
        self.capabilities.update(names)

    # ---- types -----------------------------------------------------------------------------------------------

    def type(self, kind: str) -> int:
        """Type id of a kind; vectors are ``<kind>x<n>``."""
        kind = _UNSIGNED.get(kind, kind)
        found = self._cache.get(kind)
        if found is not None:
            return found
        if kind in _NEEDS:
            self.capability(_NEEDS[kind])
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
        return self._typed(
            ("pointer", _UNSIGNED.get(kind, kind), storage), "TypePointer", STORAGE[storage], self.type(kind)
        )

    def _typed(self, key: Any, name: str, *words: int) -> int:
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
            return Value(self, self._cache[key], "bool")
        if kind[0] == "f":
            bits = int.from_bytes(struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[kind], value), "little")
        else:
            bits = int(value) & ((1 << BITS[kind]) - 1)
        return self.const_bits(bits, kind)

    def const_bits(self, bits: int, kind: str) -> Value:
        """A constant given by its bit pattern."""
        key = ("const", _UNSIGNED.get(kind, kind), bits)
        if key not in self._cache:
            words = [bits & 0xFFFFFFFF] + ([bits >> 32] if BITS[kind] == 64 else [])
            type_id = self.type(kind)
            self._cache[key] = result = self.id()
            self._global("Constant", type_id, result, *words)
        return Value(self, self._cache[key], kind)

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

    # ---- arithmetic ------------------------------------------------------------------------------------------

    def binary(self, name: str, x: Value, y: Any, kind: str = "") -> Value:
        y = self.coerce(y, "u32" if name.startswith("Shift") else x.kind)
        kind = kind or x.kind
        result = self.raw(name, self.type(kind), x.id, y.id)
        if name[0] == "F":
            self.decorate(result, "NoContraction")
        return Value(self, result, kind)

    def unary(self, name: str, x: Value, kind: str) -> Value:
        result = self.raw(name, self.type(kind), x.id)
        if name[0] == "F" or name.startswith("Convert"):
            self.decorate(result, "NoContraction")
        return Value(self, result, kind)

    def compare(self, name: str, x: Value, y: Any) -> Value:
        y = self.coerce(y, x.kind)
        if x.kind == "bool":
            prefix = "Logical"
        elif x.kind[0] == "f":
            prefix = "FOrd"
        elif name in ("Equal", "NotEqual"):
            prefix = "I"
        else:
            prefix = "S" if x.kind[0] == "i" else "U"
        return Value(self, self.raw(prefix + name, self.type("bool"), x.id, y.id), "bool")

    def select(self, condition: Value, x: Any, y: Any) -> Value:
        kind = x.kind if isinstance(x, Value) else y.kind if isinstance(y, Value) else "u32"
        x, y = self.coerce(x, kind), self.coerce(y, kind)
        return Value(self, self.raw("Select", self.type(kind), condition.id, x.id, y.id), kind)

    def is_nan(self, x: Value) -> Value:
        """True where a float is NaN, by its bits (drivers fold x != x)."""
        bits = x.bits if x.kind[0] == "f" else x
        if BITS[bits.kind] == 64:
            return (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000
        return (bits & 0x7FFFFFFF) > 0x7F800000

    def bitcast(self, x: Value, kind: str) -> Value:
        if self.type(x.kind) == self.type(kind):
            return Value(self, x.id, kind)
        return Value(self, self.raw("Bitcast", self.type(kind), x.id), kind)

    def convert(self, x: Value, kind: str) -> Value:
        """Numeric conversion: between floats OpFConvert, float to integer truncates, integers extend by sign."""
        a, z = x.kind[0], kind[0]
        if a == "f" and z == "f":
            return x if x.kind == kind else self.unary("FConvert", x, kind)
        if a == "f":
            return self.unary("ConvertFToU" if z == "u" else "ConvertFToS", x, kind)
        if z == "f":
            return self.unary("ConvertUToF" if a == "u" else "ConvertSToF", x, kind)
        if BITS[x.kind] == BITS[kind]:
            return Value(self, x.id, kind)
        return self.unary("SConvert" if a == "i" else "UConvert", x, kind)

    def ext(self, name: str, kind: str, *args: Value) -> Value:
        """A GLSL.std.450 instruction; float results carry NoContraction."""
        result = self.raw("ExtInst", self.type(kind), self.glsl, GLSL[name], *(a.id for a in args))
        if kind[0] == "f":
            self.decorate(result, "NoContraction")
        return Value(self, result, kind)

    def min(self, x: Value, y: Any) -> Value:
        return self.ext({"f": "FMin", "i": "SMin", "u": "UMin"}[x.kind[0]], x.kind, x, self.coerce(y, x.kind))

    def max(self, x: Value, y: Any) -> Value:
        return self.ext({"f": "FMax", "i": "SMax", "u": "UMax"}[x.kind[0]], x.kind, x, self.coerce(y, x.kind))

    def find_msb(self, x: Value) -> Value:
        """Index of the highest set bit of a u32; 0xffffffff for 0."""
        return self.ext("FindUMsb", "u32", x)

    def mul_hi(self, x: Value, y: Any) -> tuple[Value, Value]:
        """(low, high) words of the 64-bit product of two u32."""
        y = self.coerce(y, "u32")
        key = "u32 pair"
        if key not in self._cache:
            word = self.type("u32")
            self._cache[key] = result = self.id()
            self._global("TypeStruct", result, word, word)
        pair = self.raw("UMulExtended", self._cache[key], x.id, y.id)
        return self.op("CompositeExtract", "u32", pair, 0), self.op("CompositeExtract", "u32", pair, 1)

    def bit(self, x: Value, position: int) -> Value:
        """One bit of a u32 as 0 or 1."""
        return (x >> position) & 1

    # ---- vectors ---------------------------------------------------------------------------------------------

    def extract(self, vector: Value, index: int) -> Value:
        return self.op("CompositeExtract", vector.kind.partition("x")[0], vector.id, index)

    def vector(self, *parts: Value) -> Value:
        return self.op(
            "CompositeConstruct", f"{_UNSIGNED.get(parts[0].kind, parts[0].kind)}x{len(parts)}", *(p.id for p in parts)
        )

    # ---- memory ----------------------------------------------------------------------------------------------

    def variable(self, kind: str, initial: Any = None) -> Variable:
        """A Function variable, set to `initial` where the code stands now."""
        pointer = self.id()
        self.variables.extend(
            (4 << 16 | OP["Variable"], self.pointer_type(kind, "Function"), pointer, STORAGE["Function"])
        )
        variable = Variable(self, pointer, kind)
        if initial is not None:
            variable.store(initial)
        return variable

    def _array_type(self, kind: str, length: int) -> int:
        return self._typed(("array", kind, length), "TypeArray", self.type(kind), self.u32(length).id)

    def array(self, kind: str, length: int) -> Array:
        """A per-invocation (Function) array."""
        array_type = self._array_type(kind, length)
        pointer_type = self._typed(
            ("pointer", "array", kind, length, "Function"), "TypePointer", STORAGE["Function"], array_type
        )
        pointer = self.id()
        self.variables.extend((4 << 16 | OP["Variable"], pointer_type, pointer, STORAGE["Function"]))
        return Array(self, pointer, kind, "Function")

    def shared(self, kind: str, length: int) -> Array:
        """A Workgroup array."""
        array_type = self._array_type(kind, length)
        pointer_type = self._typed(
            ("pointer", "array", kind, length, "Workgroup"), "TypePointer", STORAGE["Workgroup"], array_type
        )
        pointer = self.id()
        self._global("Variable", pointer_type, pointer, STORAGE["Workgroup"])
        return Array(self, pointer, kind, "Workgroup")

    def buffer(self, binding: int, kind: str = "u32", readonly: bool = False) -> Array:
        """A storage buffer as an array of `kind`; the same binding may be viewed under several kinds."""
        key = ("buffer", binding, kind)
        if key in self._arrays:
            return self._arrays[key]
        base, _, count = kind.partition("x")
        stride = BITS[base] // 8 * int(count or 1)
        if base == "u16":
            self.capability("StorageBuffer16BitAccess")
        if base == "u8":
            self.capability("StorageBuffer8BitAccess")
            self.extensions.add("SPV_KHR_8bit_storage")
        struct_type = self._cache.get(("block", kind))
        if struct_type is None:
            runtime = self.id()
            self._global("TypeRuntimeArray", runtime, self.type(kind))
            self.decorate(runtime, "ArrayStride", stride)
            self._cache[("block", kind)] = struct_type = self.id()
            self._global("TypeStruct", struct_type, runtime)
            self.decorate(struct_type, "Block")
            self._member_offset(struct_type, 0, 0)
        pointer_type = self._typed(("pointer", "block", kind), "TypePointer", STORAGE["StorageBuffer"], struct_type)
        variable = self.id()
        self._global("Variable", pointer_type, variable, STORAGE["StorageBuffer"])
        self.decorate(variable, "DescriptorSet", 0)
        self.decorate(variable, "Binding", binding)
        self.decorate(variable, "Aliased")
        if readonly:
            self.decorate(variable, "NonWritable")
        self._arrays[key] = Array(self, variable, kind, "StorageBuffer", member=True)
        return self._arrays[key]

    def _member_offset(self, struct_type: int, member: int, offset: int) -> None:
        self.decorations.extend((5 << 16 | OP["MemberDecorate"], struct_type, member, DECORATION["Offset"], offset))

    def push_constants(self, words: int) -> None:
        """Declares the push constant block: `words` u32; word 0 is the opaque zero. Call once, before `push`."""
        word = self.type("u32")
        struct_type, pointer_type, variable = self.id(), self.id(), self.id()
        self._global("TypeStruct", struct_type, *([word] * words))
        for i in range(words):
            self._member_offset(struct_type, i, 4 * i)
        self.decorate(struct_type, "Block")
        self._global("TypePointer", pointer_type, STORAGE["PushConstant"], struct_type)
        self._global("Variable", pointer_type, variable, STORAGE["PushConstant"])
        self._push, self._push_size = variable, words

    def push(self, index: int) -> Value:
        """One u32 of the push constants."""
        assert index < self._push_size, (index, self._push_size)
        pointer = self.raw("AccessChain", self.pointer_type("u32", "PushConstant"), self._push, self.u32(index).id)
        return self.op("Load", "u32", pointer)

    def opaque_zero(self, kind: str = "u32") -> Value:
        """A zero that no compiler can see: push constant word 0 (tile-lowering.md A8.3)."""
        zero = self.push(0)
        return zero if kind == "u32" else self.bitcast(zero, kind)

    # ---- invocation ids, subgroups, barriers -----------------------------------------------------------------

    def builtin(self, name: str, component: int | None = None) -> Value:
        """A built-in input; WorkgroupId takes a component."""
        kind = "u32x3" if name in ("WorkgroupId", "LocalInvocationId") else "u32"
        key = ("builtin", name)
        if key not in self._cache:
            if name.startswith("Subgroup"):
                self.capability("GroupNonUniform")
            pointer_type = self.pointer_type(kind, "Input")
            self._cache[key] = variable = self.id()
            self._global("Variable", pointer_type, variable, STORAGE["Input"])
            self.decorate(variable, "BuiltIn", BUILTIN[name])
            self.interface.append(variable)
        value = self.op("Load", kind, self._cache[key])
        return value if component is None else self.extract(value, component)

    def shuffle(self, x: Value, lane: Value) -> Value:
        """The value that `lane` of the subgroup holds."""
        self.capability("GroupNonUniform", "GroupNonUniformShuffle")
        return self.op("GroupNonUniformShuffle", x.kind, self.u32(SCOPE_SUBGROUP).id, x.id, self.coerce(lane, "u32").id)

    def shuffle_xor(self, x: Value, mask: int) -> Value:
        self.capability("GroupNonUniform", "GroupNonUniformShuffle")
        return self.op("GroupNonUniformShuffleXor", x.kind, self.u32(SCOPE_SUBGROUP).id, x.id, self.u32(mask).id)

    def subgroup_any(self, x: Value) -> Value:
        self.capability("GroupNonUniform", "GroupNonUniformVote")
        return self.op("GroupNonUniformAny", "bool", self.u32(SCOPE_SUBGROUP).id, x.id)

    def barrier(self, scope: str = "workgroup", memory: str = "shared") -> None:
        """Control barrier with memory order: scope workgroup or subgroup; memory shared, buffer or both."""
        scope_id = self.u32({"workgroup": SCOPE_WORKGROUP, "subgroup": SCOPE_SUBGROUP}[scope]).id
        semantics = SEMANTICS_ACQUIRE_RELEASE
        semantics |= SEMANTICS_WORKGROUP_MEMORY if memory in ("shared", "both") else 0
        semantics |= SEMANTICS_UNIFORM_MEMORY if memory in ("buffer", "both") else 0
        if scope == "subgroup":
            self.capability("GroupNonUniform")
        self.emit("ControlBarrier", scope_id, scope_id, self.u32(semantics).id)

    # ---- control flow ----------------------------------------------------------------------------------------

    def _label(self, label: int) -> None:
        self.emit("Label", label)

    def do_while(self, body: Callable[[], Value], control: int = 0) -> None:
        """A bottom-tested loop: `body` emits one trip and returns the condition to go on."""
        header, start, cont, merge = self.id(), self.id(), self.id(), self.id()
        self.emit("Branch", header)
        self._label(header)
        self.emit("LoopMerge", merge, cont, control)
        self.emit("Branch", start)
        self._label(start)
        again = body()
        self.emit("Branch", cont)
        self._label(cont)
        self.emit("BranchConditional", again.id, header, merge)
        self._label(merge)

    def loop(self, count: int, body: Callable[[Value], None], control: int = 0) -> None:
        """`body(i)` for i in 0..count-1; count is a positive Python int."""
        assert count > 0, count
        if count == 1:
            body(self.u32(0))
            return
        counter = self.variable("u32", 0)

        def trip() -> Value:
            i = counter.load()
            body(i)
            following = i + 1
            counter.store(following)
            return following < count

        self.do_while(trip, control)

    def loop_while(self, lo: Value, hi: Value, step: Value, body: Callable[[Value], None], control: int = 0) -> None:
        """`body(i)` for i in range(lo, hi, step), run-time i32 bounds, step > 0; guarded: it may run zero trips."""

        def guarded() -> None:
            counter = self.variable("i32", lo)

            def trip() -> Value:
                i = counter.load()
                body(i)
                following = i + step
                counter.store(following)
                return following < hi

            self.do_while(trip, control)

        with self.if_(lo.i < hi.i):
            guarded()

    @contextmanager
    def if_(self, condition: Value) -> Iterator[None]:
        then, merge = self.id(), self.id()
        self.emit("SelectionMerge", merge, 0)
        self.emit("BranchConditional", condition.id, then, merge)
        self._label(then)
        yield
        self.emit("Branch", merge)
        self._label(merge)

    def if_else(self, condition: Value, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        yes, no, merge = self.id(), self.id(), self.id()
        self.emit("SelectionMerge", merge, 0)
        self.emit("BranchConditional", condition.id, yes, no)
        self._label(yes)
        then()
        self.emit("Branch", merge)
        self._label(no)
        orelse()
        self.emit("Branch", merge)
        self._label(merge)

    # ---- the finished module ---------------------------------------------------------------------------------

    def module(self) -> bytes:
        """The SPIR-V 1.3 module, little-endian words."""
        void = self.type("void")
        function_type = self._typed(("function",), "TypeFunction", void)
        head: list[int] = []

        def put(name: str, *words: int) -> None:
            head.append((len(words) + 1) << 16 | OP[name])
            head.extend(words)

        if self.preserves_subnormals:
            self.capability("DenormPreserve")
            self.extensions.add("SPV_KHR_float_controls")
        for name in sorted(self.capabilities):
            put("Capability", CAPABILITIES[name])
        for name in sorted(self.extensions):
            put("Extension", *_string(name))
        put("ExtInstImport", self.glsl, *_string("GLSL.std.450"))
        put("MemoryModel", 0, 1)
        put("EntryPoint", 5, self.main, *_string("main"), *self.interface)
        put("ExecutionMode", self.main, LOCAL_SIZE, *self.local_size)
        if self.preserves_subnormals:
            put("ExecutionMode", self.main, DENORM_PRESERVE, 32)
        label = [5 << 16 | OP["Function"], void, self.main, 0, function_type, 2 << 16 | OP["Label"], self.entry]
        tail = [1 << 16 | OP["Return"], 1 << 16 | OP["FunctionEnd"]]
        words = [0x07230203, SPIRV_1_3, 0, self.next_id, 0, *head, *self.decorations, *self.globals]
        words += [*label, *self.variables, *self.code, *tail]
        return struct.pack(f"<{len(words)}I", *words)


def _string(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))
