"""CONV_2D and GROUPED_CONV_2D, against sums over one window at a time."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops import linear
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

SAME, VALID = 1, 2


def whole(*shape, seed=0):
    """Small whole numbers: their sums are exact in float32."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def padding(size, window, stride, dilation, scheme):
    if isinstance(scheme, tuple):
        return scheme
    if scheme == VALID:
        return 0, 0
    total = max(0, (-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def naive(source, filters, bias, stride, dilation, schemes, groups=1):
    """Strides, dilations and paddings are (vertical, horizontal)."""
    outputs, window_h, window_w, depth = filters.shape
    pads = [
        padding(source.shape[1 + axis], filters.shape[1 + axis], stride[axis], dilation[axis], schemes[axis])
        for axis in (0, 1)
    ]
    padded = np.pad(source, ((0, 0), *pads, (0, 0)))
    reach = [(window - 1) * step + 1 for window, step in zip((window_h, window_w), dilation, strict=True)]
    rows, columns = ((padded.shape[1 + axis] - reach[axis]) // stride[axis] + 1 for axis in (0, 1))
    result = np.empty((len(source), rows, columns, outputs), np.float32)
    for row, column, output in np.ndindex(rows, columns, outputs):
        top, left = row * stride[0], column * stride[1]
        window = padded[:, top : top + reach[0] : dilation[0], left : left + reach[1] : dilation[1]]
        first = output // (outputs // groups) * depth
        products = window[..., first : first + depth] * filters[output]
        result[:, row, column, output] = products.sum(axis=(1, 2, 3)) + bias[output]
    return result


SHAPES = [
    pytest.param((1, 5, 7, 3), (4, 1, 1), (1, 1), id="pointwise"),
    pytest.param((2, 7, 5, 3), (5, 1, 1), (3, 2), id="pointwise_strided"),
    pytest.param((3, 11, 13, 2), (3, 3, 3), (1, 1), id="3x3"),
    pytest.param((1, 11, 7, 5), (2, 3, 5), (2, 3), id="3x5_strided"),
    pytest.param((2, 8, 9, 1), (7, 2, 4), (2, 1), id="even_window"),
]


@pytest.mark.parametrize(("shape", "filter_shape", "stride"), SHAPES)
@pytest.mark.parametrize("scheme", [SAME, VALID], ids=["same", "valid"])
def test_implicit_padding(ops, shape, filter_shape, stride, scheme):
    source, filters, bias = whole(*shape), whole(*filter_shape, shape[3], seed=1), whole(filter_shape[0], seed=2)
    (result,) = ops.run(OperationCode.CONV_2D, source, filters, bias, scheme, stride[1], stride[0], 0)
    np.testing.assert_array_equal(result, naive(source, filters, bias, stride, (1, 1), (scheme, scheme)))


@pytest.mark.parametrize(("shape", "filter_shape", "stride"), SHAPES)
@pytest.mark.parametrize("dilation", [(1, 1), (1, 2)], ids=["dense", "dilated"])
def test_explicit_padding(ops, shape, filter_shape, stride, dilation):
    source, filters, bias = whole(*shape), whole(*filter_shape, shape[3], seed=1), whole(filter_shape[0], seed=2)
    steps = (stride[1], stride[0], 0, False, dilation[1], dilation[0])
    (result,) = ops.run(OperationCode.CONV_2D, source, filters, bias, 2, 1, 0, 3, *steps)
    np.testing.assert_array_equal(result, naive(source, filters, bias, stride, dilation, ((0, 3), (2, 1))))


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
def test_groups(ops, groups, nchw):
    source, filters, bias = whole(2, 7, 5, 6), whole(12, 3, 2, 6 // groups, seed=1), whole(12, seed=2)
    fed = source.transpose(0, 3, 1, 2) if nchw else source
    (result,) = ops.run(OperationCode.GROUPED_CONV_2D, fed, filters, bias, SAME, 1, 2, groups, 0, nchw)
    result = result.transpose(0, 2, 3, 1) if nchw else result
    np.testing.assert_array_equal(result, naive(source, filters, bias, (2, 1), (1, 1), (SAME, SAME), groups))


@pytest.mark.parametrize("limit", [1, 100, 1000], ids=lambda limit: f"{limit}_elements")
def test_windows_laid_out_in_parts(ops, monkeypatch, limit):
    source, filters, bias = whole(5, 7, 11, 3), whole(4, 3, 3, 3, seed=1), whole(4, seed=2)
    inputs = (OperationCode.CONV_2D, source, filters, bias, SAME, 1, 1, 0)
    (together,) = ops.run(*inputs)
    monkeypatch.setattr(linear, "_COLUMNS", limit)
    np.testing.assert_array_equal(ops.run(*inputs)[0], together)


def test_float16_is_rounded_once_at_the_end(ops):
    rng = np.random.default_rng(0)
    source, filters, bias = (
        rng.normal(size=shape).astype(np.float16) for shape in ((1, 5, 5, 61), (3, 3, 3, 61), (3,))
    )
    (result,) = ops.run(OperationCode.CONV_2D, source, filters, bias, VALID, 1, 1, 0)
    wide = (array.astype(np.float32) for array in (source, filters, bias))
    exact = naive(*wide, (1, 1), (1, 1), (VALID, VALID))
    np.testing.assert_allclose(result, exact, rtol=2**-11, atol=1e-4)


@pytest.mark.parametrize(
    ("fuse", "low", "high"), [(1, 0, np.inf), (2, -1, 1), (3, 0, 6)], ids=["relu", "relu1", "relu6"]
)
def test_fused_activation(ops, fuse, low, high):
    source, filters, bias = whole(1, 5, 5, 2), whole(3, 3, 3, 2, seed=1), whole(3, seed=2)
    (plain,) = ops.run(OperationCode.CONV_2D, source, filters, bias, SAME, 1, 1, 0)
    (fused,) = ops.run(OperationCode.CONV_2D, source, filters, bias, SAME, 1, 1, fuse)
    np.testing.assert_array_equal(fused, np.clip(plain, low, high))


def test_a_shape_that_is_not_known_yet(ops):
    unknown = OperandType(OperandCode.TENSOR_FLOAT32, (1, 0, 0, 3))
    assert ops.infer(OperationCode.CONV_2D, unknown, whole(4, 3, 3, 3), whole(4), SAME, 1, 1, 0) is None


IMAGE, FILTERS, BIAS = whole(1, 5, 5, 6), whole(4, 3, 3, 6), whole(4)


@pytest.mark.parametrize(
    ("code", "inputs", "words"),
    [
        pytest.param("CONV_2D", (IMAGE, FILTERS, BIAS, 3, 1, 1, 0), "padding scheme must be a PaddingCode (1 or 2), got 3", id="padding"),  # noqa: E501
        pytest.param("CONV_2D", (IMAGE, FILTERS, BIAS, 1, 0, 1, 0), "stride_width must be at least 1, got 0", id="stride"),  # noqa: E501
        pytest.param("CONV_2D", (IMAGE, FILTERS, BIAS, 1, 1, 1, 9), "activation must be a FuseCode (0 to 3), got 9", id="activation"),  # noqa: E501
        pytest.param("CONV_2D", (IMAGE, FILTERS, BIAS, 1, 1, 1, 0, False, 0, 1), "dilation_width must be at least 1, got 0", id="dilation"),  # noqa: E501
        pytest.param("CONV_2D", (IMAGE, FILTERS, BIAS, 0, 0, -1, 0, 1, 1, 0), "padding along height must not be negative, got -1 and 0", id="negative_padding"),  # noqa: E501
        pytest.param("CONV_2D", (IMAGE[:, :2], FILTERS, BIAS, 2, 1, 1, 0), "does not fit into an input of 2", id="window"),  # noqa: E501
        pytest.param("CONV_2D", (IMAGE, FILTERS[..., :5], BIAS, 1, 1, 1, 0), "filter must have depth 6 for the 6 channels of input", id="depth"),  # noqa: E501
        pytest.param("CONV_2D", (IMAGE, FILTERS.astype(np.float16), BIAS, 1, 1, 1, 0), "filter (input 1) must be TENSOR_FLOAT32, got TENSOR_FLOAT16", id="type"),  # noqa: E501
        pytest.param("GROUPED_CONV_2D", (IMAGE, FILTERS, BIAS, 1, 1, 1, 0, 0, False), "num_groups must be at least 1, got 0", id="groups"),  # noqa: E501
        pytest.param("GROUPED_CONV_2D", (IMAGE, FILTERS, BIAS, 1, 1, 1, 2, 0, False), "filter must have depth 3 for the 6 channels of input in 2 group(s)", id="group_depth"),  # noqa: E501
        pytest.param("GROUPED_CONV_2D", (IMAGE, FILTERS[..., :2], BIAS, 1, 1, 1, 3, 0, False), "filter must have a multiple of 3 output channels", id="group_outputs"),  # noqa: E501
    ],
)  # fmt: skip
def test_errors(ops, code, inputs, words):
    with pytest.raises(NnapiError) as error:
        ops.infer(OperationCode[code], *inputs)
    assert error.value.code is ResultCode.BAD_DATA
    assert error.value.reason.startswith(f"{code}: ")
    assert words in error.value.reason


def test_one_dilation_needs_the_other(ops):
    with pytest.raises(NnapiError):
        ops.infer(OperationCode.CONV_2D, IMAGE, FILTERS, BIAS, 1, 1, 1, 0, False, 2)
