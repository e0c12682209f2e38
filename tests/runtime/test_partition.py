"""Partitioning: few and large parts, and the same result whatever the cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from builder import Builder
from decorators import Decorated, Refusing
from samples import (
    BOOL8,
    COUNTER,
    F32,
    INT,
    chain_model,
    compiled,
    execution,
    f32,
    if_model,
    raises,
    unary_model,
    while_model,
)

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode
from nnvk.hal import IDevice, Support
from nnvk.runtime.execution_plan import ControlFlowPartition
from nnvk.types.model import Lifetime, Model

FOUR = f32(4)
A, B = OperationCode.NEG, OperationCode.ABS


class Only(Decorated):
    """Runs certain operations, and nothing else."""

    def __init__(self, inner: IDevice, *codes: OperationCode, name: str = "") -> None:
        super().__init__(inner, name)
        self._codes = codes

    def get_supported_operations(self, model: Model) -> list[Support]:
        return [
            Support(None if operation.code in self._codes else f"{operation} is none of mine")
            for operation in model.operations
        ]


def partitions(compilation: nnvk.Compilation) -> list[tuple[str, tuple[int, ...]]]:
    """Return the device and the operations of each partition."""
    return [(partition.device.name, partition.operations) for partition in compilation.partitions]


@pytest.fixture
def first(cpu: nnvk.Device) -> nnvk.Device:
    """A device that runs NEG only."""
    return nnvk.Device(Only(cpu.driver, A, name="first"))


@pytest.fixture
def second(cpu: nnvk.Device) -> nnvk.Device:
    """A device that runs ABS only."""
    return nnvk.Device(Only(cpu.driver, B, name="second"))


# --- cuts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([A, A, A], [("first", (0, 1, 2))]),
        ([A, B], [("first", (0,)), ("second", (1,))]),
        ([A, B, A, B], [("first", (0,)), ("second", (1,)), ("first", (2,)), ("second", (3,))]),
        ([B, B, A, A, B], [("second", (0, 1)), ("first", (2, 3)), ("second", (4,))]),
    ],
    ids=str,
)
def test_a_chain(
    first: nnvk.Device, second: nnvk.Device, codes: Sequence[OperationCode], expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    compilation = compiled(chain_model(codes, FOUR), first, second)
    assert partitions(compilation) == expected
    (output,) = nnvk.run(compilation, [np.array([1, -2, 3, -4], np.float32)])
    reference = nnvk.run(
        compiled(chain_model(codes, FOUR), nnvk.get_device("nnapi-reference")), [np.array([1, -2, 3, -4], np.float32)]
    )
    np.testing.assert_array_equal(output, reference[0])


def test_branches_are_gathered(first: nnvk.Device, second: nnvk.Device) -> None:
    """Eight branches NEG -> ABS: two partitions, not sixteen."""
    build = Builder()
    source = build.operand(FOUR)
    results = []
    for _ in range(8):
        negated = build.operation(A, [source], FOUR)
        results.append(build.operation(B, [negated], FOUR))
    compilation = compiled(build.finish([source], results), first, second)
    assert partitions(compilation) == [("first", tuple(range(0, 16, 2))), ("second", tuple(range(1, 16, 2)))]
    for output in nnvk.run(compilation, [np.array([1, -2, 3, -4], np.float32)]):
        np.testing.assert_array_equal(output, [1, 2, 3, 4])


def test_the_order_of_turns_is_chosen_well(first: nnvk.Device, second: nnvk.Device) -> None:
    """Beginning with the first device takes three partitions, with the second one two."""
    build = Builder()
    source = build.operand(FOUR)
    alone = build.operation(A, [source], FOUR)  # ready at once, but so is what leads to the other
    positive = build.operation(B, [source], FOUR)
    negated = build.operation(A, [positive], FOUR)
    compilation = compiled(build.finish([source], [alone, negated]), first, second)
    assert partitions(compilation) == [("second", (1,)), ("first", (0, 2))]


def test_the_device_with_most_to_do_comes_next(cpu: nnvk.Device, first: nnvk.Device, second: nnvk.Device) -> None:
    """Once the first device waits, two operations of the third one release another of the second one."""
    third = nnvk.Device(Only(cpu.driver, OperationCode.FLOOR, name="third"))
    build = Builder()
    source = build.operand(FOUR)
    negated = build.operation(A, [source], FOUR)
    positive = build.operation(B, [negated], FOUR)
    rounded = [build.operation(OperationCode.FLOOR, [negated], FOUR) for _ in range(2)]
    last = build.operation(B, [rounded[0]], FOUR)
    compilation = compiled(build.finish([source], [positive, rounded[1], last]), first, second, third)
    assert partitions(compilation) == [("first", (0,)), ("third", (2, 3)), ("second", (1, 4))]


def test_operations_that_are_alone_have_a_partition_each(cpu: nnvk.Device) -> None:
    """Two branches that are ready at once, of which the runtime takes the decisions."""
    device = nnvk.Device(Only(cpu.driver, OperationCode.ADD, OperationCode.MUL))
    branches = []
    for code in (OperationCode.ADD, OperationCode.MUL):
        build = Builder()
        a, b = build.operand(FOUR), build.operand(FOUR)
        branches.append(build.finish([a, b], [build.operation(code, [a, b], FOUR)]))
    build = Builder()
    condition, x, y = build.operand(BOOL8), build.operand(FOUR), build.operand(FOUR)
    results = [
        build.operation(OperationCode.IF, [condition, *map(build.reference, models), x, y], FOUR)
        for models in (branches, branches[::-1])
    ]
    compilation = compiled(build.finish([condition, x, y], results), device)
    assert [partition.operations for partition in compilation.plan.partitions] == [(0,), (1,)]
    outputs = nnvk.run(compilation, [np.array([True]), np.full(4, 2, np.float32), np.full(4, 3, np.float32)])
    assert [output.tolist() for output in outputs] == [[5] * 4, [6] * 4]


def test_a_device_that_runs_everything_takes_everything(cpu: nnvk.Device, first: nnvk.Device) -> None:
    compilation = compiled(chain_model([A, B, A], FOUR), cpu, first)
    assert partitions(compilation) == [("nnapi-reference", (0, 1, 2))]
    assert compilation.plan.single is not None


def test_an_operation_that_nobody_runs(first: nnvk.Device, second: nnvk.Device) -> None:
    model = chain_model([A, OperationCode.FLOOR], FOUR)
    with raises(ResultCode.BAD_DATA, "FLOOR.*first: FLOOR is none of mine; second: FLOOR is none of mine"):
        compiled(model, first, second)


def test_parts_get_the_constants_they_need(first: nnvk.Device, cpu: nnvk.Device) -> None:
    build = Builder()
    source = build.operand(FOUR)
    negated = build.operation(A, [source], FOUR)
    constant = build.constant(FOUR, np.arange(4, dtype=np.float32))
    total = build.operation(OperationCode.ADD, [negated, constant], FOUR)
    model = build.finish([source], [total])
    compilation = compiled(
        model, nnvk.Device(Only(cpu.driver, A, name="neg")), nnvk.Device(Decorated(cpu.driver, "rest"))
    )
    neg, rest = compilation.partitions
    assert neg.device.name == "neg"
    assert Lifetime.CONSTANT not in {operand.lifetime for operand in neg.part.model.operands}
    values = [operand.value for operand in rest.part.model.operands if operand.lifetime is Lifetime.CONSTANT]
    assert [value.size for value in values if value is not None] == [4, 1]
    assert rest.part.inputs == (1,)
    (output,) = nnvk.run(compilation, [np.ones(4, np.float32)])
    np.testing.assert_array_equal(output, [-1, 0, 1, 2])


def test_only_what_is_read_elsewhere_leaves_a_part(first: nnvk.Device, second: nnvk.Device) -> None:
    build = Builder()
    source = build.operand(FOUR)
    one = build.operation(A, [source], FOUR)
    two = build.operation(A, [one], FOUR)
    three = build.operation(B, [two], FOUR)
    compilation = compiled(build.finish([source], [three]), first, second)
    neg, absolute = compilation.partitions
    assert (neg.part.inputs, neg.part.outputs) == ((source,), (two,))
    assert (absolute.part.inputs, absolute.part.outputs) == ((two,), (three,))


@pytest.mark.parametrize("type_", [f32(0), f32()], ids=str)
def test_unknown_dimensions_between_parts(first: nnvk.Device, second: nnvk.Device, type_: OperandType) -> None:
    compilation = compiled(chain_model([A, B, A], type_), first, second)
    for size in (1, 5, 2):
        source = np.arange(size, dtype=np.float32)
        run = nnvk.Execution(compilation)
        output = np.zeros(8, np.float32)
        run.set_input(0, source)
        run.set_output(0, output)
        run.compute()
        np.testing.assert_array_equal(output[:size], -source)
        assert run.get_output_operand_dimensions(0) == (size,)
    with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE):
        short = execution(compilation, [np.ones(5, np.float32)], [np.zeros(4, np.float32)])
        short.compute()
    assert short.get_output_operand_dimensions(0) == (5,)


def test_an_intermediate_result_that_is_an_output_too_small(first: nnvk.Device, second: nnvk.Device) -> None:
    """The dimensions of the second output are not known then."""
    build = Builder()
    source = build.operand(f32(0))
    one = build.operation(A, [source], f32(0))
    model = build.finish([source], [one, build.operation(B, [one], f32(0))])
    run = execution(
        compiled(model, first, second), [np.ones(4, np.float32)], [np.zeros(3, np.float32), np.zeros(9, np.float32)]
    )
    with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE, "output 0"):
        run.compute()
    assert run.get_output_operand_dimensions(0) == (4,)
    assert run.get_output_operand_dimensions(1) == (0,)


def test_outputs_that_are_left_out_are_still_computed(first: nnvk.Device, second: nnvk.Device) -> None:
    build = Builder()
    source = build.operand(FOUR)
    one = build.operation(A, [source], FOUR)
    model = build.finish([source], [one, build.operation(B, [one], FOUR)])
    output = np.zeros(4, np.float32)
    run = execution(compiled(model, first, second), [np.array([1, -2, 3, -4], np.float32)], [None, output])
    run.compute()
    np.testing.assert_array_equal(output, [1, 2, 3, 4])
    assert run.get_output_operand_dimensions(0) == (4,)


def test_a_part_without_inputs(first: nnvk.Device, cpu: nnvk.Device) -> None:
    build = Builder()
    source, constant = build.operand(FOUR), build.constant(FOUR, np.arange(4, dtype=np.float32))
    negated = build.operation(A, [constant], FOUR)
    model = build.finish([source], [build.operation(OperationCode.ADD, [source, negated], FOUR)])
    compilation = compiled(model, nnvk.Device(Only(cpu.driver, A)), nnvk.Device(Only(cpu.driver, OperationCode.ADD)))
    (output,) = nnvk.run(compilation, [np.ones(4, np.float32)])
    np.testing.assert_array_equal(output, [1, 0, -1, -2])


# --- any cut -----------------------------------------------------------------------------------------------------


def network() -> nnvk.Model:
    """Two dozen operations with branches, several outputs, and constants that are shared."""
    generator = np.random.default_rng(5)
    build = Builder()
    a, b = build.operand(f32(3, 4)), build.operand(f32(3, 4))
    constants = [build.constant(f32(3, 4), generator.normal(size=(3, 4)).astype(np.float32)) for _ in range(4)]
    values = [a, b]
    binary = [OperationCode.ADD, OperationCode.MUL, OperationCode.SUB, OperationCode.MAXIMUM, OperationCode.MINIMUM]
    unary = [OperationCode.TANH, OperationCode.RELU, OperationCode.ABS, OperationCode.LOGISTIC, OperationCode.NEG]
    for number in range(24):
        x, y = (values[int(generator.integers(len(values)))] for _ in range(2))
        if number % 3 == 2:
            values.append(build.operation(unary[number % 5], [x], f32(3, 4)))
        else:
            y = constants[number % 4] if number % 4 == 1 else y
            values.append(build.operation(binary[number % 5], [x, y], f32(3, 4)))
    return build.finish([a, b], [values[-1], values[-2], values[9]])


INPUTS = [
    np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4),
    np.linspace(1, -3, 12, dtype=np.float32).reshape(3, 4),
]


@pytest.mark.parametrize("seed", range(12))
def test_any_cut_gives_the_same(cpu: nnvk.Device, seed: int) -> None:
    model = network()
    reference = nnvk.run(compiled(model, cpu), INPUTS)
    picky = nnvk.Device(Refusing(cpu.driver, seed))
    compilation = compiled(model, picky, cpu)
    covered = sorted(number for partition in compilation.partitions for number in partition.operations)
    assert covered == list(range(len(model.frozen.operations)))
    for got, expected in zip(nnvk.run(compilation, INPUTS), reference, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(8))
def test_any_cut_between_two_kinds_of_devices(cpu: nnvk.Device, gpu: nnvk.Device, seed: int) -> None:
    model = network()
    reference = nnvk.run(compiled(model, cpu), INPUTS)
    compilation = compiled(model, nnvk.Device(Refusing(gpu.driver, seed)), cpu)
    assert len({partition.device for partition in compilation.partitions}) == 2
    run = execution(compilation, INPUTS, [np.zeros((3, 4), np.float32) for _ in range(3)], reusable=True)
    for compute in (
        run.compute,
        lambda: run.start_compute().wait(),
        lambda: run.burst_compute(nnvk.Burst(compilation)),
    ):
        compute()
    for got, expected in zip(nnvk.run(compilation, INPUTS), reference, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_three_devices(cpu: nnvk.Device, gpu: nnvk.Device) -> None:
    model = network()
    reference = nnvk.run(compiled(model, cpu), INPUTS)
    devices = [nnvk.Device(Refusing(cpu.driver, 1, 1.5)), nnvk.Device(Refusing(gpu.driver, 2, 1.5)), cpu]
    compilation = compiled(model, *devices)
    assert len({partition.device for partition in compilation.partitions}) == 3
    for got, expected in zip(nnvk.run(compilation, INPUTS), reference, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_the_decorator_s_hash_goes_with_the_operation(cpu: nnvk.Device) -> None:
    """The driver must support in a part what it supports in a model, else the runtime could not rely on it."""
    frozen = network().frozen
    driver = Refusing(cpu.driver, 3)
    support = [answer.supported for answer in driver.get_supported_operations(frozen)]
    assert any(support) and not all(support)
    assert [answer.supported for answer in driver.get_supported_operations(frozen)] == support
    assert [answer.supported for answer in Refusing(cpu.driver, 4).get_supported_operations(frozen)] != support


# --- control flow ------------------------------------------------------------------------------------------------


TWOS, THREES = np.full((2, 2), 2, np.float32), np.full((2, 2), 3, np.float32)
WHERE = {"cpu": ["nnapi-reference"], "both": ["vulkan-0", "nnapi-reference"], "vulkan": ["vulkan-0"], "chosen": []}
where = pytest.mark.parametrize("names", WHERE.values(), ids=WHERE)


@where
@pytest.mark.parametrize("taken", [True, False])
def test_if(names: list[str], taken: bool) -> None:
    compilation = compiled(if_model(), *map(nnvk.get_device, names))
    (output,) = nnvk.run(compilation, [np.array([taken]), TWOS, THREES])
    assert (output == (5 if taken else 6)).all()


@where
@pytest.mark.parametrize("times", [0, 1, 7])
def test_while(names: list[str], times: int) -> None:
    compilation = compiled(while_model(), *map(nnvk.get_device, names))
    (output,) = nnvk.run(compilation, [np.array([times], np.int32), np.ones(4, np.float32)])
    assert (output == 2**times).all()


def test_bodies_are_partitioned(gpu: nnvk.Device, cpu: nnvk.Device) -> None:
    refusing = nnvk.Device(Only(gpu.driver, OperationCode.SUB, OperationCode.GREATER))
    compilation = compiled(while_model(), refusing, cpu)
    (partition,) = compilation.plan.partitions
    assert isinstance(partition, ControlFlowPartition)
    assert compilation.plan.single is None
    assert {leaf.device for leaf in compilation.partitions} == {refusing, cpu}


def test_a_device_that_runs_all_of_control_flow_runs_it(gpu: nnvk.Device, cpu: nnvk.Device) -> None:
    for make in (if_model, while_model):
        compilation = compiled(make(), gpu, cpu)
        assert compilation.plan.single is not None
        assert [leaf.device for leaf in compilation.partitions] == [gpu]


@pytest.mark.parametrize("seed", range(6))
def test_any_cut_of_bodies(cpu: nnvk.Device, gpu: nnvk.Device, seed: int) -> None:
    for make, inputs, expected in (
        (if_model, [np.array([True]), TWOS, THREES], 5),
        (if_model, [np.array([False]), TWOS, THREES], 6),
        (while_model, [np.array([3], np.int32), np.ones(4, np.float32)], 8),
    ):
        for inner in (cpu, gpu):
            compilation = compiled(make(), nnvk.Device(Refusing(inner.driver, seed)), cpu)
            (output,) = nnvk.run(compilation, inputs)
            assert (output == expected).all()


def test_control_flow_that_no_device_runs_is_the_runtime_s(cpu: nnvk.Device) -> None:
    device = nnvk.Device(Only(cpu.driver, OperationCode.ADD, OperationCode.MUL))
    (output,) = nnvk.run(compiled(if_model(), device), [np.array([True]), TWOS, THREES])
    assert (output == 5).all()
    with raises(ResultCode.BAD_DATA, "GREATER"):
        compiled(while_model(), device)


def test_control_flow_amid_other_operations(cpu: nnvk.Device, gpu: nnvk.Device) -> None:
    """NEG, a loop inside a branch, ABS; with constants that go into the branch, and a result of it as an output."""
    build = Builder()
    counter, state, amount = build.operand(COUNTER), build.operand(FOUR), build.operand(FOUR)
    total = build.operation(OperationCode.ADD, [state, amount], FOUR)
    inner = [build.reference(model) for model in _loop_models()]
    _, result = build.outputs(OperationCode.WHILE, [*inner, counter, total], COUNTER, FOUR)
    branch = build.finish([counter, state, amount], [result])
    build = Builder()
    counter, state, amount = build.operand(COUNTER), build.operand(FOUR), build.operand(FOUR)
    other = build.finish([counter, state, amount], [build.operation(A, [state], FOUR)])
    build = Builder()
    condition, source = build.operand(BOOL8), build.operand(FOUR)
    arguments = [
        build.constant(COUNTER, np.array([1], np.int32)),
        build.operation(A, [source], FOUR),
        build.constant(FOUR, np.full(4, 3, np.float32)),
    ]
    models = [build.reference(branch), build.reference(other)]
    chosen = build.operation(OperationCode.IF, [condition, *models, *arguments], FOUR)
    model = build.finish([condition, source], [build.operation(B, [chosen], FOUR), chosen])
    for devices in ([cpu], [gpu, cpu], [gpu]):
        for taken, expected in ((True, 2 * (-1 + 3)), (False, 1)):
            absolute, raw = nnvk.run(compiled(model, *devices), [np.array([taken]), np.ones(4, np.float32)])
            assert (raw == expected).all()
            assert (absolute == abs(expected)).all()


def _loop_models() -> list[nnvk.Model]:
    """Condition and body of a loop that doubles its state while its counter is positive."""
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(FOUR)
    limit = build.constant(COUNTER, np.array([0], np.int32))
    condition = build.finish([counter, state], [build.operation(OperationCode.GREATER, [counter, limit], BOOL8)])
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(FOUR)
    one = build.constant(COUNTER, np.array([1], np.int32))
    less = build.operation(OperationCode.SUB, [counter, one], COUNTER)
    body = build.finish([counter, state], [less, build.operation(OperationCode.ADD, [state, state], FOUR)])
    return [condition, body]


@where
def test_a_branch_of_other_dimensions_than_declared(names: list[str]) -> None:
    branches = [unary_model(A, f32(0)), unary_model(B, f32(0))]
    build = Builder()
    condition, source = build.operand(BOOL8), build.operand(f32(0))
    inputs = [condition, *(build.reference(branch) for branch in branches), source]
    model = build.finish([condition, source], [build.operation(OperationCode.IF, inputs, FOUR)])
    compilation = compiled(model, *map(nnvk.get_device, names))
    (output,) = nnvk.run(compilation, [np.array([True]), np.ones(4, np.float32)])
    assert (output == -1).all()
    with raises(ResultCode.OP_FAILED, "IF"):
        nnvk.run(compilation, [np.array([True]), np.ones(5, np.float32)])


@where
def test_the_state_of_a_loop_may_grow(names: list[str]) -> None:
    """Its size is known only at the end."""
    growing = f32(0)
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(growing)
    limit = build.constant(COUNTER, np.array([0], np.int32))
    condition = build.finish([counter, state], [build.operation(OperationCode.GREATER, [counter, limit], BOOL8)])
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(growing)
    less = build.operation(OperationCode.SUB, [counter, build.constant(COUNTER, np.array([1], np.int32))], COUNTER)
    longer = build.operation(OperationCode.CONCATENATION, [state, state, build.constant(INT, 0)], growing)
    body = build.finish([counter, state], [less, longer])
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(growing)
    inputs = [build.reference(condition), build.reference(body), counter, state]
    _, result = build.outputs(OperationCode.WHILE, inputs, COUNTER, growing)
    compilation = compiled(build.finish([counter, state], [result]), *map(nnvk.get_device, names))
    for times in (0, 1, 4):
        (output,) = nnvk.run(compilation, [np.array([times], np.int32), np.arange(3, dtype=np.float32)])
        np.testing.assert_array_equal(output, np.tile(np.arange(3), 2**times))


def test_quantised_values_between_parts(cpu: nnvk.Device, gpu: nnvk.Device) -> None:
    type_ = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (7,), 0.5, -3)
    build = Builder()
    source = build.operand(type_)
    one = build.operation(OperationCode.RELU, [source], type_)
    two = build.operation(OperationCode.ADD, [one, one], type_)
    real = build.operation(OperationCode.DEQUANTIZE, [two], OperandType(F32, (7,)))
    model = build.finish([source], [real, one])
    values = np.array([-128, -100, -3, 0, 5, 60, 127], np.int8)
    reference = nnvk.run(compiled(model, cpu), [values])
    for seed in range(4):
        got = nnvk.run(compiled(model, nnvk.Device(Refusing(gpu.driver, seed)), cpu), [values])
        for array, expected in zip(got, reference, strict=True):
            np.testing.assert_array_equal(array, expected)
