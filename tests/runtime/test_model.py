"""Rules of ANeuralNetworksModel: building, values of operands, finishing."""

from __future__ import annotations

import gc
import mmap
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder import Builder
from samples import (
    F32,
    INT,
    add_model,
    compiled,
    device_memory,
    execution,
    f32,
    if_model,
    increment_model,
    label,
    raises,
    shared_memory,
    unary_model,
)

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode
from nnvk.types.model import Lifetime

PER_CHANNEL = OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (3, 2))


def test_operands_are_numbered_from_zero() -> None:
    model = nnvk.Model()
    assert [model.add_operand(f32(2)) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.add_operand(f32(2)),
        lambda model: model.set_operand_value(2, 0),
        lambda model: model.set_operand_value_from_memory(2, shared_memory(4), 0, 4),
        lambda model: model.set_operand_value_from_model(2, add_model()),
        lambda model: model.set_operand_symm_per_channel_quant_params(0, 0, [1.0]),
        lambda model: model.add_operation(OperationCode.RELU, [0], [1]),
        lambda model: model.identify_inputs_and_outputs([0, 1], [3]),
        lambda model: model.relax_computation_float32_to_float16(True),
        lambda model: model.finish(),
    ],
    ids=lambda call: call.__code__.co_names[0],
)
def test_a_finished_model_can_not_be_modified(call: Callable[[nnvk.Model], None]) -> None:
    model = add_model()
    with raises(ResultCode.BAD_STATE, "finish"):
        call(model)


def test_finish_needs_inputs_and_outputs_identified() -> None:
    build = Builder()
    build.operation(OperationCode.RELU, [build.operand(f32(2))], f32(2))
    with raises(ResultCode.BAD_DATA, "identify_inputs_and_outputs"):
        build.model.finish()
    with raises(ResultCode.BAD_STATE, "finish"):
        build.model.identify_inputs_and_outputs([0], [1])
    with raises(ResultCode.BAD_DATA, "identify_inputs_and_outputs"):
        nnvk.Model().finish()


def test_a_model_that_failed_to_finish_stays_invalid() -> None:
    build = Builder()
    source = build.operand(f32(2))
    build.operation(OperationCode.RELU, [source], f32(3))
    with raises(ResultCode.BAD_DATA, "RELU"):
        build.finish([source], [1])
    with raises(ResultCode.BAD_STATE):
        build.model.finish()
    with raises(ResultCode.BAD_STATE):
        build.model.add_operand(f32(2))
    with raises(ResultCode.BAD_STATE, "invalid"):
        nnvk.Compilation(build.model)


def test_what_needs_a_finished_model() -> None:
    build = Builder()
    with raises(ResultCode.BAD_STATE):
        nnvk.Compilation(build.model)
    with raises(ResultCode.BAD_STATE):
        build.model.get_supported_operations_for_devices(nnvk.get_devices())
    other = Builder()
    reference = other.operand(OperandType(OperandCode.MODEL))
    with raises(ResultCode.BAD_STATE):
        other.model.set_operand_value_from_model(reference, build.model)


# --- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elements", [1, 32, 33, 1000])
def test_up_to_128_bytes_are_copied_more_are_referred_to(elements: int) -> None:
    values = np.arange(elements, dtype=np.float32)
    build = Builder()
    index = build.constant(f32(elements), values)
    source = build.operand(f32(elements))
    model = build.finish([source], [build.operation(OperationCode.ADD, [source, index], f32(elements))])
    held = model.frozen.operands[index].value
    assert held is not None
    assert np.shares_memory(held, values) == (values.nbytes > 128)
    assert not held.flags.writeable
    assert values.flags.writeable


