"""What a kernel's attributes say, checked (phobos-language.md A.3, C.7).

Rules
 1. @autotune values: exactly two [lo, hi] with 0 < lo < hi are a range by doubling that ends in hi; any other list is
    explicit choices. The first choice is the default; variants are the cartesian product, last name fastest (C.7).
 2. @launch: threads > 0 and a multiple of 32, at most 1024; minBlocks > 0; maxRegs 16 to 255. Without it 256 threads.
 3. @aligned: positive multiples, given as an integer or an autotune name.
 4. Attributes that only steer performance are accepted and change nothing; unknown ones are accepted with a note.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import KernelError, Span
from . import spelling as say
from . import syntax as syn
from .builtins import ATTRIBUTES

DEFAULT_THREADS = 256


@dataclass(frozen=True)
class Tunable:
    """One autotune constant and its choices in order; the first is the default."""

    name: str
    choices: tuple[int, ...]
    span: Span


@dataclass(frozen=True)
class Alignment:
    """@aligned(dim = multiple): `multiple` is an integer or an autotune name."""

    dim: str
    multiple: int | str
    span: Span


@dataclass(frozen=True)
class Attributes:
    """A kernel's attributes, checked. `tensorcore` is None without the attribute, else its argument or ''."""

    threads: int = DEFAULT_THREADS
    tunables: tuple[Tunable, ...] = ()
    aligned: tuple[Alignment, ...] = ()
    tensorcore: str | None = None
    key: tuple[str, ...] | None = None
    notes: tuple[tuple[str, Span], ...] = ()

    @property
    def defaults(self) -> dict[str, int]:
        """The constants that a launch uses when none are given."""
        return {tunable.name: tunable.choices[0] for tunable in self.tunables}

    def variants(self) -> list[dict[str, int]]:
        """Every combination of the autotune constants, the last name fastest."""
        names = [tunable.name for tunable in self.tunables]
        return [dict(zip(names, row, strict=True)) for row in itertools.product(*(t.choices for t in self.tunables))]

    def bind(self, constants: Mapping[str, int] | None) -> dict[str, int]:
        """Defaults overridden by `constants`; names and types are the caller's to check."""
        return {**self.defaults, **(constants or {})}


def expand(values: tuple[int, ...]) -> tuple[int, ...]:
    """The choices that an @autotune list stands for (rule 1)."""
    if len(values) == 2 and 0 < values[0] < values[1]:
        lo, hi = values
        doubled = list(itertools.takewhile(lambda v: v < hi, (lo << i for i in range(64))))
        return (*doubled, hi)
    return values


def read_attributes(kernel: syn.Kernel, spelling: str) -> Attributes:
    """The checked attributes of a kernel. Raises KernelError at the attribute that is wrong."""
    found: dict[str, object] = {}
    notes: list[tuple[str, Span]] = []
    seen: set[str] = set()
    for attr in kernel.attrs:
        if attr.name in seen:
            raise KernelError(f"attribute @{attr.name} is given twice", attr.span, "keep one of them")
        seen.add(attr.name)
        if attr.name in _READERS:
            found.update(_READERS[attr.name](attr, spelling))
        elif attr.name not in ATTRIBUTES:
            close = say.closest(attr.name, ATTRIBUTES, 0.75)
            notes.append((f"attribute @{attr.name} is not known here and changes nothing. {close}".rstrip(), attr.span))
    names = {t.name for t in found.get("tunables", ())}  # type: ignore[attr-defined]
    for entry in found.get("aligned", ()):  # type: ignore[attr-defined]
        if isinstance(entry.multiple, str) and entry.multiple not in names:
            raise KernelError(
                f"@aligned names `{entry.multiple}`, which is no autotune constant of this kernel",
                entry.span,
                f"{say.closest(entry.multiple, names)}write an integer, or add {say.tune(spelling, entry.multiple)}",
            )
    return Attributes(notes=tuple(notes), **found)  # type: ignore[arg-type]


