"""CONV_2D, GROUPED_CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV_2D share scales, layouts, exact sums and rules."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops.call import Tensor
from nnvk.ops.linear import output_multipliers
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Operand
from nnvk.types.operand import ChannelQuant, OperandType

Q8 = OperandCode.TENSOR_QUANT8_ASYMM
Q8S = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
I32 = OperandCode.TENSOR_INT32
F32 = OperandCode.TENSOR_FLOAT32
CHANNELS = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
OUTPUT = OperandType(Q8, (), 130.0, 128)

# Filter shape for 6 channels in, the channel dimension of its scales, and what follows the bias (SAME, stride 1).
SETTINGS = {
    OperationCode.CONV_2D: ((4, 3, 2, 6), 0, (1, 1, 1, 0)),
    OperationCode.GROUPED_CONV_2D: ((4, 3, 2, 3), 0, (1, 1, 1, 2, 0)),
    OperationCode.DEPTHWISE_CONV_2D: ((1, 3, 2, 12), 3, (1, 1, 1, 2, 0)),
    OperationCode.TRANSPOSE_CONV_2D: ((4, 3, 2, 6), 0, (1, 1, 0)),
}
CODES = pytest.mark.parametrize("code", SETTINGS, ids=lambda code: code.name)


def scalars(code, nchw=False):
    rest = SETTINGS[code][2]
    if code is OperationCode.TRANSPOSE_CONV_2D:
        return [0, 0, 0, 0, *rest, nchw]
    return [*rest, nchw]


def tensor(code, data, scale=0.0, zero_point=0, channels=None):
    type_ = OperandType(code, data.shape, scale, zero_point, channels)
    return Operand(type_, Lifetime.CONSTANT, data.astype(type_.dtype))


def random_steps(code, seed=0):
    """Unsigned steps of an input and a filter, and a bias."""
    rng = np.random.default_rng(seed)
    shape, dim, _ = SETTINGS[code]
    source, filter_ = rng.integers(0, 256, (2, 5, 7, 6)), rng.integers(0, 256, shape)
    return source, filter_, rng.integers(-3000, 3000, shape[dim])


def quantised(source, filter_, bias):
    return [tensor(Q8, source, 0.5, 120), tensor(Q8, filter_, 0.25, 131), tensor(I32, bias, 0.125)]


def run(ops, code, parts, output=OUTPUT, nchw=False):
    (result,) = ops.run(code, *parts, *scalars(code, nchw), outputs=[output])
    return result


@CODES
def test_quantised_is_the_float_result_and_signed_is_unsigned(ops, code):
    source, filter_, bias = random_steps(code)
    reals = [(source - 120) * 0.5, (filter_ - 131) * 0.25, bias * 0.125]
    exact = run(ops, code, [tensor(F32, values) for values in reals], OperandType(F32))
    result = run(ops, code, quantised(source, filter_, bias))
    assert np.abs(result - np.clip(exact / 130 + 128, 0, 255)).max() < 0.6
    assert len(np.unique(result)) > 50
    signed = [tensor(Q8S, source - 128, 0.5, -8), tensor(Q8S, filter_ - 128, 0.25, 3), tensor(I32, bias, 0.125)]
    lower = run(ops, code, signed, OperandType(Q8S, (), 130.0, 0))
    np.testing.assert_array_equal(lower, result.astype(int) - 128)


@CODES
@pytest.mark.parametrize("source_code", [Q8, Q8S], ids=lambda code: code.name)
def test_scales_per_channel_are_as_many_filters_of_one_scale(ops, code, source_code):
    source, filter_, bias = random_steps(code)
    unsigned = source_code is Q8
    low = 0 if unsigned else -128
    _, dim, _ = SETTINGS[code]
    scales = tuple(float(np.float32(0.05 * 1.5**index)) for index in range(filter_.shape[dim]))
    output = OperandType(source_code, (), 60.0, 128 + low)
    inputs = tensor(source_code, source + low, 0.5, 120 + low)
    channels = tensor(CHANNELS, filter_ - 128, channels=ChannelQuant(scales, dim))
    together = run(ops, code, [inputs, channels, tensor(I32, bias)], output)
    for channel, scale in enumerate(scales):
        filters = tensor(Q8, filter_, scale, 128) if unsigned else tensor(Q8S, filter_ - 128, scale)
        alone = run(ops, code, [inputs, filters, tensor(I32, bias, 0.5 * scale)], output)
        np.testing.assert_array_equal(together[..., channel], alone[..., channel])


@CODES
def test_nchw_is_nhwc_transposed(ops, code):
    source, filter_, bias = random_steps(code)
    nhwc = run(ops, code, quantised(source, filter_, bias))
    nchw = run(ops, code, quantised(source.transpose(0, 3, 1, 2), filter_, bias), nchw=True)
    np.testing.assert_array_equal(nchw, nhwc.transpose(0, 3, 1, 2))


@CODES
def test_no_batches(ops, code):
    source, filter_, bias = random_steps(code)
    assert run(ops, code, quantised(source[:0], filter_, bias)).shape[0] == 0


@pytest.mark.parametrize("terms", [3, 257, 4099])
def test_sums_are_exact_whatever_their_size(ops, terms):
    """255 * 255 * 4099 is beyond 2^24: in float32 the last bits would go."""
    rng = np.random.default_rng(terms)
    source, filter_ = rng.integers(200, 256, (1, 1, 5, terms)), rng.integers(200, 256, (3, 1, 1, terms))
    sums = source @ filter_.reshape(3, terms).T
    bias = -sums[0, 0, 0]
    parts = [tensor(Q8, source, 1.0), tensor(Q8, filter_, 1.0), tensor(I32, bias, 1.0)]
    (result,) = ops.run(OperationCode.CONV_2D, *parts, 2, 1, 1, 0, outputs=[OperandType(Q8, (), 1.0, 128)])
    np.testing.assert_array_equal(result, np.clip(sums + bias + 128, 0, 255))


# For sources [rows, terms] and filters [columns, terms]: what an operation needs to multiply them as matrices.
MATRICES = {
    OperationCode.CONV_2D: ((2, 1, 1, -1), (3, 1, 1, -1), (2, 1, 1, 0)),
    OperationCode.GROUPED_CONV_2D: ((2, 1, 1, -1), (3, 1, 1, -1), (2, 1, 1, 1, 0, False)),
    OperationCode.DEPTHWISE_CONV_2D: ((2, -1, 1, 1), (1, -1, 1, 3), (2, 1, 1, 3, 0)),
    OperationCode.TRANSPOSE_CONV_2D: ((2, 1, 1, -1), (3, 1, 1, -1), (0, 0, 0, 0, 1, 1, 0, False)),
    OperationCode.FULLY_CONNECTED: ((2, -1), (3, -1), (0,)),
    OperationCode.BATCH_MATMUL: ((2, -1), (3, -1), (False, True)),
}
PRODUCTS = pytest.mark.parametrize("code", MATRICES, ids=lambda code: code.name)


def multiply(ops, code, source, filter_, bias, scales):
    """The product of signed steps, whose zero points are 127, in steps of the output from 0."""
    source_shape, filter_shape, rest = MATRICES[code]
    if code is OperationCode.DEPTHWISE_CONV_2D:
        filter_ = filter_.T
    parts = [tensor(Q8S, source.reshape(source_shape), scales[0], 127)]
    parts += [tensor(Q8S, filter_.reshape(filter_shape), scales[1], 127)]
    if code is not OperationCode.BATCH_MATMUL:
        parts.append(tensor(I32, bias, float(np.float32(scales[0]) * np.float32(scales[1]))))
    (result,) = ops.run(code, *parts, *rest, outputs=[OperandType(Q8S, (), scales[2], 0)])
    return result.reshape(2, 3).astype(np.int64)


@PRODUCTS
@pytest.mark.parametrize("terms", [1, 33_200])
@pytest.mark.parametrize("bias", [0, 2**31 - 1, -(2**31), 2**30])
def test_sums_are_numbers_of_32_bits_that_wrap_round(ops, code, terms, bias):
    """255 * 255 * 33200 is beyond 2^31, as TFLite's accumulators, which the GPU has too."""
    source = np.full((2, terms), -128)
    filter_ = np.stack([np.full(terms, -128), np.full(terms, 127), np.full(terms, -127)])
    sums = (source - 127) @ (filter_ - 127).T
    if code is not OperationCode.BATCH_MATMUL:
        sums += bias
    wrapped = (sums + 2**31) % 2**32 - 2**31
    assert (wrapped != sums).any() == (sums.max() >= 2**31)
    result = multiply(ops, code, source, filter_, np.full(3, bias), (1.0, 1.0, 2.0**24))
    assert np.abs(result - np.clip(np.round(wrapped / 2**24), -128, 127)).max() <= 1


