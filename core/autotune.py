"""The search of a kernel's @autotune space, which `@ph.kernel(key=[...])` asks for (phobos-language.md B.2, C.7, 0.2).

Rules
 1. A launch without `constants=` runs every variant, the default first, and takes the fastest of those whose outputs
    equal the default's in every bit. With `expected=` the caller's arrays decide; on outputs that they leave out, the
    first variant that has them.
 2. Easy data hide differences (sums of zeros have no order), so a variant that is equal runs once more with random
    numbers in the float and 8-bit arrays, and must be equal there too; not where a `while` might then never end.
 3. A variant that does not compile, fit the arguments or run is listed with its error. Without `expected`, an error of
    the default is the launch's: there is nothing to compare with.
 4. The winner is remembered, in the process and on disk, by the kernel's source, the key's values, the device with its
    driver, arch, form, instructions and this package's emitters. A kept winner that does not fit a later launch is
    searched anew.
 5. Arguments are written once, after success, with the winner's outputs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import __version__, expectation, limits, log
from .binding import Bound
from .errors import DifferenceError, DispatchTimeout, LaunchError, LoopLimitError, PhobosError
from .formats import Codes, Format
from .launch import How, Outcome, execute, prepare
from .tile.program import While, walk

if TYPE_CHECKING:
    from .lang.kernel import Kernel

REPEATS = 5  # timed runs of a variant, at most
SECONDS = 0.2  # after so many seconds of them, no further one
KEPT = 1024  # winners remembered in the process
MAX_VARIANTS = 512  # PHOBOS_TUNE_VARIANTS overrides it
SHOWN = 4  # variants from which a progress bar is worth its line

EQUAL, DIFFERS, FAILED = "equal", "differs", "failed"


@dataclass(frozen=True)
class Variant:
    """One combination of constants. verdict: ``equal``, ``differs`` or ``failed``; detail: what differed, the error.

    seconds: on the device, the least of its runs; None where it was not timed.
    """

    constants: dict[str, int]
    verdict: str
    detail: str = ""
    seconds: float | None = None

    def __str__(self) -> str:
        time = f"{self.seconds * 1e3:.3f} ms" if self.seconds is not None else ""
        return f"{named(self.constants):<24} {self.verdict:<8} {time:>12}  {self.detail}".rstrip()


@dataclass(frozen=True)
class Tuning:
    """A search. key: values of the key's names. source: ``search``, or where the winner was kept: ``memory``, ``disk``.

    untried: variants beyond PHOBOS_TUNE_VARIANTS.
    """

    key: dict[str, int]
    winner: dict[str, int]
    variants: tuple[Variant, ...]
    source: str = "search"
    untried: int = 0

    @property
    def headline(self) -> str:
        """One line: who won, among how many."""
        counts = Counter(variant.verdict for variant in self.variants)
        told = [f"{counts[EQUAL]} with equal bits"]
        told += [f"{counts[DIFFERS]} left out for other bits"] if counts[DIFFERS] else []
        told += [f"{counts[FAILED]} failed"] if counts[FAILED] else []
        told += [f"{self.untried} not tried (PHOBOS_TUNE_VARIANTS)"] if self.untried else []
        kept = "" if self.source == "search" else f", kept {'on disk' if self.source == 'disk' else 'in memory'}"
        return (
            f"autotune: {named(self.winner)} of {len(self.variants) + self.untried} variants ({', '.join(told)}{kept})"
        )

    def __str__(self) -> str:
        return "\n".join([self.headline, *(f"  {variant}" for variant in self.variants)])


def named(values: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def run(
    kernel: Kernel, grid: Any, args: Sequence[Any], how: How, expected: Any
) -> tuple[Bound, Outcome, Tuning | None]:
    """A launch of a kernel with a key: the bound winner, its outputs, and the search (None where nothing is tuned)."""
    default = prepare(kernel.program(), args, grid, how)
    wanted = {} if expected is None else expectation.read(default, expected)
    variants = _variants(kernel)
    if len(variants) == 1:
        outcome = execute(default, how)
        expectation.check(wanted, outcome.outputs, default)
        return default, outcome, None
    search = _Search(kernel, _guarded(grid), args, how, default, wanted)
    problem = _problem(kernel, default, how)
    kept = recall(problem)
    if kept is not None and kept.winner in variants:
        found = search.again(kept)
        if found is not None:
            return found
    limit = limits.limit(limits.TUNE_VARIANTS, MAX_VARIANTS)
    bound, outcome, tuning = search.all(variants[:limit], len(variants[limit:]), problem)
    remember(problem, tuning)
    log.debug(f"kernel {kernel.name}: {tuning}")
    left_out = [variant for variant in tuning.variants if variant.verdict == DIFFERS]
    if left_out:
        log.info(
            f"kernel {kernel.name}: {len(left_out)} of {len(variants)} autotune variants store other bits and are left "
            "out (Launch.tuning lists them, PHOBOS_LOG=debug prints them)"
        )
    return bound, outcome, tuning


def _variants(kernel: Kernel) -> list[dict[str, int]]:
    """Every different combination, the default first."""
    found: list[dict[str, int]] = []
    for constants in (kernel.constants, *kernel.variants()):
        if constants not in found:
            found.append(constants)
    return found


def _guarded(grid: Any) -> Any:
    """The grid; where its function fails for some constants, that is a LaunchError of theirs."""
    if not callable(grid):
        return grid

    def call(meta: dict[str, int]) -> Any:
        try:
            return grid(meta)
        except Exception as fault:
            raise LaunchError(f"the grid's function raised {type(fault).__name__}: {fault}") from fault

    return call


# ---- the search --------------------------------------------------------------------------------------------------


@dataclass
class _Search:
    """One launch whose variants are tried."""

    kernel: Kernel
    grid: Any
    args: Sequence[Any]
    how: How
    default: Bound
    wanted: dict[str, Codes]
    easy: dict[str, Codes] | None = None  # outputs of the first variant that passes, on the caller's data
    hard: dict[str, Codes] | None = None  # the same on random data
    best: tuple[float, Bound, Outcome] | None = None
    randoms: dict[str, Codes] = field(default_factory=dict)

    def again(self, kept: Tuning) -> tuple[Bound, Outcome, Tuning] | None:
        """A launch of a winner that was kept, or None where it does not fit."""
        try:
            bound = prepare(self.kernel.program(kept.winner), self.args, self.grid, self.how)
            outcome = execute(bound, self.how)
        except DispatchTimeout:
            raise
        except PhobosError as error:
            log.debug(f"kernel {self.kernel.name}: {named(kept.winner)} was tuned for this key and fails here: {error}")
            return None
        if expectation.differences(self.wanted, outcome.outputs, bound):
            return None
        return bound, outcome, kept

    def all(
        self, variants: Sequence[dict[str, int]], untried: int, problem: Mapping[str, Any]
    ) -> tuple[Bound, Outcome, Tuning]:
        """Tries every variant. DifferenceError where none stores what is expected."""
        quiet = replace(self.how, progress=None)
        rows = []
        with _progress(self.kernel.name, len(variants), self.how.progress) as advance:
            for number, constants in enumerate(variants):
                rows.append(self._try(constants, quiet, first=number == 0))
                advance(number + 1)
        if self.best is None:
            listed = "".join(f"\n  {row}" for row in rows)
            raise DifferenceError(f"no variant of kernel {self.kernel.name} stores what `expected` says:{listed}")
        _, bound, outcome = self.best
        tuning = Tuning(problem["values"], dict(bound.program.constants), tuple(rows), "search", untried)
        return bound, outcome, tuning

    def _try(self, constants: dict[str, int], how: How, first: bool) -> Variant:
        try:
            bound = prepare(self.kernel.program(constants), self.args, self.grid, how)
            outcome = execute(bound, how)
            difference = self._difference(bound, outcome, how)
            if difference:
                return Variant(constants, DIFFERS, difference)
            seconds = _time(bound, how)
        except DispatchTimeout:
            raise  # the device is lost, and what follows would say nothing about the variants
        except PhobosError as error:
            if first and not self.wanted:
                raise
            return Variant(constants, FAILED, str(error).splitlines()[0])
        if self.best is None or seconds < self.best[0]:
            self.best = seconds, bound, replace(outcome, seconds=seconds)
        return Variant(constants, EQUAL, seconds=seconds)

    def _difference(self, bound: Bound, outcome: Outcome, how: How) -> str:
        """What tells a variant from the one that decides; the first that passes becomes it (rules 1 and 2)."""
        found = expectation.differences(self.wanted if self.easy is None else self.easy, outcome.outputs, bound)
        if found:
            return found
        hard = self._on_random_data(bound, how)
        if self.easy is None:
            self.easy, self.hard = outcome.outputs, hard
        elif hard is not None and self.hard is not None:
            found = expectation.differences(self.hard, hard, bound)
        return f"with random data, {found}" if found else ""

    def _on_random_data(self, bound: Bound, how: How) -> dict[str, Codes] | None:
        """Outputs with random numbers in the arrays; None where that says nothing or might not end."""
        if any(isinstance(op, While) for op in walk(bound.program.body)):
            return None
        if self.easy is not None and self.hard is None:
            return None
        tensors = {name: self._random(bound, name) for name in bound.tensors}
        try:
            return execute(replace(bound, tensors=tensors), how).outputs
        except LoopLimitError:
            if self.easy is not None:
                raise
            return None

    def _random(self, bound: Bound, name: str) -> Codes:
        first = bound.aliases[name]
        if first not in self.randoms:
            codes, element = bound.tensors[first], bound.program.tensor(first).element
            rng = np.random.default_rng(len(self.randoms))
            # wider integers may be indices, whose meaning random ones would lose
            change = element.is_float or (element.is_integer and element.bits == 8)
            self.randoms[first] = random_codes(rng, element, codes.shape) if change else codes
        return self.randoms[first]


def random_codes(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Codes:
    """Codes of finite numbers of both signs, most magnitudes from 1/16 to 16; all codes of 8-bit integers."""
    if fmt.bits == 8:
        return rng.integers(0, 256, shape, np.uint8)
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-3, 4, shape))
    if fmt.bits == 64:
        return values.view(np.uint64)
    if fmt.name == "f16":
        return values.astype(np.float16).view(np.uint16)
    words = values.astype(np.float32).view(np.uint32)
    return (words >> 16).astype(np.uint16) if fmt.bits == 16 else words


def _time(bound: Bound, how: How) -> float:
    """Least seconds on the device of a few runs."""
    seen: list[float] = []
    while len(seen) < REPEATS and sum(seen) <= SECONDS:
        seen.append(execute(bound, how).seconds)
    return min(seen)


@contextmanager
def _progress(name: str, count: int, given: Callable[[int, int], None] | None) -> Iterator[Callable[[int], None]]:
    """Tells the caller's callback, or a bar on stderr where a person watches it."""
    if given is not None:
        yield lambda done: given(done, count)
        return
    if count < SHOWN or not sys.stderr.isatty() or log.level() == 0:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"autotune {name}: {count} variants", total=count)
        yield lambda done: bar.update(task, completed=done)


