"""Which form of each instruction is exact on a device: asked once per device and driver, then remembered.

Rules (design.md section 7)
 1. Every candidate form of a row (`sm86.candidates`, fastest first) runs on fixed hard operands (`probe_inputs`); the
    first whose codes all equal the reference's is the verdict. `integer` forms are run too, where no other form was
    exact: a row none of whose forms is exact gets `none`, and using it is an error.
 2. What the reference gives is kept as one digest per row (`probe_expected.json`, written by
    `script/update_probe_vectors` and held against the reference by a test), because this package never imports the
    reference.
 3. Rows are probed when first needed, many in one shader. A row with one form only is not probed: it is integers, or
    made of other rows. A form that takes a feature which the device lacks is passed over.
 4. Verdicts are kept on disk under a name that holds the device's and driver's identity (UUIDs, driverInfo,
    pipelineCacheUUID, subgroup size: `DeviceInfo.identity`) and a hash of everything that emits code.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import isa
from ..errors import UnavailableError
from ..formats import Codes
from ..isa import Instruction
from . import pipeline, probe_matrix, probe_shader, sm86
from .device import emitter_hash
from .probe_inputs import hard
from .sm86.resolve import INTEGER, NONE, missing
from .target import Target

if TYPE_CHECKING:
    from .device import Device

#: Operand tuples per row.
COUNT = 768

#: Device identity -> verdicts known in this process.
_known: dict[str, dict[str, str]] = {}


def target_for(device: Device, keys: Iterable[str], instructions: str | None = None) -> Target:
    """The device's target with the forms of these rows and of all that they are made of.

    instructions: None takes each row's verdict; ``integer`` the integer form of every row; ``native`` is as None, but
    a row that has further forms, none of them exact, raises UnavailableError instead of using its integer form.
    """
    question = (tuple(keys), instructions)
    before, answer = device.targets.get(question, (None, None))
    if answer is not None and before is device.target and device.info.identity in _known:
        return answer
    found = _target_for(device, _closure(question[0]), instructions)
    device.targets[question] = device.target, found
    return found


def _target_for(device: Device, wanted: tuple[str, ...], instructions: str | None) -> Target:
    if instructions == INTEGER:
        return replace(device.target, forms=dict.fromkeys(wanted, INTEGER))
    forms = verdict(device, wanted)
    if instructions == "native":
        for key in wanted:
            if forms[key] == INTEGER and len(_candidates(isa.lookup(key))) > 1:
                raise UnavailableError(
                    f"{key}: instructions='native' was asked for, but no form of it but the integer one is exact on "
                    f"{device.name}; leave instructions out, or use another device"
                )
    return replace(device.target, forms={key: forms[key] for key in wanted}, fused_fma=forms.get("FFMA") == "native")


def verdict(device: Device, keys: Iterable[str] | None = None) -> dict[str, str]:
    """The form that each row uses on a device (all rows where `keys` is None), and of all that these are made of."""
    wanted = _closure(i.key for i in isa.INSTRUCTIONS) if keys is None else _closure(keys)
    known = _load(device)
    open_questions = [key for key in wanted if key not in known]
    if open_questions:
        found = {key: INTEGER for key in open_questions if len(_candidates(isa.lookup(key))) == 1}
        asked = [isa.lookup(key) for key in open_questions if key not in found]
        found |= _ask(device, asked)
        _log(device, {i.key: found[i.key] for i in asked})
        known |= found
        if asked:
            _save(device, known)
    if device.target.forms != known:
        device.target = replace(device.target, forms=dict(known), fused_fma=known.get("FFMA") == "native")
    return {key: known[key] for key in wanted}


def _closure(keys: Iterable[str]) -> tuple[str, ...]:
    """The rows of these names and those that they are made of, each once."""
    return tuple(dict.fromkeys(used for key in keys for used in sm86.closure(key)))


def _candidates(instruction: Instruction) -> tuple[str, ...]:
    return probe_matrix.candidates(instruction) if instruction.is_matrix else sm86.candidates(instruction)


# ---- asking the device -------------------------------------------------------------------------------------------


def _ask(device: Device, asked: list[Instruction]) -> dict[str, str]:
    """Verdicts on rows that have several forms."""
    found = {}
    for instruction in asked:
        if instruction.is_matrix:
            forms = probe_matrix.exact_forms(device, instruction, expected(instruction))
            found[instruction.key] = forms[0] if forms else NONE
    rows = [i for i in asked if not i.is_matrix]
    # the integer forms only where they are needed
    for integer in (False, True):
        units = [
            (i, form)
            for i in rows
            for form in sm86.candidates(i)
            if (form == INTEGER) is integer and i.key not in found and not missing(i, form, device.target)
        ]
        for key, form in _exact(device, units):
            found.setdefault(key, form)
    for i in rows:
        # a device without the features of the integer form: emitting it names them
        found.setdefault(i.key, INTEGER if missing(i, INTEGER, device.target) else NONE)
    return found


def exact_forms(device: Device, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """All exact forms of elementwise rows on a device, fastest first; asked anew. A row with one form has that."""
    rows = [isa.lookup(key) for key in keys]
    several = [i for i in rows if len(sm86.candidates(i)) > 1]
    units = [(i, form) for i in several for form in sm86.candidates(i) if not missing(i, form, device.target)]
    exact = _exact(device, units)
    found = {i.key: tuple(form for key, form in exact if key == i.key) for i in several}
    return {i.key: found.get(i.key, (INTEGER,)) for i in rows if not missing(i, INTEGER, device.target)}


def _exact(device: Device, units: list[tuple[Instruction, str]]) -> list[tuple[str, str]]:
    """(key, form) of the units whose results are the reference's, in the order given."""
    results = probe_shader.run(device, units, lambda i: hard(i, COUNT))
    return [(i.key, form) for (i, form), codes in zip(units, results) if digest(i, codes) == expected(i)]


