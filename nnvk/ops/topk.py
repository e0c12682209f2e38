"""TOPK_V2: the largest elements of each row, and where they are."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import MOVED_INT_3, keeps_quantisation
from nnvk.ops.signature import I32, Signature, i32, one_of, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _top_shapes(call: Call) -> list[Shape]:
    shape = call.input.shape
    if not shape or not 0 < call.k <= shape[-1]:
        raise bad_data(f"k must be in [1, {shape[-1] if shape else 0}], got {call.k}")
    return [(*shape[:-1], call.k)] * 2


def _top(call: Call) -> list[np.ndarray]:
    """The k largest, largest first; of equal elements the one with the larger index comes first."""
    source = call.input.data
    order = np.argsort(source, axis=-1, kind="stable")[..., : -call.k - 1 : -1]
    return [np.take_along_axis(source, order, axis=-1), order.astype(np.int32)]


define(
    OperationCode.TOPK_V2,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types=MOVED_INT_3,
    signatures=Signature(tensor("input"), i32("k")),
    outputs=(tensor("output"), tensor("indices", one_of(I32))),
    infer=_top_shapes,
    reference=_top,
    validate=keeps_quantisation(),
)