def test_a_referenced_value_lives_as_long_as_the_model() -> None:
    values = np.ones(100, np.float32)
    alive = weakref.ref(values)
    build = Builder()
    source = build.operand(f32(100))
    constant = build.constant(f32(100), values)
    model = build.finish([source], [build.operation(OperationCode.ADD, [source, constant], f32(100))])
    del values
    gc.collect()
    assert alive() is not None
    del model, build
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (f32(2, 2), np.zeros(3, np.float32)),
        (f32(2, 2), np.zeros((2, 2), np.float64)),
        (f32(2, 2), np.zeros((2, 2), np.int32)),
        (f32(2, 2), np.zeros((2, 2), ">f4")),
        (f32(2, 2), np.zeros((2, 4), np.float32)[:, ::2]),
        (f32(2, 2), b"\0" * 15),
        (f32(0, 2), np.zeros((0, 2), np.float32)),
        (f32(), np.zeros(1, np.float32)),
        (INT, 2.5),
        (INT, 2**40),
        (INT, [1, 2]),
        (OperandType(OperandCode.TENSOR_INT32, (2,)), [1.0, 2.5]),
        (OperandType(OperandCode.MODEL), b"\0" * 4),
        (f32(2, 3), np.ones((3, 2), np.float32)),
        (f32(2, 3), np.ones((1, 6), np.float32)),
        (f32(2, 3), [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]),
        (f32(2, 3), np.ones((2, 12), np.uint8)),
        (OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (2, 3), 1.0), np.ones((2, 3), np.uint8)),
    ],
    ids=label,
)
def test_values_that_do_not_fit(type_: OperandType, value: object) -> None:
    build = Builder()
    with raises(ResultCode.BAD_DATA, "operand 0"):
        build.constant(type_, value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (f32(2, 2), np.ones((2, 2), np.float32)),
        (f32(2, 2), np.ones(4, np.float32)),
        (f32(2, 2), np.ones(4, np.float32).view(np.uint8)),
        (f32(2, 2), np.ones(4, np.float32).tobytes()),
        (f32(2, 2), bytearray(np.ones(4, np.float32).tobytes())),
        (f32(2, 2), memoryview(np.ones((2, 2), np.float32))),
        (f32(2, 2), [[1, 1], [1, 1]]),
        (f32(1, 4), np.ones((4, 1), np.float32)),
        (OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (2, 3), 1.0), np.ones(6, np.uint8)),
        (OperandType(OperandCode.TENSOR_BOOL8, (2, 3)), np.ones((2, 3), np.uint8)),
        (OperandType(OperandCode.FLOAT32), 1),
        (OperandType(OperandCode.FLOAT16), np.float16(1)),
        (INT, np.int32(1)),
        (OperandType(OperandCode.BOOL), True),
        (OperandType(OperandCode.BOOL), np.array([1], np.uint8)),
    ],
    ids=label,
)
def test_values_may_be_arrays_buffers_and_numbers(type_: OperandType, value: object) -> None:
    build = Builder()
    source = build.operand(f32(2))
    index = build.constant(type_, value)
    model = build.finish([source], [build.operation(OperationCode.RELU, [source], f32(2))])
    held = model.frozen.operands[index].value
    assert held is not None
    assert held.dtype == type_.dtype
    assert held.shape == type_.dimensions
    assert (held == 1).all()


def test_a_value_can_be_replaced() -> None:
    build = Builder()
    source = build.operand(f32(1))
    amount = build.constant(f32(1), [1.0])
    build.model.set_operand_value(amount, [5.0])
    model = build.finish([source], [build.operation(OperationCode.ADD, [source, amount], f32(1))])
    (output,) = nnvk.run(compiled(model), [np.array([1], np.float32)])
    assert output == 6


@pytest.mark.parametrize("index", [-1, 1, 2**31])
def test_values_of_operands_that_do_not_exist(index: int) -> None:
    build = Builder()
    build.operand(INT)
    for call in (
        lambda: build.model.set_operand_value(index, 0),
        lambda: build.model.set_operand_value_from_memory(index, shared_memory(4), 0, 4),
        lambda: build.model.set_operand_value_from_model(index, add_model()),
        lambda: build.model.set_operand_symm_per_channel_quant_params(index, 0, [1.0]),
        lambda: build.model.add_operation(OperationCode.RELU, [index], [0]),
        lambda: build.model.add_operation(OperationCode.RELU, [0], [index]),
        lambda: build.model.identify_inputs_and_outputs([index], [0]),
    ):
        with raises(ResultCode.BAD_DATA, "does not exist"):
            call()


