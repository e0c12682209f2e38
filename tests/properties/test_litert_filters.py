"""Convolutions, products and windows against LiteRT: odd sizes, dilation, both paddings, extreme scales."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from litert_check import FUSED, SAME, VALID, Tensors
from tflite_net import T

REAL = "FLOAT32"
STEPS = {REAL: 0, "INT8": 0, "UINT8": 1}
"""TFLite rounds its two types of 8 bits differently, here in products of scales and there in halves. nnvk treats both
alike, as it treats INT8."""


def placement(t: Tensors, size: tuple[int, int], window: tuple[int, int], *, dilated: bool) -> dict[str, int]:
    """Options of a window: VALID padding only where it fits."""
    dilation = (t.integer(1, 3), t.integer(1, 3)) if dilated else (1, 1)
    fits = all((w - 1) * d < s for w, d, s in zip(window, dilation, size, strict=True))
    options = {
        "Padding": t.pick((SAME, VALID)) if fits else SAME,
        "StrideH": t.integer(1, 3),
        "StrideW": t.integer(1, 3),
        "FusedActivationFunction": t.pick(FUSED),
    }
    if dilated:
        options |= {"DilationHFactor": dilation[0], "DilationWFactor": dilation[1]}
    return options


def product(
    t: Tensors, source_shape: tuple[int, ...], filter_shape: tuple[int, ...], channel: int, kind: str
) -> tuple[list[T], T]:
    """Input, filter, bias and output of sums of products; INT8 filters may have a scale per channel."""
    count = filter_shape[channel]
    if kind == REAL:
        bias = t.real_constant(count)
        return [t.real(*source_shape), t.real_constant(*filter_shape), bias], T()
    scale: object = None
    if kind == "INT8" and count > 1 and t.chance():
        scale = [t.pick((0.02, 0.3, 0.005)) for _ in range(count)]
    source, weights = t.quantised(kind, *source_shape), t.weights(kind, *filter_shape, scale=scale)
    weights.dim = channel
    terms = math.prod(filter_shape) // count
    natural = source.scale * float(np.mean(weights.scale)) * 60 * math.sqrt(terms)
    return [source, weights, t.bias(source, weights, count)], t.result(kind, natural)


KINDS = pytest.mark.parametrize("kind", [REAL, "INT8", "UINT8"])


@KINDS
@given(data=st.data())
def test_conv_2d(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    batches, channels, outputs = t.sizes(3, 4)
    size, window = (t.integer(1, 9), t.integer(1, 9)), (t.integer(1, 4), t.integer(1, 4))
    inputs, output = product(t, (batches, *size, channels), (outputs, *window, channels), 0, kind)
    t.check("CONV_2D", inputs, output, "Conv2DOptions", **placement(t, size, window, dilated=True), steps=STEPS[kind])


@KINDS
@given(data=st.data())
def test_depthwise_conv_2d(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    batches, channels, multiplier = t.sizes(3, 3)
    size, window = (t.integer(1, 9), t.integer(1, 9)), (t.integer(1, 4), t.integer(1, 4))
    inputs, output = product(t, (batches, *size, channels), (1, *window, channels * multiplier), 3, kind)
    options = {"DepthMultiplier": multiplier, **placement(t, size, window, dilated=True)}
    t.check("DEPTHWISE_CONV_2D", inputs, output, "DepthwiseConv2DOptions", **options, steps=STEPS[kind])


@KINDS
@given(data=st.data())
def test_transpose_conv_2d(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    batches, channels, outputs = t.sizes(3, 4)
    size, window, strides = ((t.integer(1, most), t.integer(1, most)) for most in (5, 4, 3))
    (source, weights, bias), output = product(t, (batches, *size, channels), (outputs, *window, channels), 0, kind)
    padding = t.pick((SAME, VALID))
    spatial = [
        s * stride if padding == SAME else (s - 1) * stride + w
        for s, stride, w in zip(size, strides, window, strict=True)
    ]
    shape = T("INT32", data=[batches, *spatial, outputs])
    options = {"Padding": padding, "StrideH": strides[0], "StrideW": strides[1]}
    t.check(
        "TRANSPOSE_CONV", [shape, weights, source, bias], output, "TransposeConvOptions", **options, steps=STEPS[kind]
    )


@KINDS
@given(data=st.data())
def test_fully_connected(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    rank = t.integer(2, 4)
    shape = t.sizes(rank)
    inputs, output = product(t, shape, (t.integer(1, 5), shape[-1]), 0, kind)
    if isinstance(inputs[1].scale, list):  # NNAPI's FULLY_CONNECTED has one scale; tests of the importer have more
        inputs[1].scale = inputs[1].scale[0]
        inputs[2] = t.bias(inputs[0], inputs[1], inputs[1].shape[0])
    fused, steps = t.pick(FUSED), 0 if kind == REAL else 1  # TFLite rounds these once, Android twice
    t.check("FULLY_CONNECTED", inputs, output, "FullyConnectedOptions", FusedActivationFunction=fused, steps=steps)


@pytest.mark.parametrize("kind", [REAL, "INT8"])
@given(data=st.data())
def test_batch_matmul(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    batches = t.sizes(t.integer(0, 2), 3)
    rows, inner, columns = t.sizes(3)
    adj_x, adj_y = t.chance(), t.chance()
    shapes = [(inner, rows) if adj_x else (rows, inner), (columns, inner) if adj_y else (inner, columns)]
    if kind == REAL:
        inputs, output = [t.real(*batches, *shape) for shape in shapes], T()
    else:
        inputs = [t.quantised(kind, *batches, *shape) for shape in shapes]
        output = t.result(kind, inputs[0].scale * inputs[1].scale * 5000 * math.sqrt(inner))
    t.check("BATCH_MATMUL", inputs, output, "BatchMatMulOptions", AdjX=adj_x, AdjY=adj_y, atol=1e-4)


@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
@KINDS
@given(data=st.data())
def test_pool(name: str, kind: str, data: st.DataObject) -> None:
    if name == "L2_POOL_2D" and kind != REAL:
        return
    t = Tensors(data)
    batches, channels = t.sizes(2, 4)
    size, window = (t.integer(1, 9), t.integer(1, 9)), (t.integer(1, 4), t.integer(1, 4))
    shape = (batches, *size, channels)
    source = t.real(*shape) if kind == REAL else t.quantised(kind, *shape)
    output = T() if kind == REAL else T(kind, scale=source.scale, zero_point=source.zero_point)
    options = {"FilterHeight": window[0], "FilterWidth": window[1], **placement(t, size, window, dilated=False)}
    t.check(name, [source], output, "Pool2DOptions", **options, steps=STEPS[kind])
