"""Writes one SPIR-V compute shader, instruction by instruction.

`Builder` adds instructions to the module that `ModuleWriter` keeps. `Value` is one SSA result; its Python operators
emit instructions, so device code reads like the numpy reference beside it.

Rules that every shader obeys (design.md section 6, tile-lowering.md A8):

* Signedness is a property of the `Value`, not of its type, and picks the instruction: shift, compare, divide, convert.
* Every float operation carries NoContraction; a zero that must not be folded comes from `opaque_zero`.
* Loop state lives in Function variables; there is no OpPhi. Loops are bottom-tested (a top-tested loop runs its body
  once more, masked, on lavapipe and SwiftShader), with `DontUnroll` where asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .module import (
    BITS,
    BUILTIN,
    DECORATION,
    DONT_UNROLL,
    SCOPE_SUBGROUP,
    SCOPE_WORKGROUP,
    SEMANTICS_ACQUIRE_RELEASE,
    SEMANTICS_MAKE_AVAILABLE,
    SEMANTICS_MAKE_VISIBLE,
    SEMANTICS_UNIFORM_MEMORY,
    SEMANTICS_WORKGROUP_MEMORY,
    STORAGE,
    UNROLL,
    UNSIGNED,
    VULKAN,
    ModuleWriter,
)
from .opcodes import GLSL, OP
from .value import Array, Value, Variable

__all__ = ["BITS", "DONT_UNROLL", "UNROLL", "Array", "Builder", "Value", "Variable"]


class Builder(ModuleWriter):
    """One compute shader under construction. `target` is what the device can do (gpu.target.Target), for emitters."""

    def __init__(self, target: Any = None, local_size: tuple[int, int, int] = (1, 1, 1)) -> None:
        super().__init__(target, local_size)
        self.mufu_binding = 0  # where the shader's author binds MUFU's coefficient tables, for the emitters
        self._arrays: dict[Any, Array] = {}
        self._push = 0
        self._push_size = 0

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
        if a == "i" and BITS[kind] == 64:  # Mesa's NIR compares an SConvert of 32 bits with a constant wrongly
            low = self.convert(x, "i32")
            return self.bitcast(self.vector(low.u, (low >> 31).u), kind)
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
            "CompositeConstruct", f"{UNSIGNED.get(parts[0].kind, parts[0].kind)}x{len(parts)}", *(p.id for p in parts)
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
        return self.typed(("array", kind, length), "TypeArray", self.type(kind), self.u32(length).id)

    def array(self, kind: str, length: int) -> Array:
        """A per-invocation (Function) array."""
        pointer = self.function_variable(self._array_type(kind, length), ("array", kind, length))
        return Array(self, pointer, kind, "Function")

    def function_variable(self, type_id: int, name: object) -> int:
        """The id of a new Function variable of a type, whose pointer type is known under `name`."""
        pointer_type = self.typed(("pointer", name, "Function"), "TypePointer", STORAGE["Function"], type_id)
        pointer = self.id()
        self.variables.extend((4 << 16 | OP["Variable"], pointer_type, pointer, STORAGE["Function"]))
        return pointer

    def shared(self, kind: str, length: int) -> Array:
        """A Workgroup array."""
        array_type = self._array_type(kind, length)
        pointer_type = self.typed(
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
        pointer_type = self.typed(("pointer", "block", kind), "TypePointer", STORAGE["StorageBuffer"], struct_type)
        variable = self.id()
        self._global("Variable", pointer_type, variable, STORAGE["StorageBuffer"])
        self.decorate(variable, "DescriptorSet", 0)
        self.decorate(variable, "Binding", binding)
        self.decorate(variable, "Aliased")
        if readonly:
            self.decorate(variable, "NonWritable")
        elif self.memory_model != VULKAN:
            self.decorate(variable, "Coherent")  # else a barrier need not show one invocation's stores to another
        self._arrays[key] = Array(self, variable, kind, "StorageBuffer", True, readonly)
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
        if self.memory_model == VULKAN:
            semantics |= SEMANTICS_MAKE_AVAILABLE | SEMANTICS_MAKE_VISIBLE
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
