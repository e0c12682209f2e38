"""Parameters that come with the execution, or that the model computes itself; and data that breaks a rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builder import Builder
from samples import INT, f32

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.check.model_rows import Row, empty_like, execute, parse, reference, request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.model import Lifetime, Model, Operand
from nnvk.types.operand import OperandType
from nnvk.types.request import ExecuteOptions, InputArgument, OutputArgument, PrepareOptions, Request

OPTIONS = ExecuteOptions()
VECTOR = OperandType(OperandCode.TENSOR_INT32, (2,))
ROWS = """
ADD f32[2,3,5] f32[5] @RELU6
ADD u8[7]*0.5+3 u8[7]*0.25 @NONE
AVERAGE_POOL_2D f32[1,7,5,4] @SAME @2 @1 @3 @2 @NONE @nchw
AVERAGE_POOL_2D i8[1,7,5,4]*0.5-3 @1 @2 @0 @1 @1 @2 @3 @2 @RELU
CONV_2D f32[1,5,5,3] f32[4,3,3,3] f32[4] @SAME @1 @2 @RELU
CONV_2D u8[1,5,5,3]*0.5+3 #u8[4,3,3,3]*0.1+9 #i32[4] @1 @1 @0 @2 @1 @1 @RELU @nhwc @2 @1 -> u8*0.7+100
CONCATENATION f32[2,3] f32[2,5] @1
RESHAPE f32[2,3,5] @(6,-1)
SQUEEZE f16[1,3,1,5] @(0,-2)
EXPAND_DIMS i32[3,5] @-1
TRANSPOSE f32[2,3,5] @(2,0,1)
SLICE i32[5,7] @(1,2) @(3,-1)
STRIDED_SLICE f16[5,7] @(0,6) @(5,0) @(2,-2) @0 @1 @0
SPACE_TO_BATCH_ND u8[1,5,7,3]*0.5+3 @(2,3) @(1,0;0,2)
BATCH_TO_SPACE_ND f32[6,2,1,3] @(2,3)
SPACE_TO_DEPTH f32[1,4,6,3] @2
PAD f32[3,5] @(2,1;0,3)
PAD_V2 i8[3,5]*0.5-7 @(2,1;0,3) @5
PAD_V2 f16[3,5] @(2,1;0,3) @1.5h
MIRROR_PAD i32[3,5] @(2,1;0,3) @0
TILE f32[2,3] @(2,3)
SOFTMAX f32[3,5] @0.5f @0
ARGMAX f32[3,5,7] @1 -> i32
MEAN f32[3,5,7] @(0,2) @1
REDUCE_SUM f32[3,5,7] @(1) @nchw
SPLIT f32[4,6] @1 @1
GATHER f32[3,5] @1 @(4,0,4)
EMBEDDING_LOOKUP @(2,0) u8[3,5]*0.5+3 -> u8*0.5+3
BLOCK_QUANTIZED_EMBEDDING_LOOKUP @(2,0,2) #i32[3,2]~2147483647 f32[3,1] @16 @13 none -> f32
FILL @(3,5) @0.5f -> f32
FILL @(2,7) @-3 -> i32
ELU f16[7] @0.5h
""".strip().splitlines()


@pytest.mark.parametrize("text", ROWS)
def test_parameters_that_come_with_the_execution(vulkan: VulkanDevice, text: str) -> None:
    row = parse(text)
    expected = reference(row)
    outputs = empty_like(expected)
    for _ in range(2):
        execute(vulkan, row, outputs)
        for want, got in zip(expected, outputs, strict=True):
            np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=1e-6, atol=1e-6)


def test_they_may_change_between_executions(vulkan: VulkanDevice) -> None:
    row = parse("MEAN f32[3,5,7] @(0) 1")
    source, axes = row.inputs
    prepared = vulkan.prepare_model(row.model, PrepareOptions())
    output = np.empty((3, 5, 7), np.float32)
    bound = prepared.create_reusable_execution(request([source, axes], [output]))
    for axis in (0, 1, 2, 0, -1):
        axes[0] = axis  # arrays are referred to: what they hold when the computation begins is what counts
        result = bound.execute(OPTIONS)
        expected = source.mean(axis=axis, keepdims=True)
        assert result.output_shapes[0].dimensions == expected.shape
        np.testing.assert_allclose(output.reshape(-1)[: expected.size], expected.reshape(-1), rtol=1e-5, atol=1e-6)


def test_a_wrong_value_fails_that_execution_alone(vulkan: VulkanDevice) -> None:
    row = parse("ADD f32[3] f32[3] @NONE")
    prepared = vulkan.prepare_model(row.model, PrepareOptions())
    output = np.empty(3, np.float32)
    for activation, code in ((999, ResultCode.OP_FAILED), (FuseCode.RELU, None), (-1, ResultCode.OP_FAILED)):
        arguments = request([*row.inputs[:2], np.array(activation, np.int32)], [output])
        if code is None:
            prepared.execute(arguments, OPTIONS)
            np.testing.assert_array_equal(output, np.maximum(row.inputs[0] + row.inputs[1], 0))
            continue
        with pytest.raises(NnapiError, match=r"ADD: activation must be a FuseCode \(0 to 3\), got") as error:
            prepared.execute(arguments, OPTIONS)
        assert error.value.code is code


# --- what the model computes -------------------------------------------------------------------------------------


def computed_shape() -> Model:
    """[2, 3, 5] and two halves of a shape -> the first in the shape that is their sum, and twice that."""
    build, unknown = Builder(), OperandType(OperandCode.TENSOR_FLOAT32)
    data, *float16 = [build.operand(type_) for type_ in (f32(2, 3, 5), VECTOR, VECTOR)]
    same = build.operation(OperationCode.RESHAPE, [data, build.operation(OperationCode.ADD, float16, VECTOR)], unknown)
    twice = build.operation(OperationCode.ADD, [same, same], unknown)
    return build.finish([data, *float16], [same, twice]).frozen


@pytest.mark.parametrize("shape", [(6, 5), (30, 1), (1, 30), (6, 5)], ids=str)
def test_a_shape_that_is_computed(vulkan: VulkanDevice, shape: tuple[int, int]) -> None:
    prepared = vulkan.prepare_model(computed_shape(), PrepareOptions())
    data = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    half = np.array([1, 2], np.int32)
    same, twice = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for _ in range(2):
        result = prepared.execute(request([data, half, np.array(shape, np.int32) - half], [same, twice]), OPTIONS)
        assert [output.dimensions for output in result.output_shapes] == [shape, shape]
        np.testing.assert_array_equal(same, data.reshape(shape))
        np.testing.assert_array_equal(twice, 2 * data.reshape(shape))


def test_buffers_that_turn_out_too_small(vulkan: VulkanDevice) -> None:
    prepared = vulkan.prepare_model(computed_shape(), PrepareOptions())
    data, half = np.arange(30, dtype=np.float32).reshape(2, 3, 5), np.array([3, 2], np.int32)
    same, twice = np.full(29, 7, np.float32), np.empty(30, np.float32)
    result = prepared.execute(request([data, half, np.array([3, 3], np.int32)], [same, twice]), OPTIONS)
    assert result.code is ResultCode.OUTPUT_INSUFFICIENT_SIZE
    assert [(shape.dimensions, shape.is_sufficient) for shape in result.output_shapes] == [
        ((6, 5), False),
        ((6, 5), True),
    ]
    assert (same == 7).all()


def test_a_rank_is_a_value_that_follows_from_shapes(vulkan: VulkanDevice) -> None:
    """RANK's result is looked at by the operation after it, in the same segment."""
    build = Builder()
    tensor = build.operand(f32(3, 5))
    rank = build.operation(OperationCode.RANK, [tensor], INT)
    longer = build.operation(OperationCode.EXPAND_DIMS, [tensor, rank], OperandType(OperandCode.TENSOR_FLOAT32))
    prepared = vulkan.prepare_model(build.finish([tensor], [longer]).frozen, PrepareOptions())
    data, output = np.ones((3, 5), np.float32), np.empty((3, 5, 1), np.float32)
    result = prepared.execute(request([data], [output]), OPTIONS)
    assert result.output_shapes[0].dimensions == (3, 5, 1)
    assert prepared._program.single is not None  # type: ignore[attr-defined]


