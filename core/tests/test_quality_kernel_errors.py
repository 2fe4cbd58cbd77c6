"""The catalogue of wrong kernels: the exact text of every message, as golden files in `errors/`.

A file `NAME.py.golden` or `NAME.ph.golden` holds a source, a line of `=`, and what a user reads. To write the texts
anew after a change, run this file with PHOBOS_REGENERATE=1 and read the difference as a user would.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from phobos_sim.errors import KernelError, Source
from phobos_sim.lang.builtins import BUILTINS
from phobos_sim.lang.kernel import Kernel
from phobos_sim.lang.load import parse_source

CATALOGUE = sorted((Path(__file__).parent / "errors").glob("*.golden"))
RULE = "=" * 100 + "\n"


def message(name: str, text: str) -> str:
    """What a user reads who loads and compiles every kernel of this source."""
    source = Source(name, text)
    with pytest.raises(KernelError) as caught:
        module = parse_source(source)
        for kernel in module.kernels:
            Kernel.from_tree(kernel, source, module).program()
    return f"{caught.value}\n"


@pytest.mark.parametrize("path", CATALOGUE, ids=lambda path: path.name.removesuffix(".golden"))
def test_message(path: Path) -> None:
    text, _, expected = path.read_text().partition(RULE)
    said = message(path.name.removesuffix(".golden"), text)
    if os.environ.get("PHOBOS_REGENERATE"):
        path.write_text(text + RULE + said)
        return
    assert said == expected


def test_the_catalogue_is_large_and_every_message_says_what_to_do() -> None:
    assert len(CATALOGUE) >= 40
    for path in CATALOGUE:
        text, _, expected = path.read_text().partition(RULE)
        lines = expected.splitlines()
        name = path.name.removesuffix(".golden")
        assert lines[0].startswith(f"{name}:") and ": error: " in lines[0], path.name
        line = int(lines[0].split(":")[1])
        assert lines[1] == f"    {(text.splitlines() + [''])[line - 1]}", path.name
        assert set(lines[2].strip()) == {"^"}, path.name
        assert lines[-1].startswith("  hint: ") and len(lines[-1]) > 12, path.name


@pytest.mark.parametrize("path", CATALOGUE, ids=lambda path: path.name.removesuffix(".golden"))
def test_hints_read_in_the_spelling_of_the_source(path: Path) -> None:
    """What a hint says to write can be written: ph.exp(x) and `and` in Python, exp(x) and `&&` in `.ph`."""
    hint = path.read_text().partition(RULE)[2].rpartition("  hint: ")[2]
    if path.name.endswith(".py.golden"):
        bare = [name for name in re.findall(r"(?<![\w.])(\w+)\(", hint) if name in BUILTINS]
        assert not bare and "&&" not in hint, hint
    else:
        assert "ph." not in hint and not re.search(r"\w (and|or) \w+ [<>=]", hint), hint
