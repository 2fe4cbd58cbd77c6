"""Bad input of every kind is one clear error with exit status 2 or 4, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import phobos_sim as sim
import pytest
from helpers import ROOT, cli, llvmpipe
from phobos_sim import log
from phobos_sim.errors import KernelError, LaunchError, PhobosError, UnavailableError, UsageError

MATMUL = ROOT / "examples" / "matmul.py"
NO_DRIVER = {"VK_ICD_FILENAMES": "no/such/driver.json", "VK_DRIVER_FILES": "no/such/driver.json"}

HEAD = "from __future__ import annotations\nimport phobos.lang as ph\n\n\n@ph.kernel\n"


def zeros(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return np.zeros(shape, dtype)


def launch(*args: Any, grid: Any = (1, 1), **options: Any) -> None:
    sim.load(MATMUL).matmul.launch(grid, *args, device="reference", **options)


# what is wrong, arguments, options, error, words that the message must hold
LAUNCHES: list[tuple[str, tuple[Any, ...], dict[str, Any], type[PhobosError], tuple[str, ...]]] = [
    ("dtype", (zeros(64, 32, dtype=np.float32), zeros(32, 64), zeros(64, 64)), {}, LaunchError, ("A", "f16", "f32")),
    ("strides", (zeros(32, 64).T, zeros(32, 64), zeros(64, 64)), {}, LaunchError, ("A", "C-contiguous")),
    ("rank", (zeros(64), zeros(32, 64), zeros(64, 64)), {}, LaunchError, ("A", "rank 2", "(64,)")),
    ("dims", (zeros(64, 32), zeros(64, 64), zeros(64, 64)), {}, LaunchError, ("K", "32", "64", "axis 0 of B")),
    ("promise", (zeros(64, 40), zeros(40, 64), zeros(64, 64)), {}, LaunchError, ("@aligned", "K", "32", "40")),
    ("empty grid", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"grid": (1, 0)}, LaunchError, ("grid", "y = 0")),
    ("large grid", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"grid": (1, 65536)}, LaunchError, ("65535",)),
    ("grid rank", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"grid": (1, 1, 1, 1)}, LaunchError, ("1 to 3",)),
    ("grid float", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"grid": (1, 0.5)}, LaunchError, ("0.5", "int")),
    ("count", (zeros(64, 32), zeros(32, 64)), {}, LaunchError, ("3 arguments", "A, B, C", "found 2")),
    ("no array", ("A", zeros(32, 64), zeros(64, 64)), {}, PhobosError, ("argument A",)),
    ("form", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"form": "magic"}, UsageError, ("magic", "loops")),
    ("form on reference", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"form": "loops"}, UsageError, ("reference",)),
    ("arch", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"arch": "sm_99"}, UsageError, ("sm_99", "sm_86")),
    ("old arch", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"arch": "sm_75"}, UsageError, ("HMMA", "sm_80")),
    ("constant", (zeros(64, 32), zeros(32, 64), zeros(64, 64)), {"constants": {"TILE": 1}}, UsageError, ("TILE", "BM")),
]


@pytest.mark.parametrize(
    ("args", "options", "error", "words"), [row[1:] for row in LAUNCHES], ids=[r[0] for r in LAUNCHES]
)
def test_wrong_launch(args: Any, options: Any, error: type[PhobosError], words: tuple[str, ...]) -> None:
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with pytest.raises(error) as caught:
        launch(*args, **options)
    assert caught.value.exit_status == 2
    assert not [word for word in words if word not in str(caught.value)], str(caught.value)
    for now, then in zip(args, before):
        assert not isinstance(now, np.ndarray) or np.array_equal(now, then)


# what is wrong, the kernel, words of the message; the caret must stand under the word that the last entry names
KERNELS = [
    ("unknown name", "def k(A: ph.tensor[ph.f32][M]):\n    A[0:+4] = missing\n", ("missing",), "missing"),
    ("unknown builtin", "def k(A: ph.tensor[ph.f32][M]):\n    A[0:+4] = ph.expp(A[0:+4])\n", ("expp", "exp"), "ph"),
    ("no annotation", "def k(A):\n    A[0:+4] = 1.0\n", ("A", "type"), "A"),
    ("open slice", "def k(A: ph.tensor[ph.f32][M]):\n    A[0:] = 1.0\n", ("0:", "A[i:+n]"), "0:"),
    ("syntax", "def k(A: ph.tensor[ph.f32][M]):\n    A[0:+4 = 1.0\n", (), ""),
]


@pytest.mark.parametrize(("text", "words", "at"), [row[1:] for row in KERNELS], ids=[row[0] for row in KERNELS])
def test_wrong_kernel(tmp_path: Path, text: str, words: tuple[str, ...], at: str) -> None:
    file = tmp_path / "k.py"
    file.write_text(HEAD + text)
    with pytest.raises(KernelError) as caught:
        sim.load(file).k.program()
    error = caught.value
    assert error.exit_status == 2
    message, line, caret, *_ = str(error).splitlines()
    assert message.startswith(f"{file}:{error.span.line}:{error.span.column}: error: ")
    assert line.strip() == (HEAD + text).splitlines()[error.span.line - 1].strip()
    assert set(caret.strip()) == {"^"}
    assert line[caret.index("^") :].startswith(at)
    assert not [word for word in words if word not in str(error)], str(error)


def test_command_line_reports_a_wrong_kernel(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(HEAD + KERNELS[0][1])
    done = cli("compile", file, "--emit", "tile")
    assert done.returncode == 2
    assert f"{file}:7:" in done.stderr and "^" in done.stderr
    assert "Traceback" not in done.stderr and not done.stdout


def run(*args: object, **env: str) -> Any:
    return cli("run", MATMUL, "--grid", "1,1", "--dim", "M=64", "--dim", "N=64", "--dim", "K=32", *args, **env)


# arguments of `run`, exit status, words of the message
COMMANDS: list[tuple[str, tuple[str, ...], int, tuple[str, ...]]] = [
    ("unknown device", ("--device", "cuda"), 2, ("'cuda'", "vulkan")),
    ("device of no such name", ("--device", "vulkan:voodoo"), 4, ("voodoo",)),
    ("device of no such index", ("--device", "vulkan:99"), 4, ("99",)),
    ("unknown form", ("--form", "magic"), 2, ("magic", "loops")),
    ("unknown kernel", ("--kernel", "mul"), 2, ("'mul'", "matmul")),
    ("unknown argument", ("--arg", "D=zeros"), 2, ("D", "A, B, C")),
    ("file that is not there", ("--arg", "A=missing.npy"), 2, ("missing.npy",)),
    ("malformed setting", ("--set", "BM"), 2, ("NAME=VALUE",)),
    ("setting that is no number", ("--set", "BM=big"), 2, ("'big'", "integer")),
    ("unknown constant", ("--set", "TILE=64"), 2, ("TILE", "BM")),
    ("unknown dim", ("--dim", "Q=64"), 2, ("Q", "M, K, N")),
    ("unknown arch", ("--device", "reference", "--arch", "sm_1"), 2, ("sm_1", "sm_86")),
]


@pytest.mark.parametrize(("args", "status", "words"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_wrong_command(args: tuple[str, ...], status: int, words: tuple[str, ...]) -> None:
    if "--device" in args and status == 4:
        llvmpipe()
    done = run(*args)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr and not done.stdout
    assert not [word for word in words if word not in done.stderr], done.stderr


def test_vulkan_asked_for_where_there_is_none() -> None:
    done = run("--device", "vulkan", **NO_DRIVER)
    assert done.returncode == 4
    assert "mesa-vulkan-drivers" in done.stderr and "Traceback" not in done.stderr


def test_the_default_falls_to_the_reference_and_says_so() -> None:
    done = run("--json", "-", **NO_DRIVER)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["device"] == "reference"
    assert done.stderr.count("no usable Vulkan device") == 1


def test_device_from_the_environment_may_be_missing_too() -> None:
    assert run(PHOBOS_DEVICE="vulkan", **NO_DRIVER).returncode == 4
    assert run(PHOBOS_DEVICE="reference", **NO_DRIVER).returncode == 0


def test_ambiguous_device(tmp_path: Path) -> None:
    llvmpipe()
    found = [path for folder in ("/usr/share", "/etc") for path in Path(folder).glob("vulkan/icd.d/lvp_icd*.json")]
    if not found:
        pytest.skip("llvmpipe's driver file lies in an unusual folder")
    copy = tmp_path / "again.json"
    copy.write_text(found[0].read_text())
    both = f"{found[0]}:{copy}"
    done = run("--device", "vulkan:llvmpipe", VK_ICD_FILENAMES=both, VK_DRIVER_FILES=both)
    assert done.returncode == 2
    assert "ambiguous" in done.stderr and "vulkan:1" in done.stderr


def test_unknown_device_in_use() -> None:
    with pytest.raises(UsageError, match="'gpu'"):
        sim.use("gpu")
    llvmpipe()
    with pytest.raises(UnavailableError, match="voodoo"), sim.use(device="vulkan:voodoo"):
        pass


def test_usage_errors_of_the_command_line_itself() -> None:
    assert cli("fly").returncode == 2
    assert cli("run").returncode == 2
    assert cli("--version").stdout.strip() == f"phobos-sim {sim.__version__}"


def test_a_defect_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from phobos_sim import cli as command_line
    from phobos_sim.cli import app

    def build() -> Any:
        raise ZeroDivisionError("made up")

    monkeypatch.setattr(app, "build", build)
    monkeypatch.setenv("PHOBOS_LOG", "info")
    with pytest.raises(SystemExit) as caught:
        command_line.main()
    assert caught.value.code == command_line.INTERNAL_ERROR
    assert "made up" in capsys.readouterr().err
    monkeypatch.setenv("PHOBOS_LOG", "debug")
    with pytest.raises(ZeroDivisionError):
        command_line.main()


def test_an_unknown_log_level_is_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log._unknown.cache_clear()
    monkeypatch.setenv("PHOBOS_LOG", "loud")
    log.info("one")
    log.debug("two")
    said = capsys.readouterr().err
    assert said.count("PHOBOS_LOG=loud is none of off, info, debug") == 1 and "one" in said and "two" not in said
