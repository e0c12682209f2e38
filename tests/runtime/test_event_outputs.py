"""The outputs are there when a sync fence signals. Durations may be as long as C can say."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from builder import Builder
from samples import (
    Pipe,
    added,
    compiled,
    device_memory,
    execution,
    f32,
    increment_model,
    is_signalled,
    raises,
    shared_memory,
    while_model,
)

import nnvk
from nnvk import OperationCode, ResultCode
from nnvk.hal import DeferredExecution
from nnvk.types.request import ExecuteOptions, ExecutionResult, deadline_after

LONGEST = 2**64 - 1
DAY = 24 * 3600 * 10**9
LONG = pytest.mark.parametrize(
    "duration", [25 * DAY, 300 * 365 * DAY, 2**62, 2**62 + 1, 2**63, LONGEST], ids=lambda duration: f"{duration:.1e} ns"
)


# --- sync fences -------------------------------------------------------------------------------------------------


def test_a_sync_fence_signals_when_the_outputs_are_written(device: nnvk.Device) -> None:
    """Nobody waits for the event."""
    run, output = added(device, reusable=True)
    for _ in range(20):
        output[:] = 0
        event = run.start_compute_with_dependencies([])
        descriptor = event.get_sync_fence_fd()
        assert is_signalled(descriptor, 10)
        assert (output == 3).all()
        os.close(descriptor)
        event.wait()


def test_who_depends_on_a_sync_fence_reads_what_was_written(device: nnvk.Device) -> None:
    compilation = compiled(increment_model(), device)
    for _ in range(20):
        buffers = [np.zeros(4, np.float32) for _ in range(3)]
        event = execution(compilation, buffers[0:1], buffers[1:2]).start_compute_with_dependencies([])
        descriptor = event.get_sync_fence_fd()
        received = nnvk.Event.create_from_sync_fence_fd(descriptor)
        os.close(descriptor)
        execution(compilation, buffers[1:2], buffers[2:3]).start_compute_with_dependencies([received]).wait()
        assert (buffers[2] == 2).all()


def test_a_sync_fence_comes_after_what_its_dependencies_write(
    device: nnvk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last execution touches device memory only, what it depends on writes to the host.

    The sync file that a device would give, which tells of its own queue only, has signalled long before.
    """
    compilation = compiled(increment_model(), device)
    source = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)])
    sink = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)])
    execution(compilation, [np.zeros(4, np.float32)], [source]).compute()
    signalled = Pipe()
    signalled.signal()
    for pipe in (Pipe(), Pipe()):
        output = np.zeros(4, np.float32)
        first = execution(compilation, [output.copy()], [output]).start_compute_with_dependencies([pipe.event])
        last = execution(compilation, [source], [sink]).start_compute_with_dependencies([first])
        monkeypatch.setattr(last.fence, "export_sync_fd", lambda: os.dup(signalled.readable))
        descriptor = last.get_sync_fence_fd()
        assert not is_signalled(descriptor, 0.01)
        pipe.signal()
        assert is_signalled(descriptor, 10)
        assert (output == 1).all()
        os.close(descriptor)


@pytest.mark.parametrize("on_host", [(True, False), (False, True)], ids=str)
def test_a_sync_fence_waits_for_one_output_of_the_host(device: nnvk.Device, on_host: tuple[bool, bool]) -> None:
    """Another output and the input are in device memory."""
    type_ = f32(4)
    build = Builder()
    source = build.operand(type_)
    results = [build.operation(code, [source, source], type_) for code in (OperationCode.ADD, OperationCode.MUL)]
    compilation = compiled(build.finish([source], results), device)
    given = device_memory(inputs=[(compilation, 0)])
    nnvk.Memory.copy(shared_memory(np.full(4, 3, np.float32)), given)
    arrays = [np.zeros(4, np.float32) for _ in results]
    memories = [device_memory(outputs=[(compilation, position)]) for position in range(2)]
    outputs = [array if host else memory for host, array, memory in zip(on_host, arrays, memories, strict=True)]
    pipe = Pipe()
    event = execution(compilation, [given], outputs).start_compute_with_dependencies([pipe.event])
    assert event.writes_host
    descriptor = event.get_sync_fence_fd()
    assert not is_signalled(descriptor, 0.01)
    pipe.signal()
    assert is_signalled(descriptor, 10)
    os.close(descriptor)
    assert [array.tolist() for array in arrays] == [
        [number if host else 0] * 4 for host, number in zip(on_host, (6, 9), strict=True)
    ]
    event.wait()


