"""What is here and what is missing to run on Vulkan: the data behind `phobos-sim doctor`, plain enough for JSON.

Nothing here raises: what cannot be found out is reported as the problem that it is.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from ..errors import PhobosError, UnavailableError
from ..spirv.validate import find_tool
from . import device as devices
from . import pipeline, vulkan
from .physical import version_of

Report = dict[str, Any]

SPIRV_TOOLS = ("spirv-val", "spirv-dis", "spirv-as", "spirv-opt")
VARIABLES = (
    "PHOBOS_DEVICE", "PHOBOS_TIMEOUT", "PHOBOS_CACHE", "PHOBOS_LOG", "VK_DRIVER_FILES", "VK_ADD_DRIVER_FILES",
    "VK_ICD_FILENAMES", "VK_LOADER_DRIVERS_SELECT", "VK_INSTANCE_LAYERS", "LP_NUM_THREADS", "LP_NATIVE_VECTOR_WIDTH",
    "MESA_SHADER_CACHE_DISABLE",
)  # fmt: skip

# distribution (ID or ID_LIKE of /etc/os-release) -> what to type for a loader, for a CPU driver, for the SPIR-V tools
INSTALL = {
    "debian": ("apt-get install", "libvulkan1", "mesa-vulkan-drivers", "spirv-tools"),
    "fedora": ("dnf install", "vulkan-loader", "mesa-vulkan-drivers", "spirv-tools"),
    "rhel": ("dnf install", "vulkan-loader", "mesa-vulkan-drivers", "spirv-tools"),
    "arch": ("pacman -S", "vulkan-icd-loader", "vulkan-swrast", "spirv-tools"),
    "suse": ("zypper install", "libvulkan1", "libvulkan_lvp", "spirv-tools"),
    "alpine": ("apk add", "vulkan-loader", "mesa-vulkan-swrast", "spirv-tools"),
    "nixos": ("nix-shell -p", "vulkan-loader", "mesa", "spirv-tools"),
}


def report() -> Report:
    """Everything, in one dict: python, loader, drivers, devices, spirv_tools, cache, environment, missing."""
    loader = _loader()
    found = _devices() if loader["present"] else []
    tools = {name: _tool(name) for name in SPIRV_TOOLS}
    drivers = _drivers()
    folder = pipeline.cache_folder()
    return {
        "python": {
            "version": platform.python_version(),
            "executable": sys.executable,
            "packages": {name: _version(name) for name in ("phobos-sim", "numpy", "ml_dtypes", "vulkan")},
        },
        "phobos_module": _phobos_module(),
        "loader": loader,
        "drivers": drivers,
        "devices": found,
        "spirv_tools": tools,
        "cache": {"folder": str(folder) if folder else None, "emitter_hash": devices.emitter_hash()},
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "missing": _missing(loader, drivers, found, tools),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _phobos_module() -> Report:
    """Where `import phobos` leads, and whether that is this package's shim (design.md section 2)."""
    try:
        spec = importlib.util.find_spec("phobos")
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        return {"path": None, "shim": False}
    try:
        shim = "phobos_sim" in Path(spec.origin).read_text(errors="replace")
    except OSError:
        shim = False
    return {"path": spec.origin, "shim": shim}


def _loader() -> Report:
    try:
        vk = vulkan.api()
        packed = vk.ffi.new("uint32_t*")
        vk.call("vkEnumerateInstanceVersion", packed)
    except (PhobosError, AttributeError) as error:
        return {"present": False, "version": None, "problem": str(error)}
    return {"present": True, "version": ".".join(map(str, version_of(packed[0]))), "problem": ""}


# ---- drivers -----------------------------------------------------------------------------------------------------


def driver_files() -> list[Path]:
    """The driver (ICD) files that the loader reads, by its own rules on Linux."""
    chosen = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if chosen:
        entries = [Path(p) for p in chosen.split(os.pathsep) if p]
    else:
        entries = [Path(p) for p in os.environ.get("VK_ADD_DRIVER_FILES", "").split(os.pathsep) if p]
        entries += [folder / "vulkan" / "icd.d" for folder in _data_folders()]
    files: list[Path] = []
    for entry in entries:
        files += sorted(entry.glob("*.json")) if entry.is_dir() else [entry] if chosen or entry.exists() else []
    return list(dict.fromkeys(files))


