"""`mode="cooperative"`: exactness given up by name, labelled in every result, and never where nobody asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import phobos_sim as sim
import pytest
from helpers import assert_codes, cli
from phobos_sim.cli.options import describe
from phobos_sim.errors import UsageError
from runtime_samples import device_name

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sim.load(ROOT / "benchmarks" / "kernels.py")
DTYPES = {"f16": np.float16, "f32": np.float32, "s8": np.int8, "s32": np.int32}
SIZE = 64
FLOATS = ["hmma_f32", "hmma_f16", "ffma", "ffma_f16", "hfma2"]

pytestmark = pytest.mark.device


def run(name: str, values: np.ndarray, **options: object) -> tuple[np.ndarray, sim.Launch]:
    """Codes and report of one product of two arrays with the same values."""
    kernel = getattr(KERNELS, name)
    a, b, c = kernel.program().tensors
    out = np.zeros((SIZE, SIZE), DTYPES[c.element.name])
    operands = (values.astype(DTYPES[t.element.name]) for t in (a, b))
    launch = kernel.launch((1, 1), *operands, out, **options)
    return out.view(f"uint{c.element.bits}"), launch


def small_integers() -> np.ndarray:
    """Whatever the order and the rounding, every product and sum of these is exact, also in f16."""
    return np.random.default_rng(1).integers(-3, 4, (SIZE, SIZE))


def fractions() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((SIZE, SIZE))


@pytest.mark.parametrize("form", ["registers", "shared"])
@pytest.mark.parametrize("name", FLOATS)
def test_what_needs_no_rounding_is_right(name: str, form: str) -> None:
    expected, _ = run(name, small_integers(), device="reference")
    found, launch = run(name, small_integers(), device=device_name(), form=form, mode="cooperative")
    assert_codes(found, expected)
    assert not launch.exact  # equal by luck of the data is no promise


@pytest.mark.parametrize("name", ["hmma_f32", "hmma_f16"])
def test_the_arithmetic_is_another_one(name: str) -> None:
    expected, exact = run(name, fractions(), device=device_name())
    found, _ = run(name, fractions(), device=device_name(), mode="cooperative")
    assert exact.exact and exact.inexact == {}
    assert np.count_nonzero(found != expected)


def test_every_report_says_so() -> None:
    _, launch = run("hmma_f32", fractions(), device=device_name(), mode="cooperative")
    assert list(launch.inexact) == ["HMMA.16816.F32"]
    assert launch.form is not None and launch.form.endswith(", inexact")
    assert launch.paths[0].instruction.startswith("INEXACT ") and "HMMA.16816.F32" in launch.paths[0].reason
    assert launch.notes[0].startswith("INEXACT") and "HMMA.16816.F32" in launch.notes[0]
    assert describe(launch)["exact"] is False


def test_the_command_line_says_so(tmp_path: Path) -> None:
    source = ROOT / "benchmarks" / "kernels.py"
    arguments = ["run", str(source), "--kernel", "hmma_f32", "--grid", "1,1", "--device", device_name()]
    arguments += [part for dim in "MNK" for part in ("--dim", f"{dim}={SIZE}")]
    for mode, labelled in (("cooperative", True), ("exact", False)):
        report = tmp_path / f"{mode}.json"
        shown = cli(*arguments, "--mode", mode, "--json", report)
        assert shown.returncode == 0, shown.stderr
        assert ("INEXACT" in shown.stdout) == labelled
        assert json.loads(report.read_text())["exact"] is not labelled


def test_integer_dots_stay_exact() -> None:
    values = np.random.default_rng(3).integers(-128, 128, (SIZE, SIZE))
    expected, _ = run("imma", values, device="reference")
    found, launch = run("imma", values, device=device_name(), mode="cooperative")
    assert_codes(found, expected)
    assert launch.exact and launch.inexact == {} and "inexact" not in str(launch.form)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"mode": "fast"}, "unknown mode 'fast'"),
        ({"mode": "cooperative", "form": "loops"}, "recorded exact form"),
        ({"mode": "cooperative", "device": "reference"}, "the reference backend is exact always"),
    ],
)
def test_wrong_use(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run("hmma_f32", fractions(), **{"device": device_name(), **options})
