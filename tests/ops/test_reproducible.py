"""The references of reproducible models: how near their functions are to the true values, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnvk.ops import registry
from nnvk.ops.reproducible import elementary, functions, reductions, refuse
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import OperandType

Function = Callable[[np.ndarray], np.ndarray]
SMALLEST = 2.0**-126
SQRT_8_OVER_PI = np.sqrt(np.longdouble(8) / np.longdouble(np.pi))
FLOAT, HALF = (OperandType(code, (2,)) for code in (OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16))
LEVELS = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (2,), 0.5, 3)


def quadrants(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)  # NumPy reduces angles of double precision exactly enough


FUNCTIONS: dict[str, tuple[Function, Function, float, float, float]] = {
    "exp": (functions.exp, np.exp, -87, 88, 1.0),
    "expm1": (functions.expm1, np.expm1, -20, 80, 1.7),
    "log": (functions.log, np.log, 0, 3e38, 0.9),
    "log1p": (functions.log1p, np.log1p, 0, 1, 1.3),
    "tanh": (functions.tanh, np.tanh, -10, 10, 1.5),
    "logistic": (functions.logistic, lambda x: 1 / (1 + np.exp(-x)), -80, 20, 2.3),
    "gelu_by_tanh": (
        functions.gelu_by_tanh,
        lambda x: x / (1 + np.exp(-SQRT_8_OVER_PI * (x + np.longdouble("0.044715") * x**3))),
        -9,
        9,
        3.2,
    ),
    "swish": (lambda x: functions.swish(x, 1.0), lambda x: x / (1 + np.exp(-x)), -80, 80, 2.4),
    "softplus": (functions.softplus, lambda x: np.log1p(np.exp(x)), -80, 80, 1.9),
    "mish": (functions.mish, lambda x: x * np.tanh(np.log1p(np.exp(x))), -80, 80, 3.5),
    "sin": (functions.sin, lambda x: np.sin(quadrants(x)), -1e6, 1e6, 1.3),
    "cos": (functions.cos, lambda x: np.cos(quadrants(x)), -1e6, 1e6, 1.3),
    "acos": (elementary.acos, np.arccos, -1, 1, 1.2),
    "acosh": (elementary.acosh, np.arccosh, 1, 3e38, 2.1),
    "asin": (elementary.asin, np.arcsin, -1, 1, 2.5),
    "asinh": (elementary.asinh, np.arcsinh, -3e38, 3e38, 1.9),
    "atan": (elementary.atan, np.arctan, -3e38, 3e38, 1.7),
    "atan2 of y and 1e19": (
        lambda x: elementary.atan2(x, np.float32(1e19)),
        lambda x: np.arctan2(x, np.longdouble(np.float32(1e19))),
        *(-3e38, 3e38, 1.8),
    ),
    "atanh": (elementary.atanh, np.arctanh, -0.999, 0.999, 1.3),
    "cbrt": (elementary.cbrt, np.cbrt, -3e38, 3e38, 0.51),
    "cosh": (elementary.cosh, np.cosh, -88, 88, 1.4),
    "sinh": (elementary.sinh, np.sinh, -88, 88, 1.7),
    "tan": (elementary.tan, lambda x: np.tan(quadrants(x)), -1e6, 1e6, 1.7),
    "power of 1.7": (
        lambda x: elementary.power(np.float32(1.7), x),
        lambda x: np.power(np.longdouble(np.float32(1.7)), x),
        *(-160, 160, 1.1),
    ),
    "power by -2.3": (
        lambda x: elementary.power(x, np.float32(-2.3)),
        lambda x: np.power(x, np.longdouble(np.float32(-2.3))),
        *(0, 1e16, 1.1),
    ),
    "square_root": (functions.square_root, np.sqrt, 0, 3e38, 0.5),
    "inverse_square_root": (functions.inverse_square_root, lambda x: 1 / np.sqrt(x), 0, 3e38, 1.5),
}
"""The function, the true one, the range of arguments, and the largest error in units in the last place."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_near_the_true_value(name: str) -> None:
    function, true, low, high, allowed = FUNCTIONS[name]
    rng = np.random.default_rng(7)
    spread = rng.uniform(low, high, 50_000)
    small = np.exp2(rng.uniform(-100, np.log2(high), 50_000)) * rng.choice([1, -1 if low < 0 else 1], 50_000)
    arguments = np.clip([spread, small], low, high).astype(np.float32).ravel()
    with np.errstate(all="ignore"):
        got, want = function(arguments), np.asarray(true(arguments.astype(np.longdouble)), np.longdouble)
        is_normal = (np.abs(want) >= SMALLEST) & (np.abs(want) < 2.0**128)
        error = np.abs(got.astype(np.longdouble) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert error[is_normal].max() <= allowed, arguments[is_normal][np.argmax(error[is_normal])]
    assert is_normal.mean() > 0.7


def test_quotients_are_the_nearest_floats() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 100_000)).astype(np.float32)
    np.testing.assert_array_equal(functions.quotient(a, b), a / b)


