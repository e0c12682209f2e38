"""Runs that the flag in their options ends, while the server computes."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_library import is_running, servers
from onnx import helper
from ort_session import agrees, model_of, ort, session

CPU = "nnapi-reference"
F32 = np.float32
RELU = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", F32, ["n"])], [("y", F32, ["n"])])
NONZERO = model_of([helper.make_node("NonZero", ["x"], ["y"])], [("x", F32, [4])], [("y", np.int64, [1, "n"])])


def is_stopped(pid: int) -> bool:
    """Whether no thread of a process runs any more."""
    states = [one.read_text().rpartition(")")[2].split()[0] for one in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


@contextmanager
def stopped() -> Iterator[None]:
    """The servers of this process, stopped: what is asked of them takes as long as the block."""
    found = [pid for pid in servers() if is_running(pid)]
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    while not all(map(is_stopped, found)):
        time.sleep(0.001)
    try:
        yield
    finally:
        for pid in found:
            os.kill(pid, signal.SIGCONT)


def terminated(made: Any, feed: dict[str, np.ndarray], options: Any) -> str:
    """The error of a run that is terminated after a while."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            made.run(None, feed, options)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.1)
    assert thread.is_alive()
    options.terminate = True
    thread.join(5)
    assert not thread.is_alive()
    options.terminate = False
    return str(errors[0])


@pytest.mark.parametrize("model", [RELU, NONZERO], ids=["bound", "unbound"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_run_ends_while_the_server_computes(model: bytes, is_first: bool) -> None:
    """The next runs are right, also those that begin before the server has finished the one that was left."""
    made, options = session(model, CPU, take_all="1"), ort.RunOptions()
    feeds = [{"x": np.array(values, F32)} for values in ([-1, 2, 0, 4], [1, -2, 3, 0], [0, 0, 5, 6])]
    agrees(session(model, CPU, take_all="1") if is_first else made, model, feeds[0])
    with stopped():
        for feed in feeds:
            assert "the run was terminated by its options" in terminated(made, feed, options)
    for feed in feeds * 2:
        agrees(made, model, feed)


def test_other_runs_of_the_session_go_on() -> None:
    """Only the runs end whose options say so."""
    made, options = session(RELU, CPU), ort.RunOptions()
    made.run(None, {"x": np.zeros(4, F32)})
    found: list[np.ndarray] = []
    other = threading.Thread(target=lambda: found.extend(made.run(None, {"x": np.array([-1, 2, -3, 4], F32)})))
    with stopped():
        other.start()
        terminated(made, {"x": np.ones(4, F32)}, options)
        assert other.is_alive()
    other.join(10)
    assert found[0].tolist() == [0, 2, 0, 4]


def test_a_session_may_be_closed_before_the_server_has_finished() -> None:
    """The memory of the run is not used for others till then."""
    feed, options = {"x": np.ones(4, F32)}, ort.RunOptions()
    made, other = session(RELU, CPU), session(RELU, CPU)
    made.run(None, feed)
    reference = weakref.ref(made)
    with stopped():
        terminated(made, feed, options)
        del made
        gc.collect()
        assert reference() is None
    for value in range(1, 20):
        agrees(other, RELU, {"x": np.full(4, value, F32)})


def test_a_server_that_dies_with_a_run_that_was_left() -> None:
    made, options = session(RELU, CPU), ort.RunOptions()
    made.run(None, {"x": np.zeros(4, F32)})
    with stopped():
        terminated(made, {"x": np.ones(4, F32)}, options)
        for pid in filter(is_running, servers()):
            os.kill(pid, signal.SIGKILL)
    with pytest.raises(Exception, match="server"):
        made.run(None, {"x": np.ones(4, F32)})
    del made
    agrees(session(RELU, CPU), RELU, {"x": np.ones(4, F32)})