def test_an_omitted_optional_operand(device: nnvk.Device) -> None:
    """The layout of a pool may be left out; by omission it is NHWC."""
    build = Builder()
    source = build.operand(f32(1, 2, 2, 2))
    numbers = [build.constant(INT, number) for number in (nnvk.PaddingCode.VALID, 1, 1, 2, 2, nnvk.FuseCode.NONE)]
    layout = build.constant(OperandType(OperandCode.BOOL), None)
    output = build.operation(OperationCode.AVERAGE_POOL_2D, [source, *numbers, layout], f32(1, 1, 1, 2))
    model = build.finish([source], [output])
    assert model.frozen.operands[layout].lifetime is Lifetime.NO_VALUE
    picture = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    (average,) = nnvk.run(compiled(model, device), [picture])
    np.testing.assert_allclose(average[0, 0, 0], [3, 4])


def test_only_optional_operands_can_be_omitted() -> None:
    build = Builder()
    source, missing = build.operand(f32(2)), build.constant(f32(2), None)
    build.operation(OperationCode.MAXIMUM, [source, missing], f32(2))
    with raises(ResultCode.BAD_DATA, "omitted"):
        build.finish([source], [2])


# --- values in memory --------------------------------------------------------------------------------------------


def test_a_constant_from_a_file(device: nnvk.Device, tmp_path: Path) -> None:
    weights = np.arange(1024, dtype=np.float32)
    path = tmp_path / "weights"
    path.write_bytes(b"\0" * mmap.PAGESIZE + weights.tobytes())
    with path.open("rb") as file:
        memory = nnvk.Memory.create_from_fd(weights.nbytes, mmap.PROT_READ, file.fileno(), mmap.PAGESIZE)
    build = Builder()
    source, constant = build.operand(f32(4)), build.operand(f32(4))
    build.model.set_operand_value_from_memory(constant, memory, 400, 16)
    model = build.finish([source], [build.operation(OperationCode.ADD, [source, constant], f32(4))])
    held = model.frozen.operands[constant].value
    assert held is not None
    assert np.shares_memory(held, memory.slice(0, memory.size))  # not copied, however small
    (output,) = nnvk.run(compiled(model, device), [np.ones(4, np.float32)])
    np.testing.assert_array_equal(output, weights[100:104] + 1)


@pytest.mark.parametrize(("offset", "length"), [(0, 12), (0, 20), (-4, 16), (52, 16), (0, -16), (2, 16)], ids=str)
def test_values_from_memory_that_do_not_fit(offset: int, length: int) -> None:
    build = Builder()
    index = build.operand(f32(4))
    with raises(ResultCode.BAD_DATA):
        build.model.set_operand_value_from_memory(index, shared_memory(64), offset, length)


def test_device_memory_can_not_hold_constants(device: nnvk.Device) -> None:
    compilation = compiled(increment_model(), device)
    memory = device_memory(outputs=[(compilation, 0)])
    build = Builder()
    index = build.operand(f32(4))
    with raises(ResultCode.BAD_DATA, "opaque"):
        build.model.set_operand_value_from_memory(index, memory, 0, 16)


# --- operations and graph ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-1, 106, 10000, 1 << 16])
def test_operations_that_do_not_exist(code: int) -> None:
    build = Builder()
    with raises(ResultCode.BAD_DATA, "no operation"):
        build.model.add_operation(code, [build.operand(f32(2))], [build.operand(f32(2))])


@pytest.mark.parametrize("code", ["ADD", None, 0.0, OperationCode])
def test_codes_are_numbers(code: Any) -> None:
    build = Builder()
    with pytest.raises(TypeError, match="expected an OperationCode"):
        build.model.add_operation(code, [build.operand(f32(2))], [build.operand(f32(2))])