# --- optional inputs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("perm", [np.array([0, 2, 1], np.int32), None, np.array([2, 1, 0], np.int32)], ids=str)
def test_an_input_that_may_be_omitted(vulkan: VulkanDevice, perm: np.ndarray | None) -> None:
    row = parse("TRANSPOSE f32[2,3,5] @(2,1,0)")
    expected = row.inputs[0].transpose(perm)
    output = np.empty(expected.shape, np.float32)
    prepared = vulkan.prepare_model(row.model, PrepareOptions())
    arguments = Request(
        [InputArgument(row.inputs[0]), InputArgument(perm)], [OutputArgument(output.reshape(-1).view(np.uint8))]
    )
    for _ in range(2):
        prepared.execute(arguments, OPTIONS)
        np.testing.assert_array_equal(output, expected)


# --- data that breaks a rule -------------------------------------------------------------------------------------


def fails(device: VulkanDevice, row: Row, data_error: str) -> None:
    prepared = device.prepare_model(row.model, PrepareOptions())
    outputs = [OutputArgument(np.zeros(4096, np.uint8)) for _ in row.model.outputs]
    with pytest.raises(NnapiError, match=data_error) as error:
        prepared.execute(Request([InputArgument(array) for array in row.inputs], outputs), OPTIONS)
    assert error.value.code is ResultCode.OP_FAILED
    with pytest.raises(NnapiError, match=data_error) as error:
        reference(row)


