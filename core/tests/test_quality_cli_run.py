"""`phobos-sim run`: every option does what the help says, and every bad one is one message with exit status 2."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import ROOT, cli, llvmpipe
from phobos_sim.cli import grids
from phobos_sim.errors import UsageError
from phobos_sim.lang.load import load
from typer.testing import CliRunner

SAXPY = ROOT / "examples" / "saxpy.py"
ONE = ("--dim", "N=1024", "--grid", "1", "--arg", "alpha=2", "--device", "reference")

KERNELS = """
from __future__ import annotations
import phobos.lang as ph


@ph.kernel(key=["M"])
@ph.autotune(R=[4, 2, 16])
def total(X: ph.tensor[ph.f32][M, 64], Y: ph.tensor[ph.f32][M, 1]):
    r: ph.let = ph.ctx.block.x * R
    Y[r:+R, :] = ph.rowsum(X[r:+R, :])


@ph.kernel
def meet(Y: ph.tensor[ph.i32][N]):
    Y[0] = ph.ctx.block.x


@ph.kernel
def types(H: ph.tensor[ph.bf16][N], D: ph.tensor[ph.f64][N], B: ph.tensor[ph.i8][N], L: ph.tensor[ph.i64][N],
          h: ph.f16, n: ph.i32):
    H[0] = h
    D[0] = 0.5
    B[0] = n
    L[0] = n
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("kernels") / "kernels.py"
    file.write_text(KERNELS)
    return file


def run(*args: object, status: int = 0) -> str:
    """stdout of a run in this process (stderr where it fails)."""
    from phobos_sim.cli.app import build
    from phobos_sim.errors import PhobosError

    done = CliRunner().invoke(build(), ["run", *map(str, args)])
    if isinstance(done.exception, PhobosError):
        assert done.exception.exit_status == status, done.exception
        assert not done.stdout, "something was printed before the error"
        return str(done.exception)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == status, done.output
    return done.stdout if status == 0 else done.output


def data(*args: object) -> dict[str, Any]:
    return json.loads(run(*args, "--json", "-"))  # type: ignore[no-any-return]


# ---- what is printed and written ---------------------------------------------------------------------------------


def test_the_table_of_outputs(tmp_path: Path) -> None:
    done = cli("run", SAXPY, *ONE, "--out", tmp_path / "new" / "folder")
    assert done.returncode == 0 and not done.stderr
    z = np.load(tmp_path / "new" / "folder" / "Z.npy")
    digest = hashlib.sha256(z.tobytes()).hexdigest()
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:4] == ["saxpy:", "device", "reference,", "1"] and "1 x 1 x 1 CTAs" in done.stdout
    assert lines[1] == ["constants", "BLOCK=1024"]
    assert lines[2] == ["output", "type", "shape", "sha256", "file"]
    assert lines[3] == ["Z", "f32", "1024", digest, str(tmp_path / "new" / "folder" / "Z.npy")]


def test_the_paths_of_dots_are_shown() -> None:
    args = ("--dim", "M=64", "--dim", "N=64", "--dim", "K=32", "--grid", "1,1", "--device", "reference")
    assert "HMMA.16816.F32: " in run(ROOT / "examples" / "matmul.py", *args)


def test_json_holds_the_launch(tmp_path: Path) -> None:
    found = data(SAXPY, *ONE, "--seed", "5")
    assert found["kernel"] == "saxpy" and found["device"] == "reference" and found["grid"] == [1, 1, 1]
    assert found["constants"] == {"BLOCK": 1024} and found["seed"] == 5 and found["files"] == {}
    assert found["tuning"] is None and not found["outputs"] and len(found["sha256"]["Z"]) == 64
    text = run(SAXPY, *ONE, "--json", tmp_path / "r.json")
    assert "sha256" in text and json.loads((tmp_path / "r.json").read_text())["sha256"] != found["sha256"]


def test_seeds_change_random_arrays_and_only_those() -> None:
    x = {seed: data(SAXPY, *ONE, "--seed", seed)["sha256"]["Z"] for seed in (0, 1)}
    assert x[0] != x[1]
    zeros = [data(SAXPY, *ONE, "--seed", s, "--arg", "X=zeros", "--arg", "Y=zeros")["sha256"]["Z"] for s in (0, 1)]
    assert zeros[0] == zeros[1] == hashlib.sha256(bytes(4096)).hexdigest()


