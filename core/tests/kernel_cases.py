"""Launches of the kernels in core/tests/kernels/ as data: what the test_kernels_* files hold on every form and device.

One list per file of kernels. Extents are small and mostly ragged; a case names what it is there for where its kernel's
docstring does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kernel_runs as kr
import numpy as np


@dataclass(frozen=True)
class Case:
    """One launch. kind: of the numbers (kernel_runs.numbers). arguments: makes them where the types alone do not.

    registers: whether form="registers" must take it on subgroups of 8. wide: it takes 64-bit integers on the device.
    """

    file: str
    kernel: str
    grid: tuple[int, ...]
    dims: Mapping[str, int] = field(default_factory=dict)
    scalars: tuple[Any, ...] = ()
    constants: Mapping[str, int] = field(default_factory=dict)
    kind: str = "edge"
    arguments: Callable[[], list[Any]] | None = None
    registers: bool = True
    wide: bool = False

    @property
    def id(self) -> str:
        numbers = [f"{name}{value}" for name, value in {**self.constants, **self.dims}.items()]
        own = [] if self.arguments is None else ["own"]
        kind = [] if self.kind == "edge" else [self.kind]
        return "-".join([self.kernel, *numbers, *map(str, self.scalars), *kind, *own])

    def load(self) -> Any:
        return getattr(kr.module(self.file), self.kernel)

    def make(self) -> list[Any]:
        if self.arguments is not None:
            return self.arguments()
        return kr.arguments(self.load(), self.dims, *self.scalars, constants=self.constants, kind=self.kind)

    def agree(self, **options: Any) -> list[Any]:
        options.setdefault("registers", self.registers)
        return kr.agree(self.load(), self.grid, self.make(), constants=self.constants, **options)


def _case(file: str) -> Callable[..., Case]:
    def make(kernel: str, grid: tuple[int, ...], *scalars: Any, **rest: Any) -> Case:
        own = {name: rest.pop(name) for name in tuple(rest) if name in Case.__dataclass_fields__}
        return Case(file, kernel, grid, rest, scalars, **own)

    return make


# ---- products: M, N and K are multiples of no tile -----------------------------------------------------------------

_p = _case("products")
_RAGGED = {"M": 37, "N": 35, "K": 29}

PRODUCTS = [
    _p("f32_fma", (1, 1), M=16, N=16, K=8),
    _p("f32_fma", (2, 2), M=23, N=19, K=13),
    _p("f32_fma", (1, 3), M=1, N=40, K=7),
    _p("f32_fma", (3, 1), M=33, N=5, K=0),
    _p("f32_fma_t", (3, 3), **_RAGGED),
    _p("f32_tensorcore", (2, 2), **_RAGGED),
    _p("f16_fma", (3, 3), **_RAGGED),
    _p("f16_gemm", (1, 2), M=32, N=64, K=48),
    _p("f16_gemm_epilogue", (1, 2), 0.3, -1.7, M=32, N=64, K=48),
    _p("f16_into_f32", (3, 3), **_RAGGED),
    _p("f16_tensorcore", (2, 2), kind="plain", **_RAGGED),
    _p("f16_tensorcore", (2, 2), **_RAGGED),  # after the plain one: a launch that is reused looks at its data again
    _p("f16_tensorcore_t", (2, 2), **_RAGGED),
    _p("mixed_fma", (3, 3), **_RAGGED),
    _p("mixed_tensorcore", (2, 2), **_RAGGED),
    _p("bf16_fma", (3, 3), **_RAGGED),
    _p("bf16_into_f32", (3, 3), **_RAGGED),
    _p("f64_fma", (2, 2), M=13, N=11, K=13, wide=True),
    _p("i8_blocks", (3, 3), **_RAGGED),  # IMMA.8816
    _p("i8_blocks", (3, 3), M=25, N=30, K=50, constants={"BM": 12, "BN": 12, "BK": 12}),  # IDP.4A
    _p("i8_blocks", (3, 3), M=25, N=30, K=50, constants={"BM": 12, "BN": 12, "BK": 6}),  # IMAD
    _p("i8_blocks", (2, 4), M=2, N=30, K=50, constants={"BM": 1, "BN": 8}),  # a row alone: IDP.4A
    _p("u8_by_i8", (3, 3), **_RAGGED),
    _p("i8_dot", (5, 5), **_RAGGED),
    _p("i32_dot", (5, 5), **_RAGGED),
    _p("i64_dot", (2, 2), M=13, N=11, K=13, wide=True),
    _p("computed_operands", (2,), M=20),
    _p("wide_scores", (2,), M=20),
    # wider than what lanes hold, no whole blocks: lanes would unroll it, so it goes to memory
    _p("wide_scores", (2,), M=20, constants={"C": 68, "W": 8}, registers=False),
    _p("matrix_vector", (1,), K=20),
    _p("one_column", (1,), K=20),
    _p("outer", (1,)),
    _p("powers", (1,), 3),
    _p("seeds", (1,)),
    _p("accumulate", (2, 2), M=32, N=20, K=0, kind="hard"),  # no trip: C keeps payloads and -0
    _p("accumulate", (2, 2), M=32, N=20, K=40),
]

# ---- rows ----------------------------------------------------------------------------------------------------------

_r = _case("rows")


def _reductions() -> list[Case]:
    """Lanes 32, 16, 8, 4, 2 and serial (D.6), columns fewer than lanes, and neither multiples nor divisors of them."""
    cases = []
    for threads, rows in (
        (256, 1),
        (256, 3),
        (256, 16),
        (256, 24),
        (256, 48),
        (256, 100),
        (128, 8),
        (128, 5),
        (128, 48),
    ):
        for columns in (5, 32, 33) if rows in (3, 16, 5) else (33,):
            constants = {"R": rows, "C": columns}
            cases.append(_r(f"sums_{threads}", (2,), M=rows + 1, N=columns, constants=constants, registers=False))
    cases.append(_r("sums_256", (2,), M=7, N=64, constants={"C": 64}))
    cases.append(_r("sums_128", (2,), M=15, N=64, constants={"R": 8, "C": 64}))
    cases.append(_r("sums_128", (2,), M=7, N=1, constants={"C": 1}, registers=False))
    return cases


ROWS = [
    *_reductions(),
    *(_r(f"sums_{fmt}", (2,), M=7, N=9, constants={"C": 9}, wide=fmt == "f64") for fmt in ("f16", "bf16", "f64")),
    _r("rowsum_of_product", (3,), M=10, constants={"C": 40}, registers=False),
    _r("softmax", (3,), M=10),
    _r("softmax", (3,), M=10, constants={"W": 24}, registers=False),
    _r("softmax", (3,), M=10, constants={"W": 320}),
    _r("ragged_softmax", (3,), M=10, N=50),
    _r("broadcasts", (3,), M=19),
    _r("broadcasts", (3,), M=19, constants={"W": 12}, registers=False),
    _r("broadcasts", (3,), M=19, constants={"W": 1}, registers=False),
    _r("broadcasts", (3,), M=3, constants={"R": 1}, registers=False),
    _r("one_by_one", (3,), M=10, registers=False),
    _r("row_indices", (3,), M=10, registers=False),
    _r("moves", (1,), N=128, registers=False),
    _r("moves", (1,), N=100, registers=False),
]

# ---- control flow --------------------------------------------------------------------------------------------------

_c = _case("control")

CONTROL = [
    *(_c(name, (1,), n) for name in ("swap", "rotate", "fibonacci", "wide_swap") for n in (0, 1, 5)),
    _c("wide_swap", (1,), 5, constants={"W": 640}),  # tiles beyond what lanes hold
    _c("swap", (1,), 5, constants={"W": 3}, registers=False),
    _c("branches", (5,), 8, M=18),
    _c("jumps", (5,), 9, M=18),
    _c("whiles", (5,), 5, M=18, wide=True),
    _c("collatz", (12,), G=12, arguments=lambda: [np.arange(1, 13, dtype=np.int32), np.zeros(12, np.int32)], wide=True),
    _c("counted_by_memory", (1,), arguments=lambda: [np.array([7, 0], np.int32), *_ones(8, 8)]),
    *(_c("ranges", (4,), *bounds, G=4, registers=False) for bounds in ((0, 7, 3), (5, 2, 1), (0, 7, 0), (0, 7, -2))),
    _c("ranges", (4,), -7, -1, 2, G=4, registers=False),
    _c("ranges", (4,), 2147483600, 2147483640, 20, G=4, registers=False),
    _c("unrolled", (1,)),
    _c("triangle", (5,), M=19, K=30),
    _c("in_place_then_long", (1,), 7),
    _c("two_long_loops", (3,), 9, G=3),
    _c("nested_long", (3,), 3, 5, G=3),
    _c("long_in_branch", (3,), 4, G=3),
    _c("while_in_for", (3,), 4, 9, G=3, wide=True),
]


def _ones(*sizes: int) -> list[np.ndarray]:
    return [np.ones(size, np.float32) for size in sizes]


# ---- memory --------------------------------------------------------------------------------------------------------

_m = _case("memory")


def _points() -> list[np.ndarray]:
    grid = np.arange(30, dtype=np.float32).reshape(5, 6)
    return [grid, np.array([0, 4, -1, 5, 2, 100], np.int32), np.zeros(6, np.float32)]


def _lookup() -> list[np.ndarray]:
    index = np.arange(-20, 44, dtype=np.int32).reshape(1, 64)
    return [np.arange(1, 17, dtype=np.float32).reshape(1, 16), index, np.zeros((1, 64), np.float32)]


def _one_array(times: int, apart: int = 0) -> Callable[[], list[np.ndarray]]:
    """An array given `times` times, after `apart` others."""

    def make() -> list[np.ndarray]:
        a, *others = (np.arange(i, 200 + i, dtype=np.float32).reshape(10, 20) for i in range(1 + apart))
        return [*others, *[a] * times]

    return make


def _two_shapes() -> list[np.ndarray]:
    x = np.arange(1, 257, dtype=np.float32).reshape(4, 64)
    return [x, x.reshape(-1), np.zeros((4, 64), np.float32)]


MEMORY = [
    _m("views", (1,)),
    _m("in_place_exp", (3,), M=10, N=16),
    _m("in_place_exp", (3,), M=10, N=13),
    _m("add", (3, 2), M=10, N=20),
    _m("add", (5, 4), M=10, N=20),  # a grid larger than the arrays
    _m("add", (3, 2), M=0, N=20),  # an empty tensor
    _m("add", (3, 2), M=10, N=20, arguments=_one_array(3)),
    _m("add", (3, 2), M=10, N=20, arguments=_one_array(2, apart=1)),
    _m("two_shapes", (1,), N=256, registers=False),
    _m("two_shapes", (1,), arguments=_two_shapes, registers=False),
    *(_m("shifted", (3, 2), *by, M=10, N=20) for by in ((-2, -5), (3, 7), (40, 50), (-40, -50))),
    _m("shifted", (3, 1), -2, -5, M=10, N=20),  # no later CTA repairs what lands beside the slice
    *(_m(name, (1,), 9, N=400, constants={"W": 128}, registers=False) for name in ("windows", "sliding", "trail")),
    _m("overlapping", (1,), N=300, constants={"W": 128}, registers=False),
    _m("through_memory", (1,), registers=False),
    _m("points", (6,), arguments=_points, registers=False),
    _m("point_update", (3,), M=3, registers=False),
    _m("element_update", (3,), M=3, registers=False),
    _m("rank_3", (1, 1, 3), B=3, M=5, N=20, registers=False),
    _m("plane_of_3", (1,), B=3, M=5, N=20, registers=False),
    _m("large", (1,), registers=False),
    _m("many", (1000, 3, 2), N=8 * 6000),
    _m("lookup", (1,), arguments=_lookup, registers=False),
    _m("columns", (6,), M=9, N=6, registers=False),
]

# ---- numbers -------------------------------------------------------------------------------------------------------

_n = _case("numbers")
_ROWS = {
    "f32_ops": 11, "f16_ops": 11, "bf16_ops": 7, "f64_ops": 6, "functions": 7, "i32_ops": 15, "i8_ops": 11,
    "u8_ops": 9, "i64_ops": 8, "from_f32": 8, "from_i32": 0,
}  # fmt: skip
_WIDE = ("f64_ops", "i64_ops", "from_f32", "from_i32")

NUMBERS = [
    *(_n(name, (5,), N=300, K=k, kind="hard", wide=name in _WIDE) for name, k in _ROWS.items()),
    *(
        _n(name, (5,), N=300, K=_ROWS[name], kind="small", wide=name in _WIDE)
        for name in ("i32_ops", "i8_ops", "i64_ops")
    ),
    _n("bools", (5,), N=300, K=5, kind="hard"),
    _n("rank_1", (5,), N=300, kind="hard"),
    _n("scalars", (1,), 1.5, -0.3, 1e3, -7, 1 << 40, True, wide=True),
    _n("scalars", (1,), 3e9, -0.3, -5e9, -7, -1, False, wide=True),
    _n("stored", (1,), (1 << 40) + 12345, registers=False, wide=True),
    _n("indices", (5,), 9, N=300, K=5, wide=True),
]

ALL = [*PRODUCTS, *ROWS, *CONTROL, *MEMORY, *NUMBERS]
