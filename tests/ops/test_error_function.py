"""ERF and GELU on the reference device."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builder import Builder
from samples import compiled, f32

import nnvk
from nnvk import ExtendedOperationCode, NnapiError, OperandCode, OperandType

X = np.array([-np.inf, -9.0, -0.5, -0.0, 0.0, 1e-30, 0.3, 2.0, 9.0, np.inf, np.nan], np.float32)


def run(code: ExtendedOperationCode, x: np.ndarray, *parameters: bool) -> np.ndarray:
    build, type_ = Builder(), f32(*x.shape)
    source = build.operand(type_)
    model = build.finish([source], [build.operation(code, [source, *map(build.value, parameters)], type_)])
    return nnvk.run(compiled(model, nnvk.get_device("nnapi-reference")), [x])[0]


def test_erf() -> None:
    expected = np.array([math.erf(x) for x in X.tolist()], np.float32)
    np.testing.assert_array_equal(run(ExtendedOperationCode.ERF, X), expected)


@pytest.mark.parametrize("parameters", [(), (False,), (True,)], ids=str)
def test_gelu(parameters: tuple[bool, ...]) -> None:
    got = run(ExtendedOperationCode.GELU, X, *parameters)
    assert got[0] == 0 and got[3] == got[4] == 0 and got[-2] == np.inf and np.isnan(got[-1])
    near = 5e-4 if parameters == (True,) else 1e-7
    expected = [x / 2 * (1 + math.erf(x * math.sqrt(0.5))) for x in X[1:-2].tolist()]
    np.testing.assert_allclose(got[1:-2], expected, rtol=0, atol=near)


def test_other_types_are_refused() -> None:
    build = Builder()
    steps = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (3,), 0.1, 0)
    with pytest.raises(NnapiError, match="GELU"):
        build.finish([source := build.operand(steps)], [build.operation(ExtendedOperationCode.GELU, [source], steps)])
