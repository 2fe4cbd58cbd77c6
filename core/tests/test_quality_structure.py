"""Data flows one way: which part of the package may import which (read from the sources, nothing is imported)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from helpers import ROOT

CORE = ROOT / "core"

# part -> parts that it must never import
FORBIDDEN = {
    "isa": {"lang", "tile", "gpu", "reference", "spirv", "errors", "arrays", "scoreboard", "explain", "cli"},
    "formats": {"isa", "lang", "tile", "gpu", "reference", "spirv", "scoreboard", "explain", "cli"},
    "reference": {"gpu", "spirv", "lang", "scoreboard", "explain", "cli"},
    "gpu": {"reference", "lang", "scoreboard", "explain", "cli"},
    "spirv": {"gpu", "reference", "lang", "tile", "isa", "scoreboard", "explain", "cli"},
    "tile": {"gpu", "reference", "spirv", "scoreboard", "explain", "cli"},
    "lang": {"gpu", "spirv", "scoreboard", "explain", "cli"},
    "recordings": {"explain", "cli"},
    "scoreboard": {"cli"},
}


def part_of(path: Path) -> str:
    first = path.relative_to(CORE).parts[0]
    return first.removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Parts of this package that a module imports, at its top or inside functions."""
    package = ("phobos_sim", *path.relative_to(CORE).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        targets = []
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = (*base, *(node.module.split(".") if node.module else ()))
            targets = [(*stem, alias.name) for alias in node.names]
        found |= {target[1] for target in targets if target[0] == "phobos_sim" and len(target) > 1}
    return found


@pytest.mark.parametrize("part", sorted(FORBIDDEN))
def test_imports_go_one_way(part: str) -> None:
    for path in sorted(CORE.rglob("*.py")):
        if "tests" in path.parts or part_of(path) != part:
            continue
        wrong = imported_parts(path) & FORBIDDEN[part]
        assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def test_torch_is_imported_by_the_check_verb_only() -> None:
    importing = set()
    for path in CORE.rglob("*.py"):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and node.level == 0
                else []
            )
            if any(name.split(".")[0] == "torch" for name in names):
                importing.add(str(path.relative_to(CORE)))
    assert importing <= {"cli/check.py"}
