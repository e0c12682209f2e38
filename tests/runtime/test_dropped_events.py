"""Events that nobody holds any more: their executions come to their ends, wherever the finaliser runs."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from processes import python
from samples import Pipe, add_model, added, compiled, execution, increment_model, raises
from waiting import eventually

import nnvk
from nnvk import DurationCode, ResultCode
from nnvk.base import background, detached_work
from nnvk.hal import FinishedExecution
from nnvk.runtime.event import Event
from nnvk.types.request import ExecutionResult

DONE = FinishedExecution(ExecutionResult(ResultCode.NO_ERROR, ()))


@contextmanager
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All threads are taken."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        patch.setattr(background, "_workers", background._Workers())  # none that is idle
        yield


# --- finalisers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fenced", [False, True], ids=["start_compute", "fenced"])
def test_a_finaliser_waits_for_no_lock(fenced: bool) -> None:
    """The garbage collector may come while this very thread holds what the end of the execution needs."""
    locks = [
        threading.Lock(),
        background._workers._lock,
        detached_work._dropped._starting,
        detached_work._dropped._serving,
    ]
    for lock in locks:
        ended = threading.Event()

        def finish(fence: object, lock: threading.Lock = lock, ended: threading.Event = ended) -> None:
            with lock if lock is locks[0] else threading.Lock():
                ended.set()

        def drop(lock: threading.Lock = lock, finish: Callable[[object], None] = finish) -> None:
            event = Event(DONE, finish, has_sync_fence=fenced)
            with lock:
                del event

        thread = threading.Thread(target=drop, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
        assert ended.wait(10)


@pytest.mark.parametrize("start", ["start_compute()", "start_compute_with_dependencies([])"])
def test_cycles_are_collected_while_executions_begin(device: nnvk.Device, start: str) -> None:
    """Whenever the collector likes: also in the midst of what an execution's end needs."""
    script = f"""
        compilation, source = compiled(sys.argv[1], 4), np.ones(4, np.float32)

        class Job:
            def __init__(self):
                self.me = self
                self.output = np.zeros(4, np.float32)
                self.event = ready(compilation, source, self.output).{start}

        gc.set_threshold(37)
        for _ in range(500):
            Job()
    """
    python(script, device.name)


# --- ends --------------------------------------------------------------------------------------------------------


def test_the_outputs_of_an_event_that_is_dropped_are_written(device: nnvk.Device) -> None:
    run, output = added(device, reusable=True)
    for _ in range(3):
        output[:] = 0
        run.start_compute()
        assert eventually(lambda: (output == 3).all())
        output[:] = 0
        run.start_compute_with_dependencies([])
        assert eventually(lambda: (output == 3).all())
        while True:  # nothing waits for the end of a fenced one
            try:
                run.compute()
                break
            except nnvk.NnapiError as error:
                assert error.code is ResultCode.BAD_STATE


def test_the_next_computation_of_the_thread_comes_after_it(device: nnvk.Device) -> None:
    """It may read what the one before writes; and the same execution is not under way any more."""
    compilation = compiled(increment_model(), device)
    buffers = [np.zeros(4, np.float32) for _ in range(3)]
    first = execution(compilation, buffers[0:1], buffers[1:2], reusable=True)
    second = execution(compilation, buffers[1:2], buffers[2:3], reusable=True)
    for _ in range(50):
        buffers[1][:] = 0
        first.start_compute()
        second.compute()
        assert (buffers[2] == 2).all()
    for _ in range(50):
        first.start_compute()
    first.start_compute()
    assert first.get_output_operand_dimensions(0) == (4,)
    assert first.get_duration(DurationCode.DURATION_IN_DRIVER) > 0


def test_an_execution_that_is_under_way_is_not_waited_for(cpu: nnvk.Device) -> None:
    """It was not dropped, or nobody knows what it waits for."""
    pipe = Pipe()
    run, _ = added(cpu, reusable=True)
    event = run.start_compute_with_dependencies([pipe.event])
    with raises(ResultCode.BAD_STATE, "under way"):
        run.compute()
    del event
    with raises(ResultCode.BAD_STATE, "under way"):
        run.compute()
    pipe.signal()


def test_what_is_dropped_is_let_go(cpu: nnvk.Device) -> None:
    run, output = added(cpu)
    before = sys.getrefcount(output)
    run.start_compute()
    del run
    gc.collect()
    assert eventually(lambda: sys.getrefcount(output) < before)


def test_the_interpreter_exits_when_the_outputs_are_written(device: nnvk.Device, tmp_path: Path) -> None:
    """They may be in a file, or in memory that others see."""
    path = tmp_path / "output"
    np.zeros(2**20, np.float32).tofile(path)
    script = """
        target = np.memmap(sys.argv[2], np.float32, "r+")
        ready(compiled(sys.argv[1], 2**20), np.ones(2**20, np.float32), target).start_compute()
    """
    python(script, device.name, str(path))
    assert (np.fromfile(path, np.float32) == 2).all()


def test_the_interpreter_exits_though_a_fence_never_signals(device: nnvk.Device) -> None:
    script = """
        import os
        never = nnvk.Event.create_from_sync_fence_fd(os.pipe()[0])
        compilation, source = compiled(sys.argv[1], 4), np.ones(4, np.float32)
        held, loose = (ready(compilation, source, np.zeros(4, np.float32)) for _ in range(2))
        held = held.start_compute_with_dependencies([never])
        descriptor = held.get_sync_fence_fd()
        loose.start_compute_with_dependencies([never])
        ready(compilation, source, np.zeros(4, np.float32)).start_compute()
    """
    python(script, device.name)


# --- threads -----------------------------------------------------------------------------------------------------


def test_no_thread_for_what_is_dropped(gpu: nnvk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the next computation ends it."""
    monkeypatch.setattr(detached_work, "_dropped", detached_work._DetachedWork())
    compilation = compiled(increment_model(), gpu)
    output = np.zeros(4, np.float32)
    run = execution(compilation, [output + 1], [output], reusable=True)
    with no_more_threads(monkeypatch):
        run.start_compute()
        run.compute()
        assert (output == 2).all()


def test_a_fenced_one_that_is_dropped_waits_for_a_thread(cpu: nnvk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached_work, "_RETRY_SECONDS", 0.01)
    ended = threading.Event()
    event = Event(DONE, lambda fence: ended.set(), has_sync_fence=True)
    with no_more_threads(monkeypatch):
        del event
        assert not ended.wait(0.05)
    assert ended.wait(10)


@pytest.mark.parametrize("start", ["start_compute", "start_compute_with_dependencies"])
def test_no_thread_for_an_execution(cpu: nnvk.Device, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    run, output = added(cpu, reusable=True)
    arguments = ([],) if start == "start_compute_with_dependencies" else ()
    with (
        no_more_threads(monkeypatch),
        raises(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "thread of its own.*can't start new thread"),
    ):
        getattr(run, start)(*arguments)
    getattr(run, start)(*arguments).wait()
    assert (output == 3).all()


def test_no_thread_for_a_sync_fence(cpu: nnvk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor is left behind either."""
    event = execution(
        compiled(add_model(), cpu), [np.ones((2, 2), np.float32)] * 2, [np.zeros((2, 2), np.float32)]
    ).start_compute_with_dependencies([])
    before = len(list(Path("/proc/self/fd").iterdir()))
    with no_more_threads(monkeypatch), raises(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT):
        event.get_sync_fence_fd()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    event.wait()