@PRODUCTS
def test_scales_are_multiplied_in_single_or_in_double_precision(ops, code):
    """As TFLite: FULLY_CONNECTED and BATCH_MATMUL in single precision, whatever their operands are called."""
    scales = 0.1, 0.3, 0.2
    single = code in (OperationCode.FULLY_CONNECTED, OperationCode.BATCH_MATMUL)
    first, second, output = (np.float32(scale) for scale in scales)
    product = float(first * second) if single else float(first) * float(second)
    assert float(first * second) != float(first) * float(second)
    operands = [Tensor(name, 0, OperandType(Q8S, (1,), scale, 0)) for name, scale in zip("abc", scales, strict=True)]
    mantissas, shifts = output_multipliers(code, *operands)
    assert mantissas[0] * 2.0 ** (int(shifts[0]) - 31) == pytest.approx(product / float(output), rel=2**-31)


@CODES
@pytest.mark.parametrize(
    ("position", "change", "words"),
    [
        pytest.param(0, lambda x: tensor(Q8, x[0], 0.5), "input must have rank 4, got shape [5, 7, 6]", id="rank"),
        pytest.param(0, lambda x: tensor(Q8, x[..., :5], 0.5), "filter must have", id="channels"),
        pytest.param(1, lambda x: tensor(Q8, x[0], 0.25), "filter must have rank 4", id="filter_rank"),
        pytest.param(2, lambda x: tensor(I32, x[:3], 0.125), "bias must have shape", id="bias_shape"),
        pytest.param(2, lambda x: tensor(I32, x, 0.126), "bias must have scale 0.125", id="bias_scale"),
    ],
)
def test_errors(ops, code, position, change, words):
    steps = random_steps(code)
    parts = quantised(*steps)
    parts[position] = change(steps[position])
    with pytest.raises(NnapiError) as error:
        run(ops, code, parts)
    assert error.value.code is ResultCode.BAD_DATA
    assert error.value.reason.startswith(f"{code.name}: ")
    assert words in error.value.reason


