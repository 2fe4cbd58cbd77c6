"""Who reads each tile of a program: which expressions may stay lazy, what may be overwritten, when memory is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import isa
from ..tile import program as tp
from .sm86 import chains, tensor_float

if TYPE_CHECKING:
    from .emitter import Job

POINTWISE = (tp.Map, tp.Broadcast, tp.Store)


class Uses:
    """Readers, homes and last uses of every value.

    dies: operation -> values that nobody reads after it (in the block that defines them).
    """

    def __init__(self, body: tp.Block) -> None:
        self.readers: dict[tp.Value, list[tp.Op]] = {}
        self.home: dict[tp.Op, tp.Block] = {}
        self.defined_in: dict[tp.Value, tp.Block] = {}
        self.definer: dict[tp.Value, tp.Op] = {}
        self.yielded: dict[tp.Value, tuple[tp.Block, int]] = {}
        self.dies: dict[tp.Op, list[tp.Value]] = {}
        self.carried: dict[tp.Value, tuple[tp.For, int]] = {}
        self._visit(body)
        self._find_last_uses(body)

    def _visit(self, block: tp.Block) -> None:
        for op in block.ops:
            self.home[op] = block
            for value in op.results:
                self.defined_in[value] = block
                self.definer[value] = op
            for value in op.operands:
                self.readers.setdefault(value, []).append(op)
            if isinstance(op, tp.For):
                self.carried |= {value: (op, i) for i, value in enumerate(op.body.arguments[1:])}
            for inner in op.blocks:
                self._visit(inner)
        for position, value in enumerate(block.yields):
            self.yielded[value] = (block, position)

    def is_inline(self, value: tp.Value) -> bool:
        """One pointwise reader of the same shape in the same block, and no yield."""
        readers = self.readers.get(value, [])
        if len(readers) != 1 or value in self.yielded:
            return False
        reader = readers[0]
        if not isinstance(reader, POINTWISE) or self.home[reader] is not self.defined_in.get(value):
            return False
        if isinstance(reader, tp.Store):
            return tuple(s for s in reader.sizes if s is not None) == value.shape
        return reader.results[0].shape == value.shape

    def in_place(self, value: tp.Value) -> tp.Value | None:
        """The carried argument that `value` replaces, where the operation that makes `value` is its only reader."""
        if value not in self.yielded or self.readers.get(value):
            return None
        block, position = self.yielded[value]
        offset = len(block.arguments) - len(block.yields)
        if offset < 0 or not block.arguments:
            return None
        argument = block.arguments[position + offset]
        maker = self.definer.get(value)
        reader = self._only_reader(argument)
        while reader is not None and reader is not maker:  # through lazy expressions, which the maker evaluates itself
            if not (isinstance(reader, POINTWISE[:2]) and self.home[reader] is block):
                return None
            reader = self._only_reader(reader.results[0])
        return argument if reader is not None and argument not in self.yielded else None

    def accumulates(self, loop: tp.For, position: int) -> tp.Contract | None:
        """The contraction that alone reads a carried tile, as its seed, and whose result alone replaces it."""
        argument, following = loop.body.arguments[position + 1], loop.body.yields[position]
        maker = self.definer.get(following)
        if not isinstance(maker, tp.Contract) or self.home[maker] is not loop.body:
            return None
        if maker.seed is not argument or argument in (maker.a, maker.b) or argument in self.yielded:
            return None
        if self.readers.get(argument) != [maker] or self.readers.get(following):
            return None
        return maker if loop.body.yields.count(following) == 1 else None

    def feeds_only_contractions(self, value: tp.Value) -> bool:
        """Whether a tile is read as a or b of contractions alone, conversions on the way included."""
        if value in self.yielded:
            return False
        readers = self.readers.get(value, [])
        for reader in readers:
            if isinstance(reader, tp.Contract):
                if value is reader.seed:
                    return False
            elif not (
                isinstance(reader, tp.Map) and len(reader.args) == 1 and self.feeds_only_contractions(reader.result)
            ):
                return False
        return bool(readers)

    def is_f16(self, value: tp.Value) -> bool:
        """Whether every element is an f16 value: an f32 that was widened from f16."""
        maker = self.definer.get(value)
        return isinstance(maker, tp.Map) and maker.instruction == "cvt.f32.f16"

    def is_calm(self, op: tp.Contract) -> bool:
        """Whether a chain starts with an ordinary constant (`tensor_float.is_calm`) and nothing else touches it."""
        seed = op.seed
        if seed in self.carried:
            loop, position = self.carried[seed]
            if self.accumulates(loop, position) is not op:
                return False
            seed = loop.inits[position]
        maker = self.definer.get(seed)
        start = self.definer.get(maker.value) if isinstance(maker, tp.Broadcast) else None
        return isinstance(start, tp.Constant) and tensor_float.is_calm(start.result.element, start.code)

    def _only_reader(self, value: tp.Value) -> tp.Op | None:
        readers = self.readers.get(value, [])
        return readers[0] if len(readers) == 1 else None

    def _find_last_uses(self, block: tp.Block) -> None:
        defined = {value for op in block.ops for value in op.results}
        position = {op: i for i, op in enumerate(block.ops)}
        last: dict[tp.Value, int] = {}
        for i in reversed(range(len(block.ops))):
            op = block.ops[i]
            until = i
            for result in op.results:  # a lazy result is evaluated where its reader stands
                if self.is_inline(result):
                    until = max(until, last.get(result, position[self.readers[result][0]]))
            for value in _reads(op):
                last[value] = max(last.get(value, -1), until)
            for inner in op.blocks:
                self._find_last_uses(inner)
        for value, i in last.items():
            if value in defined and value not in self.yielded and value.shape != ():
                self.dies.setdefault(block.ops[i], []).append(value)


def _reads(op: tp.Op) -> set[tp.Value]:
    """Values an operation reads, those of its nested blocks included."""
    found = set(op.operands)
    for block in op.blocks:
        found.update(block.yields)
        for inner in block.ops:
            found |= _reads(inner)
    return found


def core_of(job: Job, uses: Uses, op: tp.Contract) -> chains.Core:
    """The arithmetic of a contraction, by what is known of its operands."""
    return chains.core(
        isa.lookup(op.instruction),
        job.arch,
        job.target,
        a_exact16=uses.is_f16(op.a),
        b_exact16=uses.is_f16(op.b),
        plain=op in job.plain,
        calm=uses.is_calm(op),
    )
