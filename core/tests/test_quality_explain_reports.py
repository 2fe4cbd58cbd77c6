"""Reports of explain and diff: every renderer shows the same facts, pages are self-contained, verbs do as they say."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import phobos_sim as sim
import pytest
from helpers import ROOT, cli
from phobos_sim import isa
from phobos_sim.explain import dispatch, html, markdown, sources, terminal
from phobos_sim.explain import document as doc
from phobos_sim.explain.explanation import DotExplanation
from phobos_sim.explain.report import Report
from phobos_sim.recordings import home
from phobos_sim.recordings.loader import load
from recording_samples import recorded
from rich.console import Console

KERNELS = ROOT / "core" / "tests" / "kernels" / "explained.py"
CORNERS = home() / "corners" / "hmma.txt"


def explanation() -> Report:
    """Three absorbed products, one cut one, and a second group."""
    a, b = [1.0, *[2.0**-12] * 3, 0.1, 0, 0, 0, 0, 1.0], [1.0, *[2.0**-12] * 3, 0.3, 0, 0, 0, 0, 1.0]
    found = sim.explain("HMMA.16816.F32", a, b, 2.0)
    assert isinstance(found, Report)
    return found


def difference() -> Report:
    kernel = sim.load(KERNELS).matmul
    rng = np.random.default_rng(1)
    a, b = ((rng.random((64, 64)) - 0.5).astype(np.float16) for _ in range(2))
    found = sim.diff(kernel, (1, 1), a, b, np.zeros((64, 64), np.float16), against="ieee")
    assert isinstance(found, Report)
    return found


class Page(HTMLParser):
    """Checks that tags nest, and keeps the text."""

    VOID = ("meta", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("make", [explanation, difference], ids=["explain", "diff"])
def test_pages_are_self_contained_and_nest(make) -> None:  # type: ignore[no-untyped-def]
    report = make()
    page = Page(report.html())
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://(?!github\.com)""", report.html())
    assert {"html", "style", "table", "pre"} <= set(page.tags)
    assert "svg" in page.tags or make is explanation
    fragment = report._repr_html_()
    assert "<html" not in fragment and fragment.strip() in report.html()


def test_bit_rows_are_the_same_in_every_renderer() -> None:
    document = explanation().document()
    bits = [block for block in document.blocks if isinstance(block, doc.Bits)]
    assert len(bits) == 2
    text, code, words = terminal.text(document), markdown.render(document), Page(html.page(document)).words
    for block in bits:
        for line in markdown.bit_lines(block.rows):
            assert line.strip() in code and line.rstrip() in re.sub(r"\n  ", "\n", text)
            assert line.strip() in re.sub(r"[ \t]+\n", "\n", words)
    rows = {row.label: row for row in bits[0].rows}
    assert rows["k=1"].note == "absorbed" and rows["k=4"].note == "cut" and rows["addend"].note == "sets E"
    bars = {"".join(part for part, _ in row.runs).index("│") for row in bits[0].rows}
    assert len(bars) == 1  # one bar, in one column
    assert {kind for row in bits[0].rows for _, kind in row.runs} <= set(doc.CELLS)
    assert "".join(part for part, kind in rows["k=4"].runs if kind == "lost") == "11"


def test_colour_is_not_needed_but_there() -> None:
    document = explanation().document()
    plain = terminal.text(document)
    assert "\x1b" not in plain and "│" in plain
    console = Console(force_terminal=True, color_system="standard", width=160, record=True, file=io.StringIO())
    console.print(explanation())
    coloured = console.export_text(styles=True)
    assert "\x1b[31m" in coloured and "\x1b[32m" in coloured  # lost red, kept green


def test_text_that_looks_like_markup_is_text() -> None:
    words = doc.Text("a < b & [bold]c[/bold] | *d*", "<i>")
    blocks = (words, doc.Table(("x|y",), (("<b>",),)), doc.Source("f:1", "x<y"))
    document = doc.Document("<script>", blocks)
    assert "<script>" not in html.page(document) and "&lt;b&gt;" in html.page(document)
    assert "[bold]c[/bold]" in terminal.text(document)
    assert "\\|" in markdown.render(document) and "\\*d\\*" in markdown.render(document)


