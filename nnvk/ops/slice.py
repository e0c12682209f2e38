"""Operations that take a part of a tensor: SLICE and STRIDED_SLICE."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import MOVED_2, MOVED_INT_3, at_least_1d, keeps_quantisation, vector
from nnvk.ops.signature import I32, Signature, i32, one_of, tensor
from nnvk.ops.strided import Box, Span
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _slice_bounds(call: Call) -> list[tuple[int, int]]:
    """First element and number of elements along each axis of a SLICE; BAD_DATA where the input does not reach."""
    shape = call.input.shape
    bounds = []
    begins, sizes = vector(call.begin, len(shape)), vector(call.size, len(shape))
    for axis, (begin, size, limit) in enumerate(zip(begins, sizes, shape, strict=True)):
        count = limit - begin if size == -1 else size
        if begin < 0 or count < 0 or begin + count > limit:
            raise bad_data(
                f"begin and size of axis {axis} must stay in its {limit} elements, got begin {begin} and size {size}"
            )
        bounds.append((begin, count))
    return bounds


def _slice_shape(call: Call) -> list[Shape]:
    return [tuple(count for _, count in _slice_bounds(call))]


def _slice(call: Call) -> np.ndarray:
    part = call.input.data[tuple(slice(begin, begin + count) for begin, count in _slice_bounds(call))]
    return np.ascontiguousarray(part)


def _sliced(call: Call) -> list[Box]:
    return [Box.of_spans(call.input.shape, [Span(begin, count) for begin, count in _slice_bounds(call)])]


def _strided_axes(call: Call) -> list[Span]:
    """The indices that a STRIDED_SLICE takes along each axis of its input, masks applied."""
    rank = call.input.rank
    begins, ends, strides = (vector(getattr(call, name), rank) for name in ("begin", "end", "strides"))
    axes = []
    for axis, (begin, end, stride, size) in enumerate(zip(begins, ends, strides, call.input.shape, strict=True)):
        bit = 1 << axis
        if stride == 0:
            raise bad_data(f"strides must not be 0, got {strides}")
        first = None if call.begin_mask & bit else begin
        last = None if call.end_mask & bit else end
        taken = _span(first, last, stride, size)
        if call.shrink_axis_mask & bit and (stride < 0 or taken.count != 1):
            raise bad_data(
                f"shrink_axis_mask needs one element of axis {axis} and a positive stride, "
                f"got [{begin}:{end}:{stride}] of {size}"
            )
        axes.append(taken)
    return axes


def _span(first: int | None, last: int | None, stride: int, size: int) -> Span:
    """The indices that a slice of Python's takes of so many elements."""
    low, high = (0, size) if stride > 0 else (-1, size - 1)
    bounds = (low, high) if stride > 0 else (high, low)
    begin, end = (
        bound if given is None else min(max(given + size if given < 0 else given, low), high)
        for given, bound in zip((first, last), bounds, strict=True)
    )
    return Span(begin, max(0, -((begin - end) // stride)), stride)


def _strided_shape(call: Call) -> list[Shape]:
    sizes = [taken.count for taken in _strided_axes(call)]
    return [at_least_1d(tuple(n for axis, n in enumerate(sizes) if not call.shrink_axis_mask >> axis & 1))]


def _strided_slice(call: Call) -> np.ndarray:
    taken = (np.arange(one.count) * one.stride + one.first for one in _strided_axes(call))
    return np.ascontiguousarray(call.input.data[np.ix_(*taken)]).reshape(call.output.shape)


def _strided(call: Call) -> list[Box]:
    return [Box.of_spans(call.input.shape, _strided_axes(call))]


_INTEGERS = one_of(I32)

define(
    OperationCode.SLICE,
    traits=Traits(foldable=True, fp16=Fp16.FOLLOWS, boxes=_sliced),
    types=MOVED_INT_3,
    signatures=Signature(tensor("input"), tensor("begin", _INTEGERS, rank=1), tensor("size", _INTEGERS, rank=1)),
    infer=_slice_shape,
    reference=_slice,
    validate=keeps_quantisation(),
    wide=True,
)
define(
    OperationCode.STRIDED_SLICE,
    traits=Traits(foldable=True, fp16=Fp16.FOLLOWS, boxes=_strided),
    types=MOVED_2,
    signatures=Signature(
        tensor("input", rank=(1, 4)),
        *(tensor(name, _INTEGERS, rank=1) for name in ("begin", "end", "strides")),
        i32("begin_mask"),
        i32("end_mask"),
        i32("shrink_axis_mask"),
    ),
    infer=_strided_shape,
    reference=_strided_slice,
    validate=keeps_quantisation(),
    wide=True,
)
