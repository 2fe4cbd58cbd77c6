"""What `@ph.kernel` makes: a kernel that knows its source, its constants and its tile program, and can be launched.

Rules
 1. The kernel's function is never called: its module's source is parsed when the kernel is first needed (B.1).
 2. `constants` are the first autotune choices (phobos-language.md C.7); `program` overrides declared names only.
 3. Launching is `phobos_sim.launch`'s work; a Kernel only binds its arguments.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import Source, UsageError
from . import syntax as syn
from .spelling import closest

if TYPE_CHECKING:
    from ..launch import Launch
    from ..tile.program import Program
    from .attributes import Attributes

Grid = tuple[int, ...] | Callable[[dict[str, int]], tuple[int, ...]] | int


class Kernel:
    """A kernel of either spelling.

    name: its name. source: the file. tree: its syntax tree. module: the tree of what it can reach.
    constants: the default autotune constants. Raises KernelError on first use where the source is wrong.
    """

    def __init__(self, name: str, read: Callable[[], tuple[syn.Module, syn.Kernel]], doc: str | None = None) -> None:
        self.name = name
        self.__name__ = name
        self.__doc__ = doc
        self._read = read
        self._trees: tuple[syn.Module, syn.Kernel] | None = None
        self._attributes: Attributes | None = None
        self._programs: dict[tuple[tuple[str, int], ...], Program] = {}

    @classmethod
    def from_tree(cls, name: str, source: Source, module: syn.Module) -> Kernel:
        """A kernel of a module that has been read."""
        return cls(name, lambda: (module, module.kernels[name]))

    @classmethod
    def from_function(cls, function: Callable[..., Any]) -> Kernel:
        """A kernel for a decorated Python function, whose source is read later."""
        kernel = cls(function.__name__, lambda: _read_function(function), function.__doc__)
        kernel.__module__ = function.__module__
        return kernel

    @property
    def module(self) -> syn.Module:
        """The module's tree, with every function this kernel can reach."""
        if self._trees is None:
            self._trees = self._read()
        return self._trees[0]

    @property
    def tree(self) -> syn.Kernel:
        """The kernel's syntax tree."""
        if self._trees is None:
            self._trees = self._read()
        return self._trees[1]

    @property
    def source(self) -> Source:
        """The source the kernel stands in."""
        return self.tree.span.source

    @property
    def attributes(self) -> Attributes:
        """The kernel's checked attributes."""
        if self._attributes is None:
            from .attributes import read_attributes

            self._attributes = read_attributes(self.tree, self.module.spelling)
        return self._attributes

    @property
    def constants(self) -> dict[str, int]:
        """The autotune constants of the default variant."""
        return self.attributes.defaults

    def variants(self) -> list[dict[str, int]]:
        """Every combination of autotune constants, the last name fastest; the first is not always the default."""
        return self.attributes.variants()

    def program(self, constants: Mapping[str, int] | None = None) -> Program:
        """The tile program for these constants (defaults where not given), cached.

        Raises UsageError for a name that @autotune does not declare or a value that is no int, KernelError for the
        source.
        """
        bound = self.bind(constants)
        key = tuple(sorted(bound.items()))
        if key not in self._programs:
            from ..tile.lower import lower

            self._programs[key] = lower(self.module, self.tree, bound)
        return self._programs[key]

    def bind(self, constants: Mapping[str, int] | None) -> dict[str, int]:
        """The default constants overridden by `constants`, checked."""
        defaults = self.constants
        if not isinstance(constants, Mapping | None):
            raise UsageError(f"constants of kernel {self.name} are a dict of names and ints, found {constants!r}")
        for name, value in (constants or {}).items():
            if name not in defaults:
                listed = ", ".join(defaults) or "none"
                raise UsageError(
                    f"kernel {self.name} has no autotune constant {name!r}; {closest(name, defaults)}declared: {listed}"
                )
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise UsageError(f"constant {name} of kernel {self.name} is {value!r}; give an int")
        return {**defaults, **{name: value.__index__() for name, value in (constants or {}).items()}}

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        """kernel[grid] is ready to be called with the arguments; it returns None."""

        def launch(*args: Any, **options: Any) -> None:
            self.launch(grid, *args, **options)

        return launch

    def launch(
        self,
        grid: Grid,
        *args: Any,
        device: str | None = None,
        arch: str = "sm_86",
        constants: Mapping[str, int] | None = None,
        form: str | None = None,
        instructions: str | None = None,
        order: str | tuple[str, int] | None = None,
        races: bool = False,
        expected: Any = None,
        progress: Callable[[int, int], None] | None = None,
        mode: str = "exact",
    ) -> Launch:
        """Runs the kernel and returns a `Launch` (design.md 10); outputs are written in place, after success only.

        grid: up to three ints, or a function of `meta` (dims and constants). args: arrays and scalars in the order of
        the parameters. constants: values of @autotune names; where None, a kernel with a key searches its space
        (autotune.py). expected: what the outputs must be, as arrays: by name, in order, or the only one;
        DifferenceError where they are not. progress: called with (done, all) units of work.
        order: ``"shuffled"`` or ``("shuffled", seed)`` for the CTAs; races: report elements in which two CTAs meet.
        These two are debug modes of the reference, and run the default constants. mode: ``"cooperative"`` gives
        exactness up for speed: dots of floats go through the device's own matrix unit, else through f32 multiply-adds;
        `Launch.inexact` and every report say so (docs/adr/0007).
        """
        from ..launch import launch

        return launch(
            self,
            grid,
            args,
            device=device,
            arch=arch,
            constants=constants,
            form=form,
            instructions=instructions,
            order=order,
            races=races,
            expected=expected,
            progress=progress,
            mode=mode,
        )

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise UsageError(f"kernel {self.name} needs a grid: {self.name}[x, y](...), or {self.name}.launch((x, y), ...)")

    def __repr__(self) -> str:
        return f"<phobos kernel {self.name}>"


_READERS: dict[tuple[str, str], Any] = {}


def _read_function(function: Callable[..., Any]) -> tuple[syn.Module, syn.Kernel]:
    """Finds a decorated function in its module's source."""
    from .python import ModuleReader

    code = function.__code__
    path = inspect.getsourcefile(function) or code.co_filename
    linecache.checkcache(path)
    text = "".join(linecache.getlines(path, function.__globals__))
    if not text:
        raise UsageError(
            f"the source of kernel {function.__name__} cannot be read ({path}); a kernel is compiled from its source, "
            "so define it in a file"
        )
    key = (path, text)
    if key not in _READERS:
        if len(_READERS) > 64:
            _READERS.clear()
        _READERS[key] = ModuleReader(Source(path, text))
    found = _READERS[key].kernel(function.__name__, code.co_firstlineno)
    if found is None and not _READERS[key].scope.aliases:
        raise UsageError(
            f"kernel {function.__name__}: {path} does not import the language by name, so its source cannot be read; "
            "write `import phobos.lang as ph`"
        )
    if found is None:
        raise UsageError(
            f"kernel {function.__name__} is not at line {code.co_firstlineno} of {path} any more: the file changed "
            "after it was imported; import it again"
        )
    return found  # type: ignore[no-any-return]
