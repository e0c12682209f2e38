"""Executions on the device: copy inputs in, submit the recording, wait for the fence, copy outputs out."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.base import forks, tracing
from nnvk.base.detached_work import expect_detached_work, leave_detached_work
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.recording import Recording
from nnvk.driver.vulkan.running.resident_plan import BoundRequest, ResidentPlan
from nnvk.driver.vulkan.running.scheduler import Fence, Ticket
from nnvk.driver.vulkan.shaders.commands import describe
from nnvk.hal import DeferredExecution, FinishedExecution, IExecution, IFencedExecution
from nnvk.types.request import ExecuteOptions, ExecutionResult, Timing


@dataclass(frozen=True, slots=True)
class Scope:
    """The operations of a whole model that a plan runs, for traces."""

    first: int = 0
    """The position of the plan's first operation."""
    within: int | None = None
    """The position of the IF or WHILE that the operations belong to, if there is one."""

    def position(self, operation: int) -> int:
        """The position in the whole model of an operation of the plan."""
        return self.first + operation if self.within is None else self.within


WHOLE = Scope()


class VulkanExecution(IExecution):
    """A request bound to a plan. An execution only copies, submits and waits."""

    def __init__(self, gpu: Gpu, plan: ResidentPlan, request: BoundRequest, priority: int, part: Scope = WHOLE) -> None:
        self._gpu = gpu
        self._plan = plan
        self._request = request
        self._priority = priority
        self._part = part

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        """Copy inputs in, submit, wait, copy outputs out."""
        running = self._start(options)
        try:
            return running.result()
        except BaseException:  # Ctrl-C above all
            if isinstance(running, SubmittedExecution):
                running.give_up()
            raise

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        """Submit and return the fence.

        Earlier submissions to the same device end before this one begins, because the queue keeps the order. For
        other fences, a thread waits and then executes. If the host gives an input, a thread waits for all fences,
        because the input is copied at submission, and the awaited executions may write it.
        """
        from_host = any(array is not None for array in self._request.inputs)
        ahead = all(self._is_ahead(dependency) for dependency in wait_for)
        if options.duration_ns or not ahead or (wait_for and from_host):
            return DeferredExecution(lambda: self.execute(options.started(time.monotonic_ns())), wait_for)
        return self._start(options, wait_for)

    def _is_ahead(self, dependency: IFencedExecution) -> bool:
        """Whether the device's queue alone makes a submission wait for ``dependency``."""
        return isinstance(dependency, SubmittedExecution) and dependency.is_submitted_to(self._gpu)

    def _start(self, options: ExecuteOptions, wait_for: Sequence[IFencedExecution] = ()) -> IFencedExecution:
        began = time.perf_counter_ns()
        request = self._request
        if request.short is not None:
            return FinishedExecution(request.short)
        if options.deadline_ns is not None and time.monotonic_ns() >= options.deadline_ns:
            raise _missed()
        timestamps = "none"
        if self._gpu.profile.timestamps:
            timestamps = "each" if tracing.is_recording() else "ends" if options.measure else "none"
        recording = self._plan.take(request, timestamps)
        given = (*request.inputs, *self._plan.draw_entropy()) if self._plan.plan.entropy else request.inputs
        try:
            fence = self._gpu.scheduler.submit(self._priority, lambda: recording.program.submit(given))
        except RuntimeError as error:
            raise self._gpu.failure(error) from error
        except NnapiError:  # nothing was submitted
            self._plan.put(recording, request, timestamps)
            raise
        self._gpu.counters.bytes_from_host += request.bytes_in
        return SubmittedExecution(
            self._gpu, fence, recording, timestamps, self._plan, request, options, began, wait_for, self._part
        )


