"""The Vulkan runtime: memory, pipelines, batches, limits, and what happens when things go wrong.

It runs on lavapipe, or on the device that PHOBOS_TEST_DEVICE names.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import spirv_samples
from helpers import assert_codes
from phobos_sim.errors import LaunchError, UnavailableError, UsageError
from phobos_sim.gpu import device as devices
from phobos_sim.gpu import memory, pipeline
from phobos_sim.gpu.device import Device
from phobos_sim.gpu.vulkan import DeviceLost, OutOfMemory
from phobos_sim.spirv.builder import Builder
from runtime_samples import U32, add, check_words, device_name, trips_module

pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def gpu() -> Device:
    return devices.open_device(device_name())


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Device]:
    """A device of this test's own, with a cache folder of its own."""
    shared = devices.open_device(device_name())
    monkeypatch.setenv("PHOBOS_CACHE", str(tmp_path))
    made = Device(shared.info, shared.physical)
    yield made
    made.close()


# ---- shaders and their results -----------------------------------------------------------------------------------


def test_word_operations(gpu: Device) -> None:
    check_words(gpu)


def test_push_constants_reach_the_shader(gpu: Device) -> None:
    a, b = gpu.buffer(np.arange(16, dtype=U32)), gpu.buffer(64)
    for value in (0, 1, 0x80000000, 0xFFFFFFFF):
        gpu.dispatch(add(gpu), [a, b], [0, value])
        assert_codes(b.read(), np.arange(16, dtype=U32) + U32(value))


