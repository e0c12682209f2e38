"""IPreparedModel of the Vulkan driver: a pool of recorded instances for each set of input shapes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.base.log import logger
from nnvk.driver.vulkan.plan import Plan
from nnvk.driver.vulkan.recorder import Instance, upload_constants
from nnvk.hal import IFencedExecution, IPreparedModel
from nnvk.ops.registry import compatible
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import ExecuteOptions, ExecutionResult, OutputShape, Request, Timing

if TYPE_CHECKING:
    from nnvk import _native

_log = logger("driver")
Shapes = tuple[Shape, ...]
MAX_SHAPE_SETS = 16
"""Plans that are kept of a model whose input dimensions change from one execution to the next."""


class Planned:
    """A plan on the device: its constants, and the instances that are not in use."""

    def __init__(self, device: _native.Device, model: Model, plan: Plan) -> None:
        self.plan = plan
        self._device = device
        self._constants = upload_constants(device, plan)
        self._idle: dict[str, list[Instance]] = {}
        self._lock = threading.Lock()
        types = model.output_types()
        self.sizes = tuple(
            int(np.prod(shape, dtype=np.int64)) * type_.dtype.itemsize
            for shape, type_ in zip(plan.output_shapes, types, strict=True)
        )
        self.shapes = tuple(OutputShape(shape) for shape in plan.output_shapes)
        self.done = ExecutionResult(ResultCode.NO_ERROR, self.shapes)
        self.used_inputs = tuple(index for index, address in enumerate(plan.inputs) if address is not None)
        self.used_outputs = tuple(index for index, address in enumerate(plan.outputs) if address is not None)

    def take(self, timestamps: str) -> Instance:
        """An instance for the caller alone; `put` it back."""
        with self._lock:
            idle = self._idle.get(timestamps)
            if idle:
                return idle.pop()
        return Instance(self._device, self.plan, self._constants, timestamps=timestamps)

    def put(self, instance: Instance, timestamps: str) -> None:
        """Give an instance back whose work is done."""
        with self._lock:
            self._idle.setdefault(timestamps, []).append(instance)


class VulkanPreparedModel(IPreparedModel):
    """A model whose operations were all lowered to shaders."""

    def __init__(self, device: _native.Device, model: Model, lower: Callable[[Model, Shapes], Plan]) -> None:
        self._device = device
        self._model = model
        self._lower = lower
        self._types = model.input_types()
        self._planned: dict[Shapes, Planned] = {}
        self._lock = threading.Lock()
        if all(type_.is_fully_specified for type_ in self._types):
            planned = self._plan_for(tuple(type_.dimensions for type_ in self._types))
            planned.put(planned.take("none"), "none")  # the first execution shall be as fast as any other

    def _plan_for(self, shapes: Shapes) -> Planned:
        planned = self._planned.get(shapes)
        if planned is None:
            with self._lock:
                planned = self._planned.get(shapes)
                if planned is None:
                    for position, (type_, shape) in enumerate(zip(self._types, shapes, strict=True)):
                        _check_shape(position, type_, shape)
                    planned = Planned(self._device, self._model, self._lower(self._model, shapes))
                    if len(self._planned) >= MAX_SHAPE_SETS:
                        del self._planned[next(iter(self._planned))]
                    self._planned[shapes] = planned
                    _log.debug(
                        "planned %s: %d commands, %d barriers, pages %s",
                        shapes,
                        len(planned.plan.commands),
                        len(planned.plan.barriers),
                        {storage.value: sizes for storage, sizes in planned.plan.pages.items()},
                    )
        return planned

    def _planned_for(self, request: Request) -> Planned:
        arrays = []
        for position, argument in enumerate(request.inputs):
            if argument.array is None:
                raise bad_data(f"input {position} is omitted, the operations that read it need it")
            arrays.append(argument.array.shape)
        return self._plan_for(tuple(arrays))

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Copy inputs in, submit, wait, copy outputs out."""
        began = time.perf_counter_ns()
        planned = self._planned_for(request)
        short = _short(planned, request)
        if short is not None:
            return short
        timestamps = "ends" if options.measure else "none"
        instance = planned.take(timestamps)
        inputs = [request.inputs[index].array for index in planned.used_inputs]
        outputs = _targets(planned, request)
        if options.deadline_ns is None:
            instance.program.run(inputs, outputs)
        elif not instance.program.run(inputs, outputs, _remaining(options.deadline_ns)):
            _Abandoned(instance, planned, timestamps)
            raise NnapiError(ResultCode.MISSED_DEADLINE_TRANSIENT, "the execution's deadline has passed")
        timing = _timing(instance, began) if options.measure else None
        planned.put(instance, timestamps)
        return planned.done if timing is None else ExecutionResult(ResultCode.NO_ERROR, planned.shapes, timing)

    def execute_fenced(
        self, request: Request, wait_for: Sequence[IFencedExecution], options: ExecuteOptions
    ) -> IFencedExecution:
        """Submit and return the fence. Dependencies of this driver are on the same queue; others are awaited first."""
        began = time.perf_counter_ns()
        planned = self._planned_for(request)
        short = _short(planned, request)
        if short is not None:
            return _Finished(short)
        for dependency in wait_for:
            dependency.wait()
        timestamps = "ends" if options.measure else "none"
        instance = planned.take(timestamps)
        fence = instance.program.submit([request.inputs[index].array for index in planned.used_inputs])
        return _Fenced(fence, instance, planned, timestamps, request, options, began)