class SubmittedExecution(IFencedExecution):
    """An execution whose fence the device will signal."""

    def __init__(
        self,
        gpu: Gpu,
        fence: Fence,
        recording: Recording,
        timestamps: str,
        plan: ResidentPlan,
        request: BoundRequest,
        options: ExecuteOptions,
        began: int,
        wait_for: Sequence[IFencedExecution],
        part: Scope = WHOLE,
    ) -> None:
        self._gpu = gpu
        self._part = part
        self._fence = fence
        self._recording: Recording | None = recording
        """None after it was given back, so that an event does not keep the device's memory alive."""
        self._timestamps = timestamps
        self._plan = plan
        self._request = request
        self._options = options
        self._began = began
        self._wait_for = tuple(wait_for)
        self._outcome: ExecutionResult | NnapiError | None = None
        self._origin = forks.Origin()
        self._lock = threading.Lock()  # not one of `forks`, which costs more: a child does not take it

    def is_submitted_to(self, gpu: Gpu) -> bool:
        """Whether it is already in the queue of ``gpu``, or has ended there."""
        waits_for_turn = isinstance(self._fence, Ticket) and self._fence.fence is None
        return self._gpu is gpu and not waits_for_turn and not isinstance(self._outcome, NnapiError)

    def wait(self, timeout_ns: int = -1) -> bool:
        """Wait for the VkFence. DEAD_OBJECT in a forked child if it had not ended before."""
        if not isinstance(self._outcome, ExecutionResult):
            self._origin.check("an execution")
        return self._await(timeout_ns)

    def _await(self, timeout_ns: int) -> bool:
        try:
            return self._fence.wait(timeout_ns)
        except RuntimeError as error:
            raise self._gpu.failure(error) from error

    def result(self) -> ExecutionResult:
        """Wait, copy outputs out, give the recording back. DEAD_OBJECT in a forked child if it had not ended before."""
        if self._outcome is None:
            self._origin.check("an execution")
            with self._lock:
                if self._outcome is None:
                    try:
                        self._outcome = self._finish()
                    except NnapiError as error:
                        self._outcome = error
        if isinstance(self._outcome, NnapiError):
            raise self._outcome
        return self._outcome

    def _finish(self) -> ExecutionResult:
        deadline = self._options.deadline_ns
        if not self._await(-1 if deadline is None else max(0, deadline - time.monotonic_ns())):
            self.give_up()
            raise _missed()
        if self._wait_for:
            for dependency in self._dependencies():
                dependency.result()  # they write their outputs first, and where one failed so does this
            self._wait_for = ()
        assert self._recording is not None
        program = self._recording.program
        program.fetch((*self._request.outputs, *self._request.reports))
        self._gpu.counters.bytes_to_host += self._request.bytes_out
        measure = self._options.measure
        now = time.perf_counter_ns()
        stamps = [] if self._timestamps == "none" else program.timestamps_ns()
        self._give_back()
        shapes = self._plan.check(self._request.reports) if self._request.reports else self._plan.shapes
        if not stamps:
            if not measure:
                return self._plan.done if shapes is self._plan.shapes else ExecutionResult(ResultCode.NO_ERROR, shapes)
            return ExecutionResult(ResultCode.NO_ERROR, shapes, Timing(in_driver_ns=now - self._began))
        if self._timestamps == "each":
            self._trace(now, stamps)
        timing = Timing(stamps[-1] - stamps[0], now - self._began) if measure else Timing()
        return ExecutionResult(ResultCode.NO_ERROR, shapes, timing)

    def _dependencies(self) -> list[IFencedExecution]:
        """All executions that this one waits for, directly or indirectly, the furthest first, without recursion."""
        found = dict.fromkeys(self._wait_for)
        ahead = list(found)
        while ahead:
            dependency = ahead.pop()
            if isinstance(dependency, SubmittedExecution):
                more = [other for other in dependency._wait_for if other not in found]
                found.update(dict.fromkeys(more))
                ahead += more
        return list(reversed(found))

    def _trace(self, now: int, stamps: Sequence[int]) -> None:
        """Spans of the execution and its commands. The device has its own clock; its last timestamp counts as now."""
        tracing.add("execute", "driver", self._began, now - self._began, threading.current_thread().name)
        shift = now - stamps[-1]
        for command, start, end in zip(self._plan.plan.commands, stamps, stamps[1:], strict=False):
            name, details = describe(command, self._plan.model)
            if "operation" in details:
                details["operation"] = self._part.position(details["operation"])
            tracing.add(name, "gpu", start + shift, end - start, self._gpu.name, **details)

    def _give_back(self) -> None:
        """Give the recording back to the plan."""
        recording, self._recording = self._recording, None
        if recording is not None:
            self._plan.put(recording, self._request, self._timestamps)

    def give_up(self) -> None:
        """Detach the work: return the recording to its plan when the device has finished, without a result.

        Nothing happens if the result was already returned or raised.
        """
        if self._outcome is not None or self._recording is None:
            return
        if isinstance(self._fence, Ticket) and self._fence.cancel():
            self._give_back()
        else:
            expect_detached_work()
            leave_detached_work(self._recover, in_order=False)

    def _recover(self) -> None:
        """Return the recording of detached work once the device has finished."""
        with contextlib.suppress(RuntimeError, MemoryError):  # it died with its device
            self._fence.wait()
            self._give_back()

    def export_sync_fd(self) -> int | None:
        """The VkFence as a sync file, or None if the device exports none.

        Also None if the host takes an output, because `result` writes it after the fence has signalled.
        """
        if any(array is not None for array in self._request.outputs) or not self._gpu.native().exports_sync_fd:
            return None
        return self._fence.export_sync_fd()


def _missed() -> NnapiError:
    return NnapiError(ResultCode.MISSED_DEADLINE_TRANSIENT, "the execution's deadline has passed")
