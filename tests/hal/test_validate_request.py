"""Requests that don't fit the model are refused at the driver's door."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.check.model_rows import parse
from nnvk.hal import IBuffer, IDevice, IPreparedModel
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import ExecuteOptions, InputArgument, OutputArgument, PrepareOptions, Request

F32 = OperandCode.TENSOR_FLOAT32
OPTIONS = ExecuteOptions()


def max_model(shape: Shape) -> Model:
    """MAXIMUM of two tensors."""
    type_ = OperandType(F32, shape)
    given = Operand(type_, Lifetime.SUBGRAPH_INPUT)
    operation = Operation(OperationCode.MAXIMUM, (0, 1), (2,))
    return Model((given, given, Operand(type_, Lifetime.SUBGRAPH_OUTPUT)), (operation,), (0, 1), (2,))


@pytest.fixture
def prepared(driver: IDevice) -> IPreparedModel:
    return driver.prepare_model(max_model((4,)), PrepareOptions())


def array(*shape: int, dtype: object = np.float32) -> InputArgument:
    return InputArgument(np.ones(shape, dtype))  # type: ignore[call-overload]


def output(size: int = 16) -> OutputArgument:
    return OutputArgument(np.zeros(size, np.uint8))


GOOD = array(4)


def read_only(size: int) -> np.ndarray:
    made = np.zeros(size, np.uint8)
    made.flags.writeable = False
    return made


HOSTILE: dict[str, Callable[[], Request]] = {
    "no inputs": lambda: Request([], [output()]),
    "too few inputs": lambda: Request([GOOD], [output()]),
    "too many inputs": lambda: Request([GOOD] * 3, [output()]),
    "no outputs": lambda: Request([GOOD, GOOD], []),
    "too many outputs": lambda: Request([GOOD, GOOD], [output(), output()]),
    "input too short": lambda: Request([GOOD, array(3)], [output()]),
    "input too long": lambda: Request([GOOD, array(5)], [output()]),
    "input of another rank": lambda: Request([GOOD, array(2, 2)], [output()]),
    "input without a dimension": lambda: Request([GOOD, array()], [output()]),
    "input without elements": lambda: Request([GOOD, array(0)], [output()]),
    "input of another type": lambda: Request([GOOD, array(4, dtype=np.int32)], [output()]),
    "input of wider elements": lambda: Request([GOOD, array(4, dtype=np.float64)], [output()]),
    "input of another byte order": lambda: Request([GOOD, array(4, dtype=">f4")], [output()]),
    "input with gaps": lambda: Request([GOOD, InputArgument(np.ones(8, np.float32)[::2])], [output()]),
    "input backwards": lambda: Request([GOOD, InputArgument(np.ones(4, np.float32)[::-1])], [output()]),
    "input that is a list": lambda: Request([GOOD, InputArgument([1.0] * 4)], [output()]),  # type: ignore[arg-type]
    "input that is bytes": lambda: Request([GOOD, InputArgument(bytes(16))], [output()]),  # type: ignore[arg-type]
    "input by array and buffer": lambda: Request([GOOD, InputArgument(np.ones(4, np.float32), 1, (4,))], [output()]),
    "buffer that does not exist": lambda: Request([GOOD, InputArgument(None, 10**6, (4,))], [output()]),
    "negative buffer": lambda: Request([GOOD, InputArgument(None, -1, (4,))], [output()]),
    "buffer of other dimensions": lambda: Request([GOOD, InputArgument(None, 10**6, (5,))], [output()]),
    "output to a buffer that does not exist": lambda: Request([GOOD, GOOD], [OutputArgument(None, 10**6)]),
    "output by bytes and buffer": lambda: Request([GOOD, GOOD], [OutputArgument(np.zeros(16, np.uint8), 1)]),
    "output that can't be written": lambda: Request([GOOD, GOOD], [OutputArgument(read_only(16))]),
    "output that is not flat": lambda: Request([GOOD, GOOD], [OutputArgument(np.zeros((4, 4), np.uint8))]),
    "output of other elements": lambda: Request([GOOD, GOOD], [OutputArgument(np.zeros(4, np.float32))]),
    "output of booleans": lambda: Request([GOOD, GOOD], [OutputArgument(np.zeros(16, np.bool_))]),
    "output with gaps": lambda: Request([GOOD, GOOD], [OutputArgument(np.zeros(32, np.uint8)[::2])]),
    "output that is a bytearray": lambda: Request([GOOD, GOOD], [OutputArgument(bytearray(16))]),  # type: ignore[arg-type]
}  # fmt: skip


def refused(prepared: IPreparedModel, request: Request) -> NnapiError:
    """The error, be it at the binding or, of what only operations know, at the execution."""
    with pytest.raises(NnapiError) as caught:
        prepared.create_reusable_execution(request).execute(OPTIONS)
    return caught.value


def test_the_request_that_the_others_are_made_of_is_good(prepared: IPreparedModel) -> None:
    target = output()
    result = prepared.create_reusable_execution(Request([GOOD, GOOD], [target])).execute(OPTIONS)
    assert result.code is ResultCode.NO_ERROR
    assert target.buffer is not None
    assert (target.buffer.view(np.float32) == 1).all()


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_requests_are_refused(prepared: IPreparedModel, make: Callable[[], Request]) -> None:
    assert refused(prepared, make()).code is ResultCode.BAD_DATA


def test_an_operation_fails_for_want_of_an_input(prepared: IPreparedModel) -> None:
    assert refused(prepared, Request([GOOD, InputArgument(None)], [output()])).code is ResultCode.OP_FAILED


@pytest.mark.parametrize("size", [0, 1, 15])
def test_a_buffer_that_is_too_small_is_told_and_left_alone(prepared: IPreparedModel, size: int) -> None:
    room = np.full(64, 0xAA, np.uint8)
    request = Request([GOOD, GOOD], [OutputArgument(room[16 : 16 + size])])
    result = prepared.create_reusable_execution(request).execute(OPTIONS)
    assert result.code is ResultCode.OUTPUT_INSUFFICIENT_SIZE
    assert result.output_shapes[0].dimensions == (4,)
    assert not result.output_shapes[0].is_sufficient
    assert (room == 0xAA).all()


@pytest.mark.parametrize("size", [16, 17, 64])
def test_nothing_beyond_an_output_is_written(prepared: IPreparedModel, size: int) -> None:
    room = np.full(128, 0xAA, np.uint8)
    prepared.create_reusable_execution(Request([GOOD, GOOD], [OutputArgument(room[32 : 32 + size])])).execute(OPTIONS)
    assert (room[32:48].view(np.float32) == 1).all()
    assert (room[:32] == 0xAA).all()
    assert (room[48:] == 0xAA).all()


def test_dimensions_that_the_model_leaves_open_are_the_request_s(driver: IDevice) -> None:
    prepared = driver.prepare_model(max_model((0, 2)), PrepareOptions())
    for rows in (1, 3):
        target = output(rows * 8)
        result = prepared.create_reusable_execution(Request([array(rows, 2)] * 2, [target])).execute(OPTIONS)
        assert result.output_shapes[0].dimensions == (rows, 2)
    for bad in (array(3, 3), array(6), array(3, 2, 1)):
        assert refused(prepared, Request([array(3, 2), bad], [output(24)])).code is ResultCode.BAD_DATA


# --- device memory -----------------------------------------------------------------------------------------------


@pytest.fixture
def memory(driver: IDevice) -> IBuffer:
    made = driver.allocate(OperandType(F32, (4,)), (4,))
    made.copy_from(np.full(4, 5, np.float32).view(np.uint8))
    return made


def test_a_device_buffer(prepared: IPreparedModel, memory: IBuffer) -> None:
    target = output()
    request = Request([GOOD, InputArgument(None, memory.token, (4,))], [target])
    prepared.create_reusable_execution(request).execute(OPTIONS)
    assert target.buffer is not None
    assert (target.buffer.view(np.float32) == 5).all()


@pytest.mark.parametrize("dimensions", [(5,), (2, 2), (), (0,), (-4,), (2**40,), (4.0,), ("4",)], ids=str)
def test_a_device_buffer_of_other_dimensions(prepared: IPreparedModel, memory: IBuffer, dimensions: Shape) -> None:
    request = Request([GOOD, InputArgument(None, memory.token, dimensions)], [output()])
    assert refused(prepared, request).code is ResultCode.BAD_DATA


def test_a_device_buffer_that_is_too_small(driver: IDevice, memory: IBuffer) -> None:
    prepared = driver.prepare_model(max_model((0,)), PrepareOptions())
    request = Request([array(10**6), InputArgument(None, memory.token, (10**6,))], [output(4 * 10**6)])
    assert refused(prepared, request).code is ResultCode.BAD_DATA


def test_a_device_buffer_that_is_gone(driver: IDevice, prepared: IPreparedModel) -> None:
    token = driver.allocate(OperandType(F32, (4,)), (4,)).token
    assert refused(prepared, Request([GOOD, InputArgument(None, token, (4,))], [output()])).code is ResultCode.BAD_DATA


def test_tokens_are_never_used_again(driver: IDevice) -> None:
    tokens = [driver.allocate(OperandType(F32, (4,)), (4,)).token for _ in range(20)]
    assert len(set(tokens)) == 20
    assert min(tokens) > 0


# --- prepared models ---------------------------------------------------------------------------------------------


def test_a_prepared_model_is_executed_by_many_threads(prepared: IPreparedModel) -> None:
    wrong: list[np.ndarray] = []

    def work(value: int) -> None:
        target = output()
        assert target.buffer is not None
        request = Request(
            [InputArgument(np.full(4, value, np.float32)), InputArgument(np.full(4, -1, np.float32))], [target]
        )
        for _ in range(20):
            prepared.execute(request, OPTIONS)
            if not (target.buffer.view(np.float32) == value).all():
                wrong.append(target.buffer.copy())

    threads = [threading.Thread(target=work, args=(value,)) for value in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_fenced_execution_tells_its_result_as_often_as_it_is_asked(prepared: IPreparedModel) -> None:
    target = output()
    fence = prepared.create_reusable_execution(Request([GOOD, GOOD], [target])).execute_fenced([], OPTIONS)
    assert fence.wait()
    first = fence.result()
    assert fence.result() == first
    assert target.buffer is not None
    target.buffer[:] = 0
    assert fence.result() == first
    assert not target.buffer.any()  # and writes its outputs once


def test_an_array_without_dimensions_is_no_tensor_of_any_rank(driver: IDevice) -> None:
    """Where the model leaves the rank open, the operations tell."""
    row = parse("FULLY_CONNECTED f32[2,3] f32[4,3] f32[4] NONE")
    operands = tuple(
        replace(operand, type=operand.type.with_dimensions(())) if operand.type.is_tensor else operand
        for operand in row.model.operands
    )
    prepared = driver.prepare_model(replace(row.model, operands=operands), PrepareOptions())
    for place in range(3):
        inputs = [InputArgument(array) for array in row.inputs]
        inputs[place] = InputArgument(np.ones((), np.float32))
        assert refused(prepared, Request(inputs, [output(32)])).code in (ResultCode.BAD_DATA, ResultCode.OP_FAILED)
