"""Execute plans: one partition directly, several with intermediate results in the runtime's memory."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np

from nnvk.base import forks, tracing
from nnvk.base.errors import NnapiError, ResultCode, UnfitData, VerificationError, driver_error, op_failed
from nnvk.base.log import logger
from nnvk.hal import DeferredExecution, IBurst, IExecution, IFencedExecution, IPreparedModel
from nnvk.ops import flow
from nnvk.runtime import verification
from nnvk.runtime.execution_plan import ControlFlowPartition, ExecutionPlan, Partition
from nnvk.types.model import Model
from nnvk.types.request import (
    ExecuteOptions,
    ExecutionResult,
    InputArgument,
    OutputArgument,
    OutputShape,
    Request,
)

_log = logger("execution")
Values = dict[int, InputArgument]
"""The values that are known while a plan runs, by operand."""
Targets = dict[int, OutputArgument]
"""Where the application wants the model's outputs, by operand."""

_DEVICE_FAILURES = frozenset(
    {
        ResultCode.OP_FAILED,
        ResultCode.OUT_OF_MEMORY,
        ResultCode.DEAD_OBJECT,
        ResultCode.UNAVAILABLE_DEVICE,
        ResultCode.RESOURCE_EXHAUSTED_TRANSIENT,
        ResultCode.RESOURCE_EXHAUSTED_PERSISTENT,
    }
)
"""The errors that are the device's fault, not the request's, so another device may succeed."""


class BoundPlan(IExecution):
    """A request bound to a plan."""

    def __init__(self, plan: ExecutionPlan, request: Request) -> None:
        self._plan = plan
        self._request = request
        self._bound = _BoundPartition(plan.single, request) if plan.single is not None else None
        self.writes_host = any(target.buffer is not None for target in request.outputs)
        """Whether outputs go to memory of the host, which happens when somebody asks for the result."""
        self.uses_host = self.writes_host or any(source.array is not None for source in request.inputs)
        """Whether inputs or outputs are in memory of the host."""

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        """Execute all partitions in order."""
        if self._bound is not None:
            return self._bound.execute(options)
        return _run(self._plan, self._request, options)

    def execute_in_burst(self, burst: IBurst | None, options: ExecuteOptions) -> ExecutionResult:
        """Execute in the burst of the one partition, or without a burst if there are several."""
        if self._bound is None or burst is None:
            return self.execute(options)
        return self._bound.execute_in_burst(burst, options)

    def execute_fenced(
        self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions, *, after_host_writes: bool = False
    ) -> IFencedExecution:
        """Hand a single partition to its device, where that can keep to the rules; else a thread runs it.

        ``after_host_writes``: some of ``wait_for`` writes to the host's memory, which a device's queue does not see.
        """
        by_thread = wait_for and (after_host_writes or options.measure or options.deadline_ns is not None)
        if self._bound is not None and not self._bound.may_run_again and not by_thread:
            return self._bound.execute_fenced(wait_for, options)
        return DeferredExecution(
            lambda: self.execute(options.started(time.monotonic_ns())), wait_for, options.deadline_ns
        )


