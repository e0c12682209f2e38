"""Memory domains: roles, what is held when, and memory that stays on its device."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest
from builder import Builder
from decorators import Decorated, Failing
from samples import (
    BOOL8,
    COUNTER,
    F32,
    Pipe,
    add_model,
    compiled,
    device_memory,
    execution,
    f32,
    increment_model,
    raises,
    shared_memory,
    unary_model,
    updated_memory,
    while_model,
)

import nnvk
from nnvk import Memory, MemoryDesc, NnapiError, OperandCode, OperandType, OperationCode, ResultCode
from nnvk.driver.vulkan import VulkanDevice
from nnvk.types.operand import Shape

FOUR = f32(4)


def read(memory: Memory) -> np.ndarray:
    """Return the content of a memory as float32."""
    target = shared_memory(memory.size)
    Memory.copy(memory, target)
    return target.read().view(np.float32)


# --- descriptors -------------------------------------------------------------------------------------------------


def test_a_finished_descriptor_can_not_be_modified(device: nnvk.Device) -> None:
    compilation = compiled(increment_model(), device)
    desc = MemoryDesc()
    desc.add_input_role(compilation, 0)
    desc.finish()
    for call in (
        lambda: desc.add_input_role(compilation, 0),
        lambda: desc.add_output_role(compilation, 0),
        lambda: desc.set_dimensions([4]),
        desc.finish,
    ):
        with raises(ResultCode.BAD_STATE, "finish"):
            call()


def test_a_descriptor_needs_a_role() -> None:
    desc = MemoryDesc()
    desc.set_dimensions([4])
    with raises(ResultCode.BAD_DATA, "at least one role"):
        desc.finish()


def test_memory_needs_a_finished_descriptor(device: nnvk.Device) -> None:
    desc = MemoryDesc()
    desc.add_input_role(compiled(increment_model(), device), 0)
    with raises(ResultCode.BAD_STATE, "not finished"):
        Memory.create_from_desc(desc)


def test_a_role_is_given_once(device: nnvk.Device) -> None:
    compilation, other = compiled(increment_model(), device), compiled(increment_model(), device)
    desc = MemoryDesc()
    desc.add_input_role(compilation, 0)
    desc.add_output_role(compilation, 0)
    desc.add_input_role(other, 0)
    with raises(ResultCode.BAD_DATA, "role already"):
        desc.add_input_role(compilation, 0)
    with raises(ResultCode.BAD_DATA, "role already"):
        desc.add_output_role(compilation, 0)
    MemoryDesc().add_input_role(compilation, 0)  # but other descriptors may have it too


@pytest.mark.parametrize("index", [-1, 1])
def test_roles_that_do_not_exist(device: nnvk.Device, index: int) -> None:
    compilation = compiled(increment_model(), device)
    with raises(ResultCode.BAD_DATA, "does not exist"):
        MemoryDesc().add_input_role(compilation, index)
    with raises(ResultCode.BAD_DATA, "does not exist"):
        MemoryDesc().add_output_role(compilation, index)


@pytest.mark.parametrize("frequency", [0.0, -0.5, 1.01, float("nan"), float("inf")])
def test_frequencies(device: nnvk.Device, frequency: float) -> None:
    compilation = compiled(increment_model(), device)
    with raises(ResultCode.BAD_DATA, "frequency"):
        MemoryDesc().add_input_role(compilation, 0, frequency)
    MemoryDesc().add_input_role(compilation, 0, 1e-6)
    MemoryDesc().add_input_role(compilation, 0, 1.0)


@pytest.mark.parametrize(
    "other",
    [
        f32(2, 2),
        f32(5),
        OperandType(OperandCode.TENSOR_FLOAT16, (4,)),
        OperandType(OperandCode.TENSOR_INT32, (4,)),
    ],
    ids=str,
)
def test_roles_must_agree(device: nnvk.Device, other: OperandType) -> None:
    desc = MemoryDesc()
    desc.add_output_role(compiled(increment_model(), device), 0)
    with raises(ResultCode.BAD_DATA):
        desc.add_input_role(compiled(add_model(other), nnvk.get_device("nnapi-reference")), 0)


def test_roles_of_other_quantisation(cpu: nnvk.Device) -> None:
    code = OperandCode.TENSOR_QUANT8_ASYMM
    desc = MemoryDesc()
    desc.add_input_role(compiled(add_model(OperandType(code, (4,), 0.5, 3)), cpu), 0)
    for scale, zero_point in ((0.25, 3), (0.5, 4)):
        with raises(ResultCode.BAD_DATA):
            desc.add_input_role(compiled(add_model(OperandType(code, (4,), scale, zero_point)), cpu), 0)


@pytest.mark.parametrize(
    ("types", "given", "expected"),
    [
        ([f32(0, 2), f32(3, 0)], (), (3, 2)),
        ([f32(), f32(3, 2)], (), (3, 2)),
        ([f32(0, 2)], (3, 0), (3, 2)),
        ([f32()], (3, 2), (3, 2)),
        ([f32(3, 2)], (), (3, 2)),
        ([f32(0, 2), f32(3, 0)], (0, 0), (3, 2)),
    ],
    ids=str,
)
def test_dimensions_come_from_all_roles_and_the_caller(
    device: nnvk.Device, types: list[OperandType], given: Shape, expected: Shape
) -> None:
    compilations = [compiled(unary_model(type_=type_), device) for type_ in types]
    memory = device_memory(inputs=[(compilation, 0) for compilation in compilations], dimensions=given)
    assert memory.dimensions == expected
    assert memory.size == 24


@pytest.mark.parametrize("given", [(5,), (2, 2), (4, 1)], ids=str)
def test_dimensions_that_contradict_roles(device: nnvk.Device, given: Shape) -> None:
    compilation = compiled(increment_model(), device)
    desc = MemoryDesc()
    desc.add_input_role(compilation, 0)
    with raises(ResultCode.BAD_DATA, "contradict"):
        desc.set_dimensions(given)
    other = MemoryDesc()
    other.set_dimensions(given)
    with raises(ResultCode.BAD_DATA, "contradict"):
        other.add_input_role(compilation, 0)


@pytest.mark.parametrize("given", [(2, 4), (4, 3), (0, 4)], ids=str)
def test_one_dimension_that_contradicts_a_role(device: nnvk.Device, given: Shape) -> None:
    desc = MemoryDesc()
    desc.add_input_role(compiled(unary_model(type_=f32(2, 3)), device), 0)
    with raises(ResultCode.BAD_DATA, "contradict"):
        desc.set_dimensions(given)


@pytest.mark.parametrize("type_", [f32(), f32(0, 2), f32(3, 0)], ids=str)
def test_memory_of_open_dimensions_is_not_to_be_had(device: nnvk.Device, type_: OperandType) -> None:
    with raises(ResultCode.OP_FAILED, "needs all its dimensions"):
        device_memory(inputs=[(compiled(unary_model(type_=type_), device), 0)])


def test_the_descriptor_may_go(device: nnvk.Device) -> None:
    memory = device_memory(outputs=[(compiled(increment_model(), device), 0)])
    gc.collect()
    assert memory.size == 16


# --- what it holds -----------------------------------------------------------------------------------------------


def test_only_in_its_roles(device: nnvk.Device) -> None:
    compilation, other = compiled(add_model(FOUR), device), compiled(add_model(FOUR), device)
    memory = device_memory(inputs=[(compilation, 1)])
    run = nnvk.Execution(compilation)
    run.set_input_from_memory(1, memory)
    with raises(ResultCode.BAD_DATA, "role"):
        run.set_input_from_memory(0, memory)
    with raises(ResultCode.BAD_DATA, "role"):
        run.set_output_from_memory(0, memory)
    with raises(ResultCode.BAD_DATA, "role"):
        nnvk.Execution(other).set_input_from_memory(1, memory)


@pytest.mark.parametrize("kind", ["device", "host"])
def test_it_must_hold_something_to_be_an_input(device: nnvk.Device, kind: str) -> None:
    devices = [device] if kind == "device" else nnvk.get_devices()
    compilations = [compiled(increment_model(), each) for each in devices]
    memory = device_memory(inputs=[(compilation, 0) for compilation in compilations])
    output = np.zeros(4, np.float32)
    run = execution(compilations[0], [memory], [output], reusable=True)
    assert not memory.is_initialized
    for compute in (run.compute, run.start_compute, lambda: run.start_compute_with_dependencies([])):
        with raises(ResultCode.OP_FAILED, "not initialised"):
            compute()
    Memory.copy(shared_memory(np.full(4, 7, np.float32)), memory)
    run.compute()
    assert (output == 8).all()


@pytest.mark.parametrize("is_initialised", [False, True])
def test_it_is_no_input_and_output_at_once(device: nnvk.Device, is_initialised: bool) -> None:
    compilation = compiled(increment_model(), device)
    memory = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)])
    if is_initialised:
        Memory.copy(shared_memory(np.zeros(4, np.float32)), memory)
    run = execution(compilation, [memory], [memory], reusable=True)
    for compute in (run.compute, run.start_compute, lambda: run.start_compute_with_dependencies([])):
        with raises(ResultCode.BAD_DATA, "output 0 is device memory that the same execution uses already"):
            compute()


@pytest.mark.parametrize("way", ["sync", "async", "burst", "fenced"])
@pytest.mark.parametrize("which", ["increments", "a loop"])
def test_an_update_role_lets_executions_update_memory(device: nnvk.Device, which: str, way: str) -> None:
    number = 0 if which == "increments" else 1
    compilation = compiled(while_model() if number else increment_model(), device)
    memory = updated_memory(compilation, (number, 0))
    assert memory.buffer is not None
    run = execution(compilation, [*[np.array([1], np.int32)] * number, memory], [memory], reusable=True)
    with raises(ResultCode.OP_FAILED, "not initialised"):
        run.compute()
    Memory.copy(shared_memory(np.arange(4, dtype=np.float32)), memory)
    burst = nnvk.Burst(compilation)
    computes = {
        "sync": run.compute,
        "async": lambda: run.start_compute().wait(),
        "burst": lambda: run.burst_compute(burst),
        "fenced": lambda: run.start_compute_with_dependencies([]).wait(),
    }
    for _ in range(3):
        computes[way]()
    np.testing.assert_array_equal(read(memory), np.arange(4) + 3 if which == "increments" else np.arange(4) * 8)


def test_fenced_executions_update_memory_in_turn(device: nnvk.Device) -> None:
    compilation = compiled(increment_model(), device)
    memory = updated_memory(compilation, (0, 0))
    Memory.copy(shared_memory(np.zeros(4, np.float32)), memory)
    events: list[nnvk.Event] = []
    for _ in range(7):
        events = [execution(compilation, [memory], [memory]).start_compute_with_dependencies(events)]
    events[0].wait()
    np.testing.assert_array_equal(read(memory), [7] * 4)


@pytest.mark.parametrize("is_loop", [False, True])
def test_updated_inputs_are_read_as_they_were(device: nnvk.Device, is_loop: bool) -> None:
    """Two memories that change places, and a difference of both; the outputs of a loop without turns are its inputs."""
    build = Builder()
    a, b = build.operand(FOUR), build.operand(FOUR)
    zero = build.value(np.zeros(4, np.float32))
    if is_loop:
        whole = while_model_of_two()
        counter = build.value(np.zeros(1, np.int32))
        inputs = [*map(build.reference, whole), counter, a, b]
        results = build.outputs(OperationCode.WHILE, inputs, COUNTER, FOUR, FOUR)[:0:-1]
    else:
        results = [build.operation(OperationCode.ADD, [each, zero], FOUR) for each in (b, a)]
    difference = build.operation(OperationCode.SUB, [a, b], FOUR)
    compilation = compiled(build.finish([a, b], [*results, difference]), device)
    memories = [updated_memory(compilation, (place, place)) for place in range(2)]
    for memory, value in zip(memories, (5, 2), strict=True):
        Memory.copy(shared_memory(np.full(4, value, np.float32)), memory)
    output = np.zeros(4, np.float32)
    run = execution(compilation, memories, [*memories, output], reusable=True)
    for turn in range(3):
        run.compute()
        found = [float(values[3]) for values in (*map(read, memories), output)]
        assert found == ([2, 5, 3], [5, 2, -3])[turn % 2]


def while_model_of_two() -> list[nnvk.Model]:
    """The condition and the body of a loop with a counter and two tensors."""
    models = []
    for is_body in (False, True):
        build = Builder()
        counter, a, b = build.operand(COUNTER), build.operand(FOUR), build.operand(FOUR)
        limit, one = (build.constant(COUNTER, np.array([number], np.int32)) for number in (0, 1))
        outputs = [build.operation(OperationCode.GREATER, [counter, limit], BOOL8)]
        if is_body:
            outputs = [build.operation(OperationCode.SUB, [counter, one], COUNTER)]
            outputs += [build.operation(OperationCode.ADD, [each, each], FOUR) for each in (a, b)]
        models.append(build.finish([counter, a, b], outputs))
    return models


def test_update_roles_are_those_of_one_input_and_one_output(device: nnvk.Device) -> None:
    build = Builder()
    a, b = build.operand(FOUR), build.operand(FOUR)
    outputs = [build.operation(code, [a, b], FOUR) for code in (OperationCode.MAXIMUM, OperationCode.MINIMUM)]
    compilation = compiled(build.finish([a, b], outputs), device)
    memory = updated_memory(compilation, (0, 0), (1, 1))
    array, output = np.ones(4, np.float32), np.zeros(4, np.float32)
    for inputs, targets in (
        ([memory, memory], [memory, output]),
        ([memory, array], [output, memory]),
        ([memory, array], [memory, memory]),
        ([array, array], [memory, memory]),
    ):
        with raises(ResultCode.BAD_DATA, "device memory that the same execution uses already"):
            execution(compilation, inputs, targets).compute()
    Memory.copy(shared_memory(np.zeros(4, np.float32)), memory)
    execution(compilation, [memory, array], [memory, output]).compute()
    execution(compilation, [array, memory], [output, memory]).compute()
    np.testing.assert_array_equal(read(memory), [1] * 4)


def test_update_roles_that_can_not_be(device: nnvk.Device, cpu: nnvk.Device, gpu: nnvk.Device) -> None:
    compilation = compiled(increment_model(), device)
    for source, target, message in ((1, 0, "input 1 does not exist"), (0, 1, "output 1 does not exist")):
        desc = MemoryDesc()
        with raises(ResultCode.BAD_DATA, message):
            desc.add_update_role(compilation, source, target)
        with raises(ResultCode.BAD_DATA, "at least one role"):
            desc.finish()
    repairing = nnvk.Compilation(increment_model(), [device])
    repairing.set_verified("repair")
    repairing.finish()
    with raises(ResultCode.BAD_DATA, 'can.t have roles of a compilation with verified="repair"'):
        MemoryDesc().add_update_role(repairing, 0, 0)
    desc = MemoryDesc()
    for each in (cpu, gpu):
        desc.add_update_role(compiled(increment_model(), each), 0, 0)
    desc.finish()
    with raises(ResultCode.OP_FAILED, "on the one device of all its roles"):
        Memory.create_from_desc(desc)


def test_an_output_that_fails_holds_nothing(cpu: nnvk.Device) -> None:
    driver = Failing(cpu.driver)
    compilation = compiled(increment_model(), nnvk.Device(driver))
    memory = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)])
    run = execution(compilation, [np.ones(4, np.float32)], [memory], reusable=True)
    run.compute()
    assert memory.is_initialized
    np.testing.assert_array_equal(read(memory), [2] * 4)
    driver.fail["execute"] = lambda: NnapiError(ResultCode.OP_FAILED, "it fails")
    for compute in (run.compute, lambda: run.start_compute().wait()):
        with raises(ResultCode.OP_FAILED):
            compute()
        assert not memory.is_initialized
        with raises(ResultCode.BAD_DATA, "not initialised"):
            read(memory)
        Memory.copy(shared_memory(16), memory)
        assert memory.is_initialized
    driver.fail.clear()
    run.compute()
    np.testing.assert_array_equal(read(memory), [2] * 4)


def test_dimensions_at_execution_must_be_those_of_the_memory(device: nnvk.Device) -> None:
    compilation = compiled(unary_model(type_=f32(0)), device)
    memory = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)], dimensions=(4,))
    run = nnvk.Execution(compilation)
    with raises(ResultCode.BAD_DATA, "dimensions"):
        run.set_input_from_memory(0, memory, type=f32(5))
    with raises(ResultCode.BAD_DATA, "dimensions"):
        run.set_output_from_memory(0, memory, type=f32(5))
    run.set_input(0, np.ones(4, np.float32))
    run.set_output_from_memory(0, memory, type=FOUR)
    run.compute()
    np.testing.assert_array_equal(read(memory), [1] * 4)


@pytest.mark.parametrize("size", [3, 5])
def test_an_output_of_other_dimensions_than_the_memory(device: nnvk.Device, size: int) -> None:
    compilation = compiled(unary_model(type_=f32(0)), device)
    memory = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)], dimensions=(4,))
    Memory.copy(shared_memory(16), memory)
    run = execution(compilation, [np.ones(size, np.float32)], [memory])
    with pytest.raises(NnapiError) as caught:
        run.compute()
    # A driver's buffer may have room for more than the tensor.
    assert caught.value.code in (ResultCode.OP_FAILED, ResultCode.OUTPUT_INSUFFICIENT_SIZE)
    assert run.get_output_operand_dimensions(0) == (size,)
    assert not memory.is_initialized


def test_fenced_executions_hand_it_on(device: nnvk.Device) -> None:
    """An input that holds nothing yet is fine where an execution under way fills it."""
    compilation = compiled(increment_model(), device)
    memories = [device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)]) for _ in range(4)]
    pipe = Pipe()
    event = execution(compilation, [np.zeros(4, np.float32)], [memories[0]]).start_compute_with_dependencies(
        [pipe.event]
    )
    events = [event]
    for source, target in itertools.pairwise(memories):
        assert not source.is_initialized
        event = execution(compilation, [source], [target]).start_compute_with_dependencies([events[-1]])
        events.append(event)
    pipe.signal()
    for event in events:
        event.wait()
    np.testing.assert_array_equal(read(memories[-1]), [4] * 4)
    np.testing.assert_array_equal(read(memories[0]), [1] * 4)


def test_dependencies_do_not_excuse_memory_that_nobody_fills(device: nnvk.Device) -> None:
    compilation = compiled(increment_model(), device)
    memory = device_memory(inputs=[(compilation, 0)])
    pipe = Pipe()
    run = execution(compilation, [memory], [np.zeros(4, np.float32)])
    with raises(ResultCode.OP_FAILED, "not initialised"):
        run.start_compute_with_dependencies([pipe.event])


def test_memory_of_a_scalar(cpu: nnvk.Device) -> None:
    build = Builder()
    source, axis = build.operand(f32(4)), build.operand(OperandType(OperandCode.INT32))
    model = build.finish([source, axis], [build.operation(OperationCode.EXPAND_DIMS, [source, axis], f32())])
    compilation = compiled(model, cpu)
    memory = device_memory(inputs=[(compilation, 1)])
    assert memory.size == 4
    Memory.copy(shared_memory(np.array([1], np.int32)), memory)
    output = np.zeros((4, 1), np.float32)
    run = execution(compilation, [np.ones(4, np.float32), memory], [output])
    run.compute()
    assert run.get_output_operand_dimensions(0) == (4, 1)
    desc = MemoryDesc()
    desc.add_input_role(compilation, 1)
    with raises(ResultCode.BAD_DATA, "scalar"):
        desc.set_dimensions([1])


def test_a_role_of_a_scalar_after_dimensions(cpu: nnvk.Device) -> None:
    """In either order they contradict each other, and what is refused changes nothing."""
    build = Builder()
    source = build.operand(f32(3, 4))
    rank = build.operation(OperationCode.RANK, [source], OperandType(OperandCode.INT32))
    compilation = compiled(build.finish([source], [rank]), cpu)
    desc = MemoryDesc()
    desc.set_dimensions([2])
    with raises(ResultCode.BAD_DATA, "a scalar has no dimensions"):
        desc.add_output_role(compilation, 0)
    assert not desc.roles
    with raises(ResultCode.BAD_DATA, "at least one role"):
        desc.finish()
    desc = MemoryDesc()
    desc.add_output_role(compilation, 0)
    desc.set_dimensions([])
    desc.finish()
    assert Memory.create_from_desc(desc).size == 4


def test_device_memory_is_less_than_4_gib(cpu: nnvk.Device) -> None:
    desc = MemoryDesc()
    desc.add_output_role(compiled(unary_model(type_=f32(0, 0)), cpu), 0)
    desc.set_dimensions([2**16, 2**16])
    desc.finish()
    with raises(ResultCode.BAD_DATA, "4 GiB"):
        Memory.create_from_desc(desc)


# --- on the device -----------------------------------------------------------------------------------------------


def test_a_chain_of_ten_executions_transfers_nothing_to_the_host(gpu: nnvk.Device) -> None:
    driver = gpu.driver
    assert isinstance(driver, VulkanDevice)
    compilation = compiled(increment_model(), gpu)
    ping, pong = (device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)]) for _ in range(2))
    execution(compilation, [np.zeros(4, np.float32)], [ping]).compute()
    before = driver.gpu.counters.bytes_from_host, driver.gpu.counters.bytes_to_host
    for number in range(10):
        execution(compilation, [(ping, pong)[number % 2]], [(pong, ping)[number % 2]]).compute()
    assert (driver.gpu.counters.bytes_from_host, driver.gpu.counters.bytes_to_host) == before
    output = np.zeros(4, np.float32)
    execution(compilation, [ping], [output]).compute()
    assert (output == 12).all()
    assert driver.gpu.counters.bytes_to_host == before[1] + 16


def test_the_chain_may_be_in_flight_at_once(gpu: nnvk.Device) -> None:
    driver = gpu.driver
    assert isinstance(driver, VulkanDevice)
    compilation = compiled(increment_model(), gpu)
    memories = [device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)]) for _ in range(11)]
    execution(compilation, [np.zeros(4, np.float32)], [memories[0]]).compute()
    before = driver.gpu.counters.bytes_from_host, driver.gpu.counters.bytes_to_host
    events: list[nnvk.Event] = []
    for source, target in itertools.pairwise(memories):
        events.append(execution(compilation, [source], [target]).start_compute_with_dependencies(events[-1:]))
    for event in events:
        event.wait()
    assert (driver.gpu.counters.bytes_from_host, driver.gpu.counters.bytes_to_host) == before
    np.testing.assert_array_equal(read(memories[-1]), [11] * 4)


def test_roles_in_several_compilations(device: nnvk.Device) -> None:
    first, second, third = (compiled(increment_model(step), device) for step in (1, 10, 100))
    memory = device_memory(inputs=[(second, 0), (third, 0)], outputs=[(first, 0), (second, 0)])
    assert memory.buffer is not None
    source, output = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for writer, expected in ((first, 1), (second, 10)):
        execution(writer, [source], [memory]).compute()
        for reader, step in ((second, 10), (third, 100)):
            execution(reader, [memory], [output]).compute()
            assert (output == expected + step).all()


def test_roles_on_several_devices(cpu: nnvk.Device, gpu: nnvk.Device) -> None:
    first, second = compiled(increment_model(1), gpu), compiled(increment_model(10), cpu)
    memory = device_memory(inputs=[(second, 0)], outputs=[(first, 0)])
    assert memory.buffer is None  # it is the host's
    output = np.zeros(4, np.float32)
    execution(first, [output], [memory]).compute()
    execution(second, [memory], [output]).compute()
    assert (output == 11).all()


def test_roles_in_a_model_of_several_steps(cpu: nnvk.Device) -> None:
    compilation = compiled(while_model(), nnvk.get_device("vulkan-0"), cpu)
    memory = device_memory(inputs=[(compilation, 1)], outputs=[(compilation, 0)])
    Memory.copy(shared_memory(np.ones(4, np.float32)), memory)
    output = np.zeros(4, np.float32)
    execution(compilation, [np.array([3], np.int32), memory], [output]).compute()
    assert (output == 8).all()
    execution(compilation, [np.array([2], np.int32), output], [memory]).compute()
    np.testing.assert_array_equal(read(memory), [32] * 4)


def test_a_device_without_memory_of_its_own(cpu: nnvk.Device) -> None:
    class Bare(Decorated):
        def allocate(self, type: OperandType, dimensions: Shape):
            raise NnapiError(ResultCode.OP_FAILED, "none")

    compilation = compiled(increment_model(), nnvk.Device(Bare(cpu.driver)))
    memory = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)])
    assert memory.buffer is None
    execution(compilation, [np.zeros(4, np.float32)], [memory]).compute()
    output = np.zeros(4, np.float32)
    execution(compilation, [memory], [output]).compute()
    assert (output == 2).all()


def test_memory_of_chosen_devices() -> None:
    """Without fallback: what the device has nobody else can read."""
    compilation = compiled(increment_model())
    memory = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)])
    execution(compilation, [np.zeros(4, np.float32)], [memory]).compute()
    output = np.zeros(4, np.float32)
    execution(compilation, [memory], [output]).start_compute().wait()
    assert (output == 2).all()


def test_new_memory_does_not_show_what_was_there(device: nnvk.Device) -> None:
    compilation = compiled(unary_model(type_=f32(1024)), device)
    secret = np.full(1024, 1234.5, np.float32)
    for _ in range(5):
        memory = device_memory(outputs=[(compilation, 0)])
        execution(compilation, [secret], [memory]).compute()
        del memory
        gc.collect()
        fresh = device_memory(inputs=[(compilation, 0)])
        assert fresh.buffer is not None
        content = np.ones(4096, np.uint8)
        fresh.buffer.copy_to(content)
        assert not content.any()


def test_too_much_memory(device: nnvk.Device) -> None:
    type_ = OperandType(F32, (1023, 1024, 1024))
    compilation = compiled(unary_model(type_=f32(0, 0, 0)), device)
    desc = MemoryDesc()
    desc.add_input_role(compilation, 0)
    desc.set_dimensions(type_.dimensions)
    desc.finish()
    try:
        memory = Memory.create_from_desc(desc)
    except NnapiError as error:
        assert error.code is ResultCode.OUT_OF_MEMORY
    else:
        assert memory.size == type_.size  # pages that nobody has touched cost nothing
    small = device_memory(inputs=[(compiled(increment_model(), device), 0)])
    assert small.size == 16