# ---- remembering -------------------------------------------------------------------------------------------------

_known: OrderedDict[str, Tuning] = OrderedDict()


def _problem(kernel: Kernel, bound: Bound, how: How) -> dict[str, Any]:
    """Everything that a winner depends on (rule 4)."""
    return {
        "kernel": kernel.name,
        "source": _text_digest(kernel.source.text),
        "values": _values(kernel, bound),
        "arch": how.arch,
        "form": how.form,
        "instructions": how.instructions,
        **_device(how),
    }


def _values(kernel: Kernel, bound: Bound) -> dict[str, int]:
    """The key's values: extents of dims, values of constants, codes of scalars."""
    known = {**bound.program.constants, **bound.dims, **bound.scalars}
    return {name: known[name] for name in kernel.attributes.key or ()}


@functools.lru_cache(maxsize=64)
def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _device(how: How) -> dict[str, str]:
    if how.device is None:
        return {"device": how.device_name, "emitters": __version__}
    from .gpu.device import emitter_hash

    return {"device": how.device.info.identity, "emitters": emitter_hash()}


def _name(problem: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(problem, sort_keys=True).encode()).hexdigest()


def _path(problem: Mapping[str, Any]) -> Path | None:
    from .gpu.pipeline import cache_folder

    folder = cache_folder()
    return None if folder is None else folder / "tuning" / f"{problem['kernel']}-{_name(problem)[:32]}.json"


