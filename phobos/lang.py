"""`phobos.lang`: the Python surface of the language, re-exported from `phobos_sim.lang`."""

from __future__ import annotations

from phobos_sim.lang import *  # noqa: F403
