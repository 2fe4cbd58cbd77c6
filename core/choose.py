"""Which device runs a launch: the argument, `sim.use`, PHOBOS_DEVICE, the first usable Vulkan device, `reference`.

A device that was asked for by name and is not there is an error (exit status 4); the silent default never is. Where
the default falls to `reference`, that is said once on stderr.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from . import log
from .errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from .gpu.device import Device

REFERENCE = "reference"

_used: list[str | None] = [None]
_default: list[str] = []


class use:
    """Chooses the device for all launches that follow, or, as a context manager, for those within.

    device: `reference`, `vulkan`, `vulkan:<index>`, `vulkan:<part of the name>`, or None for the default order.
    Raises UsageError for a name of another form, UnavailableError where the device is not there.
    """

    def __init__(self, device: str | None = None) -> None:
        if device is not None:
            open_named(device)
        self._before = _used[0]
        _used[0] = device

    def __enter__(self) -> use:
        return self

    def __exit__(self, *exc: object) -> None:
        _used[0] = self._before


def open_named(name: str) -> Device | None:
    """The Vulkan device of this name, None for `reference`."""
    if not isinstance(name, str):
        raise UsageError(f"a device is a name such as 'reference' or 'vulkan', found {name!r}")
    if name == REFERENCE:
        return None
    if name != "vulkan" and not name.startswith("vulkan:"):
        raise UsageError(
            f"unknown device {name!r}; devices are 'reference', 'vulkan', 'vulkan:<index>' and "
            "'vulkan:<part of the name>' (phobos-sim doctor lists them)"
        )
    from .gpu.device import open_device

    return open_device(name)


def resolve(device: str | None) -> Device | None:
    """The device for one launch or execution; None is `reference`."""
    name = device if device is not None else _used[0]
    if name is None:
        name = os.environ.get("PHOBOS_DEVICE") or None
    if name is not None:
        return open_named(name)
    if _default and _default[0] == REFERENCE:
        return None
    from .gpu.device import open_device

    try:
        found = open_device("vulkan")
    except UnavailableError as error:
        _default[:] = [REFERENCE]
        print(
            f"phobos-sim: no usable Vulkan device, running on the numpy reference ({_first_line(error)})",
            file=sys.stderr,
        )
        return None
    log.debug(f"device: {found.name} (first usable Vulkan device)")
    return found


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
