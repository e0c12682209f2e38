"""The end of the server, and of the application."""

from __future__ import annotations

import ctypes
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from c_client import library
from c_library import (
    FLOATS,
    SCRIPT_PATH,
    Adding,
    await_end,
    await_that,
    code_of,
    is_running,
    kill_server,
    servers,
    write_server,
)

from nnvk import NnapiError, OperandCode, OperandType, ResultCode

DEAD = ResultCode.DEAD_OBJECT
LARGE = OperandType(OperandCode.TENSOR_FLOAT32, (1 << 22,))
MOMENTS = int(os.environ.get("NNVK_TEST_MOMENTS", "4"))
"""How often a process is killed at a random moment."""


def test_all_that_lived_in_a_dead_server_is_dead() -> None:
    adding = Adding(reusable=True)
    event = library().make("Execution_startCompute", adding.handle)
    library().call("Event_wait", event)
    unfinished = library().make("Model_create")
    desc = library().make("MemoryDesc_create")
    made = ctypes.c_void_p()
    kill_server()
    calls = [
        ("Execution_compute", adding.handle),
        ("Execution_startCompute", adding.handle, ctypes.byref(made)),
        ("Execution_create", adding.compilation.handle, ctypes.byref(made)),
        ("Compilation_create", adding.model.handle, ctypes.byref(made)),
        ("Model_finish", unfinished),
        ("MemoryDesc_finish", desc),
        ("Execution_setInput", adding.handle, 0, None, adding.first.ctypes.data, 24),
    ]
    for name, *arguments in calls:
        began = time.monotonic()
        found.append(code_of(name, *arguments))
        assert time.monotonic() - began < 1
        assert found.pop() is DEAD
    assert code_of("Event_wait", event) is ResultCode.NO_ERROR  # it had ended before
    library().Event_free(event)
    library().Model_free(unfinished)
    library().MemoryDesc_free(desc)


found: list[ResultCode] = []


def test_a_new_model_gets_a_new_server() -> None:
    before = Adding()
    killed = kill_server()
    after = Adding()
    assert servers()[-1] != killed
    after.execution.compute()
    assert after.is_right()
    assert code_of("Execution_compute", before.handle) is DEAD
    devices = (ctypes.c_void_p * 1)(library().device("nnapi-reference"))
    made = ctypes.c_void_p()
    assert code_of("Compilation_createForDevices", before.model.handle, devices, 1, ctypes.byref(made)) is DEAD
    assert code_of("Device_wait", library().device("nnapi-reference")) is ResultCode.NO_ERROR


def test_memory_of_a_descriptor_outlives_the_server() -> None:
    descriptor = library().loaded.ASharedMemory_create(None, ctypes.c_size_t(4096))
    memory = library().make("Memory_createFromFd", 4096, 3, descriptor, 0)
    os.pwrite(descriptor, b"\0\0\x80\x3f" * 6, 0)
    os.close(descriptor)
    kill_server()
    adding = Adding()
    library().call("Execution_setInputFromMemory", adding.handle, 0, None, memory, 0, 24)
    adding.execution.compute()
    assert adding.sum.tolist() == [3] * 6
    library().Memory_free(memory)


def test_what_waits_ends() -> None:
    """Events, fences and calls that wait for what never comes, when the server dies."""
    adding = Adding()
    readable, writable = os.pipe()
    begin = library().make("Event_createFromSyncFenceFd", readable)
    given = (ctypes.c_void_p * 1)(begin.value)
    event = library().make("Execution_startComputeWithDependencies", adding.handle, given, 1, 0)
    fence = ctypes.c_int()
    library().call("Event_getSyncFenceFd", event, ctypes.byref(fence))
    waits: list[ResultCode] = []
    threads = [threading.Thread(target=lambda: waits.append(code_of("Event_wait", event))) for _ in range(3)]
    for thread in threads:
        thread.start()
    kill_server()
    for thread in threads:
        thread.join(1)
    assert waits == [DEAD] * 3
    poll = select.poll()
    poll.register(fence.value, select.POLLIN)
    assert poll.poll(1000)
    library().Event_free(event)
    library().Event_free(begin)
    for descriptor in (fence.value, readable, writable):
        os.close(descriptor)


