"""QUANTIZE, DEQUANTIZE and CAST."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.model import Lifetime, Operand
from nnvk.types.operand import ChannelQuant, OperandType

F32, F16 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16
Q8, Q8S = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_quantize_rounds_halves_away_from_zero_and_saturates(ops, dtype):
    values = np.array([-999, -1.25, -0.75, -0.25, 0, 0.25, 0.75, 1.0, 999], dtype)
    (result,) = ops.run(OperationCode.QUANTIZE, values, outputs=[OperandType(Q8, (), 0.5, 100)])
    assert result.tolist() == [0, 97, 98, 99, 100, 101, 102, 102, 255]
    (lower,) = ops.run(OperationCode.QUANTIZE, values, outputs=[OperandType(Q8S, (), 0.5, -28)])
    np.testing.assert_array_equal(lower, result.astype(int) - 128)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_quantize_with_ties_to_even(ops, dtype):
    values = np.array([-999, -1.25, -0.75, -0.26, -0.25, 0, 0.25, 0.26, 0.75, 1.0, np.inf, np.nan], dtype)
    code = ExtendedOperationCode.QUANTIZE_TIES_TO_EVEN
    (result,) = ops.run(code, values, outputs=[OperandType(Q8, (), 0.5, 100)])
    assert result.tolist() == [0, 98, 98, 99, 100, 100, 100, 101, 102, 102, 255, 0]
    (lower,) = ops.run(code, values, outputs=[OperandType(Q8S, (), 0.5, -28)])
    np.testing.assert_array_equal(lower, result.astype(int) - 128)


@pytest.mark.parametrize("code", [F32, F16], ids=lambda code: code.name)
def test_dequantize_gives_every_step(ops, code):
    steps = np.arange(256, dtype=np.uint8).reshape(2, 128)
    (result,) = ops.run(OperationCode.DEQUANTIZE, (steps, 0.25, 10), outputs=[OperandType(code)])
    np.testing.assert_array_equal(result, (steps.astype(float) - 10) * 0.25)
    signed = (steps.astype(int) - 128).astype(np.int8)
    (again,) = ops.run(OperationCode.DEQUANTIZE, (signed, 0.25, -118), outputs=[OperandType(code)])
    np.testing.assert_array_equal(again, result)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_dequantize_per_channel(ops, dim):
    steps = np.random.default_rng(0).integers(-128, 128, (2, 3, 5)).astype(np.int8)
    scales = tuple(2.0**-index for index in range(steps.shape[dim]))
    type_ = OperandType(
        OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, steps.shape, channel_quant=ChannelQuant(scales, dim)
    )
    operand = Operand(type_, Lifetime.CONSTANT, steps)
    (result,) = ops.run(OperationCode.DEQUANTIZE, operand, outputs=[OperandType(F32)])
    for index, scale in enumerate(scales):
        np.testing.assert_array_equal(result.take(index, dim), steps.take(index, dim) * scale)


@pytest.mark.parametrize("code", ["QUANTIZE", "CAST"])
def test_empty(ops, code):
    (result,) = ops.run(OperationCode[code], np.zeros((0, 3), np.float32), outputs=[OperandType(Q8, (), 1.0)])
    assert result.shape == (0, 3)


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        pytest.param(np.array([-1.9, -0.5, 0.9, 300, np.inf, -np.inf, np.nan], np.float32), Q8, [0, 0, 0, 255, 255, 0, 0], id="float32_to_uint8"),  # noqa: E501
        pytest.param(np.array([-1.9, 1.9, 3e9, -3e9, 2**24 + 2], np.float32), OperandCode.TENSOR_INT32, [-1, 1, 2**31 - 1, -(2**31), 2**24 + 2], id="float32_to_int32"),  # noqa: E501
        pytest.param(np.array([-1, 0, 255, 256], np.int32), Q8, [0, 0, 255, 255], id="int32_to_uint8"),
        pytest.param(np.array([-7, 2**24 + 1], np.int32), F32, [-7, 2**24], id="int32_to_float32"),
        pytest.param(np.array([0.1, 70000], np.float32), F16, [np.float16(0.1), np.inf], id="float32_to_float16"),
        pytest.param(np.array([False, True]), OperandCode.TENSOR_BOOL8, [False, True], id="bool_to_itself"),
    ],
)  # fmt: skip
def test_cast(ops, values, target, expected):
    scale = 1.0 if target is Q8 else 0.0
    assert ops.run(OperationCode.CAST, values, outputs=[OperandType(target, (), scale)])[0].tolist() == expected


def test_cast_ignores_scales(ops):
    steps = (np.array([0, 7, 255], np.uint8), 0.5, 100)
    assert ops.run(OperationCode.CAST, steps, outputs=[OperandType(F32)])[0].tolist() == [0, 7, 255]


@pytest.mark.parametrize(
    ("code", "value", "output", "words"),
    [
        pytest.param("CAST", np.zeros(3, bool), F32, "output output must be TENSOR_BOOL8, got TENSOR_FLOAT32", id="bool_to_float"),  # noqa: E501
        pytest.param("QUANTIZE", np.zeros(3, np.float32), F32, "TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED, got TENSOR_FLOAT32", id="quantize_to_float"),  # noqa: E501
        pytest.param("DEQUANTIZE", np.zeros(3, np.float32), F32, "input must be", id="dequantize_float"),
    ],
)  # fmt: skip
def test_errors(ops, code, value, output, words):
    with pytest.raises(NnapiError) as error:
        ops.infer(OperationCode[code], value, outputs=[OperandType(output)])
    assert words in error.value.reason


def test_cast_keeps_the_shape(ops):
    with pytest.raises(NnapiError, match=r"output is declared as \[2\], but the inputs give \[3\]"):
        ops.infer(OperationCode.CAST, np.zeros(3, np.float32), outputs=[OperandType(F32, (2,))])