class _BoundPartition(IExecution):
    """A request bound to one partition, with the CPU ready to take over where the runtime may choose devices."""

    def __init__(self, partition: Partition, request: Request) -> None:
        self._partition = partition
        self._request = request
        tokens = [source.token for source in request.inputs] + [target.token for target in request.outputs]
        self._is_on_host = not any(tokens)
        self._bind()

    def _bind(self) -> None:
        self._origin = forks.Origin()
        self.has_fallback = self._partition.fallback is not None and self._is_on_host
        try:
            self._bound = self._partition.prepared.create_reusable_execution(self._request)
        except UnfitData:
            raise
        except Exception as error:
            self._bound = self._backup("can't take the request", error).create_reusable_execution(self._request)
            self.has_fallback = False

    def _bound_here(self) -> IExecution:
        """The request as it is bound in this process: a forked child can't use what its parent has bound."""
        if not self._origin.is_here:
            self._bind()
        return self._bound

    @property
    def may_run_again(self) -> bool:
        """Whether an execution that fails may be followed by another one, here or on the CPU."""
        return self.has_fallback or self._partition.repair is not None

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        if tracing.is_recording():
            with self._span():
                return self._execute(options)
        return self._execute(options)

    def execute_in_burst(self, burst: IBurst, options: ExecuteOptions) -> ExecutionResult:
        if tracing.is_recording():
            with self._span():
                return self._execute(options, burst)
        return self._execute(options, burst)

    def _execute(self, options: ExecuteOptions, burst: IBurst | None = None) -> ExecutionResult:
        try:
            bound = self._bound_here()
            return bound.execute(options) if burst is None else burst.execute(bound, options)
        except VerificationError as error:
            return self._repaired(error, options)
        except Exception as error:
            return self._taken_over(error, options)

    def _repaired(self, error: VerificationError, options: ExecuteOptions) -> ExecutionResult:
        """Compute again after a wrong result: by other strategies, at last on the CPU. Raise the error if that is not
        wanted.
        """
        verification.count(failed=1)
        repair, name = self._partition.repair, self._partition.device.name
        if repair is None:
            return self._taken_over(error, options)
        _log.warning("%s has computed a wrong result, and computes again by other strategies: %s", name, error.reason)
        try:
            result = repair.by_device().execute(self._request, options)
        except Exception as again:
            is_wrong = isinstance(again, VerificationError)
            verification.count(failed=int(is_wrong))
            if not (self._is_on_host and _is_device_failure(again)):
                raise
            does = "has computed a wrong result again" if is_wrong else "fails to compute again"
            _log.warning("%s %s, the CPU takes over: %r", name, does, again)
        else:
            verification.count(by_device=1)
            return result
        result = repair.by_cpu().execute(self._request, options)
        verification.count(by_cpu=1)
        return result

    def _span(self) -> AbstractContextManager[None]:
        numbers = self._partition.operations
        return tracing.span(
            f"partition on {self._partition.device.name}", "partition", first=numbers[0], operations=len(numbers)
        )

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        return self._bound_here().execute_fenced(wait_for, options)

    def _taken_over(self, error: Exception, options: ExecuteOptions) -> ExecutionResult:
        """Prepare the part on the CPU after the device has failed; raise the error if that is not wanted."""
        if not _is_device_failure(error):
            raise error
        return self._backup("fails to execute", error).execute(self._request, options)

    def _backup(self, problem: str, error: Exception) -> IPreparedModel:
        """The partition prepared by the CPU. Raises ``error`` where there is none."""
        failure = driver_error(f"{self._partition.device.name} {problem}", error)
        if not self.has_fallback or self._partition.fallback is None:
            raise failure
        try:
            prepared = self._partition.fallback()
        except NnapiError:
            raise failure from failure.__cause__
        _log.warning("%s %s, the CPU takes over: %r", self._partition.device.name, problem, error)
        return prepared


def _is_device_failure(error: Exception) -> bool:
    """Whether an error is the device's, not that of a request, of its data or of its deadline."""
    return not isinstance(error, UnfitData) and (not isinstance(error, NnapiError) or error.code in _DEVICE_FAILURES)


