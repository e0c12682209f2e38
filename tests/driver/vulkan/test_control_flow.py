"""IF and WHILE in the driver: on cases that are drawn, nested, of open shapes, on device memory, and given up."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from builder import Builder
from generators import Draw, draw_case, drawn, run_case
from samples import (
    BOOL8,
    COUNTER,
    FOUR,
    compiled,
    device_memory,
    execution,
    f32,
    if_model,
    raises,
    shared_memory,
    while_model,
)

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode
from nnvk.check.model_rows import empty_like, request
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.running import resident_plan
from nnvk.types.codes import OperationCode as Op
from nnvk.types.request import ExecuteOptions, PrepareOptions


@pytest.fixture
def device(vulkan: VulkanDevice) -> nnvk.Device:
    return nnvk.Device(vulkan)


def put(memory: nnvk.Memory, content: np.ndarray) -> None:
    nnvk.Memory.copy(shared_memory(content), memory)


def content(memory: nnvk.Memory) -> np.ndarray:
    """The four numbers in a memory."""
    result = np.empty(4, np.float32)
    shared = nnvk.HardwareBuffer(16)
    nnvk.Memory.copy(memory, nnvk.Memory.create_from_hardware_buffer(shared))
    result[:] = np.asarray(shared.lock()).view(np.float32)
    return result


@pytest.mark.parametrize(
    ("code", "leading"), [(Op.IF, OperandCode.TENSOR_BOOL8), (Op.WHILE, OperandCode.MODEL)], ids=["IF", "WHILE"]
)
@pytest.mark.parametrize("seed", range(12))
def test_drawn_cases(vulkan: VulkanDevice, code: Op, leading: OperandCode, seed: int) -> None:
    case = draw_case(Draw(seed), code, leading)
    row, expected = drawn(case), run_case(case)
    prepared = vulkan.prepare_model(row.model, PrepareOptions())
    for _ in range(2):
        outputs = empty_like(expected)
        prepared.execute(request(row.inputs, outputs), ExecuteOptions())
        for want, got in zip(expected, outputs, strict=True):
            np.testing.assert_array_equal(got, want)


def collatz() -> nnvk.Model:
    """How many steps it takes from an INT32 to 1: an IF within a WHILE."""

    def branch(even: bool) -> nnvk.Model:
        build = Builder()
        n = build.operand(COUNTER)
        two, three, one = (build.constant(COUNTER, [number]) for number in (2, 3, 1))
        if even:
            return build.finish([n], [build.operation(OperationCode.DIV, [n, two], COUNTER)])
        tripled = build.operation(OperationCode.MUL, [n, three], COUNTER)
        return build.finish([n], [build.operation(OperationCode.ADD, [tripled, one], COUNTER)])

    build = Builder()
    n, steps = build.operand(COUNTER), build.operand(COUNTER)
    one = build.constant(COUNTER, [1])
    condition = build.finish([n, steps], [build.operation(OperationCode.GREATER, [n, one], BOOL8)])
    build = Builder()
    n, steps = build.operand(COUNTER), build.operand(COUNTER)
    one, two = build.constant(COUNTER, [1]), build.constant(COUNTER, [2])
    half = build.operation(OperationCode.DIV, [n, two], COUNTER)
    is_even = build.operation(OperationCode.EQUAL, [n, build.operation(OperationCode.MUL, [half, two], COUNTER)], BOOL8)
    inputs = [is_even, build.reference(branch(True)), build.reference(branch(False)), n]
    following = build.operation(OperationCode.IF, inputs, COUNTER)
    body = build.finish([n, steps], [following, build.operation(OperationCode.ADD, [steps, one], COUNTER)])
    build = Builder()
    n, steps = build.operand(COUNTER), build.constant(COUNTER, [0])
    _, result = build.outputs(
        OperationCode.WHILE, [build.reference(condition), build.reference(body), n, steps], COUNTER, COUNTER
    )
    return build.finish([n], [result])


@pytest.mark.parametrize(("number", "steps"), [(1, 0), (6, 8), (27, 111)])
def test_nested(device: nnvk.Device, number: int, steps: int) -> None:
    (result,) = nnvk.run(compiled(collatz(), device), [np.array([number], np.int32)])
    assert result == [steps]


def growing() -> nnvk.Model:
    """Input 0 with itself appended, input 1 times: a state of open dimensions."""
    unknown = OperandType(OperandCode.TENSOR_FLOAT32, (0, 3))
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(unknown)
    condition = build.finish(
        [counter, state], [build.operation(OperationCode.GREATER, [counter, build.constant(COUNTER, [0])], BOOL8)]
    )
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(unknown)
    less = build.operation(OperationCode.SUB, [counter, build.constant(COUNTER, [1])], COUNTER)
    axis = build.constant(OperandType(OperandCode.INT32), 0)
    body = build.finish(
        [counter, state], [less, build.operation(OperationCode.CONCATENATION, [state, state, axis], unknown)]
    )
    build = Builder()
    state, counter = build.operand(unknown), build.operand(COUNTER)
    inputs = [build.reference(condition), build.reference(body), counter, state]
    _, result = build.outputs(OperationCode.WHILE, inputs, COUNTER, unknown)
    return build.finish([state, counter], [result])


def test_a_state_that_grows(device: nnvk.Device) -> None:
    compilation = compiled(growing(), device)
    state, output = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((16, 3), np.float32)
    for times in (0, 3, 1, 2):
        made = execution(compilation, [state, np.array([times], np.int32)], [output])
        made.compute()
        assert made.get_output_operand_dimensions(0) == (2 * 2**times, 3)
        np.testing.assert_array_equal(output[: 2 * 2**times], np.tile(state, (2**times, 1)))
    made = execution(compilation, [state, np.array([5], np.int32)], [output])
    with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE):
        made.compute()
    assert made.get_output_operand_dimensions(0) == (64, 3)


def test_only_conditions_pass_the_host(device: nnvk.Device, vulkan: VulkanDevice) -> None:
    compilation = compiled(while_model(), device)
    source, result = device_memory([(compilation, 1)]), device_memory((), [(compilation, 0)])
    put(source, np.full(4, 3, np.float32))
    counters = vulkan.gpu.counters
    before = counters.bytes_from_host, counters.bytes_to_host
    execution(compilation, [np.array([5], np.int32), source], [result]).compute()
    assert (counters.bytes_from_host - before[0], counters.bytes_to_host - before[1]) == (0, 6)  # six conditions
    assert (content(result) == 3 * 2**5).all()


def test_the_first_execution_of_a_loop_compiles_nothing() -> None:
    driver = find_devices()[0][0]  # one that nothing was compiled on
    device = nnvk.Device(driver)
    compilation, output = compiled(while_model(), device), np.empty(4, np.float32)
    pipelines = driver.gpu.native().pipelines_compiled
    assert pipelines >= 2, "condition and body"
    execution(compilation, [np.array([5], np.int32), np.ones(4, np.float32)], [output]).compute()
    np.testing.assert_array_equal(output, np.full(4, 32, np.float32))
    assert driver.gpu.native().pipelines_compiled == pipelines


def test_a_loop_records_each_state_once(
    device: nnvk.Device, vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = []

    def counted(*arguments: object, **options: object) -> resident_plan.Recording:
        recordings.append(arguments)
        return make(*arguments, **options)  # type: ignore[arg-type]

    make = resident_plan.Recording
    monkeypatch.setattr(resident_plan, "Recording", counted)
    compilation, output = compiled(while_model(), device), np.empty(4, np.float32)
    made = execution(compilation, [np.array([50], np.int32), np.ones(4, np.float32)], [output], reusable=True)
    made.compute()
    assert len(recordings) <= 6, "condition and body, from the first state and from two that take turns"
    gc.collect()  # what other tests have left shall not go meanwhile
    allocated, recorded = vulkan.gpu.native().allocated_bytes, len(recordings)
    for _ in range(3):
        made.compute()
    assert vulkan.gpu.native().allocated_bytes <= allocated, "others may have freed memory meanwhile"
    assert len(recordings) == recorded


def test_loops_and_executions_that_take_too_long(device: nnvk.Device) -> None:
    compilation = compiled(while_model(endless=True), device)
    output = np.empty(4, np.float32)
    made = execution(compilation, [np.array([1], np.int32), np.ones(4, np.float32)], [output], reusable=True)
    made.set_loop_timeout(20_000_000)
    for _ in range(2):
        with raises(ResultCode.MISSED_DEADLINE_TRANSIENT, r"WHILE: a loop ran longer than 0\.02 s"):
            made.compute()
    made = execution(compilation, [np.array([1], np.int32), np.ones(4, np.float32)], [output])
    made.set_timeout(20_000_000)
    with raises(ResultCode.MISSED_DEADLINE_TRANSIENT, "deadline"):
        made.compute()
    (result,) = nnvk.run(compiled(while_model(), device), [np.array([2], np.int32), np.ones(4, np.float32)])
    assert (result == 4).all()


def test_an_error_of_the_data_within_a_loop(device: nnvk.Device) -> None:
    """Row by row, until there are no more."""
    table, row = f32(3, 4), OperandType(OperandCode.TENSOR_FLOAT32, (1, 4))
    build = Builder()
    counter, last, rows = build.operand(COUNTER), build.operand(row), build.operand(table)
    limit = build.constant(COUNTER, [5])
    condition = build.finish([counter, last, rows], [build.operation(OperationCode.LESS, [counter, limit], BOOL8)])
    build = Builder()
    counter, last, rows = build.operand(COUNTER), build.operand(row), build.operand(table)
    axis = build.constant(OperandType(OperandCode.INT32), 0)
    found = build.operation(OperationCode.GATHER, [rows, axis, counter], row)
    more = build.operation(OperationCode.ADD, [counter, build.constant(COUNTER, [1])], COUNTER)
    body = build.finish([counter, last, rows], [more, found])
    build = Builder()
    counter, last, rows = build.operand(COUNTER), build.operand(row), build.operand(table)
    inputs = [build.reference(condition), build.reference(body), counter, last, rows]
    _, result = build.outputs(OperationCode.WHILE, inputs, COUNTER, row)
    compilation = compiled(build.finish([counter, last, rows], [result]), device)
    arguments = [np.array([0], np.int32), np.zeros((1, 4), np.float32), np.ones((3, 4), np.float32)]
    with raises(ResultCode.OP_FAILED, r"GATHER: indices must be in \[0, 3\), got 3"):
        nnvk.run(compilation, arguments)


def test_many_threads_share_a_compilation(device: nnvk.Device) -> None:
    compilation = compiled(while_model(), device)
    start = threading.Barrier(6)

    def run(times: int) -> bool:
        start.wait()
        return all(
            (nnvk.run(compilation, [np.array([times], np.int32), np.ones(4, np.float32)])[0] == 2**times).all()
            for _ in range(8)
        )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(run, range(6)))


@pytest.mark.parametrize("taken", [True, False])
def test_branches_on_device_memory(device: nnvk.Device, taken: bool) -> None:
    compilation = compiled(if_model(FOUR), device)
    memories = [device_memory([(compilation, index)]) for index in (0, 1, 2)]
    result = device_memory((), [(compilation, 0)])
    for memory, data in zip(memories, ([taken], np.full(4, 2, np.float32), np.full(4, 5, np.float32)), strict=True):
        put(memory, np.asarray(data))
    event = execution(compilation, memories, [result]).start_compute_with_dependencies([])
    event.wait()
    assert (content(result) == (7 if taken else 10)).all()


def test_measured(own: VulkanDevice) -> None:
    made = execution(
        compiled(while_model(), nnvk.Device(own)),
        [np.array([3], np.int32), np.ones(4, np.float32)],
        [np.empty(4, np.float32)],
    )
    made.set_measure_timing(True)
    made.compute()
    on_hardware = made.get_duration(nnvk.DurationCode.DURATION_ON_HARDWARE)
    assert 0 < on_hardware <= made.get_duration(nnvk.DurationCode.DURATION_IN_DRIVER)
