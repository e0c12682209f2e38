"""Events: asynchronous and fenced executions, and sync fences."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time

import numpy as np
import pytest
from decorators import Failing
from samples import (
    F32,
    Pipe,
    add_model,
    added,
    compiled,
    device_memory,
    execution,
    increment_model,
    is_signalled,
    matrix_model,
    raises,
    unary_model,
)

import nnvk
from nnvk import NnapiError, OperandType, ResultCode

FOUR = OperandType(F32, (4,))
DEPENDENT = pytest.mark.parametrize(
    "names",
    [(a.name, b.name) for a in nnvk.get_devices() for b in nnvk.get_devices()],
    ids=lambda names: " then ".join(names),
)


def failing(cpu: nnvk.Device) -> nnvk.Device:
    """A device whose executions fail."""
    return nnvk.Device(Failing(cpu.driver, execute=lambda: NnapiError(ResultCode.OP_FAILED, "it fails")))


# --- start_compute -----------------------------------------------------------------------------------------------


def test_outputs_are_there_after_the_wait(device: nnvk.Device) -> None:
    run, output = added(device)
    event = run.start_compute()
    event.wait()
    assert (output == 3).all()
    event.wait()  # as often as one likes


def test_start_compute_returns_at_once(device: nnvk.Device) -> None:
    """Each of the executions takes some milliseconds on a software device."""
    compilation = compiled(matrix_model(128, 24), device)
    outputs = [np.zeros((128, 128), np.float32) for _ in range(3)]
    runs = [execution(compilation, [np.full((128, 128), 0.5, np.float32)], [output]) for output in outputs]
    runs[0].start_compute().wait()
    began = time.perf_counter()
    events = [run.start_compute() for run in runs[1:]]
    started = time.perf_counter() - began
    for event in events:
        event.wait()
    ended = time.perf_counter() - began
    assert started < ended
    assert all((output == 0.5).all() for output in outputs)


def test_many_threads_wait_for_one_event(device: nnvk.Device) -> None:
    compilation = compiled(matrix_model(128, 8), device)
    output = np.zeros((128, 128), np.float32)
    event = execution(compilation, [np.ones((128, 128), np.float32)], [output]).start_compute()
    seen: list[bool] = []

    def work() -> None:
        event.wait()
        seen.append(bool((output == 1).all()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 8


def test_everyone_who_waits_hears_of_a_failure(cpu: nnvk.Device) -> None:
    run, output = added(failing(cpu))
    event = _started(run)
    for _ in range(3):
        with raises(ResultCode.OP_FAILED, "it fails"):
            event.wait()
    assert (output == -1).all()


def _started(run: nnvk.Execution) -> nnvk.Event:
    """The event of an execution that fails only once it is under way."""
    pipe = Pipe()
    event = run.start_compute_with_dependencies([pipe.event])
    pipe.signal()
    return event


def test_the_event_of_a_failure_that_is_dropped(cpu: nnvk.Device) -> None:
    run, _ = added(failing(cpu))
    event = _started(run)
    del event
    gc.collect()


def test_executions_end_though_nobody_holds_them(device: nnvk.Device) -> None:
    output = np.zeros((2, 2), np.float32)

    def start() -> nnvk.Event:
        run = execution(compiled(add_model(), device), [np.ones((2, 2), np.float32)] * 2, [output])
        return run.start_compute()

    event = start()
    gc.collect()
    event.wait()
    assert (output == 2).all()


def test_an_event_of_start_compute_has_no_sync_fence(device: nnvk.Device) -> None:
    event = added(device)[0].start_compute()
    with raises(ResultCode.BAD_DATA, "not backed by a sync fence"):
        event.get_sync_fence_fd()


# --- dependencies ------------------------------------------------------------------------------------------------


@DEPENDENT
def test_an_execution_reads_what_the_one_before_has_written(names: tuple[str, str]) -> None:
    """Through memory of the host, in a chain that nobody waits for in between."""
    first, second = (compiled(increment_model(), nnvk.get_device(name)) for name in names)
    buffers = [np.zeros(4, np.float32) for _ in range(9)]
    events: list[nnvk.Event] = []
    for number in range(8):
        run = execution((first, second)[number % 2], [buffers[number]], [buffers[number + 1]])
        events.append(run.start_compute_with_dependencies(events[-1:]))
    events[-1].wait()
    for number, buffer in enumerate(buffers):
        assert (buffer == number).all()


@DEPENDENT
def test_the_last_of_two_writers_wins(names: tuple[str, str]) -> None:
    first, second = (
        compiled(increment_model(step), nnvk.get_device(name)) for name, step in zip(names, (1, 2), strict=True)
    )
    output, zeros = np.zeros(4, np.float32), np.zeros(4, np.float32)
    event = execution(first, [zeros], [output]).start_compute_with_dependencies([])
    last = execution(second, [zeros], [output]).start_compute_with_dependencies([event])
    last.wait()
    event.wait()
    assert (output == 2).all()


@DEPENDENT
def test_a_dependency_of_a_dependency_writes_to_the_host(names: tuple[str, str]) -> None:
    """The second execution touches device memory only, so that a queue could hold it, and the third reads the host."""
    first, second = (nnvk.get_device(name) for name in names)
    one, two, three = (compiled(increment_model(), device) for device in (first, second, second))
    middle, result = np.zeros(4, np.float32), np.zeros(4, np.float32)
    source = device_memory(inputs=[(two, 0)], outputs=[(two, 0)])
    sink = device_memory(inputs=[(two, 0)], outputs=[(two, 0)])
    execution(two, [middle], [source]).compute()
    a = execution(one, [middle.copy()], [middle]).start_compute_with_dependencies([])
    b = execution(two, [source], [sink]).start_compute_with_dependencies([a])
    c = execution(three, [middle], [result]).start_compute_with_dependencies([b])
    c.wait()
    assert (result == 2).all()


def test_events_of_a_chain_may_be_dropped(device: nnvk.Device) -> None:
    compilation = compiled(increment_model(), device)
    buffers = [np.zeros(4, np.float32) for _ in range(21)]
    event = None
    for source, target in itertools.pairwise(buffers):
        run = execution(compilation, [source], [target])
        event = run.start_compute_with_dependencies([] if event is None else [event])
    assert event is not None
    event.wait()
    assert (buffers[-1] == 20).all()


def test_many_dependencies(device: nnvk.Device, cpu: nnvk.Device) -> None:
    pipes = [Pipe() for _ in range(5)]
    others = [added(cpu)[0].start_compute() for _ in range(5)]
    run, output = added(device)
    event = run.start_compute_with_dependencies([*others, *(pipe.event for pipe in pipes)])
    for pipe in pipes:
        time.sleep(0.005)
        assert (output == -1).all()
        pipe.signal()
    event.wait()
    assert (output == 3).all()


def test_a_dependency_that_has_ended(device: nnvk.Device) -> None:
    first, _ = added(device)
    event = first.start_compute()
    event.wait()
    second, output = added(device)
    second.start_compute_with_dependencies([event, event]).wait()
    assert (output == 3).all()


def test_dependencies_on_a_fence_of_somebody_else(device: nnvk.Device) -> None:
    pipe = Pipe()
    source, output = np.zeros(4, np.float32), np.zeros(4, np.float32)
    run = execution(compiled(increment_model(), device), [source], [output])
    event = run.start_compute_with_dependencies([pipe.event])
    descriptor = event.get_sync_fence_fd()
    assert not is_signalled(descriptor, 0.02)
    source[:] = 41  # whoever signals may write before
    pipe.signal()
    assert is_signalled(descriptor, 10)
    event.wait()
    assert (output == 42).all()
    os.close(descriptor)


def test_more_waiting_executions_than_any_pool_has_threads(cpu: nnvk.Device) -> None:
    """All executions wait for a fence that signals only after one more execution has ended."""
    readable, writable = os.pipe()
    fence = nnvk.Event.create_from_sync_fence_fd(readable)
    compilation = compiled(add_model(), cpu)
    ones = np.ones((2, 2), np.float32)
    outputs = [np.zeros((2, 2), np.float32) for _ in range(100)]
    events = [execution(compilation, [ones, ones], [o]).start_compute_with_dependencies([fence]) for o in outputs]
    last, result = added(cpu)
    last.start_compute_with_dependencies([]).wait()
    os.close(writable)
    for event in events:
        event.wait()
    assert all((output == 2).all() for output in outputs)
    assert (result == 3).all()
    os.close(readable)


# --- failures ----------------------------------------------------------------------------------------------------


def test_a_dependency_that_has_failed_is_told_at_once(device: nnvk.Device, cpu: nnvk.Device) -> None:
    run, _ = added(failing(cpu))
    event = _started(run)
    event.fence.wait()
    second, output = added(device)
    with raises(ResultCode.OP_FAILED, "it fails"):
        second.start_compute_with_dependencies([event])
    with raises(ResultCode.OP_FAILED):
        event.wait()
    with raises(ResultCode.OP_FAILED, "it fails"):
        second.start_compute_with_dependencies([event])
    second.compute()  # it is still in preparation
    assert (output == 3).all()


def test_a_dependency_that_fails_later_fails_the_execution(device: nnvk.Device, cpu: nnvk.Device) -> None:
    pipe = Pipe()
    bad, _ = added(failing(cpu))
    event = bad.start_compute_with_dependencies([pipe.event])
    second, output = added(device)
    third, other = added(device)
    after = second.start_compute_with_dependencies([event])
    last = third.start_compute_with_dependencies([after])
    pipe.signal()
    for waited in (last, after, event):
        with raises(ResultCode.OP_FAILED, "it fails"):
            waited.wait()
    assert (output == -1).all()
    assert (other == -1).all()


def test_a_dependency_without_outputs_is_a_failure(device: nnvk.Device) -> None:
    """Its buffer turned out too small."""
    model = unary_model(type_=FOUR, output=OperandType(F32, (0,)))
    event = execution(compiled(model, device), [np.ones(4, np.float32)], [np.zeros(3, np.float32)]).start_compute()
    event.fence.wait()
    run, output = added(device)
    with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE):
        run.start_compute_with_dependencies([event])
    with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE):
        event.wait()
    assert (output == -1).all()


@pytest.mark.parametrize("dimensions", [(0,), ()])
def test_outputs_need_all_dimensions(device: nnvk.Device, dimensions: tuple[int, ...]) -> None:
    model = unary_model(type_=FOUR, output=OperandType(F32, dimensions))
    output = np.zeros(4, np.float32)
    run = execution(compiled(model, device), [np.ones(4, np.float32)], [output])
    with raises(ResultCode.BAD_DATA, "needs all its dimensions"):
        run.start_compute_with_dependencies([])
    run.set_output(0, output, FOUR)  # it is still in preparation
    run.start_compute_with_dependencies([]).wait()
    assert (output == 1).all()


# --- sync fences -------------------------------------------------------------------------------------------------


def test_a_sync_fence_signals_when_the_execution_has_ended(device: nnvk.Device) -> None:
    compilation = compiled(matrix_model(), device)
    output = np.zeros((256, 256), np.float32)
    run = execution(compilation, [np.ones((256, 256), np.float32)], [output])
    event = run.start_compute_with_dependencies([])
    descriptors = [event.get_sync_fence_fd() for _ in range(3)]
    assert len(set(descriptors)) == 3  # each is the caller's own
    for descriptor in descriptors:
        assert is_signalled(descriptor, 10)
    event.wait()
    assert (output == 1).all()
    late = event.get_sync_fence_fd()
    assert is_signalled(late, 10)
    for descriptor in (*descriptors, late):
        os.close(descriptor)


def test_the_sync_fence_of_a_failure_signals(cpu: nnvk.Device) -> None:
    pipe = Pipe()
    run, _ = added(failing(cpu))
    event = run.start_compute_with_dependencies([pipe.event])
    descriptor = event.get_sync_fence_fd()
    assert not is_signalled(descriptor)
    pipe.signal()
    assert is_signalled(descriptor, 10)
    with raises(ResultCode.OP_FAILED):
        event.wait()
    os.close(descriptor)


def test_a_sync_fence_makes_an_event_for_others(device: nnvk.Device, cpu: nnvk.Device) -> None:
    pipe = Pipe()
    first, _ = added(device)
    event = first.start_compute_with_dependencies([pipe.event])
    descriptor = event.get_sync_fence_fd()
    received = nnvk.Event.create_from_sync_fence_fd(descriptor)
    os.close(descriptor)  # the event has its own
    second, output = added(cpu)
    last = second.start_compute_with_dependencies([received])
    assert (output == -1).all()
    pipe.signal()
    last.wait()
    received.wait()
    assert (output == 3).all()
    event.wait()


def test_an_event_of_a_descriptor(device: nnvk.Device) -> None:
    readable, writable = os.pipe()
    event = nnvk.Event.create_from_sync_fence_fd(readable)
    os.close(readable)
    copy = event.get_sync_fence_fd()
    assert not is_signalled(copy)
    os.write(writable, b"x")
    assert is_signalled(copy)
    event.wait()
    os.close(copy)
    os.close(writable)


def test_an_event_that_never_signals_can_be_dropped() -> None:
    readable, writable = os.pipe()
    before = len(os.listdir("/proc/self/fd"))
    event = nnvk.Event.create_from_sync_fence_fd(readable)
    del event
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before
    os.close(readable)
    os.close(writable)


@pytest.mark.parametrize("descriptor", [-1, 10**6])
def test_events_of_descriptors_that_are_none(descriptor: int) -> None:
    with raises(ResultCode.BAD_DATA, "no file descriptor"):
        nnvk.Event.create_from_sync_fence_fd(descriptor)


def test_events_keep_no_descriptors(device: nnvk.Device) -> None:
    run, _ = added(device, reusable=True)
    run.start_compute_with_dependencies([]).wait()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        pipe = Pipe()
        event = run.start_compute_with_dependencies([pipe.event])
        os.close(event.get_sync_fence_fd())
        pipe.signal()
        event.wait()
    del pipe, event
    deadline = time.monotonic() + 5  # threads close what they hold in their own time
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) <= before


# --- overlap -----------------------------------------------------------------------------------------------------


def test_executions_of_two_compilations_overlap_and_the_interpreter_is_free(gpu: nnvk.Device) -> None:
    """Two threads compute; the queue always has the next one, and this thread goes on counting."""
    runs = []
    for _ in range(2):
        output = np.zeros((256, 256), np.float32)
        run = execution(compiled(matrix_model(), gpu), [np.ones((256, 256), np.float32)], [output], reusable=True)
        run.compute()
        runs.append(run)
    spans: list[tuple[int, float, float]] = []
    together = threading.Barrier(3)

    def work(number: int) -> None:
        together.wait()
        for _ in range(4):
            began = time.perf_counter()
            runs[number].compute()
            spans.append((number, began, time.perf_counter()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    together.wait()
    counted, longest, last = 0, 0.0, time.perf_counter()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.0005)
        now = time.perf_counter()
        counted, longest, last = counted + 1, max(longest, now - last), now
    for thread in threads:
        thread.join()
    first, second = ([span[1:] for span in spans if span[0] == number] for number in range(2))
    overlapping = sum(min(a[1], b[1]) > max(a[0], b[0]) for a in first for b in second)
    assert overlapping >= 3
    total = max(end for _, _, end in spans) - min(begin for _, begin, _ in spans)
    assert longest < max(0.02, total / 4), f"the interpreter was held for {longest:.3f} of {total:.3f} s"
    assert counted >= 5


def test_priorities_order_the_executions_that_wait(gpu: nnvk.Device) -> None:
    """One of high priority that comes last is done before most of those that were there before it."""
    runs: list[tuple[str, nnvk.Execution]] = []
    for name, priority, count in (("low", nnvk.PriorityCode.LOW, 8), ("high", nnvk.PriorityCode.HIGH, 1)):
        compilation = nnvk.Compilation(matrix_model(), [gpu])
        compilation.set_priority(priority)
        compilation.finish()
        for _ in range(count):
            arrays = np.ones((256, 256), np.float32), np.zeros((256, 256), np.float32)
            runs.append((name, execution(compilation, arrays[:1], arrays[1:], reusable=True)))
    for event in [run.start_compute() for _, run in runs]:
        event.wait()  # from now on nothing is recorded any more, and all are started at once
    ended: list[str] = []
    threads = [
        threading.Thread(target=lambda event=event, name=name: (event.wait(), ended.append(name)))
        for name, event in [(name, run.start_compute()) for name, run in runs]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended.index("high") <= 5, ended