@CODES
@pytest.mark.parametrize("scale", [0.125, 0.7])
def test_a_bias_beside_scales_per_channel_may_have_any_scale(ops, code, scale):
    """Android's CPU looks at the filter's scales alone."""
    source, filter_, bias = random_steps(code)
    dim = SETTINGS[code][1]
    channels = ChannelQuant((0.25,) * filter_.shape[dim], dim)
    parts = [tensor(Q8, source, 0.5, 120), tensor(CHANNELS, filter_ - 128, channels=channels)]
    expected = run(ops, code, [*parts, tensor(I32, bias)])
    assert np.ptp(expected) > 50
    assert np.array_equal(run(ops, code, [*parts, tensor(I32, bias, scale)]), expected)


@CODES
@pytest.mark.parametrize(
    ("count", "dim", "words"),
    [
        pytest.param(99, None, "scales, one per output channel, got 99", id="count"),
        pytest.param(2, 1, "filter must have its scales along dimension", id="dimension"),
    ],
)
def test_errors_of_scales_per_channel(ops, code, count, dim, words):
    source, filter_, bias = random_steps(code)
    channels = ChannelQuant((0.25,) * count, SETTINGS[code][1] if dim is None else dim)
    parts = [tensor(Q8, source, 0.5, 120), tensor(CHANNELS, filter_ - 128, channels=channels), tensor(I32, bias)]
    with pytest.raises(NnapiError) as error:
        run(ops, code, parts)
    assert error.value.code is ResultCode.BAD_DATA
    assert words in error.value.reason
