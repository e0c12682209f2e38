from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from nnvk import _native


def test_submit_wait_fetch(adder: Any) -> None:
    program, out = adder.program(2), np.empty(1000, np.float32)
    fence = program.submit([np.ones(1000, np.float32)])
    assert fence.wait()
    assert fence.signaled
    program.fetch([out])
    assert (out == 2).all()


def test_fence_outlives_reuse_of_its_program(adder: Any) -> None:
    program = adder.program()
    data = np.ones(1000, np.float32)
    fences = []
    for _ in range(50):
        fences.append(program.submit([data]))
        assert program.wait()
    assert all(fence.signaled for fence in fences)
    assert all(fence.wait(0) for fence in fences)


def test_fence_outlives_its_program(adder: Any) -> None:
    program = adder.program()
    fence = program.submit([np.ones(1000, np.float32)])
    del program
    assert fence.signaled  # the program has waited for its work
    assert fence.wait(0)


def test_deadline_passes_and_the_work_goes_on(
    device: _native.Device, make_spinner: Callable[..., Any], slow_groups: int
) -> None:
    spinner = make_spinner(device, slow_groups)
    state = np.array([1], np.uint32)
    assert spinner.program.run([state], [state], timeout_ns=1_000_000) is False
    assert state[0] == 1
    with pytest.raises(RuntimeError, match="still in flight"):
        spinner.program.run([state], [state])
    with pytest.raises(RuntimeError, match="still in flight"):
        spinner.program.fetch([state])
    with pytest.raises(RuntimeError, match="still in flight"):
        spinner.program.submit([state])
    assert spinner.program.wait(0) is False
    assert spinner.program.wait() is True
    spinner.program.fetch([state])
    assert state[0] != 1
    assert spinner.program.run([state], [state], timeout_ns=60_000_000_000)


def test_fence_deadline(device: _native.Device, make_spinner: Callable[..., Any], slow_groups: int) -> None:
    spinner = make_spinner(device, slow_groups)
    fence = spinner.program.submit([None])
    assert not fence.wait(1_000_000)
    assert not fence.signaled
    assert fence.wait(60_000_000_000)
    assert fence.signaled


def test_spinner_computes(device: _native.Device, make_spinner: Callable[..., Any]) -> None:
    spinner, state = make_spinner(device, 3, 1000), np.array([12345], np.uint32)
    spinner.program.run([state], [state])
    assert state[0] == spinner.expected(12345, 3, 1000)


def test_run_releases_the_interpreter_lock(
    device: _native.Device, make_spinner: Callable[..., Any], slow_groups: int
) -> None:
    spinner = make_spinner(device, slow_groups)
    spinner.program.run([None], [None])
    done = threading.Event()
    ticks = 0

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    before = ticks
    spinner.program.run([None], [None])
    counted = ticks - before
    done.set()
    counter.join()
    assert counted > 5


def test_programs_run_from_many_threads(adder: Any, make_adder: Callable[..., Any]) -> None:
    def work(index: int) -> None:
        own = make_adder(adder.device, 500 + index)
        program, out = own.program(3), np.empty(own.count, np.float32)
        for i in range(50):
            data = np.full(own.count, index * 100 + i, np.float32)
            program.run([data], [out])
            np.testing.assert_array_equal(out, 3 * data)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_shared_algorithm_is_recorded_from_many_threads(adder: Any) -> None:
    def work(_: int) -> None:
        for _ in range(20):
            adder.program(5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    out = np.empty(1000, np.float32)
    adder.program(2).run([np.ones(1000, np.float32)], [out])
    assert (out == 2).all()


def test_sync_file(device: _native.Device, make_spinner: Callable[..., Any], slow_groups: int) -> None:
    spinner = make_spinner(device, slow_groups)
    fence = spinner.program.submit([None])
    if not device.exports_sync_fd:
        with pytest.raises(_native.VulkanError, match="VK_ERROR_EXTENSION_NOT_PRESENT"):
            fence.export_sync_fd()
        return
    descriptor = fence.export_sync_fd()
    if descriptor >= 0:
        assert select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)
    assert fence.wait()
    assert fence.export_sync_fd() == -1