@pytest.mark.parametrize("dtype", ["f32", "f16", "i32", "u8"])
@pytest.mark.parametrize("indices", ["(0,5,1)", "(-1,2,3)", "(2,2147483647,0)", "(-2147483648)"])
def test_indices_that_are_out_of_range(vulkan: VulkanDevice, dtype: str, indices: str) -> None:
    quantisation = "*0.5+3" if dtype == "u8" else ""
    (wrong,) = [number for number in map(int, indices[1:-1].split(",")) if not 0 <= number < 5]
    fails(
        vulkan,
        parse(f"GATHER {dtype}[2,5,3]{quantisation} 1 @{indices}"),
        rf"GATHER: indices must be in \[0, 5\), got {wrong}",
    )
    fails(
        vulkan,
        parse(f"EMBEDDING_LOOKUP @{indices} {dtype}[5,4]{quantisation} -> {dtype}{quantisation}"),
        rf"EMBEDDING_LOOKUP: lookup must be in \[0, 5\), got {wrong}",
    )
    if dtype.startswith("f"):
        fails(
            vulkan,
            parse(f"BLOCK_QUANTIZED_EMBEDDING_LOOKUP @{indices} #i32[5,2] #{dtype}[5,1] 16 13 none -> {dtype}"),
            rf"BLOCK_QUANTIZED_EMBEDDING_LOOKUP: lookup must be in \[0, 5\), got {wrong}",
        )


def test_keys_that_do_not_ascend(vulkan: VulkanDevice) -> None:
    row = parse("HASHTABLE_LOOKUP @(1,4) @(0,3,1,7,9) f32[5,2] -> f32")
    hits = Operand(OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 1.0), Lifetime.SUBGRAPH_OUTPUT)
    (operation,) = row.model.operations
    count = len(row.model.operands)
    model = replace(
        row.model,
        operands=(*row.model.operands, hits),
        operations=(replace(operation, outputs=(*operation.outputs, count)),),
        outputs=(*row.model.outputs, count),
    )
    fails(vulkan, replace(row, model=model), "HASHTABLE_LOOKUP: key must ascend, got 1 after a larger one")


def test_an_execution_after_one_that_failed(vulkan: VulkanDevice) -> None:
    row = parse("GATHER f32[5,3] 0 @(0,4)")
    prepared = vulkan.prepare_model(row.model, PrepareOptions())
    output = np.empty((2, 3), np.float32)
    bound = prepared.create_reusable_execution(request(row.inputs, [output]))
    data, indices = row.inputs
    for last, fine in ((4, True), (5, False), (3, True), (-1, False), (0, True)):
        indices[1] = last
        if fine:
            bound.execute(OPTIONS)
            np.testing.assert_array_equal(output, data[[0, last]])
        else:
            with pytest.raises(NnapiError, match=rf"got {last}"):
                bound.execute(OPTIONS)