def test_json_has_the_facts() -> None:
    data = json.loads(explanation().json())
    group = data["groups"][0]
    assert (group["E"], group["set_by"], group["lowest_place"]) == (1, ["addend"], -23)
    assert sum(term["kept"] for term in group["terms"]) == group["sum"]
    assert data["absorbed"] == [1, 2, 3] and data["cut"] == [4]
    assert data["ladders"][0]["from"] == "sequential IEEE chain"
    other = json.loads(difference().json())
    assert other["first"]["source"] == "acc += ph.dot(a, b)"
    assert other["explanation"]["kind"] == "dot"
    assert sum(row["count"] for row in other["outputs"][1]["histogram"]) == other["outputs"][1]["differing"]


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("Chromium: not installed (Debian: apt-get install chromium)")


PROBE = """<script>
addEventListener("load", () => {
  const say = (key, value) => document.body.setAttribute("data-" + key, value);
  say("wide", document.documentElement.scrollWidth > innerWidth ? "yes" : "no");
  say("requests", performance.getEntriesByType("resource").length);
  const spans = [...document.querySelectorAll("pre.bits span.bar")];
  say("bars", new Set(spans.filter(s => s.closest("pre") === spans[0].closest("pre")).map(s => s.offsetLeft)).size);
  say("cells", document.querySelectorAll("svg.heat rect").length);
  say("background", getComputedStyle(document.querySelector(".phobos-report")).backgroundColor);
});
</script></body>"""


