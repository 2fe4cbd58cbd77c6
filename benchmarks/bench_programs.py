"""Attention, softmax and layer norm against the same formulas in numpy float32, interleaved.

Attention: one head, f16, N = 1024, D = 64. Its two products are 2^27 multiply-adds, as many as a matrix product of
512^3, and it takes 2^20 exponentials: both are timed beside it, by themselves. Softmax and layer norm: 1024 x 1024.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import phobos_sim as sim
from harness import ROOT, Samples, about, interleaved, ratio
from phobos_sim.gpu.device import open_device

RUNS = 11
N, D = 1024, 64
DEVICE = os.environ.get("PHOBOS_DEVICE", "vulkan")


def example(name: str) -> sim.Kernel:
    return sim.load(ROOT / "examples" / f"{name}.py").kernels[name]


def attention(rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    kernel = example("flash_attention_f16")
    q, k, v = (rng.standard_normal((N, D), np.float32).astype(np.float16) for _ in "qkv")
    out = np.empty((N, D), np.float16)
    x, y, z = (t.astype(np.float32) for t in (q, k, v))
    scale = np.float32(D**-0.5)

    def in_numpy() -> None:
        s = (x @ y.T) * scale
        s = np.exp(s - s.max(axis=1, keepdims=True))
        _ = (s @ z) / s.sum(axis=1, keepdims=True)

    product = sim.load(ROOT / "benchmarks" / "kernels.py").kernels["hmma_f32"]
    a, b = (rng.standard_normal((512, 512), np.float32).astype(np.float16) for _ in "ab")
    c = np.empty((512, 512), np.float16)
    codes = rng.standard_normal(N * N, np.float32)
    return {
        "attention": lambda: kernel.launch((N // 32,), q, k, v, out, float(scale), device=DEVICE).seconds,
        "attention, numpy": in_numpy,
        "attention, inexact dots": lambda: (
            kernel.launch((N // 32,), q, k, v, out, float(scale), device=DEVICE, mode="cooperative").seconds
        ),
        "its products alone": lambda: product.launch((8, 8), a, b, c, device=DEVICE).seconds,
        "its exponentials alone": lambda: sim.execute("MUFU.EX2", codes, device=DEVICE),
    }


def softmax(rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    kernel, x = example("softmax"), rng.standard_normal((N, N), np.float32)
    out = np.empty_like(x)

    def in_numpy() -> None:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        _ = e / e.sum(axis=1, keepdims=True)

    return {
        "softmax": lambda: kernel.launch((N // 4,), x, out, device=DEVICE).seconds,
        "softmax, numpy": in_numpy,
    }


def layer_norm(rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    kernel, x = example("layer_norm"), rng.standard_normal((N, N), np.float32)
    g, b = (rng.standard_normal((1, N), np.float32) for _ in "gb")
    y, mean, rstd = np.empty_like(x), np.empty((N, 1), np.float32), np.empty((N, 1), np.float32)

    def in_numpy() -> None:
        m = x.mean(axis=1, keepdims=True)
        d = x - m
        r = 1 / np.sqrt((d * d).mean(axis=1, keepdims=True) + np.float32(1e-5))
        _ = d * r * g + b

    arguments = (x, g, b, y, mean, rstd, 1 / N, 1e-5)
    return {
        "layer norm": lambda: kernel.launch((N // 4,), *arguments, device=DEVICE).seconds,
        "layer norm, numpy": in_numpy,
    }


def main() -> int:
    rng = np.random.default_rng(0)
    samples: dict[str, Samples] = {}
    ratios = {}
    for make in (attention, softmax, layer_norm):
        cases = make(rng)
        taken = interleaved(cases, RUNS)
        samples |= taken
        ours, theirs = list(cases)[:2]
        ratios[f"{ours} over numpy"] = ratio(taken[ours], taken[theirs])
    parts = [samples["its products alone"], samples["its exponentials alone"]]
    both = Samples(free=[sum(times) for times in zip(*(part.free for part in parts))])
    ratios["attention over its products and exponentials"] = ratio(samples["attention"], both)
    ratios["attention over the same with inexact dots"] = ratio(
        samples["attention"], samples["attention, inexact dots"]
    )
    table = about("programs", open_device(DEVICE))
    print(json.dumps({**table, "cases": {name: s.summary() for name, s in samples.items()}, "ratios": ratios}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
