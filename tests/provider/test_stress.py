"""Sessions under load: threads, forks, many of them, a server that dies, memory that runs out."""

from __future__ import annotations

import gc
import os
import resource
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from c_library import await_end, is_running, servers
from onnx import helper
from ort_session import agrees, model_of, ort, perceptron, provider, session

import nnvk

DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"
F32 = np.float32
node = helper.make_node
RELU = model_of([node("Relu", ["x"], ["y"])], [("x", F32, [4])], [("y", F32, [4])])
FOUR = {"x": np.array([-1, 2, -3, 4], F32)}
WEIGHTS = np.random.default_rng(0).standard_normal((16, 8)).astype(F32)


def running() -> list[int]:
    """The servers of this process."""
    return [pid for pid in servers() if is_running(pid)]


def test_two_sessions_and_eight_threads() -> None:
    """The threads share sessions, and each run has a shape of its own."""
    made = [session(perceptron(WEIGHTS * factor), CPU) for factor in (1, 2)]
    inputs = [np.random.default_rng(rows).standard_normal((rows, 16)).astype(F32) for rows in range(1, 9)]
    wanted = [[one.run(None, {"x": x})[0] for one in made] for x in inputs]

    def work(number: int) -> None:
        for _ in range(20):
            for one, right in zip(made, wanted[number], strict=True):
                np.testing.assert_array_equal(one.run(None, {"x": inputs[number]})[0], right)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))


def kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        await_end(pid)


def test_a_server_that_dies() -> None:
    made = session(RELU, CPU)
    agrees(made, RELU, FOUR)
    kill(running())  # the C library of this process may have one, too
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match="server"):
        made.run(None, FOUR)
    assert provider.NAME in made.get_providers()
    agrees(session(RELU, CPU), RELU, FOUR)


@pytest.mark.parametrize("device", DEVICES)
def test_a_server_that_dies_while_threads_compute(device: str) -> None:
    """Each run that it can't finish is an error, and none hangs."""
    rows = 512
    made, x = session(perceptron(WEIGHTS), device), np.ones((rows, 16), F32)
    wanted = made.run(None, {"x": x})[0]
    errors: list[str] = []

    def work() -> None:
        while True:
            try:
                np.testing.assert_array_equal(made.run(None, {"x": x})[0], wanted)
            except ort.capi.onnxruntime_pybind11_state.Fail as error:
                errors.append(str(error))
                return

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    kill(running())
    for thread in threads:
        thread.join(30)
    assert len(errors) == len(threads)
    assert all("server" in error for error in errors)
    agrees(session(perceptron(WEIGHTS), device), perceptron(WEIGHTS), {"x": x}, rtol=1e-5, atol=1e-6)


def in_child(call: Callable[[], None]) -> int:
    """The number of a forked process that ends with 0 if the call does nothing wrong."""
    child = os.fork()
    if child == 0:
        try:
            call()
            os._exit(0)
        finally:
            os._exit(1)
    return child


@pytest.mark.parametrize("device", DEVICES)
def test_a_session_in_each_child(device: str) -> None:
    made = session(RELU, device, take_all="1")
    children = [in_child(lambda: agrees(session(RELU, device, take_all="1"), RELU, FOUR)) for _ in range(3)]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    agrees(made, RELU, FOUR)


def test_the_session_of_a_parent_is_an_error_in_a_child() -> None:
    made = session(RELU, CPU)
    agrees(made, RELU, FOUR)

    def use() -> None:
        with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match="nnvk"):
            made.run(None, FOUR)

    assert os.waitstatus_to_exitcode(os.waitpid(in_child(use), 0)[1]) == 0
    agrees(made, RELU, FOUR)


def kilobytes(pid: int, field: str) -> int:
    """A size in /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


@pytest.mark.parametrize("device", DEVICES)
def test_sessions_made_and_closed(device: str, pytestconfig: pytest.Config) -> None:
    """Neither this process nor its servers have more descriptors or more memory after 200 of them.

    With ``--all-onnx-nodes`` they are 1,000.
    """

    def use(count: int) -> dict[int, tuple[int, int]]:
        """Descriptors and kilobytes of each process after so many sessions."""
        for _ in range(count):
            made = session(RELU, device, take_all="1")
            made.run(None, FOUR)
            del made
        gc.collect()
        pids = (os.getpid(), *running())
        return {pid: (len(os.listdir(f"/proc/{pid}/fd")), kilobytes(pid, "VmRSS")) for pid in pids}

    before = use(20)
    after = use(1000 if pytestconfig.getoption("--all-onnx-nodes") else 200)
    assert after.keys() <= before.keys()  # servers of other tests may have ended
    assert len(after) >= 2
    for pid, (descriptors, memory) in after.items():
        assert descriptors <= before[pid][0] + 2
        assert memory <= before[pid][1] + 8 * 1024  # 41 for each session


@pytest.mark.parametrize("device", DEVICES)
def test_memory_that_is_refused(device: str) -> None:
    """The run is an error that tells the size. Smaller runs go on, and so do large ones when there is memory again."""
    nodes = [node("Expand", ["x", "s"], ["e"]), node("Relu", ["e"], ["y"])]
    width = 1 << 20
    model = model_of(nodes, [("x", F32, ["n", 1])], [("y", F32, ["n", width])], {"s": np.array([1, width])})
    kill(running())  # which may have kept memory
    made = session(model, device, take_all="1")

    def check(rows: int) -> None:
        (got,) = made.run(None, {"x": np.arange(rows, dtype=F32)[:, None]})
        np.testing.assert_array_equal(got, np.repeat(np.arange(rows, dtype=F32)[:, None], width, axis=1))

    check(2)
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_AS) for pid in running()}
    for pid, (_, most) in limits.items():
        resource.prlimit(pid, resource.RLIMIT_AS, ((kilobytes(pid, "VmSize") + (64 << 10)) << 10, most))
    try:
        for rows in (30, 31):
            with pytest.raises(
                ort.capi.onnxruntime_pybind11_state.Fail, match=rf"{4 * rows}\. MiB|{4 * rows << 20} bytes"
            ):
                made.run(None, {"x": np.zeros((rows, 1), F32)})
        check(2)
        check(3)
    finally:
        for pid, limit in limits.items():
            resource.prlimit(pid, resource.RLIMIT_AS, limit)
    check(30)