def _integer(value: syn.Expr, what: str) -> int:
    if not isinstance(value, syn.IntLit):
        raise KernelError(f"{what} is an integer", value.span, "write a decimal integer")
    return value.value


def _launch(attr: syn.Attr, spelling: str) -> dict[str, object]:
    values = []
    for arg in attr.args:
        if not isinstance(arg, syn.Positional):
            raise KernelError("@launch takes plain integers", arg.span, f"write {ATTRIBUTES['launch']}")
        values.append((_integer(arg.value, "an argument of @launch"), arg.span))
    if not 1 <= len(values) <= 3:
        raise KernelError(
            f"@launch takes 1 to 3 integers, found {len(values)}", attr.span, f"write {ATTRIBUTES['launch']}"
        )
    limits: tuple[tuple[str, Callable[[int], bool], str], ...] = (
        ("threads", lambda v: 0 < v <= 1024 and v % 32 == 0, "a multiple of 32 between 32 and 1024"),
        ("minBlocks", lambda v: v > 0, "greater than 0"),
        ("maxRegs", lambda v: 16 <= v <= 255, "between 16 and 255"),
    )
    for (value, span), (name, ok, wanted) in zip(values, limits, strict=False):
        if not ok(value):
            raise KernelError(f"@launch: {name} is {value}", span, f"{name} must be {wanted}")
    return {"threads": values[0][0]}


def _autotune(attr: syn.Attr, spelling: str) -> dict[str, object]:
    tunables: list[Tunable] = []
    for arg in attr.args:
        if not isinstance(arg, syn.Choices):
            raise KernelError(
                "@autotune gives each constant a list of values",
                arg.span,
                f"write {say.tune(spelling, getattr(arg, 'name', 'TILE'))}",
            )
        values = tuple(_integer(value, f"a value of `{arg.name}`") for value in arg.values)
        if not values:
            raise KernelError(f"`{arg.name}` has no values", arg.span, "give it at least one: the first is the default")
        if any(t.name == arg.name for t in tunables):
            raise KernelError(f"`{arg.name}` is tuned twice", arg.span, "keep one of the two lists")
        tunables.append(Tunable(arg.name, expand(values), arg.span))
    return {"tunables": tuple(tunables)}


def _aligned(attr: syn.Attr, spelling: str) -> dict[str, object]:
    entries: list[Alignment] = []
    for arg in attr.args:
        if not isinstance(arg, syn.Keyword):
            raise KernelError("@aligned names dims", arg.span, f"write {ATTRIBUTES['aligned']}")
        if isinstance(arg.value, syn.Name):
            entries.append(Alignment(arg.name, arg.value.id, arg.span))
            continue
        multiple = _integer(arg.value, f"the multiple of `{arg.name}`")
        if multiple <= 0:
            raise KernelError(
                f"@aligned: a multiple of {multiple} is promised for `{arg.name}`", arg.span, "it must be > 0"
            )
        entries.append(Alignment(arg.name, multiple, arg.span))
    return {"aligned": tuple(entries)}


def _tensorcore(attr: syn.Attr, spelling: str) -> dict[str, object]:
    if not attr.args:
        return {"tensorcore": ""}
    arg = attr.args[0]
    value = arg.value if isinstance(arg, syn.Positional) and len(attr.args) == 1 else None
    if isinstance(value, syn.Name) and value.id in ("sync", "wmma"):
        return {"tensorcore": value.id}
    raise KernelError("@tensorcore takes nothing, sync or wmma", attr.span, f"write {ATTRIBUTES['tensorcore']}")


def _key(attr: syn.Attr, spelling: str) -> dict[str, object]:
    names = []
    for arg in attr.args:
        if not (isinstance(arg, syn.Positional) and isinstance(arg.value, syn.Name)):
            raise KernelError("a tuning key lists names of dims and scalar parameters", arg.span, 'as key=["M", "N"]')
        names.append(arg.value.id)
    return {"key": tuple(names)}


_READERS = {"launch": _launch, "autotune": _autotune, "aligned": _aligned, "tensorcore": _tensorcore, "key": _key}