def test_who_hears_of_the_sync_fence_need_not_wait(device: nnvk.Device) -> None:
    """The execution has ended too: it may be computed again, and what it wrote can be read."""
    compilation = compiled(increment_model(), device)
    output = np.zeros(4, np.float32)
    run = execution(compilation, [output], [output.copy()], reusable=True)
    for _ in range(5):
        descriptor = run.start_compute_with_dependencies([]).get_sync_fence_fd()
        assert is_signalled(descriptor, 10)
        os.close(descriptor)
        assert run.get_output_operand_dimensions(0) == (4,)


# --- long durations ----------------------------------------------------------------------------------------------

RUNS: dict[str, Callable[[nnvk.Execution], object]] = {
    "compute": lambda run: run.compute(),
    "start_compute": lambda run: run.start_compute().wait(),
    "fenced": lambda run: run.start_compute_with_dependencies([]).wait(),
    "burst": lambda run: run.burst_compute(nnvk.Burst(run.compilation)),
}


@LONG
@pytest.mark.parametrize("compute", RUNS.values(), ids=RUNS)
def test_a_long_timeout(device: nnvk.Device, compute: Callable[[nnvk.Execution], object], duration: int) -> None:
    run, output = added(device)
    run.set_timeout(duration)
    compute(run)
    assert (output == 3).all()


@LONG
def test_a_long_timeout_and_dependencies(device: nnvk.Device, cpu: nnvk.Device, duration: int) -> None:
    """Those of others, of threads, and of the device."""
    pipe, later = Pipe(), Pipe()
    others = [
        pipe.event,
        added(cpu)[0].start_compute_with_dependencies([later.event]),
        added(device)[0].start_compute_with_dependencies([]),
    ]
    run, output = added(device)
    run.set_timeout(duration)
    event = run.start_compute_with_dependencies(others, duration)
    pipe.signal()
    time.sleep(0.01)
    later.signal()
    event.wait()
    assert (output == 3).all()


@LONG
def test_a_long_duration(device: nnvk.Device, duration: int) -> None:
    run, output = added(device)
    run.start_compute_with_dependencies([], duration).wait()
    assert (output == 3).all()


def test_a_long_loop_timeout(device: nnvk.Device) -> None:
    compilation = compiled(while_model(), device)
    output = np.zeros(4, np.float32)
    run = execution(compilation, [np.array([5], np.int32), np.ones(4, np.float32)], [output])
    run.set_loop_timeout(LONGEST)
    run.compute()
    assert (output == 32).all()


@pytest.mark.parametrize("duration", [-1, LONGEST + 1, 10**30])
def test_durations_that_c_can_not_say(device: nnvk.Device, duration: int) -> None:
    run, output = added(device)
    match = "negative" if duration < 0 else "less than 2\\^64"
    for limit in (
        run.set_timeout,
        run.set_loop_timeout,
        lambda duration: run.start_compute_with_dependencies([], duration),
    ):
        with raises(ResultCode.BAD_DATA, match):
            limit(duration)
    run.compute()
    assert (output == 3).all()


def test_a_deadline_that_is_too_far_away_leaves_the_other() -> None:
    assert deadline_after(5, 2**62) == 5 + 2**62
    assert deadline_after(5, 2**62 + 1) is None
    options = ExecuteOptions(deadline_ns=9, duration_ns=LONGEST)
    assert options.started(5).deadline_ns == 9
    assert ExecuteOptions(duration_ns=LONGEST).started(5).deadline_ns is None
    assert ExecuteOptions(deadline_ns=9, duration_ns=1).started(5).deadline_ns == 6
    assert ExecuteOptions(deadline_ns=9, duration_ns=LONGEST).started(5).duration_ns == 0


@LONG
def test_fences_wait_long(duration: int) -> None:
    """Whoever calls a driver directly may ask for as much."""
    pipe = Pipe()
    opened = threading.Event()
    work = DeferredExecution(lambda: (opened.wait(20), ExecutionResult(ResultCode.NO_ERROR, ()))[1])
    threading.Timer(0.02, lambda: (pipe.signal(), opened.set())).start()
    assert pipe.event.fence.wait(duration)
    assert work.wait(duration)


def test_a_poll_is_no_longer_than_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done again until the time is over."""
    asked: list[int] = []
    now = [0]

    class Poll:
        def register(self, descriptor: int, mask: int) -> None:
            pass

        def poll(self, timeout_ms: int) -> list[tuple[int, int]]:
            asked.append(timeout_ms)
            now[0] += timeout_ms * 10**6
            return []

    pipe = Pipe()
    with monkeypatch.context() as patch:
        patch.setattr(select, "poll", Poll)
        patch.setattr(time, "monotonic_ns", lambda: now[0])
        assert not pipe.event.fence.wait(60 * DAY)
        assert asked == [2**31 - 1, 2**31 - 1, 60 * 24 * 3600 * 1000 - 2 * (2**31 - 1)]
        asked.clear()
        assert not pipe.event.fence.wait(0)
        assert asked == [0]
