"""Pools, of any rank: those of other than two axes go along one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.importers.emitter import NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.shape import padded
from nnvk.importers.onnx.mappers.windows import Window, kernel_of, windows_of
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode


def _image(c: Context) -> tuple[Value, list[Window]]:
    value = c.value() if c.tensor().dtype.kind == "f" else c.cast(c.number(), np.dtype(np.float32))
    return value, _windows(c, value)


def _windows(c: Context, value: Value) -> list[Window]:
    rank = len(value.shape) - 2
    if rank < 1:
        raise Unmapped(f"the input must have rank 3 at least, got shape {list(value.shape)}")
    return windows_of(c, value.shape[2:], kernel_of(c.node, rank), bool(c.node.integer("ceil_mode", 0)))


@operator("MaxPool")
def max_pool(c: Context) -> Tensor:
    """Map MaxPool. Integers go by FLOAT32, and quantised tensors keep their levels."""
    value, windows = _image(c)
    dtype = c.tensor().dtype
    if c.wants(1):
        raise Unmapped("NNAPI's pools do not tell the places of the largest elements")
    for window in windows:
        if window.dilation > 1 or max(window.before, window.after + window.beyond) >= window.kernel:
            raise Unmapped("NNAPI's pools have no dilation, and no padding as wide as a window")
    result = _pooled(c, Op.MAX_POOL_2D, value, windows)
    return c.give(result if dtype.kind == "f" else c.cast(result, dtype), None, dtype)


def _pooled(c: Context, code: Op, value: Value, windows: Sequence[Window]) -> Value:
    """Along two axes at once where there are two, else along one after the other."""
    if len(windows) == 2:
        return c.reshape(_pooled_image(c, code, value, windows[0], windows[1]), _pooled_shape(value, windows))
    for axis, window in enumerate(windows, 2):
        shape = value.shape
        image = c.reshape(value, (1, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))
        result = _pooled_image(c, code, image, window, Window(image.shape[3], 1, 1, 1, 0, 0))
        value = c.reshape(result, (*shape[:axis], window.out, *shape[axis + 1 :]))
    return value


def _pooled_shape(value: Value, windows: Sequence[Window]) -> tuple[int, ...]:
    return (*value.shape[:2], *(window.out for window in windows))


def _pooled_image(c: Context, code: Op, image: Value, vertical: Window, horizontal: Window) -> Value:
    pads = horizontal.before, horizontal.after + horizontal.beyond, vertical.before, vertical.after + vertical.beyond
    sizes = horizontal.stride, vertical.stride, horizontal.kernel, vertical.kernel
    return c.keep(code, image, *pads, *sizes, NONE, True)


@operator("AveragePool")
def average_pool(c: Context) -> Value:
    """Map AveragePool. NNAPI does not count padding. If ONNX does, zeros are padded before."""
    return averaged(c, c.real(_image(c)[0]))


def averaged(c: Context, value: Value) -> Value:
    """Means of windows that the node's attributes describe, of real numbers."""
    windows = _windows(c, value)
    if any(window.dilation > 1 for window in windows):
        raise Unmapped("NNAPI's means of windows have no dilation")
    if c.node.integer("count_include_pad", 0):
        before, after = ([0, 0, *(getattr(one, which) for one in windows)] for which in ("before", "after"))
        value = padded(c, value, before, after, 0.0)
        windows = [
            Window(one.size + one.before + one.after, one.kernel, one.stride, 1, 0, 0, one.beyond) for one in windows
        ]
    return _pooled(c, Op.AVERAGE_POOL_2D, value, windows)
