"""The score's page in a real browser: from a file, without a network, by keyboard, in both colour schemes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from phobos_sim.recordings import home
from phobos_sim.scoreboard.engines import Simulator
from phobos_sim.scoreboard.evaluate import Options, score
from phobos_sim.scoreboard.page import to_html
from recording_samples import recorded

PROBE = """
<script>
addEventListener("error", event => document.body.dataset.error = event.message);
addEventListener("load", () => {
  const say = (key, value) => document.body.setAttribute("data-" + key, value);
  const cells = () => [...document.querySelectorAll(".matrix .cell")];
  say("cells", cells().length);
  const stroke = key => new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true});
  const press = key => document.activeElement.dispatchEvent(stroke(key));
  cells()[0].focus();
  press("ArrowDown");
  say("moved", document.activeElement === cells()[0] ? "no" : "yes");
  document.activeElement.click();
  say("details", document.querySelectorAll(".detail").length);
  say("pressed", document.querySelectorAll('.cell[aria-pressed="true"]').length);
  press("Escape");
  say("closed", document.querySelectorAll(".detail").length);
  document.body.focus(); document.activeElement.blur(); document.dispatchEvent(stroke("/"));
  say("search", document.activeElement.id);
  const box = document.getElementById("text"); box.value = "hmma"; box.dispatchEvent(new Event("input"));
  const names = [...document.querySelectorAll('.matrix tbody th[scope="row"]')].map(th => th.textContent);
  say("filtered", names.every(name => name.includes("HMMA")) ? cells().length : -1);
  box.value = ""; box.dispatchEvent(new Event("input"));
  const named = button => button.getAttribute("aria-label") || button.textContent.trim();
  say("unnamed", [...document.querySelectorAll("button")].filter(button => !named(button)).length);
  say("wide", document.documentElement.scrollWidth > innerWidth ? "yes" : "no");
  say("background", getComputedStyle(document.body).backgroundColor);
  say("requests", performance.getEntriesByType("resource").length);
});
</script></body>"""


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("Chromium: not installed (Debian: apt-get install chromium)")


def probe(page: Path, *options: str) -> dict[str, str]:
    """Run the page with the probe in it and read what the probe wrote into the body."""
    tested = page.with_name("probed.html")
    tested.write_text(page.read_text(encoding="utf-8").replace("</body>", PROBE), encoding="utf-8")
    command = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += ["--virtual-time-budget=3000", "--enable-logging=stderr", f"--user-data-dir={page.parent / 'profile'}"]
    command += [*options, "--dump-dom", tested.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not console, console
    body = re.search(r"<body([^>]*)>", done.stdout)
    assert body is not None, done.stderr[-500:]
    return dict(re.findall(r'data-([a-z]+)="([^"]*)"', body[1]))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    recorded(folder / "card", 86)
    outcome = score([folder / "card", home() / "corners"], Simulator("reference"))
    path = folder / "score.html"
    path.write_text(to_html(outcome), encoding="utf-8")
    return path


def test_the_page_works_by_keyboard_without_errors(page: Path) -> None:
    found = probe(page)
    assert "error" not in found, found
    assert int(found["cells"]) > 250
    assert (found["moved"], found["pressed"], found["closed"], found["search"], found["unnamed"]) == (
        "yes",
        "1",
        "0",
        "text",
        "0",
    )
    assert int(found["details"]) >= 1 and int(found["filtered"]) > 5
    assert found["requests"] == "0" and found["wide"] == "no"


def test_dark_and_narrow(page: Path) -> None:
    light = probe(page)["background"]
    dark = probe(page, "--blink-settings=preferredColorScheme=0", "--window-size=500,900")
    assert dark["background"] != light and dark["wide"] == "no" and "error" not in dark


def test_the_page_of_all_sets_is_small() -> None:
    outcome = score([home()], Simulator("reference"), Options(kill=True, arch="sm_86"))
    assert len(to_html(outcome).encode()) < 2_000_000
