"""Durations, deadlines, and limits of loops."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from samples import (
    Pipe,
    add_model,
    added,
    compiled,
    device_memory,
    execution,
    increment_model,
    matrix_model,
    raises,
    while_model,
)

import nnvk
from nnvk import DurationCode, ResultCode
from nnvk.driver.vulkan import VulkanDevice
from nnvk.types.request import NOT_MEASURED

MISSED = ResultCode.MISSED_DEADLINE_TRANSIENT
MILLISECOND = 10**6

RUNS: dict[str, Callable[[nnvk.Execution], object]] = {
    "compute": lambda run: run.compute(),
    "start_compute": lambda run: run.start_compute().wait(),
    "start_compute_with_dependencies": lambda run: run.start_compute_with_dependencies([]).wait(),
    "burst_compute": lambda run: run.burst_compute(nnvk.Burst(run.compilation)),
}
each_run = pytest.mark.parametrize("compute", RUNS.values(), ids=RUNS)


def durations(run: nnvk.Execution) -> list[int]:
    """All four."""
    return [run.get_duration(code) for code in DurationCode]


def has_timestamps(device: nnvk.Device) -> bool:
    """Whether the device can tell how long the hardware took; a Vulkan queue need not."""
    return not isinstance(device.driver, VulkanDevice) or device.driver.profile.timestamps


# --- durations ---------------------------------------------------------------------------------------------------


@each_run
def test_durations(device: nnvk.Device, compute: Callable[[nnvk.Execution], object]) -> None:
    run = long_one(device, size=128, products=4)[0]
    run.set_measure_timing(True)
    began = time.perf_counter_ns()
    compute(run)
    elapsed = time.perf_counter_ns() - began
    hardware, driver, fenced_hardware, fenced_driver = durations(run)
    assert 0 < driver <= elapsed
    assert 0 < hardware <= driver if has_timestamps(device) else hardware == NOT_MEASURED
    assert (fenced_hardware, fenced_driver) == (hardware, driver)  # it depended on nothing


def test_fenced_durations_leave_out_what_was_waited_for(device: nnvk.Device) -> None:
    run, _ = added(device)
    run.set_measure_timing(True)
    pipe = Pipe()
    event = run.start_compute_with_dependencies([pipe.event])
    time.sleep(0.05)
    pipe.signal()
    event.wait()
    hardware, driver, fenced_hardware, fenced_driver = durations(run)
    assert fenced_driver > 0
    assert 0 < fenced_hardware <= fenced_driver if has_timestamps(device) else fenced_hardware == NOT_MEASURED
    assert hardware == fenced_hardware
    assert driver >= fenced_driver + 40 * MILLISECOND


def test_nothing_is_measured_by_default(device: nnvk.Device) -> None:
    run, _ = added(device)
    run.compute()
    assert durations(run) == [NOT_MEASURED] * 4
    assert NOT_MEASURED == 2**64 - 1


def test_measuring_may_be_taken_back(device: nnvk.Device) -> None:
    run, _ = added(device)
    run.set_measure_timing(True)
    run.set_measure_timing(False)
    run.compute()
    assert durations(run) == [NOT_MEASURED] * 4


def test_a_failure_has_no_durations(device: nnvk.Device) -> None:
    run, _ = long_one(device, reusable=True)
    run.set_measure_timing(True)
    run.set_timeout(1)
    with raises(MISSED):
        run.compute()
    assert durations(run) == [NOT_MEASURED] * 4


def test_every_computation_is_measured_anew(device: nnvk.Device) -> None:
    run, _ = added(device, reusable=True)
    run.set_measure_timing(True)
    seen = set()
    for _ in range(5):
        run.compute()
        seen.add(run.get_duration(DurationCode.DURATION_IN_DRIVER))
    assert len(seen) > 1


@pytest.mark.parametrize("code", [-1, 4])
def test_durations_that_do_not_exist(device: nnvk.Device, code: int) -> None:
    run, _ = added(device)
    run.compute()
    with raises(ResultCode.BAD_DATA, "duration code"):
        run.get_duration(code)


def test_only_executions_of_one_named_device_are_limited_and_measured(cpu: nnvk.Device, gpu: nnvk.Device) -> None:
    for devices in ([], [gpu, cpu]):
        run = nnvk.Execution(compiled(add_model(), *devices))
        with raises(ResultCode.BAD_DATA, "exactly one device"):
            run.set_measure_timing(True)
        with raises(ResultCode.BAD_DATA, "exactly one device"):
            run.set_timeout(10**9)
        for index in (0, 1):
            run.set_input(index, np.ones((2, 2), np.float32))
        run.set_output(0, np.zeros((2, 2), np.float32))
        with raises(ResultCode.BAD_DATA, "exactly one device"):
            run.start_compute_with_dependencies([], 10**9)
        run.compute()


# --- deadlines ---------------------------------------------------------------------------------------------------


def missed(compute: Callable[[], object]) -> bool:
    """Whether a deadline passed that only a fast device keeps; no other error is."""
    try:
        compute()
    except nnvk.NnapiError as error:
        assert error.code is MISSED, error
        return True
    return False


def long_one(
    device: nnvk.Device, *, size: int = 256, products: int = 24, reusable: bool = False
) -> tuple[nnvk.Execution, np.ndarray]:
    """An execution that takes tens of milliseconds, whose output is its input 0.5; and the output."""
    compilation = compiled(matrix_model(size, products), device)
    output = np.zeros((size, size), np.float32)
    return execution(compilation, [np.full((size, size), 0.5, np.float32)], [output], reusable=reusable), output


@each_run
@pytest.mark.parametrize("timeout_ns", [1, 3 * MILLISECOND], ids=["before it begins", "in the middle"])
def test_an_execution_that_takes_too_long(
    device: nnvk.Device, compute: Callable[[nnvk.Execution], object], timeout_ns: int
) -> None:
    run, output = long_one(device)
    run.set_timeout(timeout_ns)
    if missed(lambda: compute(run)) or timeout_ns == 1:
        assert (output == 0).all()
        with raises(ResultCode.BAD_STATE):
            run.get_output_operand_dimensions(0)
    after, result = added(device)  # the device is as it was
    after.compute()
    assert (result == 3).all()


@each_run
def test_an_execution_in_time(device: nnvk.Device, compute: Callable[[nnvk.Execution], object]) -> None:
    for timeout in (0, 60 * 10**9):
        run, output = long_one(device, size=64, products=2)
        run.set_timeout(timeout)
        compute(run)
        assert (output == 0.5).all()


def test_the_timeout_counts_from_every_computation(device: nnvk.Device) -> None:
    run, output = added(device, reusable=True)
    run.set_timeout(200 * MILLISECOND)
    for _ in range(3):
        run.compute()
        time.sleep(0.1)
    assert (output == 3).all()


def test_a_missed_deadline_leaves_the_rest_of_the_compilation_alone(device: nnvk.Device) -> None:
    compilation = compiled(matrix_model(), device)
    source, output = np.full((256, 256), 0.5, np.float32), np.zeros((256, 256), np.float32)
    hasty = execution(compilation, [source], [np.zeros_like(output)], reusable=True)
    hasty.set_timeout(2 * MILLISECOND)
    patient = execution(compilation, [source], [output], reusable=True)
    for _ in range(2):
        output[:] = 0
        missed(hasty.compute)
        patient.compute()
        assert (output == 0.5).all()


def test_device_memory_holds_nothing_after_a_missed_deadline(device: nnvk.Device) -> None:
    first, second = compiled(matrix_model(), device), compiled(increment_model(), device)
    memory = device_memory(outputs=[(first, 0)])
    other = device_memory(outputs=[(second, 0)], inputs=[(second, 0)])
    run = execution(first, [np.ones((256, 256), np.float32)], [memory])
    run.set_timeout(1)
    with raises(MISSED):
        run.compute()
    with raises(ResultCode.BAD_DATA, "not initialised"):
        nnvk.Memory.copy(memory, memory)
    execution(second, [np.ones(4, np.float32)], [other]).compute()
    result = np.zeros(4, np.float32)
    execution(second, [other], [result]).compute()
    assert (result == 3).all()


def test_a_duration_counts_from_when_the_dependencies_have_ended(device: nnvk.Device) -> None:
    run, output = added(device)
    pipe = Pipe()
    event = run.start_compute_with_dependencies([pipe.event], 2000 * MILLISECOND)
    time.sleep(0.05)
    pipe.signal()
    event.wait()
    assert (output == 3).all()
    hasty, output = long_one(device)
    with raises(MISSED):
        hasty.start_compute_with_dependencies([pipe.event], 1).wait()
    assert (output == 0).all()


def test_a_timeout_counts_the_wait_for_dependencies(device: nnvk.Device) -> None:
    run, output = added(device)
    run.set_timeout(20 * MILLISECOND)
    pipe = Pipe()
    event = run.start_compute_with_dependencies([pipe.event])
    with raises(MISSED):  # though it can't even begin
        event.wait()
    pipe.signal()
    assert (output == -1).all()


@pytest.mark.parametrize("duration", [-1, -(10**9)])
def test_no_duration_is_negative(device: nnvk.Device, duration: int) -> None:
    run, _ = added(device)
    with raises(ResultCode.BAD_DATA, "negative"):
        run.set_timeout(duration)
    with raises(ResultCode.BAD_DATA, "negative"):
        run.set_loop_timeout(duration)
    with raises(ResultCode.BAD_DATA, "negative"):
        run.start_compute_with_dependencies([], duration)


# --- loops -------------------------------------------------------------------------------------------------------

DEVICES = {"cpu": ["nnapi-reference"], "both": ["vulkan-0", "nnapi-reference"], "vulkan": ["vulkan-0"], "chosen": []}


@pytest.mark.parametrize("names", DEVICES.values(), ids=DEVICES)
@each_run
def test_a_loop_without_end(names: list[str], compute: Callable[[nnvk.Execution], object]) -> None:
    compilation = compiled(while_model(endless=True), *map(nnvk.get_device, names))
    run = execution(compilation, [np.array([1], np.int32), np.ones(4, np.float32)], [np.zeros(4, np.float32)])
    run.set_loop_timeout(30 * MILLISECOND)
    began = time.monotonic()
    with raises(MISSED, "loop"):
        compute(run)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("names", DEVICES.values(), ids=DEVICES)
def test_a_loop_in_time(names: list[str]) -> None:
    compilation = compiled(while_model(), *map(nnvk.get_device, names))
    output = np.zeros(4, np.float32)
    run = execution(compilation, [np.array([5], np.int32), np.ones(4, np.float32)], [output])
    run.set_loop_timeout(10**9)
    run.compute()
    assert (output == 32).all()


def test_a_deadline_ends_a_loop(cpu: nnvk.Device) -> None:
    compilation = compiled(while_model(endless=True), cpu)
    run = execution(compilation, [np.array([1], np.int32), np.ones(4, np.float32)], [np.zeros(4, np.float32)])
    run.set_timeout(20 * MILLISECOND)
    with raises(MISSED, "deadline"):
        run.compute()


def test_limits_of_loops(cpu: nnvk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the maximum is the maximum; nothing set is the default."""
    assert 0 < nnvk.get_default_loop_timeout() <= nnvk.get_maximum_loop_timeout()
    compilation = compiled(while_model(), cpu)
    seen = []
    prepared = compilation.partitions[0].prepared
    bind = prepared.create_reusable_execution

    def spy(request):
        bound = bind(request)
        execute = bound.execute
        bound.execute = lambda options: (seen.append(options.loop_timeout_ns), execute(options))[1]
        return bound

    monkeypatch.setattr(prepared, "create_reusable_execution", spy)
    for timeout in (None, 0, 5, nnvk.get_maximum_loop_timeout() + 1, 2**63):
        run = execution(compilation, [np.array([0], np.int32), np.ones(4, np.float32)], [np.zeros(4, np.float32)])
        if timeout is not None:
            run.set_loop_timeout(timeout)
        run.compute()
    maximum = nnvk.get_maximum_loop_timeout()
    assert seen == [nnvk.get_default_loop_timeout(), 0, 5, maximum, maximum]