# ---- what the reference gives ------------------------------------------------------------------------------------


def digest(instruction: Instruction, results: Codes) -> str:
    """A hash of a row's probe operands and, behind a colon, one of results for them."""
    return f"{_hash(*_operands(instruction))}:{_hash(results)}"


def _hash(*arrays: Codes) -> str:
    found = hashlib.sha256()
    for codes in arrays:
        found.update(np.ascontiguousarray(codes).astype(codes.dtype.newbyteorder("<"), copy=False).tobytes())
    return found.hexdigest()[:24]


def _operands(instruction: Instruction) -> list[Codes]:
    return probe_matrix.operands(instruction) if instruction.is_matrix else hard(instruction, COUNT)


@functools.cache
def _expected() -> dict[str, str]:
    text = resources.files(__package__).joinpath("probe_expected.json").read_text()
    return dict(json.loads(text))


@functools.cache
def expected(instruction: Instruction) -> str:
    """The digest of the reference's results for the operands that the probe uses."""
    found = _expected().get(instruction.key, "")
    if found.partition(":")[0] != _hash(*_operands(instruction)):
        raise AssertionError(f"{instruction.key}: probe_expected.json is stale; run script/update_probe_vectors")
    return found


# ---- remembering -------------------------------------------------------------------------------------------------


def _path(device: Device) -> Path | None:
    folder = pipeline.cache_folder()
    return None if folder is None else folder / f"verdicts-{device.info.identity}-{emitter_hash()}.json"


def _load(device: Device) -> dict[str, str]:
    """The verdicts known in this process, at first those on disk."""
    if device.info.identity not in _known:
        _known[device.info.identity] = _read(device)
    return _known[device.info.identity]


def _read(device: Device) -> dict[str, str]:
    """The verdicts on disk; a file that is damaged or holds forms that do not exist counts as none."""
    path = _path(device)
    try:
        found = json.loads(path.read_bytes()) if path is not None else {}
        assert all(form in (*_candidates(isa.lookup(key)), NONE) for key, form in found.items())
    except (OSError, ValueError, AttributeError, LookupError, AssertionError, TypeError):
        return {}
    return dict(found)


def _save(device: Device, known: dict[str, str]) -> None:
    path = _path(device)
    if path is None:
        return
    pipeline.write_atomically(path, json.dumps(known, indent=1, sort_keys=True).encode())
    for old in path.parent.glob(f"verdicts-{device.info.identity}-*.json"):
        if old != path:
            old.unlink(missing_ok=True)


def forget() -> None:
    """Drop what this process knows (for tests); the files stay."""
    _known.clear()


def _log(device: Device, found: dict[str, str]) -> None:
    if found and os.environ.get("PHOBOS_LOG", "").lower() == "debug":
        for key, form in sorted(found.items()):
            print(f"phobos-sim: {device.name}: {key}: {form} form", file=sys.stderr)
