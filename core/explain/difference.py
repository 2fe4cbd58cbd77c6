"""`sim.diff`: a kernel run under two kinds of arithmetic, and what differs, where, and from which line on.

Rules
 1. against: ``ieee`` and ``exact`` replace the arithmetic of contractions (`arithmetic`); an architecture replaces the
    tensor cores; ``reference`` compares a device with the reference; FILE.npz holds outputs by parameter name, a
    card's, say.
 2. Results are compared as codes. A distance is counted in representable steps (ulp); one NaN is farther than any
    value.
 3. With a file, only outputs can be compared; the arithmetic that fits it best is looked for among the others, and the
    run of that one is what the first difference and the explanation come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arrays, isa
from ..binding import Bound, bind, check_arch
from ..errors import UsageError
from ..formats import Codes
from . import arithmetic, lockstep
from .comparison import Comparison, compare
from .explanation import DotExplanation, explain_dot
from .lockstep import Dot, Outcome, Parting, Side
from .report import Report

if TYPE_CHECKING:
    from ..lang.kernel import Kernel

KINDS = ("ieee", "exact")


@dataclass(frozen=True, repr=False)
class Difference(Report):
    """A kernel on two sides. here, there: names of the sides. outputs: as stored, each followed by its value before a
    narrowing. first: where the sides part (None: nowhere, or it cannot be seen). lines: (place, what, source line, how
    many CTAs part there first). explanation: of the worst element's dot. fits: with a file, (arithmetic, share of
    elements that it makes).
    """

    kernel: str
    here: str
    there: str
    outputs: tuple[Comparison, ...]
    first: Parting | None
    lines: tuple[tuple[str, str, str, int], ...]
    compared: int
    values_differing: int
    explanation: DotExplanation | None
    fits: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def identical(self) -> bool:
        """Every stored element has the same bits on both sides."""
        return all(not one.differing for one in self.outputs if one.stored)

    def document(self) -> Any:
        from .describe_diff import document

        return document(self)

    def to_dict(self) -> dict[str, Any]:
        from .describe_diff_json import difference

        return difference(self)


@dataclass(frozen=True, repr=False)
class Differences(Report):
    """One kernel against several others: a row each, then each by itself."""

    all: tuple[Difference, ...]

    @property
    def identical(self) -> bool:
        return all(one.identical for one in self.all)

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.all)

    def document(self) -> Any:
        from .describe_diff import documents

        return documents(self.all)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "differences", "all": [one.to_dict() for one in self.all]}


def diff(
    kernel: Kernel,
    grid: Any,
    *args: Any,
    against: str | Path | Sequence[str | Path] = "ieee",
    arch: str = "sm_86",
    constants: Mapping[str, int] | None = None,
    device: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """Runs a kernel twice and says what differs.

    kernel, grid, args: as for a launch; the arguments are not written. against: ``ieee``, ``exact``, an architecture,
    ``reference``, or a path of an npz with the outputs by name; several give one report. arch: of the first side.
    device: the first side's, for ``reference`` only (everything else runs on the reference). Returns a `Difference`
    (`Differences` for several). Raises UsageError, LaunchError, KernelError.
    """
    several = not isinstance(against, str | Path)
    wanted = [str(one) for one in against] if not isinstance(against, str | Path) else [str(against)]
    if not wanted:
        raise UsageError("diff: against is empty; choose ieee, exact, an architecture, reference or FILE.npz")
    program = kernel.program(constants)
    for name in (arch, *wanted):
        _check(name, arch)
        if name in isa.ARCHS:
            check_arch(program, name)
    if device is not None and wanted != ["reference"]:
        raise UsageError(
            "diff: device names the first side of against='reference'; every other comparison runs on the reference"
        )
    bound = bind(program, args, grid)
    results = []
    in_step = [name for name in wanted if name in KINDS or name in isa.ARCHS]
    stepped = dict(zip(in_step, _in_step(bound, arch, in_step, progress))) if in_step else {}
    for name in wanted:
        if name in stepped:
            results.append(stepped[name])
        elif name == "reference":
            results.append(_against_reference(kernel, grid, args, bound, arch, constants, device, progress))
        else:
            results.append(_against_file(bound, arch, Path(name), progress))
    return Differences(tuple(results)) if several else results[0]


def _check(name: str, arch: str) -> None:
    if name in KINDS or name in isa.ARCHS or name == "reference" or name.endswith(".npz"):
        return
    known = ", ".join([*KINDS, *isa.ARCHS, "reference"])
    raise UsageError(f"diff: unknown side {name!r}; choose {known}, or a file that ends in .npz")


def _side(name: str, arch: str) -> Side:
    """A fresh side; its arithmetic carries state from contraction to contraction."""
    if name in isa.ARCHS:
        return Side(name, name)
    return Side(name, arch, arithmetic.ieee() if name == "ieee" else arithmetic.exact())


def _in_step(
    bound: Bound, arch: str, wanted: list[str], progress: Callable[[int, int], None] | None
) -> list[Difference]:
    sides = [_side(name, arch) for name in wanted]
    outputs, outcomes = lockstep.run(bound, Side(arch, arch), sides, progress)
    return [_difference(bound, arch, outputs, outcome) for outcome in outcomes]


def _difference(bound: Bound, arch: str, outputs: dict[str, Codes], outcome: Outcome) -> Difference:
    compared = list(_comparisons(bound, outputs, outcome.outputs, outcome))
    lines = tuple((place, what, line, count) for (place, what, line), count in outcome.lines.most_common())
    other = outcome.side.name
    return Difference(
        kernel=bound.program.name,
        here=arch,
        there=other,
        outputs=tuple(compared),
        first=outcome.first,
        lines=lines,
        compared=outcome.compared,
        values_differing=outcome.differing,
        explanation=_explain(_worst_dot(outcome), arch, other),
        notes=tuple(_notes(bound, other)),
    )


def _notes(bound: Bound, other: str) -> Iterator[str]:
    rows = [isa.lookup(contract.instruction) for contract in bound.program.contractions()]
    if not rows:
        yield "This kernel has no contraction, so both sides are the same arithmetic."
    elif other == "ieee" and not any(row.family == "tensor" for row in rows):
        yield "No contraction of this kernel runs on tensor cores, so `ieee` changes nothing."
    elif other in isa.ARCHS and not any(row.family == "tensor" for row in rows):
        yield "No contraction of this kernel runs on tensor cores, and everything else is the same on both."
    elif other == "exact" and any(row.result is not None and row.result.bits == 64 for row in rows):
        yield "f64 contractions stay as they are: only those with f16, bf16 and f32 results are rounded once."


def _worst_dot(outcome: Outcome) -> Dot | None:
    """The dot of the worst stored element; where no output is a narrowed accumulator, that of the first difference."""
    if outcome.worst:
        return max(outcome.worst.values(), key=lambda item: item[0])[1]
    return outcome.first.dot if outcome.first is not None else None


def _explain(dot: Dot | None, arch: str, other: str) -> DotExplanation | None:
    if dot is None or dot.row.family == "integer_tensor" or (dot.row.family == "integer"):
        return None
    beside = other if other in isa.ARCHS else None
    place = f"{dot.span.source.path}:{dot.span.line}"
    note = f"the element of {place} whose two values lie farthest apart; {other} made the other value."
    return explain_dot(dot.row, isa.ARCHS[arch], dot.a, dot.b, dot.c, other=beside, expected=dot.there, notes=(note,))


# --- a device, and a file --------------------------------------------------------------------------------------------


def _against_reference(
    kernel: Kernel,
    grid: Any,
    args: Sequence[Any],
    bound: Bound,
    arch: str,
    constants: Mapping[str, int] | None,
    device: str | None,
    progress: Callable[[int, int], None] | None,
) -> Difference:
    """The kernel on a device; its intermediate values cannot be seen, so only outputs are compared."""
    copies = [np.array(x) if isinstance(x, np.ndarray) else x for x in _typed(bound, args)]
    launch = kernel.launch(grid, *copies, device=device, arch=arch, constants=constants, progress=progress)
    names = bound.program.parameters
    here = {name: arrays.as_codes(copies[names.index(name)])[0] for name in sorted(bound.program.written())}
    there, _ = lockstep.run(bound, Side(arch, arch), [])
    note = "A device's intermediate values cannot be seen: only outputs are compared."
    return Difference(
        kernel=bound.program.name,
        here=launch.device,
        there="reference",
        outputs=tuple(_comparisons(bound, here, there, None)),
        first=None,
        lines=(),
        compared=0,
        values_differing=0,
        explanation=None,
        notes=(note,),
    )


def _typed(bound: Bound, args: Sequence[Any]) -> list[Any]:
    """The arguments with every array as a numpy array of its element type; one array passed twice stays one."""
    copies: dict[str, Any] = {}
    out: list[Any] = []
    for name, value in zip(bound.program.parameters, args):
        if name not in bound.tensors:
            out.append(value)
            continue
        first = bound.aliases[name]
        if first not in copies:
            copies[first] = arrays.typed(bound.tensors[first].copy(), bound.program.tensor(first).element)
        out.append(copies[first])
    return out


def _against_file(bound: Bound, arch: str, path: Path, progress: Callable[[int, int], None] | None) -> Difference:
    """Outputs of a card. The other kinds of arithmetic are run as well, to see which one fits them."""
    given = _read(bound, path)
    candidates = [*KINDS, *_other_archs(bound, arch)]
    outputs, outcomes = lockstep.run(bound, Side(arch, arch), [_side(name, arch) for name in candidates], progress)
    shares = [(arch, _share(outputs, given))]
    shares += [(outcome.side.name, _share(outcome.outputs, given)) for outcome in outcomes]
    shares.sort(key=lambda item: -item[1])
    best = max(outcomes, key=lambda outcome: _share(outcome.outputs, given))
    fits_better = _share(best.outputs, given) > _share(outputs, given)
    notes = [_fit(arch, shares)]
    if fits_better:
        notes.append(f"The first difference and the explanation below are those between {arch} and {best.side.name}, "
                     "the arithmetic that fits the file best.")  # fmt: skip
    return Difference(
        kernel=bound.program.name,
        here=arch,
        there=str(path),
        outputs=tuple(_comparisons(bound, outputs, given, None)),
        first=best.first if fits_better else None,
        lines=tuple((*key, count) for key, count in best.lines.most_common()) if fits_better else (),
        compared=best.compared if fits_better else 0,
        values_differing=best.differing if fits_better else 0,
        explanation=_explain(_worst_dot(best), arch, best.side.name) if fits_better else None,
        fits=tuple(shares),
        notes=tuple(notes),
    )


def _fit(arch: str, shares: list[tuple[str, float]]) -> str:
    name, share = shares[0]
    if share == 1.0:
        same = [other for other, s in shares if s == 1.0]
        return f"Every element of the file is what {' and '.join(same)} would store."
    return f"No arithmetic known here makes all of the file; {name} comes closest, with {100 * share:.2f} % of it."


def _other_archs(bound: Bound, arch: str) -> list[str]:
    """One architecture of every different set of numbers that can run the program."""
    seen = {_numbers(isa.ARCHS[arch])}
    out = []
    rows = [isa.lookup(contract.instruction) for contract in bound.program.contractions()]
    for name, record in isa.ARCHS.items():
        if _numbers(record) not in seen and all(record.has(row) for row in rows):
            seen.add(_numbers(record))
            out.append(name)
    return out


def _numbers(record: isa.Arch) -> tuple[Any, ...]:
    return (record.fraction_bits, record.width16, record.width_k8, record.width_tf32, record.width_tf32_k4)


def _share(outputs: dict[str, Codes], given: dict[str, Codes]) -> float:
    total = sum(codes.size for codes in given.values())
    equal = sum(int(np.count_nonzero(outputs[name] == codes)) for name, codes in given.items())
    return equal / total if total else 1.0


def _read(bound: Bound, path: Path) -> dict[str, Codes]:
    """The outputs in a file, by parameter name."""
    held = arrays.read_npz(path, where=str(path))
    written = sorted(bound.program.written())
    given = {}
    for name in written:
        if name not in held:
            continue
        codes, found = arrays.as_codes(held[name], where=f"{path}: {name}")
        element = bound.program.tensor(name).element
        if found != element and not (found.kind == "unsigned" and found.bits == element.bits):
            raise UsageError(
                f"{path}: {name} is {found.name}, the kernel writes {element.name} (or give its codes, unsigned)"
            )
        if codes.shape != bound.tensors[name].shape:
            raise UsageError(f"{path}: {name} has shape {codes.shape}, the kernel's is {bound.tensors[name].shape}")
        given[name] = codes
    if not given:
        found_names, wanted = ", ".join(held) or "nothing", ", ".join(written)
        raise UsageError(
            f"{path}: holds {found_names}, but the kernel writes {wanted}; name the file's arrays after its outputs"
        )
    return given


def _comparisons(
    bound: Bound, here: dict[str, Codes], there: dict[str, Codes], outcome: Outcome | None
) -> Iterator[Comparison]:
    for name in there:
        element = bound.program.tensor(name).element
        yield compare(name, name, element, True, here[name], there[name])
        wide = outcome.wide.get(name) if outcome is not None else None
        if wide is not None:
            yield compare(f"{wide.name}, stored to {name}", name, wide.element, False, wide.here, wide.there)