def test_arrays_come_from_files_of_any_layout_and_give_their_dims(tmp_path: Path) -> None:
    x = np.arange(2048, dtype=np.float32)
    np.save(tmp_path / "x.npy", x.astype(">f4"))
    args = ("--grid", "N//BLOCK", "--arg", "alpha=2", "--arg", "Y=zeros", "--device", "reference", "--out", tmp_path)
    run(SAXPY, "--arg", f"X={tmp_path / 'x.npy'}", *args)
    assert (np.load(tmp_path / "Z.npy") == 2 * x).all()
    matmul = ROOT / "examples" / "matmul.py"
    np.save(tmp_path / "a.npy", np.asfortranarray(np.tri(64, dtype=np.float16)))
    np.save(tmp_path / "b.npy", np.eye(64, dtype=np.float16))
    files = ("--arg", f"A={tmp_path / 'a.npy'}", "--arg", f"B={tmp_path / 'b.npy'}")
    run(matmul, *files, "--grid", "1,1", "--device", "reference", "--out", tmp_path)
    assert (np.load(tmp_path / "C.npy") == np.tri(64)).all()


def test_every_type_is_generated_written_and_read(kernels: Path, tmp_path: Path) -> None:
    args = (kernels, "--kernel", "types", "--arg", "h=1.5", "--arg", "n=0x7", "--grid", "1", "--device", "reference")
    made = [part for name in "HDBL" for part in ("--arg", f"{name}=random")]
    run(*args, "--dim", "N=64", *made, "--out", tmp_path)
    h, d, b, small = (np.load(tmp_path / f"{name}.npy") for name in "HDBL")
    assert h.dtype == np.uint16 and h.view(ml_dtypes.bfloat16)[0] == 1.5 and len(np.unique(h)) > 20
    assert (d.dtype, b.dtype, small.dtype) == (np.float64, np.int8, np.int64)
    assert d[0] == 0.5 and b[0] == small[0] == 7 and np.abs(small).max() <= 1000 and np.abs(d).max() <= 0.5
    again = [part for name in "HDBL" for part in ("--arg", f"{name}={tmp_path / f'{name}.npy'}")]
    text = run(*args, *again)
    assert hashlib.sha256(h.tobytes()).hexdigest() in text


def test_constants_are_set() -> None:
    args = ("--dim", "N=1024", "--grid", "N//BLOCK", "--arg", "alpha=2", "--device", "reference")
    assert data(SAXPY, *args, "--set", "BLOCK=256")["grid"] == [4, 1, 1]


def test_a_kernel_with_a_key_is_searched_unless_constants_are_set(kernels: Path, tmp_path: Path) -> None:
    args = (kernels, "--kernel", "total", "--dim", "M=256", "--grid", "M//R", "--device", "reference")
    done = cli("run", *args, PHOBOS_CACHE=str(tmp_path))
    assert done.returncode == 0
    assert "R=16" in done.stdout and " differs " in done.stdout and done.stdout.count("autotune: ") == 1
    found = json.loads(cli("run", *args, "--json", "-", PHOBOS_CACHE=str(tmp_path)).stdout)
    assert found["tuning"]["source"] == "disk" and [v["verdict"] for v in found["tuning"]["variants"]] == [
        "equal", "equal", "differs",
    ]  # fmt: skip
    chosen = data(*args, "--set", "R=16")
    assert chosen["tuning"] is None and chosen["constants"] == {"R": 16} and chosen["sha256"] != found["sha256"]


def test_forms_and_devices_agree() -> None:
    args = ("--dim", "N=5000", "--grid", "(N+BLOCK-1)//BLOCK", "--arg", "alpha=0.3")
    name = llvmpipe()
    found = [data(SAXPY, *args, "--device", "reference")]
    found += [data(SAXPY, *args, "--device", name, "--form", form) for form in ("registers", "shared")]
    assert [entry["form"] for entry in found] == [None, "registers", "shared"]
    assert len({entry["sha256"]["Z"] for entry in found}) == 1


# ---- debug modes -------------------------------------------------------------------------------------------------


def test_a_shuffled_order_and_a_report_of_races(kernels: Path, tmp_path: Path) -> None:
    args = (kernels, "--kernel", "meet", "--dim", "N=1", "--grid", "16", "--out", tmp_path)
    values = set()
    for seed in range(4):
        text = run(*args, "--shuffle", seed)
        assert "device reference" in text and f"shuffled by seed {seed}" in text
        values.add(int(np.load(tmp_path / "Y.npy")[0]))
    assert len(values) > 1
    message = run(*args, "--races", status=2)
    assert "a race: CTA (1, 0, 0) writes Y[0], which CTA (0, 0, 0) wrote at line 15" in message
    assert f"{kernels}:15:5: error: " in message and "Y[0] = ph.ctx.block.x" in message
    run(*args[:-4], "--grid", "1", "--races", "--shuffle", "1")
    run(SAXPY, *ONE, "--races")


def test_debug_modes_on_a_vulkan_device_are_wrong_use(kernels: Path) -> None:
    for option in (("--races",), ("--shuffle", "1")):
        args = (kernels, "--kernel", "meet", "--dim", "N=1", "--grid", "1", "--device", llvmpipe())
        assert "device='reference'" in run(*args, *option, status=2)


