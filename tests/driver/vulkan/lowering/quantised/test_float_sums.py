"""Sums of two tensors of 8-bit levels by floats, as the epilogue of a GEMM on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from against_reference import check_like_the_reference
from builder import Builder

from nnvk.check.model_rows import Row
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.quantised.float_sums import Operand, QuantisedSum
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.types.codes import FuseCode, OperandCode, OperationCode, PaddingCode
from nnvk.types.operand import OperandType

pytestmark = pytest.mark.numbers
U8, I8 = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
ADD, SUB = OperationCode.ADD, OperationCode.SUB
CHANNELS, PIXELS = 16, (64, 64)
"""Together as many elements as there are pairs of levels."""
HALF = 2**30
CASES = [
    (U8, ADD, (0.11, 128), (0.07, 117), (0.13, 126), FuseCode.NONE),
    (I8, ADD, (0.11, -3), (0.07, 127), (0.29, -128), FuseCode.RELU),
    (I8, SUB, (0.02, 11), (0.3, -90), (0.31, 5), FuseCode.NONE),
    (U8, ADD, (0.05, 255), (0.05, 0), (0.05, 128), FuseCode.RELU6),
    (U8, ADD, (0.03, 128), (0.02, 117), (0.06, 126), FuseCode.NONE),
    (U8, SUB, (0.05, 3), (0.9, 200), (0.004, 3), FuseCode.RELU1),
]


def row_of(code: OperandCode, kind: OperationCode, parameters: list[tuple[float, int]], activation: FuseCode) -> Row:
    """All pairs of levels, of which a convolution copies the first ones."""
    (scale, zero), (other_scale, other_zero), (result_scale, result_zero) = parameters
    build, least = Builder(), 0 if code is U8 else -128
    shape = 1, *PIXELS, CHANNELS
    x = build.operand(OperandType(code, shape, scale, zero))
    other = build.operand(OperandType(code, shape, other_scale, other_zero))
    middle = least + 128
    weights = (np.eye(CHANNELS, dtype=np.int64) + middle).astype(np.uint8 if code is U8 else np.int8)
    filters = build.constant(
        OperandType(code, (CHANNELS, 1, 1, CHANNELS), 1.0, middle), weights.reshape(CHANNELS, 1, 1, CHANNELS)
    )
    bias = build.constant(OperandType(OperandCode.TENSOR_INT32, (CHANNELS,), scale), np.zeros(CHANNELS, np.int32))
    copy = build.operation(
        OperationCode.CONV_2D,
        [x, filters, bias, *map(build.value, [PaddingCode.VALID, 1, 1, 0])],
        OperandType(code, (), scale, zero),
    )
    result = OperandType(code, (), result_scale, result_zero)
    y = build.operation(kind, [copy, other, build.value(int(activation))], result)
    pairs = np.stack(np.meshgrid(np.arange(256), np.arange(256)), -1).reshape(*shape, 2) + least
    data = [np.ascontiguousarray(pairs[..., side]).astype(weights.dtype) for side in (0, 1)]
    return Row(build.finish([x, other], [y]).frozen, data)


def constants(device: VulkanDevice, row: Row) -> dict[str, int]:
    """The specialisation constants of the only dispatch of a row."""
    shapes = [array.shape for array in row.inputs]
    commands = device.planner.lower(row.model, shapes).commands
    (product,) = (each for each in commands if isinstance(each, Dispatch))
    return product.shader.named_constants(product.specialization)


@pytest.mark.parametrize(
    ("code", "kind", "own", "other", "result", "activation"), CASES, ids=lambda each: getattr(each, "name", str(each))
)
def test_all_pairs_of_levels(
    small_gpu: VulkanDevice,
    code: OperandCode,
    kind: OperationCode,
    own: tuple[float, int],
    other: tuple[float, int],
    result: tuple[float, int],
    activation: FuseCode,
) -> None:
    row = row_of(code, kind, [own, other, result], activation)
    found = constants(small_gpu, row)
    assert found["FLOAT_SUM"]
    assert found["SATURATES"] == small_gpu.profile.saturates
    check_like_the_reference(small_gpu, row)


@pytest.mark.parametrize("saturates", [False, True], ids=["clamped", "saturates"])
@pytest.mark.parametrize("limits", [(0, 255), (7, 7), (126, 127)], ids=str)
def test_ties_and_limits(limits: tuple[int, int], saturates: bool) -> None:
    """Many sums of halves lie in the middle between two results, and limits may leave one result or two."""
    half = Operand(120, HALF, 0, 1)
    assert QuantisedSum(half, half, Operand(126, HALF, -18, 0), *limits).floats(saturates=saturates) is not None


def test_sums_that_no_floats_give(small_gpu: VulkanDevice) -> None:
    """Some sums are so close to the middle between two results that the reference rounds them by its first rounding."""
    row = row_of(U8, ADD, [(0.03, 128), (0.17, 117), (0.12, 126)], FuseCode.NONE)
    assert not constants(small_gpu, row)["FLOAT_SUM"]
    check_like_the_reference(small_gpu, row)
