"""`phobos-sim doctor`: devices, versions, what is missing, and how to install it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import TYPE_CHECKING, Any

from ..errors import PhobosError
from .options import Device, Json, console, write_json

if TYPE_CHECKING:
    from rich.console import Console

# what the forms are made of, in the order in which the table lists them
FORMS = {
    "native": "the device's own float operations",
    "float": "exact f32 arithmetic on decoded operands",
    "double": "f64 arithmetic, corrected to one rounding",
    "seeded": "the device's approximation, corrected with integers",
    "integer": "integers; no faster form is exact here, or the device lacks what it takes",
    "integer only": "integers; there is no other form",
    "none": "no form is exact here: using it is an error",
}

# feature of a device -> what follows where it is absent
CONSEQUENCES = {
    "shaderFloat64": "f64 in a kernel is an error there; FFMA takes a slower exact form",
    "shaderInt64": "64-bit integers in a kernel are an error there; some instructions take a slower exact form",
    "storageBuffer16BitAccess": "the host widens 16-bit tensors",
    "storageBuffer8BitAccess": "the host widens 8-bit tensors",
}


def command(device: Device = None, json: Json = None) -> None:
    """Say what this machine can do: devices, versions, what is missing and how to install it."""
    report = examine(device)
    write_json(report, json)
    if json != "-":
        _print(console(), report)


def examine(device: str | None) -> dict[str, Any]:
    """Everything that doctor knows, as JSON. `device`: this one only; an error where it is not there."""
    from .. import __version__, choose
    from ..gpu import doctor

    wanted = choose.open_named(device) if device is not None else None
    report: dict[str, Any] = {
        "phobos-sim": __version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        **doctor.report(),
        "notes": [],
    }
    if wanted is not None or device == choose.REFERENCE:
        report["devices"] = [one for one in report["devices"] if wanted and one["index"] == wanted.info.index]
    module = report["phobos_module"]
    if not module["shim"]:
        report["notes"].append(
            f"`phobos` resolves to {module['path'] or 'nothing'}, which is not this package's shim. "
            "phobos_sim.load(FILE) and `phobos-sim check` work all the same; `import phobos.lang` in a program of "
            "yours gets the other one."
        )
    report["torch"] = _version("torch")
    if report["torch"] is None:
        report["notes"].append("torch is not installed; only the verb `check` needs it (pip install torch)")
    for entry in report["devices"]:
        entry["lacks"] = [f"{name}: {then}" for name, then in CONSEQUENCES.items() if name not in entry["features"]]
        entry["forms"] = {}
        if entry["usable"]:
            try:
                entry["forms"] = verdict(entry["select"])
            except PhobosError as error:
                report["notes"].append(f"{entry['select']}: the probe failed: {error}")
    if not any(entry["usable"] for entry in report["devices"]):
        report["notes"].append("kernels run on the device `reference`: the same bits, slower")
    return report


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def verdict(name: str) -> dict[str, str]:
    """The probe's verdict on a device: instruction -> the form that gives exact results there."""
    from ..gpu import probe
    from ..gpu.device import open_device

    return probe.verdict(open_device(name))


def _print(out: Console, report: dict[str, Any]) -> None:
    from rich.table import Table

    python = report["python"]
    out.print(f"phobos-sim {report['phobos-sim']}; Python {python['version']}, {python['executable']}", markup=False)
    out.print(f"{report['platform']}, {report['cores']} cores", markup=False)
    versions = {**python["packages"], "torch": report["torch"], "Vulkan loader": report["loader"]["version"]}
    out.print(", ".join(f"{name} {found}" for name, found in versions.items() if found), markup=False)
    tools = [name for name, path in report["spirv_tools"].items() if path]
    out.print(f"SPIR-V tools: {', '.join(tools) or 'none'}; cache: {report['cache']['folder'] or 'none'}", markup=False)
    for name, value in report["environment"].items():
        out.print(f"{name}={value}", markup=False)
    table = Table("device", "kind", "name", "Vulkan", "driver", "usable", title="Devices", title_justify="left")
    for entry in report["devices"]:
        usable = "yes" if entry["usable"] else entry["reason"].splitlines()[0]
        driver = f"{entry['driver_name']} {entry['driver_info']}".strip()
        table.add_row(entry["select"], entry["kind"], entry["name"], entry["api_version"], driver, usable)
    table.add_row("reference", "numpy", "integers on the host", "", "", "yes")
    out.print(table)
    for entry in report["devices"]:
        for lack in entry["lacks"]:
            out.print(f"{entry['select']} lacks {lack}", markup=False)
        if entry["forms"]:
            _print_forms(out, entry)
    for entry in report["missing"]:
        out.print(f"missing: {entry['what']} ({entry['means']})", markup=False)
        out.print(f"  {entry['install']}", markup=False)
    for line in report["notes"]:
        out.print(f"note: {line}", markup=False)


def _print_forms(out: Console, entry: dict[str, Any]) -> None:
    """The probe's verdict: which form of each instruction is exact on this device and the fastest of those."""
    from rich.table import Table

    faster = probed()
    by_form: dict[str, list[str]] = {form: [] for form in FORMS}
    for instruction, form in sorted(entry["forms"].items()):
        name = form if instruction in faster or form == "none" else "integer only"
        by_form.setdefault(name, []).append(instruction)
    title = f"{entry['select']}: exact forms, as probed"
    table = Table("form", "count", "instructions", title=title, title_justify="left")
    for form, instructions in by_form.items():
        if instructions:
            listed = "" if form == "integer only" else "\n" + ", ".join(instructions)
            table.add_row(form, str(len(instructions)), FORMS.get(form, "") + listed)
    out.print(table)


def probed() -> set[str]:
    """Instructions with several forms, between which the probe decides."""
    from .. import isa
    from ..gpu import probe_matrix, sm86

    return {
        row.key
        for row in isa.INSTRUCTIONS
        if len(probe_matrix.candidates(row) if row.is_matrix else sm86.candidates(row)) > 1
    }
