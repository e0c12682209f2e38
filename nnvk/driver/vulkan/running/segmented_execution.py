"""Executions of programs: one segment after the other, with decisions of the host in between.

Tensors that one segment passes to the next stay in the device's memory. The host submits segments without waiting,
because the queue keeps their order. It waits only to read a condition, a value that shapes depend on, or the number of
rows that an operation has found.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.driver.vulkan.graph.builder import NeedsValue
from nnvk.driver.vulkan.running.buffer import Buffers, VulkanBuffer
from nnvk.driver.vulkan.running.execution import Scope, SubmittedExecution, VulkanExecution
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.program import Control, ModelProgram, Straight
from nnvk.driver.vulkan.running.resident_plan import ResidentPlan
from nnvk.driver.vulkan.running.values import BufferPool, Leases, Value
from nnvk.hal import DeferredExecution, IExecution, IFencedExecution
from nnvk.ops import flow, registry
from nnvk.types.codes import OperationCode
from nnvk.types.constant import bytes_of, elements
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import (
    NOT_MEASURED,
    ExecuteOptions,
    ExecutionResult,
    InputArgument,
    OutputArgument,
    OutputShape,
    Request,
    Timing,
)

Values = dict[int, Value | None]
"""Values by operand; None for an omitted operand."""
Wanted = Mapping[int, np.ndarray | None]
"""Operands for the host: flat byte arrays to copy them to, or None."""
MOST_FETCHED_BYTES = 1 << 20
"""The most bytes of an output with a dynamic number of rows, for one copy of the output and its number of rows."""


class SegmentedExecution(IExecution):
    """A request for a program. Plans are selected at execution, because they may depend on values."""

    def __init__(
        self, gpu: Gpu, buffers: Buffers, pool: BufferPool, program: ModelProgram, request: Request, priority: int
    ) -> None:
        self._gpu = gpu
        self._buffers = buffers
        self._pool = pool
        self._program = program
        self._request = request
        self._priority = priority

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        """Run all nodes and wait until they have finished."""
        began = time.perf_counter_ns()
        model = self._program.model
        inputs = [
            self._given(f"input {position}", argument, type_)
            for position, (argument, type_) in enumerate(zip(self._request.inputs, model.input_types(), strict=True))
        ]
        run = _Run(self._gpu, self._pool, options, self._priority)
        try:
            targets = {
                index: target.buffer
                for index, target in zip(model.outputs, self._request.outputs, strict=True)
                if target.buffer is not None
            }
            results = run.evaluate(self._program, inputs, targets)
            run.drain()
            outcome = self._deliver(run, results)
        except (MemoryError, RuntimeError) as error:
            raise self._gpu.failure(error) from error
        except NnapiError:
            raise
        except BaseException:  # Ctrl-C above all
            run.give_up()
            raise
        finally:
            run.close()
        if not options.measure or outcome.code is not ResultCode.NO_ERROR:
            return outcome
        timing = Timing(run.on_hardware_ns, time.perf_counter_ns() - began)
        return ExecutionResult(outcome.code, outcome.output_shapes, timing)

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        """Start a thread that waits and executes, because the host takes part."""
        return DeferredExecution(lambda: self.execute(options.started(time.monotonic_ns())), wait_for)

    def _given(self, what: str, argument: InputArgument, type_: OperandType) -> Value | None:
        if argument.token:
            memory = self._memory(what, argument.token)
            value = Value(type_, argument.dimensions, buffer=memory)
            if memory.nbytes < value.nbytes:
                raise bad_data(f"{what} takes {value.nbytes} bytes, buffer {argument.token} has {memory.nbytes}")
            return value
        array = argument.array
        return None if array is None else Value(type_, array.shape, array)

    def _memory(self, what: str, token: int) -> VulkanBuffer:
        memory = self._buffers.find(token)
        if memory is None:
            raise bad_data(f"{what}: {self._gpu.name} has no buffer {token}")
        return memory

    def _deliver(self, run: _Run, results: Sequence[Value]) -> ExecutionResult:
        """Copy the results to the request's outputs, if all of them are large enough."""
        shapes = []
        memories: dict[int, VulkanBuffer] = {}
        for position, (value, target) in enumerate(zip(results, self._request.outputs, strict=True)):
            room = value.nbytes if target.buffer is None else target.buffer.nbytes
            if target.token:
                memories[position] = self._memory(f"output {position}", target.token)
                room = memories[position].nbytes
            shapes.append(OutputShape(value.shape, room >= value.nbytes))
        if not all(shape.is_sufficient for shape in shapes):
            return ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, tuple(shapes))
        written = set(memories.values())
        for position, value in enumerate(results):
            if value.buffer in written and value.buffer is not memories.get(position):
                run.read(value)  # an input that is updated now
                value.buffer = None
        for position, (value, target) in enumerate(zip(results, self._request.outputs, strict=True)):
            if position in memories:
                run.copy(value, memories[position])
            elif target.buffer is not None and value.nbytes:
                array = run.read(value)
                if not np.shares_memory(array, target.buffer):
                    target.buffer[: value.nbytes] = array.reshape(-1).view(np.uint8)
        return ExecutionResult(ResultCode.NO_ERROR, tuple(shapes))


