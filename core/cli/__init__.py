"""The command line: one file per verb.

Exit status: 0 fine, 1 a difference, 2 wrong use or input, 4 not available here, 70 a defect of this program.
Verb files import nothing heavy at their top, so that `--help` is quick and a verb loads only what it uses.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import NoReturn

INTERNAL_ERROR = 70
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a disk or /dev/full: nobody's defect


def main() -> NoReturn:
    """Run the command line and exit; an error is one message on stderr, never a traceback."""
    from ..errors import PhobosError
    from .app import build

    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)
    try:
        try:
            build()(prog_name="phobos-sim")
        finally:
            sys.stdout.flush()  # here, where an error still finds a handler
        status = 0
    except PhobosError as error:
        print(f"phobos-sim: {error}", file=sys.stderr)
        status = error.exit_status
    except BrokenPipeError:
        _stop_writing()  # whoever read our output has closed it, as `| head` does
        status = 0
    except KeyboardInterrupt:
        status = 130
    except OSError as error:
        if error.errno not in FULL:
            _defect(error)
        print(f"phobos-sim: cannot write {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
        _stop_writing()
        status = 2
    except Exception as error:
        _defect(error)
    sys.exit(status)


def _defect(error: Exception) -> NoReturn:
    """An exception that nobody foresaw; with its traceback under PHOBOS_LOG=debug."""
    if os.environ.get("PHOBOS_LOG") == "debug":
        raise error
    message = f"phobos-sim: defect in phobos-sim: {type(error).__name__}: {error}"
    print(f"{message}\n  PHOBOS_LOG=debug shows where", file=sys.stderr)
    sys.exit(INTERNAL_ERROR)


def _stop_writing() -> None:
    """Keep the interpreter from flushing into a stdout that takes nothing more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
