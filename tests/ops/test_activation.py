"""ELU and HARD_SWISH."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("alpha", [1.0, 0.25])
def test_elu(ops, dtype, alpha):
    x = np.linspace(-9, 9, 77, dtype=dtype).reshape(7, 11)
    wide = x.astype(float)
    expected = np.where(wide > 0, wide, alpha * (np.exp(np.minimum(wide, 0)) - 1))
    (result,) = ops.run(OperationCode.ELU, x, dtype(alpha))
    np.testing.assert_allclose(result, expected, rtol=2**-10 if dtype == np.float16 else 1e-6)


def test_elu_of_small_numbers_is_precise(ops):
    (result,) = ops.run(OperationCode.ELU, np.array([-1e-6], np.float32), 1.0)
    np.testing.assert_allclose(result, np.expm1(-1e-6), rtol=1e-6)


def test_elu_of_large_numbers_does_not_overflow(ops):
    assert ops.run(OperationCode.ELU, np.array([3e38, -3e38], np.float32), 2.0)[0].tolist() == [np.float32(3e38), -2]


def hard_swish(x):
    return x * np.clip(x + 3, 0, 6) / 6


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_hard_swish(ops, dtype):
    x = np.linspace(-5, 5, 91, dtype=dtype)
    (result,) = ops.run(OperationCode.HARD_SWISH, x)
    np.testing.assert_allclose(
        result, hard_swish(x.astype(float)), rtol=2**-10 if dtype == np.float16 else 1e-6, atol=1e-7
    )


@pytest.mark.parametrize(
    ("scale", "zero_point", "out_scale", "out_zero_point"),
    [(0.04, 128, 0.04, 128), (0.1, 100, 0.09, 4), (0.5, 3, 0.5, 9), (0.02, 200, 0.03, 60), (0.1, 128, 0.0005, 128)],
)
def test_hard_swish_of_every_step_and_signed_is_unsigned(ops, scale, zero_point, out_scale, out_zero_point):
    steps = np.arange(256, dtype=np.uint8)
    code, signed_code = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
    (result,) = ops.run(
        OperationCode.HARD_SWISH, (steps, scale, zero_point), outputs=[OperandType(code, (), out_scale, out_zero_point)]
    )
    real = hard_swish((steps.astype(float) - zero_point) * scale) / out_scale + out_zero_point
    assert np.abs(result - np.clip(real, 0, 255)).max() <= 1
    (lower,) = ops.run(
        OperationCode.HARD_SWISH,
        ((steps.astype(int) - 128).astype(np.int8), scale, zero_point - 128),
        outputs=[OperandType(signed_code, (), out_scale, out_zero_point - 128)],
    )
    np.testing.assert_array_equal(lower, result.astype(int) - 128)
