"""Memory by descriptors, and what Android has beside the Neural Networks API to make it."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket

import numpy as np
import pytest
from c_client import CExecution, library
from c_library import Adding, code_of

from nnvk import ResultCode, get_devices

DEVICES = [device.name for device in get_devices()]
OK, BAD_DATA = ResultCode.NO_ERROR, ResultCode.BAD_DATA
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
BLOB = 0x21


class Description(ctypes.Structure):
    """``AHardwareBuffer_Desc``."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("width", "height", "layers", "format")),
        ("usage", ctypes.c_uint64),
        ("stride", ctypes.c_uint32),
        ("rfu0", ctypes.c_uint32),
        ("rfu1", ctypes.c_uint64),
    )


def hardware_buffer(size: int) -> tuple[ctypes.c_void_p, np.ndarray]:
    """A hardware buffer and its bytes."""
    buffer, data = ctypes.c_void_p(), ctypes.c_void_p()
    given = Description(size, 1, 1, BLOB)
    assert library().loaded.AHardwareBuffer_allocate(ctypes.byref(given), ctypes.byref(buffer)) == 0
    assert library().loaded.AHardwareBuffer_lock(buffer, ctypes.c_uint64(0x33), -1, None, ctypes.byref(data)) == 0
    return buffer, np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(data.value or 0))


def shared(size: int) -> tuple[int, mmap.mmap]:
    """Shared memory: its descriptor, and its bytes."""
    descriptor = library().loaded.ASharedMemory_create(b"test", ctypes.c_size_t(size))
    return descriptor, mmap.mmap(descriptor, size)


@pytest.mark.parametrize("device", DEVICES)
def test_arguments_in_shared_memory(device: str) -> None:
    """At offsets; other bytes stay as they were."""
    adding = Adding(device, reusable=True)
    descriptor, data = shared(4096)
    floats = np.frombuffer(data, np.float32)
    memory = library().make("Memory_createFromFd", 4096, READ_WRITE, descriptor, 0)
    os.close(descriptor)
    floats[:] = -1
    floats[4:10] = adding.first
    library().call("Execution_setInputFromMemory", adding.handle, 0, None, memory, 16, 24)
    library().call("Execution_setOutputFromMemory", adding.handle, 0, None, memory, 64, 24)
    for value in (1, 2):
        floats[4:10] = value
        adding.execution.compute()
        assert floats[15:23].tolist() == [-1, *[value + 2] * 6, -1]
    library().Memory_free(memory)
    adding.execution.compute()
    assert not adding.sum.any()  # the buffer that was set before is not written


@pytest.mark.parametrize(
    "size, protect, offset, expected",
    [
        (0, READ_WRITE, 0, BAD_DATA),
        (8192, READ_WRITE, 0, BAD_DATA),
        (4096, 4, 0, BAD_DATA),
        (64, READ_WRITE, 64, BAD_DATA),
        (4096, READ_WRITE, 0, OK),
    ],
)
def test_what_can_be_mapped(size: int, protect: int, offset: int, expected: ResultCode) -> None:
    descriptor, _ = shared(4096)
    memory = ctypes.c_void_p()
    assert code_of("Memory_createFromFd", size, protect, descriptor, offset, ctypes.byref(memory)) is expected
    os.close(descriptor)
    library().Memory_free(memory)


def test_what_is_no_descriptor() -> None:
    memory = ctypes.c_void_p()
    assert code_of("Memory_createFromFd", 64, READ_WRITE, -1, 0, ctypes.byref(memory)) is BAD_DATA
    unmappable = code_of("Memory_createFromFd", 64, READ_WRITE, 999999, 0, ctypes.byref(memory))
    assert unmappable is ResultCode.UNMAPPABLE


def test_shared_memory() -> None:
    loaded = library().loaded
    loaded.ASharedMemory_getSize.restype = ctypes.c_size_t
    assert loaded.ASharedMemory_create(None, ctypes.c_size_t(0)) == -errno.EINVAL
    descriptor, _ = shared(5000)
    assert loaded.ASharedMemory_getSize(descriptor) == 5000
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 10)
    assert loaded.ASharedMemory_setProt(descriptor, mmap.PROT_READ) == 0
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, 5000)
    mmap.mmap(descriptor, 5000, prot=mmap.PROT_READ)
    assert loaded.ASharedMemory_setProt(descriptor, READ_WRITE) == -1
    memory = ctypes.c_void_p()
    refused = code_of("Memory_createFromFd", 5000, READ_WRITE, descriptor, 0, ctypes.byref(memory))
    assert refused is ResultCode.UNMAPPABLE
    os.close(descriptor)
    assert loaded.ASharedMemory_getSize(descriptor) == 0


