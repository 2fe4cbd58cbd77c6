"""What a launch keeps and reports: digests when first read, and preparations that a later launch takes over."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import helpers
import numpy as np
import pytest
from phobos_sim.errors import LaunchError, Source, UsageError
from phobos_sim.lang.kernel import Kernel
from phobos_sim.lang.load import parse_source
from phobos_sim.launch import observed

TEXT = """
@launch(128)
@autotune(B in [64])
kernel scale(X: tensor<f32>[N], Y: tensor<f32>[N], a: f32, n: i32) {
  let i = ctx.block.x * B
  Y[i + n :+ B] = X[i :+ B] * a
}
"""


@pytest.fixture
def scale() -> Kernel:
    module = parse_source(Source("scale.ph", TEXT))
    return Kernel.from_tree("scale", module.span.source, module)


def arrays(n: int = 256) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def test_sha256_is_of_the_outputs_as_the_launch_left_them(scale: Kernel) -> None:
    x, y = arrays()
    launch = scale.launch((4,), x, y, 2.0, 0, device="reference")
    wanted = hashlib.sha256((2 * x).astype("<f4").tobytes()).hexdigest()
    y[:] = 0
    assert launch.sha256 == {"Y": wanted}
    assert not launch.outputs, "a digest that was read keeps no array"
    assert launch.sha256 == {"Y": wanted}


def test_observed_launches_hold_no_arrays(scale: Kernel) -> None:
    x, y = arrays()
    with observed() as launches:
        scale[(4,)](x, y, 2.0, 0, device="reference")
    (launch,) = launches
    y[:] = 0
    assert not launch.outputs
    assert launch.sha256["Y"] == hashlib.sha256((2 * x).astype("<f4").tobytes()).hexdigest()


# ---- what is no launch -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "options", "words"),
    [
        (lambda meta: meta["Q"], {}, "asks for 'Q'.*there are N, B"),
        (np.array([2, 2]), {}, "grid extent x is array"),
        ((np.ones(1),), {}, "grid extent x"),
        ((4,), {"constants": 5}, "constants of kernel scale are a dict"),
        ((4,), {"constants": [("B", 64)]}, "constants of kernel scale are a dict"),
        ((4,), {"arch": ["sm_86"]}, "unknown arch"),
        ((4,), {"progress": 3}, "progress is a function"),
    ],
)
def test_wrong_use_is_a_message(scale: Kernel, grid: Any, options: dict[str, Any], words: str) -> None:
    x, y = arrays()
    with pytest.raises((UsageError, LaunchError), match=words):
        scale.launch(grid, x, y, 2.0, 0, device="reference", **options)
    assert not y.any()


def test_a_grid_takes_no_memory(scale: Kernel) -> None:
    """The reference counts the CTAs of the largest grid one by one."""
    x, y = arrays()

    def stop(done: int, count: int) -> None:
        assert (done, count) == (1, (2**31 - 1) * 65535)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scale.launch((2**31 - 1, 65535), x, y, 2.0, 0, device="reference", progress=stop)
    assert not y.any()


# ---- a launch like an earlier one ------------------------------------------------------------------------------


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every analysis that launches on a device make."""
    from phobos_sim.tile import facts

    seen: list[Any] = []
    analyse = facts.analyse

    def counted(*args: Any) -> Any:
        seen.append(args)
        return analyse(*args)

    monkeypatch.setattr(facts, "analyse", counted)
    yield seen


def test_a_launch_like_an_earlier_one_prepares_nothing(scale: Kernel, prepared: list[Any]) -> None:
    device = helpers.llvmpipe()
    x, y = arrays()
    scale.launch((4,), x, y, 2.0, 0, device=device)
    prepared.clear()
    for factor in (3.0, 5.0):
        scale.launch((4,), x + 1, y, factor, 0, device=device)
        helpers.assert_codes(y, (x + 1) * np.float32(factor))
    assert not prepared


@pytest.mark.parametrize("what", ["extents", "grid", "grid shape", "integer", "alias", "form", "arch", "instructions"])
def test_whatever_a_shader_depends_on_prepares_anew(what: str, scale: Kernel, prepared: list[Any]) -> None:
    device = helpers.llvmpipe()
    x, y = arrays()
    scale.launch((4,), x, y, 2.0, 0, device=device)
    prepared.clear()
    n, grid, options = 0, (4,), {"device": device}
    match what:
        case "extents":
            x, y = arrays(250)
        case "grid":
            grid = (3,)
        case "grid shape":
            grid = (1, 4)
        case "integer":
            n = 7
        case "alias":
            y = x
        case "form":
            options["form"] = "shared"
        case "arch":
            options["arch"] = "sm_80"
        case "instructions":
            options["instructions"] = "integer"
    wanted = y.copy()
    source = x.copy()
    scale.launch(grid, source, source if what == "alias" else wanted, 2.0, n, device="reference")
    scale.launch(grid, x, y, 2.0, n, **options)
    helpers.assert_codes(y, source if what == "alias" else wanted, what)
    assert prepared
