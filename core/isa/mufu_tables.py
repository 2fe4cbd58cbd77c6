"""The special function unit's coefficients and constants, as data for both backends.

Source: design.md 4.3; recovered from an H200, exact over all 2^32 inputs of each function. Every function computes

    A = (C0[i] << s0) + C1[i] * x + ((C2[i] * S(x)) << s2) + bias

with i the upper and x the lower bits of the reduced argument and S the truncating squarer; the result is A >> shift,
or A itself where the function normalises it (LG2, SIN, TANH). Coefficients: 627 rows, `mufu_tables.json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Unit:
    """Constants of one function. x_bits: width of x; `shift` is applied to A; `table` names the coefficient rows."""

    name: str
    table: str
    rows: int
    x_bits: int
    s0: int
    s2: int
    bias: int
    shift: int


UNITS = {
    unit.name: unit
    for unit in (
        Unit("rcp", "rcp", 128, 16, 13, 0, 0x47E7, 15),
        Unit("rsq", "rsq", 128, 17, 14, 2, 0x7FFF, 16),
        Unit("sqrt", "sqrt", 128, 17, 15, 1, 0x7FFF, 17),
        Unit("ex2", "ex2", 64, 17, 13, 0, 0x77E2, 15),
        Unit("lg2", "lg2", 64, 17, 12, 1, 0x3345, 2),
        Unit("sin", "sin", 64, 17, 11, 0, 0, 0),
        Unit("cos", "sin", 64, 17, 11, 0, 0, 0),
        Unit("tanh", "tanh", 51, 17, 14, 0, 0, 0),
    )
}

#: TANH by unbiased exponent of its operand, -8 to 2: (first row, log2 of the number of segments, log2 unit + 42).
TANH_BINADES = (
    (0, 0, 4), (1, 0, 4), (2, 0, 4), (3, 1, 4), (5, 1, 4), (7, 2, 4),
    (11, 2, 5), (15, 2, 6), (19, 3, 5), (27, 4, 3), (43, 3, 5),
)  # fmt: skip


@cache
def coefficients(table: str) -> tuple[tuple[int, int, int], ...]:
    """Rows (C0, C1, C2) of one table: ``rcp rsq sqrt ex2 lg2 sin tanh``."""
    text = resources.files(__package__).joinpath("mufu_tables.json").read_text()
    rows = json.loads(text)[table]
    return tuple((int(c0), int(c1), int(c2)) for c0, c1, c2 in rows)
