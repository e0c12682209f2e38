"""DEPTHWISE_CONV_2D, against GROUPED_CONV_2D with one group per channel."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperationCode

CODE = OperationCode.DEPTHWISE_CONV_2D


def whole(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def dilated(filters, dilation):
    """A filter [1, h, w, C] with zeros between its taps."""
    _, height, width, channels = filters.shape
    vertical, horizontal = dilation
    result = np.zeros((1, (height - 1) * vertical + 1, (width - 1) * horizontal + 1, channels), filters.dtype)
    result[:, ::vertical, ::horizontal] = filters
    return result


@pytest.mark.parametrize("multiplier", [1, 2, 5])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 3), (1, 1)), ((1, 2), (2, 1))], ids=str)
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (2, 5)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_is_a_grouped_convolution(ops, multiplier, stride, dilation, window, dtype):
    source = whole(2, 11, 13, 3, dtype=dtype)
    filters = whole(1, *window, 3 * multiplier, seed=1, dtype=dtype)
    bias = whole(3 * multiplier, seed=2, dtype=dtype)
    steps = (stride[1], stride[0])
    grouped = dilated(filters, dilation).transpose(3, 1, 2, 0)
    for padding in ((1,), (2,), (2, 1, 0, 3)):
        tail = (False, dilation[1], dilation[0])
        (result,) = ops.run(CODE, source, filters, bias, *padding, *steps, multiplier, 0, *tail)
        (expected,) = ops.run(
            OperationCode.GROUPED_CONV_2D, source, np.ascontiguousarray(grouped), bias, *padding, *steps, 3, 0, False
        )
        np.testing.assert_array_equal(result, expected)


IMAGE, FILTER, BIAS = whole(1, 5, 5, 3), whole(1, 3, 3, 6), whole(6)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param(
            (IMAGE, FILTER, BIAS, 1, 1, 1, 0, 0), "depth_multiplier must be at least 1, got 0", id="multiplier"
        ),
        pytest.param(
            (IMAGE, FILTER, BIAS, 1, 1, 1, 3, 0),
            "filter must have shape [1, height, width, 9] for the 3 channels of input and depth_multiplier 3, "
            "got [1, 3, 3, 6]",
            id="depth",
        ),
        pytest.param(
            (IMAGE, np.concatenate([FILTER] * 2), BIAS, 1, 1, 1, 2, 0), "got [2, 3, 3, 6]", id="first_dimension"
        ),
        pytest.param((IMAGE, FILTER, BIAS[:5], 1, 1, 1, 2, 0), "bias must have shape [6], got [5]", id="bias"),
    ],
)
def test_errors(ops, inputs, words):
    with pytest.raises(NnapiError) as error:
        ops.infer(CODE, *inputs)
    assert error.value.code is ResultCode.BAD_DATA
    assert words in error.value.reason
