"""Memory: from descriptors, from hardware buffers, and copies."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from samples import compiled, device_memory, execution, increment_model, raises, shared_memory

import nnvk
from nnvk import Memory, ResultCode

PAGE = mmap.PAGESIZE
READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE


@pytest.fixture
def descriptor() -> Iterator[int]:
    """A file of two pages."""
    made = os.memfd_create("test")
    os.write(made, bytes(range(256)) * (2 * PAGE // 256))
    yield made
    os.close(made)


def test_memory_of_a_file(descriptor: int) -> None:
    memory = Memory.create_from_fd(100, READ | WRITE, descriptor, PAGE)
    assert memory.size == 100
    assert memory.dimensions == ()
    assert memory.is_initialized
    np.testing.assert_array_equal(memory.slice(3, 4), [3, 4, 5, 6])
    memory.slice(0, 1)[:] = 99
    assert os.pread(descriptor, 1, PAGE) == b"c"


def test_the_descriptor_may_be_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcd")
    with path.open("r+b") as file:
        memory = Memory.create_from_fd(4, READ, file.fileno())
    path.unlink()
    assert memory.read().tobytes() == b"abcd"


@pytest.mark.parametrize(
    ("size", "protect", "offset"),
    [
        (0, READ, 0),
        (-1, READ, 0),
        (2 * PAGE + 1, READ, 0),
        (PAGE + 1, READ, PAGE),
        (1, READ, 2 * PAGE),
        (1, READ, 1),
        (1, READ, -PAGE),
        (1, mmap.PROT_EXEC, 0),
        (1, READ | 8, 0),
    ],
    ids=str,
)
def test_what_can_not_be_mapped(descriptor: int, size: int, protect: int, offset: int) -> None:
    with raises(ResultCode.BAD_DATA):
        Memory.create_from_fd(size, protect, descriptor, offset)


def test_descriptors_that_can_not_be_mapped(tmp_path: Path) -> None:
    with raises(ResultCode.UNMAPPABLE):
        Memory.create_from_fd(16, READ, -1)
    path = tmp_path / "file"
    path.write_bytes(bytes(16))
    with path.open("rb") as file, raises(ResultCode.UNMAPPABLE):
        Memory.create_from_fd(16, READ | WRITE, file.fileno())  # it was opened for reading


def test_memory_without_protection_is_of_no_use(descriptor: int) -> None:
    memory = Memory.create_from_fd(16, 0, descriptor)
    assert memory.size == 16
    with raises(ResultCode.BAD_DATA, "nothing can read it"):
        memory.slice(0, 4)
    with raises(ResultCode.BAD_DATA, "nothing can read it"):
        Memory.copy(memory, shared_memory(16))
    with raises(ResultCode.BAD_DATA):
        Memory.copy(shared_memory(16), memory)


@pytest.mark.parametrize(("offset", "length"), [(-1, 2), (0, 17), (16, 1), (8, -1), (2**62, 2**62)], ids=str)
def test_bytes_outside_of_the_memory(offset: int, length: int) -> None:
    with raises(ResultCode.BAD_DATA, "outside"):
        shared_memory(16).slice(offset, length)


@pytest.mark.parametrize("size", [0, 1, 4096, 1 << 20])
def test_a_hardware_buffer_keeps_its_size(size: int) -> None:
    """Whoever has its descriptor: memory that is mapped and gone kills the process that touches it."""
    buffer = nnvk.HardwareBuffer(3 * PAGE)
    memory = Memory.create_from_hardware_buffer(buffer)
    code = f"import os, sys; os.ftruncate(int(sys.argv[1]), {size})"
    command = [sys.executable, "-c", code, str(buffer.fileno())]
    shared = subprocess.run(command, pass_fds=[buffer.fileno()], capture_output=True, text=True, check=False)
    assert "PermissionError" in shared.stderr
    memory.slice(0, memory.size)[:] = 7
    assert os.pread(buffer.fileno(), 1, 3 * PAGE - 1) == b"\x07"


def test_a_hardware_buffer_is_shared() -> None:
    buffer = nnvk.HardwareBuffer(64)
    memory = Memory.create_from_hardware_buffer(buffer)
    buffer.lock()[:4] = (1, 2, 3, 4)
    np.testing.assert_array_equal(memory.slice(0, 4), [1, 2, 3, 4])
    other = Memory.create_from_fd(64, READ, buffer.fileno())  # as another process would
    memory.slice(0, 1)[:] = 9
    assert other.slice(0, 1) == 9
    del buffer
    gc.collect()
    assert memory.slice(0, 1) == 9


@pytest.mark.parametrize("size", [0, -1])
def test_hardware_buffers_of_no_size(size: int) -> None:
    with raises(ResultCode.BAD_DATA, "positive"):
        nnvk.HardwareBuffer(size)


def test_hardware_buffers_that_are_too_large() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with raises(ResultCode.OUT_OF_MEMORY):
        nnvk.HardwareBuffer(2**62)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_memories_keep_no_descriptors() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    memories = [shared_memory(16) for _ in range(10)]
    memories.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


# --- copies ------------------------------------------------------------------------------------------------------

KINDS = ["hardware buffer", "file", "device", "host"]
VALUES = np.arange(4, dtype=np.float32)


def memory_of(kind: str, device: nnvk.Device, content: np.ndarray | None) -> Memory:
    """16 bytes of a kind. The roles of ``host`` are on two devices, so that no device can hold it."""
    if kind == "hardware buffer":
        return shared_memory(16 if content is None else content)
    if kind == "file":
        descriptor = os.memfd_create("kind")
        os.write(descriptor, bytes(16) if content is None else content.tobytes())
        try:
            return Memory.create_from_fd(16, READ | WRITE, descriptor)
        finally:
            os.close(descriptor)
    devices = [device] if kind == "device" else nnvk.get_devices()
    compilations = [compiled(increment_model(), each) for each in devices]
    memory = device_memory(outputs=[(compilation, 0) for compilation in compilations])
    assert (memory.buffer is None) == (kind == "host")
    if content is not None:
        execution(compilations[0], [content - 1], [memory]).compute()
    return memory


def content_of(memory: Memory) -> np.ndarray:
    """Return the content of a memory as float32."""
    target = shared_memory(memory.size)
    Memory.copy(memory, target)
    return target.read().view(np.float32)


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_copies_between_any_kinds(device: nnvk.Device, source: str, target: str) -> None:
    origin, copy = memory_of(source, device, VALUES), memory_of(target, device, None)
    Memory.copy(origin, copy)
    np.testing.assert_array_equal(content_of(copy), VALUES)
    np.testing.assert_array_equal(content_of(origin), VALUES)
    assert copy.is_initialized


def test_copies_between_devices(cpu: nnvk.Device, gpu: nnvk.Device) -> None:
    first, second = memory_of("device", gpu, VALUES), memory_of("device", cpu, None)
    Memory.copy(first, second)
    third = memory_of("device", gpu, None)
    Memory.copy(second, third)
    np.testing.assert_array_equal(content_of(third), VALUES)


@pytest.mark.parametrize("kind", ["device", "host"])
def test_a_source_must_hold_something(device: nnvk.Device, kind: str) -> None:
    target = memory_of("device", device, VALUES)
    with raises(ResultCode.BAD_DATA, "not initialised"):
        Memory.copy(memory_of(kind, device, None), target)
    assert not target.is_initialized  # a copy that fails leaves nothing


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_needs_equal_sizes(device: nnvk.Device, kind: str) -> None:
    memory = memory_of(kind, device, VALUES)
    for size in (15, 17, 32):
        with raises(ResultCode.BAD_DATA, "bytes"):
            Memory.copy(shared_memory(size), memory)
    memory = memory_of(kind, device, VALUES)
    for size in (15, 17, 32):
        with raises(ResultCode.BAD_DATA, "bytes"):
            Memory.copy(memory, shared_memory(size))


def test_a_copy_between_device_memories_needs_equal_dimensions(device: nnvk.Device) -> None:
    type_ = nnvk.OperandType(nnvk.OperandCode.TENSOR_FLOAT32, (2, 2))
    square, line = compiled(increment_model(type_=type_), device), compiled(increment_model(), device)
    source, target = device_memory(outputs=[(square, 0)]), device_memory(outputs=[(line, 0)])
    execution(square, [np.ones((2, 2), np.float32)], [source]).compute()
    with raises(ResultCode.BAD_DATA, "dimensions"):
        Memory.copy(source, target)


def test_memory_that_can_only_be_read_is_no_target(descriptor: int) -> None:
    memory = Memory.create_from_fd(16, READ, descriptor)
    with raises(ResultCode.BAD_DATA, "written"):
        Memory.copy(shared_memory(16), memory)


def test_a_copy_that_fails_leaves_the_target_without_content(
    device: nnvk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = memory_of("device", device, VALUES)

    def fail(content: np.ndarray) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr(target, "write", fail)
    with raises(ResultCode.OUT_OF_MEMORY):
        Memory.copy(shared_memory(16), target)
    assert not target.is_initialized


def test_a_memory_may_be_copied_onto_itself(device: nnvk.Device) -> None:
    memory = memory_of("device", device, VALUES)
    Memory.copy(memory, memory)
    np.testing.assert_array_equal(content_of(memory), VALUES)
