"""The command line: one file per verb.

Exit status: 0 fine, 1 a difference, 2 wrong use or input, 4 not available here, 70 a defect of this program.
Verb files import nothing heavy at their top, so that `--help` is quick and a verb loads only what it uses.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

INTERNAL_ERROR = 70


def main() -> NoReturn:
    """Run the command line and exit; an error is one message on stderr, never a traceback."""
    from ..errors import PhobosError
    from .app import build

    try:
        build()(prog_name="phobos-sim")
        status = 0
    except PhobosError as error:
        print(f"phobos-sim: {error}", file=sys.stderr)
        status = error.exit_status
    except BrokenPipeError:
        # whoever read our output has closed it, as `| head` does; keep the interpreter from flushing into it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except KeyboardInterrupt:
        status = 130
    except Exception as error:
        if os.environ.get("PHOBOS_LOG") == "debug":
            raise
        message = f"phobos-sim: defect in phobos-sim: {type(error).__name__}: {error}"
        print(f"{message}\n  PHOBOS_LOG=debug shows where", file=sys.stderr)
        status = INTERNAL_ERROR
    sys.exit(status)
