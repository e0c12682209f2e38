"""Drivers that fail: the CPU takes over where the runtime may choose, and says so; else the error is the caller's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from decorators import Decorated, Failing
from samples import (
    add_model,
    chain_model,
    compiled,
    device_memory,
    execution,
    f32,
    if_model,
    increment_model,
    raises,
    while_model,
)

import nnvk
from nnvk import NnapiError, OperationCode, ResultCode
from nnvk.base.settings import override
from nnvk.driver.cpu import CpuDevice
from nnvk.hal import IDevice, Support
from nnvk.types.model import Model

Use = Callable[[Sequence[IDevice]], list[nnvk.Device]]
ONES = np.ones((2, 2), np.float32)


def failure() -> NnapiError:
    return NnapiError(ResultCode.OP_FAILED, "it fails")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "OP_FAILED": failure,
    "OUT_OF_MEMORY": lambda: NnapiError(ResultCode.OUT_OF_MEMORY, "it fails"),
    "DEAD_OBJECT": lambda: NnapiError(ResultCode.DEAD_OBJECT, "it fails"),
    "RESOURCE_EXHAUSTED_TRANSIENT": lambda: NnapiError(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "it fails"),
    "MemoryError": lambda: MemoryError("it fails"),
    "ZeroDivisionError": lambda: ZeroDivisionError("it fails"),
}
errors = pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)


class Broken(Failing):
    """One that fails from now on."""


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings of the runtime so far."""
    caplog.set_level(logging.WARNING, "nnvk")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def reference() -> CpuDevice:
    """The CPU device of the test; it counts."""
    return CountingCpu()