def test_codes_may_be_the_numbers_of_the_header() -> None:
    build = Builder()
    source = build.operand(OperandType(3, (2,)))  # type: ignore[arg-type]
    model = build.finish([source], [build.operation(19, [source], f32(2))])
    assert model.frozen.operations[0].code is OperationCode.RELU
    assert model.frozen.operands[0].type.code is F32


def test_an_operation_needs_an_output() -> None:
    build = Builder()
    with raises(ResultCode.BAD_DATA, "output"):
        build.model.add_operation(OperationCode.RELU, [build.operand(f32(2))], [])


def test_operations_may_come_in_any_order(device: nnvk.Device) -> None:
    model = nnvk.Model()
    a, b, c, d = (model.add_operand(f32(2)) for _ in range(4))
    model.add_operation(OperationCode.FLOOR, [c], [d])
    model.add_operation(OperationCode.ABS, [b], [c])
    model.add_operation(OperationCode.NEG, [a], [b])
    model.identify_inputs_and_outputs([a], [d])
    model.finish()
    codes = [operation.code for operation in model.frozen.operations]
    assert codes == [OperationCode.NEG, OperationCode.ABS, OperationCode.FLOOR]
    (output,) = nnvk.run(compiled(model, device), [np.array([1.5, -2.5], np.float32)])
    np.testing.assert_array_equal(output, [1, 2])


def test_cycles_are_refused() -> None:
    model = nnvk.Model()
    a, b, c = (model.add_operand(f32(2)) for _ in range(3))
    model.add_operation(OperationCode.MAXIMUM, [a, c], [b])
    model.add_operation(OperationCode.NEG, [b], [c])
    model.identify_inputs_and_outputs([a], [c])
    with raises(ResultCode.BAD_DATA, "cycle"):
        model.finish()


def test_an_operation_can_not_read_what_it_writes() -> None:
    model = nnvk.Model()
    a, b = model.add_operand(f32(2)), model.add_operand(f32(2))
    model.add_operation(OperationCode.MAXIMUM, [a, b], [b])
    model.identify_inputs_and_outputs([a], [b])
    with raises(ResultCode.BAD_DATA, "cycle"):
        model.finish()


def test_an_operand_has_one_writer() -> None:
    model = nnvk.Model()
    a, b = model.add_operand(f32(2)), model.add_operand(f32(2))
    model.add_operation(OperationCode.NEG, [a], [b])
    model.add_operation(OperationCode.ABS, [a], [b])
    model.identify_inputs_and_outputs([a], [b])
    with raises(ResultCode.BAD_DATA, "two operations"):
        model.finish()


@pytest.mark.parametrize("target", ["input", "constant", "omitted"])
def test_inputs_and_constants_are_not_written(target: str) -> None:
    build = Builder()
    a = build.operand(f32(2))
    b = {"input": a, "constant": build.constant(f32(2), [1, 2]), "omitted": build.constant(f32(2), None)}[target]
    c = build.operation(OperationCode.NEG, [a], f32(2))
    build.model.add_operation(OperationCode.ABS, [c], [b])
    with raises(ResultCode.BAD_DATA, "can't be written"):
        build.finish([a], [c])


def test_every_operand_is_input_constant_or_written() -> None:
    build = Builder()
    a, spare = build.operand(f32(2)), build.operand(f32(2))
    result = build.operation(OperationCode.NEG, [a], f32(2))
    with raises(ResultCode.BAD_DATA, f"operand {spare} is no input"):
        build.finish([a], [result])


def test_an_output_must_be_written() -> None:
    build = Builder()
    a, b = build.operand(f32(2)), build.operand(f32(2))
    build.operation(OperationCode.NEG, [a], f32(2))
    with raises(ResultCode.BAD_DATA, "output 1 of the model"):
        build.finish([a], [2, b])