@pytest.mark.parametrize("length", [1, 2, 70])
def test_a_batch_sees_what_came_before(gpu: Device, length: int) -> None:
    """Each dispatch reads what the one before it wrote, over many workgroups."""
    words = 16 * 512
    chain = [gpu.buffer(np.arange(words, dtype=U32)), gpu.buffer(4 * words), gpu.buffer(4 * words)]
    batch = [(add(gpu), [chain[i % 3], chain[(i + 1) % 3]], [0, i + 1], (512, 1, 1)) for i in range(length)]
    seconds = gpu.run(batch)
    assert seconds > 0
    assert_codes(chain[length % 3].read(), np.arange(words, dtype=U32) + U32(length * (length + 1) // 2))


def test_an_empty_batch_does_nothing(gpu: Device) -> None:
    assert gpu.run([]) == 0


def test_seconds_of_gives_one_figure_per_run(gpu: Device) -> None:
    item = (add(gpu), [gpu.buffer(64), gpu.buffer(64)], [0, 1], (1, 1, 1))
    assert len(gpu.seconds_of([item], repeats=3)) == 3


def test_a_demanded_subgroup_size_is_what_runs(gpu: Device) -> None:
    size = gpu.target.subgroup_size
    b = Builder(local_size=(4 * size, 1, 1))
    b.buffer(0).store(b.builtin("LocalInvocationIndex"), b.builtin("SubgroupSize"))
    out = gpu.buffer(16 * size)
    gpu.dispatch(gpu.pipeline(b.module(), 1, subgroup_size=size), [out])
    assert_codes(out.read(), np.full(4 * size, size, U32))
    for other in (size * 64, 3):
        with pytest.raises(UnavailableError, match="subgroups of"):
            gpu.pipeline(b.module(), 1, subgroup_size=other)


def test_the_loop_budget_is_kept(gpu: Device) -> None:
    """All trips that `loop_budget` allows are made: beyond, lavapipe stops silently (spirv-notes.md 4.1)."""
    trips = gpu.target.loop_budget or 1_000_000
    out = gpu.buffer(64)
    gpu.dispatch(gpu.pipeline(trips_module(), 1, 2), [out], [0, trips])
    assert_codes(out.read()[:8], np.full(8, trips, U32))


# ---- memory ------------------------------------------------------------------------------------------------------


def test_bytes_come_back(gpu: Device) -> None:
    buffer = gpu.buffer(1 << 12)
    for dtype in (np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.float64):
        array = np.random.default_rng(2).integers(0, 2, 24).astype(dtype).reshape(2, 3, 4)
        buffer.write(array, offset=64)
        assert_codes(buffer.read(dtype, (2, 3, 4), offset=64), array)
    assert buffer.read(np.uint16).shape == (2048,)
    buffer.write(np.empty(0, U32))
    buffer.write(np.array(5, U32))
    assert buffer.read(U32, 1)[0] == 5


@pytest.mark.parametrize("nbytes", [1, 4096, 3 * 4096, 3 * 4096 + 8])
def test_staging_gives_the_same_bytes(gpu: Device, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that is not mapped (a discrete GPU without a large BAR) goes through pieces of staging memory."""
    monkeypatch.setattr(memory, "STAGING_BYTES", 4096)
    monkeypatch.setattr(gpu.memory, "_staging", None)
    data = np.random.default_rng(3).integers(0, 256, nbytes, dtype=np.uint8)
    buffer = gpu.buffer(nbytes + 64)
    mapped = buffer.view(np.uint8)
    mapped[:] = 0
    buffer.block = replace(buffer.block, bytes=None)
    buffer.write(data, offset=32)
    assert_codes(mapped[32 : 32 + nbytes], data)
    assert not mapped[:32].any() and not mapped[32 + nbytes :].any()
    assert_codes(buffer.read(np.uint8, nbytes, offset=32), data)
    with pytest.raises(UnavailableError, match="not mapped"):
        buffer.view()


def test_uncached_memory_is_read_by_staging(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(10_000, dtype=U32)
    buffer = gpu.buffer(data)
    buffer.block = replace(buffer.block, cached=False)
    copied: list[int] = []
    copy = gpu.queue.copy
    monkeypatch.setattr(gpu.queue, "copy", lambda *args: (copied.append(args[-1]), copy(*args)))
    assert_codes(buffer.read(), data)
    assert sum(copied) == data.nbytes


def test_freed_memory_is_used_again(own: Device) -> None:
    first = own.buffer(5000)
    handle = first.handle
    first.close()
    first.close()
    again = own.buffer(5001)
    assert again.handle == handle
    del again
    gc.collect()  # a forgotten buffer returns too
    assert own.buffer(4999).handle == handle
    own.memory.trim()


def test_freed_memory_is_not_kept_without_bound(own: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "POOL_BYTES", 10_000)
    for buffer in [own.buffer(4096) for _ in range(5)]:
        buffer.close()
    assert own.memory._free_bytes <= 10_000
    assert len(own.memory._all) == 2


def test_sizes_are_rounded_up_a_little() -> None:
    for nbytes in [*range(1, 3000), 4097, 10_000_001, 1 << 27]:
        size = memory._size_class(nbytes)
        assert nbytes <= size <= max(256, nbytes + nbytes // 8 + 64)
    assert memory._size_class(1 << 27) == 1 << 27


def test_a_destroyed_buffer_leaves_no_stale_descriptor(own: Device) -> None:
    """A new buffer may get a destroyed one's handle; the descriptor must be written anew."""
    source = own.buffer(np.arange(16, dtype=U32))
    for value in range(20):
        target = own.buffer(64)
        own.dispatch(add(own), [source, target], [0, value])
        assert_codes(target.read(), np.arange(16, dtype=U32) + U32(value))
        target.close()
        own.memory.trim()


def test_parts_are_bound_where_they_start(gpu: Device) -> None:
    step = max(64, gpu.info.binding_alignment)
    whole = gpu.buffer(np.zeros(3 * step // 4, U32))
    source = gpu.buffer(np.arange(16, dtype=U32))
    gpu.dispatch(add(gpu), [source, whole.part(step, 64)], [0, 5])
    expected = np.zeros(3 * step // 4, U32)
    expected[step // 4 : step // 4 + 16] = np.arange(16) + 5
    assert_codes(whole.read(), expected)
    for offset, nbytes in ((4, 4), (step, 3 * step), (-step, 4), (0, 0)):
        with pytest.raises(LaunchError, match="must lie inside"):
            whole.part(offset, nbytes)


def test_wrong_use_of_buffers(gpu: Device) -> None:
    buffer = gpu.buffer(64)
    with pytest.raises(LaunchError, match="outside a buffer of 64 bytes"):
        buffer.write(np.zeros(17, U32))
    with pytest.raises(LaunchError, match="outside"):
        buffer.read(U32, 1, offset=64)
    with pytest.raises(LaunchError, match="outside"):
        buffer.read(U32, 1, offset=-4)
    with pytest.raises(LaunchError, match="not C-contiguous"):
        buffer.write(np.zeros((2, 2), U32).T)
    buffer.close()
    with pytest.raises(LaunchError, match="closed"):
        buffer.read()
    with pytest.raises(LaunchError, match="binding 1 is closed"):
        gpu.dispatch(add(gpu), [gpu.buffer(64), buffer], [0, 0])


def test_an_array_above_the_device_limit_names_the_limit(gpu: Device) -> None:
    limit = gpu.info.max_buffer_bytes
    with pytest.raises(LaunchError, match=rf"{limit + 4} bytes: .* binds {limit} at most \(maxStorageBufferRange"):
        gpu.buffer(limit + 4)
    with pytest.raises(LaunchError, match="maxStorageBufferRange"):
        gpu.buffer(-4)


# ---- pipelines ---------------------------------------------------------------------------------------------------


def test_pipelines_are_cached_by_content(gpu: Device) -> None:
    module = spirv_samples.copy()
    assert gpu.pipeline(module, 2, 2) is gpu.pipeline(bytes(bytearray(module)), 2, 2)
    assert gpu.pipeline(module, 2, 2) is not gpu.pipeline(module, 3, 2)
    assert gpu.pipeline(module, 2, 2) is not gpu.pipeline(spirv_samples.words(), 3, 1)
    assert gpu.pipeline(module, 2, 2) is not gpu.pipeline(module, 2, 2, subgroup_size=gpu.target.subgroup_size)


def test_old_pipelines_are_dropped_but_live_where_held(own: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "KEPT_PIPELINES", 2)
    held = add(own)
    for bindings in (3, 4, 5):
        own.pipeline(spirv_samples.copy(), bindings, 2)
    gc.collect()
    assert len(own.pipelines._living) == 3  # two kept, one held
    assert add(own) is not held
    a, b = own.buffer(np.arange(16, dtype=U32)), own.buffer(64)
    own.dispatch(held, [a, b], [0, 3])
    assert_codes(b.read(), np.arange(16, dtype=U32) + U32(3))


def test_what_is_no_module_or_too_much_is_refused(gpu: Device) -> None:
    with pytest.raises(UsageError, match="not a SPIR-V module"):
        gpu.pipeline(b"\x03\x02#\x07", 1)
    with pytest.raises(UnavailableError, match="9999999 buffers: .* takes"):
        gpu.pipeline(spirv_samples.copy(), 9999999, 2)
    with pytest.raises(UnavailableError, match="99 push constant words: .* takes"):
        gpu.pipeline(spirv_samples.copy(), 2, 99)


@pytest.mark.parametrize(
    ("buffers", "push", "groups", "message"),
    [
        (1, 2, (1, 1, 1), "1 buffers and 2 push constant words for"),
        (2, 1, (1, 1, 1), "2 buffers and 1 push constant words for"),
        (2, 2, (0, 1, 1), "0 x 1 x 1 workgroups"),
        (2, 2, (1, 1, 1 << 20), "1 x 1 x 1048576 workgroups: .* runs 1 to [0-9]+ x [0-9]+ x [0-9]+ in"),
    ],
)
def test_wrong_dispatches(gpu: Device, buffers: int, push: int, groups: tuple[int, int, int], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        gpu.dispatch(add(gpu), [gpu.buffer(64)] * buffers, [0] * push, groups)


def test_a_wrong_dispatch_keeps_the_whole_batch_from_running(gpu: Device) -> None:
    a, b = gpu.buffer(np.ones(16, U32)), gpu.buffer(np.zeros(16, U32))
    with pytest.raises(LaunchError):
        gpu.run([(add(gpu), [a, b], [0, 1], (1, 1, 1)), (add(gpu), [a], [0, 1], (1, 1, 1))])
    assert not b.read().any()


def test_the_cache_on_disk_is_written_and_checked(own: Device, tmp_path: Path) -> None:
    add(own)
    own.close()
    own.close()
    [path] = (tmp_path / "pipelines").iterdir()
    assert path.stem == own.info.identity
    again = Device(own.info, own.physical)
    assert again.pipelines._loaded and path.read_bytes().endswith(again.pipelines._loaded)
    again.close()
    data = path.read_bytes()
    for damaged in (data[:-1], data[:-1] + bytes([data[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        third = Device(own.info, own.physical)
        assert third.pipelines._loaded == b""
        third.close()


def test_no_cache_where_it_is_off(own: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOBOS_CACHE", "off")
    add(own)
    own.close()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_no_error(
    own: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PHOBOS_CACHE", str(tmp_path / "file"))
    add(own)
    own.close()


# ---- life --------------------------------------------------------------------------------------------------------


def test_a_closed_device_says_so(own: Device) -> None:
    buffer, made = own.buffer(64), add(own)
    own.close()
    for use in (lambda: own.buffer(64), lambda: own.dispatch(made, [buffer, buffer], [0, 0]), lambda: add(own)):
        with pytest.raises(UnavailableError, match="closed or was lost"):
            use()
    buffer.close()
    made.close()


def test_opening_twice_gives_the_same_device(gpu: Device) -> None:
    assert devices.open_device(device_name()) is gpu
    assert devices.open_device(f"vulkan:{gpu.info.index}") is gpu


def test_threads_may_share_a_device(gpu: Device) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, b = gpu.buffer(np.arange(16, dtype=U32) + U32(seed)), gpu.buffer(64)
        for value in range(50):
            gpu.dispatch(add(gpu), [a, b], [0, value])
            if (b.read() != np.arange(16, dtype=U32) + U32(seed + value)).any():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_lost_device_is_abandoned(own: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    item = (add(own), [own.buffer(64), own.buffer(64)], [0, 1], (1, 1, 1))
    monkeypatch.setattr(own.vk, "vkWaitForFences", lambda *args: -4)
    with pytest.raises(DeviceLost, match="VK_ERROR_DEVICE_LOST") as error:
        own.run([item])
    assert error.value.exit_status == 4
    assert not own.alive


def test_an_interrupt_abandons_the_device(own: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    item = (add(own), [own.buffer(64), own.buffer(64)], [0, 1], (1, 1, 1))

    def interrupt(*args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(own.vk, "vkWaitForFences", interrupt)
    with pytest.raises(KeyboardInterrupt):
        own.run([item])
    assert not own.alive


def test_freed_memory_makes_room_before_memory_is_out(own: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    own.buffer(1 << 20).close()
    allocate = own.vk.vkAllocateMemory
    # VK_ERROR_OUT_OF_DEVICE_MEMORY while anything is kept for reuse
    monkeypatch.setattr(own.vk, "vkAllocateMemory", lambda *args: -2 if own.memory._free_bytes else allocate(*args))
    held = own.buffer(3 << 20)
    assert (held.nbytes, own.memory._free_bytes) == (3 << 20, 0)
    monkeypatch.setattr(own.vk, "vkAllocateMemory", lambda *args: -2)
    before = len(own.memory._all)
    with pytest.raises(OutOfMemory, match="no memory left"):
        own.buffer(5 << 20)
    assert len(own.memory._all) == before


def test_a_device_that_computes_wrongly_is_refused(own: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_smoke_module", spirv_samples.copy)
    with pytest.raises(UnavailableError, match="wrong words of 64"):
        devices._smoke(own)
