"""Execution: computations of a compiled model on given inputs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from nnvk.base import forks, tracing
from nnvk.base.checks import flag, instance, instances, member, whole
from nnvk.base.detached_work import settle_detached_work
from nnvk.base.errors import NnapiError, ResultCode, bad_data, bad_state, driver_error, op_failed
from nnvk.base.pinned import Pinned
from nnvk.hal import IFencedExecution
from nnvk.ops.registry import compatible
from nnvk.runtime import arguments
from nnvk.runtime.burst import Burst
from nnvk.runtime.compilation import Compilation
from nnvk.runtime.device_memory import DeviceMemory
from nnvk.runtime.event import Event
from nnvk.runtime.memory import Memory, check_aligned
from nnvk.runtime.plan_executor import BoundPlan
from nnvk.types.codes import DurationCode
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import (
    MAXIMUM_LOOP_TIMEOUT_NS,
    ExecuteOptions,
    ExecutionResult,
    InputArgument,
    OutputArgument,
    OutputShape,
    Request,
    Timing,
    deadline_after,
)

_NO_TIMING = Timing()


class _State(Enum):
    PREPARATION = "in preparation"
    COMPUTATION = "under way"
    COMPLETED = "completed"


class Execution(Pinned):
    """Computations of one compilation (``ANeuralNetworksExecution``): set inputs and outputs, then compute.

    Arrays that are set are referred to, not copied: what they hold when the computation begins is what counts. An
    execution may be computed once, or any number of times, one after the other, after `set_reusable`; nothing else of
    it may be changed once the first computation has begun. Outputs must not overlap each other or inputs, except for
    device memory with an update role.
    """

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = instance("the compilation", compilation, Compilation)
        """The compilation that it applies."""
        self._plan = compilation.plan
        self._model = compilation.model
        self._inputs: list[InputArgument | None] = [None] * len(self._model.inputs)
        self._outputs: list[OutputArgument | None] = [None] * len(self._model.outputs)
        self._device_memory: dict[tuple[str, int], DeviceMemory] = {}
        self._output_types: list[OperandType] = list(self._model.output_types())
        self._promised: dict[int, Shape] = {}
        self._writing = False
        self._bound: BoundPlan | None = None
        self._padding: bool = False
        self._options = ExecuteOptions()
        self._timeout_ns = 0
        self._reusable = False
        self._state = _State.PREPARATION
        self._turn: object = None
        """The computation that is under way, or was the last."""
        self._lock = forks.lock()
        self._shapes: tuple[OutputShape, ...] | None = None
        self._timing = self._fenced_timing = Timing()

    # --- arguments -----------------------------------------------------------------------------------------------

    def set_input(self, index: int, value: Any, type: OperandType | None = None) -> None:
        """Set input ``index`` to an array, buffer or number (``ANeuralNetworksExecution_setInput``).

        ``type`` gives dimensions that the model left open; an array of the operand's rank gives them by its shape.
        None marks an optional input as omitted. BAD_DATA: bytes or dimensions don't fit the operand. BAD_STATE: the
        execution is not in preparation.
        """
        self._check_preparation("set_input")
        index, operand = self._operand(self._model.inputs, index, "input")
        array = arguments.input_array(f"input {index}", operand, value, type, self._padding)
        self._set("input", index, InputArgument(array), None)

    def set_input_from_memory(
        self, index: int, memory: Memory, offset: int = 0, length: int = 0, type: OperandType | None = None
    ) -> None:
        """Set input ``index`` to a part of a memory (``ANeuralNetworksExecution_setInputFromMemory``).

        ``offset`` and ``length`` are bytes; for memory made from a descriptor both are 0. Errors as `set_input`.
        """
        self._check_preparation("set_input_from_memory")
        index, operand = self._operand(self._model.inputs, index, "input")
        what = f"input {index}"
        full = operand if type is None else arguments.merge(what, operand, type)
        instance("the memory", memory, Memory)
        if isinstance(memory, DeviceMemory):
            _check_whole(what, offset, length)
            memory.check_role(self.compilation, "input", index, full.dimensions)
            if memory.buffer is not None:
                argument = InputArgument(None, memory.buffer.token, memory.dimensions)
            else:
                view = memory.host_bytes()
                argument = InputArgument(view.view(operand.dtype).reshape(memory.dimensions))
            self._set("input", index, argument, memory)
            return
        view = memory.slice(offset, length)
        check_aligned(what, operand, offset)
        array = arguments.input_array(what, operand, view, full, self._padding)
        self._set("input", index, InputArgument(array), None)

    def set_output(self, index: int, value: Any, type: OperandType | None = None) -> None:
        """Set where output ``index`` goes: a writable array or buffer (``ANeuralNetworksExecution_setOutput``).

        Where the model leaves dimensions open the buffer may be larger than the output turns out to be. None: the
        output is not wanted. Errors as `set_input`.
        """
        self._check_preparation("set_output")
        index, operand = self._operand(self._model.outputs, index, "output")
        full = operand if type is None else arguments.merge(f"output {index}", operand, type)
        buffer = arguments.output_bytes(f"output {index}", full, value, self._padding)
        self._set_output(index, full, OutputArgument(buffer), None)

    def set_output_from_memory(
        self, index: int, memory: Memory, offset: int = 0, length: int = 0, type: OperandType | None = None
    ) -> None:
        """Set where output ``index`` goes: a part of a memory (``ANeuralNetworksExecution_setOutputFromMemory``).

        ``offset`` and ``length`` are bytes; for memory made from a descriptor both are 0. Errors as `set_input`.
        """
        self._check_preparation("set_output_from_memory")
        index, operand = self._operand(self._model.outputs, index, "output")
        what = f"output {index}"
        full = operand if type is None else arguments.merge(what, operand, type)
        instance("the memory", memory, Memory)
        if isinstance(memory, DeviceMemory):
            _check_whole(what, offset, length)
            memory.check_role(self.compilation, "output", index, full.dimensions)
            if memory.buffer is None:
                argument = OutputArgument(memory.host_bytes())
            else:
                argument = OutputArgument(None, memory.buffer.token, updates_input=memory.has_updates)
            self._set_output(index, full.with_dimensions(memory.dimensions), argument, memory)
            return
        view = memory.slice(offset, length)
        check_aligned(what, operand, offset)
        buffer = arguments.output_bytes(what, full, view, self._padding)
        self._set_output(index, full, OutputArgument(buffer), None)

    def _set_output(
        self, index: int, type_: OperandType, argument: OutputArgument, memory: DeviceMemory | None
    ) -> None:
        self._output_types[index] = type_
        self._promised.pop(index, None)
        if type_.dimensions != self._model.operands[self._model.outputs[index]].type.dimensions:
            self._promised[index] = type_.dimensions
        self._set("output", index, argument, memory)

    def _set(self, what: str, index: int, argument: Any, memory: DeviceMemory | None) -> None:
        (self._inputs if what == "input" else self._outputs)[index] = argument
        if memory is None:
            self._device_memory.pop((what, index), None)
        else:
            self._device_memory[what, index] = memory
        self._bound = None

    def enable_input_and_output_padding(self, enable: bool) -> None:
        """Allow buffers longer than their operands (``ANeuralNetworksExecution_enableInputAndOutputPadding``).

        BAD_STATE: an input or output was set before.
        """
        self._check_preparation("enable_input_and_output_padding")
        enable = flag("enable", enable)
        if any(argument is not None for argument in (*self._inputs, *self._outputs)):
            raise bad_state("enable_input_and_output_padding must be called before inputs and outputs are set")
        self._padding = enable

    def set_measure_timing(self, measure: bool) -> None:
        """Measure durations (``ANeuralNetworksExecution_setMeasureTiming``).

        BAD_DATA: the compilation is not for exactly one named device.
        """
        self._check_preparation("set_measure_timing")
        self.compilation.check_one_device("timing")
        self._options = replace(self._options, measure=flag("measure", measure))

    def set_timeout(self, duration_ns: int) -> None:
        """Give up after this many nanoseconds; 0: never (``ANeuralNetworksExecution_setTimeout``).

        BAD_DATA: the compilation is not for exactly one named device.
        """
        self._check_preparation("set_timeout")
        self.compilation.check_one_device("a timeout")
        self._timeout_ns = arguments.duration("timeout", duration_ns)

    def set_loop_timeout(self, duration_ns: int) -> None:
        """Give up a WHILE after this many nanoseconds (``ANeuralNetworksExecution_setLoopTimeout``).

        The default is 2 s; more than 15 s are taken as 15 s.
        """
        self._check_preparation("set_loop_timeout")
        limit = min(arguments.duration("loop timeout", duration_ns), MAXIMUM_LOOP_TIMEOUT_NS)
        self._options = replace(self._options, loop_timeout_ns=limit)

    def set_reusable(self, reusable: bool) -> None:
        """Allow more than one computation (``ANeuralNetworksExecution_setReusable``).

        BAD_STATE: the first computation has begun.
        """
        self._check_preparation("set_reusable")
        self._reusable = flag("reusable", reusable)

    # --- computation ---------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Compute and return when the outputs are written (``ANeuralNetworksExecution_compute``).

        OUTPUT_INSUFFICIENT_SIZE: a buffer is too small; `get_output_operand_dimensions` then tells the dimensions.
        BAD_STATE: under way, or completed and not reusable. BAD_DATA: an input or output was not set.
        MISSED_DEADLINE_TRANSIENT: a timeout has passed. OP_FAILED: an input is device memory that holds nothing, or an
        output has other dimensions than were given for it.
        """
        turn = object()
        try:
            self._begin(turn)
            with tracing.span("compute", "execution"):
                result = self._ready().execute(self._execute_options())
        except BaseException as error:
            raise self._failed(error, turn)  # noqa: B904 - it is the same error, mostly
        self._complete(result)

    def burst_compute(self, burst: Burst) -> None:
        """Compute in a burst (``ANeuralNetworksExecution_burstCompute``).

        BAD_DATA: the burst is of another compilation. BAD_STATE: another execution is in it. Else as `compute`.
        """
        if instance("the burst", burst, Burst).compilation is not self.compilation:
            raise bad_data("the burst and the execution are of different compilations")
        turn = object()
        burst.enter()
        try:
            try:
                self._begin(turn)
                result = self._ready().execute_in_burst(burst.lane, self._execute_options())
            except BaseException as error:
                raise self._failed(error, turn)  # noqa: B904 - it is the same error, mostly
            self._complete(result)
        finally:
            burst.leave()

    def start_compute(self) -> Event:
        """Start and return an `Event` at once (``ANeuralNetworksExecution_startCompute``). Errors as `compute`."""
        return self._start((), self._execute_options(), has_sync_fence=False)

    def start_compute_with_dependencies(self, dependencies: Sequence[Event], duration_ns: int = 0) -> Event:
        """Start once all ``dependencies`` have signalled (``ANeuralNetworksExecution_startComputeWithDependencies``).

        ``duration_ns`` limits the time from then on; 0: no limit. The event has a sync fence. BAD_DATA: an output's
        type is not fully specified, or a duration and not exactly one named device. A dependency that has failed
        raises its error here; one that fails later makes the execution fail.
        """
        events = instances("the dependencies", dependencies, Event)
        duration_ns = arguments.duration("duration", duration_ns)
        if duration_ns:
            self.compilation.check_one_device("a duration")
        for index, type_ in enumerate(self._output_types):
            if not type_.is_fully_specified:
                raise bad_data(f"output {index} is {type_}: a fenced execution needs all its dimensions")
        for event in events:
            event.check()
        options = self._execute_options()
        if duration_ns:
            options = replace(options, duration_ns=duration_ns)
        return self._start(events, options, has_sync_fence=True)

    def _start(self, dependencies: Sequence[Event], options: ExecuteOptions, *, has_sync_fence: bool) -> Event:
        turn = object()
        try:
            self._begin(turn)
            bound = self._ready(fenced=bool(dependencies))
            host_writes = any([dependency.writes_host for dependency in dependencies])
            fence = bound.execute_fenced(
                [dependency.fence for dependency in dependencies],
                options,
                after_host_writes=host_writes and bound.uses_host,
            )
        except BaseException as error:
            raise self._failed(error, turn)  # noqa: B904 - it is the same error, mostly
        writes_host = host_writes or bound.writes_host
        return Event(fence, self._finish, has_sync_fence=has_sync_fence, writes_host=writes_host)

    def _finish(self, fence: IFencedExecution) -> None:
        try:
            result = fence.result()
        except Exception as error:  # after Ctrl-C it is still under way, and can be waited for again
            raise self._failed(error, self._turn)  # noqa: B904 - it is the same error, mostly
        self._complete(result)

    def _begin(self, turn: object) -> None:
        """Take the turn. From here on all threads know whose turn it is, even if Ctrl-C interrupts this one."""
        settle_detached_work(own=True)  # what this thread has started before and let go may write what is read now
        if self._state is _State.COMPUTATION:
            settle_detached_work()
        with self._lock:
            if self._state is _State.COMPUTATION:
                raise bad_state("the execution is under way")
            if self._state is _State.COMPLETED and not self._reusable:
                raise bad_state("the execution is completed; set_reusable before the first computation allows more")
            self._turn = turn
            self._state = _State.COMPUTATION

    def _complete(self, result: ExecutionResult) -> None:
        broken = self._broken_promises(result) if self._promised else ()
        self._end(result, result.code is ResultCode.NO_ERROR and not broken)
        if result.code is not ResultCode.NO_ERROR:
            small = [
                f"output {index} is {list(shape.dimensions)}"
                for index, shape in enumerate(result.output_shapes)
                if not shape.is_sufficient
            ]
            raise NnapiError(result.code, f"a buffer is too small: {', '.join(small)}")
        if broken:
            raise op_failed(f"the outputs don't have the dimensions that were given: {', '.join(broken)}")

    def _broken_promises(self, result: ExecutionResult) -> list[str]:
        """The outputs whose dimensions are not those that were given for them."""
        return [
            f"output {index} is {list(result.output_shapes[index].dimensions)}, not {list(promised)}"
            for index, promised in self._promised.items()
            if promised and not compatible(promised, result.output_shapes[index].dimensions)
        ]

    def _failed(self, error: BaseException, turn: object) -> BaseException:
        """The end of a computation by an error, if it was its turn; what to raise."""
        if self._turn is turn:
            self._end(None)
        return driver_error("the computation fails", error) if isinstance(error, Exception) else error

    def _end(self, result: ExecutionResult | None, succeeded: bool = False) -> None:
        self._shapes = None if result is None else result.output_shapes
        self._timing = result.timing if result is not None and succeeded else _NO_TIMING
        self._fenced_timing = self._timing if result is None else result.fenced_timing or self._timing
        for (what, _), memory in self._device_memory.items():
            if what == "output":
                memory.end_write(self._writing, succeeded)
        self._writing = False
        with self._lock:
            self._state = _State.COMPLETED

    def _ready(self, *, fenced: bool = False) -> BoundPlan:
        """Bind the request. It is checked again only after a change.

        A fence that the execution waits for may initialise its input.
        """
        if self._bound is None:
            for what, given in (("input", self._inputs), ("output", self._outputs)):
                if None in given:
                    raise bad_data(f"{what} {given.index(None)} was not set")
            self._check_device_memory()
            inputs = [argument for argument in self._inputs if argument is not None]
            outputs = [argument for argument in self._outputs if argument is not None]
            self._bound = BoundPlan(self._plan, Request(inputs, outputs))
        if self._device_memory:
            self._begin_writes(fenced=fenced)
        self._writing = True
        return self._bound

    def _check_device_memory(self) -> None:
        """Raise BAD_DATA where an output's memory is that of another output, or of an input without an update role."""
        outputs = [(index, memory) for (what, index), memory in self._device_memory.items() if what == "output"]
        for (what, number), used in self._device_memory.items():
            for index, memory in outputs:
                is_itself = (what, number) == ("output", index)
                is_updated = what == "input" and memory.is_updated(self.compilation, number, index)
                if used is memory and not is_itself and not is_updated:
                    raise bad_data(f"output {index} is device memory that the same execution uses already")

    def _begin_writes(self, *, fenced: bool) -> None:
        """Check that device memory can be read, and mark the memory that is about to be written."""
        for (what, index), memory in self._device_memory.items():
            if what == "input" and not (memory.is_expected if fenced else memory.is_initialized):
                raise op_failed(f"input {index} is device memory that is not initialised")
        for (what, _), memory in self._device_memory.items():
            if what == "output":
                memory.begin_write()

    def _execute_options(self) -> ExecuteOptions:
        if not self._timeout_ns:
            return self._options
        deadline = deadline_after(time.monotonic_ns(), self._timeout_ns)
        return ExecuteOptions(self._options.measure, deadline, self._options.loop_timeout_ns)

    # --- afterwards ----------------------------------------------------------------------------------------------

    def get_duration(self, code: DurationCode | int) -> int:
        """A duration of the last computation, in nanoseconds (``ANeuralNetworksExecution_getDuration``).

        The fenced durations leave out the time spent waiting for the dependencies of a fenced execution. 2^64 - 1 where
        it was not measured: `set_measure_timing` was not called, the computation failed, or the device can't tell.
        BAD_STATE: not completed.
        """
        self._check_completed("get_duration")
        code = member("the duration code", code, DurationCode)
        fenced = code in (DurationCode.FENCED_DURATION_ON_HARDWARE, DurationCode.FENCED_DURATION_IN_DRIVER)
        timing = self._fenced_timing if fenced else self._timing
        on_hardware = code in (DurationCode.DURATION_ON_HARDWARE, DurationCode.FENCED_DURATION_ON_HARDWARE)
        return timing.on_hardware_ns if on_hardware else timing.in_driver_ns

    def get_output_operand_rank(self, index: int) -> int:
        """Rank of an output after the computation (``ANeuralNetworksExecution_getOutputOperandRank``)."""
        self._check_completed("get_output_operand_rank")
        return len(self._shape(index).dimensions)

    def get_output_operand_dimensions(self, index: int) -> Shape:
        """Dimensions of an output after the computation (``ANeuralNetworksExecution_getOutputOperandDimensions``).

        They are there after OUTPUT_INSUFFICIENT_SIZE too. BAD_STATE: not completed, or failed. BAD_DATA: the output
        does not exist or is a scalar.
        """
        self._check_completed("get_output_operand_dimensions")
        index, operand = self._operand(self._model.outputs, index, "output")
        if not operand.is_tensor:
            raise bad_data(f"output {index} is a scalar, it has no dimensions")
        return self._shape(index).dimensions

    def _shape(self, index: int) -> OutputShape:
        index, _ = self._operand(self._model.outputs, index, "output")
        if self._shapes is None:
            raise bad_state("the computation failed, there are no dimensions")
        return self._shapes[index]

    # --- checks --------------------------------------------------------------------------------------------------

    def _operand(self, operands: tuple[int, ...], index: int, what: str) -> tuple[int, OperandType]:
        """The index, and the type of what it names."""
        number = whole(f"the {what}'s index", index)
        if not 0 <= number < len(operands):
            raise bad_data(f"{what} {number} does not exist, the model has {len(operands)}")
        return number, self._model.operands[operands[number]].type

    def _check_preparation(self, call: str) -> None:
        if self._state is not _State.PREPARATION:
            raise bad_state(f"{call}: the execution is {self._state.value}")

    def _check_completed(self, call: str) -> None:
        if self._state is _State.COMPUTATION:
            settle_detached_work()
        if self._state is not _State.COMPLETED:
            raise bad_state(f"{call}: the execution is {self._state.value}")


def _check_whole(what: str, offset: int, length: int) -> None:
    if whole("the offset", offset) or whole("the length", length):
        raise bad_data(f"{what}: offset and length must be 0 for device memory, got {offset} and {length}")
