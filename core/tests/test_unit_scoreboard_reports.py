"""What a score looks like: terminal, JSON, JUnit, Markdown, the page; and the protocol for other programs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import ROOT, cli
from phobos_sim import isa
from phobos_sim.errors import InexactDeviceError, RecordingError, UsageError
from phobos_sim.formats import Codes
from phobos_sim.reference import execute
from phobos_sim.scoreboard import engines, report
from phobos_sim.scoreboard.engines import Function, Program, ProgramError, Simulator, Unsupported
from phobos_sim.scoreboard.evaluate import Options, Score, score
from phobos_sim.scoreboard.page import to_html
from recording_samples import adds, recorded

ADD = isa.lookup("FADD")
ARCH = isa.SM86
ONE, TWO = np.array([0x3F800000], np.uint32), np.array([0x40000000], np.uint32)


def off_by_one(name: str, arch: str, *codes: Codes) -> Codes:
    """FADD whose third result is one ulp off."""
    result = execute.apply(isa.lookup(name), *codes).copy()
    result[2] += 1
    return result


@pytest.fixture
def wrong(tmp_path: Path) -> Score:
    return score([adds(tmp_path / "made-up")], Function("off by one", off_by_one))


@pytest.fixture
def right(tmp_path: Path) -> Score:
    return score([adds(tmp_path / "made-up")], Simulator("reference"))


def test_json_holds_everything(wrong: Score, right: Score) -> None:
    data = json.loads(json.dumps(report.to_json(wrong)))
    (row,) = data["rows"]
    assert (data["passed"], data["results"], data["equal"]) == (False, 40, 39)
    assert (row["first"]["index"], row["first"]["kind"], row["first"]["ulp"]) == (2, "value", 1)
    assert row["explain"].startswith("phobos-sim explain FADD --arch sm_86 --a 0x")
    assert cli(*row["explain"].split()[1:]).returncode == 0
    assert row["classes"] == [{"name": "raw", "results": 40, "equal": 39}]
    assert data["sets"][0]["mutants"] == len(row["killed"]) + len(row["survivors"]) > 0
    assert report.to_json(right)["passed"] is True


def test_junit_is_what_ci_reads(wrong: Score) -> None:
    (suite,) = ElementTree.fromstring(report.to_junit(wrong))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("1", "1", "0")
    (failure,) = suite.iter("failure")
    assert "1 of 40 codes differ" in str(failure.get("message")) and "at 2:" in str(failure.text)


def test_markdown_names_the_row(wrong: Score, right: Score) -> None:
    text = report.to_markdown(wrong)
    assert "❌" in text and "| made-up/adds FADD | sm_86 | derived | 1 of 40 |" in text
    assert "✅" in report.to_markdown(right)


def test_rows_that_a_device_cannot_run_are_listed_not_failed(tmp_path: Path) -> None:
    def none(name: str, arch: str, *codes: Codes) -> Codes:
        raise NotImplementedError("no adder here")

    outcome = score([adds(tmp_path)], Function("none", none))
    assert outcome.passed and outcome.rows[0].unavailable == "no adder here"
    assert "1 rows not available here" in report.headline(outcome)
    (suite,) = ElementTree.fromstring(report.to_junit(outcome))
    assert suite.get("skipped") == "1"


def test_a_device_with_other_bits_fails_its_rows(tmp_path: Path) -> None:
    """What no form of a device computes is no gap of the device: it has it, and wrong."""

    class Inexact(Function):
        def __call__(self, instruction: isa.Instruction, *_: object) -> Codes:
            raise InexactDeviceError(f"{instruction.key}: no form of this instruction gives exact results")

    (tmp_path / "b.txt").write_text("T1 FADD a=0 b=0 sm_86=0 # a reason\n")
    outcome = score([adds(tmp_path), tmp_path / "b.txt"], Inexact("inexact", lambda: None))
    assert not outcome.passed and len(outcome.rows) == 2 and not any(row.unavailable for row in outcome.rows)
    assert "2 rows differ" in report.headline(outcome)
    for text in (*report.failures(outcome), report.to_junit(outcome), to_html(outcome)):
        assert "no form of this instruction" in text


def test_the_page_is_one_file_without_network(wrong: Score) -> None:
    page = to_html(wrong)
    assert not re.search(r"(src|href)\s*=", page.split("<script")[0])
    assert "http:" not in page and "https:" not in page and "@import" not in page and "url(" not in page
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert "bit by bit" in data["rows"][0]["explanation"]
    assert data["rows"][0]["equal"] == 39 and data["archs"] == ["sm_86"]
    assert "prefers-color-scheme: dark" in page


def test_a_name_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    outcome = score([adds(tmp_path)], Function("</script><script>alert(1)</script>", off_by_one))
    page = to_html(outcome)
    assert "<script>alert(1)" not in page
    assert "\\u003c/script>" in page


# --- other programs --------------------------------------------------------------------------------------------------


def program(tmp_path: Path, text: str) -> Program:
    path = tmp_path / "engine.py"
    path.write_text(text)
    return Program(f"{sys.executable} {path}")


ECHO = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    a, b = request["inputs"]
    assert a["format"] == "f32" and request["result"] == {"format": "f32", "dtype": "uint32", "shape": a["shape"]}
    print(json.dumps({"id": request["id"], "hex": b["hex"]}), flush=True)
"""