def test_subnormal_results_of_functions_are_zeros() -> None:
    tiny = np.array([2.0**-126, -(2.0**-126)], np.float32)
    np.testing.assert_array_equal(functions.quotient(tiny, np.float32(2)), np.array([0.0, -0.0], np.float32))
    assert functions.exp(np.array([-88.0], np.float32))[0] == 0
    assert np.signbit(functions.gelu(np.array([-14.5], np.float32))[0])


def test_numbers_that_are_none() -> None:
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    with np.errstate(all="ignore"):
        assert [str(each) for each in functions.exp(x)] == ["nan", "inf", "0.0"]
        assert [str(each) for each in functions.tanh(x)] == ["nan", "1.0", "-1.0"]
        assert [str(each) for each in functions.log(x)] == ["nan", "inf", "nan"]
        assert [str(each) for each in functions.sin(x)] == ["nan", "nan", "nan"]
        assert [str(each) for each in functions.gelu(x)] == ["nan", "inf", "-0.0"]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, reductions.PART + 77])
def test_sums_have_a_stated_order(ops, count: int) -> None:
    """MEAN adds up runs of 64 in parts of 16,384, as written here by another loop."""
    values = np.random.default_rng(1).standard_normal((2, count)).astype(np.float32)
    expected = np.zeros(2, np.float32)
    for part in range(0, count, 16384):
        of_part = np.zeros(2, np.float32)
        for run in range(part, min(part + 16384, count), 64):
            of_run = np.zeros(2, np.float32)
            for at in range(run, min(run + 64, part + 16384, count)):
                of_run = of_run + values[:, at]
            of_part = of_part + of_run
        expected = expected + of_part
    call = ops.call(OperationCode.MEAN, values, np.array([1], np.int32), 0)
    registry.infer(call)
    np.testing.assert_array_equal(reductions.mean(call), expected / np.float32(count))


@pytest.mark.parametrize(
    ("code", "types", "is_refused"),
    [
        (OperationCode.CONV_2D, [FLOAT, FLOAT], False),
        (OperationCode.CONV_2D, [HALF, HALF], False),
        (OperationCode.CONV_2D, [LEVELS, LEVELS], False),
        (OperationCode.LSTM, [FLOAT], False),
        (OperationCode.QUANTIZED_LSTM, [LEVELS], False),
        (OperationCode.SOFTMAX, [LEVELS], False),
        (OperationCode.RANDOM_MULTINOMIAL, [FLOAT], True),
        (ExtendedOperationCode.TAN, [FLOAT], False),
        (OperationCode.RESHAPE, [HALF], False),
    ],
    ids=str,
)
def test_what_is_refused(code, types: list[OperandType], is_refused: bool) -> None:
    assert (refuse(code, types) is not None) == is_refused


def test_the_page_has_the_operations() -> None:
    """Those that models of floats may have."""
    page = (Path(__file__).parents[2] / "docs" / "reproducible.md").read_text(encoding="utf-8")
    section = page.split("## Operations")[1].split("\n## ")[0]
    named = re.findall(r"\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)*\b", section.split("FLOAT16:")[1])
    assert sorted(named) == sorted({code.name for code in registry.definitions() if refuse(code, [FLOAT]) is None})
