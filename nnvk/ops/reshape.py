"""Operations that give a tensor another shape and leave its elements: RESHAPE, SQUEEZE, EXPAND_DIMS."""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import (
    MOVED,
    MOVED_2,
    MOVED_INT_3,
    at_least_1d,
    axis_index,
    keeps_quantisation,
    vector,
)
from nnvk.ops.signature import I32, Signature, i32, one_of, optional_tensor, tensor
from nnvk.ops.strided import Box
from nnvk.ops.traits import Fp16, Traits, View
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _reshape(call: Call) -> list[Shape]:
    sizes = vector(call.shape, any_rank=True)
    elements = call.input.size
    wild = [position for position, size in enumerate(sizes) if size == -1]
    if len(wild) > 1 or any(size < -1 for size in sizes):
        raise bad_data(f"shape must have sizes from 0 up and at most one -1, got {sizes}")
    rest = math.prod(size for size in sizes if size != -1)
    shape = tuple(elements // max(rest, 1) if size == -1 else size for size in sizes)
    if math.prod(shape) != elements:
        raise bad_data(f"shape must keep the {elements} elements of input {list(call.input.shape)}, got {sizes}")
    return [at_least_1d(shape)]


def _squeeze(call: Call) -> list[Shape]:
    shape = call.input.shape
    listed = [] if call.axes is None else vector(call.axes)
    squeezed = {axis_index("axes", axis, len(shape)) for axis in listed}
    for axis in sorted(squeezed):
        if shape[axis] != 1:
            raise bad_data(f"axes must name dimensions of size 1 of input {list(shape)}, got axis {axis}")
    if not listed:
        squeezed = {axis for axis, size in enumerate(shape) if size == 1}
    return [at_least_1d(tuple(size for axis, size in enumerate(shape) if axis not in squeezed))]


def _expand_dims(call: Call) -> list[Shape]:
    shape = call.input.shape
    axis = axis_index("axis", call.axis, len(shape) + 1)
    return [(*shape[:axis], 1, *shape[axis:])]


def reshaped(call: Call) -> np.ndarray:
    """The input's elements in the output's shape."""
    source: np.ndarray = call.input.data
    return source.reshape(call.output.shape)


def _same(call: Call) -> list[Box]:
    return [Box(((call.input.size, 1),))]


_INTEGERS = one_of(I32)

for _code, _types, _rank, _parameter, _infer in (
    (OperationCode.RESHAPE, {**MOVED, I32: 6}, (1, 4), tensor("shape", _INTEGERS), _reshape),
    (OperationCode.SQUEEZE, MOVED_2, (1, 4), optional_tensor("axes", _INTEGERS, rank=1), _squeeze),
    (OperationCode.EXPAND_DIMS, MOVED_INT_3, None, i32("axis"), _expand_dims),
):
    define(
        _code,
        traits=Traits(foldable=True, fp16=Fp16.FOLLOWS, view=View.RESHAPED, boxes=_same),
        types=_types,
        signatures=Signature(tensor("input", rank=_rank), _parameter),
        infer=_infer,
        reference=reshaped,
        validate=keeps_quantisation(),
        wide=True,
    )
