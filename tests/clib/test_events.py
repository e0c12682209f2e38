"""Events and sync fences of the C library."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import threading

import numpy as np
import pytest
from c_client import CExecution, library
from c_library import Adding, await_that, code_of, servers

from nnvk import ResultCode, get_devices

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
    readable, writable = os.pipe()
    os.close(readable)
    os.close(writable)
    for descriptor in (-1, -2, -(2**31), 999999, 2**31 - 1, readable):
        event = ctypes.c_void_p(1)
        assert code_of("Event_createFromSyncFenceFd", descriptor, ctypes.byref(event)) is BAD_DATA
        assert event.value is None


def signalled_pipe() -> int:
    readable, writable = os.pipe()
    os.write(writable, b"!")
    os.close(writable)
    return readable


def pipe_without_reader() -> int:
    readable, writable = os.pipe()
    os.close(readable)
    return writable


FENCES = {  # what descriptors are, and what waiting for them comes to
    "an eventfd that was written": (lambda: os.eventfd(1), OK),
    "a pipe that was written": (signalled_pipe, OK),
    "a regular file, which is always readable": (lambda: os.open(__file__, os.O_RDONLY), OK),
    "the end of a pipe that nobody reads": (pipe_without_reader, ResultCode.OP_FAILED),
    "a path, which can't be waited for": (lambda: os.open("/", os.O_PATH), ResultCode.OP_FAILED),
}


@pytest.mark.parametrize("name", FENCES)
@pytest.mark.parametrize("device", DEVICES)
def test_fences_that_have_ended(device: str, name: str) -> None:
    """Well: then nothing is waited for. Or not: then an execution that depends on them is refused."""
    make, expected = FENCES[name]
    descriptor = make()
    begin = library().make("Event_createFromSyncFenceFd", descriptor)
    os.close(descriptor)  # it was duplicated
    for _ in range(2):
        assert code_of("Event_wait", begin) is expected
    fence = fence_of(begin)
    assert is_readable(fence, 0) or expected is not OK
    os.close(fence)
    adding, event, given = Adding(device), ctypes.c_void_p(1), (ctypes.c_void_p * 1)(begin.value)
    arguments = (adding.handle, given, 1, 0, ctypes.byref(event))
    assert code_of("Execution_startComputeWithDependencies", *arguments) is expected
    assert (event.value is not None) is (expected is OK)
    if expected is OK:
        assert code_of("Event_wait", event) is OK and adding.is_right()
        library().Event_free(event)
    library().Event_free(begin)


@pytest.mark.parametrize("device", DEVICES)
def test_a_fence_that_fails_later(device: str) -> None:
    """The execution that waits for it fails, its fence signals, and so does what waits for that."""
    readable, writable = os.pipe()
    begin = library().make("Event_createFromSyncFenceFd", writable)
    os.close(writable)
    adding, after, last = (Adding(device) for _ in range(3))
    event = start_after(adding, begin)
    second = start_after(after, event)
    fences = [fence_of(event), fence_of(second)]
    assert not is_readable(fences[0], 0.05)
    os.close(readable)
    for fence in fences:
        assert is_readable(fence)
        os.close(fence)
    assert code_of("Event_wait", event) is ResultCode.OP_FAILED
    assert code_of("Event_wait", second) is ResultCode.OP_FAILED
    third, given = ctypes.c_void_p(1), (ctypes.c_void_p * 1)(event.value)
    arguments = (last.handle, given, 1, 0, ctypes.byref(third))
    assert code_of("Execution_startComputeWithDependencies", *arguments) is ResultCode.OP_FAILED
    assert third.value is None
    for each in (second, event, begin):
        library().Event_free(each)


def test_the_fence_of_an_execution_is_a_fence_for_another() -> None:
    """Its descriptor made an event of its own, as another process would."""
    first, second = Adding(), Adding()
    event = start_after(first)
    descriptor = fence_of(event)
    begin = library().make("Event_createFromSyncFenceFd", descriptor)
    os.close(descriptor)
    after = start_after(second, begin)
    assert code_of("Event_wait", after) is OK and first.is_right() and second.is_right()
    for each in (after, begin, event):
        library().Event_free(each)


def test_a_server_without_descriptors_is_not_dead() -> None:
    """A call that needs one more descriptor fails, and works again once the limit is lifted."""
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
