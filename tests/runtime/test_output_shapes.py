"""Dimensions and ranks that are open until the execution, and outputs whose buffers are too small."""

from __future__ import annotations

import numpy as np
import pytest
from builder import Builder
from samples import add_model, chain_model, compiled, execution, f32, raises, unary_model

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode

OPEN = [f32(0, 2), f32(0, 0), f32()]


@pytest.mark.parametrize("type_", OPEN, ids=str)
def test_dimensions_come_with_the_arrays(device: nnvk.Device, type_: OperandType) -> None:
    compilation = compiled(add_model(type_), device)
    for rows in (1, 3, 17, 1):
        source = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
        (output,) = nnvk.run(compilation, [source, source])
        np.testing.assert_array_equal(output, source + source)


@pytest.mark.parametrize("type_", OPEN, ids=str)
def test_dimensions_come_with_types(device: nnvk.Device, type_: OperandType) -> None:
    run = nnvk.Execution(compiled(add_model(type_), device))
    source, output = np.ones(6, np.float32), np.zeros(6, np.float32)
    for index in (0, 1):
        run.set_input(index, source.tobytes(), f32(3, 2))
    run.set_output(0, output, f32(3, 2))
    run.compute()
    assert (output == 2).all()
    assert run.get_output_operand_rank(0) == 2
    assert run.get_output_operand_dimensions(0) == (3, 2)


@pytest.mark.parametrize("type_", OPEN, ids=str)
def test_inputs_need_all_dimensions(device: nnvk.Device, type_: OperandType) -> None:
    run = nnvk.Execution(compiled(unary_model(type_=type_), device))
    for given in (None, f32(0, 2), f32(3, 0)):
        with raises(ResultCode.BAD_DATA):
            run.set_input(0, bytes(24), given)
    with raises(ResultCode.BAD_DATA):
        run.set_input(0, np.zeros((0, 2), np.float32))
    run.set_input(0, bytes(24), f32(3, 2))


def test_arrays_of_another_rank_than_the_model_leaves_open(device: nnvk.Device) -> None:
    run = nnvk.Execution(compiled(unary_model(type_=f32(0, 2)), device))
    for shape in ((6,), (3, 3), (1, 3, 2)):
        with raises(ResultCode.BAD_DATA):
            run.set_input(0, np.zeros(shape, np.float32))


def test_the_buffer_of_an_open_output_may_be_larger(device: nnvk.Device) -> None:
    compilation = compiled(unary_model(type_=f32(2, 2), output=f32(0, 0)), device)
    output = np.full(10, 7, np.float32)
    run = execution(compilation, [-np.ones((2, 2), np.float32)], [output])
    run.compute()
    np.testing.assert_array_equal(output, [0] * 4 + [7] * 6)
    assert run.get_output_operand_dimensions(0) == (2, 2)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_buffer_that_is_too_small(device: nnvk.Device, size: int) -> None:
    compilation = compiled(unary_model(type_=f32(2, 2), output=f32()), device)
    output = np.full(size, 7, np.float32)
    run = execution(compilation, [-np.ones((2, 2), np.float32)], [output], reusable=True)
    for _ in range(2):  # it is an end like any other
        with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE, r"output 0 is \[2, 2\]"):
            run.compute()
        assert run.get_output_operand_rank(0) == 2
        assert run.get_output_operand_dimensions(0) == (2, 2)
        assert (output == 7).all()


@pytest.mark.parametrize("path", ["compute", "start_compute", "burst_compute"])
def test_of_two_outputs_one_is_too_small(device: nnvk.Device, path: str) -> None:
    """Nothing is written, and the dimensions of both are known."""
    build = Builder()
    source = build.operand(f32(4))
    first = build.operation(OperationCode.NEG, [source], f32(0))
    second = build.operation(OperationCode.ABS, [source], f32())
    compilation = compiled(build.finish([source], [first, second]), device)
    large, small = np.full(4, 9, np.float32), np.full(3, 9, np.float32)
    run = execution(compilation, [np.ones(4, np.float32)], [large, small])
    with raises(ResultCode.OUTPUT_INSUFFICIENT_SIZE, "output 1"):
        if path == "start_compute":
            run.start_compute().wait()
        elif path == "burst_compute":
            run.burst_compute(nnvk.Burst(compilation))
        else:
            run.compute()
    assert (large == 9).all()
    assert (small == 9).all()
    assert run.get_output_operand_dimensions(0) == run.get_output_operand_dimensions(1) == (4,)


def test_a_buffer_that_is_too_small_for_what_is_declared(device: nnvk.Device) -> None:
    run = nnvk.Execution(compiled(unary_model(), device))
    with raises(ResultCode.BAD_DATA, "needs 16 bytes, got 12"):
        run.set_output(0, np.zeros(3, np.float32))


def test_dimensions_given_for_an_output_must_come_true(device: nnvk.Device) -> None:
    compilation = compiled(unary_model(type_=f32(0, 0)), device)
    run = nnvk.Execution(compilation)
    run.set_input(0, np.ones((2, 3), np.float32))
    run.set_output(0, np.zeros(6, np.float32), f32(3, 2))
    with raises(ResultCode.OP_FAILED, r"output 0 is \[2, 3\], not \[3, 2\]"):
        run.compute()


def test_shapes_that_contradict_each_other(device: nnvk.Device) -> None:
    run = nnvk.Execution(compiled(add_model(f32(0)), device))
    run.set_input(0, np.ones(2, np.float32))
    run.set_input(1, np.ones(3, np.float32))
    run.set_output(0, np.zeros(3, np.float32))
    with raises(ResultCode.OP_FAILED, "ADD"):
        run.compute()


@pytest.mark.parametrize("index", [-1, 1, 5])
def test_dimensions_of_outputs_that_do_not_exist(device: nnvk.Device, index: int) -> None:
    run = execution(compiled(unary_model(), device), [np.ones((2, 2), np.float32)], [np.zeros((2, 2), np.float32)])
    run.compute()
    with raises(ResultCode.BAD_DATA, "does not exist"):
        run.get_output_operand_dimensions(index)
    with raises(ResultCode.BAD_DATA, "does not exist"):
        run.get_output_operand_rank(index)


def test_a_scalar_has_no_dimensions(cpu: nnvk.Device) -> None:
    build = Builder()
    source = build.operand(f32(3, 4))
    model = build.finish([source], [build.operation(OperationCode.RANK, [source], OperandType(OperandCode.INT32))])
    rank = np.zeros((), np.int32)
    run = execution(compiled(model, cpu), [np.ones((3, 4), np.float32)], [rank])
    run.compute()
    assert rank == 2
    assert run.get_output_operand_rank(0) == 0
    with raises(ResultCode.BAD_DATA, "scalar"):
        run.get_output_operand_dimensions(0)


def test_no_dimensions_after_a_failure(device: nnvk.Device) -> None:
    run = nnvk.Execution(compiled(unary_model(), device))
    with raises(ResultCode.BAD_DATA):
        run.compute()
    with raises(ResultCode.BAD_STATE, "failed"):
        run.get_output_operand_dimensions(0)
    with raises(ResultCode.BAD_STATE, "failed"):
        run.get_output_operand_rank(0)


def test_many_shapes_of_one_compilation(device: nnvk.Device) -> None:
    """More of them than a driver keeps plans for, and back again."""
    compilation = compiled(chain_model([OperationCode.NEG, OperationCode.ABS], f32(0)), device)
    for size in (*range(1, 40), 1, 2, 3):
        source = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(nnvk.run(compilation, [source])[0], source)
