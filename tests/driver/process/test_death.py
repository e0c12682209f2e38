"""The end of a driver's process: what lived there is DEAD_OBJECT, nothing hangs, and the next compilation works."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from c_library import await_end, is_running
from remote import Remote
from samples import add_model, added, compiled, device_memory, execution, f32, raises, while_model

import nnvk
from nnvk import ResultCode
from nnvk.base.settings import override
from nnvk.driver.process.connection import Connection
from nnvk.types.request import InputArgument, OutputArgument, PrepareOptions, Request

DEAD = ResultCode.DEAD_OBJECT
MOMENTS = int(os.environ.get("NNVK_TEST_MOMENTS", "4"))
"""How often the process is killed at a random moment."""


def within(seconds: float, call: Callable[[], object]) -> None:
    began = time.monotonic()
    with raises(DEAD):
        call()
    assert time.monotonic() - began < seconds


def test_all_that_lived_there_is_dead(own: Remote) -> None:
    compilation = compiled(add_model(), own.device)
    memory = device_memory([(compilation, 0)], [(compilation, 0)])
    content = np.zeros(16, np.uint8)
    nnvk.Memory.copy(nnvk.Memory(content), memory)
    run, _ = added(own.device, reusable=True)
    run.compute()
    burst = nnvk.Burst(run.compilation)
    own.kill()
    other = np.zeros((2, 2), np.float32)
    for call in (
        run.compute,
        lambda: run.burst_compute(burst),
        lambda: run.start_compute().wait(),
        lambda: run.start_compute_with_dependencies(()).wait(),
        lambda: nnvk.Burst(compilation),
        lambda: execution(compilation, [other, other], [other.copy()]).compute(),
        lambda: execution(compilation, [memory, other], [other.copy()]).compute(),
        lambda: nnvk.Memory.copy(memory, nnvk.Memory(content)),
        lambda: nnvk.Memory.copy(nnvk.Memory(content), memory),
    ):
        within(1, call)


def test_the_next_compilation_starts_a_new_process(own: Remote) -> None:
    run, _ = added(own.device, reusable=True)
    for _ in range(3):
        killed = own.pid
        own.kill()
        again, output = added(own.device)
        again.compute()
        assert (output == 3).all() and own.pid != killed
        within(1, run.compute)
    own.kill()
    own.device.wait()  # ANeuralNetworksDevice_wait
    assert is_running(own.pid)


def test_the_process_leaves_the_terminal_to_the_one_that_started_it(own: Remote) -> None:
    added(own.device)
    assert b"NNVK_PROGRESS=0" in Path(f"/proc/{own.pid}/environ").read_bytes().split(b"\0")


def test_memory_of_a_process_that_has_died_is_not_another_s(own: Remote) -> None:
    """Though the new driver gives the same tokens again."""
    before = compiled(add_model(), own.device)
    old = device_memory([(before, 0)])
    nnvk.Memory.copy(nnvk.Memory(np.zeros(16, np.uint8)), old)
    own.kill()
    after = compiled(add_model(), own.device)
    new = device_memory([(after, 0)])
    assert old.buffer is not None and new.buffer is not None and old.buffer.token != new.buffer.token
    prepared = own.device.driver.prepare_model(add_model().frozen, PrepareOptions())
    source, target = np.zeros((2, 2), np.float32), np.zeros(16, np.uint8)
    from_old = request(old.buffer.token, source, target)
    within(1, lambda: prepared.create_reusable_execution(from_old))
    prepared.create_reusable_execution(request(new.buffer.token, source, target))


def request(token: int, source: np.ndarray, target: np.ndarray) -> Request:
    return Request([InputArgument(None, token, (2, 2)), InputArgument(source)], [OutputArgument(target)])


def endless(device: nnvk.Device) -> nnvk.Execution:
    """A computation of 15 seconds."""
    inputs = [np.ones(1, np.int32), np.ones(4, np.float32)]
    run = execution(compiled(while_model(endless=True), device), inputs, [np.zeros(4, np.float32)])
    run.set_loop_timeout(15 * 10**9)
    return run


def test_what_waits_ends(own: Remote) -> None:
    """Calls, events, fences and dependants of what is under way when the process dies."""
    event, calling = endless(own.device).start_compute_with_dependencies(()), endless(own.device)
    after = endless(own.device).start_compute_with_dependencies([event])
    fence = event.get_sync_fence_fd()
    codes: list[ResultCode] = []

    def wait(call: Callable[[], None]) -> None:
        try:
            call()
        except nnvk.NnapiError as error:
            codes.append(error.code)

    calls = [event.wait, event.wait, after.wait, calling.compute]
    threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    own.kill()
    for thread in threads:
        thread.join(1)
    assert codes == [DEAD] * 4
    poll = select.poll()
    poll.register(fence, select.POLLIN)
    assert poll.poll(1000)
    os.close(fence)


def test_a_process_that_is_stopped_is_ended(own: Remote) -> None:
    """It can't be told from one that hangs: there is no answer to anything."""
    run, _ = added(own.device, reusable=True)
    run.compute()
    event = endless(own.device).start_compute()
    stopped = own.pid
    with override(patience=1):
        os.kill(stopped, signal.SIGSTOP)
        within(4, run.compute)
        within(1, event.wait)
        within(1, lambda: nnvk.Burst(run.compilation))
    assert not is_running(stopped)
    again, output = added(own.device)
    again.compute()
    assert (output == 3).all()


