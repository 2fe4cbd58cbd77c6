"""docs/instructions.md is what the table says."""

from __future__ import annotations

from helpers import ROOT
from phobos_sim import isa
from phobos_sim.isa import documentation


def test_the_page_is_current() -> None:
    page = (ROOT / "docs/instructions.md").read_text()
    assert page == documentation.render(), "run: python -m phobos_sim.isa.documentation > docs/instructions.md"


def test_every_row_and_spelling_is_on_it() -> None:
    page = documentation.render()
    for row in isa.INSTRUCTIONS:
        for name in (row.key, *row.ptx):
            assert f"`{name}`" in page
