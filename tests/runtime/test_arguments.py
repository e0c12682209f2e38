"""Rules of inputs and outputs: what fits, memory, padding, omission, overlap of types."""

from __future__ import annotations

import mmap
import os

import numpy as np
import pytest
from builder import Builder
from samples import (
    add_model,
    added,
    compiled,
    device_memory,
    execution,
    f32,
    increment_model,
    label,
    raises,
    shared_memory,
    unary_model,
)

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode
from nnvk.runtime.arguments import input_array

ONES = np.ones((2, 2), np.float32)


@pytest.fixture
def plain(device: nnvk.Device) -> nnvk.Execution:
    """An execution of `add_model` without arguments."""
    return nnvk.Execution(compiled(add_model(), device))


@pytest.mark.parametrize("index", [-1, 2, 2**31])
def test_inputs_that_do_not_exist(plain: nnvk.Execution, index: int) -> None:
    with raises(ResultCode.BAD_DATA, "does not exist"):
        plain.set_input(index, ONES)
    with raises(ResultCode.BAD_DATA, "does not exist"):
        plain.set_input_from_memory(index, shared_memory(16), 0, 16)


@pytest.mark.parametrize("index", [-1, 1, 2**31])
def test_outputs_that_do_not_exist(plain: nnvk.Execution, index: int) -> None:
    with raises(ResultCode.BAD_DATA, "does not exist"):
        plain.set_output(index, ONES.copy())
    with raises(ResultCode.BAD_DATA, "does not exist"):
        plain.set_output_from_memory(index, shared_memory(16), 0, 16)


@pytest.mark.parametrize(
    "value",
    [
        np.ones(3, np.float32),
        np.ones(5, np.float32),
        np.ones((2, 2), np.float64),
        np.ones((2, 2), np.int32),
        np.ones((2, 2), ">f4"),
        np.ones((2, 4), np.float32)[:, ::2],
        np.ones((4, 1), np.float32),
        np.ones((2, 8), np.uint8),
        [[1.0, 1.0, 1.0, 1.0]],
        b"\0" * 12,
        bytearray(20),
        b"",
    ],
    ids=label,
)
def test_inputs_that_do_not_fit(plain: nnvk.Execution, value: object) -> None:
    with raises(ResultCode.BAD_DATA, "input 0"):
        plain.set_input(0, value)


@pytest.mark.parametrize(
    "value",
    [
        np.ones(3, np.float32),
        np.ones(5, np.float32),
        np.ones((2, 2), np.int32),
        np.ones((2, 4), np.float32)[:, ::2],
        np.frombuffer(bytes(16), np.float32),
        np.ones((4, 1), np.float32),
        np.ones((2, 8), np.uint8),
        bytes(16),
        bytearray(15),
        bytearray(17),
    ],
    ids=label,
)
def test_outputs_that_do_not_fit(plain: nnvk.Execution, value: object) -> None:
    with raises(ResultCode.BAD_DATA, "output 0"):
        plain.set_output(0, value)


def test_objects_that_are_no_data(plain: nnvk.Execution) -> None:
    for value in ("text", NotImplemented, object()):
        with pytest.raises(TypeError, match="input 0: expected an array, a buffer or a number"):
            plain.set_input(0, value)
    for value in ("text", NotImplemented, object(), [[0.0, 0.0], [0.0, 0.0]]):
        with pytest.raises(TypeError, match="output 0: expected a writable array or buffer"):
            plain.set_output(0, value)


@pytest.mark.parametrize(
    "value", [ONES, ONES.reshape(4), ONES.tobytes(), bytearray(ONES.tobytes()), ONES.tolist()], ids=label
)
def test_inputs_may_be_arrays_buffers_and_numbers(device: nnvk.Device, value: object) -> None:
    (output,) = nnvk.run(compiled(add_model(), device), [value, ONES])  # type: ignore[list-item]
    assert (output == 2).all()


def test_arrays_of_another_shape_are_refused(device: nnvk.Device) -> None:
    """An array of rank 2 or more has the shape of its operand, but for sizes of 1. Flat arrays are plain memory."""
    compilation = compiled(add_model(f32(2, 3)), device)
    right, wrong = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    for run in (
        lambda: nnvk.run(compilation, [wrong, right]),
        lambda: execution(compilation, [right, right], [wrong]),
    ):
        with raises(ResultCode.BAD_DATA, r"(input|output) 0: TENSOR_FLOAT32\[2, 3\] .* shape \[3, 2\]"):
            run()
    for source in (right[None], right.reshape(2, 1, 3), right.reshape(6)):
        target = np.zeros_like(source)
        execution(compilation, [source, right], [target]).compute()
        assert (target == 2).all()