def _run(plan: ExecutionPlan, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Execute the partitions of a plan in order. The result has no timing: no clock is common to all devices."""
    values = dict(zip(plan.model.inputs, request.inputs, strict=True))
    targets = dict(zip(plan.model.outputs, request.outputs, strict=True))
    shapes: dict[int, OutputShape] = {}
    for partition in plan.partitions:
        if isinstance(partition, ControlFlowPartition):
            outputs, results = _run_control(plan.model, partition, values, targets, options)
        else:
            outputs, results = partition.part.outputs, _run_partition(plan.model, partition, values, targets, options)
        shapes.update(zip(outputs, results, strict=True))
        if not all(shape.is_sufficient for shape in results):
            known = [shapes.get(index, OutputShape(plan.model.operands[index].type.dimensions)) for index in targets]
            return ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, tuple(known))
    return ExecutionResult(ResultCode.NO_ERROR, tuple(shapes[index] for index in plan.model.outputs))


def _evaluate(plan: ExecutionPlan, inputs: Sequence[InputArgument], options: ExecuteOptions) -> list[InputArgument]:
    """The outputs of a plan as inputs of the next one. Their memory is allocated when needed."""
    model = plan.model
    sizes = [type_.size for type_ in model.output_types()]
    while True:
        buffers = [np.empty(size, np.uint8) for size in sizes]
        result = BoundPlan(plan, Request(inputs, [OutputArgument(buffer) for buffer in buffers])).execute(options)
        needed = [_nbytes(model, index, s) for index, s in zip(model.outputs, result.output_shapes, strict=True)]
        if result.code is ResultCode.NO_ERROR:
            rows = zip(model.outputs, buffers, result.output_shapes, strict=True)
            return [_as_input(model, index, buffer, shape) for index, buffer, shape in rows]
        if needed == sizes:
            raise op_failed("a device calls buffers too small that have the size it asked for")
        sizes = needed


def _run_partition(
    model: Model, partition: Partition, values: Values, targets: Targets, options: ExecuteOptions
) -> Sequence[OutputShape]:
    """Execute one partition; its results join ``values``. Results of unknown size take a second try, as in HAL 1.3."""
    outputs = partition.part.outputs
    inputs = [values[index] for index in partition.part.inputs]
    sizes = [model.operands[index].type.size for index in outputs]
    while True:
        arguments = [_target(index, size, targets) for index, size in zip(outputs, sizes, strict=True)]
        result = _BoundPartition(partition, Request(inputs, arguments)).execute(options)
        if result.code is ResultCode.NO_ERROR:
            break
        needed = [_nbytes(model, index, shape) for index, shape in zip(outputs, result.output_shapes, strict=True)]
        if needed == sizes or any(
            _is_wanted(index, targets) and not shape.is_sufficient
            for index, shape in zip(outputs, result.output_shapes, strict=True)
        ):
            return result.output_shapes
        sizes = needed
    for index, argument, shape in zip(outputs, arguments, result.output_shapes, strict=True):
        if argument.buffer is not None:
            values[index] = _as_input(model, index, argument.buffer, shape)
    return result.output_shapes


def _run_control(
    model: Model, partition: ControlFlowPartition, values: Values, targets: Targets, options: ExecuteOptions
) -> tuple[tuple[int, ...], Sequence[OutputShape]]:
    """Execute an IF or WHILE; its results join ``values`` and go to the application's buffers."""
    operation = partition.operation

    def argument(index: int) -> InputArgument:
        constant = model.operands[index].value
        return values[index] if constant is None else InputArgument(constant)

    with tracing.span(str(operation), "control", operation=partition.operations[0]):
        results = flow.run(
            operation,
            partition.plans,
            [argument(index) for index in flow.handed_on(operation)],
            lambda plan, inputs: _evaluate(plan, inputs, options),
            lambda condition: condition.array,
            flow.Clock(options.deadline_ns, options.loop_timeout_ns),
        )
    shapes: list[OutputShape] = []
    for position, (index, result) in enumerate(zip(operation.outputs, results, strict=True)):
        values[index] = result
        array = result.array
        assert array is not None
        flow.check_output(operation, position, model.operands[index].type, array.shape)
        buffer = targets[index].buffer if index in targets else None
        shapes.append(OutputShape(array.shape, buffer is None or buffer.nbytes >= array.nbytes))
        if buffer is not None and buffer.nbytes >= array.nbytes:
            buffer[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return operation.outputs, shapes


def _is_wanted(index: int, targets: Targets) -> bool:
    return index in targets and targets[index].buffer is not None


def _target(index: int, size: int, targets: Targets) -> OutputArgument:
    """The target of a partition's result: the application's buffer if the result is a wanted output of the model."""
    return targets[index] if _is_wanted(index, targets) else OutputArgument(np.empty(size, np.uint8))


def _as_input(model: Model, index: int, buffer: np.ndarray, shape: OutputShape) -> InputArgument:
    used = buffer[: _nbytes(model, index, shape)]
    return InputArgument(used.view(model.operands[index].type.dtype).reshape(shape.dimensions))


def _nbytes(model: Model, index: int, shape: OutputShape) -> int:
    return math.prod(shape.dimensions) * model.operands[index].type.dtype.itemsize