class CountingCpu(CpuDevice):
    """Counts what it prepares."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared = 0

    def prepare_model(self, model: Model, options):
        self.prepared += 1
        return super().prepare_model(model, options)


# --- refusing what is large ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "said"), [(1 << 24, True), ((1 << 24) - 1, False)])
def test_large_tensors_that_go_to_the_cpu_are_a_warning(use_devices: Use, warnings, columns: int, said: bool) -> None:
    class Small(Decorated):
        def get_supported_operations(self, model: Model) -> list[Support]:
            return [Support("it is too large") for _ in model.operations]

    use_devices([Small(CpuDevice(), "small"), CpuDevice()])
    compiled(chain_model([OperationCode.NEG, OperationCode.ABS, OperationCode.NEG], f32(1, columns)))
    assert warnings() == said * [
        "nnapi-reference runs NEG and 2 more operations on large tensors, which may take long: small: it is too large"
    ]


# --- failing to prepare ------------------------------------------------------------------------------------------


@errors
def test_a_device_that_fails_to_prepare(use_devices: Use, reference: CountingCpu, warnings, error) -> None:
    use_devices([Failing(CpuDevice(), "sick", prepare=error), reference])
    compilation = compiled(add_model())
    assert [partition.device.name for partition in compilation.partitions] == ["nnapi-reference"]
    (output,) = nnvk.run(compilation, [ONES, ONES])
    assert (output == 2).all()
    (message,) = warnings()
    assert "sick fails to prepare" in message
    assert "it fails" in message
    assert reference.prepared == 1


def test_only_the_part_that_failed_is_taken_over(use_devices: Use, reference: CountingCpu, warnings) -> None:
    class OnlyNeg(Failing):
        def get_supported_operations(self, model: Model) -> list[Support]:
            return [Support(None if operation.code is OperationCode.NEG else "no") for operation in model.operations]

    class OnlyAbs(Decorated):
        def get_supported_operations(self, model: Model) -> list[Support]:
            return [Support(None if operation.code is OperationCode.ABS else "no") for operation in model.operations]

    use_devices([OnlyNeg(CpuDevice(), "sick", prepare=failure), OnlyAbs(CpuDevice(), "well"), reference])
    compilation = compiled(chain_model([OperationCode.NEG, OperationCode.ABS]))
    assert [partition.device.name for partition in compilation.partitions] == ["nnapi-reference", "well"]
    (output,) = nnvk.run(compilation, [-ONES])
    assert (output == 1).all()
    assert len(warnings()) == 1


def test_a_device_that_can_not_say_what_it_supports(use_devices: Use, reference: CountingCpu, warnings) -> None:
    class Silent(Decorated):
        def get_supported_operations(self, model: Model) -> list[Support]:
            raise RuntimeError("it says nothing")

    use_devices([Silent(CpuDevice(), "silent"), reference])
    (output,) = nnvk.run(compiled(add_model()), [ONES, ONES])
    assert (output == 2).all()
    (message,) = warnings()
    assert "the whole model goes to nnapi-reference" in message
    assert "it says nothing" in message


def test_bodies_of_control_flow_are_taken_over(use_devices: Use, reference: CountingCpu, warnings) -> None:
    class NoControl(Failing):
        def get_supported_operations(self, model: Model) -> list[Support]:
            control = OperationCode.IF, OperationCode.WHILE
            return [Support("no" if operation.code in control else None) for operation in model.operations]

    use_devices([NoControl(CpuDevice(), "sick", prepare=failure), reference])
    (output,) = nnvk.run(compiled(while_model()), [np.array([3], np.int32), np.ones(4, np.float32)])
    assert (output == 8).all()
    assert len(warnings()) == 2  # condition and body
    use_devices([NoControl(CpuDevice(), "sick", execute=failure), reference])
    (output,) = nnvk.run(compiled(if_model()), [np.array([True]), ONES, ONES])
    assert (output == 2).all()
    assert len(warnings()) == 3


# --- failing to execute ------------------------------------------------------------------------------------------

RUNS: dict[str, Callable[[nnvk.Execution], object]] = {
    "compute": lambda run: run.compute(),
    "start_compute": lambda run: run.start_compute().wait(),
    "start_compute_with_dependencies": lambda run: run.start_compute_with_dependencies([]).wait(),
    "burst_compute": lambda run: run.burst_compute(nnvk.Burst(run.compilation)),
}
each_run = pytest.mark.parametrize("compute", RUNS.values(), ids=RUNS)


@errors
@each_run
def test_a_device_that_fails_to_execute(use_devices: Use, reference: CountingCpu, warnings, error, compute) -> None:
    driver = Failing(CpuDevice(), "sick", execute=error)
    use_devices([driver, reference])
    compilation = compiled(add_model())
    assert [partition.device.name for partition in compilation.partitions] == ["sick"]
    assert reference.prepared == 0  # not before it is needed
    output = np.zeros((2, 2), np.float32)
    run = execution(compilation, [ONES, ONES], [output], reusable=True)
    for number in range(3):
        output[:] = 0
        compute(run)
        assert (output == 2).all()
        assert run.get_output_operand_dimensions(0) == (2, 2)
        assert driver.executions == number + 1  # once each time
        assert len(warnings()) == number + 1
    assert "sick fails to execute, the CPU takes over" in warnings()[0]
    assert reference.prepared == 1


def test_the_device_is_asked_again_after_a_failure(use_devices: Use, reference: CountingCpu, warnings) -> None:
    driver = Failing(CpuDevice(), "sick", execute=failure)
    use_devices([driver, reference])
    output = np.zeros((2, 2), np.float32)
    run = execution(compiled(add_model()), [ONES, ONES], [output], reusable=True)
    run.compute()
    driver.fail.clear()
    run.compute()
    assert len(warnings()) == 1
    assert driver.executions == 2


def test_a_device_that_can_not_take_the_request(use_devices: Use, reference: CountingCpu, warnings) -> None:
    use_devices([Failing(CpuDevice(), "sick", bind=failure), reference])
    (output,) = nnvk.run(compiled(add_model()), [ONES, ONES])
    assert (output == 2).all()
    (message,) = warnings()
    assert "sick can't take the request" in message


def test_what_is_the_request_s_fault_stays_an_error(use_devices: Use, reference: CountingCpu, warnings) -> None:
    """No device could do better."""
    for code in (ResultCode.BAD_DATA, ResultCode.MISSED_DEADLINE_TRANSIENT, ResultCode.MISSED_DEADLINE_PERSISTENT):
        use_devices([Failing(CpuDevice(), execute=lambda code=code: NnapiError(code, "it fails")), reference])
        with raises(code):
            nnvk.run(compiled(add_model()), [ONES, ONES])
    use_devices([Decorated(CpuDevice()), reference])
    with raises(ResultCode.OP_FAILED, "ADD"):
        nnvk.run(compiled(add_model(f32(0))), [np.ones(2, np.float32), np.ones(3, np.float32)])
    assert not warnings()


def test_insufficient_size_is_no_failure(use_devices: Use, reference: CountingCpu, warnings) -> None:
    use_devices([Decorated(CpuDevice()), reference])
    compilation = compiled(add_model(f32(0)))
    run = execution(compilation, [np.ones(3, np.float32)] * 2, [np.zeros(2, np.float32)])
    with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE):
        run.compute()
    assert not warnings()


def test_device_memory_can_not_be_taken_over(use_devices: Use, reference: CountingCpu) -> None:
    """Its content is the device's: the error is told, and the memory holds nothing."""
    driver = Failing(CpuDevice(), "sick")
    use_devices([driver, reference])
    compilation = compiled(increment_model())
    memory = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)])
    assert memory.buffer is not None
    run = execution(compilation, [np.zeros(4, np.float32)], [memory], reusable=True)
    run.compute()
    driver.fail["execute"] = failure
    with raises(ResultCode.OP_FAILED, "it fails"):
        run.compute()
    assert not memory.is_initialized


