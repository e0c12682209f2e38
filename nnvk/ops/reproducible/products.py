"""Convolutions and matrix products: each result is one sum, which begins with the bias, of the products along K."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.conv2d import conv_axes, group_count
from nnvk.ops.depthwise_conv2d import depthwise_axes
from nnvk.ops.extension.block_quantized import dequantized
from nnvk.ops.recurrent import present
from nnvk.ops.reproducible.functions import activated
from nnvk.ops.transpose_conv2d import transpose_conv_axes
from nnvk.ops.window import from_nhwc, to_nhwc, windows

_BLOCK = 1 << 15
"""Sums that are computed at a time, so that they stay in the cache."""


def _add_products(sums: np.ndarray, left: Iterable[np.ndarray], right: Iterable[np.ndarray]) -> None:
    """Add the products of the pairs to the sums, in order: each product and each sum is rounded."""
    product = np.empty_like(sums)
    for one, other in zip(left, right, strict=True):
        np.multiply(one, other, out=product)
        np.add(sums, product, out=sums)


def rows_times(rows: np.ndarray, weights: np.ndarray, bias: np.ndarray | np.float32) -> np.ndarray:
    """Sums [rows, outputs] that begin with the bias, of rows [rows, K] and weights [K, outputs]."""
    outputs = weights.shape[1]
    sums: np.ndarray = np.empty((len(rows), outputs), np.float32)
    sums[:] = bias + np.float32(0)
    count = max(1, _BLOCK // outputs)
    for start in range(0, len(rows), count):
        block = np.ascontiguousarray(rows[start : start + count].T)
        _add_products(sums[start : start + count], block[:, :, np.newaxis], weights)
    return sums


def _weights(call: Call) -> np.ndarray:
    return np.asarray(call.filter.data, np.float32)


def convolution(call: Call) -> np.ndarray:
    """The sums over the rows and columns of the window and the channels; groups apart."""
    source, filters, groups = to_nhwc(call.input.data, call.nchw), _weights(call), group_count(call)
    views = windows(source, *conv_axes(call), 0)
    *pixels, height, width, _ = views.shape
    outputs, depth = len(filters) // groups, filters.shape[3]
    result: np.ndarray = np.empty((*pixels, len(filters)), np.float32)
    for group in range(groups):
        own = slice(group * outputs, (group + 1) * outputs)
        of_group = filters[own].reshape(outputs, -1).T
        for image, part in enumerate(views[..., group * depth : (group + 1) * depth]):
            for line, row in enumerate(part):
                rows = row.reshape(-1, height * width * depth)
                result[image, line, :, own] = rows_times(rows, of_group, call.bias.data[own])
    return from_nhwc(activated(result, call.activation), call.nchw)


def depthwise(call: Call) -> np.ndarray:
    """The sums over the rows and columns of the window."""
    source, filters = to_nhwc(call.input.data, call.nchw), _weights(call)[0]
    views = np.repeat(windows(source, *depthwise_axes(call), 0), call.depth_multiplier, axis=5)
    sums = np.broadcast_to(call.bias.data + np.float32(0), (*views.shape[:3], filters.shape[2])).copy()
    taps = list(np.ndindex(*filters.shape[:2]))
    _add_products(sums, (views[:, :, :, row, column] for row, column in taps), (filters[tap] for tap in taps))
    return from_nhwc(activated(sums, call.activation), call.nchw)


def transposed(call: Call) -> np.ndarray:
    """The sums over the rows and columns of the filter and the channels."""
    source, filters = to_nhwc(call.input.data, call.nchw), _weights(call)
    axes = transpose_conv_axes(call)
    extents = [max((axis.size - 1) * axis.stride + axis.window, axis.before + axis.out) for axis in axes]
    full = np.broadcast_to(call.bias.data + np.float32(0), (len(source), *extents, len(filters))).copy()
    for tap in np.ndindex(*filters.shape[1:3]):
        reached = [
            slice(first, first + (axis.size - 1) * axis.stride + 1, axis.stride)
            for axis, first in zip(axes, tap, strict=True)
        ]
        rights = np.moveaxis(filters[:, tap[0], tap[1]], 1, 0)
        _add_products(full[:, reached[0], reached[1]], np.moveaxis(source, 3, 0)[..., np.newaxis], rights)
    top, left = (slice(axis.before, axis.before + axis.out) for axis in axes)
    return from_nhwc(np.ascontiguousarray(activated(full[:, top, left], call.activation)), call.nchw)


def fully_connected(call: Call) -> np.ndarray:
    """The sums along K, the rows of the weights."""
    weights = np.asarray(call.weights.data, np.float32)
    rows = call.input.data.reshape(call.output.shape[0], weights.shape[1])
    return activated(rows_times(rows, weights.T, call.bias.data), call.activation)


def block_quantized(call: Call) -> np.ndarray:
    """The sums along K, which begin with 0, and the bias."""
    sums = rows_times(call.input.data, dequantized(call, call.input.shape[1]).T, np.float32(0))
    return activated(sums + call.bias.data if present(call, "bias") else sums, call.activation)


def batch_matmul(call: Call) -> np.ndarray:
    """The sums along K, which begin with 0."""
    left, right = call.input0.data, call.input1.data
    left = left if call.adj_x else left.swapaxes(-1, -2)
    right = right.swapaxes(-1, -2) if call.adj_y else right
    sums = np.zeros(call.output.shape, np.float32)
    lefts, rights = np.moveaxis(left, -2, 0)[..., np.newaxis], np.moveaxis(right, -2, 0)[..., np.newaxis, :]
    _add_products(sums, lefts, rights)
    return sums
