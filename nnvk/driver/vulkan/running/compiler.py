"""The compilation of pipelines on all cores, so that nothing is left to compile at the first execution.

Most drivers compile a shader when its pipeline is created, and pipelines are created on several threads. Lavapipe
compiles it at the first dispatch, on the one thread of the device's queue. A dispatch of no workgroups triggers this.
If it takes long, helpers compile the same shaders on other VkDevices, whose queues have threads of their own. The
driver keeps compiled shaders on disk, where the first device finds them. If it does not find them there, the helpers
stop.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnvk.base.background import executor
from nnvk.base.limits import cores
from nnvk.base.log import logger, timed
from nnvk.driver.vulkan.running.watch import Watch
from nnvk.driver.vulkan.shaders.commands import Command, Dispatch

if TYPE_CHECKING:
    import nnvk._native as _native

_log = logger("driver")

MOST_THREADS = 16
"""The most threads that compile at a time. A compiler takes tens of megabytes for each."""
_SCRATCH_BYTES = 4
"""The size of a buffer that is bound but not used."""
LAZY_S = 0.02
"""A dispatch of no workgroups that takes longer has compiled a shader."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A new pipeline, which the driver may not have compiled yet."""

    dispatch: Dispatch
    algorithm: _native.Algorithm


@dataclass(frozen=True, slots=True)
class _Helped:
    """A job that a helper has done on its own device."""

    job: _Job
    seconds: float


Unrolls = Callable[[str], bool]
"""Whether the driver gets a variant, by its name, with unrolled loops."""


def never(_: str) -> bool:
    """No variant has unrolled loops."""
    return False


