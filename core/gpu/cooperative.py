"""The device's own matrix unit (VK_KHR_cooperative_matrix), and `mode="cooperative"`, which takes it for dots.

Rules
 1. A shape and its types are used only where the device offers exactly these, at subgroup scope, with results of the
    addend's type.
 2. Which instruction stands behind an offer is the driver's choice, and what it computes is no promise of Vulkan. So a
    launch that goes through the unit is inexact, unless a probe on this device shows the unit to give the bits of the
    requested arch: 32,768 results of hard operands, all equal to this package's exact form, for the row's own shape.
 3. Where the device offers nothing that fits, `mode="cooperative"` is f32 multiply-adds (`sm86.inexact`). It is never a
    default, and every report of such a launch says what was given up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import isa
from ..formats import F16, Codes, Format
from ..isa import Arch, Instruction
from ..tile import program as tp
from .cooperative_tile import tile_module
from .sm86 import inexact
from .target import Offer, Target
from .vulkan import api

if TYPE_CHECKING:
    from .device import Device

FORM = "cooperative"
RUN = 8  # elements that one invocation stages at a time
LANES = 32  # of `cooperative_tile`
PROBE_TILES = 256
EXTENSION = "VK_KHR_cooperative_matrix"
FEATURES = ("cooperativeMatrix", "vulkanMemoryModel")
#: VkComponentTypeKHR
_COMPONENTS = {"f16": 0, "f32": 1, "s8": 3, "s32": 5, "u8": 7}
_SCOPE_SUBGROUP = 3


def offer_of(row: Instruction) -> Offer | None:
    """What a matrix row needs, None for types that the extension has not."""
    assert row.shape is not None
    names = [fmt.name if isinstance(fmt, Format) else "" for fmt in row.operands]
    if any(name not in _COMPONENTS for name in names):
        return None
    a, b, c = names
    return Offer(row.shape.m, row.shape.n, row.shape.k, a, b, c, bool(row.keywords.get("saturate", False)))


# ---- mode="cooperative" ------------------------------------------------------------------------------------------


def target_for(device: Device, target: Target, program: tp.Program, arch: Arch) -> Target:
    """The target of a launch that gives exactness up: with what the device's matrix unit offers and was found to be."""
    found = frozenset(o for o in offers(device) if (o.a, o.b) == ("f16", "f16") and not o.saturates)
    able = target.required_subgroup_size and target.int16 and "shaderFloat16" in device.info.features
    if not found or not able or target.is_cpu:
        return replace(target, inexact=True)
    rows = {key: isa.lookup(key) for key in dict.fromkeys(c.instruction for c in program.contractions())}
    proven = frozenset(key for key, row in rows.items() if _is_matrix(row) and _proves(device, target, row, arch))
    return replace(target, inexact=True, offers=found, proven=proven)


def _is_matrix(row: Instruction) -> bool:
    return row.family == "tensor" and row.operands[0] is F16


def offer_for(op: tp.Contract, target: Target) -> Offer | None:
    """The offer through which a contraction goes: its row's own shape where that is there, else the largest."""
    row = isa.lookup(op.instruction)
    if not target.offers or not _is_matrix(row) or row.result is None:
        return None
    (m, n), k = op.result.shape, op.a.shape[1]
    fitting = [
        offer
        for offer in target.offers
        if offer.c == row.result.name and not (m % offer.m or n % offer.n or k % offer.k or k % RUN or n % RUN)
    ]
    own = offer_of(row)
    return own if own in fitting else max(fitting, key=lambda o: (o.m * o.n * o.k, o), default=None)


def padded(columns: int) -> int:
    """Halves of one row of a staged operand: the padding makes rows start in different banks."""
    return columns + RUN


def staged_bytes(op: tp.Contract) -> int:
    """Workgroup memory that a contraction's operands take."""
    return sum(2 * rows * padded(columns) for rows, columns in (op.a.shape, op.b.shape))


