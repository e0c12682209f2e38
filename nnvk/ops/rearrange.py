"""Operations that put whole axes into another order: TRANSPOSE, TILE, REVERSE, CHANNEL_SHUFFLE."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import (
    MOVED_2,
    MOVED_3,
    MOVED_INT_3,
    MOVED_INT_7,
    axis_index,
    keeps_quantisation,
    keeps_rank,
    vector,
)
from nnvk.ops.signature import I32, Signature, i32, one_of, optional_tensor, tensor
from nnvk.ops.strided import Box, Span, dense_dimensions
from nnvk.ops.traits import Fp16, Traits, View
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _permutation(call: Call) -> list[int]:
    """The input's axis that each axis of a TRANSPOSE's output comes from; all reversed where perm is left out."""
    axes = list(range(call.input.rank))
    if call.perm is None or call.perm.shape == (0,):
        return axes[::-1]
    order = vector(call.perm, len(axes))
    if sorted(order) != axes:
        raise bad_data(f"perm must be a permutation of {axes}, got {order}")
    return order


def _transposed_shape(call: Call) -> list[Shape]:
    return [tuple(call.input.shape[axis] for axis in _permutation(call))]


def _transpose(call: Call) -> np.ndarray:
    return np.ascontiguousarray(call.input.data.transpose(_permutation(call)))


def _transposed(call: Call) -> list[Box]:
    return [Box.transposed(call.input.shape, _permutation(call))]


def _tiled_shape(call: Call) -> list[Shape]:
    shape = call.input.shape
    multiples = vector(call.multiples, len(shape), any_rank=True)
    if any(multiple < 0 for multiple in multiples):
        raise bad_data(f"multiples must not be negative, got {multiples}")
    return [tuple(size * multiple for size, multiple in zip(shape, multiples, strict=True))]


def _tile(call: Call) -> np.ndarray:
    return np.tile(call.input.data, vector(call.multiples, any_rank=True))


def _tiled(call: Call) -> list[Box]:
    repeated = zip(vector(call.multiples, any_rank=True), dense_dimensions(call.input.shape), strict=True)
    return [Box(tuple(dimension for multiple, own in repeated for dimension in ((multiple, 0), own)))]


def _reversed_axis(call: Call) -> int:
    """The one axis that a REVERSE reverses."""
    (axis,) = vector(call.axis, 1)
    if not 0 <= axis < call.input.rank:
        raise bad_data(f"axis must be in [0, {call.input.rank}), got {axis}")
    return axis


def _reversed_shape(call: Call) -> list[Shape]:
    _reversed_axis(call)
    return [call.input.shape]


def _reverse(call: Call) -> np.ndarray:
    return np.ascontiguousarray(np.flip(call.input.data, _reversed_axis(call)))


def _reversed(call: Call) -> list[Box]:
    spans = [Span(0, size) for size in call.input.shape]
    axis = _reversed_axis(call)
    spans[axis] = Span(call.input.shape[axis] - 1, call.input.shape[axis], -1)
    return [Box.of_spans(call.input.shape, spans)]


def _shuffled_shape(call: Call) -> list[Shape]:
    channels = call.input.shape[axis_index("axis", call.axis, call.input.rank)]
    if call.num_groups < 1 or channels % call.num_groups:
        raise bad_data(f"num_groups must be at least 1 and divide the {channels} channels, got {call.num_groups}")
    return [call.input.shape]


def _shuffle(call: Call) -> np.ndarray:
    shape = call.input.shape
    axis = axis_index("axis", call.axis, len(shape))
    groups = call.num_groups
    grouped = call.input.data.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    shuffled: np.ndarray = grouped.swapaxes(axis, axis + 1).reshape(shape)
    return shuffled


def _shuffled(call: Call) -> list[Box]:
    dimensions = dense_dimensions(call.input.shape)
    axis = call.axis % len(dimensions)
    channels, stride = dimensions[axis]
    in_group = channels // call.num_groups
    dimensions[axis : axis + 1] = (in_group, stride), (call.num_groups, in_group * stride)
    return [Box(tuple(dimensions))]


_INTEGERS = one_of(I32)

for _code, _types, _traits, _signature, _infer, _reference in (
    (
        OperationCode.TRANSPOSE,
        MOVED_2,
        Traits(foldable=True, fp16=Fp16.FOLLOWS, view=View.TRANSPOSED, boxes=_transposed),
        Signature(tensor("input", rank=(1, 4)), optional_tensor("perm", _INTEGERS, rank=1)),
        _transposed_shape,
        _transpose,
    ),
    (
        OperationCode.TILE,
        MOVED_INT_3,
        Traits(foldable=True, fp16=Fp16.FOLLOWS, boxes=_tiled),
        Signature(tensor("input"), tensor("multiples", _INTEGERS)),
        _tiled_shape,
        _tile,
    ),
    (
        OperationCode.REVERSE,
        MOVED_INT_7,
        Traits(foldable=True, fp16=Fp16.FOLLOWS, boxes=_reversed),
        Signature(tensor("input", rank=(1, 8)), tensor("axis", _INTEGERS, rank=1)),
        _reversed_shape,
        _reverse,
    ),
    (
        OperationCode.CHANNEL_SHUFFLE,
        MOVED_3,
        Traits(foldable=False, fp16=Fp16.FOLLOWS, boxes=_shuffled),
        Signature(tensor("input", rank=(1, 4)), i32("num_groups"), i32("axis")),
        _shuffled_shape,
        _shuffle,
    ),
):
    define(
        _code,
        traits=_traits,
        types=_types,
        signatures=_signature,
        infer=_infer,
        reference=_reference,
        validate=keeps_rank if _code is OperationCode.REVERSE else keeps_quantisation(),
        wide=_code is not OperationCode.CHANNEL_SHUFFLE,
    )