def test_identify_refuses() -> None:
    build = Builder()
    a = build.operand(f32(2))
    constant, omitted = build.constant(f32(2), [1, 2]), build.constant(f32(2), None)
    b = build.operation(OperationCode.NEG, [a], f32(2))
    for inputs, outputs in (
        ([a, a], [b]),
        ([a], [b, b]),
        ([a, b], [b]),
        ([a, constant], [b]),
        ([a], [omitted]),
        ([a], []),
    ):
        with raises(ResultCode.BAD_DATA):
            build.model.identify_inputs_and_outputs(inputs, outputs)
    build.finish([a], [b])


@pytest.mark.parametrize("which", ["input", "output"])
def test_inputs_and_outputs_get_no_value(which: str) -> None:
    build = Builder()
    a = build.operand(f32(2))
    b = build.operation(OperationCode.NEG, [a], f32(2))
    build.model.identify_inputs_and_outputs([a], [b])
    with raises(ResultCode.BAD_DATA, "input or output"):
        build.model.set_operand_value(a if which == "input" else b, [1, 2])


def test_intermediate_results_may_be_outputs(device: nnvk.Device) -> None:
    build = Builder()
    a = build.operand(f32(2))
    b = build.operation(OperationCode.NEG, [a], f32(2))
    c = build.operation(OperationCode.ABS, [b], f32(2))
    model = build.finish([a], [c, b])
    first, second = nnvk.run(compiled(model, device), [np.array([1, -2], np.float32)])
    np.testing.assert_array_equal(first, [1, 2])
    np.testing.assert_array_equal(second, [-1, 2])


def test_a_model_without_inputs(device: nnvk.Device) -> None:
    build = Builder()
    a, b = build.constant(f32(2), [1, 2]), build.constant(f32(2), [3, 4])
    model = build.finish([], [build.operation(OperationCode.ADD, [a, b], f32(2))])
    (output,) = nnvk.run(compiled(model, device), [])
    np.testing.assert_array_equal(output, [4, 6])


def test_an_input_that_nothing_reads(device: nnvk.Device) -> None:
    build = Builder()
    a, spare = build.operand(f32(2)), build.operand(f32(3))
    model = build.finish([a, spare], [build.operation(OperationCode.NEG, [a], f32(2))])
    (output,) = nnvk.run(compiled(model, device), [np.ones(2, np.float32), np.ones(3, np.float32)])
    np.testing.assert_array_equal(output, [-1, -1])


# --- quantisation of channels ------------------------------------------------------------------------------------


def test_scales_of_channels() -> None:
    build = Builder()
    index = build.constant(PER_CHANNEL, np.ones((3, 2), np.int8))
    build.model.set_operand_symm_per_channel_quant_params(index, 0, [0.5, 1.0, 2.0])
    source = build.operand(f32(2))
    model = build.finish([source], [build.operation(OperationCode.NEG, [source], f32(2))])
    quant = model.frozen.operands[index].type.channel_quant
    assert quant is not None
    assert (quant.channel_dim, quant.scales) == (0, (0.5, 1.0, 2.0))


@pytest.mark.parametrize(
    ("dim", "scales"),
    [
        (0, [1.0, 1.0]),
        (1, [1.0, 1.0, 1.0]),
        (2, [1.0]),
        (-1, [1.0, 1.0]),
        (1, [1.0, 0.0]),
        (1, [1.0, -1.0]),
        (1, [1.0, float("nan")]),
    ],
    ids=str,
)
def test_scales_of_channels_that_can_not_be(dim: int, scales: list[float]) -> None:
    build = Builder()
    index = build.operand(PER_CHANNEL)
    with raises(ResultCode.BAD_DATA, "operand 0"):
        build.model.set_operand_symm_per_channel_quant_params(index, dim, scales)


def test_scales_of_channels_need_their_type() -> None:
    build = Builder()
    with raises(ResultCode.BAD_DATA, "PER_CHANNEL"):
        build.model.set_operand_symm_per_channel_quant_params(build.operand(f32(2)), 0, [1.0, 1.0])


