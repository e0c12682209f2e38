"""IPreparedModel of the Vulkan driver: a pool of recorded instances for each set of input shapes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnvk.base import tracing
from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.driver.vulkan.plan import describe
from nnvk.driver.vulkan.planned import Binding, Planned
from nnvk.driver.vulkan.recorder import Instance
from nnvk.driver.vulkan.scheduler import Fence, Ticket
from nnvk.hal import DeferredExecution, FinishedExecution, IExecution, IFencedExecution, IPreparedModel
from nnvk.ops.check import validate_request
from nnvk.types.model import Model
from nnvk.types.operand import Shape
from nnvk.types.request import ExecuteOptions, ExecutionResult, PrepareOptions, Request, Timing

if TYPE_CHECKING:
    from nnvk.driver.vulkan.device import VulkanDevice

MAX_SHAPE_SETS = 16
"""Plans that are kept of a model whose input dimensions change from one execution to the next."""


class VulkanPreparedModel(IPreparedModel):
    """A model whose operations were all lowered to shaders."""

    def __init__(self, device: VulkanDevice, model: Model, options: PrepareOptions) -> None:
        self.device = device
        self.model = model
        self._options = options
        self._types = model.input_types()
        self._planned: dict[tuple[Shape | None, ...], Planned] = {}
        self._lock = threading.Lock()
        if all(type_.is_fully_specified for type_ in self._types):
            planned = self._plan_for(tuple(type_.dimensions for type_ in self._types))
            planned.warm_up()  # the first execution shall be as fast as any other

    def _plan_for(self, shapes: tuple[Shape, ...]) -> Planned:
        planned = self._planned.get(shapes)
        if planned is None:
            with self._lock:
                planned = self._planned.get(shapes)
                if planned is None:
                    planned = Planned(self.device, self.model, self.device.plan(self.model, shapes, self._options))
                    if len(self._planned) >= MAX_SHAPE_SETS:
                        del self._planned[next(iter(self._planned))]
                    self._planned[shapes] = planned
        return planned

    def create_reusable_execution(self, request: Request) -> IExecution:
        """Choose the plan for the request's shapes and bind the request to it."""
        validate_request(self.model, request)
        shapes = []
        for position, argument in enumerate(request.inputs):
            shape = argument.shape
            if shape is None:
                raise bad_data(f"input {position} is omitted, the operations that read it need it")
            shapes.append(shape)
        planned = self._plan_for(tuple(shapes))
        return _Bound(self.device, planned, planned.bind(request), self._options.priority)


class _Bound(IExecution):
    """A request bound to a plan: all that is left to do is to copy, submit and wait."""

    def __init__(self, device: VulkanDevice, planned: Planned, binding: Binding, priority: int) -> None:
        self._device = device
        self._planned = planned
        self._binding = binding
        self._priority = priority

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        """Copy inputs in, submit, wait, copy outputs out."""
        return self._start(options).result()

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        """Submit and return the fence.

        What was submitted to the same device before is over when this begins, because the queue keeps the order;
        fences of others are awaited by a thread that then executes. So are all where the host gives an input: what
        is waited for may write it, and it is copied when this is submitted.
        """
        from_host = any(array is not None for array in self._binding.inputs)
        ahead = all(self._is_ahead(dependency) for dependency in wait_for)
        if options.duration_ns or not ahead or (wait_for and from_host):
            return DeferredExecution(lambda: self.execute(options.started(time.monotonic_ns())), wait_for)
        return self._start(options, wait_for)

    def _is_ahead(self, dependency: IFencedExecution) -> bool:
        """Whether the device's queue alone makes a submission wait for ``dependency``."""
        return isinstance(dependency, VulkanExecution) and dependency.is_submitted_to(self._device)

    def _start(self, options: ExecuteOptions, wait_for: Sequence[IFencedExecution] = ()) -> IFencedExecution:
        began = time.perf_counter_ns()
        binding = self._binding
        if binding.short is not None:
            return FinishedExecution(binding.short)
        _check_deadline(options)
        timestamps = "none"
        if self._device.profile.timestamps:
            timestamps = "each" if tracing.is_recording() else "ends" if options.measure else "none"
        instance = self._planned.take(binding, timestamps)
        try:
            fence = self._device.scheduler.submit(self._priority, lambda: instance.program.submit(binding.inputs))
        except RuntimeError as error:
            raise self._device.failure(error) from error
        self._device.counters.bytes_from_host += binding.bytes_in
        return VulkanExecution(
            self._device, fence, instance, timestamps, self._planned, binding, options, began, wait_for
        )


