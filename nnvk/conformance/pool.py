"""Running many tests in processes that may crash or hang without taking the others with them."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from nnvk.base.settings import override
from nnvk.conformance.runner import Status, Verdict
from nnvk.conformance.vectors import Case

Run = Callable[[Path, int], Verdict]
Connect = Callable[[], Run]
"""A picklable function that is called once in every process. It returns the function that runs a test, which is named
by file and position.
"""

CHUNK = 24
"""Tests that a process takes at a time, side by side in the files: so a file is read once or twice."""
START_TIMEOUT = 300.0
"""Seconds that a process may take to import everything and to open its device."""

EXIT_TIMEOUT = 10.0
"""Seconds that a process may take to close its device."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a test ended, and how long it took."""

    case: Case
    verdict: Verdict
    seconds: float


def run_cases(cases: Sequence[Case], connect: Connect, *, jobs: int, timeout: float) -> Iterator[Result]:
    """Run tests in ``jobs`` processes and yield each result as it comes, in no particular order.

    A test that kills its process, or that takes longer than ``timeout`` seconds, has failed, and a new process
    goes on with the rest. With ``jobs=0`` the tests run in this process, where neither can be caught.
    Raises ChildProcessError where a process can't even start.
    """
    if jobs == 0:
        run = connect()
        for case in cases:
            started = time.monotonic()
            verdict = run(case.path, case.index)
            yield Result(case, verdict, time.monotonic() - started)
        return
    chunk = max(1, min(CHUNK, len(cases) // (4 * jobs)))
    waiting = deque(deque(cases[start : start + chunk]) for start in range(0, len(cases), chunk))
    workers = [_Worker(connect, timeout) for _ in range(min(jobs, len(waiting)))]
    try:
        while workers:
            soonest = min(worker.deadline for worker in workers)
            ready = wait([worker.connection for worker in workers], max(0.0, soonest - time.monotonic()))
            for worker in list(workers):
                if worker.connection in ready:
                    yield from worker.receive(waiting)
                elif time.monotonic() > worker.deadline:
                    yield from worker.give_up(waiting)
                if worker.ended:
                    workers.remove(worker)
                    if waiting:
                        workers.append(_Worker(connect, timeout))
    finally:
        for worker in workers:
            worker.kill()


@dataclass(slots=True)
class _Worker:
    """One process: what it has been given, what it is running, and when that must have ended.

    Ctrl-C, which goes to all processes of a terminal, does not reach it: the parent decides.
    """

    connect: Connect
    timeout: float
    process: SpawnProcess = field(init=False)
    connection: Connection = field(init=False)
    deadline: float = field(init=False)
    chunk: deque[Case] = field(default_factory=deque)
    started: float | None = None
    """When the first test of the chunk began; None while none runs."""
    is_ready: bool = False
    ended: bool = False

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.connect), daemon=True)
        resource_tracker.ensure_running()  # start() would do so, and let Ctrl-C through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which the process inherits
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the end of the process is the end of the pipe
        self.deadline = time.monotonic() + START_TIMEOUT

    def receive(self, waiting: deque[deque[Case]]) -> Iterator[Result]:
        """Take what the process has sent."""
        try:
            message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            yield from self._stop(f"the process {_how_it_ended(self.process.exitcode)}", waiting)
            return
        if isinstance(message, str):
            raise ChildProcessError(f"a conformance process could not start: {message}")
        if isinstance(message, Verdict):
            case = self.chunk.popleft()
            assert self.started is not None
            seconds, self.started = time.monotonic() - self.started, None
            yield Result(case, message, seconds)
            if message.device_lost:
                self.kill()
                yield from self._stop("", waiting)
                return
        self.is_ready = True
        if not self.chunk:
            if not waiting:
                self._dismiss()
                return
            self.chunk = waiting.popleft()
        if self.started is None:
            self._begin()

    def give_up(self, waiting: deque[deque[Case]]) -> Iterator[Result]:
        """Kill a process that has not answered in time."""
        self.kill()
        yield from self._stop(f"no answer within {self.timeout:g} seconds", waiting)

    def kill(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()

    def _begin(self) -> None:
        case = self.chunk[0]
        self.started = time.monotonic()
        self.deadline = self.started + self.timeout
        with suppress(BrokenPipeError, ConnectionResetError):  # the next receive sees that the process is gone
            self.connection.send((case.path, case.index))

    def _dismiss(self) -> None:
        """There is nothing left to do."""
        self.ended = True
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(None)
        self.process.join(EXIT_TIMEOUT)
        self.kill()

    def _stop(self, reason: str, waiting: deque[deque[Case]]) -> Iterator[Result]:
        """The process is gone: the test that it ran, if any, has failed, the rest is for another."""
        self.ended = True
        if not self.is_ready:
            raise ChildProcessError(f"a conformance process could not start: {reason}")
        if self.started is not None:
            yield Result(self.chunk.popleft(), Verdict(Status.FAILED, reason), time.monotonic() - self.started)
        if self.chunk:
            waiting.appendleft(self.chunk)


def _work(connection: Connection, connect: Connect) -> None:
    """The loop of a process: it says that it is ready, then answers every test with a verdict, until None comes."""
    faulthandler.enable()
    try:
        run = connect()
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send(None)
    with override(progress=False):  # the process that started this one has the terminal
        while (test := connection.recv()) is not None:
            connection.send(run(*test))


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
