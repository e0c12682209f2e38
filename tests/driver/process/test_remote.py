"""A device in another process is the device that it would be in this one: results, errors, reasons, times."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from c_library import await_that
from generators import Draw, draw_case, drawn, generators
from remote import Remote
from samples import (
    F32,
    Pipe,
    add_model,
    added,
    compiled,
    device_memory,
    execution,
    f32,
    if_model,
    increment_model,
    raises,
    unary_model,
    updated_memory,
    while_model,
)

import nnvk
from nnvk import OperandType, OperationCode, ResultCode
from nnvk.base.errors import UnfitData
from nnvk.check.model_rows import empty_like, execute
from nnvk.types.codes import ExtensionCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.request import ExecuteOptions, InputArgument, OutputArgument, PrepareOptions, Request


def test_it_describes_itself_as_the_driver_does(shared: Remote, cpu: nnvk.Device) -> None:
    for what in ("name", "type", "version", "feature_level", "extensions", "capabilities"):
        assert getattr(shared.device, what) == getattr(cpu, what)


@pytest.mark.parametrize("code", generators(), ids=lambda code: code.name)
def test_each_operation(shared: Remote, cpu: nnvk.Device, code: OperationCode) -> None:
    for seed in range(2):
        row = drawn(draw_case(Draw(seed), code))
        outputs = [np.zeros(type_.dimensions or 1, type_.dtype) for type_ in row.model.output_types()]
        here, there = empty_like(outputs), empty_like(outputs)
        first, second = execute(cpu.driver, row, here), execute(shared.device.driver, row, there)
        assert first == second
        if code is not OperationCode.RANDOM_MULTINOMIAL:
            assert [array.tobytes() for array in here] == [array.tobytes() for array in there]


@pytest.mark.parametrize("size", [1, 7, 1000, 20_000, 1_000_003])
def test_every_way(shared: Remote, size: int) -> None:
    """With small arguments and large ones, again and again on what they leave."""
    compilation = compiled(add_model(f32(size)), shared.device)
    first, second, total = (np.full(size, value, np.float32) for value in (1, 2, 0))
    run = execution(compilation, [first, second], [total], reusable=True)
    burst = nnvk.Burst(compilation)
    ways = (
        run.compute,
        lambda: run.burst_compute(burst),
        lambda: run.start_compute().wait(),
        lambda: run.start_compute_with_dependencies(()).wait(),
    )
    for turn in range(2):
        for number, way in enumerate(ways):
            first[:] = 10 * turn + number
            way()
            assert (total == first + 2).all()


def test_outputs_of_unknown_size(shared: Remote) -> None:
    model = unary_model(OperationCode.RELU, f32(2, 2), OperandType(F32))
    source, large, small = np.full((2, 2), 3, np.float32), np.full(9, -1, np.float32), np.zeros(2, np.float32)
    run = execution(compiled(model, shared.device), [source], [large])
    run.compute()
    assert large.tolist() == [3] * 4 + [-1] * 5
    assert run.get_output_operand_dimensions(0) == (2, 2)
    run = execution(compiled(model, shared.device), [source], [small], reusable=True)
    for _ in range(2):
        with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE, match=r"output 0 is \[2, 2\]"):
            run.compute()
        assert run.get_output_operand_dimensions(0) == (2, 2) and not small.any()


def test_omitted_and_empty_arguments(shared: Remote) -> None:
    model = unary_model(OperationCode.RELU, OperandType(F32), OperandType(F32))
    compilation = compiled(model, shared.device)
    source, result = np.zeros((0, 3), np.float32), np.zeros(4, np.float32)
    run = nnvk.Execution(compilation)
    run.set_input(0, None)
    run.set_output(0, result)
    with raises(ResultCode.OP_FAILED):
        run.compute()
    run = nnvk.Execution(compilation)
    run.set_input(0, np.full((1, 3), 2, np.float32), f32(1, 3))
    run.set_output(0, None)
    run.compute()
    assert run.get_output_operand_dimensions(0) == (1, 3)
    assert not source.size


def test_device_memory(shared: Remote) -> None:
    """One execution's output is the next one's input, in order of their fences, and nothing passes this process."""
    compilation = compiled(increment_model(), shared.device)
    memories = [device_memory([(compilation, 0)], [(compilation, 0)]) for _ in range(6)]
    nnvk.Memory.copy(nnvk.Memory(np.arange(4, dtype=np.float32).view(np.uint8)), memories[0])
    event: list[nnvk.Event] = []
    for source, target in itertools.pairwise(memories):
        event = [execution(compilation, [source], [target]).start_compute_with_dependencies(event)]
    event[0].wait()
    result = np.zeros(4, np.float32)
    nnvk.Memory.copy(memories[-1], nnvk.Memory(result.view(np.uint8)))
    assert result.tolist() == [5, 6, 7, 8]
    assert [memory.buffer.token for memory in memories if memory.buffer] == sorted(
        {memory.buffer.token for memory in memories if memory.buffer}
    )


def test_device_memory_is_updated(shared: Remote) -> None:
    compilation = compiled(increment_model(), shared.device)
    memory = updated_memory(compilation, (0, 0))
    nnvk.Memory.copy(nnvk.Memory(np.arange(4, dtype=np.float32).view(np.uint8)), memory)
    run = execution(compilation, [memory], [memory], reusable=True)
    for _ in range(3):
        run.compute()
    result = np.zeros(4, np.float32)
    nnvk.Memory.copy(memory, nnvk.Memory(result.view(np.uint8)))
    assert result.tolist() == [3, 4, 5, 6]


def test_a_fence_of_somebody_else(shared: Remote) -> None:
    pipe, source, result = Pipe(), np.zeros(4, np.float32), np.zeros(4, np.float32)
    run = execution(compiled(increment_model(), shared.device), [source], [result])
    event = run.start_compute_with_dependencies([pipe.event])
    source[:] = 5
    assert not event.fence.wait(10**7)
    pipe.signal()
    event.wait()
    assert result.tolist() == [6] * 4


def test_events_whose_outputs_are_in_this_process(shared: Remote) -> None:
    compilation = compiled(increment_model(), shared.device)
    arrays = [np.zeros(4, np.float32) for _ in range(30)]
    event: list[nnvk.Event] = []
    for source, target in itertools.pairwise(arrays):
        event = [execution(compilation, [source], [target]).start_compute_with_dependencies(event)]
    event[0].wait()
    assert [array[0] for array in arrays] == list(range(30))


def test_many_at_once(shared: Remote) -> None:
    compilation = compiled(add_model(f32(1000)), shared.device)
    runs = []
    for number in range(40):
        source, result = np.full(1000, number, np.float32), np.zeros(1000, np.float32)
        runs.append((source, result, execution(compilation, [source, source], [result]).start_compute()))
    for source, result, event in reversed(runs):
        event.wait()
        assert (result == 2 * source).all()


def test_reasons_and_errors_are_the_driver_s(shared: Remote, cpu: nnvk.Device) -> None:
    type_ = f32(2)
    operands = (Operand(type_, Lifetime.SUBGRAPH_INPUT), Operand(type_, Lifetime.SUBGRAPH_OUTPUT))
    model = Model(operands, (Operation(ExtensionCode("com.example", 1), (0,), (1,)),), (0,), (1,))
    answers = [device.driver.get_supported_operations(model) for device in (shared.device, cpu)]
    assert answers[0] == answers[1] and not answers[0][0].supported
    errors = []
    for device in (shared.device, cpu):
        with raises(ResultCode.BAD_DATA) as caught:
            device.driver.prepare_model(model, PrepareOptions())
        errors.append(caught.value.reason)
    assert errors[0] == errors[1]


def test_requests_that_do_not_fit(shared: Remote, cpu: nnvk.Device) -> None:
    model = add_model().frozen
    array, buffer = np.zeros((2, 2), np.float32), np.zeros(16, np.uint8)
    requests = [
        Request([InputArgument(array)], [OutputArgument(buffer)]),
        Request([InputArgument(array.astype(np.float64))] * 2, [OutputArgument(buffer)]),
        Request([InputArgument(np.zeros((3, 2), np.float32))] * 2, [OutputArgument(buffer)]),
        Request([InputArgument(array, 5)] * 2, [OutputArgument(buffer)]),
        Request([InputArgument(None, 987, (2, 2))] * 2, [OutputArgument(buffer)]),
    ]
    for request in requests:
        for device in (shared.device, cpu):
            with raises(ResultCode.BAD_DATA):
                device.driver.prepare_model(model, PrepareOptions()).execute(request, ExecuteOptions())


def test_data_that_no_device_could_compute(shared: Remote) -> None:
    """It is known as such here too, so that no other device is tried."""
    model = nnvk.Model()
    tensor, indexes = f32(3), OperandType(nnvk.OperandCode.TENSOR_INT32, (2,))
    source, axis, index, result = (
        model.add_operand(type_) for type_ in (tensor, OperandType(nnvk.OperandCode.INT32), indexes, f32(2))
    )
    model.set_operand_value(axis, 0)
    model.add_operation(OperationCode.GATHER, [source, axis, index], [result])
    model.identify_inputs_and_outputs([source, index], [result])
    model.finish()
    prepared = shared.device.driver.prepare_model(model.frozen, PrepareOptions())
    inputs = [InputArgument(np.zeros(3, np.float32)), InputArgument(np.array([0, 99], np.int32))]
    bound = prepared.create_reusable_execution(Request(inputs, [OutputArgument(np.zeros(8, np.uint8))]))
    with pytest.raises(UnfitData):
        bound.execute(ExecuteOptions())
    with pytest.raises(UnfitData):
        bound.execute_fenced((), ExecuteOptions()).result()


def test_control_flow(shared: Remote) -> None:
    for condition, expected in ((True, 5), (False, 6)):
        inputs = [np.array([condition]), np.full((2, 2), 2, np.float32), np.full((2, 2), 3, np.float32)]
        (result,) = nnvk.run(compiled(if_model(), shared.device), inputs)
        assert (result == expected).all()


def test_a_loop_s_timeout(shared: Remote) -> None:
    inputs = [np.ones(1, np.int32), np.ones(4, np.float32)]
    run = execution(compiled(while_model(endless=True), shared.device), inputs, [np.zeros(4, np.float32)])
    run.set_loop_timeout(50_000_000)
    began = time.monotonic()
    with raises(ResultCode.MISSED_DEADLINE_TRANSIENT):
        run.compute()
    assert time.monotonic() - began < 5


def test_deadlines(shared: Remote) -> None:
    run, _ = added(shared.device, reusable=True)
    run.set_timeout(1)
    with raises(ResultCode.MISSED_DEADLINE_TRANSIENT):
        run.compute()
    with raises(ResultCode.MISSED_DEADLINE_TRANSIENT):
        run.start_compute_with_dependencies(()).wait()
    run, _ = added(shared.device)
    run.set_timeout(60 * 10**9)
    run.compute()


def test_timing(shared: Remote) -> None:
    run, _ = added(shared.device)
    run.set_measure_timing(True)
    run.compute()
    assert 0 < run.get_duration(nnvk.DurationCode.DURATION_IN_DRIVER) < 10**9


def test_large_constants(shared: Remote) -> None:
    weights = np.arange(3_000_001, dtype=np.float32)
    model = nnvk.Model()
    type_ = f32(*weights.shape)
    source, constant, none, result = (
        model.add_operand(each) for each in (type_, type_, OperandType(nnvk.OperandCode.INT32), type_)
    )
    model.set_operand_value(constant, weights)
    model.set_operand_value(none, 0)
    model.add_operation(OperationCode.ADD, [source, constant, none], [result])
    model.identify_inputs_and_outputs([source], [result])
    model.finish()
    (sums,) = nnvk.run(compiled(model, shared.device), [weights])
    assert np.array_equal(sums, 2 * weights)


def test_nothing_is_left_there(shared: Remote) -> None:
    """Shared memory and objects go when they are dropped here."""

    def maps() -> int:
        return Path(f"/proc/{shared.pid}/maps").read_text().count("nnvk-arguments")

    def once() -> None:
        compilation = compiled(add_model(f32(3_000_000)), shared.device)
        source = np.zeros(3_000_000, np.float32)
        execution(compilation, [source, source], [np.zeros_like(source)]).compute()

    once()
    before = maps()
    for _ in range(5):
        once()
    await_that(lambda: maps() <= before, 10, "shared memory is left")