@pytest.mark.parametrize("make", [explanation, difference], ids=["explain", "diff"])
def test_pages_in_a_browser(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Bars stand in one column, nothing is fetched, no sideways scrolling on a narrow screen, dark and light."""
    page = tmp_path / "page.html"
    html = make().html().replace(str(ROOT), "/" + "long" * 60)  # wherever the kernel lies
    page.write_text(html.replace("</body>", PROBE), encoding="utf-8")
    command = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += ["--virtual-time-budget=2000", f"--user-data-dir={tmp_path / 'profile'}", "--window-size=500,900"]
    seen = []
    for scheme in ("--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"):
        done = subprocess.run(
            [*command, scheme, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=110, check=False
        )
        body = re.search(r"<body([^>]*)>", done.stdout)
        assert body is not None, done.stderr[-500:]
        facts = dict(re.findall(r'data-([a-z]+)="([^"]*)"', body[1]))
        assert (facts["wide"], facts["requests"], facts["bars"]) == ("no", "0", "1"), facts
        assert (facts["cells"] != "0") == (make is difference)
        seen.append(facts["background"])
    assert len(set(seen)) == 2, seen


# --- the verbs -------------------------------------------------------------------------------------------------------


def test_explain_verb(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = cli("explain", "HMMA.16816.F16", "--a", "3c00*8", "--b", "1*8", "--c", "6800", "--json", "-", "--html", page)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["result"]["code"] == "6804"
    assert data["ladders"][2]["first"] == "exact sum per group"
    assert "HMMA.16816.F16 on sm_86: 6804 (2056)" in done.stderr
    assert "was read as the code" in done.stderr  # 6800 could be a decimal
    assert "6804 (2056)" in page.read_text(encoding="utf-8")


def test_explain_verb_takes_files_and_corner_vectors(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((4, 32)).astype(np.float16), rng.random((32, 4)).astype(np.float16)
    np.savez(tmp_path / "in.npz", A=a, B=b)
    done = cli("explain", "HMMA.16816.F32", "--from", tmp_path / "in.npz", "--at", "2,3", "--json", "-")
    assert done.returncode == 0, done.stderr
    expected = sim.explain("HMMA.16816.F32", np.ascontiguousarray(a[2]), np.ascontiguousarray(b[:, 3])).to_dict()
    assert json.loads(done.stdout) == expected
    vector = cli("explain", f"{CORNERS}:T23b", "--arch", "sm_90", "--json", "-")
    assert json.loads(vector.stdout)["result"]["code"] == "33000000"


def test_recorded_results_of_every_kind_are_explained(tmp_path: Path) -> None:
    """A matrix, a chained product in its own order of k, scalars: operands and recorded codes are those of the file."""
    recorded(tmp_path / "card", 86)
    for family, name in (("tensor", "HMMA.16816.F16"), ("gemm", "HMMA.1688.F32@64x64x128"), ("half", "HFMA2"),
                         ("mufu", "MUFU.LG2"), ("convert", "cvt.rn.f16.f32")):  # fmt: skip
        path = tmp_path / "card" / f"{family}.npz"
        row = next(row for row in json.loads(path.with_suffix(".json").read_text())["rows"] if row["name"] == name)
        with np.load(path) as held:
            output = held[row["output"]].reshape(-1)
        index = len(output) // 2 + 5
        found = sources.reference(f"{path}:{name}:{index}")
        assert (found.arch, found.expected) == ("sm_86", int(output[index]))
        explanation = dispatch.dispatch(found.instruction, isa.SM86, found.operands, expected=found.expected)
        code = explanation.dot.code if isinstance(explanation, DotExplanation) else explanation.code
        assert code == found.expected  # this recording was made by the reference
    assert "the same" in str(explanation)
    product = next(row for row in load(tmp_path / "card" / "gemm.npz").manifest.rows if row.kind == "gemm")
    turned = replace(product, k_order=product.k_order[::-1])
    assert sources._tiles(turned)[:9].tolist() == [*range(120, 128), 112]
    with pytest.raises(sim.UsageError, match="no result of HFMA2"):
        sources.reference(f"{tmp_path / 'card' / 'half.npz'}:HFMA2:999999")
    with pytest.raises(sim.UsageError, match="no row"):
        sources.reference(f"{tmp_path / 'card' / 'half.npz'}:HMMA:0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("HMMA.16816.F32",), "takes --a, --b, --c"),
        (("HMMA.16816.F32", "--a", "x", "--b", "1"), "neither a decimal"),
        (("HMMA.16816.F32", "--a", "1", "--b", "1", "--at", "1,2"), "--from"),
        (("HMMA.16816.F32", "--from", "nowhere.npz", "--at", "0,0"), "cannot be read"),
        (("cvt.rn.f16.f32", "--a", "1", "--b", "1"), "takes 1 operand"),
        (("nowhere.npz:HMMA.16816.F32:0",), "no such recording"),
        ((f"{CORNERS}:T99",), "no vector"),
        (("HMMA.16816.F32", "--a", "1", "--b", "1", "--order", "0,0"), "permutation"),
        (("HMMA.16816.F32", "--a", "1", "--b", "1", "--groups", "most"), "some or all"),
    ],
)
def test_explain_verb_says_what_is_wrong(words: tuple[str, ...], message: str) -> None:
    done = cli("explain", *words)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_diff_verb(tmp_path: Path) -> None:
    dims = [word for name in "MNK" for word in ("--dim", f"{name}=64")]
    base = ("diff", KERNELS, "--kernel", "matmul", *dims, "--grid", "M//BM,N//BN")
    done = cli(*base, "--against", "ieee", "--against", "exact", "--json", "-", "--markdown", tmp_path / "d.md")
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    assert [one["there"] for one in data["all"]] == ["ieee", "exact"]
    assert all(one["outputs"][1]["differing"] > 1000 for one in data["all"])
    assert "acc += ph.dot(a, b)" in (tmp_path / "d.md").read_text(encoding="utf-8")
    same = cli(*base, "--against", "sm_80")
    assert same.returncode == 0 and "same bits on both sides" in same.stdout
    wrong = cli(*base, "--against", "ieee754")
    assert wrong.returncode == 2 and "choose ieee, exact" in wrong.stderr