# ---- the grid ----------------------------------------------------------------------------------------------------


def test_a_missing_grid_is_asked_for_with_an_example() -> None:
    message = run(ROOT / "examples" / "matmul.py", status=2)
    assert "--grid is missing" in message and "dims (M, K, N)" in message and "BM=64, BN=64, BK=32" in message
    assert message.endswith("For example: --grid M//BM,N//BN")


@pytest.mark.parametrize(
    ("file", "name", "expected"),
    [
        ("saxpy.py", "saxpy", "'(N+BLOCK-1)//BLOCK'"),
        ("matmul_f32.py", "matmul_f32", "'(M+BM-1)//BM,(N+BN-1)//BN'"),
        ("flash_attention_f16.py", "flash_attention_f16", "Nq//BR"),
        ("gated_linear_attention.py", "gated_linear_attention", "DV//BV"),
    ],
)
def test_the_example_gives_each_cta_a_tile(file: str, name: str, expected: str) -> None:
    kernel = load(ROOT / "examples" / file).kernels[name]
    assert grids.example(kernel, kernel.program()) == expected


def test_examples_of_grids_without_constants_or_tiles(kernels: Path, tmp_path: Path) -> None:
    module = load(kernels)
    assert grids.example(module.meet, module.meet.program()) == "1"
    file = tmp_path / "k.ph"
    file.write_text("kernel k(X: tensor<f32>[M, 64]) {\n  X[ctx.block.x :+ 1, ctx.block.y * 8 :+ 8] = 0.0\n}\n")
    kernel = load(file).k
    assert grids.example(kernel, kernel.program()) == "M,8"


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("M//BM", 3), ("(M + BM-1)//BM", 4), ("M%BM", 1), ("-M + 2*BM*4", 39), (" M ", 25), ("0x10", 16)],
)
def test_formulas(text: str, value: int) -> None:
    assert grids.formula("--grid", text, {"M": 25, "BM": 8}) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "M/2", "M**2", "M.x", "f(M)", "[M]", "M if M else 1", "True", "1.5", "'1'", "M//0", "M%0", "Q", "(" * 400,
     "M;M", "lambda: 1", "M := 2", "-" * 3000 + "1"],
)  # fmt: skip
def test_what_is_no_formula_is_wrong_use(text: str) -> None:
    with pytest.raises(UsageError, match="^--grid"):
        grids.formula("--grid", text, {"M": 4})


# ---- bad options -------------------------------------------------------------------------------------------------