@pytest.mark.parametrize("what", ["input", "output"])
def test_uint8_arrays_for_int8_are_flat(device: nnvk.Device, what: str) -> None:
    type_ = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (2, 3), 1.0, 0)
    run = nnvk.Execution(compiled(unary_model(OperationCode.RELU, type_), device))
    give = run.set_input if what == "input" else run.set_output
    with raises(ResultCode.BAD_DATA, rf"{what} 0: .* int8, or flat .* got uint8\[2, 3\]"):
        give(0, np.zeros((2, 3), np.uint8))
    give(0, np.zeros(6, np.uint8))


def test_outputs_may_be_buffers(device: nnvk.Device) -> None:
    for target in (bytearray(16), memoryview(bytearray(16)), np.zeros(16, np.uint8)):
        execution(compiled(add_model(), device), [ONES, ONES], [target]).compute()
        assert (np.frombuffer(target, np.float32) == 2).all()


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_buffers_need_no_alignment(device: nnvk.Device, shift: int) -> None:
    source = np.frombuffer(bytearray(b"\0" * shift + ONES.tobytes()), np.uint8)[shift:].view(np.float32)
    target = np.frombuffer(bytearray(16 + shift), np.uint8)[shift:].view(np.float32)
    execution(compiled(add_model(), device), [source, source], [target]).compute()
    assert (target == 2).all()


def test_the_content_counts_that_is_there_when_the_computation_begins(device: nnvk.Device) -> None:
    source, output = np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32)
    run = execution(compiled(add_model(), device), [source, ONES], [output], reusable=True)
    for value in (1, 5, -3):
        source[:] = value
        run.compute()
        assert (output == value + 1).all()
        assert (source == value).all()


def test_everything_must_be_set(device: nnvk.Device) -> None:
    for missing in ("input 0", "input 1", "output 0"):
        run = nnvk.Execution(compiled(add_model(), device))
        for index in (0, 1):
            if missing != f"input {index}":
                run.set_input(index, ONES)
        if missing != "output 0":
            run.set_output(0, ONES.copy())
        with raises(ResultCode.BAD_DATA, f"{missing} was not set"):
            run.compute()


def test_an_argument_can_be_set_again(device: nnvk.Device) -> None:
    run, first = added(device)
    output = np.zeros((2, 2), np.float32)
    run.set_input(0, np.full((2, 2), 10, np.float32))
    run.set_output(0, output)
    run.compute()
    assert (output == 12).all()
    assert (first == -1).all()


def test_an_output_may_be_left_out(device: nnvk.Device) -> None:
    build = Builder()
    source = build.operand(f32(3))
    negated = build.operation(OperationCode.NEG, [source], f32(3))
    model = build.finish([source], [negated, build.operation(OperationCode.ABS, [negated], f32(3))])
    output = np.zeros(3, np.float32)
    run = execution(compiled(model, device), [np.array([1, -2, 3], np.float32)], [None, output])
    run.compute()
    np.testing.assert_array_equal(output, [1, 2, 3])
    assert run.get_output_operand_dimensions(0) == (3,)


def test_an_optional_input_may_be_omitted_where_the_runtime_chooses() -> None:
    """A model input that an operation may do without: the device that can't takes over to the CPU."""
    build = Builder()
    source, layout = build.operand(f32(1, 2, 2, 2)), build.operand(OperandType(OperandCode.BOOL))
    numbers = [build.constant(OperandType(OperandCode.INT32), number) for number in (2, 1, 1, 2, 2, 0)]
    output = build.operation(OperationCode.AVERAGE_POOL_2D, [source, *numbers, layout], f32(1, 1, 1, 2))
    model = build.finish([source, layout], [output])
    (average,) = nnvk.run(compiled(model), [np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2), None])
    np.testing.assert_allclose(average.reshape(-1), [3, 4])


def test_an_input_that_is_no_option_can_not_be_omitted(device: nnvk.Device) -> None:
    run = execution(compiled(add_model(), device), [ONES, ONES], [ONES.copy()])
    run.set_input(1, None)
    with raises(ResultCode.OP_FAILED, "omitted"):
        run.compute()


