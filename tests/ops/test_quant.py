"""Fixed-point arithmetic, against gemmlowp's definitions in whole numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnvk.ops.call import Tensor
from nnvk.ops.quant import (
    map_levels,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    quantize_multipliers,
    requantize,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

INT32 = st.integers(-(2**31), 2**31 - 1)
EDGES = [-(2**31), -(2**30), -3, -2, -1, 0, 1, 2, 3, 2**30, 2**31 - 1]


def towards_zero(numerator: int, denominator: int) -> int:
    quotient = abs(numerator) // denominator
    return quotient if numerator >= 0 else -quotient


def high_mul(a: int, b: int) -> int:
    if a == b == -(2**31):
        return 2**31 - 1
    product = a * b
    return towards_zero(product + (2**30 if product >= 0 else 1 - 2**30), 2**31)


def divide_by_pot(x: int, exponent: int) -> int:
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


@pytest.mark.parametrize("a", EDGES)
@pytest.mark.parametrize("b", EDGES)
def test_high_mul_at_the_edges(a: int, b: int) -> None:
    assert saturating_rounding_doubling_high_mul(np.array([a]), b)[0] == high_mul(a, b)


@given(INT32, INT32)
def test_high_mul(a: int, b: int) -> None:
    assert saturating_rounding_doubling_high_mul(np.array([a]), b)[0] == high_mul(a, b)


@given(st.one_of(INT32, st.integers(-100, 100)), st.integers(0, 31))
def test_division_by_a_power_of_two(x: int, exponent: int) -> None:
    assert rounding_divide_by_pot(np.array([x]), exponent)[0] == divide_by_pot(x, exponent)


def test_division_by_a_power_of_two_per_element() -> None:
    exponents = np.array([0, 1, 2, 5])
    got = rounding_divide_by_pot(np.array([-5, -5, -6, -48]), exponents)
    assert got.tolist() == [-5, -3, -2, -2]


@given(st.floats(2**-30, 2**10))
def test_a_multiplier_stands_for_its_real_number(real: float) -> None:
    mantissa, shift = quantize_multiplier(real)
    assert 2**30 <= mantissa < 2**31
    assert math.isclose(mantissa * 2.0 ** (shift - 31), real, rel_tol=2**-31)


def test_multipliers_are_the_same_one_by_one_and_together() -> None:
    reals = [0.0, 1e-12, 2**-33, 0.3, 0.5, 1 - 2**-40, 1.0, 1.7, 255.0]
    mantissas, shifts = quantize_multipliers(reals)
    assert list(zip(mantissas.tolist(), shifts.tolist(), strict=True)) == [quantize_multiplier(real) for real in reals]


def test_products_round_twice() -> None:
    # 71 * 0.0209934... = 1.4905...: the high product is 47.7, rounded to 48, which is 1.5 of the 32 it is divided by.
    mantissa, shift = quantize_multiplier(0.020993464087911067)
    assert multiply_by_quantized_multiplier(np.array([71]), mantissa, shift)[0] == 2


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_function_of_steps_is_looked_up_in_any_layout(dtype: type) -> None:
    data = np.arange(256).astype(dtype).reshape(16, 16)
    for view in (data, data.T, data[::3, ::-1]):
        np.testing.assert_array_equal(map_levels(lambda steps: steps.astype(np.int64) * 3, view), view.astype(int) * 3)


def tensor(code: OperandCode, scale: float, zero_point: int, values: list[int]) -> Tensor:
    type_ = OperandType(code, (len(values),), scale, zero_point)
    return Tensor("t", 0, type_, data=np.array(values, type_.dtype))


def test_requantize_rounds_halves_up_and_saturates() -> None:
    source = tensor(OperandCode.TENSOR_QUANT8_ASYMM, 0.5, 10, [0, 9, 10, 11, 12, 255])
    result = tensor(OperandCode.TENSOR_QUANT8_ASYMM, 1.0, 3, [])
    assert requantize(source, result).tolist() == [0, 3, 3, 4, 4, 126]


def test_requantize_signed_equals_unsigned() -> None:
    steps = list(range(256))
    unsigned = requantize(
        tensor(OperandCode.TENSOR_QUANT8_ASYMM, 0.3, 100, steps), tensor(OperandCode.TENSOR_QUANT8_ASYMM, 0.2, 7, [])
    )
    signed = requantize(
        tensor(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 0.3, -28, [step - 128 for step in steps]),
        tensor(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 0.2, -121, []),
    )
    np.testing.assert_array_equal(unsigned.astype(int) - 128, signed)