STOPPED = """
import ctypes, os, select, signal, threading, time
from c_library import Adding, await_end, code_of, servers
from c_client import library

adding = Adding(reusable=True)
adding.execution.compute()
many = [Adding() for _ in range(400)]
readable, writable = os.pipe()
begin = library().make("Event_createFromSyncFenceFd", readable)
waiting, given = Adding(), (ctypes.c_void_p * 1)(begin.value)
event = library().make("Execution_startComputeWithDependencies", waiting.handle, given, 1, 0)
fence = ctypes.c_int()
library().call("Event_getSyncFenceFd", event, ctypes.byref(fence))
stopped = servers()[-1]
os.kill(stopped, signal.SIGSTOP)
codes = []
calls = [
    ("Execution_compute", adding.handle),
    ("Event_wait", event),
    ("Compilation_create", adding.model.handle, ctypes.byref(ctypes.c_void_p())),
    ("Execution_create", adding.compilation.handle, ctypes.byref(ctypes.c_void_p())),
]
threads = [threading.Thread(target=lambda call=call: codes.append(code_of(*call))) for call in calls]
began = time.monotonic()
for thread in threads:
    thread.start()
many.clear()  # more than the control socket holds
for thread in threads:
    thread.join(8)
assert time.monotonic() - began < 8
assert [code.name for code in codes] == ["DEAD_OBJECT"] * 4, codes
poll = select.poll()
poll.register(fence.value, select.POLLIN)
assert poll.poll(1000)
await_end(stopped)
again = Adding()
again.execution.compute()
assert again.is_right()
assert len(servers()) == 2
"""


def test_a_server_that_is_stopped_is_ended(tmp_path: Path) -> None:
    """Nothing hangs that it is asked, waited for, or told to forget."""
    run_application(STOPPED, tmp_path, NNVK_PATIENCE="2")


def test_a_server_that_is_stopped_while_it_starts_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Adding()
    kill_server()
    pids, command = tmp_path / "pids", tmp_path / "server"
    command.write_text(f'#!/bin/sh\necho $$ > "{pids}"\nkill -STOP $$\n')
    command.chmod(0o755)
    monkeypatch.setenv("NNVK_SERVER", str(command))
    monkeypatch.setenv("NNVK_PATIENCE", "1")
    began = time.monotonic()
    assert code_of("Model_create", ctypes.byref(ctypes.c_void_p())) is ResultCode.UNAVAILABLE_DEVICE
    assert time.monotonic() - began < 10
    await_end(int(pids.read_text()))
    monkeypatch.undo()
    Adding()


PATIENT = """
import os, signal, threading, time
import numpy as np
from c_library import Adding, servers
adding = Adding(reusable=True)
os.kill(servers()[-1], signal.SIGSTOP)
threading.Timer(1.5, os.kill, (servers()[-1], signal.SIGCONT)).start()
adding.execution.compute()
assert adding.is_right()
assert len(servers()) == 1
"""


@pytest.mark.parametrize("patience", ["30", "0"])
def test_a_server_that_goes_on_is_not_ended(tmp_path: Path, patience: str) -> None:
    run_application(PATIENT, tmp_path, NNVK_PATIENCE=patience)


