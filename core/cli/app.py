"""The verbs, and how each is found: a row per verb, whose file holds a function `command`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

# verb -> module in this folder; a verb whose module is not there is left out of the help
VERBS = {
    "check": "check",
    "run": "run",
    "compile": "compile_",
    "doctor": "doctor",
    "score": "score",
    "record": "record",
    "import": "import_",
    "explain": "explain",
    "diff": "diff",
}


def build() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        help="Run Phobos kernels with the bits that an SM86 (GA10x) card would store, on any Vulkan device.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_options)
    for verb, module in VERBS.items():
        name = f"{__package__}.{module}"
        if find_spec(name) is None:
            continue
        found = import_module(name)
        if hasattr(found, "app"):
            app.add_typer(found.app, name=verb)
        else:
            app.command(verb)(found.command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"phobos-sim {__version__}")
        raise typer.Exit()


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
