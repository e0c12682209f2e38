"""The limits of the operating system: no more descriptors, no more threads, names that are too long."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from descriptors import lowered
from samples import added, increment_model, raises

import nnvk
from nnvk import NnapiError, ResultCode
from nnvk.base import background
from nnvk.base.errors import driving
from nnvk.runtime.devices import DeviceManager

TOKEN = bytes(32)


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """All descriptors are taken."""
    gc.collect()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, limits[1]))
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = os.memfd_create("limits")
    os.ftruncate(made, mmap.PAGESIZE)
    yield made
    os.close(made)


def test_no_descriptor_for_memory(descriptor: int) -> None:
    buffer = nnvk.HardwareBuffer(16)
    for call in (
        lambda: nnvk.HardwareBuffer(16),
        lambda: nnvk.Memory.create_from_fd(16, mmap.PROT_READ, descriptor),
    ):
        with no_more_descriptors(), raises(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "Too many open files"):
            call()
        call()
    with no_more_descriptors():
        nnvk.Memory.create_from_hardware_buffer(buffer)  # takes none


def test_no_descriptor_for_a_sync_fence(descriptor: int, device: nnvk.Device) -> None:
    of_others = nnvk.Event.create_from_sync_fence_fd(descriptor)
    own = added(device)[0].start_compute_with_dependencies([])
    for call in (
        lambda: nnvk.Event.create_from_sync_fence_fd(descriptor),
        of_others.get_sync_fence_fd,
        own.get_sync_fence_fd,
    ):
        with no_more_descriptors(), raises(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "Too many open files"):
            call()
        made = call()
        if isinstance(made, int):
            os.close(made)
    own.wait()


def test_a_limit_of_no_descriptors_at_all() -> None:
    """A process can wait for what it has open."""
    readable, writable = os.pipe()
    event = nnvk.Event.create_from_sync_fence_fd(readable)
    with lowered(0):
        assert not event.fence.wait(1_000_000)
    os.write(writable, b"0")
    with lowered(0):
        event.wait()
    for each in (readable, writable):
        os.close(each)


def test_devices_that_are_missing_for_want_of_descriptors_are_looked_for_again() -> None:
    answers = [([], "no library can be opened"), ([nnvk.get_devices()[-1].driver], "no GPU is found")]
    manager = DeviceManager()
    manager.install([lambda: answers.pop(0)])
    with no_more_descriptors(), raises(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "no library can be opened"):
        manager.devices()
    assert len(manager.devices()) == 1 and manager.unavailable() == ["no GPU is found"]
    assert not answers


def test_an_error_of_the_system_in_a_driver_is_none_of_its_own() -> None:
    with raises(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "it fails"), driving("it fails"):
        raise OSError(errno.EMFILE, "Too many open files")
    with raises(ResultCode.OUT_OF_MEMORY, "it fails"), driving("it fails"):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")
    with raises(ResultCode.OP_FAILED, "it fails"), driving("it fails"):
        raise OSError(errno.EIO, "Input/output error")


def test_compilations_without_descriptors(tmp_path: Path, device: nnvk.Device) -> None:
    """They do without a cache, or have a result code."""
    compilation = nnvk.Compilation(increment_model(), [device])
    compilation.set_caching(tmp_path, TOKEN)
    with no_more_descriptors():
        try:
            compilation.finish()
        except NnapiError as error:
            assert error.code is ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    compilation = nnvk.Compilation(increment_model(), [device])
    compilation.finish()
    (output,) = nnvk.run(compilation, [np.ones(4, np.float32)])
    assert (output == 2).all()


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000], ids=["a name", "a path"])
def test_folders_whose_name_is_too_long(cpu: nnvk.Device, name: str) -> None:
    compilation = nnvk.Compilation(increment_model(), [cpu])
    with raises(ResultCode.BAD_DATA, "cache directory"):
        compilation.set_caching(name, TOKEN)


def test_a_folder_whose_path_leaves_no_room_for_files(tmp_path: Path, device: nnvk.Device) -> None:
    """The cache is as good as none."""
    folder = tmp_path
    while len(str(folder)) < 4060:  # of 4,095
        folder = folder / ("x" * min(200, max(1, 4060 - len(str(folder)) - 1)))
        folder.mkdir()
    compilation = nnvk.Compilation(increment_model(), [device])
    compilation.set_caching(folder, TOKEN)
    compilation.finish()
    (output,) = nnvk.run(compilation, [np.ones(4, np.float32)])
    assert (output == 2).all()


# --- threads -----------------------------------------------------------------------------------------------------


@contextmanager
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All threads are taken."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        patch.setattr(background, "_workers", background._Workers())  # none that is idle
        yield


COMPUTATIONS: dict[str, Callable[[nnvk.Execution], object]] = {
    "compute": lambda run: run.compute(),
    "start_compute": lambda run: run.start_compute().wait(),
    "start_compute_with_dependencies": lambda run: run.start_compute_with_dependencies([]).wait(),
    "burst_compute": lambda run: run.burst_compute(nnvk.Burst(run.compilation)),
}


@pytest.mark.parametrize("compute", COMPUTATIONS.values(), ids=COMPUTATIONS)
def test_computations_without_threads(
    device: nnvk.Device, monkeypatch: pytest.MonkeyPatch, compute: Callable[[nnvk.Execution], object]
) -> None:
    """They need none, or have a result code."""
    run, output = added(device, reusable=True)
    with no_more_threads(monkeypatch):
        try:
            compute(run)
        except NnapiError as error:
            assert error.code is ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, error
    compute(run)
    assert (output == 3).all()
