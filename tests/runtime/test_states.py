"""States of executions: preparation, computation, completion; and what may be called in which."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from decorators import Decorated
from samples import add_model, added, compiled, execution, increment_model, raises, shared_memory

import nnvk
from nnvk import DurationCode, NnapiError, ResultCode

ONES = np.ones((2, 2), np.float32)
Call = Callable[[nnvk.Execution], object]

SETTERS: dict[str, Call] = {
    "set_input": lambda run: run.set_input(0, ONES),
    "set_input_from_memory": lambda run: run.set_input_from_memory(0, shared_memory(16), 0, 16),
    "set_output": lambda run: run.set_output(0, ONES.copy()),
    "set_output_from_memory": lambda run: run.set_output_from_memory(0, shared_memory(16), 0, 16),
    "enable_input_and_output_padding": lambda run: run.enable_input_and_output_padding(True),
    "set_measure_timing": lambda run: run.set_measure_timing(True),
    "set_timeout": lambda run: run.set_timeout(10**9),
    "set_loop_timeout": lambda run: run.set_loop_timeout(10**9),
    "set_reusable": lambda run: run.set_reusable(True),
}
QUERIES: dict[str, Call] = {
    "get_duration": lambda run: run.get_duration(DurationCode.DURATION_ON_HARDWARE),
    "get_output_operand_rank": lambda run: run.get_output_operand_rank(0),
    "get_output_operand_dimensions": lambda run: run.get_output_operand_dimensions(0),
}
COMPUTATIONS: dict[str, Call] = {
    "compute": lambda run: run.compute(),
    "start_compute": lambda run: run.start_compute().wait(),
    "start_compute_with_dependencies": lambda run: run.start_compute_with_dependencies([]).wait(),
    "burst_compute": lambda run: run.burst_compute(nnvk.Burst(run.compilation)),
}

setters = pytest.mark.parametrize("setter", SETTERS.values(), ids=SETTERS)
queries = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
computations = pytest.mark.parametrize("compute", COMPUTATIONS.values(), ids=COMPUTATIONS)


class Gated(Decorated):
    """Executes when it is let."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)

    def before_execution(self) -> None:
        super().before_execution()
        self.begun.release()
        assert self.gate.acquire(timeout=20)


@contextmanager
def computing(cpu: nnvk.Device, *, reusable: bool = False) -> Iterator[tuple[nnvk.Execution, Gated]]:
    """An execution in the middle of `compute`, in a thread; it ends with the block."""
    driver = Gated(cpu.driver)
    run, output = added(nnvk.Device(driver), reusable=reusable)
    thread = threading.Thread(target=run.compute)
    thread.start()
    assert driver.begun.acquire(timeout=20)
    try:
        yield run, driver
    finally:
        driver.gate.release()
        thread.join()
    assert (output == 3).all()


# --- preparation -------------------------------------------------------------------------------------------------


@setters
def test_everything_may_be_set_in_preparation(device: nnvk.Device, setter: Call) -> None:
    setter(nnvk.Execution(compiled(add_model(), device)))


@queries
def test_nothing_can_be_asked_in_preparation(device: nnvk.Device, query: Call) -> None:
    with raises(ResultCode.BAD_STATE, "in preparation"):
        query(added(device)[0])


# --- computation -------------------------------------------------------------------------------------------------


@setters
@pytest.mark.parametrize("reusable", [False, True])
def test_nothing_may_be_set_in_computation(cpu: nnvk.Device, setter: Call, reusable: bool) -> None:
    with computing(cpu, reusable=reusable) as (run, _), raises(ResultCode.BAD_STATE, "under way"):
        setter(run)


@queries
def test_nothing_can_be_asked_in_computation(cpu: nnvk.Device, query: Call) -> None:
    with computing(cpu) as (run, _), raises(ResultCode.BAD_STATE, "under way"):
        query(run)


@computations
@pytest.mark.parametrize("reusable", [False, True])
def test_no_second_computation_at_once(cpu: nnvk.Device, compute: Call, reusable: bool) -> None:
    with computing(cpu, reusable=reusable) as (run, driver):
        with raises(ResultCode.BAD_STATE, "under way"):
            compute(run)
        assert driver.executions == 1


@setters
def test_nothing_may_be_set_before_the_event_is_waited_for(device: nnvk.Device, setter: Call) -> None:
    run, output = added(device)
    event = run.start_compute()
    with raises(ResultCode.BAD_STATE, "under way"):
        setter(run)
    event.wait()
    assert (output == 3).all()


@queries
def test_nothing_can_be_asked_before_the_event_is_waited_for(device: nnvk.Device, query: Call) -> None:
    run, _ = added(device)
    event = run.start_compute_with_dependencies([])
    with raises(ResultCode.BAD_STATE, "under way"):
        query(run)
    event.wait()
    query(run)


@computations
def test_no_computation_before_the_event_is_waited_for(device: nnvk.Device, compute: Call) -> None:
    run, _ = added(device, reusable=True)
    event = run.start_compute()
    with raises(ResultCode.BAD_STATE, "under way"):
        compute(run)
    event.wait()
    compute(run)


# --- completion --------------------------------------------------------------------------------------------------


