"""The rules by which outputs pass, at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk import OperandCode
from nnvk.conformance.compare import first_difference, multinomial_difference

F32, F16 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("code", "relaxed", "expected", "actual", "passes"),
    [
        (F32, False, 0.0, 0.99e-5, True),
        (F32, False, 0.0, 1.01e-5, False),
        (F32, False, 1000.0, 1000.00055, True),
        (F32, False, 1000.0, 1000.0007, False),
        (F32, True, 1.0, 1.009, True),
        (F32, True, 1.0, 1.010, False),
        (F16, False, 1.0, 1.0088, True),
        (F16, False, 1.0, 1.0107, False),
        (F32, False, NAN, NAN, False),
        (F32, False, 1.0, NAN, False),
        (F32, False, INF, INF, True),
        (F32, False, INF, -INF, False),
        (F32, False, INF, 1.0, False),
        (F32, False, 1.0, INF, False),
        (OperandCode.TENSOR_QUANT8_ASYMM, False, 255, 254, True),
        (OperandCode.TENSOR_QUANT8_ASYMM, False, 255, 0, False),
        (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, False, 127, -128, False),
        (OperandCode.TENSOR_QUANT16_SYMM, False, -5, -4, True),
        (OperandCode.TENSOR_QUANT16_ASYMM, False, 65535, 65533, False),
        (OperandCode.TENSOR_INT32, True, 2**31 - 1, 2**31 - 2, False),
        (OperandCode.TENSOR_INT32, False, -(2**31), -(2**31), True),
        (OperandCode.BOOL, False, True, False, False),
    ],
)
def test_the_rule_of_each_type(code: OperandCode, relaxed: bool, expected: float, actual: float, passes: bool) -> None:
    dtypes = {"TENSOR_FLOAT16": "f2", "TENSOR_FLOAT32": "f4", "TENSOR_INT32": "i4", "BOOL": "?"}
    unsigned = "u" if code.name.endswith("_ASYMM") else "i"
    dtype = dtypes.get(code.name, f"{unsigned}{2 if '16' in code.name else 1}")
    difference = first_difference(np.array([expected], dtype), np.array([actual], dtype), code, relaxed)
    assert (difference is None) == passes


def test_a_bool_is_0_or_1() -> None:
    actual = np.array([0xA5], np.uint8).view(np.bool_)
    assert first_difference(np.array([True]), actual, OperandCode.TENSOR_BOOL8)


def test_the_first_differing_element_is_named() -> None:
    expected, actual = np.zeros((2, 3), np.float32), np.array([[0, 0, 0], [0, 0.5, 2]], np.float32)
    text = first_difference(expected, actual, F32)
    assert text == "element [1, 1]: expected 0.0, got 0.5, off by 0.5 with 1e-05 allowed (2 of 6 differ)"


def test_scalars_and_empty_outputs_are_compared() -> None:
    assert first_difference(np.array(3, np.int32), np.array(3, np.int32), OperandCode.INT32) is None
    text = first_difference(np.array(3, np.int32), np.array(4, np.int32), OperandCode.INT32)
    assert text == "the value: expected 3, got 4 (1 of 1 differ)"
    assert first_difference(np.empty((0, 2), np.float32), np.empty((0, 2), np.float32), F32) is None
    assert first_difference(np.empty((0, 2), np.float32), np.empty((0, 3), np.float32), F32)


def test_draws_are_compared_by_frequency() -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25], [1e-9, 0.5, 0.5]])).astype(np.float32)
    draws = np.array([[0, 0, 1, 2], [1, 2, 1, 2]], np.int32)
    assert multinomial_difference(logits, draws, 0.01) is None
    assert multinomial_difference(logits + 700, draws, 0.01) is None, "logits need no particular size"
    assert "row 1, class 0" in str(multinomial_difference(logits, draws[[0, 0]], 0.01))
    assert "drew class 3, there are 3" in str(multinomial_difference(logits, draws + 1, 0.01))
    assert "dimensions [4]" in str(multinomial_difference(logits, draws[0], 0.01))