# --- modes -------------------------------------------------------------------------------------------------------


@errors
def test_partition_2_leaves_failures_to_the_caller(use_devices: Use, reference: CountingCpu, warnings, error) -> None:
    with override(partition=2):
        use_devices([Failing(CpuDevice(), "sick", prepare=error), reference])
        with pytest.raises(NnapiError, match="it fails"):
            compiled(add_model())
        use_devices([Failing(CpuDevice(), "sick", execute=error), reference])
        compilation = compiled(add_model())
        for compute in RUNS.values():
            run = execution(compilation, [ONES, ONES], [np.zeros((2, 2), np.float32)])
            with pytest.raises(NnapiError, match="it fails"):
                compute(run)
    assert not warnings()
    assert reference.prepared == 0


def test_partition_2_still_partitions(use_devices: Use, reference: CountingCpu) -> None:
    class OnlyNeg(Decorated):
        def get_supported_operations(self, model: Model) -> list[Support]:
            return [Support(None if operation.code is OperationCode.NEG else "no") for operation in model.operations]

    with override(partition=2):
        use_devices([OnlyNeg(CpuDevice(), "neg"), reference])
        compilation = compiled(chain_model([OperationCode.NEG, OperationCode.ABS]))
    assert [partition.device.name for partition in compilation.partitions] == ["neg", "nnapi-reference"]


def test_partition_0_is_the_cpu_alone(use_devices: Use, reference: CountingCpu) -> None:
    with override(partition=0):
        driver = Decorated(CpuDevice())
        use_devices([driver, reference])
        compilation = compiled(add_model())
    assert [partition.device.name for partition in compilation.partitions] == ["nnapi-reference"]
    assert not driver.prepared
    (output,) = nnvk.run(compilation, [ONES, ONES])
    assert (output == 2).all()


@errors
def test_failures_of_named_devices_are_the_caller_s(reference: CountingCpu, warnings, error) -> None:
    """The error is raised, and no other named device takes over."""
    others = [nnvk.Device(reference)]
    for word in ("prepare", "bind", "execute"):
        for rest in ([], others):
            device = nnvk.Device(Failing(CpuDevice(), "sick", **{word: error}))
            with pytest.raises(NnapiError, match="it fails") as caught:
                nnvk.run(compiled(add_model(), device, *rest), [ONES, ONES])
            if isinstance(error(), MemoryError):
                assert caught.value.code is ResultCode.OUT_OF_MEMORY
    assert not warnings()
    assert reference.prepared == 0
