"""Events and sync fences of the C library."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import threading

import numpy as np
import pytest
from c_library import Adding, await_that, code_of, servers

from nnvk import ResultCode, get_devices
from nnvk.serve.client import CExecution, library

DEVICES = [device.name for device in get_devices()]
OK, BAD_DATA, BAD_STATE = ResultCode.NO_ERROR, ResultCode.BAD_DATA, ResultCode.BAD_STATE


def is_readable(descriptor: int, seconds: float = 30) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def start_after(adding: Adding, *events: ctypes.c_void_p, execution: CExecution | None = None) -> ctypes.c_void_p:
    given = (ctypes.c_void_p * len(events))(*(event.value for event in events))
    handle = (execution or adding.execution).handle
    return library().make("Execution_startComputeWithDependencies", handle, given, len(events), 0)


def fence_of(event: ctypes.c_void_p) -> int:
    descriptor = ctypes.c_int()
    library().call("Event_getSyncFenceFd", event, ctypes.byref(descriptor))
    return descriptor.value


@pytest.mark.parametrize("device", DEVICES)
def test_start_compute(device: str) -> None:
    adding = Adding(device, reusable=True)
    for value in (3, 4):
        adding.first[:] = value
        event = library().make("Execution_startCompute", adding.handle)
        descriptor = ctypes.c_int(5)
        assert code_of("Event_getSyncFenceFd", event, ctypes.byref(descriptor)) is BAD_DATA
        assert descriptor.value == -1
        for _ in range(3):
            assert code_of("Event_wait", event) is OK
        assert adding.is_right()
        library().Event_free(event)


def test_inputs_are_read_when_it_starts() -> None:
    adding = Adding()
    event = library().make("Execution_startCompute", adding.handle)
    adding.first[:] = -100
    assert code_of("Event_wait", event) is OK
    assert adding.sum.tolist() == [3.5] * 6
    library().Event_free(event)


def test_freeing_an_event_waits() -> None:
    adding = Adding()
    library().Event_free(library().make("Execution_startCompute", adding.handle))
    assert adding.is_right()


def test_an_end_that_nobody_waited_for_is_noticed() -> None:
    adding = Adding(reusable=True)
    event = library().make("Execution_startCompute", adding.handle)
    await_that(lambda: code_of("Execution_compute", adding.handle) is OK, 30, "it is under way for ever")
    library().Event_free(event)


def test_many_wait() -> None:
    adding = Adding()
    readable, writable = os.pipe()
    begin = library().make("Event_createFromSyncFenceFd", readable)
    event = start_after(adding, begin)
    found: list[ResultCode] = []
    threads = [threading.Thread(target=lambda: found.append(code_of("Event_wait", event))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert code_of("Execution_compute", adding.handle) is BAD_STATE
    os.close(writable)
    for thread in threads:
        thread.join(30)
    assert found == [OK] * 8 and adding.is_right()
    library().Event_free(event)
    library().Event_free(begin)
    os.close(readable)


@pytest.mark.parametrize("device", DEVICES)
def test_a_fenced_execution(device: str) -> None:
    """Inputs are read when what it waits for has signalled; the outputs are written when its own fence does."""
    adding = Adding(device)
    readable, writable = os.pipe()
    begin = library().make("Event_createFromSyncFenceFd", readable)
    os.close(readable)
    event = start_after(adding, begin)
    fence = fence_of(event)
    assert not is_readable(fence, 0.05)
    adding.first[:] = 40
    os.write(writable, b"!")
    assert is_readable(fence)
    assert adding.sum.tolist() == [42] * 6
    assert code_of("Event_wait", event) is OK
    os.close(fence)
    library().Event_free(event)
    library().Event_free(begin)
    os.close(writable)


@pytest.mark.parametrize("device", DEVICES)
def test_one_execution_s_output_is_the_next_one_s_input(device: str) -> None:
    """In the application's buffers."""
    adding = Adding(device)
    events, buffers = [start_after(adding)], [adding.sum]
    executions = []
    for _ in range(5):
        execution = CExecution(adding.compilation)
        execution.set_input(0, buffers[-1])
        execution.set_input(1, adding.second)
        buffers.append(np.zeros(6, np.float32))
        execution.set_output(0, buffers[-1])
        events.append(start_after(adding, events[-1], execution=execution))
        executions.append(execution)
    assert code_of("Event_wait", events[-1]) is OK
    assert [buffer[0] for buffer in buffers] == [3.5, 5.5, 7.5, 9.5, 11.5, 13.5]
    for event in events:
        library().Event_free(event)


def test_an_event_of_start_compute_can_be_waited_for() -> None:
    adding, after = Adding(), Adding()
    first = library().make("Execution_startCompute", adding.handle)
    event = start_after(after, first)
    assert code_of("Event_wait", event) is OK
    assert after.is_right()
    library().Event_free(first)
    library().Event_free(event)


def test_a_fence_that_never_signals_holds_nothing_up() -> None:
    adding = Adding()
    readable, writable = os.pipe()
    begin = library().make("Event_createFromSyncFenceFd", readable)
    event = start_after(adding, begin)
    library().Event_free(event)
    library().Event_free(begin)
    os.close(readable)
    os.close(writable)  # hangs up, which is a signal: the buffers must live until then
    await_that(adding.is_right, 30, "it was not computed")


def test_a_fence_s_own_event() -> None:
    readable, writable = os.pipe()
    event = library().make("Event_createFromSyncFenceFd", readable)
    fence = fence_of(event)
    assert not is_readable(fence, 0)
    os.write(writable, b"!")
    assert is_readable(fence)
    assert code_of("Event_wait", event) is OK
    library().Event_free(event)
    for descriptor in (fence, readable, writable):
        os.close(descriptor)


def test_what_is_no_fence() -> None:
    event = ctypes.c_void_p()
    for descriptor in (-1, 999999):
        assert code_of("Event_createFromSyncFenceFd", descriptor, ctypes.byref(event)) is BAD_DATA


def test_a_server_without_descriptors_is_not_dead() -> None:
    """What needs one more fails, and works again later."""
    adding = Adding(reusable=True)
    readable, writable = os.pipe()
    begin = library().make("Event_createFromSyncFenceFd", readable)
    given, made = (ctypes.c_void_p * 1)(begin.value), ctypes.c_void_p()
    waiting, events, codes = [Adding() for _ in range(20)], [], []
    pid = servers()[-1]
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 8, before[1]))
    try:
        for one in waiting:
            arguments = (one.handle, given, 1, 0, ctypes.byref(made))
            codes.append(code_of("Execution_startComputeWithDependencies", *arguments))
            events.append(ctypes.c_void_p(made.value))
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert codes[0] is OK and set(codes) == {OK, ResultCode.RESOURCE_EXHAUSTED_TRANSIENT}
    os.close(writable)
    for one, event, code in zip(waiting, events, codes, strict=True):
        if code is OK:
            assert code_of("Event_wait", event) is OK and one.is_right()
            library().Event_free(event)
    adding.execution.compute()
    assert adding.is_right()
    library().Event_free(begin)
    os.close(readable)


def test_nothing_is_left_open() -> None:
    def open_descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    def once() -> None:
        adding = Adding()
        event = start_after(adding)
        os.close(fence_of(event))
        assert code_of("Event_wait", event) is OK
        library().Event_free(event)

    once()
    before = open_descriptors()
    for _ in range(20):
        once()
    await_that(lambda: open_descriptors() <= before + 2, 30, "descriptors are left open")
