"""Broken sources give a KernelError with a place, never another exception and never a hang.

Each source is an example of either spelling, or one of the catalogue's wrong kernels, with a few tokens or characters
removed, doubled, swapped or replaced. It is parsed, and where it still parses every kernel is lowered. Everything comes
from one seed.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from helpers import ROOT
from phobos_sim.errors import KernelError, Source
from phobos_sim.lang.kernel import Kernel
from phobos_sim.lang.load import parse_source

TOKEN = re.compile(r"\s+|\w+|:\+|<=|>=|==|!=|\+=|&&|\|\||.", re.DOTALL)
_SIGNS = "( ) [ ] { } , : ; :+ + - * / % = == != < > ! ~ ^ & | && @ . # // \" ' \\ 0 1 17 0.5 9999999999999999999"
_WORDS = "let var if else for while in return break continue fn kernel true x K ph ph.var ph.let dot exp range é A[0]"
_LONGER = ["\n", "  ", "\t", "\x00", "ph.rowsum(", "ph.tile[ph.f16][4, 4]", "tile<f32>[4]"]
INSERTED = [*_SIGNS.split(" "), *_WORDS.split(" "), *_LONGER]


def broken(rng: random.Random, text: str) -> str:
    """A source with one to four edits, one in ten of them anywhere between characters."""
    parts = TOKEN.findall(text) if rng.random() < 0.9 else list(text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(parts))
        match rng.randrange(6):
            case 0:
                del parts[at]
            case 1:
                parts.insert(at, parts[at])
            case 2:
                parts.insert(at, rng.choice(INSERTED))
            case 3:
                parts[at] = rng.choice(INSERTED)
            case 4:
                other = rng.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case 5:
                del parts[at : at + rng.randrange(1, 12)]
        if not parts:
            return ""
    return "".join(parts)


def outcome(source: Source) -> str:
    """`fine` or `error`; fails the test for anything but a well-placed KernelError."""
    try:
        module = parse_source(source)
        for kernel in module.kernels:
            Kernel.from_tree(kernel, source, module).program()
    except KernelError as error:
        lines = source.text.splitlines() or [""]
        assert error.span.source is source
        assert 1 <= error.span.line <= len(lines) + 1, str(error)
        assert 1 <= error.span.column <= len(source.text) + 1, str(error)
        assert error.message and str(error).count("\n") >= 2
        return "error"
    return "fine"


def sweep(count: int, seed: int) -> Counter[str]:
    rng = random.Random(seed)
    texts = [(path.suffix, path.read_text()) for path in sorted((ROOT / "examples").glob("*.p[hy]"))]
    for path in sorted((ROOT / "core" / "tests" / "errors").glob("*.golden")):
        texts.append((path.suffixes[0], path.read_text().partition("=" * 100)[0]))
    result: Counter[str] = Counter()
    for number in range(count):
        suffix, text = rng.choice(texts)
        source = Source(f"broken{number}{suffix}", broken(rng, text))
        try:
            result[outcome(source)] += 1
        except Exception as problem:
            raise AssertionError(f"{type(problem).__name__}: {problem}, from\n{source.text}") from problem
    return result


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # Python's own remarks on the broken text
def test_broken_sources() -> None:
    result = sweep(300, 1)
    assert result["error"] > 150, result  # else the edits break too little to test anything


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_many_broken_sources() -> None:
    assert sweep(10_000, 2)["error"] > 5_000