def test_a_program_is_asked_and_answers(tmp_path: Path) -> None:
    engine = program(tmp_path, ECHO)
    try:
        assert engine(ADD, ARCH, (ONE, TWO)).tolist() == TWO.tolist()
        assert engine(ADD, ARCH, (TWO, ONE)).tolist() == ONE.tolist()
    finally:
        engine.close()
    assert engine._process.returncode == 0, "it should end with its input"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise SystemExit('out of paper')", "ended without an answer\n  it wrote: out of paper"),
        ("print('not json', flush=True)", "is not one"),
        ('print(\'{"id": 9, "hex": ""}\', flush=True)', "id 9, expected 1"),
        ('print(\'{"id": 1, "hex": "00"}\', flush=True)', "is not one"),
        ("print('[1]', flush=True)", "is not one"),
        ("import time; time.sleep(60)", "no answer within 1 s"),
    ],
)
def test_a_program_that_misbehaves_is_an_error(
    tmp_path: Path, body: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOBOS_TIMEOUT", "1" if "sleep" in body else "30")
    engine = program(tmp_path, f"import sys\nsys.stdin.readline()\n{body}\nsys.stdin.read()\n")
    try:
        with pytest.raises(ProgramError, match=re.escape(words)):
            engine(ADD, ARCH, (ONE, TWO))
    finally:
        if engine._process.poll() is None:
            engine._process.kill()
        engine.close()


def test_a_program_may_say_that_it_has_not_got_it(tmp_path: Path) -> None:
    engine = program(tmp_path, 'import sys\nsys.stdin.readline()\nprint(\'{"unsupported": "no f32"}\', flush=True)\n')
    with pytest.raises(Unsupported, match="no f32"):
        engine(ADD, ARCH, (ONE, TWO))
    engine.close()


def test_a_function_that_raises_is_its_own_fault() -> None:
    with pytest.raises(ProgramError, match="mine: FADD: it raised TypeError: "):
        Function("mine", lambda: None)(ADD, ARCH, (ONE, TWO))


def test_a_corner_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b.txt").write_text("T1 FADD a=zz b=1 sm_86=1 # a reason\n")
    for name, words in (("a", "not a text file of corner vectors"), ("b", "b.txt:1: 'zz' is no hexadecimal code")):
        with pytest.raises(RecordingError, match=words):
            score([tmp_path / f"{name}.txt"], Function("engine", lambda *_: None), Options())


def test_what_against_can_name() -> None:
    assert isinstance(engines.against("phobos_sim.scoreboard.engines:against"), Function)
    with pytest.raises(UsageError, match="No module named 'nowhere'"):
        engines.against("nowhere:function")
    with pytest.raises(UsageError, match="cannot be started"):
        engines.against("/no/such/program --fast")


def test_the_example_that_is_wrong_on_purpose_is_caught(tmp_path: Path) -> None:
    recorded(tmp_path / "card", 86)
    command = f"{sys.executable} {ROOT / 'examples' / 'against' / 'naive.py'}"
    done = cli(
        "score", tmp_path / "card" / "tensor.npz", "--against", command, "--no-kill", "--json", tmp_path / "out.json"
    )
    assert done.returncode == 1, done.stderr
    rows = {row["row"]: row for row in json.loads((tmp_path / "out.json").read_text())["rows"]}
    assert not rows["HMMA.16816.F32"]["passed"] and rows["HMMA.16816.F32.BF16"]["unavailable"]
    assert len((ROOT / "examples" / "against" / "naive.py").read_text().splitlines()) <= 32


# --- the verb --------------------------------------------------------------------------------------------------------


def test_the_verb_writes_every_report(tmp_path: Path) -> None:
    adds(tmp_path / "sets")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    done = cli(
        "score",
        tmp_path / "sets",
        "--device",
        "reference",
        "--json",
        "-",
        "--junit",
        tmp_path / "j.xml",
        "--markdown",
        summary,
        "--html",
        tmp_path / "p.html",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"] is True
    assert "40 of 40 results equal" in done.stderr
    assert (
        summary.read_text().startswith("before\n###")
        and (tmp_path / "j.xml").exists()
        and (tmp_path / "p.html").exists()
    )


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nowhere.npz"], 2, "no such file or folder"),
        (["--arch", "sm_99"], 2, "--arch sm_99: known are sm_70"),
        (["--device", "gpu"], 2, "gpu"),
        (["--against", "x", "--device", "reference"], 2, "exclude each other"),
        (["--instruction", "FADD2"], 2, "nothing to score"),
    ],
)
def test_wrong_use(arguments: list[str], status: int, words: str, tmp_path: Path) -> None:
    adds(tmp_path / "sets")
    if "nowhere.npz" not in arguments:
        arguments = [str(tmp_path / "sets"), *arguments]
    done = cli("score", *arguments)
    assert done.returncode == status and words in done.stderr, done.stderr


def test_a_damaged_set_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    adds(tmp_path / "a")
    bad = adds(tmp_path / "b")
    bad.write_bytes(bad.read_bytes()[:-1])
    asked: list[str] = []

    def engine(name: str, arch: str, *codes: Codes) -> Codes:
        asked.append(name)
        return execute.apply(isa.lookup(name), *codes)

    with pytest.raises(RecordingError, match="truncated"):
        score([tmp_path / "a", tmp_path / "b"], Function("engine", engine), Options())
    assert not asked


def test_an_answer_of_another_shape_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="answered FADD with uint32 .3,., expected uint32 .40,."):
        score([adds(tmp_path)], Function("short", lambda name, arch, *codes: codes[0][:3]))


@pytest.mark.slow
def test_ten_million_results_in_bounded_memory() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "bench_score.py"], capture_output=True, text=True, timeout=600
    )
    runs = json.loads(done.stdout)["runs"]
    assert all(
        run["passed"] and run["results"] == 10_000_000 and run["peak_MiB"] < 1024 for run in runs if "error" not in run
    ), runs
    assert "error" not in runs[0], runs