LONG = """
import time
import numpy as np
from c_library import code_of, servers
from nnvk import OperandCode, OperandType
from c_client import CCompilation, CExecution, CModel, library
COUNTER, FOUR, BOOL = (OperandType(*type_) for type_ in (
    (OperandCode.TENSOR_INT32, (1,)), (OperandCode.TENSOR_FLOAT32, (4,)), (OperandCode.TENSOR_BOOL8, (1,))))
from nnvk import OperationCode

def model(types, values, operations, inputs, outputs):
    made = CModel()
    for type_ in types:
        made.add_operand(type_)
    for index, value in values.items():
        (made.set_operand_value_from_model if isinstance(value, CModel) else made.set_operand_value)(index, value)
    for operation in operations:
        made.add_operation(*operation)
    made.identify_inputs_and_outputs(inputs, outputs)
    made.finish()
    return made

zero = np.zeros(1, np.int32)
condition = model([COUNTER, COUNTER, BOOL], {1: zero}, [(OperationCode.GREATER_EQUAL, [0, 1], [2])], [0], [2])
body = model([COUNTER, COUNTER, OperandType(OperandCode.INT32), COUNTER], {1: zero, 2: zero},
    [(OperationCode.ADD, [0, 1, 2], [3])], [0], [3])
subgraph = OperandType(OperandCode.MODEL)
loop = model([subgraph, subgraph, COUNTER, COUNTER], {0: condition, 1: body},
    [(OperationCode.WHILE, [0, 1, 2], [3])], [2], [3])
execution = CExecution(CCompilation(loop, "nnapi-reference"))
library().call("Execution_setLoopTimeout", execution.handle, 3 * 10**9)
execution.set_input(0, np.ones(1, np.int32))
execution.set_output(0, np.zeros(1, np.int32))
began = time.monotonic()
assert code_of("Execution_compute", execution.handle).name == "MISSED_DEADLINE_TRANSIENT"
assert time.monotonic() - began > 2.5
assert len(servers()) == 1
"""


def test_a_server_that_computes_long_is_not_ended(tmp_path: Path) -> None:
    run_application(LONG, tmp_path, NNVK_PATIENCE="1")


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_killed_at_a_random_moment(seed: int) -> None:
    """While it builds, compiles and computes: nothing hangs, and what fails is DEAD_OBJECT."""
    library().call("getDeviceCount", ctypes.byref(ctypes.c_uint32()))
    Adding()  # there is a server
    pid = servers()[-1]
    timer = threading.Timer(random.Random(seed).uniform(0, 0.3), os.kill, (pid, signal.SIGKILL))
    timer.start()
    try:
        for _ in range(10000):
            adding = Adding(type_=LARGE if seed % 2 else FLOATS, reusable=True)
            for _ in range(3):
                adding.execution.compute()
                assert adding.is_right()
            event = library().make("Execution_startCompute", adding.handle)
            code = code_of("Event_wait", event)
            library().Event_free(event)
            if code is not ResultCode.NO_ERROR or servers()[-1] != pid:
                assert code in (DEAD, ResultCode.NO_ERROR)
                break
        else:
            pytest.fail("the server was not killed")
    except NnapiError as error:
        assert error.code is DEAD
    finally:
        timer.join()
    await_end(pid)
    after = Adding()
    after.execution.compute()
    assert after.is_right()


APPLICATION = """
import sys, threading
from c_library import Adding
from nnvk import OperandCode, OperandType
adding = Adding("nnapi-reference", OperandType(OperandCode.TENSOR_FLOAT32, (1 << 20,)), reusable=True)
print("ready", flush=True)
while True:
    adding.execution.compute()
    assert adding.is_right()
"""


def start_application(script: str, folder: Path, **variables: str) -> tuple[subprocess.Popen[str], Path]:
    """A process that uses the library; the file of its servers' processes."""
    server = write_server(folder)
    environment = {**os.environ, "NNVK_SERVER": str(server), "PYTHONPATH": SCRIPT_PATH, **variables}
    application = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment, cwd="/"
    )
    return application, Path(f"{server}.pids")


def run_application(script: str, folder: Path, **variables: str) -> None:
    """Run it to its end, which must be a good one, and its servers' too."""
    application, pids = start_application(script, folder, **variables)
    try:
        application.wait(100)
    finally:
        application.kill()
    assert application.returncode == 0
    for pid in pids.read_text().split():
        await_end(int(pid))


