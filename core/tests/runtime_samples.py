"""What the tests of the Vulkan runtime share: the device under test, and shaders with their expected results."""

from __future__ import annotations

import os

import numpy as np
import spirv_samples
from helpers import assert_codes, llvmpipe
from phobos_sim.gpu.device import Device
from phobos_sim.gpu.pipeline import Pipeline
from phobos_sim.spirv.builder import Builder, Value

U32 = np.uint32


def device_name() -> str:
    """The device under test, or a skip."""
    return os.environ.get("PHOBOS_TEST_DEVICE") or llvmpipe()


def add(gpu: Device) -> Pipeline:
    """buffer 1[i] = buffer 0[i] + push[1], 16 words per workgroup."""
    return gpu.pipeline(spirv_samples.copy(), bindings=2, push_words=2)


def expected_words(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What spirv_samples.words computes, in numpy; one row per name."""
    odd, shift, narrow = y | U32(1), y & U32(31), (y >> U32(8) | U32(1)).astype(np.int64)
    sx, sy, product = x.view(np.int32), y.view(np.int32), x.astype(np.uint64) * y
    quotient = np.sign(sx.astype(np.int64)) * (np.abs(sx.astype(np.int64)) // narrow)
    rows = {
        "add": x + y,
        "sub": x - y,
        "rsub": U32(7) - x,
        "mul": x * y,
        "udiv": x // odd,
        "umod": x % odd,
        "sdiv": quotient.astype(U32),
        "and": x & y,
        "or": x | y,
        "xor": x ^ y,
        "not": ~x,
        "neg": U32(0) - x,
        "shl": x << shift,
        "shr": x >> shift,
        "sar": (sx >> shift.view(np.int32)).view(U32),
        "ult": (x < y).astype(U32),
        "sle": (sx <= sy).astype(U32),
        "sgt": (sx > sy).astype(U32),
        "uge": (x >= y).astype(U32),
        "bools": np.where(((x != y) & (x < y)) | ((x != y) ^ (y < x)), x, y),
        "umax": np.maximum(x, y),
        "smin": np.minimum(sx, sy).view(U32),
        "msb": np.array([int(v).bit_length() - 1 for v in x], np.int64).astype(U32),
        "hi": (product >> np.uint64(32)).astype(U32),
        "lo": product.astype(U32),
        "bit": x >> U32(5) & U32(1),
        "nan": ((x & U32(0x7FFFFFFF)) > 0x7F800000).astype(U32),
        "absmax": np.maximum((x & U32(0x7FFFFFFF)), y & U32(0x3FFFFFFF)),
    }
    assert list(rows) == list(spirv_samples.WORDS)
    return np.stack(list(rows.values()))


def irregular(x: np.ndarray) -> np.ndarray:
    """True where the f32 code is a NaN or subnormal."""
    magnitude = x & U32(0x7FFFFFFF)
    return (magnitude > 0x7F800000) | ((magnitude < 0x00800000) & (magnitude != 0))


def operands() -> tuple[np.ndarray, np.ndarray]:
    """64 pairs of words: corner values against each other, then random ones."""
    corners = np.array([0, 1, 7, 0x7F800000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3FFFFFFF], U32)
    random = np.random.default_rng(1).integers(0, 1 << 32, (2, 28), dtype=U32)
    x, y = np.meshgrid(corners[:6], corners[:6])
    return np.concatenate([x.ravel(), random[0]]), np.concatenate([y.ravel(), random[1]])


def check_words(gpu: Device) -> None:
    x, y = operands()
    out = gpu.buffer(4 * 64 * len(spirv_samples.WORDS))
    made = gpu.pipeline(spirv_samples.words(), 3, 1)
    gpu.dispatch(made, [gpu.buffer(x), gpu.buffer(y), out], [0], (4, 1, 1))
    got, expected = out.read(U32, (len(spirv_samples.WORDS), 64)), expected_words(x, y)
    for row, name in enumerate(spirv_samples.WORDS):
        # a float maximum of a NaN is the driver's choice, and so are subnormals (SwiftShader flushes them)
        keep = ~(irregular(x) | irregular(y & U32(0x3FFFFFFF))) if name == "absmax" else np.ones(64, bool)
        assert_codes(got[row][keep], expected[row][keep], name)


def trips_module(local: int = 8) -> bytes:
    """out[i] = how many of push[1] trips a loop made, with work in it that no compiler folds."""
    b = Builder(local_size=(local, 1, 1))
    b.push_constants(2)
    count, state = b.variable("u32", 0), b.variable("u32", 1)

    def trip() -> Value:
        x = state.load() * 1664525 + 1013904223
        state.store(x ^ (x >> 7))
        following = count.load() + 1
        count.store(following)
        return following < b.push(1)

    b.do_while(trip)
    out = b.buffer(0)
    out.store(b.builtin("LocalInvocationId", 0), count.load())
    out.store(b.builtin("LocalInvocationId", 0) + local, state.load())
    return b.module()
