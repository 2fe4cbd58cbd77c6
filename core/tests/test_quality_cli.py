"""The verbs do what the help says: doctor, compile, run, check."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import helpers
import numpy as np
import pytest
from helpers import ROOT, cli, llvmpipe, require_torch, shared

MATMUL = ROOT / "examples" / "matmul.py"
SMALL = ("--dim", "M=64", "--dim", "N=64", "--dim", "K=64", "--grid", "M//BM,N//BN")


def test_doctor_without_a_driver_says_what_to_install() -> None:
    none = {"VK_ICD_FILENAMES": "no/such/driver.json", "VK_DRIVER_FILES": "no/such/driver.json"}
    done = cli("doctor", "--json", "-", **none)
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["devices"] == []
    assert [entry["install"] for entry in report["missing"] if "Vulkan" in entry["what"]]
    assert "reference" in " ".join(report["notes"])
    assert cli("doctor", "--device", "vulkan", **none).returncode == 4


def test_doctor_lists_devices_and_the_verdict_of_the_probe() -> None:
    name = llvmpipe()
    report = json.loads(cli("doctor", "--device", name, "--json", "-").stdout)
    (device,) = report["devices"]
    assert device["usable"] and "llvmpipe" in device["name"]
    assert device["forms"]
    text = cli("doctor", "--device", name).stdout
    assert "llvmpipe" in text and "exact forms" in text


def test_doctor_names_a_foreign_phobos(tmp_path: Path) -> None:
    package = tmp_path / "phobos"
    package.mkdir()
    (package / "__init__.py").write_text("")
    done = cli("doctor", "--device", "reference", "--json", "-", PYTHONPATH=str(tmp_path))
    assert str(package) in " ".join(json.loads(done.stdout)["notes"])


@pytest.mark.parametrize(
    ("emit", "words"),
    [
        ("syntax", ("Kernel", "name='matmul'", "Call function='dot'")),
        ("tile", ("kernel matmul", "dot HMMA.16816.F32", "store C")),
        ("instructions", ("dot at line 25: HMMA.16816.F32", "64x64x32", "cvt.rn.f16.f32")),
        ("python", ("@ph.tensorcore", "acc += ph.dot(a, b)")),
        ("ph", ("@tensorcore", "kernel matmul(", "acc += dot(a, b)")),
    ],
)
def test_compile_shows_each_step(emit: str, words: tuple[str, ...]) -> None:
    done = cli("compile", MATMUL, "--emit", emit)
    assert done.returncode == 0, done.stderr
    assert not [word for word in words if word not in done.stdout], done.stdout


def test_compile_json_names_the_path_of_every_dot() -> None:
    data = json.loads(cli("compile", MATMUL, "--kernel", "matmul", "--json", "-").stdout)
    (dot,) = data["contractions"]
    assert dot["instruction"] == "HMMA.16816.F32" and dot["shape"] == [64, 64, 32]
    assert dot["place"].startswith(f"{MATMUL}:") and dot["reason"]


def test_compile_spirv_is_a_module(tmp_path: Path) -> None:
    file = tmp_path / "matmul.spv"
    assert cli("compile", MATMUL, "--emit", "spirv", "--out", file).returncode == 0
    words = np.fromfile(file, np.uint32)
    assert words[0] == 0x07230203


def test_loops_form_is_the_recorded_one() -> None:
    text = cli("compile", MATMUL, "--kernel", "matmul", "--emit", "spirv-asm", "--form", "loops").stdout
    assert text.count("OpLoopMerge") >= 4
    assert text.count(" DontUnroll") >= 4
    assert "OpPhi" not in text


def test_run_is_reproducible_and_hashes_what_it_writes(tmp_path: Path) -> None:
    first = json.loads(cli("run", MATMUL, *SMALL, "--device", "reference", "--json", "-", "--out", tmp_path).stdout)
    c = np.load(tmp_path / "C.npy")
    assert c.dtype == np.float16 and c.shape == (64, 64)
    assert hashlib.sha256(c.tobytes()).hexdigest() == first["sha256"]["C"]
    again = json.loads(cli("run", MATMUL, *SMALL, "--device", "reference", "--json", "-").stdout)
    other = json.loads(cli("run", MATMUL, *SMALL, "--device", "reference", "--json", "-", "--seed", "1").stdout)
    assert first["sha256"] == again["sha256"] != other["sha256"]


def test_run_agrees_across_devices(tmp_path: Path) -> None:
    device = llvmpipe()
    digests = [
        json.loads(cli("run", MATMUL, *SMALL, "--device", name, "--json", "-").stdout)["sha256"]
        for name in ("reference", device)
    ]
    assert digests[0] == digests[1]


def test_run_takes_arrays_and_their_dims(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(64, dtype=np.float16))
    b = (np.arange(64 * 128, dtype=np.float16) / 64).reshape(64, 128)
    np.save(tmp_path / "b.npy", b)
    args = ("--arg", f"A={tmp_path / 'a.npy'}", "--arg", f"B={tmp_path / 'b.npy'}", "--grid", "M//64,N//64")
    done = cli("run", MATMUL, *args, "--out", tmp_path, "--device", "reference")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "C.npy"), b)


def test_check_without_torch_says_so(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch in this test')\n")
    done = cli("check", MATMUL, PYTHONPATH=str(tmp_path))
    assert done.returncode == 4
    assert "pip install torch" in done.stderr and "Traceback" not in done.stderr


def test_check_passes_the_tutorial() -> None:
    file = shared("cases", "t03_matmul.py")
    require_torch()
    done = cli("check", file, "--json", "-")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["ok"] is True and data["message"].endswith("True")
    (launch,) = data["launches"]
    assert launch["paths"][0]["instruction"] == "HMMA.16816.F32"


CHECK = MATMUL.read_text() + (
    "\n\ndef check(torch):\n"
    "    a, b = (torch.ones((64, 64), dtype=torch.float16, device=torch.device('cuda')).cuda() for _ in 'ab')\n"
    "    c = torch.zeros(64, 64, dtype=torch.float16).to('cuda:0')\n"
    "    matmul[1, 1](a, b, c)\n"
    "    torch.cuda.synchronize()\n"
    "    ok = bool((c == {want}).all())\n"
    "    return ok, f'all {want}: {{ok}}'\n"
)


@pytest.mark.parametrize(("want", "status"), [(64, 0), (63, 1)])
def test_check_reports_what_the_module_says(tmp_path: Path, want: int, status: int) -> None:
    require_torch()
    file = tmp_path / "module.py"
    file.write_text(CHECK.format(want=want))
    done = cli("check", file, "--device", "reference")
    assert done.returncode == status, done.stderr
    assert f"all {want}: {status == 0}" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", ("no function check",)),
        ("def check(torch:\n", ("never closed", ":1:")),
        ("def check(torch):\n    torch.cuda.Stream()\n", ("torch.cuda.Stream",)),
    ],
    ids=["no check", "syntax", "unknown cuda function"],
)
def test_check_of_a_wrong_module(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    require_torch()
    file = tmp_path / "module.py"
    file.write_text(text)
    done = cli("check", file)
    assert done.returncode in (2, 4) and "Traceback" not in done.stderr
    assert not [word for word in words if word not in done.stderr], done.stderr


GRID = "    x = torch.ones(64)\n    copy[{grid}](x, x + 1)\n"
COPY = (
    "import phobos.lang as ph\n@ph.kernel\n@ph.launch(128)\n"
    "def copy(A: ph.tensor[ph.f32][N], B: ph.tensor[ph.f32][N]):\n    B[0:+64] = A[0:+64]\ndef check(torch):\n"
)


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (b"import no_such_module\n", 2, (":1: ModuleNotFoundError",)),
        (b"def check(torch):\n    return 1 // 0\n", 2, (":2: ZeroDivisionError",)),
        (b"def check(torch):\n    torch.ones(2) @ torch.ones(3)\n", 2, (":2: RuntimeError",)),
        (b"def check(torch):\n    torch.no_such_thing\n", 2, (":2: AttributeError",)),
        (b"def check():\n    pass\n", 2, ("called with one argument",)),
        (b"def check(torch):\n    return (True,)\n", 2, ("found 1 values",)),
        (b"def check(torch):\n    assert torch is None, 'no'\n", 1, (":2: AssertionError: no",)),
        (b"\xff\xfe", 2, ("module.py",)),
        (b"x = 1\0\n", 2, ("null bytes",)),
        ((COPY + GRID.format(grid='lambda meta: meta["Q"]')).encode(), 2, ("asks for 'Q'", "there are N")),
        ((COPY + GRID.format(grid="lambda meta: 1 // 0")).encode(), 2, (":8: ZeroDivisionError",)),
        ((COPY + GRID.format(grid="(1,)").replace("x, x", "x, 2 or x")).encode(), 2, ("int is no array",)),
    ],
)
def test_what_a_module_raises_is_no_defect_of_this_program(
    tmp_path: Path, text: bytes, status: int, words: tuple[str, ...]
) -> None:
    require_torch()
    file = tmp_path / "module.py"
    file.write_bytes(text)
    done = cli("check", file, "--device", "reference")
    assert done.returncode == status and "defect" not in done.stderr, done.stderr
    assert not [word for word in words if word not in done.stdout + done.stderr], done.stdout + done.stderr


@pytest.mark.parametrize("emit", ["syntax", "tile", "instructions", "python", "spirv"])
def test_compile_takes_no_unknown_name(emit: str) -> None:
    for options, status in ((("--device", "bogus"), 2), (("--device", "vulkan:bogus"), 4), (("--form", "bogus"), 2)):
        done = cli("compile", MATMUL, "--emit", emit, *options)
        assert done.returncode == status and "bogus" in done.stderr, done.stderr


@pytest.mark.parametrize("value", ["many", "0", "-1", "1.5"])
def test_a_trip_limit_is_a_number(value: str) -> None:
    done = cli("run", MATMUL, *SMALL, "--device", "reference", PHOBOS_MAX_TRIPS=value)
    assert done.returncode == 2 and f"PHOBOS_MAX_TRIPS is '{value}'" in done.stderr, done.stderr


def test_an_empty_trip_limit_is_none() -> None:
    assert cli("run", MATMUL, *SMALL, "--device", "reference", PHOBOS_MAX_TRIPS="").returncode == 0


@pytest.mark.parametrize("value", ["soon", "0", "inf", "nan"])
def test_a_timeout_is_a_number_of_seconds(value: str) -> None:
    commands = [("score", "--against", "cat")]
    if helpers.device_names():
        commands.append(("run", MATMUL, *SMALL, "--device", "vulkan"))
    for command in commands:
        done = cli(*command, PHOBOS_TIMEOUT=value)
        assert done.returncode == 2 and f"PHOBOS_TIMEOUT is '{value}'" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "command",
    [("compile", MATMUL), ("compile", MATMUL, "--emit", "tile"), ("run", MATMUL, *SMALL, "--device", "reference"),
     ("run", MATMUL, *SMALL, "--device", "reference", "--json", "-"), ("doctor", "--device", "reference")],
    ids=["short", "long", "run", "json", "doctor"],
)  # fmt: skip
def test_a_full_disk_is_no_defect(command: tuple[object, ...]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    with full.open("w") as sink:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "phobos_sim", *map(str, command)],
            stdout=sink, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 2 and "cannot write the output: No space" in done.stderr, done.stderr
    assert "None" not in done.stderr and "Traceback" not in done.stderr


def test_a_closed_output_is_no_defect() -> None:
    command = [sys.executable, "-P", "-m", "phobos_sim", "compile", str(MATMUL)]
    closing = f"import os, sys; os.close(1); os.execv(sys.executable, {command!r})"
    done = subprocess.run([sys.executable, "-c", closing], stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
