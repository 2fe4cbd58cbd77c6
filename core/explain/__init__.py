"""One result taken apart, bit by bit, and whole-kernel differences.

explain(instruction, a, b, c)  one dot, chain of multiply-adds, special function or conversion
diff(kernel, grid, *args)      a kernel run twice under two kinds of arithmetic
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dispatch import explain

if TYPE_CHECKING:
    from .report import Report

__all__ = ["Report", "diff", "explain"]


def __getattr__(name: str) -> object:
    """`diff` and `Report` at first use: an explanation needs neither the front end nor a launch."""
    if name == "diff":
        from .difference import diff

        return diff
    if name == "Report":
        from .report import Report

        return Report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