class Compiler:
    """Compiles the pipelines of one recording."""

    def __init__(self, device: _native.Device, unrolls: Unrolls, watch: Watch, required_subgroup: int = 0) -> None:
        self._device = device
        self._unrolls = unrolls
        self._required_subgroup = required_subgroup
        self._watch = watch
        self._left: deque[_Job] = deque()
        self._helped: queue.SimpleQueue[_Helped | None] = queue.SimpleQueue()
        self._helpers = 0
        self._stop = threading.Event()
        self._done = 0
        self._total = 0

    def algorithm(
        self, device: _native.Device, dispatch: Dispatch, buffers: Sequence[_native.Buffer]
    ) -> _native.Algorithm:
        """The Algorithm of a dispatch on buffers, on this device or on a helper's."""
        shader, words = dispatch.shader, dispatch.specialization
        module = shader.frozen(words, self._device.features, unroll_loops=self._unrolls(shader.name))
        return device.create_algorithm(
            module,
            buffers,
            (),
            shader.push_constant_size,
            subgroup_size=shader.subgroup_size(words, self._required_subgroup),
            full_subgroups=shader.has_full_subgroups,
        )

    def compile(
        self,
        dispatches: Sequence[Dispatch],
        create: Callable[[Dispatch], _native.Algorithm],
        *,
        concurrently: bool = True,
    ) -> None:
        """Create an Algorithm for each dispatch, and have the driver compile all of them.

        ``create`` makes an Algorithm on the device, on any thread. Raises its errors, and those of the device.
        ``concurrently``: several at a time, which takes longer where all pipelines are compiled.
        """
        self._total = 2 * len(dispatches)
        with timed(_log, "%s: compiling the shaders", self._watch.device):
            created = self._created_concurrently if concurrently and len(dispatches) > 1 else self._created
            jobs = [job for job in created(dispatches, create) if job.algorithm.has_new_pipeline]
            self._advance(len(dispatches) - len(jobs))
            self._warm_up(jobs)

    def compile_alone(self, dispatches: Sequence[Dispatch]) -> None:
        """Compile for algorithms that are created later. Raises the errors of the device."""
        buffer = self._device.create_buffer(_SCRATCH_BYTES, host_visible=False)
        self.compile(dispatches, lambda dispatch: self._algorithm_on(self._device, buffer, dispatch))

    def _algorithm_on(self, device: _native.Device, buffer: _native.Buffer, dispatch: Dispatch) -> _native.Algorithm:
        """An Algorithm that is never dispatched with workgroups, with the same buffer at all bindings."""
        return self.algorithm(device, dispatch, [buffer] * len(dispatch.shader.bindings))

    def _created(self, dispatches: Sequence[Dispatch], create: Callable[[Dispatch], _native.Algorithm]) -> list[_Job]:
        jobs = [self._job(dispatch, create) for dispatch in dispatches]
        self._advance(len(jobs))
        return jobs

    def _job(self, dispatch: Dispatch, create: Callable[[Dispatch], _native.Algorithm]) -> _Job:
        with self._watch.compiling(dispatch):
            return _Job(dispatch, create(dispatch))

    def _created_concurrently(
        self, dispatches: Sequence[Dispatch], create: Callable[[Dispatch], _native.Algorithm]
    ) -> list[_Job]:
        jobs: list[_Job] = []
        with executor(min(self._threads(), len(dispatches)), "nnvk-shaders") as threads:
            pending = {threads.submit(self._job, dispatch, create) for dispatch in dispatches}
            try:
                while pending:
                    done, pending = wait(pending, self._watch.patience_s, FIRST_COMPLETED)
                    self._watch.look()
                    jobs += [future.result() for future in done]
                    self._advance(len(done))
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
        return jobs

    def _threads(self) -> int:
        """The threads that compile at a time. In the background, one core is left to executions."""
        return max(1, min(cores(), MOST_THREADS) - self._watch.in_background)

    def _advance(self, count: int = 1) -> None:
        if count:
            self._done += count
            self._watch.progressed(self._done, self._total)

    def _warm_up(self, jobs: Sequence[_Job]) -> None:
        """Dispatch no workgroups of each new pipeline, with helpers if the driver is lazy."""
        self._left.extend(jobs)
        try:
            while self._left:
                job = _next(self._left.popleft)
                if job is None:
                    break
                if self._dispatch(job) > LAZY_S and not self._stop.is_set():
                    self._start_helpers()
                    if self._watch.in_background and self._helpers:
                        break  # executions need the device's queue
                self._take_over(wait_for_all=False)
            self._take_over(wait_for_all=True)
        finally:
            self._stop.set()
            while self._helpers:  # after an error: a driver must not compile while the process ends
                self._helpers -= self._helped.get() is None

    def _start_helpers(self) -> None:
        """Start helpers, unless they run already. One thread stays for this device's own queue."""
        threads = self._threads() if self._watch.in_background else self._threads() - 1
        wanted = min(threads, len(self._left) - 1)
        while self._helpers < wanted:
            thread = threading.Thread(target=self._help, name="nnvk-helper", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                _log.debug("no helper compiles shaders: %s", error)
                return
            self._helpers += 1

    def _help(self) -> None:
        """Compile shaders on a VkDevice of this thread, the last ones first."""
        try:
            device = self._device.physical.create_device(self._device.features)
            buffer = device.create_buffer(_SCRATCH_BYTES, host_visible=False)
            while not self._stop.is_set() and (job := _next(self._left.pop)) is not None:
                try:
                    with self._watch.compiling(job.dispatch):
                        seconds = _dispatch_nothing(device, self._algorithm_on(device, buffer, job.dispatch))
                except BaseException:
                    self._left.append(job)
                    raise
                self._helped.put(_Helped(job, seconds))
        except (RuntimeError, MemoryError) as error:
            _log.debug("a helper compiles no more shaders: %s", error)
        finally:
            self._helped.put(None)

    def _take_over(self, *, wait_for_all: bool) -> None:
        """Have the device find the shaders that helpers have compiled; then compile what they have left."""
        while self._helpers:
            try:
                helped = self._helped.get(block=wait_for_all, timeout=self._watch.patience_s)
            except queue.Empty:
                self._watch.look()
                if wait_for_all:
                    continue
                return
            if helped is None:
                self._helpers -= 1
            elif self._dispatch(helped.job) > max(LAZY_S, helped.seconds / 2) and not self._stop.is_set():
                _log.debug("the driver does not share compiled shaders between devices: helpers stop")
                self._stop.set()
        while wait_for_all and self._left:
            self._dispatch(self._left.popleft())

    def _dispatch(self, job: _Job) -> float:
        """Dispatch no workgroups on the device. Returns the seconds that the driver has taken."""
        with self._watch.compiling(job.dispatch):
            seconds = _dispatch_nothing(self._device, job.algorithm, self._watch)
        self._advance()
        return seconds


def distinct(commands: Iterable[Command]) -> list[Dispatch]:
    """One dispatch of each pipeline that commands need."""
    dispatches = (command for command in commands if isinstance(command, Dispatch))
    return list({(dispatch.shader.name, dispatch.specialization): dispatch for dispatch in dispatches}.values())


def _next(take: Callable[[], _Job]) -> _Job | None:
    """The next job; None if another thread has taken the last one."""
    try:
        return take()
    except IndexError:
        return None


def _dispatch_nothing(device: _native.Device, algorithm: _native.Algorithm, watch: Watch | None = None) -> float:
    """Dispatch no workgroups of an algorithm, and wait. Returns the seconds that it takes."""
    begin = time.monotonic()
    program = device.create_program()
    program.warm_up(algorithm)
    program.finish([], [])
    patience_s = None if watch is None else watch.patience_s
    if watch is None or patience_s is None:
        program.run([], [])
    elif not program.run([], [], int(patience_s * 1e9)):
        while not program.wait(int(patience_s * 1e9)):
            watch.look()
    return time.monotonic() - begin
