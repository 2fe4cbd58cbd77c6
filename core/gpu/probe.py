"""stub"""
from __future__ import annotations
from dataclasses import replace
from . import sm86
from .. import isa
def target_for(device, keys, instructions=None):
    forms = {}
    for key in keys:
        for k in sm86.closure(key):
            c = sm86.candidates(isa.lookup(k)) if not isa.lookup(k).is_matrix else ("integer",)
            forms[k] = c[0] if instructions == "native" else "integer"
    return replace(device.target, forms=forms)
