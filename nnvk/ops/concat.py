"""Operations that join tensors and take them apart: CONCATENATION, PACK, SPLIT."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.quant import is_quantised, limits, map_levels, round_half_away, saturate
from nnvk.ops.registry import define
from nnvk.ops.shapes import (
    MOVED,
    MOVED_INT_3,
    axis_index,
    check_same_quantisation,
    check_same_rank,
    keeps_quantisation,
)
from nnvk.ops.signature import F16, F32, I32, Q8, Q8S, Signature, i32, tensor
from nnvk.ops.strided import Box, Span
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _concatenated_shape(call: Call) -> list[Shape]:
    first = call.inputs[0]
    if not 0 <= call.axis < first.rank:
        raise bad_data(f"axis must be in [0, {first.rank}), got {call.axis}")
    sizes = list(first.shape)
    for number, source in enumerate(call.inputs[1:], 1):
        differs = any(
            size != other and axis != call.axis
            for axis, (size, other) in enumerate(zip(source.shape, first.shape, strict=False))
        )
        if source.rank != first.rank or differs:
            raise bad_data(
                f"inputs[{number}] must have the shape {list(first.shape)} of inputs[0] except along axis "
                f"{call.axis}, got {list(source.shape)}"
            )
        sizes[call.axis] += source.shape[call.axis]
    return [tuple(sizes)]


_LARGEST_RATIO = np.float32(1e6)
"""The ratio of scales from which on every level but the zero point saturates."""


def rescaled(source: Tensor, result: Tensor) -> np.ndarray:
    """Levels of ``source`` in the quantisation of ``result``, as TFLite's ConcatenationWithScaling rounds them.

    Signed levels count as unsigned ones less 128, so that both give the same result up to 128.
    """
    if (source.scale, source.zero_point) == (result.scale, result.zero_point):
        return source.data
    lowest, _ = limits(source.code)
    scale = np.float32(source.scale) * (np.float32(1) / np.float32(result.scale))
    scale = min(scale, _LARGEST_RATIO)
    bias = np.float32(lowest - source.zero_point) * scale

    def convert(levels: np.ndarray) -> np.ndarray:
        real = (levels.astype(np.float32) - np.float32(lowest)) * scale + bias
        return saturate(round_half_away(real) + result.zero_point, result)

    return map_levels(convert, source.data)


def _concatenate(call: Call) -> np.ndarray:
    if is_quantised(call.output.code):
        parts = [rescaled(source, call.output) for source in call.inputs]
    else:
        parts = [source.data for source in call.inputs]
    joined: np.ndarray = np.concatenate(parts, axis=call.axis)
    return joined


def _packed_shape(call: Call) -> list[Shape]:
    shape = call.inputs[0].shape
    for number, source in enumerate(call.inputs):
        if source.shape != shape:
            raise bad_data(f"inputs[{number}] must have the shape {list(shape)} of inputs[0], got {list(source.shape)}")
    if not 0 <= call.axis <= len(shape):
        raise bad_data(f"axis must be in [0, {len(shape) + 1}), got {call.axis}")
    return [(*shape[: call.axis], len(call.inputs), *shape[call.axis :])]


def _check_packed(call: Call) -> None:
    """Also ranks, which the axis, and sizes that are not known yet, don't change."""
    for source in call.inputs:
        check_same_quantisation(source, call.output)
    shapes = {place: source.known_dimensions for place, source in enumerate(call.inputs) if source.known_dimensions}
    if not shapes:
        return
    (first, expected), *rest = shapes.items()
    for place, shape in rest:
        if len(shape) != len(expected):
            raise bad_data(
                f"inputs[{place}] must have the shape {list(expected)} of inputs[{first}], got {list(shape)}"
            )
    check_same_rank(call.inputs[first], call.output, 1)


def _pack(call: Call) -> np.ndarray:
    return np.stack([source.data for source in call.inputs], axis=call.axis)


def _split_shapes(call: Call) -> list[Shape]:
    shape = list(call.input.shape)
    axis = axis_index("axis", call.axis, len(shape))
    count = call.num_splits
    if count != len(call.outputs):
        raise bad_data(f"num_splits must be the number of outputs, {len(call.outputs)}, got {count}")
    if shape[axis] % count:
        raise bad_data(f"num_splits must divide the {shape[axis]} elements along axis {axis}, got {count}")
    shape[axis] //= count
    return [tuple(shape)] * count


def _parts(call: Call) -> list[Box]:
    shape, axis = call.input.shape, axis_index("axis", call.axis, call.input.rank)
    size = shape[axis] // call.num_splits
    before, behind = ([Span(0, other) for other in some] for some in (shape[:axis], shape[axis + 1 :]))
    taken = (Span(part * size, size) for part in range(call.num_splits if size else 0))
    return [Box.of_spans(shape, [*before, part, *behind]) for part in taken]


def _split(call: Call) -> list[np.ndarray]:
    axis = axis_index("axis", call.axis, call.input.rank)
    return [np.ascontiguousarray(part) for part in np.split(call.input.data, call.num_splits, axis=axis)]


define(
    OperationCode.CONCATENATION,
    traits=Traits(foldable=True, fp16=Fp16.FOLLOWS),
    types=MOVED,
    signatures=Signature(tensor("inputs", rank=(1, 4), variadic=True), i32("axis")),
    infer=_concatenated_shape,
    reference=_concatenate,
    wide=True,
)
define(
    OperationCode.PACK,
    traits=Traits(foldable=True, fp16=Fp16.FOLLOWS),
    types=dict.fromkeys((F32, F16, I32, Q8, Q8S), 6),
    signatures=Signature(i32("axis"), tensor("inputs", variadic=True)),
    leading="inputs",
    infer=_packed_shape,
    reference=_pack,
    validate=_check_packed,
    wide=True,
)
define(
    OperationCode.SPLIT,
    traits=Traits(foldable=True, fp16=Fp16.FOLLOWS, boxes=_parts),
    types=MOVED_INT_3,
    signatures=Signature(tensor("input"), i32("axis"), i32("num_splits")),
    outputs=(tensor("outputs", variadic=True),),
    infer=_split_shapes,
    reference=_split,
    validate=keeps_quantisation(),
    wide=True,
)
