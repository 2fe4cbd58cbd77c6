"""What shaders cost to compile: every instruction in every form, and whole kernels in every form.

On a device that runs: CPU milliseconds of emission, and of compilation, which is pipeline creation and what the first
dispatch takes more than the following ones (lavapipe compiles then); no cache of ours or the driver's is used. On
compilers of GPUs that are not there: CPU milliseconds of pipeline creation, instructions, loops, registers and spills,
as VK_KHR_pipeline_executable_properties gives them; nothing runs. AMD's (RADV) shows a device by RADV_FORCE_FAMILY.
Intel's takes PHOBOS_INTEL_SHIM, which names libintel_noop_drm_shim.so of Mesa's drm-shim (known with Mesa 22.3.6). What
is not to be had is left out. Arguments: `kernels` or `instructions` for one part only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("PHOBOS_CACHE", "off")
os.environ.setdefault("MESA_SHADER_CACHE_DISABLE", "true")

import numpy as np
import phobos_sim as sim
import shaders
from harness import ROOT, about
from phobos_sim import isa
from phobos_sim.formats import dtype_of
from phobos_sim.gpu import execute, execute_matrix, probe_matrix, sm86, statistics
from phobos_sim.gpu.device import Device, open_device
from phobos_sim.gpu.emitter import Shader
from phobos_sim.gpu.run import instructions_of
from phobos_sim.gpu.sm86.resolve import missing
from phobos_sim.gpu.target import Target
from phobos_sim.isa import Instruction

ICDS = Path("/usr/share/vulkan/icd.d")
INTEL, AMD = ICDS / "intel_icd.x86_64.json", ICDS / "radeon_icd.x86_64.json"
#: compiler -> the environment that makes its driver show a device
COMPILERS = {
    "tgl": {"INTEL_STUB_GPU_PLATFORM": "tgl", "VK_DRIVER_FILES": str(INTEL)},
    "dg2": {"INTEL_STUB_GPU_PLATFORM": "dg2", "VK_DRIVER_FILES": str(INTEL)},
    "vega10": {"RADV_FORCE_FAMILY": "vega10", "VK_DRIVER_FILES": str(AMD)},
    "navi21": {"RADV_FORCE_FAMILY": "navi21", "VK_DRIVER_FILES": str(AMD)},
}
FORMS = ("tgl", "dg2")
ICD = "/usr/share/vulkan/icd.d/intel_icd.x86_64.json"
FORMS = ("loops", "registers", "shared")
RUNS = 3
#: what is reported -> parts of the names that drivers give it
FIGURES = {
    "instructions": ("instruction count", "instructions"),
    "loops": ("loop count",),
    "registers": ("vgprs",),
    "spills": ("spill count", "spilled vgprs"),
}
#: kernel file, name, extents, grid
KERNELS = (
    ("benchmarks/kernels.py", "hmma_f32", {"M": 512, "N": 512, "K": 512}, (8, 8, 1)),
    ("benchmarks/kernels.py", "hmma_f32_t", {"M": 512, "N": 512, "K": 512}, (8, 8, 1)),
    ("benchmarks/kernels.py", "hmma_f16", {"M": 512, "N": 512, "K": 512}, (8, 8, 1)),
    ("benchmarks/kernels.py", "ffma", {"M": 512, "N": 512, "K": 512}, (8, 8, 1)),
    ("benchmarks/kernels.py", "hfma2", {"M": 512, "N": 512, "K": 512}, (8, 8, 1)),
    ("benchmarks/kernels.py", "imma", {"M": 512, "N": 512, "K": 512}, (8, 8, 1)),
    ("examples/softmax.py", "softmax", {"M": 1024}, (256, 1, 1)),
    ("examples/layer_norm.py", "layer_norm", {"M": 1024}, (256, 1, 1)),
    ("examples/flash_attention_f16.py", "flash_attention_f16", {"Nq": 1024, "Nk": 1024}, (32, 1, 1)),
)


def cpu_ms(began: float) -> float:
    return round(1e3 * (time.process_time() - began), 1)


# ---- what is compiled --------------------------------------------------------------------------------------------


def kernels(target: Target) -> Iterator[tuple[str, str, Shader, float]]:
    """(kernel, form, shader, emission in CPU ms); forms that a kernel does not fit are left out."""
    for path, name, dims, grid in KERNELS:
        program = sim.load(ROOT / path).kernels[name].program()
        for form in FORMS:
            if form == "loops" and "hmma" not in name:
                continue
            if form == "registers" and shaders.is_large(program, target):
                continue  # a GPU is never given it
            began = time.process_time()
            try:
                shader, _ = shaders.of_kernel(program, dims, grid, target, form)
            except sim.UsageError:
                continue
            yield name, form, shader, cpu_ms(began)


def instructions(target: Target) -> Iterator[tuple[Instruction, str, bytes, int, int]]:
    """(row, form, module, buffers, push constant words) of every form that the device has the features for."""
    for row in isa.INSTRUCTIONS:
        if row.is_matrix:
            arch = probe_matrix.arch_of(row)
            for form in (*probe_matrix.candidates(row), *(["loops"] if row.family == "tensor" else [])):
                module, _, _ = execute_matrix._shader(row, arch, target, form, False)
                yield row, form, module, 3, execute_matrix._WORDS
            continue
        sample = [np.zeros(1, dtype_of(fmt or isa.lookup("FADD").operands[0])) for fmt in row.operands]
        formats = execute.operand_formats(row, sample)
        for form in sm86.candidates(row):
            if missing(row, form, target):
                continue
            chosen = tuple(sorted({**target.forms, row.key: form}.items()))
            forced = shaders.with_forms(target, dict(chosen))
            yield row, form, execute.shader(row, formats, forced, chosen), len(formats) + 1, 1


# ---- a device that runs ------------------------------------------------------------------------------------------


def on_device(device: Device, parts: list[str]) -> dict[str, object]:
    from phobos_sim.gpu import probe

    found: dict[str, object] = {}
    keys = [row.key for row in isa.INSTRUCTIONS]
    target = probe.target_for(device, keys)
    if "instructions" in parts:
        rows = []
        for row, form, module, bindings, words in instructions(target):
            ms = first_dispatch(device, module, bindings, words, None, row.is_matrix)
            rows.append({"instruction": row.key, "family": row.family, "form": form, "ms": ms, "bytes": len(module)})
        found["instructions"] = rows
    if "kernels" in parts:
        rows = []
        for path, name, dims, grid in KERNELS:
            program = sim.load(ROOT / path).kernels[name].program()
            target = probe.target_for(device, instructions_of(program))
            for kernel, form, shader, emission in kernels(target):
                if kernel == name:
                    ms = first_dispatch(
                        device, shader.code, len(shader.bindings), shader.push_words, shader.subgroup_size
                    )
                    row = {"kernel": name, "form": form, "emission_ms": emission, "ms": ms, "bytes": len(shader.code)}
                    rows.append(row)
            del dims, grid
        found["kernels"] = rows
    return found


def first_dispatch(
    device: Device, module: bytes, bindings: int, words: int, subgroup_size: int | None, one_group: bool = False
) -> float:
    """CPU ms of creation and first dispatch, less those of a second one. All sizes are zero: next to nothing runs."""
    buffers = [device.buffer(1 << 22) for _ in range(bindings)]
    for buffer in buffers:
        buffer.write(np.zeros(1 << 20, np.uint32))
    push = [0] * words
    if one_group:  # matrix rows: one output, one group
        push = [0, 1, 1, 1, 64, 0, 1]
    began = time.process_time()
    pipeline = device.pipeline(module, bindings, words, subgroup_size)
    device.dispatch(pipeline, buffers, push)
    first = cpu_ms(began)
    began = time.process_time()
    device.dispatch(pipeline, buffers, push)
    for buffer in buffers:
        buffer.close()
    return round(max(0.0, first - cpu_ms(began)), 1)


# ---- a compiler that cannot run ----------------------------------------------------------------------------------


def on_compiler(parts: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    with statistics.compiler("vulkan:0") as device:
        target = statistics.assumed_target(device)
        found["device"] = device.name
        found["driver"] = device.info.driver_info
        if "kernels" in parts:
            found["kernels"] = [
                {
                    "kernel": name,
                    "form": form,
                    **compiled(device, s.code, len(s.bindings), s.push_words, s.subgroup_size),
                }
                for name, form, s, _ in kernels(target)
            ]
        if "instructions" in parts:
            found["instructions"] = [
                {
                    "instruction": row.key,
                    "family": row.family,
                    "form": form,
                    **compiled(device, module, bindings, words),
                }
                for row, form, module, bindings, words in instructions(target)
            ]
    return found


def compiled(
    device: Device, module: bytes, bindings: int, words: int, subgroup_size: int | None = None
) -> dict[str, object]:
    """The best of a few compilations; one is enough where it takes long."""
    best = statistics.compile_statistics(device, module, bindings, words, subgroup_size)
    for _ in range(RUNS - 1 if best.cpu_seconds < 1 else 0):
        again = statistics.compile_statistics(device, module, bindings, words, subgroup_size)
        best = min(best, again, key=lambda s: s.cpu_seconds)
    figures = {name: _first(best, parts) for name, parts in FIGURES.items()}
    lanes = max((e.subgroup_size for e in best.executables), default=0)
    return {"ms": round(1e3 * best.cpu_seconds, 1), "lanes": lanes, **figures}


def _first(found: statistics.Statistics, parts: tuple[str, ...]) -> float | None:
    """The figure under the name that the driver has for it; loops are counted by Intel's alone."""
    return next((value for part in parts if (value := found.largest(part)) is not None), None)


def compilers(parts: list[str]) -> dict[str, object]:
    shim = os.environ.get("PHOBOS_INTEL_SHIM", "")
    found: dict[str, object] = {}
    for platform, environment in COMPILERS.items():
        if not Path(environment["VK_DRIVER_FILES"]).exists():
            found[platform] = "not run: its driver is not here"
            continue
        if "INTEL_STUB_GPU_PLATFORM" in environment:
            if not Path(shim).is_file():
                found[platform] = "not run: PHOBOS_INTEL_SHIM names no shim"
                continue
            environment = {**environment, "LD_PRELOAD": shim}
        done = subprocess.run(
            [sys.executable, __file__, "--compiler", *parts],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        found[platform] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parts = [part for part in ("kernels", "instructions") if part in sys.argv[1:]] or ["kernels", "instructions"]
    if "--compiler" in sys.argv:
        print(json.dumps(on_compiler(parts)))
        return 0
    device = open_device(os.environ.get("PHOBOS_DEVICE", "vulkan"))
    print(json.dumps({**about("compile", device), **on_device(device, parts), "compilers": compilers(parts)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
