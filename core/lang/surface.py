"""The Python surface of the language: what `import phobos.lang as ph` offers (phobos-language.md B).

Rules
 1. Decorators are executed at import and return what they decorate, so kernel bodies are never run (B.1).
 2. Types, builtins and `ctx` exist only to be named inside kernels. Annotations may be evaluated, so types can be
    subscripted; calling a builtin outside a kernel is an error that says so.
 3. Any other name is an attribute that changes nothing, except one that looks like a misspelt known name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..errors import UsageError
from .builtins import ATTRIBUTES, BUILTINS
from .kernel import Kernel
from .spelling import closest
from .syntax import SCALARS


class Symbol:
    """A name of the language: can stand in annotations and kernel bodies, and does nothing when Python runs."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getitem__(self, key: object) -> Symbol:
        return Symbol(f"{self.__name__}[{key!r}]")

    def __call__(self, *args: object, **options: object) -> Any:
        raise UsageError(
            f"ph.{self.__name__}(...) was called by Python: it is part of the kernel language and stands only inside a "
            "function under @ph.kernel or @ph.fn"
        )

    def __repr__(self) -> str:
        return f"ph.{self.__name__}"


class Context(Symbol):
    """ph.ctx, whose members are known only inside kernels."""

    def __getattr__(self, name: str) -> Symbol:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(f"ph.{self.__name__}.{name} was read by Python: block coordinates exist only inside a kernel")


class Attribute:
    """A decorator that keeps what it decorates: the reader takes its meaning from the source."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and not options and (isinstance(args[0], Kernel) or hasattr(args[0], "__code__")):
            return args[0]
        return lambda decorated: decorated

    def __repr__(self) -> str:
        return f"@ph.{self.__name__}"


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(*, key: object = ...) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(function: Any = None, /, *, key: object = None) -> Any:
    """@ph.kernel, or @ph.kernel(key=[...]) to search the @autotune space: makes a `Kernel` of a function."""
    if function is None:
        return Kernel.from_function
    return Kernel.from_function(function)


class Function(Symbol):
    """What @ph.fn makes: a function that kernels of the same module inline."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function.__name__)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<phobos fn {self.__name__}>"


def fn(function: Callable[..., Any]) -> Function:
    """@ph.fn: a function that is inlined at every call."""
    return Function(function)


_SYMBOLS: dict[str, Any] = {
    **{name: Symbol(name) for name in (*BUILTINS, *SCALARS, "tensor", "tile", "let", "var", "unroll")},
    **{name: Attribute(name) for name in ATTRIBUTES if name != "key"},
    "ctx": Context("ctx"),
    "kernel": kernel,
    "fn": fn,
}


def lookup(name: str) -> Any:
    """The language's object of that name. Raises AttributeError for a name that looks like a slip."""
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    close = closest(name, _SYMBOLS, 0.75)
    if name.startswith("_") or close:
        raise AttributeError(f"phobos.lang has no name {name!r}. {close}".rstrip())
    return Attribute(name)


NAMES: tuple[str, ...] = tuple(_SYMBOLS)
