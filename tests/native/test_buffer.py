from __future__ import annotations

import gc

import numpy as np
import pytest

from nnvk import _native


@pytest.mark.parametrize("size", [1, 4, 255, 256, 257, 1 << 20])
def test_view_is_the_mapped_memory(device: _native.Device, size: int) -> None:
    buffer = device.create_buffer(size, host_visible=True)
    view = buffer.view()
    assert (view.shape, view.dtype, view.flags.writeable) == ((size,), np.uint8, True)
    assert not view.any()
    view[:] = 7
    assert (buffer.view() == 7).all()


def test_view_outlives_the_buffer(device: _native.Device) -> None:
    buffer = device.create_buffer(4096, host_visible=True)
    view = buffer.view()
    del buffer
    gc.collect()
    view[:] = np.arange(4096, dtype=np.uint8)
    assert view[4095] == 255


def test_device_memory_that_the_host_writes(device: _native.Device) -> None:
    """Where a device has none, it is host memory."""
    uploaded = device.create_buffer(1024, host_visible=True, device_local=True)
    copied = device.create_buffer(1024, host_visible=True)
    uploaded.view()[:] = np.arange(1024) % 251
    program = device.create_program()
    program.copy(uploaded, 0, copied, 0, 1024)
    program.finish([], [])
    program.run([], [])
    np.testing.assert_array_equal(copied.view(), np.arange(1024) % 251)


def test_device_local_memory_has_no_view(device: _native.Device) -> None:
    with pytest.raises(ValueError, match="not host visible"):
        device.create_buffer(64, host_visible=False).view()


def test_allocations_are_counted(device: _native.Device) -> None:
    before = device.allocated_bytes
    buffers = [device.create_buffer(1 << 20, host_visible=visible) for visible in (True, False)]
    assert before + (2 << 20) <= device.allocated_bytes < before + (3 << 20)
    del buffers
    gc.collect()
    assert device.allocated_bytes == before


@pytest.mark.parametrize(("host_visible", "device_local"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("size", [1 << 62, 1 << 40, 1 << 32])
def test_absurd_size_is_a_memory_error(
    device: _native.Device, size: int, host_visible: bool, device_local: bool
) -> None:
    before = device.allocated_bytes
    with pytest.raises(MemoryError, match=str(size)):
        device.create_buffer(size, host_visible=host_visible, device_local=device_local)
    assert device.allocated_bytes == before


def test_full_heap_is_a_memory_error(device: _native.Device) -> None:
    heaps = [size for size, local in device.physical.heaps if local]
    if max(heaps) > 4 << 30:
        pytest.skip("filling more than 4 GiB of device memory is no unit test")
    before, kept = device.allocated_bytes, []
    with pytest.raises(MemoryError, match="memory heap"):
        for _ in range(10):
            kept.append(device.create_buffer(512 << 20, host_visible=False))
    del kept
    gc.collect()
    assert device.allocated_bytes == before


def test_empty_buffer_is_refused(device: _native.Device) -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        device.create_buffer(0, host_visible=True)


def test_negative_size_is_refused(device: _native.Device) -> None:
    with pytest.raises(TypeError):
        device.create_buffer(-1, host_visible=True)