@setters
@pytest.mark.parametrize("reusable", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_nothing_may_be_set_after_a_computation(device: nnvk.Device, setter: Call, reusable: bool, fails: bool) -> None:
    run, _ = added(device, reusable=reusable)
    if fails:
        run = nnvk.Execution(run.compilation)
        run.set_reusable(reusable)
        with raises(ResultCode.BAD_DATA):
            run.compute()
    else:
        run.compute()
    with raises(ResultCode.BAD_STATE, "completed"):
        setter(run)


@computations
def test_one_computation_by_default(device: nnvk.Device, compute: Call) -> None:
    run, output = added(device)
    run.compute()
    output[:] = 0
    with raises(ResultCode.BAD_STATE, "set_reusable"):
        compute(run)
    assert (output == 0).all()


@computations
def test_any_number_where_it_is_reusable(device: nnvk.Device, compute: Call) -> None:
    run, output = added(device, reusable=True)
    for _ in range(4):
        output[:] = 0
        compute(run)
        assert (output == 3).all()
        assert run.get_output_operand_dimensions(0) == (2, 2)


def test_reusable_may_be_taken_back(device: nnvk.Device) -> None:
    run, _ = added(device, reusable=True)
    run.set_reusable(False)
    run.compute()
    with raises(ResultCode.BAD_STATE):
        run.compute()


@computations
def test_a_reusable_execution_may_fail_and_go_on(cpu: nnvk.Device, compute: Call) -> None:
    class Moody(Decorated):
        def before_execution(self) -> None:
            super().before_execution()
            if self.executions % 2:
                raise NnapiError(ResultCode.OP_FAILED, "not now")

    run, output = added(nnvk.Device(Moody(cpu.driver)), reusable=True)
    for _ in range(3):
        output[:] = 0
        with raises(ResultCode.OP_FAILED):
            compute(run)
        with raises(ResultCode.BAD_STATE, "failed"):
            run.get_output_operand_dimensions(0)
        assert (output == 0).all()
        compute(run)
        assert (output == 3).all()
        assert run.get_output_operand_dimensions(0) == (2, 2)


# --- concurrent misuse -------------------------------------------------------------------------------------------


def test_of_many_threads_one_computes(cpu: nnvk.Device) -> None:
    driver = Gated(cpu.driver)
    run, output = added(nnvk.Device(driver))
    outcomes: list[ResultCode] = []

    def work() -> None:
        try:
            run.compute()
            outcomes.append(ResultCode.NO_ERROR)
        except NnapiError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert driver.begun.acquire(timeout=20)
    driver.gate.release()
    for thread in threads:
        thread.join()
    assert outcomes.count(ResultCode.NO_ERROR) == 1
    assert outcomes.count(ResultCode.BAD_STATE) == 7
    assert driver.executions == 1
    assert (output == 3).all()


def test_executions_of_one_compilation_may_run_at_once(device: nnvk.Device) -> None:
    compilation = compiled(increment_model(type_=nnvk.OperandType(nnvk.OperandCode.TENSOR_FLOAT32, (64,))), device)
    errors: list[object] = []

    def work(value: int) -> None:
        source, output = np.full(64, value, np.float32), np.zeros(64, np.float32)
        run = execution(compilation, [source], [output], reusable=True)
        for _ in range(30):
            output[:] = 0
            run.compute()
            if not (output == value + 1).all():
                errors.append(output)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# --- bursts ------------------------------------------------------------------------------------------------------


def test_many_executions_in_a_burst(device: nnvk.Device) -> None:
    compilation = compiled(increment_model(), device)
    burst = nnvk.Burst(compilation)
    for value in range(20):
        output = np.zeros(4, np.float32)
        execution(compilation, [np.full(4, value, np.float32)], [output]).burst_compute(burst)
        assert (output == value + 1).all()


def test_a_burst_takes_executions_of_its_compilation_only(device: nnvk.Device) -> None:
    model = add_model()
    burst = nnvk.Burst(compiled(model, device))
    run, _ = added(device)
    with raises(ResultCode.BAD_DATA, "different compilations"):
        run.burst_compute(burst)
    run.compute()  # it is still in preparation


def test_one_execution_at_a_time_is_in_a_burst(cpu: nnvk.Device) -> None:
    driver = Gated(cpu.driver)
    first, output = added(nnvk.Device(driver))
    compilation = first.compilation
    burst, other = nnvk.Burst(compilation), nnvk.Burst(compilation)
    second = execution(compilation, [ONES, ONES], [np.zeros((2, 2), np.float32)])
    thread = threading.Thread(target=first.burst_compute, args=(burst,))
    thread.start()
    assert driver.begun.acquire(timeout=20)
    with raises(ResultCode.BAD_STATE, "another execution"):
        second.burst_compute(burst)
    driver.gate.release(2)
    second.burst_compute(other)  # it was not touched, and bursts don't know each other
    thread.join()
    assert (output == 3).all()


def test_a_burst_is_free_after_a_failure(device: nnvk.Device) -> None:
    compilation = compiled(add_model(), device)
    burst = nnvk.Burst(compilation)
    with raises(ResultCode.BAD_DATA, "was not set"):
        nnvk.Execution(compilation).burst_compute(burst)
    output = np.zeros((2, 2), np.float32)
    execution(compilation, [ONES, ONES], [output]).burst_compute(burst)
    assert (output == 2).all()