def test_one_that_is_stopped_while_it_starts_is_given_up(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = (
        "import os, sys, signal; open(sys.argv[1], 'w').write(str(os.getpid())); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    began = time.monotonic()
    with override(patience=1), raises(ResultCode.UNAVAILABLE_DEVICE, "it has been stopped for 1 seconds"):
        Connection(lambda _: [sys.executable, "-c", script, str(file)])
    assert time.monotonic() - began < 10
    assert not is_running(int(file.read_text()))


PARENT = """
import os, signal, time
from remote import remote
made = remote()
os.kill(made.pid, signal.SIGSTOP)
print(made.pid, flush=True)
time.sleep(100)
"""


def test_one_that_is_stopped_ends_with_its_parent() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd="/") as parent:
        assert parent.stdout is not None
        stopped = int(parent.stdout.readline())
        parent.kill()
    await_end(stopped)


def test_objects_that_are_dropped_while_it_is_stopped_hold_nobody_up(own: Remote) -> None:
    compilation = compiled(add_model(f32(4)), own.device)
    source = np.zeros(4, np.float32)
    runs = [execution(compilation, [source, source], [source.copy()]) for _ in range(2000)]
    for run in runs[:2]:
        run.compute()
    os.kill(own.pid, signal.SIGSTOP)
    began = time.monotonic()
    del runs, run
    assert time.monotonic() - began < 2
    os.kill(own.pid, signal.SIGCONT)
    execution(compilation, [source, source], [source.copy()]).compute()


def test_what_takes_long_is_not_ended(own: Remote) -> None:
    with override(patience=1):
        run = endless(own.device)
        run.set_loop_timeout(3 * 10**9)
        with raises(ResultCode.MISSED_DEADLINE_TRANSIENT):
            run.compute()
    assert is_running(own.pid)


def test_one_that_goes_on_in_time_is_not_ended(own: Remote) -> None:
    run, output = added(own.device)
    with override(patience=5):
        os.kill(own.pid, signal.SIGSTOP)
        threading.Timer(1.5, os.kill, (own.pid, signal.SIGCONT)).start()
        run.compute()
    assert (output == 3).all()


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_killed_at_a_random_moment(own: Remote, seed: int) -> None:
    """While it compiles and computes in every way: nothing hangs, and what fails is DEAD_OBJECT."""
    pid, size = own.pid, 1 << 18 if seed % 2 else 5
    timer = threading.Timer(random.Random(seed).uniform(0, 0.3), os.kill, (pid, signal.SIGKILL))
    timer.start()
    source, result = np.ones(size, np.float32), np.zeros(size, np.float32)
    try:
        for _ in range(100_000):
            compilation = compiled(add_model(f32(size)), own.device)
            run = execution(compilation, [source, source], [result], reusable=True)
            memory = device_memory([(compilation, 0)], [(compilation, 0)])
            events = [execution(compilation, [source, source], [memory]).start_compute_with_dependencies(())]
            events.append(execution(compilation, [memory, source], [result]).start_compute_with_dependencies(events))
            for event in events:
                event.wait()
            assert (result == 3).all()
            run.compute()
            assert (result == 2).all()
            if own.pid != pid:
                break
        else:
            pytest.fail("the process was not killed")
    except nnvk.NnapiError as error:
        assert error.code is DEAD
    finally:
        timer.join()
    await_end(pid)
    again, output = added(own.device)
    again.compute()
    assert (output == 3).all()


def test_no_process_thread_or_descriptor_is_left(own: Remote) -> None:
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(4):
        own.kill()
        run, _ = added(own.device)
        run.compute()
        del run
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) <= (before[0] + 3, before[1])