class VulkanExecution(IFencedExecution):
    """An execution whose fence the device will signal."""

    def __init__(
        self,
        device: VulkanDevice,
        fence: Fence,
        instance: Instance,
        timestamps: str,
        planned: Planned,
        binding: Binding,
        options: ExecuteOptions,
        began: int,
        wait_for: Sequence[IFencedExecution],
    ) -> None:
        self._device = device
        self._fence = fence
        self._instance: Instance | None = instance
        """None once it was given back: who keeps an event shall not keep the device's memory."""
        self._timestamps = timestamps
        self._planned = planned
        self._binding = binding
        self._options = options
        self._began = began
        self._wait_for = tuple(wait_for)
        self._outcome: ExecutionResult | NnapiError | None = None
        self._lock = threading.Lock()

    def is_submitted_to(self, device: VulkanDevice) -> bool:
        """Whether it is in the queue of ``device`` already, or through it."""
        waits_for_turn = isinstance(self._fence, Ticket) and self._fence.fence is None
        return self._device is device and not waits_for_turn and not isinstance(self._outcome, NnapiError)

    def wait(self, timeout_ns: int = -1) -> bool:
        """Wait for the VkFence."""
        try:
            return self._fence.wait(timeout_ns)
        except RuntimeError as error:
            raise self._device.failure(error) from error

    def result(self) -> ExecutionResult:
        """Wait, copy outputs out, give the instance back."""
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
        if not self.wait(-1 if deadline is None else max(0, deadline - time.monotonic_ns())):
            if isinstance(self._fence, Ticket) and self._fence.cancel():
                self._give_back()
            else:
                threading.Thread(target=self._recover, name="nnvk-abandoned", daemon=True).start()
            raise _missed()
        for dependency in self._dependencies():
            dependency.result()  # they write their outputs first, and where one failed so does this
        self._wait_for = ()
        assert self._instance is not None
        program = self._instance.program
        program.fetch(self._binding.outputs)
        self._device.counters.bytes_to_host += self._binding.bytes_out
        measure = self._options.measure
        if self._timestamps == "none":
            self._give_back()
            if not measure:
                return self._planned.done
            timing = Timing(in_driver_ns=time.perf_counter_ns() - self._began)
            return ExecutionResult(ResultCode.NO_ERROR, self._planned.shapes, timing)
        now, stamps = time.perf_counter_ns(), program.timestamps_ns()
        self._give_back()
        if self._timestamps == "each":
            self._trace(now, stamps)
        timing = Timing(stamps[-1] - stamps[0], now - self._began) if measure else Timing()
        return ExecutionResult(ResultCode.NO_ERROR, self._planned.shapes, timing)

    def _dependencies(self) -> list[IFencedExecution]:
        """What this waits for, and what that waits for, the furthest first, so that long chains need no recursion."""
        found = dict.fromkeys(self._wait_for)
        ahead = list(found)
        while ahead:
            dependency = ahead.pop()
            if isinstance(dependency, VulkanExecution):
                more = [other for other in dependency._wait_for if other not in found]
                found.update(dict.fromkeys(more))
                ahead += more
        return list(reversed(found))

    def _trace(self, now: int, stamps: Sequence[int]) -> None:
        """Spans of the execution and its commands. The device's clock is another: its last stamp is taken as now."""
        tracing.add("execute", "driver", self._began, now - self._began, threading.current_thread().name)
        shift = now - stamps[-1]
        for command, start, end in zip(self._planned.plan.commands, stamps, stamps[1:], strict=False):
            name, details = describe(command)
            tracing.add(name, "gpu", start + shift, end - start, self._device.name, **details)

    def _give_back(self) -> None:
        """Give the instance back to the plan."""
        instance, self._instance = self._instance, None
        if instance is not None:
            self._planned.put(instance, self._binding, self._timestamps)

    def _recover(self) -> None:
        """Bring back the instance of an execution that was given up, once the device is done with it."""
        with contextlib.suppress(RuntimeError):  # it died with its device
            self._fence.wait()
            self._give_back()

    def export_sync_fd(self) -> int | None:
        """The VkFence as a sync file, where the device exports such.

        None too where the host takes an output: that is written by `result`, which comes after the fence.
        """
        if any(array is not None for array in self._binding.outputs) or not self._device.native().exports_sync_fd:
            return None
        return self._fence.export_sync_fd()


def _check_deadline(options: ExecuteOptions) -> None:
    if options.deadline_ns is not None and time.monotonic_ns() >= options.deadline_ns:
        raise _missed()


def _missed() -> NnapiError:
    return NnapiError(ResultCode.MISSED_DEADLINE_TRANSIENT, "the execution's deadline has passed")