class _Fenced(IFencedExecution):
    """An execution whose fence the device will signal."""

    def __init__(
        self,
        fence: _native.Fence,
        instance: Instance,
        planned: Planned,
        timestamps: str,
        request: Request,
        options: ExecuteOptions,
        began: int,
    ) -> None:
        self._fence = fence
        self._instance = instance
        self._planned = planned
        self._timestamps = timestamps
        self._request = request
        self._options = options
        self._began = began
        self._result: ExecutionResult | None = None
        self._lock = threading.Lock()

    def wait(self, timeout_ns: int = -1) -> bool:
        return self._fence.wait(timeout_ns)

    def result(self) -> ExecutionResult:
        with self._lock:
            if self._result is None:
                self._result = self._fetch()
            return self._result

    def _fetch(self) -> ExecutionResult:
        deadline = self._options.deadline_ns
        if not self._fence.wait(-1 if deadline is None else _remaining(deadline)):
            _Abandoned(self._instance, self._planned, self._timestamps)
            raise NnapiError(ResultCode.MISSED_DEADLINE_TRANSIENT, "the execution's deadline has passed")
        self._instance.program.fetch(_targets(self._planned, self._request))
        timing = _timing(self._instance, self._began) if self._options.measure else Timing()
        self._planned.put(self._instance, self._timestamps)
        return ExecutionResult(ResultCode.NO_ERROR, self._planned.shapes, timing)


class _Finished(IFencedExecution):
    """An execution that ended before it reached the device."""

    def __init__(self, result: ExecutionResult) -> None:
        self._result = result

    def wait(self, timeout_ns: int = -1) -> bool:
        return True

    def result(self) -> ExecutionResult:
        return self._result


class _Abandoned:
    """Brings back an instance whose caller gave up: it may not run again before the device is done with it."""

    def __init__(self, instance: Instance, planned: Planned, timestamps: str) -> None:
        def wait() -> None:
            instance.program.wait()
            planned.put(instance, timestamps)

        threading.Thread(target=wait, name="nnvk-abandoned", daemon=True).start()


def _remaining(deadline_ns: int) -> int:
    return max(0, deadline_ns - time.monotonic_ns())


def _timing(instance: Instance, began: int) -> Timing:
    first, *_, last = instance.program.timestamps_ns()
    return Timing(last - first, time.perf_counter_ns() - began)


def _targets(planned: Planned, request: Request) -> list[np.ndarray | None]:
    targets: list[np.ndarray | None] = []
    for index in planned.used_outputs:
        buffer = request.outputs[index].buffer
        size = planned.sizes[index]
        targets.append(buffer if buffer is None or buffer.nbytes == size else buffer[:size])
    return targets


def _short(planned: Planned, request: Request) -> ExecutionResult | None:
    """The result where a buffer is too small for its output."""
    room = [
        argument.buffer is None or argument.buffer.nbytes >= size
        for argument, size in zip(request.outputs, planned.sizes, strict=True)
    ]
    if all(room):
        return None
    shapes = tuple(OutputShape(s.dimensions, enough) for s, enough in zip(planned.shapes, room, strict=True))
    return ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, shapes)


def _check_shape(position: int, type_: OperandType, shape: Shape) -> None:
    if type_.is_tensor and type_.dimensions and not compatible(type_.dimensions, shape):
        raise bad_data(f"input {position} has shape {list(shape)}, the model says {list(type_.dimensions)}")
