"""Device names, the doctor's data and the errors of a machine without Vulkan: what needs no device to be tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from phobos_sim.errors import UnavailableError, UsageError
from phobos_sim.gpu import device, dispatch, doctor, vulkan
from phobos_sim.gpu.physical import LLVMPIPE_LOOP_BUDGET, DeviceInfo

LLVMPIPE = DeviceInfo(
    index=0, name="llvmpipe", kind="cpu", api_version=(1, 3, 0), vendor_id=1, device_id=2, driver_id=13,
    driver_version=1, driver_name="d", driver_info="i", device_uuid="00", driver_uuid="11",
    pipeline_cache_uuid="22", queue_family=0, subgroup_size=8, subgroup_sizes=(8, 8), features=("shaderInt64",),
    extensions=(), subgroup_shuffle=True, max_buffer_bytes=1 << 27, max_allocation_bytes=1 << 30, max_invocations=128,
    max_group_size=(128, 128, 64), max_groups=(65535, 65535, 65535), max_bindings=8, max_push_words=32,
    shared_bytes=16384, binding_alignment=16,
)  # fmt: skip


def info(index: int, name: str, **facts: Any) -> DeviceInfo:
    """A device as a driver might describe it."""
    return replace(LLVMPIPE, index=index, name=name, **facts)


CARDS = [
    info(0, "NVIDIA A2"),
    info(1, "NVIDIA A10"),
    info(2, "NVIDIA A10"),
    info(3, "llvmpipe (LLVM 15.0.6, 256 bits)"),
]


@pytest.mark.parametrize(("part", "index"), [("llvm", 3), ("LLVMPIPE", 3), ("nvidia a2", 0), ("2", 2), ("A2", 0)])
def test_a_part_of_the_name_or_an_index_chooses(part: str, index: int) -> None:
    assert device._pick(CARDS, part) is CARDS[index]


def test_an_exact_name_wins_over_names_that_contain_it() -> None:
    assert device._pick([info(0, "NVIDIA A100"), info(1, "NVIDIA A10")], "nvidia a10").index == 1


@pytest.mark.parametrize("part", ["nvidia", "A10", "a"])
def test_an_ambiguous_name_lists_what_it_fits(part: str) -> None:
    with pytest.raises(
        UsageError, match=r"ambiguous; it fits .*vulkan:1 NVIDIA A10, vulkan:2 NVIDIA A10.*index"
    ) as error:
        device._pick(CARDS, part)
    assert error.value.exit_status == 2


@pytest.mark.parametrize("part", ["radeon", "4", "99"])
def test_a_device_that_is_not_there_is_unavailable(part: str) -> None:
    with pytest.raises(UnavailableError, match=r"vulkan:3 llvmpipe") as error:
        device._pick(CARDS, part)
    assert error.value.exit_status == 4


@pytest.mark.parametrize("name", ["cuda", "reference", "vulkan:", "vulkan: ", "vulkanx", "Vulkan:0"])
def test_a_name_of_another_form_is_wrong_use(name: str) -> None:
    with pytest.raises(UsageError, match="unknown device"):
        device.open_device(name)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [({"api_version": (1, 0, 3)}, "has Vulkan 1.0; 1.1 is needed"), ({"queue_family": None}, "no compute queue")],
)
def test_what_a_device_must_have(facts: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        device._open_checked(info(0, "old", **facts), None)


def test_only_llvmpipe_has_a_loop_budget() -> None:
    assert info(0, "llvmpipe").target().loop_budget == LLVMPIPE_LOOP_BUDGET < 65535
    assert info(0, "other", driver_id=4).target().loop_budget is None


def test_identity_tells_drivers_and_vector_widths_apart() -> None:
    changes = [
        {}, {"subgroup_size": 4}, {"driver_info": "Mesa 24"}, {"device_uuid": "01"}, {"driver_uuid": "01"},
        {"pipeline_cache_uuid": "01"}, {"driver_version": 2}, {"features": ()},
    ]  # fmt: skip
    assert len({info(0, "a", **change).identity for change in changes}) == len(changes)
    assert info(0, "a").identity == info(5, "a").identity  # its place in the list is no part of it


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan"])
def test_a_timeout_is_a_positive_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOBOS_TIMEOUT", text)
    with pytest.raises(UsageError, match="PHOBOS_TIMEOUT"):
        dispatch.timeout_seconds()


def test_the_default_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHOBOS_TIMEOUT", raising=False)
    assert dispatch.timeout_seconds() == 600
    monkeypatch.setenv("PHOBOS_TIMEOUT", "2.5")
    assert dispatch.timeout_seconds() == 2.5


# ---- a machine without Vulkan ------------------------------------------------------------------------------------


def test_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vulkan", None)
    with pytest.raises(UnavailableError, match="pip install vulkan"):
        vulkan.api.__wrapped__()


def test_without_a_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "vulkan":
                raise OSError("Cannot find Vulkan SDK version.")

    monkeypatch.delitem(sys.modules, "vulkan", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(UnavailableError, match="no Vulkan loader.*apt-get install libvulkan1"):
        vulkan.api.__wrapped__()


NO_DRIVER = """
import json
from phobos_sim.errors import UnavailableError
from phobos_sim.gpu import device, doctor
assert device.devices() == []
for name in (None, "vulkan", "vulkan:llvmpipe", "vulkan:0"):
    try:
        device.open_device(name)
    except UnavailableError as error:
        assert error.exit_status == 4 and "apt-get install" in str(error), error
    else:
        raise AssertionError(name)
