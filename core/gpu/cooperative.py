"""Cooperative matrices: what a device's own matrix unit offers through VK_KHR_cooperative_matrix.

Rules
 1. A shape and its types are used only where the device offers exactly these, at subgroup scope, with results of the
    addend's type.
 2. Which instruction stands behind an offer is the driver's choice, and what it computes is no promise of Vulkan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import isa
from ..formats import Format
from ..isa import Instruction
from ..tile import program as tp
from .sm86 import inexact
from .target import Offer, Target
from .vulkan import api

if TYPE_CHECKING:
    from .device import Device

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
    return Offer(row.shape.m, row.shape.n, row.shape.k, *names, bool(row.keywords.get("saturate", False)))


# ---- mode="cooperative" ------------------------------------------------------------------------------------------


def target_for(device: Device, target: Target) -> Target:
    """The target of a launch that gives exactness up."""
    return replace(target, inexact=True)


def stand_ins(program: tp.Program, target: Target) -> dict[str, str]:
    """instruction -> what computes its contractions instead; empty for an exact launch."""
    if not target.inexact:
        return {}
    keys = dict.fromkeys(c.instruction for c in program.contractions())
    return {key: inexact.NAME for key in keys if inexact.applies(isa.lookup(key))}


def describe(found: dict[str, str]) -> str:
    """What a launch gave up, for its notes."""
    return "; ".join(f"{name} in place of {key}" for key, name in found.items())


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