# --- types at execution ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        OperandType(OperandCode.TENSOR_INT32, (2, 2)),
        OperandType(OperandCode.TENSOR_FLOAT16, (2, 2)),
        f32(2, 3),
        f32(4),
        f32(2, 0),
        f32(),
    ],
    ids=str,
)
def test_types_that_contradict_the_model(plain: nnvk.Execution, given: OperandType) -> None:
    with raises(ResultCode.BAD_DATA, "input 0"):
        plain.set_input(0, ONES, given)
    with raises(ResultCode.BAD_DATA, "output 0"):
        plain.set_output(0, ONES.copy(), given)
    with raises(ResultCode.BAD_DATA, "input 0"):
        plain.set_input_from_memory(0, shared_memory(16), 0, 16, given)
    with raises(ResultCode.BAD_DATA, "output 0"):
        plain.set_output_from_memory(0, shared_memory(16), 0, 16, given)


@pytest.mark.parametrize(("scale", "zero_point"), [(0.25, 3), (0.5, 4), (0.0, 0)])
def test_types_of_other_quantisation(device: nnvk.Device, scale: float, zero_point: int) -> None:
    code = OperandCode.TENSOR_QUANT8_ASYMM
    run = nnvk.Execution(compiled(add_model(OperandType(code, (4,), 0.5, 3)), device))
    with raises(ResultCode.BAD_DATA, "input 0"):
        run.set_input(0, np.zeros(4, np.uint8), OperandType(code, (4,), scale, zero_point))
    run.set_input(0, np.zeros(4, np.uint8), OperandType(code, (4,), 0.5, 3))


def test_the_same_type_may_be_given(device: nnvk.Device) -> None:
    run, output = added(device)
    run.set_input(0, ONES, f32(2, 2))
    run.set_output(0, output, f32(2, 2))
    run.compute()
    assert (output == 3).all()


# --- memory ------------------------------------------------------------------------------------------------------


def test_arguments_in_one_file(device: nnvk.Device) -> None:
    descriptor = os.memfd_create("arguments")
    os.ftruncate(descriptor, 4096)
    memory = nnvk.Memory.create_from_fd(4096, mmap.PROT_READ | mmap.PROT_WRITE, descriptor)
    os.pwrite(descriptor, ONES.tobytes(), 64)
    os.pwrite(descriptor, (ONES * 5).tobytes(), 100)
    run = nnvk.Execution(compiled(add_model(), device))
    run.set_reusable(True)
    run.set_input_from_memory(0, memory, 64, 16)
    run.set_input_from_memory(1, memory, 100, 16)
    run.set_output_from_memory(0, memory, 2048, 16)
    run.compute()
    assert (np.frombuffer(os.pread(descriptor, 16, 2048), np.float32) == 6).all()
    os.pwrite(descriptor, (ONES * 7).tobytes(), 64)
    run.compute()
    assert (np.frombuffer(os.pread(descriptor, 16, 2048), np.float32) == 12).all()
    os.close(descriptor)


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 12), (0, 20), (-4, 16), (52, 16), (0, 0), (2, 16), (64, 16)], ids=str
)
def test_regions_that_do_not_fit(plain: nnvk.Execution, offset: int, length: int) -> None:
    memory = shared_memory(64)
    with raises(ResultCode.BAD_DATA):
        plain.set_input_from_memory(0, memory, offset, length)
    with raises(ResultCode.BAD_DATA):
        plain.set_output_from_memory(0, memory, offset, length)


def test_memory_that_can_only_be_read_takes_no_output(plain: nnvk.Execution) -> None:
    descriptor = os.memfd_create("read-only")
    os.ftruncate(descriptor, 64)
    memory = nnvk.Memory.create_from_fd(64, mmap.PROT_READ, descriptor)
    os.close(descriptor)
    plain.set_input_from_memory(0, memory, 0, 16)
    with raises(ResultCode.BAD_DATA, "writable"):
        plain.set_output_from_memory(0, memory, 0, 16)