def test_scales_of_channels_must_be_set_before_finish() -> None:
    build = Builder()
    source = build.operand(f32(2))
    build.constant(PER_CHANNEL, np.ones((3, 2), np.int8))
    result = build.operation(OperationCode.NEG, [source], f32(2))
    with raises(ResultCode.BAD_DATA, "scales"):
        build.finish([source], [result])


# --- referenced models -------------------------------------------------------------------------------------------


def test_only_operands_of_type_model_refer_to_models() -> None:
    build = Builder()
    with raises(ResultCode.BAD_DATA, "MODEL"):
        build.model.set_operand_value_from_model(build.operand(f32(2)), add_model())


def test_referenced_models_stay_while_they_are_needed(cpu: nnvk.Device) -> None:
    compilation = compiled(if_model(), cpu)  # nobody else holds the branches
    gc.collect()
    output = np.zeros((2, 2), np.float32)
    inputs = [np.array([True]), np.full((2, 2), 3, np.float32), np.full((2, 2), 4, np.float32)]
    execution(compilation, inputs, [output]).compute()
    assert (output == 7).all()


@pytest.mark.parametrize("main", [True, False])
def test_the_main_model_decides_about_relaxed_precision(main: bool) -> None:
    branches = []
    for relaxed in (True, False):
        build = Builder()
        source = build.operand(f32(2))
        build.model.relax_computation_float32_to_float16(relaxed)
        branches.append(build.finish([source], [build.operation(OperationCode.NEG, [source], f32(2))]))
    build = Builder()
    condition, source = build.operand(OperandType(OperandCode.TENSOR_BOOL8, (1,))), build.operand(f32(2))
    inputs = [condition, *(build.reference(branch) for branch in branches), source]
    output = build.operation(OperationCode.IF, inputs, f32(2))
    build.model.relax_computation_float32_to_float16(main)
    model = build.finish([condition, source], [output])
    seen = nnvk.Compilation(model).model
    referenced = [operand.subgraph for operand in seen.operands if operand.subgraph is not None]
    assert [seen.relaxed, *(subgraph.relaxed for subgraph in referenced)] == [main] * 3
    assert [branch.frozen.relaxed for branch in branches] == [True, False]


def test_a_model_of_one_relaxed_setting_is_not_copied() -> None:
    model = if_model()
    assert nnvk.Compilation(model).model is model.frozen


def test_models_do_not_keep_descriptors() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        memory = shared_memory(np.ones(4, np.float32))
        build = Builder()
        source, constant = build.operand(f32(4)), build.operand(f32(4))
        build.model.set_operand_value_from_memory(constant, memory, 0, 16)
        build.finish([source], [build.operation(OperationCode.ADD, [source, constant], f32(4))])
    del memory, build
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_mistake_is_named() -> None:
    build = Builder()
    a, b = build.operand(f32(2)), build.operand(f32(3))
    build.operation(OperationCode.ADD, [a, b], f32(2))
    with raises(ResultCode.BAD_DATA, r"ADD: .*\(operands \[0, 1, 2\] -> \[3\]\)"):
        build.finish([a, b], [3])
    assert unary_model().frozen.operations[0].code is OperationCode.RELU


def test_a_finished_model_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "nnvk.model"):
        build = Builder()
        source = build.operand(f32(3))
        amount = build.constant(f32(3), np.ones(3, np.float32))
        build.finish([source], [build.operation(OperationCode.ADD, [source, amount], f32(3))])
    (record,) = (record for record in caplog.records if record.name == "nnvk.model")
    assert record.getMessage() == "finished: operations 1, operands 4, inputs 1, outputs 1, bytes of constants 16"


def test_many_inputs_take_no_more_than_their_share_of_time() -> None:
    build = Builder()
    sources = [build.operand(f32(2)) for _ in range(20_000)]
    result = build.operation(OperationCode.NEG, sources[:1], f32(2))
    began = time.process_time()
    build.finish(sources, [result])
    assert time.process_time() - began < 0.8
