"""SSA values of a shader under construction, and the places that hold them: variables and arrays.

A `Value`'s Python operators emit instructions through its builder, so device code reads like numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .builder import Builder


class Value:
    """One SSA value. `kind` is u32, i32, f32, u64, i64, f64, u16, u8, f16 or bool, or a vector such as ``u32x4``."""

    __slots__ = ("b", "id", "kind")

    def __init__(self, b: Builder, id: int, kind: str) -> None:
        self.b, self.id, self.kind = b, id, kind

    def __repr__(self) -> str:
        return f"%{self.id}:{self.kind}"

    # The same bits under another signedness: no instruction.
    @property
    def i(self) -> Value:
        return Value(self.b, self.id, "i" + self.kind[1:])

    @property
    def u(self) -> Value:
        return Value(self.b, self.id, "u" + self.kind[1:])

    # The same bits as a float, or a float's bits: OpBitcast.
    @property
    def f(self) -> Value:
        return self.b.bitcast(self, "f" + self.kind[1:])

    @property
    def bits(self) -> Value:
        return self.b.bitcast(self, "u" + self.kind[1:])

    def __add__(self, o: Any) -> Value:
        return self.b.binary("FAdd" if self.kind[0] == "f" else "IAdd", self, o)

    def __radd__(self, o: Any) -> Value:
        return self.b.coerce(o, self.kind) + self

    def __sub__(self, o: Any) -> Value:
        return self.b.binary("FSub" if self.kind[0] == "f" else "ISub", self, o)

    def __rsub__(self, o: Any) -> Value:
        return self.b.coerce(o, self.kind) - self

    def __mul__(self, o: Any) -> Value:
        return self.b.binary("FMul" if self.kind[0] == "f" else "IMul", self, o)

    def __rmul__(self, o: Any) -> Value:
        return self.b.coerce(o, self.kind) * self

    def __truediv__(self, o: Any) -> Value:
        assert self.kind[0] == "f"
        return self.b.binary("FDiv", self, o)

    def __floordiv__(self, o: Any) -> Value:
        return self.b.binary("SDiv" if self.kind[0] == "i" else "UDiv", self, o)

    def __mod__(self, o: Any) -> Value:
        if self.kind[0] == "i":  # Vulkan leaves the remainder of a negative operand undefined, and NVIDIA's is another
            raise TypeError("a signed remainder is undefined in Vulkan: take it of magnitudes")
        return self.b.binary("UMod", self, o)

    def __and__(self, o: Any) -> Value:
        return self.b.binary("LogicalAnd" if self.kind == "bool" else "BitwiseAnd", self, o)

    def __rand__(self, o: Any) -> Value:
        return self.__and__(o)

    def __or__(self, o: Any) -> Value:
        return self.b.binary("LogicalOr" if self.kind == "bool" else "BitwiseOr", self, o)

    def __ror__(self, o: Any) -> Value:
        return self.__or__(o)

    def __xor__(self, o: Any) -> Value:
        return self.b.binary("LogicalNotEqual" if self.kind == "bool" else "BitwiseXor", self, o)

    def __rxor__(self, o: Any) -> Value:
        return self.__xor__(o)

    def __lshift__(self, o: Any) -> Value:
        return self.b.binary("ShiftLeftLogical", self, o)

    def __rlshift__(self, o: Any) -> Value:
        return self.b.coerce(o, self.kind) << self

    def __rshift__(self, o: Any) -> Value:
        return self.b.binary("ShiftRightArithmetic" if self.kind[0] == "i" else "ShiftRightLogical", self, o)

    def __rrshift__(self, o: Any) -> Value:
        return self.b.coerce(o, self.kind) >> self

    def __invert__(self) -> Value:
        return self.b.unary("LogicalNot" if self.kind == "bool" else "Not", self, self.kind)

    def __neg__(self) -> Value:
        return self.b.unary("FNegate" if self.kind[0] == "f" else "SNegate", self, self.kind)

    def __lt__(self, o: Any) -> Value:
        return self.b.compare("LessThan", self, o)

    def __le__(self, o: Any) -> Value:
        return self.b.compare("LessThanEqual", self, o)

    def __gt__(self, o: Any) -> Value:
        return self.b.compare("GreaterThan", self, o)

    def __ge__(self, o: Any) -> Value:
        return self.b.compare("GreaterThanEqual", self, o)

    def eq(self, o: Any) -> Value:
        return self.b.compare("Equal", self, o)

    def ne(self, o: Any) -> Value:
        """Not equal; ordered for floats: false where a NaN takes part (phobos-language.md D.1)."""
        return self.b.compare("NotEqual", self, o)


class Variable:
    """A Function variable: the only place where loop state lives."""

    def __init__(self, b: Builder, pointer: int, kind: str) -> None:
        self.b, self.pointer, self.kind = b, pointer, kind

    def load(self) -> Value:
        return self.b.op("Load", self.kind, self.pointer)

    def store(self, value: Any) -> None:
        self.b.emit("Store", self.pointer, self.b.coerce(value, self.kind).id)


class Array:
    """An indexable array in Function or Workgroup storage, or a buffer's elements."""

    def __init__(
        self, b: Builder, variable: int, kind: str, storage: str, member: bool = False, readonly: bool = False
    ) -> None:
        self.b, self.variable, self.kind, self.storage, self.member = b, variable, kind, storage, member
        self.access = () if readonly else b.access(storage)  # memory operands of loads and stores

    def pointer(self, index: Any) -> int:
        """The id of a pointer to one element."""
        b = self.b
        path = [b.coerce(0, "u32").id] if self.member else []
        type_id = b.pointer_type(self.kind, self.storage)
        return b.raw("AccessChain", type_id, self.variable, *path, b.coerce(index, "u32").id)

    def load(self, index: Any) -> Value:
        return self.b.op("Load", self.kind, self.pointer(index), *self.access)

    def store(self, index: Any, value: Any) -> None:
        self.b.emit("Store", self.pointer(index), self.b.coerce(value, self.kind).id, *self.access)

    def _component(self, index: Any, component: Any) -> int:
        b, scalar = self.b, self.kind.partition("x")[0]
        type_id = b.pointer_type(scalar, self.storage)
        path = [b.coerce(0, "u32").id] if self.member else []
        ids = (b.coerce(index, "u32").id, b.coerce(component, "u32").id)
        return b.raw("AccessChain", type_id, self.variable, *path, *ids)

    def load_component(self, index: Any, component: Any) -> Value:
        """One component of an element that is a vector."""
        return self.b.op("Load", self.kind.partition("x")[0], self._component(index, component), *self.access)

    def store_component(self, index: Any, component: Any, value: Value) -> None:
        self.b.emit("Store", self._component(index, component), value.id, *self.access)
