"""What a recording is held against: this package on a device, another program, or a Python function.

A program (`--against "COMMAND"`) is started once and answers one line of JSON for each line it reads:

    {"id": 1, "instruction": "HMMA.16816.F32", "arch": "sm_86",
     "inputs": [{"format": "f16", "dtype": "uint16", "shape": [4, 16, 16], "hex": "..."}, ...],
     "result": {"format": "f32", "dtype": "uint32", "shape": [4, 16, 8]}}
    {"id": 1, "hex": "..."}    or    {"id": 1, "unsupported": "why"}

`hex` is the array's bytes, C order, little-endian. Matrix operands are a [t, m, k], b [t, k, n], c [t, m, n]. The end
of its input tells the program to stop. What it writes to stderr is shown when it fails.
"""

from __future__ import annotations

import importlib
import json
import queue
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..errors import InexactDeviceError, PhobosError, UnavailableError, UsageError
from ..formats import Codes, dtype_of
from ..gpu.dispatch import timeout_seconds
from ..isa import Arch, Instruction

LONGEST_ANSWER = 1 << 28  # bytes of one line; a longer one is cut and then refused as no JSON


class Unsupported(Exception):
    """The engine does not have an instruction; the row is left out and listed."""


class ProgramError(PhobosError):
    """The other program broke the protocol, stopped or took too long."""


class Engine(Protocol):
    """Executes one instruction on natural-width codes. `name` is how reports call it."""

    name: str

    def __call__(self, instruction: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes: ...

    def close(self) -> None: ...


@dataclass
class Simulator:
    """This package on a device."""

    device: str | None = None

    def __post_init__(self) -> None:
        from .. import choose

        found = choose.resolve(self.device)
        self.name = "reference" if found is None else f"vulkan:{getattr(found, 'name', found)}"

    def __call__(self, instruction: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
        from ..execute import execute

        try:
            return execute(instruction.key, *operands, arch=arch.name, device=self.device)  # type: ignore[no-any-return]
        except InexactDeviceError:
            raise
        except UnavailableError as fault:
            raise Unsupported(str(fault)) from None

    def close(self) -> None:
        """Devices are kept for the process."""


@dataclass
class Function:
    """A Python function ``f(instruction, arch, *codes) -> codes``; it may raise NotImplementedError."""

    name: str
    function: Callable[..., Any]

    def __call__(self, instruction: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
        try:
            return np.asarray(self.function(instruction.key, arch.name, *operands))
        except NotImplementedError as fault:
            raise Unsupported(str(fault) or "not implemented") from None
        except Exception as fault:  # whatever a function of somebody else raises
            raise ProgramError(f"{self.name}: {instruction.key}: it raised {type(fault).__name__}: {fault}") from fault

    def close(self) -> None:
        """Nothing to release."""


class Program:
    """Another program, spoken to in lines of JSON."""

    def __init__(self, command: str) -> None:
        self.name = command
        self._timeout = timeout_seconds()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed by close()
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except (OSError, ValueError) as fault:
            raise UsageError(f"--against {command!r}: cannot be started: {fault}") from None
        self._answers: queue.Queue[bytes] = queue.Queue(maxsize=2)  # a program that never stops writing waits
        threading.Thread(target=self._read, daemon=True).start()
        self._count = 0

    def _read(self) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(LONGEST_ANSWER):
            self._answers.put(line)
        self._answers.put(b"")

    def __call__(self, instruction: Instruction, arch: Arch, operands: tuple[Codes, ...]) -> Codes:
        self._count += 1
        request, dtype, shape = _request(self._count, instruction, arch, operands)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError:
            raise self._fault(instruction, "it stopped reading") from None
        try:
            line = self._answers.get(timeout=self._timeout)
        except queue.Empty:
            raise self._fault(instruction, f"no answer within {self._timeout:.0f} s (PHOBOS_TIMEOUT)") from None
        if not line:
            raise self._fault(instruction, "it ended without an answer")
        return self._codes(instruction, line, dtype, shape)

    def _codes(self, instruction: Instruction, line: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Codes:
        try:
            answer = json.loads(line)
            if answer.get("unsupported"):
                raise Unsupported(str(answer["unsupported"]))
            if answer["id"] != self._count:
                raise ValueError(f"id {answer['id']}, expected {self._count}")
            data = bytes.fromhex(answer["hex"])
            return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            raise self._fault(instruction, f"its answer {line[:80]!r} is not one: {fault}") from None

    def _fault(self, instruction: Instruction, what: str) -> ProgramError:
        self._errors.seek(0)
        said = self._errors.read()[-1000:].decode(errors="replace").strip()
        return ProgramError(f"{self.name}: {instruction.key}: {what}" + (f"\n  it wrote: {said}" if said else ""))

    def close(self) -> None:
        """End the program: its input ends, then it is stopped."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._errors.close()


def _request(
    number: int, instruction: Instruction, arch: Arch, operands: tuple[Codes, ...]
) -> tuple[bytes, np.dtype[Any], tuple[int, ...]]:
    """One line, and the dtype and shape of the answer."""
    inputs = []
    for codes, fmt in zip(operands, instruction.operands):
        little = np.ascontiguousarray(codes).astype(codes.dtype.newbyteorder("<"), copy=False)
        inputs.append(
            {
                "format": fmt.name if fmt else "any",
                "dtype": codes.dtype.name,
                "shape": list(codes.shape),
                "hex": little.tobytes().hex(),
            }
        )
    result = instruction.result
    dtype, shape = dtype_of(result) if result else operands[-1].dtype, operands[-1].shape
    request = {
        "id": number,
        "instruction": instruction.key,
        "arch": arch.name,
        "inputs": inputs,
        "result": {"format": result.name if result else "any", "dtype": dtype.name, "shape": list(shape)},
    }
    return json.dumps(request).encode() + b"\n", dtype, shape


def against(text: str) -> Engine:
    """``MODULE:FUNCTION`` of Python, else a command line."""
    module, colon, function = text.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), function)):
        return Program(text)
    try:
        return Function(text, getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError) as fault:
        raise UsageError(f"--against {text}: {fault}") from None