@pytest.mark.parametrize(("offset", "length"), [(0, 16), (4, 0), (0, 8)], ids=str)
def test_device_memory_is_used_whole(device: nnvk.Device, offset: int, length: int) -> None:
    compilation = compiled(increment_model(), device)
    memory = device_memory(inputs=[(compilation, 0)], outputs=[(compilation, 0)])
    run = nnvk.Execution(compilation)
    with raises(ResultCode.BAD_DATA, "must be 0"):
        run.set_input_from_memory(0, memory, offset, length)
    with raises(ResultCode.BAD_DATA, "must be 0"):
        run.set_output_from_memory(0, memory, offset, length)


# --- padding -----------------------------------------------------------------------------------------------------


def test_padding_is_off_by_default(plain: nnvk.Execution) -> None:
    with raises(ResultCode.BAD_DATA, "16 bytes"):
        plain.set_input(0, np.zeros(8, np.float32))
    with raises(ResultCode.BAD_DATA, "16 bytes"):
        plain.set_output(0, np.zeros(8, np.float32))


def test_padded_buffers(device: nnvk.Device) -> None:
    run = nnvk.Execution(compiled(add_model(), device))
    run.enable_input_and_output_padding(True)
    source, target = np.full(8, 100, np.float32), np.full(9, -1, np.float32)
    source[:4] = 1
    memory = shared_memory(np.full(16, 2, np.float32))
    run.set_input(0, source)
    run.set_input_from_memory(1, memory, 0, 64)
    run.set_output(0, target)
    run.compute()
    np.testing.assert_array_equal(target, [3] * 4 + [-1] * 5)
    again = nnvk.Execution(compiled(add_model(), device))
    again.enable_input_and_output_padding(True)
    again.set_input(0, ONES)  # of the exact size
    again.set_input(1, bytes(20))
    again.set_output_from_memory(0, memory, 16, 32)
    again.compute()
    np.testing.assert_array_equal(memory.slice(0, 64).view(np.float32), [2] * 4 + [1] * 4 + [2] * 8)


def test_padded_buffers_must_not_be_too_small(plain: nnvk.Execution) -> None:
    plain.enable_input_and_output_padding(True)
    for index in (0, 1):
        with raises(ResultCode.BAD_DATA):
            plain.set_input(index, np.zeros(3, np.float32))
        with raises(ResultCode.BAD_DATA):
            plain.set_input_from_memory(index, shared_memory(64), 0, 15)
    with raises(ResultCode.BAD_DATA):
        plain.set_output(0, np.zeros(3, np.float32))
    with raises(ResultCode.BAD_DATA):
        plain.set_output_from_memory(0, shared_memory(64), 0, 15)


@pytest.mark.parametrize("what", ["input", "output", "input memory", "output memory"])
def test_padding_must_be_enabled_before_arguments_are_set(plain: nnvk.Execution, what: str) -> None:
    plain.enable_input_and_output_padding(False)
    if what == "input":
        plain.set_input(0, ONES)
    elif what == "output":
        plain.set_output(0, ONES.copy())
    elif what == "input memory":
        plain.set_input_from_memory(0, shared_memory(16), 0, 16)
    else:
        plain.set_output_from_memory(0, shared_memory(16), 0, 16)
    with raises(ResultCode.BAD_STATE, "before inputs and outputs"):
        plain.enable_input_and_output_padding(True)


def test_padding_with_dimensions_given_at_execution(device: nnvk.Device) -> None:
    run = nnvk.Execution(compiled(unary_model(type_=f32(0, 2)), device))
    run.enable_input_and_output_padding(True)
    target = np.full(16, 9, np.float32)
    run.set_input(0, np.full(10, -1, np.float32), f32(3, 2))
    run.set_output(0, target, f32(3, 2))
    run.compute()
    np.testing.assert_array_equal(target, [0] * 6 + [9] * 10)


@pytest.mark.parametrize("dimensions", [(2**32, 2**32), (-2, -2), (2**31, 2)])
def test_dimensions_given_at_execution_are_checked(dimensions: tuple[int, ...]) -> None:
    operand = OperandType(OperandCode.TENSOR_FLOAT32, (0, 0))
    given = OperandType(OperandCode.TENSOR_FLOAT32, dimensions)
    for value in (np.empty(0, np.float32), np.empty(4, np.float32)):
        with pytest.raises(nnvk.NnapiError, match=r"input 0: .*(must be whole numbers|4 GiB)") as error:
            input_array("input 0", operand, value, given)
        assert error.value.code is ResultCode.BAD_DATA