class _Run:
    """One execution of a program."""

    def __init__(self, gpu: Gpu, pool: BufferPool, options: ExecuteOptions, priority: int) -> None:
        self.on_hardware_ns = 0
        """The device's time for the completed segments; `NOT_MEASURED` if the device cannot measure it."""
        self._gpu = gpu
        self._leases = Leases(pool)
        self._options = options
        self._priority = priority
        self._clock = flow.Clock(options.deadline_ns, options.loop_timeout_ns)
        self._pending: list[IFencedExecution] = []
        self._within: int | None = None
        """The outermost IF or WHILE that is under way."""

    # --- programs --------------------------------------------------------------------------------------------------

    def evaluate(self, program: ModelProgram, inputs: Sequence[Value | None], wanted: Wanted) -> list[Value]:
        """The outputs of a program. Outputs that only the host needs are read as soon as they are available."""
        model = program.model
        values: Values = {
            index: Value(operand.type, operand.constant.shape, operand.constant)
            for index, operand in enumerate(model.operands)
            if operand.constant is not None
        }
        values.update(zip(model.inputs, inputs, strict=True))
        position = 0
        while position < len(program.nodes):
            self._clock.check()
            node = program.nodes[position]
            used = program.read_after(position)
            on_host = {index: array for index, array in wanted.items() if index not in used}
            if isinstance(node, Control):
                self._control(model, node, values, on_host)
            elif not self._straight(program, node, values, on_host):
                continue  # it was split
            kept = used.union(model.outputs)
            for index in [index for index in values if index not in kept]:
                del values[index]
            position += 1
        return [self._present(model, index, values) for index in model.outputs]

    def _control(self, model: Model, node: Control, values: Values, wanted: Wanted) -> None:
        operation = node.operation
        operands = [values.get(index) for index in flow.handed_on(operation)]
        is_loop = operation.code is OperationCode.WHILE
        if is_loop:
            operands = [self._on_device(value, (id(node), place)) for place, value in enumerate(operands)]

        def evaluate(inner: ModelProgram, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
            outputs = inner.model.outputs
            if is_loop:
                return self.evaluate(inner, inputs, {outputs[0]: None} if inner is node.programs[0] else {})
            # The host wants the same outputs of the branch that is taken as of the operation.
            inside = {outputs[place]: wanted[index] for place, index in enumerate(operation.outputs) if index in wanted}
            return self.evaluate(inner, inputs, inside)

        def read(value: Value | None) -> np.ndarray | None:
            return None if value is None else self.read(value)

        outermost, self._within = self._within, node.number if self._within is None else self._within
        try:
            results = flow.run(operation, node.programs, operands, evaluate, read, self._clock)
        finally:
            self._within = outermost
        for place, (index, result) in enumerate(zip(operation.outputs, results, strict=True)):
            if result is not None:
                flow.check_output(operation, place, model.operands[index].type, result.shape)
            values[index] = result

    def _straight(self, program: ModelProgram, node: Straight, values: Values, wanted: Wanted) -> bool:
        """Submit a segment. False: the segment had to be split."""
        part = node.part
        inputs = [values.get(index) for index in part.inputs]
        try:
            plan = node.segment.plan_for(
                tuple(None if value is None else value.shape for value in inputs),
                lambda position: self._required(inputs[position]),
            )
        except NeedsValue as needed:
            program.split(node, needed.operation)
            return False
        outputs = self._targets(node, plan, wanted)
        request = Request(
            [_argument(value) for value in inputs],
            [
                OutputArgument(None, value.buffer.token) if value.buffer is not None else OutputArgument(_bytes(value))
                for value in outputs
            ],
        )
        place = Scope(node.operations.start, self._within)
        execution = VulkanExecution(self._gpu, plan, plan.bind(request), self._priority, place)
        submitted = execution.execute_fenced((), self._options)
        self._pending.append(submitted)
        if plan.plan.counts:
            self._counted(part.model, outputs, [shape.dimensions for shape in submitted.result().output_shapes])
        values.update(zip(part.outputs, outputs, strict=True))
        return True

    def _counted(self, model: Model, outputs: Sequence[Value], shapes: Sequence[Shape]) -> None:
        """Set the shapes of outputs from the data. They are those of the last operation, whose types may differ."""
        operation = model.operations[-1]
        names = dict(zip(operation.outputs, registry.lookup(operation.code).outputs, strict=True))
        for index, value, shape in zip(model.outputs, outputs, shapes, strict=True):
            if index in names:
                with registry.at_execution():
                    registry.check_declared(operation.code, names[index].name, value.type, shape)
            if value.shape != shape:
                value.shape = shape
                value.host = None if value.host is None else elements(value.host)[: shape[0]]

    def _targets(self, node: Straight, plan: ResidentPlan, wanted: Wanted) -> list[Value]:
        """The targets of a segment's outputs: host memory if only the host needs them, otherwise device memory."""
        targets = []
        counts = plan.plan.counts or (None,) * len(node.part.outputs)
        rows = zip(node.part.outputs, node.part.model.output_types(), plan.plan.output_shapes, counts, strict=True)
        for place, (index, type_, shape, count) in enumerate(rows):
            value = Value(type_, shape)
            if not value.nbytes:
                value.host = np.empty(shape, type_.dtype)
            elif index in wanted and (count is None or value.nbytes <= MOST_FETCHED_BYTES):
                room = wanted[index] if count is None else None  # only what there is goes to the request
                fits = room is not None and room.nbytes >= value.nbytes
                memory = room[: value.nbytes] if room is not None and fits else np.empty(value.nbytes, np.uint8)
                value.host = memory.view(type_.dtype).reshape(shape)
            else:
                value = Value(type_, shape, lease=self._leases.take((id(node), place), value.nbytes))
            targets.append(value)
        return targets

    # --- values ----------------------------------------------------------------------------------------------------

    def read(self, value: Value) -> np.ndarray:
        """The elements in host memory, after the device has computed them."""
        self.drain()
        if value.host is None:
            assert value.buffer is not None
            memory = np.empty(value.nbytes, np.uint8)
            value.buffer.copy_to(memory)
            value.host = memory.view(value.type.dtype).reshape(value.shape)
        return elements(value.host)

    def copy(self, value: Value, target: VulkanBuffer) -> None:
        """Copy a value into other memory of the device."""
        if not value.nbytes:
            return
        if value.buffer is not None:
            target.copy_on_device(value.buffer, value.nbytes)
        else:
            target.copy_from(_bytes(value))

    def _on_device(self, value: Value | None, use: Hashable) -> Value | None:
        """The value on the device, where it is read repeatedly. Small values also stay in host memory."""
        if value is None or value.buffer is not None or not value.nbytes:
            return value
        lease = self._leases.take(use, value.nbytes)
        lease.buffer.copy_from(_bytes(value))
        return Value(value.type, value.shape, value.host, lease=lease)

    def _required(self, value: Value | None) -> np.ndarray:
        assert value is not None  # nobody looks at what was omitted
        return self.read(value)

    def _present(self, model: Model, index: int, values: Values) -> Value:
        value = values.get(index)
        if value is None:
            raise bad_data(f"model output {model.outputs.index(index)} has no value")
        return value

    # --- the end ---------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Wait for all submissions. Raises their errors."""
        while self._pending:
            timing = self._pending[0].result().timing
            del self._pending[0]
            if NOT_MEASURED in (timing.on_hardware_ns, self.on_hardware_ns):
                self.on_hardware_ns = NOT_MEASURED
            else:
                self.on_hardware_ns += timing.on_hardware_ns
        self._leases.give_back()

    def give_up(self) -> None:
        """Stop waiting. The device continues, with buffers that are not reused."""
        for execution in self._pending:
            if isinstance(execution, SubmittedExecution):
                execution.give_up()
        self._pending.clear()
        self._leases.forget()

    def close(self) -> None:
        """Clean up, also after an error. Buffers that the device may still use are dropped, not given back."""
        failed = bool(self._pending)
        for execution in self._pending:
            with contextlib.suppress(NnapiError):
                execution.result()
        self._pending.clear()
        if failed:
            self._leases.forget()
        else:
            self._leases.give_back(everything=True)


def _argument(value: Value | None) -> InputArgument:
    if value is None:
        return InputArgument(None)
    if value.buffer is not None:
        return InputArgument(None, value.buffer.token, value.shape)
    return InputArgument(None if value.host is None else elements(value.host))


def _bytes(value: Value) -> np.ndarray:
    assert value.host is not None
    return bytes_of(value.host)
