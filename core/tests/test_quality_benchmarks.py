"""Benchmarks: the pages are what the stored results give, the arithmetic of the harness is right. Nothing is timed."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers import ROOT

FOLDER = ROOT / "benchmarks"
FILES = sorted(FOLDER.glob("bench_*.py"))


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def module(name: str) -> ModuleType:
    sys.modules.pop(name, None)
    return __import__(name)


def test_pages_are_what_the_results_give(on_path: None) -> None:
    report = module("report")
    pages = report.pages(report.read())
    assert {"performance.md", "compile-times.md"} <= set(pages)
    for name, text in pages.items():
        assert (ROOT / "docs" / name).read_text() == text, f"run benchmarks/report.py: docs/{name} is not its output"


def test_every_result_stands_on_a_page_under_its_command(on_path: None) -> None:
    report = module("report")
    text = (ROOT / "docs" / "performance.md").read_text()
    for name, found in report.read().items():
        assert name in report.SECTIONS or name.endswith("-cooperative"), f"no section shows results/{name}.json"
        if "command" in found:
            assert f"`{found['command']}`" in text
            assert found["command"].split()[:2] == ["script/bench", name]


def test_results_name_no_path_of_a_machine() -> None:
    for path in (FOLDER / "results").glob("*.json"):
        assert not any(f'"{start}' in path.read_text() for start in ("/work", "/tmp", "/root", "/home")), path.name


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_benchmark_says_what_it_measures(path: Path) -> None:
    assert len(ast.get_docstring(ast.parse(path.read_text())) or "") > 80


def test_ratios_are_medians_of_rounds_and_rates_of_free_times(on_path: None) -> None:
    harness = module("harness")
    x = harness.Samples(wall=[9.0, 9.0, 9.0], free=[2.0, 6.0, 4.0])
    y = harness.Samples(wall=[1.0, 1.0, 1.0], free=[1.0, 1.0, 4.0])
    assert harness.ratio(x, y) == 2.0  # of 2, 6 and 1
    summary = x.summary(8e9)
    assert (summary["free_ms"], summary["free_best_ms"], summary["giga_per_s"]) == (4000.0, 2000.0, 2.0)


def test_cells_of_a_table(on_path: None) -> None:
    report = module("report")
    text = report.table(["a", "b"], [["x", 1.5], ["y", None]])
    assert text.splitlines() == ["| a | b |", "| --- | ---: |", "| x | 1.5 |", "| y |  |"]
    assert json.loads((FOLDER / "results" / "flat.json").read_text())["rows"]