def stand_ins(program: tp.Program, target: Target, form: str) -> dict[str, str]:
    """Place of a dot -> what computed it in place of the arch's instruction; empty for an exact launch."""
    if not target.inexact:
        return {}
    found = {}
    for op in program.contractions():
        row = isa.lookup(op.instruction)
        offer = offer_for(op, target) if form == FORM else None
        if offer is not None and not (row.key in target.proven and offer == offer_of(row)):
            found[str(op.span)] = f"cooperative matrix {offer.m}x{offer.n}x{offer.k}"
        elif offer is None and inexact.applies(row):
            found[str(op.span)] = inexact.NAME
    return found


def notes(program: tp.Program, target: Target, form: str, arch: Arch, found: dict[str, str]) -> list[str]:
    """What a launch in this mode says of itself."""
    if not target.inexact:
        return []
    said = [f"INEXACT, by mode='cooperative': {name} at {place}" for place, name in found.items()]
    proven = {c.instruction for c in program.contractions() if form == FORM and c.instruction in target.proven}
    return said + [
        f"{key} by the device's own matrix unit, which gave {arch.name}'s bits in all of {PROBE_TILES * 128:,} results"
        for key in sorted(proven)
    ]


_proofs: dict[tuple[str, str, str], bool] = {}


def _proves(device: Device, target: Target, row: Instruction, arch: Arch) -> bool:
    """Whether the unit's results for one row are the arch's, on tiles of every class of hard operands."""
    from . import execute_matrix, probe_matrix

    if offer_of(row) not in offers(device) or device.info.subgroup_size != LANES or not arch.has(row):
        return False
    key = (device.info.identity, row.key, arch.name)
    if key not in _proofs:
        a, b, c = probe_matrix.operands(row, PROBE_TILES, seed=1)
        expected = execute_matrix.run(device, row, a, b, c, arch, target.forms.get(row.key))
        _proofs[key] = bool((multiply_add(device, row, a, b, c) == expected).all())
    return _proofs[key]


def multiply_add(device: Device, row: Instruction, a: Codes, b: Codes, c: Codes) -> Codes:
    """One multiply-add of the device's matrix unit per tile: a [t, m, k], b [t, k, n], c [t, m, n], all codes."""
    buffers = [device.buffer(np.ascontiguousarray(array)) for array in (a, b, c, ~c)]
    try:
        pipeline = device.pipeline(tile_module(row), 4, 0, LANES)
        device.dispatch(pipeline, buffers, (), (len(a), 1, 1))
        return buffers[3].read(c.dtype, c.shape)
    finally:
        for buffer in buffers:
            buffer.close()


# ---- what a device offers ----------------------------------------------------------------------------------------

_known: dict[str, frozenset[Offer]] = {}


def offers(device: Device) -> frozenset[Offer]:
    """What a device offers at subgroup scope; empty where it lacks the extension or the memory model that it takes."""
    identity = device.info.identity
    if identity not in _known:
        _known[identity] = _ask(device) if set(FEATURES) <= set(device.info.features) else frozenset()
    return _known[identity]


def _ask(device: Device) -> frozenset[Offer]:
    from .device import _load

    vk, state = api(), _load()
    address = vk.vkGetInstanceProcAddr(
        state.instance, vk.ffi.new("char[]", b"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
    )
    if address == vk.ffi.NULL:
        return frozenset()
    query = vk.ffi.cast("PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", address)
    count = vk.ffi.new("uint32_t*")
    query(device.physical, count, vk.ffi.NULL)
    found = vk.ffi.new("VkCooperativeMatrixPropertiesKHR[]", max(1, count[0]))
    for item in found:
        item.sType = vk.VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    query(device.physical, count, found)
    return frozenset(offer for p in list(found)[: count[0]] if (offer := _offer(p)) is not None)


def _offer(p: Any) -> Offer | None:
    names = {number: name for name, number in _COMPONENTS.items()}
    kinds = [names.get(int(kind)) for kind in (p.AType, p.BType, p.CType)]
    if int(p.scope) != _SCOPE_SUBGROUP or int(p.CType) != int(p.ResultType) or None in kinds:
        return None
    a, b, c = (str(kind) for kind in kinds)
    return Offer(p.MSize, p.NSize, p.KSize, a, b, c, bool(p.saturatingAccumulation))
