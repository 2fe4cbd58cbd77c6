"""Every form of every elementwise row on lavapipe against the reference, zero tolerance (issue 3, 4)."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_codes, llvmpipe, tool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from instruction_checks import ROWS, differences, forms_on
from phobos_sim import isa
from phobos_sim.formats import Codes, Format, dtype_of, special_values
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import execute, probe, probe_shader
from phobos_sim.reference import execute as reference
from phobos_sim.spirv import validate

quick = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(seed=st.integers(1, 2**31))
def test_every_form_equals_the_reference(seed: int) -> None:
    """All rows and exact forms in one go, on 1,000 hard operand tuples each."""
    assert differences(devices.open_device(llvmpipe()), 1000, seed) == {}


def codes_of(fmt: Format) -> st.SearchStrategy[int]:
    """Codes of a format, drawn near special values: subnormals, ties, largest numbers, NaN."""
    if fmt.bits == 1:
        return st.integers(0, 1)
    mask = (1 << fmt.bits) - 1
    near = st.tuples(st.sampled_from(special_values(fmt)), st.integers(-2, 2)).map(
        lambda pair: (pair[0] + pair[1]) & mask
    )
    return near | st.integers(0, mask)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_drawn_codes_equal_the_reference(data: st.DataObject) -> None:
    """Operands that hypothesis draws and shrinks, eight tuples of one row at a time."""
    device = devices.open_device(llvmpipe())
    row = data.draw(st.sampled_from(ROWS), label="row")
    formats = [fmt or isa.lookup("FADD").operands[0] for fmt in row.operands]
    tuples = data.draw(st.lists(st.tuples(*(codes_of(fmt) for fmt in formats)), min_size=8, max_size=8), label="codes")
    operands = [np.array(column, dtype_of(fmt)) for column, fmt in zip(zip(*tuples), formats)]
    expected = reference.apply(row, *operands)
    for instructions in (None, "integer"):
        actual = execute.execute(row, operands, isa.SM86, device, instructions)
        assert_codes(actual, expected, f"{row.key} {instructions}")


def test_every_module_is_valid() -> None:
    """All forms of all rows, packed as the probe packs them, pass spirv-val for Vulkan 1.1."""
    tool("spirv-val")
    device = devices.open_device(llvmpipe())
    probe.verdict(device)
    units = [(row, form) for row in ROWS for form in probe._candidates(row)]
    places = {row.key: [0] * len(row.operands) for row in ROWS}
    modules = probe_shader._shaders(device.target, units, places, [0] * len(units))
    assert len(modules) > 3
    for module in modules:
        validate.validate(module)


def test_a_wrong_emitter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shifts that drop their sticky bit: the probe refuses the integer forms that need it."""
    from phobos_sim.gpu.sm86 import soft

    rounding = ["FADD", "FFMA", "DADD", "DFMA", "cvt.rn.f16.f32"]
    device = devices.open_device(llvmpipe())
    assert all(forms[-1] == "integer" for forms in probe.exact_forms(device, rounding).values())
    monkeypatch.setattr(soft, "shift_right_sticky", lambda e, x, distance: x >> distance)
    monkeypatch.setattr(soft, "sticky_word", lambda e, high, low: high)
    left = {key: forms for key, forms in probe.exact_forms(device, rounding).items() if "integer" in forms}
    assert left == {}


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 4099])
def test_any_number_of_elements(size: int) -> None:
    """Padding is cut off again, and no element is lost at the edge of a workgroup."""
    row = isa.lookup("FADD")
    a = np.arange(size, dtype=np.uint32) * np.uint32(0x01234567)
    actual = execute.execute(row, [a, a], isa.SM86, devices.open_device(llvmpipe()))
    assert_codes(actual, reference.apply(row, a, a))


def test_shapes_are_kept_and_batches_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "MOST_ELEMENTS", 1000)
    row = isa.lookup("DADD")
    a: Codes = (np.arange(3 * 5 * 200, dtype=np.uint64) * np.uint64(0x0123456789ABCDEF)).reshape(3, 5, 200)
    actual = execute.execute(row, [a, a], isa.SM86, devices.open_device(llvmpipe()))
    assert_codes(actual, reference.apply(row, a, a))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_select_takes_any_format(dtype: type) -> None:
    row = isa.lookup("selp")
    p = np.array([True, False, True])
    a, b = np.array([1, 2, 3], dtype), np.array([4, 5, 6], dtype)
    actual = execute.execute(row, [p, a, b], isa.SM86, devices.open_device(llvmpipe()))
    assert_codes(actual, np.array([1, 5, 3], dtype))


def test_forms_are_all_there() -> None:
    """Rows with a native form use it on lavapipe, but for the fused multiply-adds that it does not fuse."""
    device = devices.open_device(llvmpipe())
    forms = {(row.key, form) for row, form in forms_on(device)}
    several = [row for row in ROWS if len(probe._candidates(row)) > 1]
    integer_only = {row.key for row in several if not any((row.key, f) in forms for f in probe._candidates(row)[:-1])}
    assert integer_only == {"DFMA"}
    assert ("FFMA", "double") in forms and ("FFMA", "native") not in forms
    assert all((row.key, "integer") in forms for row in several)