print(json.dumps(doctor.report()))
"""


def test_without_a_driver(tmp_path: Path) -> None:
    missing = str(tmp_path / "no_icd.json")
    env = {**os.environ, "VK_DRIVER_FILES": missing, "VK_ICD_FILENAMES": missing}
    done = subprocess.run([sys.executable, "-c", NO_DRIVER], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["devices"] == []
    assert report["missing"][0]["what"] in ("usable Vulkan device", "Vulkan loader", "package vulkan")
    assert report["missing"][0]["install"]
    assert report["drivers"][0]["file"] == missing
    assert "FileNotFoundError" in report["drivers"][0]["problem"]


# ---- doctor ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("ID=debian\n", "debian"),
        ("ID=ubuntu\nID_LIKE=debian\n", "debian"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "rhel"),
        ("ID=opensuse-leap\nID_LIKE='suse opensuse'\n".replace("'", '"'), "suse"),
        ("ID=plan9\n", None),
    ],
)
def test_the_distribution_decides_what_to_type(text: str, family: str | None, tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(text)
    assert doctor.distribution(tmp_path / "os-release") == family


def test_hints_name_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "distribution", lambda: "debian")
    assert doctor.install_hint("loader", "driver") == "apt-get install libvulkan1 mesa-vulkan-drivers"
    monkeypatch.setattr(doctor, "distribution", lambda: None)
    assert "dnf install vulkan-loader" in doctor.install_hint("loader")


def test_driver_files_and_their_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "share" / "vulkan" / "icd.d"
    folder.mkdir(parents=True)
    (folder / "good.json").write_text('{"ICD": {"library_path": "libx.so", "api_version": "1.3.0"}}')
    (folder / "gone.json").write_text('{"ICD": {"library_path": "../libgone.so"}}')
    (folder / "bad.json").write_text("{")
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "share"))
    monkeypatch.setattr(doctor, "_data_folders", lambda: [tmp_path / "share", tmp_path / "share"])
    reports = {Path(r["file"]).stem: r for r in doctor._drivers()}
    assert set(reports) == {"good", "gone", "bad"}
    assert reports["good"]["problem"] == ""
    assert "libgone.so is not there" in reports["gone"]["problem"]
    assert "JSONDecodeError" in reports["bad"]["problem"]


def test_a_foreign_phobos_is_told_from_the_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor._phobos_module()["shim"] is True
    foreign = tmp_path / "__init__.py"
    foreign.write_text("# another package\n")
    spec = types.SimpleNamespace(origin=str(foreign))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: spec)
    assert doctor._phobos_module() == {"path": str(foreign), "shim": False}
