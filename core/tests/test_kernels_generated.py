"""Generated kernels: whatever well-typed program comes up, the reference and the Vulkan device store the same codes.

200 small programs in every run, 2,000 larger ones with `-m slow`, from fixed seeds. Each seed gives the simplest
program and eight fresh ones: in longer runs hypothesis would try variants of what it has seen. A failure shows the
program, shrunk.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import hypothesis
import kernel_runs as kr
import pytest
from helpers import llvmpipe
from hypothesis import HealthCheck, settings
from program_strategies import Case, programs

FRESH = 8
PLAIN = settings(
    max_examples=1 + FRESH,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
)


def agree(case: Case, every_form: bool) -> None:
    """The device's own choice and, if that is registers or `every_form`, workgroups; numbers of several kinds."""
    mark = crc32(case.text.encode())
    kind = ("edge", "edge", "plain", "small")[mark % 4]
    args = kr.arguments(case.kernel, case.dims, *case.scalars, seed=mark, kind=kind)
    expected = kr.reference(case.kernel, case.grid, args)
    launched, after = kr.on_device(case.kernel, case.grid, args, llvmpipe())
    kr.same(after, expected, f"form {launched.form}, {kind} numbers")
    if every_form or launched.form == "registers":
        _, after = kr.on_device(case.kernel, case.grid, args, llvmpipe(), "shared")
        kr.same(after, expected, f"form shared, {kind} numbers")


def run(seeds: Iterable[int], small: bool) -> int:
    """Runs the programs of some seeds; how many there were."""
    seen: set[str] = set()

    @PLAIN
    @hypothesis.given(programs(small))
    def check(case: Case) -> None:
        if case.text not in seen:
            agree(case, every_form=not small)
            seen.add(case.text)

    for seed in seeds:
        hypothesis.seed(seed)(check)()
    return len(seen)


@pytest.mark.parametrize("part", range(5))
def test_generated_programs_agree(part: int) -> None:
    assert run(range(5 * part, 5 * part + 5), small=True) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("part", range(25))
def test_two_thousand_generated_programs_agree(part: int) -> None:
    assert run(range(1000 + 10 * part, 1010 + 10 * part), small=False) >= 80
