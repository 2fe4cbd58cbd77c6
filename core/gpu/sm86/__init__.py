"""SPIR-V of every SM86 instruction: one file per family, with the names and the order of `reference/`.

`emit` writes an instruction into a shader; `candidates` names its forms. See `resolve` for how rows find their
emitters.
"""

from __future__ import annotations

from .resolve import candidates, closure, emit, emit_form, needs_tables, uses

__all__ = ["candidates", "closure", "emit", "emit_form", "needs_tables", "uses"]
