"""Register mapping: operands that are computed and results wider than one pass turn through registers in loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import phobos_sim as sim
import pytest
from helpers import assert_codes
from phobos_sim.gpu import registers_contract
from runtime_samples import device_name

pytestmark = pytest.mark.device

# a row's maximum keeps its columns in one unit
SOURCE = """
import phobos.lang as ph

@ph.kernel
@ph.launch(64)
def product(A: ph.tensor[ph.f32][{m}, {k}], B: ph.tensor[ph.f32][{b}], C: ph.tensor[ph.f32][{m}, {n}]):
    a: ph.var = A[0:+{m}, 0:+{k}]
    a = a * 1.5
    b: ph.let = B[0:+{b0}, 0:+{b1}]
    c: ph.var = C[0:+{m}, 0:+{n}]
    c = c + {dot}(a, b)
    c = c - ph.rowmax(c)
    C[0:+{m}, 0:+{n}] = c
"""


@pytest.mark.parametrize("transposed", [False, True], ids=["dot", "dot_t"])
@pytest.mark.parametrize("m, k, n", [(8, 16, 32), (8, 20, 48), (8, 64, 64), (16, 9, 64), (24, 17, 16)])
def test_products_of_computed_operands(
    m: int, k: int, n: int, transposed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned: list[object] = []
    looped: list[object] = []
    passes = registers_contract.Chain.passes
    monkeypatch.setattr(registers_contract.Chain, "passes", lambda chain: (looped.append(chain), passes(chain))[1])
    original = registers_contract.Turning.turn
    monkeypatch.setattr(registers_contract.Turning, "turn", lambda tile: (turned.append(tile), original(tile)))
    b0, b1 = (n, k) if transposed else (k, n)
    dot = "ph.dot_t" if transposed else "ph.dot"
    path = tmp_path / "product.py"
    path.write_text(SOURCE.format(m=m, k=k, n=n, b=f"{b0}, {b1}", b0=b0, b1=b1, dot=dot))
    kernel, rng = sim.load(path).kernels["product"], np.random.default_rng(k)
    a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((m, k), (b0, b1), (m, n)))
    results = []
    for device, form in (("reference", None), (device_name(), "registers"), (device_name(), "shared")):
        out = c.copy()
        kernel.launch((1,), a, b, out, device=device, form=form)
        results.append(out.view(np.uint32))
    assert_codes(results[1], results[0])
    assert_codes(results[2], results[0])
    assert bool(turned) == (k >= 16)
    assert bool(looped) == (n > 16 and not (transposed and n % 8))
