"""What one row of the instruction table says.

The table is the only definition of which instructions exist. The reference, the device emitters, the documentation,
the test ids and the scoreboard iterate over it. A row names its family (a module of the same name in `reference/` and
in `gpu/sm86/`) and a function in it; both backends resolve the name in their own family file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..formats import Format


@dataclass(frozen=True)
class Evidence:
    """How well a row is known on one architecture: validated, derived or assumed, and by what."""

    maturity: str
    text: str

    def __post_init__(self) -> None:
        assert self.maturity in ("validated", "derived", "assumed"), self.maturity


@dataclass(frozen=True)
class MmaShape:
    """Tile shape of one matrix instruction."""

    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Instruction:
    """One SM86 instruction, or one PTX operation that expands to a few.

    key: unique name: the SASS mnemonic, or the PTX spelling where an operand modifier or a sequence makes the row.
    family, function, options: `family` is the module, `function` the callable in it, `options` its keyword arguments,
        the same in `reference` and `gpu.sm86`.
    operands, result: formats of the codes, in order. None stands for "any format, the same throughout".
    ptx: PTX spellings of the same operation (also accepted by `isa.lookup`).
    expansion: SASS mnemonics of a sequence; a plain instruction has itself.
    shape: tile shape of a matrix instruction. combine: see `isa.arch`.
    since: first compute capability (70, 75, 80, ...) that has it.
    """

    key: str
    family: str
    function: str
    operands: tuple[Format | None, ...]
    result: Format | None
    semantics: str
    ptx: tuple[str, ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    expansion: tuple[str, ...] = ()
    shape: MmaShape | None = None
    since: int = 70
    until: int = 999
    evidence: dict[str, Evidence] = field(default_factory=dict, hash=False, compare=False)

    @property
    def keywords(self) -> dict[str, object]:
        return dict(self.options)

    @property
    def is_matrix(self) -> bool:
        return self.shape is not None
