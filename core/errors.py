"""Every error a user can meet, and where in a kernel's source it arose.

Exit statuses of the command line: 0 fine, 1 a difference, 2 wrong use or input, 4 not available here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A source file: its path as the user named it and its text."""

    path: str
    text: str

    def line(self, number: int) -> str:
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Span:
    """A place in a source: 1-based line, 1-based column, and the 1-based end (exclusive) on the end line."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source.path}:{self.line}:{self.column}"

    def __repr__(self) -> str:
        return f"<{self}>"


class PhobosError(Exception):
    """Base of all errors of this package."""

    exit_status = 2


class KernelError(PhobosError):
    """A kernel's source is wrong: message, place, and what to do."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        self.message = message
        self.span = span
        self.hint = hint
        super().__init__(render(message, span, hint))


class LaunchError(PhobosError):
    """A launch does not fit its kernel: arguments, dims, promises, grid, names."""


class UsageError(PhobosError):
    """Wrong use of the interface: unknown device, form, instruction, format."""


class DifferenceError(PhobosError):
    """A launch stores other bits than its caller said it would; nothing was written."""

    exit_status = 1


class RecordingError(PhobosError):
    """A recording is damaged, tampered with or not of the documented format."""


class UnavailableError(PhobosError):
    """Something that this machine or device does not have; the message names it and how to get it."""

    exit_status = 4


class InexactDeviceError(UnavailableError):
    """A device on which no form of an instruction gave the right bits when it was probed."""


class LoopLimitError(PhobosError):
    """A loop ran longer than the device can count; the message says where and what to do."""


class DispatchTimeout(PhobosError):
    """A dispatch outlasted PHOBOS_TIMEOUT."""


def render(message: str, span: Span, hint: str = "") -> str:
    """file:line:column: message, the source line, a caret under the place, and the hint."""
    text = span.source.line(span.line)
    lead = "".join("\t" if ch == "\t" else " " for ch in text[: span.column - 1])
    width = max(1, (span.end_column - span.column) if span.end_line == span.line else len(text) - span.column + 1)
    lines = [f"{span}: error: {message}", f"    {text}", f"    {lead}{'^' * width}"]
    if hint:
        lines.append(f"  hint: {hint}")
    return "\n".join(lines)
