"""Windows that are gathered give what views of a padded input give; huge ones don't take their time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from drawn import HypothesisDraw
from generators import Case, Draw, draw_case, run_case
from generators.draw import boolean, i32
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnvk.ops import window
from nnvk.ops.signature import F32
from nnvk.types.codes import OperationCode as Op
from nnvk.types.codes import PaddingCode
from nnvk.types.operand import OperandType


@pytest.mark.parametrize(
    "code",
    [Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D, Op.L2_POOL_2D, Op.CONV_2D, Op.GROUPED_CONV_2D],
    ids=lambda code: code.name,
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_gathered_windows(code: Op, data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    case = draw_case(HypothesisDraw(data), code)
    expected = run_case(case)[0]
    with monkeypatch.context() as patch:
        patch.setattr(window, "_MOST_PADDING", -1)
        np.testing.assert_allclose(run_case(case)[0].astype(float), expected.astype(float), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("code", [Op.AVERAGE_POOL_2D, Op.MAX_POOL_2D, Op.L2_POOL_2D], ids=lambda code: code.name)
def test_a_window_far_larger_than_the_input(code: Op) -> None:
    source = Draw(1).new(OperandType(F32, (1, 5, 7, 3)), 0.5, 2.0)

    def pool(size: int) -> np.ndarray:
        numbers = (PaddingCode.SAME, 1, 1, size, size, 0)
        return run_case(Case(code, (source, *map(i32, numbers)), (OperandType(F32),)))[0]

    began = time.process_time()
    np.testing.assert_allclose(pool(1 << 30), pool(99), rtol=1e-6)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("code", [Op.CONV_2D, Op.DEPTHWISE_CONV_2D], ids=lambda code: code.name)
def test_a_dilation_far_larger_than_the_input(code: Op) -> None:
    d = Draw(2)
    source, weights, bias = (d.new(OperandType(F32, shape)) for shape in ((1, 5, 7, 1), (1, 3, 3, 1), (1,)))

    def convolve(dilation: int) -> np.ndarray:
        multiplier = (i32(1),) if code is Op.DEPTHWISE_CONV_2D else ()
        numbers = (i32(PaddingCode.SAME), i32(1), i32(1), *multiplier, i32(0))
        inputs = (source, weights, bias, *numbers, boolean(False), i32(dilation), i32(dilation))
        return run_case(Case(code, inputs, (OperandType(F32),)))[0]

    began = time.process_time()
    np.testing.assert_allclose(convolve(1 << 28), convolve(50), rtol=1e-6)
    assert time.process_time() - began < 2
