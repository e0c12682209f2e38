"""Exceptions of drivers that are no `NnapiError`: whatever a driver raises, applications see a result code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from decorators import Decorated, Failing
from samples import COUNTER, add_model, added, compiled, device_memory, execution, increment_model, raises, while_model

import nnvk
from nnvk import NnapiError, ResultCode
from nnvk.driver.cpu import CpuDevice
from nnvk.hal import IBuffer, IBurst, IExecution, IFencedExecution, IPreparedModel, Support
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import ExecuteOptions, ExecutionResult, PrepareOptions, Request

ONES = np.ones((2, 2), np.float32)
ERRORS: dict[str, tuple[Callable[[], Exception], ResultCode]] = {
    "ZeroDivisionError": (lambda: ZeroDivisionError("it fails"), ResultCode.OP_FAILED),
    "RuntimeError": (lambda: RuntimeError("it fails"), ResultCode.OP_FAILED),
    "OSError": (lambda: OSError(5, "it fails"), ResultCode.OP_FAILED),
    "StopIteration": (lambda: StopIteration("it fails"), ResultCode.OP_FAILED),
    "MemoryError": (lambda: MemoryError("it fails"), ResultCode.OUT_OF_MEMORY),
    "AssertionError without a word": (AssertionError, ResultCode.OP_FAILED),
}
errors = pytest.mark.parametrize(("error", "code"), ERRORS.values(), ids=ERRORS)
RUNS: dict[str, Callable[[nnvk.Execution], object]] = {
    "compute": lambda run: run.compute(),
    "start_compute": lambda run: run.start_compute().wait(),
    "start_compute_with_dependencies": lambda run: run.start_compute_with_dependencies([]).wait(),
    "after an event": lambda run: run.start_compute_with_dependencies([finished_event()]).wait(),
    "burst_compute": lambda run: run.burst_compute(nnvk.Burst(run.compilation)),
}
each_run = pytest.mark.parametrize("compute", RUNS.values(), ids=RUNS)


def finished_event() -> nnvk.Event:
    return added(nnvk.get_device("nnapi-reference"))[0].start_compute_with_dependencies([])


def failing(call: Callable[[], object], code: ResultCode, error: type[Exception]) -> None:
    """The call raises an `NnapiError` of this code, whose cause is what the driver has raised."""
    with raises(code) as caught:
        call()
    cause = caught.value.__cause__
    assert type(cause) is error, repr(cause)


class FailingLate(Decorated):
    """Has a fence of its own that raises, and a burst that does."""

    def __init__(self, word: str, error: Callable[[], Exception]) -> None:
        super().__init__(CpuDevice(), "late")
        self.word = word
        self.error = error

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        return _LatePrepared(self, super().prepare_model(model, options))

    def maybe(self, word: str) -> None:
        if word == self.word:
            raise self.error()


class _LatePrepared(IPreparedModel):
    def __init__(self, device: FailingLate, inner: IPreparedModel) -> None:
        self._device = device
        self._inner = inner

    def create_reusable_execution(self, request: Request) -> IExecution:
        return _LateExecution(self._device, self._inner.create_reusable_execution(request))

    def configure_execution_burst(self) -> IBurst:
        self._device.maybe("burst")
        return super().configure_execution_burst()


class _LateExecution(IExecution):
    def __init__(self, device: FailingLate, inner: IExecution) -> None:
        self._device = device
        self._inner = inner

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        return self._inner.execute(options)

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        self._device.maybe("execute_fenced")
        return _LateFence(self._device, self._inner.execute_fenced(wait_for, options))


class _LateFence(IFencedExecution):
    def __init__(self, device: FailingLate, inner: IFencedExecution) -> None:
        self._device = device
        self._inner = inner

    def wait(self, timeout_ns: int = -1) -> bool:
        self._device.maybe("wait")
        return self._inner.wait(timeout_ns)

    def result(self) -> ExecutionResult:
        self._device.maybe("result")
        return self._inner.result()

    def export_sync_fd(self) -> int | None:
        self._device.maybe("export")
        return None


# --- computing ---------------------------------------------------------------------------------------------------


@errors
@each_run
@pytest.mark.parametrize("word", ["bind", "execute"])
def test_executions(
    error: Callable[[], Exception], code: ResultCode, compute: Callable[[nnvk.Execution], object], word: str
) -> None:
    run, _ = added(nnvk.Device(Failing(CpuDevice(), "sick", **{word: error})), reusable=True)
    for _ in range(2):
        failing(lambda: compute(run), code, type(error()))
        with raises(ResultCode.BAD_STATE, "failed"):
            run.get_output_operand_dimensions(0)


@errors
@pytest.mark.parametrize("word", ["execute_fenced", "result"])
def test_fences(error: Callable[[], Exception], code: ResultCode, word: str) -> None:
    run, _ = added(nnvk.Device(FailingLate(word, error)), reusable=True)
    for _ in range(2):
        failing(lambda: run.start_compute().wait(), code, type(error()))
        failing(lambda: run.start_compute_with_dependencies([]).wait(), code, type(error()))


@errors
def test_an_event_raises_it_each_time(error: Callable[[], Exception], code: ResultCode) -> None:
    event = added(nnvk.Device(FailingLate("result", error)))[0].start_compute()
    for _ in range(3):
        failing(event.wait, code, type(error()))


@errors
@pytest.mark.parametrize("word", ["wait", "result"])
def test_dependencies(cpu: nnvk.Device, error: Callable[[], Exception], code: ResultCode, word: str) -> None:
    driver = FailingLate(word, error)
    event = added(nnvk.Device(driver))[0].start_compute_with_dependencies([])
    run, _ = added(cpu)
    failing(lambda: run.start_compute_with_dependencies([event]).wait(), code, type(error()))


@errors
def test_steps_within_control_flow(error: Callable[[], Exception], code: ResultCode) -> None:
    class NoControl(Failing):
        def get_supported_operations(self, model: Model) -> list[Support]:
            control = (nnvk.OperationCode.IF, nnvk.OperationCode.WHILE)
            return [Support("no" if operation.code in control else None) for operation in model.operations]

    compilation = compiled(while_model(), nnvk.Device(NoControl(CpuDevice(), "sick", execute=error)))
    inputs = [np.ones(COUNTER.dimensions, np.int32), np.ones(4, np.float32)]
    for compute in RUNS.values():
        run = execution(compilation, inputs, [np.zeros(4, np.float32)])
        failing(lambda run=run, compute=compute: compute(run), code, type(error()))  # type: ignore[misc]


def test_the_device_is_named() -> None:
    run, _ = added(nnvk.Device(Failing(CpuDevice(), "sick", execute=lambda: ValueError("it fails"))))
    with raises(ResultCode.OP_FAILED, "sick fails to execute: ValueError: it fails"):
        run.compute()


def test_what_a_driver_knows_itself_is_told_as_it_is() -> None:
    error = NnapiError(ResultCode.DEAD_OBJECT, "it died")
    run, _ = added(nnvk.Device(Failing(CpuDevice(), "sick", execute=lambda: error)), reusable=True)
    for compute in RUNS.values():
        with raises(ResultCode.DEAD_OBJECT, "^DEAD_OBJECT: it died$"):
            compute(run)


@each_run
def test_an_interruption_is_none_of_it(compute: Callable[[nnvk.Execution], object]) -> None:
    run, _ = added(nnvk.Device(Failing(CpuDevice(), "sick", execute=KeyboardInterrupt)), reusable=True)
    with pytest.raises(KeyboardInterrupt):
        compute(run)


# --- what is not computing ---------------------------------------------------------------------------------------


@errors
def test_compilations(error: Callable[[], Exception], code: ResultCode) -> None:
    device = nnvk.Device(Failing(CpuDevice(), "sick", prepare=error))
    failing(lambda: compiled(add_model(), device), code, type(error()))


@errors
def test_questions_what_is_supported(error: Callable[[], Exception], code: ResultCode) -> None:
    class Silent(Decorated):
        def get_supported_operations(self, model: Model) -> list[Support]:
            raise error()

    device = nnvk.Device(Silent(CpuDevice()))
    failing(lambda: compiled(add_model(), device), code, type(error()))
    failing(lambda: add_model().get_support(device), code, type(error()))
    failing(lambda: add_model().get_supported_operations_for_devices([device]), code, type(error()))


@pytest.mark.parametrize("answers", [0, 2])
def test_answers_that_are_too_few_or_too_many(cpu: nnvk.Device, answers: int) -> None:
    class Confused(Decorated):
        def get_supported_operations(self, model: Model) -> list[Support]:
            return [Support()] * answers

    device = nnvk.Device(Confused(cpu.driver))
    for call in (lambda: compiled(add_model(), device), lambda: add_model().get_support(device)):
        with raises(ResultCode.OP_FAILED, f"gives {answers} answers for 1 operations"):
            call()


@errors
def test_bursts_and_descriptors(error: Callable[[], Exception], code: ResultCode) -> None:
    compilation = compiled(add_model(), nnvk.Device(FailingLate("burst", error)))
    failing(lambda: nnvk.Burst(compilation), code, type(error()))
    device_memory_model = compiled(increment_model(), nnvk.Device(FailingLate("export", error)))
    memory = device_memory(outputs=[(device_memory_model, 0)])  # else the host writes, and nothing is exported
    run = execution(device_memory_model, [np.ones(4, np.float32)], [memory])
    event = run.start_compute_with_dependencies([])
    failing(event.get_sync_fence_fd, code, type(error()))


class FailingMemory(Decorated):
    """Fails to allocate, or its memory to be copied."""

    def __init__(self, word: str, error: Callable[[], Exception]) -> None:
        super().__init__(CpuDevice())
        self.word = word
        self.error = error

    def allocate(self, type: OperandType, dimensions: Shape) -> IBuffer:
        if self.word == "allocate":
            raise self.error()
        return _FailingBuffer(self)

    def wait(self) -> None:
        raise self.error()


class _FailingBuffer(IBuffer):
    def __init__(self, device: FailingMemory) -> None:
        self._device = device

    @property
    def token(self) -> int:
        return 1

    def copy_to(self, target: np.ndarray) -> None:
        raise self._device.error()

    def copy_from(self, source: np.ndarray) -> None:
        raise self._device.error()


@errors
def test_device_memory(error: Callable[[], Exception], code: ResultCode) -> None:
    compilation = compiled(increment_model(), nnvk.Device(FailingMemory("copy", error)))
    memory = device_memory(inputs=[(compilation, 0)])
    host = nnvk.Memory.create_from_hardware_buffer(nnvk.HardwareBuffer(16))
    failing(lambda: nnvk.Memory.copy(host, memory), code, type(error()))
    memory.set_initialized(True)
    failing(lambda: nnvk.Memory.copy(memory, host), code, type(error()))


@errors
def test_memory_that_a_device_can_not_give_is_the_host_s(error: Callable[[], Exception], code: ResultCode) -> None:
    compilation = compiled(increment_model(), nnvk.Device(FailingMemory("allocate", error)))
    if code is ResultCode.OUT_OF_MEMORY:
        failing(lambda: device_memory(inputs=[(compilation, 0)]), code, type(error()))
    else:
        assert device_memory(inputs=[(compilation, 0)]).buffer is None


@errors
def test_waiting_for_a_device(error: Callable[[], Exception], code: ResultCode) -> None:
    failing(nnvk.Device(FailingMemory("", error)).wait, code, type(error()))
