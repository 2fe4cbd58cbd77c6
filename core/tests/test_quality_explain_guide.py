"""docs/explain.md is what the tool prints, and its Python runs."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from types import ModuleType

import pytest
from helpers import ROOT

PAGE = ROOT / "docs" / "explain.md"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("guide", ROOT / "script" / "generate_explain_guide.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current_but_for_the_large_product() -> None:
    current = PAGE.read_text(encoding="utf-8")
    assert script().page(keep=current) == current, "run: python script/generate_explain_guide.py"


@pytest.mark.slow
def test_the_page_is_current() -> None:
    assert script().page() == PAGE.read_text(encoding="utf-8"), "run: python script/generate_explain_guide.py"


def test_the_python_of_the_page_prints_what_it_says() -> None:
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "import" in code]
    code = block.partition("kernel =")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    said = [line.partition("# ")[2] for line in code.splitlines() if line.startswith("print")]
    for found, expected in zip(printed.getvalue().splitlines(), said, strict=True):
        assert not expected or found == expected
    assert len([words for words in said if words]) == 3