def _data_folders() -> list[Path]:
    home = Path.home()

    def listed(variable: str, default: str) -> list[Path]:
        return [Path(p) for p in (os.environ.get(variable) or default).split(os.pathsep) if p]

    return [
        *listed("XDG_CONFIG_HOME", str(home / ".config")),
        *listed("XDG_CONFIG_DIRS", "/etc/xdg"),
        Path("/etc"),
        *listed("XDG_DATA_HOME", str(home / ".local/share")),
        *listed("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
    ]


def _drivers() -> list[Report]:
    return [_driver(path) for path in driver_files()]


def _driver(path: Path) -> Report:
    """A driver file: its library, whether that is there, and what is wrong with it."""
    try:
        icd = json.loads(path.read_text())["ICD"]
        library = str(icd["library_path"])
        version = str(icd.get("api_version", ""))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {"file": str(path), "library": None, "api_version": None, "problem": f"{type(error).__name__}: {error}"}
    problem = ""
    if "/" in library and not (path.parent / library).exists():
        problem = f"its library {library} is not there"
    return {"file": str(path), "library": library, "api_version": version, "problem": problem}


# ---- devices -----------------------------------------------------------------------------------------------------


def _devices() -> list[Report]:
    try:
        return [_device(info) for info in devices.all_devices()]
    except UnavailableError:
        return []


def _device(info: devices.DeviceInfo) -> Report:
    """A device's facts, whether it is usable, and why not."""
    facts = dataclasses.asdict(info)
    del facts["extensions"]
    facts["api_version"] = ".".join(map(str, info.api_version))
    reason = devices.why_unusable(info)
    facts |= {"usable": not reason, "reason": reason, "select": f"vulkan:{info.index}"}
    facts["required_subgroup_size"] = info.required_subgroup_size
    facts["identity"] = info.identity
    facts["loop_budget"] = info.target().loop_budget
    return facts


# ---- tools, and what to do -----------------------------------------------------------------------------------------


def _tool(name: str) -> str | None:
    try:
        return str(find_tool(name))
    except UnavailableError:
        return None


def distribution(os_release: Path = Path("/etc/os-release")) -> str | None:
    """The family of this Linux distribution, a key of INSTALL."""
    try:
        lines = os_release.read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    words = [fields.get("ID", ""), *fields.get("ID_LIKE", "").strip('"').split()]
    return next((key for word in words for key in INSTALL if word.strip('"').startswith(key)), None)


def install_hint(*parts: str) -> str:
    """What to type here to get any of `loader`, `driver`, `tools`; for an unknown system, all that we know."""
    column = {"loader": 1, "driver": 2, "tools": 3}

    def command(family: str) -> str:
        return " ".join([INSTALL[family][0], *(INSTALL[family][column[part]] for part in parts)])

    family = distribution()
    return command(family) if family else "; ".join(f"{name}: {command(name)}" for name in INSTALL)


def _missing(
    loader: Report, drivers: list[Report], found: list[Report], tools: dict[str, str | None]
) -> list[dict[str, str]]:
    """What is not here, what that means, and how to get it."""
    missing = []
    if not loader["present"]:
        binding = importlib.util.find_spec("vulkan") is not None
        hint = install_hint("loader", "driver") if binding else "pip install vulkan"
        missing.append(
            {"what": "Vulkan loader" if binding else "package vulkan", "means": loader["problem"], "install": hint}
        )
    elif not any(d["usable"] for d in found):
        broken = [f"{d['file']}: {d['problem']}" for d in drivers if d["problem"]]
        broken += [f"{d['name']}: {d['reason']}" for d in found]
        means = "kernels run on the device `reference` only" + "".join(f"; {b}" for b in broken)
        missing.append({"what": "usable Vulkan device", "means": means, "install": install_hint("driver")})
    if tools["spirv-val"] is None:
        means = "emitted modules cannot be validated; kernels run all the same"
        missing.append({"what": "spirv-val", "means": means, "install": "pip install 'phobos-sim[spirv]'"})
    return missing
