"""A bound on nesting, checked without recursion, so that no source can exhaust the stack of what reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ..errors import KernelError, Span

DEEPEST = 150

T = TypeVar("T")


def check_depth(root: T, children: Callable[[T], Iterable[T]], span: Callable[[T], Span]) -> None:
    """Raises KernelError at the first node nested deeper than DEEPEST levels."""
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > DEEPEST:
            raise KernelError(
                f"nested deeper than {DEEPEST} levels",
                span(node),
                "name parts of it with let, or move them to a function",
            )
        stack.extend((child, depth + 1) for child in children(node))