# what is wrong, options (put behind those of ONE, without those of the same name), words of the message
BAD: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    ("kernel", ("--kernel", "axpy"), ("'axpy'", "saxpy")),
    ("dim without value", ("--dim", "N"), ("--dim N", "NAME=VALUE")),
    ("dim that is no number", ("--dim", "N=many"), ("--dim N=many", "integer")),
    ("dim given twice", ("--dim", "N=4", "--dim", "N=8"), ("N was already given as 4",)),
    ("negative dim", ("--dim", "N=-4"), ("--dim N=-4", "not negative")),
    ("unknown dim", ("--dim", "N=4", "--dim", "M=4"), ("--dim M", "dims N")),
    ("dim that is a constant", ("--dim", "N=4", "--dim", "BLOCK=4"), ("@autotune constant", "--set BLOCK=4")),
    ("missing dim", ("--dim", ""), ("NAME=VALUE",)),
    ("dim above the memory", ("--dim", f"N={1 << 50}"), ("memory", "smaller dims")),
    ("dim above what numpy counts", ("--dim", f"N={1 << 70}"), ("memory", "smaller dims")),
    ("unknown argument", ("--arg", "W=zeros"), ("--arg W", "X, Y, Z, alpha")),
    ("argument of another kind", ("--arg", "X=ones"), ("--arg X=ones", "random, zeros or a .npy file")),
    ("missing scalar", ("--arg", "X=zeros"), ("what is alpha", "--arg alpha=NUMBER")),
    ("scalar that is no number", ("--arg", "alpha=random"), ("alpha is a scalar", "'random'")),
    ("file that is not there", ("--arg", "X=gone.npy"), ("--arg X=gone.npy: cannot be read: no such file",)),
    ("folder as a file", ("--arg", "X={tmp}/folder.npy"), ("--arg X=", "cannot be read")),
    ("empty file", ("--arg", "X={tmp}/empty.npy"), ("--arg X=", "not an npy file")),
    ("file of objects", ("--arg", "X={tmp}/objects.npy"), ("--arg X=", "holds pickled objects")),
    ("file that is none", ("--arg", "X={tmp}/noise.npy"), ("--arg X=", "not an npy file")),
    ("file of another type", ("--dim", "N=4", "--arg", "X={tmp}/halves.npy", "--arg", "alpha=1"),
     ("argument X", "f32", "f16")),
    ("file of another rank", ("--arg", "X={tmp}/square.npy", "--arg", "alpha=1"), ("argument X", "rank 1", "(4, 4)")),
    ("file and dim disagree", ("--arg", "X={tmp}/four.npy", "--dim", "N=8"), ("--dim N=8", "X has N = 4")),
    ("two files disagree", ("--arg", "X={tmp}/four.npy", "--arg", "Y={tmp}/five.npy", "--arg", "alpha=1", "--dim"),
     ("N is 4 (axis 0 of X) and 5 (axis 0 of Y)",)),
    ("set without value", ("--set", "BLOCK"), ("--set BLOCK", "NAME=VALUE")),
    ("set of no number", ("--set", "BLOCK=big"), ("--set BLOCK=big", "integer")),
    ("set of no constant", ("--set", "N=4"), ("no autotune constant 'N'", "BLOCK")),
    ("grid formula", ("--grid", "N/BLOCK"), ("--grid N/BLOCK", "//")),
    ("grid of an unknown name", ("--grid", "Q"), ("--grid Q", "known: N, BLOCK")),
    ("grid of four", ("--grid", "1,1,1,1"), ("1 to 3",)),
    ("empty grid extent", ("--grid", "N//2048"), ("the grid is empty", "x = 0")),
    ("grid of nothing", ("--grid", "1,"), ("--grid", "not a formula")),
    ("grid above the limit", ("--grid", f"{1 << 31}"), ("CUDA's limit",)),
    ("negative seed", ("--seed", "-1"), ("--seed -1", "not negative")),
    ("negative shuffle", ("--shuffle", "-1"), ("--shuffle -1", "not negative")),
    ("arch", ("--arch", "sm_10"), ("'sm_10'", "sm_86")),
    ("form", ("--form", "magic"), ("'magic'", "registers")),
    ("form on the reference", ("--form", "loops"), ("form='loops'", "reference")),
    ("device", ("--device", "gpu"), ("'gpu'", "doctor")),
    ("out is a file", ("--out", "{tmp}/four.npy"), ("--out", "cannot be made")),
    ("json into no folder", ("--json", "{tmp}/none/x.json"), ("--json", "cannot write there: no folder")),
    ("json onto a folder", ("--json", "{tmp}"), ("--json", "cannot write there: a folder")),
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "four.npy", np.zeros(4, np.float32))
    np.save(folder / "five.npy", np.zeros(5, np.float32))
    np.save(folder / "square.npy", np.zeros((4, 4), np.float32))
    np.save(folder / "halves.npy", np.zeros(4, np.float16))
    np.save(folder / "objects.npy", np.array([{}], object), allow_pickle=True)
    (folder / "empty.npy").write_bytes(b"")
    (folder / "noise.npy").write_bytes(b"no array at all")
    (folder / "folder.npy").mkdir()
    return folder


@pytest.mark.parametrize(("options", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_option_is_one_message(options: tuple[str, ...], words: tuple[str, ...], files: Path) -> None:
    given = [option.replace("{tmp}", str(files)) for option in options]
    kept = [part for name, value in zip(ONE[::2], ONE[1::2]) if name not in given for part in (name, value)]
    if given[-1] == "--dim":
        given.pop()
    message = run(SAXPY, *kept, *given, status=2)
    assert not [word for word in words if word not in message], message


@pytest.mark.parametrize("options", [("--seed", "x"), ("--shuffle", "1.5"), ("--colour", "1"), ("--races", "1", "2")])
def test_what_the_command_line_itself_refuses(options: tuple[str, ...]) -> None:
    assert run(SAXPY, *ONE, *options, status=2)


@pytest.mark.parametrize(
    ("file", "words"),
    [("gone.py", "no such file"), ("folder.py", "a folder"), ("notes.md", ".py or .ph"), ("bad.py", "error")],
)
def test_a_bad_file(file: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "notes.md").write_text("")
    (tmp_path / "bad.py").write_text("import phobos.lang as ph\n\n\n@ph.kernel\ndef k(X):\n    X[0] = \n")
    assert words in run(tmp_path / file, "--grid", "1", status=2)


def test_a_launch_that_cannot_be_written_is_not_run(monkeypatch: pytest.MonkeyPatch, files: Path) -> None:
    monkeypatch.setattr("phobos_sim.launch.execute", lambda *_: pytest.fail("it ran"))
    run(SAXPY, *ONE, "--out", files / "four.npy", status=2)
    run(SAXPY, *ONE, "--json", files / "none" / "x.json", status=2)