def recall(problem: Mapping[str, Any]) -> Tuning | None:
    """The search that was kept for this problem; a damaged file counts as none."""
    name = _name(problem)
    if name in _known:
        _known.move_to_end(name)
        return replace(_known[name], source="memory")
    path = _path(problem)
    try:
        data = json.loads(path.read_bytes()) if path is not None else {}
        if data.get("problem") != json.loads(json.dumps(problem)):
            return None
        variants = tuple(Variant(**row) for row in data["variants"])
        found = Tuning(dict(problem["values"]), dict(data["winner"]), variants, "disk", int(data["untried"]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    _keep(name, found)
    return found


def remember(problem: Mapping[str, Any], tuning: Tuning) -> None:
    """Keeps a search, in the process and on disk."""
    _keep(_name(problem), tuning)
    path = _path(problem)
    if path is None:
        return
    from .gpu.pipeline import write_atomically

    rows = [asdict(variant) for variant in tuning.variants]
    data = {"problem": problem, "winner": tuning.winner, "variants": rows, "untried": tuning.untried}
    write_atomically(path, json.dumps(data, indent=1).encode())


def _keep(name: str, tuning: Tuning) -> None:
    _known[name] = tuning
    while len(_known) > KEPT:
        _known.popitem(last=False)


def forget() -> None:
    """Drops what this process knows (for tests); the files stay."""
    _known.clear()
