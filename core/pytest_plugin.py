"""pytest plugin (entry point `phobos_sim`): bit-exact assertions, a device and recordings for tests of other projects.

Options
    --phobos-device NAME        device of the fixtures: reference (default), vulkan, vulkan:llvmpipe, ...
    --phobos-recordings PATH    a set or a folder of sets; may be repeated; default: this project's own
Fixtures
    assert_bits_equal           function: fails with counts by class, the first and the worst difference
    phobos_device               the device's name; skips the test where it is not there
    phobos_recordings           the checked sets, as `phobos_sim.recordings.loader.Recording`
    phobos_score                function: scores sets on the device, or against a callable, and fails on a difference
    phobos_row                  parametrised: one test per row of every set (request it as an argument)
Nothing is shared between processes, so xdist may split the tests in any way. Nothing of this package is imported
before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .recordings.loader import Recording


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options."""
    group = parser.getgroup("phobos-sim")
    group.addoption("--phobos-device", default="reference", metavar="NAME", help="device of the phobos fixtures")
    group.addoption(
        "--phobos-recordings",
        action="append",
        default=[],
        metavar="PATH",
        help="recordings of the phobos fixtures: an npz or a folder; may be repeated",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`phobos_row`: one test per row, named set:row, collected from the manifests alone."""
    if "phobos_row" in metafunc.fixturenames:
        rows = [
            (path, row.name, f"{path.parent.name}/{path.stem}:{row.name}")
            for path in _paths(metafunc.config)
            for row in _rows(path)
        ]
        metafunc.parametrize("phobos_row", [row[:2] for row in rows], ids=[row[2] for row in rows], indirect=True)


def _paths(config: pytest.Config) -> list[Path]:
    from .recordings import home, loader

    chosen = [Path(text) for text in config.getoption("--phobos-recordings")]
    return loader.find(chosen or [home()])


def _rows(path: Path) -> Any:
    from .recordings import loader

    return loader.manifest_of(path).rows


def assert_equal(actual: Any, expected: Any, fmt: str | None = None, what: str = "") -> None:
    """Fail unless two arrays are equal code by code; fmt names the format of unsigned codes (``bf16``, ...)."""
    __tracebackhide__ = True
    from .compare import compare

    outcome = compare(actual, expected, fmt)
    if not outcome.identical:
        pytest.fail(f"{what + ': ' if what else ''}{outcome}", pytrace=False)


@pytest.fixture(scope="session")
def assert_bits_equal() -> Callable[..., None]:
    """``assert_bits_equal(actual, expected, fmt=None, what="")``."""
    return assert_equal


@pytest.fixture(scope="session")
def phobos_device(request: pytest.FixtureRequest) -> str:
    """The device that --phobos-device names, or a skip where this machine does not have it."""
    from . import choose
    from .errors import UnavailableError

    name = str(request.config.getoption("--phobos-device"))
    try:
        choose.resolve(name)
    except UnavailableError as fault:
        pytest.skip(f"--phobos-device {name}: {fault}")
    return name


@pytest.fixture(scope="session")
def phobos_recordings(request: pytest.FixtureRequest) -> list[Recording]:
    """Every set, checked against its manifest."""
    from .recordings import loader

    return [loader.load(path) for path in _paths(request.config)]


@pytest.fixture(scope="session")
def phobos_score(request: pytest.FixtureRequest, phobos_device: str) -> Callable[..., Any]:
    """``phobos_score(paths, against=None, **options)``: the Score; fails the test where a code differs.

    against: a function f(instruction, arch, *codes) -> codes to score instead of the device. options: those of
    `phobos_sim.scoreboard.evaluate.Options`.
    """

    def run(paths: list[Path | str], against: Callable[..., Any] | None = None, **options: Any) -> Any:
        __tracebackhide__ = True
        from .scoreboard.engines import Function, Simulator
        from .scoreboard.evaluate import Options, score
        from .scoreboard.report import failures, headline

        engine = Function(getattr(against, "__name__", "function"), against) if against else Simulator(phobos_device)
        outcome = score([Path(path) for path in paths], engine, Options(**{"kill": False, **options}))
        if not outcome.passed:
            pytest.fail("\n".join([headline(outcome), *failures(outcome)]), pytrace=False)
        return outcome

    return run


@pytest.fixture
def phobos_row(request: pytest.FixtureRequest) -> tuple[Recording, Any]:
    """(checked set, row): the test runs once per row."""
    from .recordings import loader

    path, name = request.param
    recording = loader.load(path)
    return recording, next(row for row in recording.manifest.rows if row.name == name)