def test_hardware_buffers() -> None:
    adding = Adding()
    buffer, data = hardware_buffer(64)
    memory = library().make("Memory_createFromAHardwareBuffer", buffer)
    data[:24].view(np.float32)[:] = 4
    library().call("Execution_setInputFromMemory", adding.handle, 0, None, memory, 0, 24)
    library().call("Execution_setOutputFromMemory", adding.handle, 0, None, memory, 24, 24)
    adding.execution.compute()
    assert data[24:48].view(np.float32).tolist() == [6] * 6
    library().Memory_free(memory)
    library().loaded.AHardwareBuffer_release(buffer)


def test_images_are_no_hardware_buffers_here(capfd: pytest.CaptureFixture[str]) -> None:
    given, buffer = Description(4, 4, 1, 1), ctypes.c_void_p()
    assert library().loaded.AHardwareBuffer_isSupported(ctypes.byref(given)) == 0
    assert library().loaded.AHardwareBuffer_allocate(ctypes.byref(given), ctypes.byref(buffer)) == -errno.EINVAL
    assert (
        "AHardwareBuffer_allocate: the buffer must be of format BLOB (0x21) with a width in bytes, height 1 and "
        "layers 1; got format 0x1, width 4, height 4, layers 1"
    ) in capfd.readouterr().err


def test_a_part_of_a_hardware_buffer_is_not_locked(capfd: pytest.CaptureFixture[str]) -> None:
    buffer, _ = hardware_buffer(100)
    part, data = (ctypes.c_int32 * 4)(0, 0, 1, 1), ctypes.c_void_p()
    locked = library().loaded.AHardwareBuffer_lock(buffer, ctypes.c_uint64(3), -1, part, ctypes.byref(data))
    assert locked == -errno.EINVAL
    assert "AHardwareBuffer_lock: a buffer of format BLOB is locked as a whole" in capfd.readouterr().err
    library().loaded.AHardwareBuffer_release(buffer)


def test_a_hardware_buffer_goes_through_a_socket() -> None:
    loaded = library().loaded
    here, there = socket.socketpair()
    buffer, data = hardware_buffer(100)
    assert loaded.AHardwareBuffer_sendHandleToUnixSocket(buffer, here.fileno()) == 0
    received, bytes_, shape = ctypes.c_void_p(), ctypes.c_void_p(), Description()
    assert loaded.AHardwareBuffer_recvHandleFromUnixSocket(there.fileno(), ctypes.byref(received)) == 0
    loaded.AHardwareBuffer_describe(received, ctypes.byref(shape))
    assert (shape.width, shape.format) == (100, BLOB)
    assert loaded.AHardwareBuffer_lock(received, ctypes.c_uint64(3), -1, None, ctypes.byref(bytes_)) == 0
    data[:3] = (1, 2, 3)
    assert ctypes.string_at(bytes_, 3) == b"\1\2\3"
    here.send(b"nonsense")
    assert loaded.AHardwareBuffer_recvHandleFromUnixSocket(there.fileno(), ctypes.byref(received)) == -errno.EINVAL
    loaded.AHardwareBuffer_release(buffer)
    loaded.AHardwareBuffer_release(received)


@pytest.mark.parametrize("device", DEVICES)
def test_device_memory(device: str) -> None:
    adding = Adding(device)
    desc = library().make("MemoryDesc_create")
    made = ctypes.c_void_p()
    assert code_of("MemoryDesc_finish", desc) is BAD_DATA
    desc = library().make("MemoryDesc_create")
    assert code_of("MemoryDesc_addInputRole", desc, adding.compilation.handle, 0, 0.0) is BAD_DATA
    assert code_of("MemoryDesc_addInputRole", desc, adding.compilation.handle, 0, 1.0) is OK
    assert code_of("MemoryDesc_addOutputRole", desc, adding.compilation.handle, 0, 0.5) is OK
    assert code_of("Memory_createFromDesc", desc, ctypes.byref(made)) is ResultCode.BAD_STATE
    assert code_of("MemoryDesc_finish", desc) is OK
    memory, buffer = library().make("Memory_createFromDesc", desc), hardware_buffer(24)
    host = library().make("Memory_createFromAHardwareBuffer", buffer[0])
    library().MemoryDesc_free(desc)
    assert code_of("Memory_copy", memory, host) is BAD_DATA  # it holds nothing
    library().call("Execution_setOutputFromMemory", adding.handle, 0, None, memory, 0, 0)
    adding.execution.compute()
    library().call("Memory_copy", memory, host)
    assert buffer[1].view(np.float32).tolist() == [3.5] * 6
    second = CExecution(adding.compilation)
    library().call("Execution_setInputFromMemory", second.handle, 0, None, memory, 0, 0)
    second.set_input(1, adding.second)
    second.set_output(0, adding.sum)
    library().Memory_free(memory)
    second.compute()
    assert adding.sum.tolist() == [5.5] * 6
