"""Execution: one computation of a compiled model on given inputs."""

from __future__ import annotations

import threading
import time
from enum import Enum
from typing import Any

from nnvk.base.errors import NnapiError, ResultCode, bad_data, bad_state
from nnvk.hal import IFencedExecution
from nnvk.runtime import arguments
from nnvk.runtime.compilation import Compilation
from nnvk.runtime.event import Event
from nnvk.runtime.steps import run_steps
from nnvk.types.codes import DurationCode
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import (
    DEFAULT_LOOP_TIMEOUT_NS,
    MAXIMUM_LOOP_TIMEOUT_NS,
    NOT_MEASURED,
    ExecuteOptions,
    ExecutionResult,
    InputArgument,
    OutputArgument,
    OutputShape,
    Request,
    Timing,
)


class _State(Enum):
    PREPARATION = "in preparation"
    COMPUTATION = "under way"
    COMPLETED = "completed"


class Execution:
    """One computation (``ANeuralNetworksExecution``): set inputs and outputs, then `compute` or `start_compute`.

    Arrays that are set are referred to, not copied: they must stay until the computation has ended. An
    execution may be computed once, or any number of times after `set_reusable`.
    """

    def __init__(self, compilation: Compilation) -> None:
        self._compilation = compilation
        self._steps = compilation.steps
        self._model = compilation.model
        self._inputs: list[InputArgument | None] = [None] * len(self._model.inputs)
        self._outputs: list[OutputArgument | None] = [None] * len(self._model.outputs)
        self._output_types: list[OperandType] = list(self._model.output_types())
        self._request: Request | None = None
        self._options = ExecuteOptions()
        self._measure = False
        self._timeout_ns = 0
        self._loop_timeout_ns = DEFAULT_LOOP_TIMEOUT_NS
        self._reusable = False
        self._state = _State.PREPARATION
        self._lock = threading.Lock()
        self._shapes: tuple[OutputShape, ...] | None = None
        self._timing = Timing()
        self._fenced = False

    # --- arguments -----------------------------------------------------------------------------------------------

    def set_input(self, index: int, value: Any, type: OperandType | None = None) -> None:
        """Set input ``index`` to an array, buffer or number (``ANeuralNetworksExecution_setInput``).

        ``type`` gives dimensions that the model left open; an array of the operand's rank gives them by its shape.
        None marks an optional input as omitted. BAD_DATA: the bytes or dimensions don't fit the operand.
        """
        self._check_preparation("set_input")
        operand = self._operand(self._model.inputs, index, "input")
        self._inputs[index] = InputArgument(arguments.input_array(f"input {index}", operand, value, type))
        self._request = None

    def set_output(self, index: int, value: Any, type: OperandType | None = None) -> None:
        """Set where output ``index`` goes: a writable array or buffer (``ANeuralNetworksExecution_setOutput``).

        Where the model leaves dimensions open the buffer may be larger than the output turns out to be. None: the
        output is not wanted.
        """
        self._check_preparation("set_output")
        operand = self._operand(self._model.outputs, index, "output")
        full = operand if type is None else arguments.merge(f"output {index}", operand, type)
        self._outputs[index] = OutputArgument(arguments.output_bytes(f"output {index}", full, value))
        self._output_types[index] = full
        self._request = None

    def set_measure_timing(self, measure: bool) -> None:
        """Measure durations (``ANeuralNetworksExecution_setMeasureTiming``). Needs a single, named device."""
        self._check_preparation("set_measure_timing")
        devices = self._compilation.devices
        if measure and (devices is None or len(devices) != 1):
            raise bad_data("timing needs a compilation for exactly one device")
        self._measure = bool(measure)

    def set_timeout(self, duration_ns: int) -> None:
        """Give up after this many nanoseconds; 0: never (``ANeuralNetworksExecution_setTimeout``)."""
        self._check_preparation("set_timeout")
        devices = self._compilation.devices
        if devices is None or len(devices) != 1:
            raise bad_data("a timeout needs a compilation for exactly one device")
        if duration_ns < 0:
            raise bad_data(f"the timeout must not be negative, got {duration_ns}")
        self._timeout_ns = duration_ns

    def set_loop_timeout(self, duration_ns: int) -> None:
        """Give up a WHILE after this many nanoseconds (``ANeuralNetworksExecution_setLoopTimeout``).

        The default is 2 s; more than 15 s are taken as 15 s.
        """
        self._check_preparation("set_loop_timeout")
        if duration_ns < 0:
            raise bad_data(f"the loop timeout must not be negative, got {duration_ns}")
        self._loop_timeout_ns = min(duration_ns, MAXIMUM_LOOP_TIMEOUT_NS)

    def set_reusable(self, reusable: bool) -> None:
        """Allow more than one computation (``ANeuralNetworksExecution_setReusable``)."""
        self._check_preparation("set_reusable")
        self._reusable = bool(reusable)

    # --- computation ---------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Compute and return when the outputs are written (``ANeuralNetworksExecution_compute``).

        OUTPUT_INSUFFICIENT_SIZE: a buffer is too small; `get_output_operand_dimensions` then tells the dimensions.
        BAD_STATE: under way, or completed and not reusable. BAD_DATA: an input or output was not set.
        """
        self._begin()
        try:
            if len(self._steps) == 1:
                result = self._steps[0].prepared.execute(self._ready_request(), self._execute_options())
            else:
                result = run_steps(self._model, self._steps, self._ready_request(), self._execute_options())
        except BaseException:
            self._end(None)
            raise
        self._complete(result)

    def start_compute(self) -> Event:
        """Start and return an `Event` at once (``ANeuralNetworksExecution_startCompute``)."""
        self._begin()
        try:
            request, options = self._ready_request(), self._execute_options()
            fenced: IFencedExecution
            if len(self._steps) == 1:
                fenced = self._steps[0].prepared.execute_fenced(request, (), options)
            else:
                fenced = _Threaded(lambda: run_steps(self._model, self._steps, request, options))
        except BaseException:
            self._end(None)
            raise
        return Event(lambda: self._finish(fenced))

    def _finish(self, fenced: IFencedExecution) -> None:
        try:
            result = fenced.result()
        except BaseException:
            self._end(None)
            raise
        self._complete(result)

    def _begin(self) -> None:
        with self._lock:
            if self._state is _State.COMPUTATION:
                raise bad_state("the execution is under way")
            if self._state is _State.COMPLETED and not self._reusable:
                raise bad_state("the execution is completed; call set_reusable before the first computation to repeat it")
            self._state = _State.COMPUTATION

    def _complete(self, result: ExecutionResult) -> None:
        self._timing = result.timing
        self._end(result.output_shapes)
        if result.code is not ResultCode.NO_ERROR:
            small = [
                f"output {index} is {list(shape.dimensions)}"
                for index, shape in enumerate(result.output_shapes)
                if not shape.is_sufficient
            ]
            raise NnapiError(result.code, f"a buffer is too small: {', '.join(small)}")

    def _end(self, shapes: tuple[OutputShape, ...] | None) -> None:
        self._shapes = shapes
        with self._lock:
            self._state = _State.COMPLETED

    def _ready_request(self) -> Request:
        if self._request is None:
            for kind, missing in (("input", self._inputs), ("output", self._outputs)):
                unset = [index for index, argument in enumerate(missing) if argument is None]
                if unset:
                    raise bad_data(f"{kind} {unset[0]} was not set")
            self._request = Request(
                [argument for argument in self._inputs if argument is not None],
                [argument for argument in self._outputs if argument is not None],
            )
        return self._request

    def _execute_options(self) -> ExecuteOptions:
        deadline = time.monotonic_ns() + self._timeout_ns if self._timeout_ns else None
        if deadline is None and self._options.measure == self._measure:
            if self._options.loop_timeout_ns == self._loop_timeout_ns and self._options.deadline_ns is None:
                return self._options
        self._options = ExecuteOptions(self._measure, deadline, self._loop_timeout_ns)
        return self._options

    # --- afterwards ----------------------------------------------------------------------------------------------

    def get_duration(self, code: DurationCode | int) -> int:
        """A duration of the last computation, in nanoseconds; 2^64 - 1 where the device can't tell.

        (``ANeuralNetworksExecution_getDuration``.) BAD_STATE: not completed, or `set_measure_timing` was not called.
        """
        self._check_completed("get_duration")
        if not self._measure:
            raise bad_state("set_measure_timing must be called before the computation")
        if code not in list(DurationCode):
            raise bad_data(f"a duration code must be 0 to 3, got {code}")
        if code in (DurationCode.DURATION_ON_HARDWARE, DurationCode.FENCED_DURATION_ON_HARDWARE):
            return self._timing.on_hardware_ns
        return self._timing.in_driver_ns

    def get_output_operand_rank(self, index: int) -> int:
        """Rank of an output after the computation (``ANeuralNetworksExecution_getOutputOperandRank``)."""
        return len(self.get_output_operand_dimensions(index))

    def get_output_operand_dimensions(self, index: int) -> Shape:
        """Dimensions of an output after the computation (``ANeuralNetworksExecution_getOutputOperandDimensions``).

        They are there after OUTPUT_INSUFFICIENT_SIZE too.
        """
        self._check_completed("get_output_operand_dimensions")
        self._operand(self._model.outputs, index, "output")
        if self._shapes is None:
            raise bad_state("the computation failed, there are no dimensions")
        return self._shapes[index].dimensions

    # --- checks --------------------------------------------------------------------------------------------------

    def _operand(self, operands: tuple[int, ...], index: int, what: str) -> OperandType:
        if not 0 <= index < len(operands):
            raise bad_data(f"{what} {index} does not exist, the model has {len(operands)}")
        return self._model.operands[operands[index]].type

    def _check_preparation(self, call: str) -> None:
        if self._state is _State.COMPUTATION or (self._state is _State.COMPLETED and not self._reusable):
            raise bad_state(f"{call}: the execution is {self._state.value}")

    def _check_completed(self, call: str) -> None:
        if self._state is not _State.COMPLETED:
            raise bad_state(f"{call}: the execution is {self._state.value}")


class _Threaded(IFencedExecution):
    """A computation of several steps on a thread of its own."""

    def __init__(self, work: Any) -> None:
        self._outcome: ExecutionResult | BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), name="nnvk-execution", daemon=True)
        self._thread.start()

    def _run(self, work: Any) -> None:
        try:
            self._outcome = work()
        except BaseException as error:  # handed to whoever waits
            self._outcome = error

    def wait(self, timeout_ns: int = -1) -> bool:
        self._thread.join(None if timeout_ns < 0 else timeout_ns / 1e9)
        return not self._thread.is_alive()

    def result(self) -> ExecutionResult:
        self._thread.join()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


__all__ = ["NOT_MEASURED", "Execution"]
