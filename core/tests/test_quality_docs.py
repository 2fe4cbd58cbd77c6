"""The documentation tells the truth: its Python runs, its commands parse, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, cli

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_readme_example_runs() -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    code = example.replace("512", "64")
    assert code != example
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "HMMA.16816.F32" in done.stdout


def links(page: Path) -> list[str]:
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(([^)#]+)[^)]*\)", prose)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        assert "://" in target or (page.parent / target).exists(), target


def test_every_page_is_reached_from_the_readme() -> None:
    reached, follow = set(), [PAGES[0]]
    while follow:
        page = follow.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            follow += [(page.parent / target).resolve() for target in links(page) if "://" not in target]
    assert {page for page in PAGES if "adr" not in page.parts} <= reached


def test_commands_name_verbs_and_options_that_exist() -> None:
    from phobos_sim.cli.app import VERBS

    helps: dict[str, str] = {}
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                words = line.partition("#")[0].split()
                if not words or words[0] != "phobos-sim" or words[1].startswith("-"):
                    continue
                assert words[1] in VERBS, line
                if words[1] not in helps:
                    helps[words[1]] = cli(words[1], "--help", COLUMNS="200").stdout
                for option in re.findall(r"--[a-z-]+", " ".join(words[2:])):
                    assert option in helps[words[1]], f"{page.name}: {line}"


def test_the_demo_prints_what_the_readme_shows() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "script/demo.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = (ROOT / "README.md").read_text()
    first, _, dot, digest, *_ = done.stdout.splitlines()
    assert first.endswith("True")
    assert first in shown and dot in shown and digest in shown
    assert "agree in every bit" in done.stdout or "this ran on the numpy reference" in done.stdout


def test_the_guide_names_every_environment_variable_of_the_package() -> None:
    guide = (ROOT / "docs" / "user-guide.md").read_text()
    sources = [path for path in (ROOT / "core").rglob("*.py") if "tests" not in path.parts]
    read = {name for path in sources for name in re.findall(r"\bPHOBOS_[A-Z_]+", path.read_text())}
    assert {name for name in read if f"`{name}`" not in guide} == set()
