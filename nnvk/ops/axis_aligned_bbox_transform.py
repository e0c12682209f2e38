"""AXIS_ALIGNED_BBOX_TRANSFORM: boxes refined by deltas, for each class."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.boxes import check_batch_indexes, check_box_scale, check_ordered, check_rois, refine
from nnvk.ops.call import Call
from nnvk.ops.quant import dequantize, quantize
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import F16, F32, I32, Q8, Q8S, Q16_ASYMM, Signature, by_type, one_of, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _validate(call: Call) -> None:
    check_box_scale(call.rois, call.image_info, call.output)


def _infer(call: Call) -> list[Shape]:
    count = check_rois(call.rois, call.batch_split)
    width = call.deltas.shape[1]
    if width < 4 or width % 4:
        raise bad_data(f"deltas must have 4 columns for each class, got shape {list(call.deltas.shape)}")
    check_shape(call.deltas, (count, width))
    batches = call.image_info.shape[0]
    check_shape(call.image_info, (batches, 2))
    if not batches:
        raise bad_data("image_info must have at least 1 row, got none")
    return [(count, width)]


def _reference(call: Call) -> np.ndarray:
    rois, deltas, images = (dequantize(operand) for operand in (call.rois, call.deltas, call.image_info))
    batches = check_batch_indexes(call.batch_split, len(images))
    check_ordered("rois", rois)
    by_class = deltas.reshape(len(rois), deltas.shape[1] // 4, 4)
    refined = refine(rois[:, np.newaxis], by_class, images[batches][:, np.newaxis])
    return quantize(refined.reshape(deltas.shape), call.output)


define(
    OperationCode.AXIS_ALIGNED_BBOX_TRANSFORM,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types={F32: 3, F16: 3, Q16_ASYMM: 3},
    signatures=Signature(
        tensor("rois", rank=2),
        tensor("deltas", by_type({Q16_ASYMM: frozenset({Q8, Q8S})}), rank=2),
        tensor("batch_split", one_of(I32), rank=1),
        tensor("image_info", rank=2),
    ),
    infer=_infer,
    reference=_reference,
    validate=_validate,
)