@pytest.mark.parametrize("seed", range(max(2, MOMENTS // 4)))
def test_the_server_ends_with_its_application(seed: int, tmp_path: Path) -> None:
    """Killed at a random moment of a computation."""
    application, pids = start_application(APPLICATION, tmp_path)
    assert application.stdout is not None
    assert application.stdout.readline() == "ready\n"
    time.sleep(random.Random(seed).uniform(0, 0.2))
    application.kill()
    application.wait()
    for pid in pids.read_text().split():
        await_end(int(pid))


SLEEPING = """
import os, signal, time
from c_library import Adding, servers
adding = Adding()
os.kill(servers()[-1], signal.SIGSTOP)
print("ready", flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_stopped_server_ends_with_its_application(end: signal.Signals, tmp_path: Path) -> None:
    application, pids = start_application(SLEEPING, tmp_path)
    assert application.stdout is not None
    assert application.stdout.readline() == "ready\n"
    application.send_signal(end)
    application.wait()
    await_end(int(pids.read_text()))


def test_a_server_that_is_stopped_while_it_starts_ends_with_its_application(tmp_path: Path) -> None:
    application, pids = start_application(APPLICATION, tmp_path)
    await_that(lambda: pids.exists() and bool(pids.read_text().strip()), 60, "no server was started")
    os.kill(int(pids.read_text()), signal.SIGSTOP)
    application.kill()
    application.wait()
    await_end(int(pids.read_text()))


def test_the_server_ends_when_the_application_dies_while_it_starts(tmp_path: Path) -> None:
    application, pids = start_application(APPLICATION, tmp_path)
    await_that(lambda: pids.exists() and bool(pids.read_text().strip()), 60, "no server was started")
    application.kill()
    application.wait()
    await_end(int(pids.read_text()), 60)


FORK = """
import os, sys
from c_library import Adding, code_of
from c_client import library
import ctypes, threading, time
adding = Adding(reusable=True)
adding.execution.compute()
readable, writable = os.pipe()
begin = library().make("Event_createFromSyncFenceFd", readable)
waiting = Adding()
given = (ctypes.c_void_p * 1)(begin.value)
event = library().make("Execution_startComputeWithDependencies", waiting.handle, given, 1, 0)
waiter = threading.Thread(target=code_of, args=("Event_wait", event))
waiter.start()
time.sleep(0.2)
child = os.fork()
if child == 0:
    assert code_of("Event_wait", event).name == "DEAD_OBJECT"
    library().Event_free(event)
    assert code_of("Execution_compute", adding.handle).name == "DEAD_OBJECT"
    own = Adding()
    own.execution.compute()
    assert own.is_right()
    del adding
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
os.close(writable)
waiter.join()
assert waiting.is_right()
adding.execution.compute()
assert adding.is_right()
child = os.fork()
if child == 0:  # which does nothing, and outlives its parent
    os.close(1)
    import time
    time.sleep(20)
    os._exit(0)
print(child, flush=True)
os._exit(0)
"""


def test_forks(tmp_path: Path) -> None:
    """A child has a server of its own, and the parent's ends with the parent though the child lives."""
    application, pids = start_application(FORK, tmp_path)
    child = int(application.communicate(timeout=100)[0])
    assert application.returncode == 0
    try:
        assert len(pids.read_text().split()) == 2
        for pid in pids.read_text().split():
            await_end(int(pid), 15)
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_server_that_can_not_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Adding()
    kill_server()
    made = ctypes.c_void_p()
    for command in (tmp_path / "none", Path("/bin/true")):
        monkeypatch.setenv("NNVK_SERVER", str(command))
        assert code_of("Model_create", ctypes.byref(made)) is ResultCode.UNAVAILABLE_DEVICE
    monkeypatch.undo()
    Adding()


def children() -> set[int]:
    """The children of this process, also those that have ended and were not waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has gone
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found


def test_no_child_and_no_descriptor_is_left() -> None:
    """The server is nobody's child, so that no program's wait() sees it."""
    of_others = children()
    Adding()
    assert children() <= of_others
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        kill_server()
        Adding()
    assert len(os.listdir("/proc/self/fd")) <= before + 2
