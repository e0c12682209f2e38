"""TRANSPOSE_CONV_2D: it is to CONV_2D what a transposed matrix is to the matrix."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

CODE = OperationCode.TRANSPOSE_CONV_2D
SAME, VALID = 1, 2


def whole(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def shape(*sizes):
    return np.array(sizes, np.int32)


@pytest.mark.parametrize("scheme", [SAME, VALID, (1, 0, 2, 1)], ids=["same", "valid", "explicit"])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3), (5, 1)], ids=str)
@pytest.mark.parametrize("window", [(3, 3), (2, 5), (4, 1)], ids=str)
def test_is_the_adjoint_of_conv_2d(ops, scheme, stride, window):
    """For all images and gradients: <conv(image), gradient> == <image, transpose_conv(gradient)>."""
    image, filters = whole(2, 11, 13, 3), whole(5, *window, 3, seed=1)
    if isinstance(scheme, tuple):
        # With explicit padding the sizes tell one another only where the windows end with the padded image.
        left, right, top, bottom = scheme
        rest = (11 + top + bottom - window[0]) % stride[0], (13 + left + right - window[1]) % stride[1]
        image = image[:, : 11 - rest[0], : 13 - rest[1]].copy()
    steps = (stride[1], stride[0])
    padding = scheme if isinstance(scheme, tuple) else (scheme,)
    (forward,) = ops.run(OperationCode.CONV_2D, image, filters, np.zeros(5, np.float32), *padding, *steps, 0)
    gradient = whole(*forward.shape, seed=2)
    swapped = np.ascontiguousarray(filters.transpose(3, 1, 2, 0))
    bias = np.zeros(3, np.float32)
    if isinstance(scheme, tuple):
        (back,) = ops.run(CODE, gradient, swapped, bias, *padding, *steps, 0, False)
    else:
        (back,) = ops.run(CODE, gradient, swapped, bias, shape(*image.shape), scheme, *steps, 0, False)
    assert back.shape == image.shape
    assert (forward * gradient).sum() == (image * back).sum()


def test_what_no_window_reaches_is_the_bias(ops):
    (result,) = ops.run(
        CODE, np.ones((1, 1, 1, 1), np.float32), np.ones((1, 2, 2, 1), np.float32), np.full(1, 0.5, np.float32),
        shape(1, 3, 3, 1), VALID, 1, 1, 0, False,
    )  # fmt: skip
    assert result[0, :, :, 0].tolist() == [[1.5, 1.5, 0.5], [1.5, 1.5, 0.5], [0.5, 0.5, 0.5]]


def test_nchw_output_shape(ops):
    (result,) = ops.run(CODE, whole(1, 2, 3, 3), whole(5, 3, 3, 2), whole(5), shape(1, 5, 6, 7), SAME, 2, 2, 0, True)
    assert result.shape == (1, 5, 6, 7)


def test_an_output_shape_that_is_not_known_yet(ops):
    later = OperandType(OperandCode.TENSOR_INT32, (4,))
    assert ops.infer(CODE, whole(1, 3, 3, 2), whole(5, 3, 3, 2), whole(5), later, SAME, 2, 2, 0, False) is None


IMAGE, FILTERS, BIAS = whole(1, 3, 3, 2), whole(5, 3, 3, 2), whole(5)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param((IMAGE, FILTERS[..., :1], BIAS, 0, 0, 0, 0, 1, 1, 0, False), "filter must have depth 2, the channels of input", id="depth"),  # noqa: E501
        pytest.param((IMAGE, FILTERS, BIAS, 0, 0, 0, 0, 0, 1, 0, False), "stride_width must be at least 1, got 0", id="stride"),  # noqa: E501
        pytest.param((IMAGE, FILTERS, BIAS, 3, 2, 0, 0, 1, 1, 0, False), "padding along width must leave something of 5, got 3 + 2", id="all_padding"),  # noqa: E501
        pytest.param((IMAGE, FILTERS, BIAS, -1, 0, 0, 0, 1, 1, 0, False), "padding along width must not be negative, got -1 and 0", id="negative_padding"),  # noqa: E501
        pytest.param((IMAGE, FILTERS, BIAS, shape(1, 5, 5), 1, 1, 1, 0, False), "output_shape must have shape [4]", id="rank"),  # noqa: E501
        pytest.param((IMAGE, FILTERS, BIAS, shape(1, 0, 5, 5), 1, 1, 1, 0, False), "output_shape must have a height of at least 1, got 0", id="empty"),  # noqa: E501
        pytest.param((IMAGE, FILTERS, BIAS, shape(2, 5, 5, 5), 1, 1, 1, 0, False), "output_shape must have the 1 batches of input and the 5 outputs of filter, got [2, 5, 5, 5]", id="batches"),  # noqa: E501
        pytest.param((IMAGE, FILTERS, BIAS, shape(1, 5, 5, 5), 0, 1, 1, 0, False), "padding scheme must be a PaddingCode (1 or 2), got 0", id="padding"),  # noqa: E501
    ],
)  # fmt: skip
def test_errors(ops, inputs, words):
    with pytest.raises(NnapiError) as error:
        ops.infer(CODE, *inputs)
    assert error.value.code is ResultCode.BAD_DATA
    assert words in error.value.reason
