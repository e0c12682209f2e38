"""Operations that pick parts of a tensor by index or key: GATHER, EMBEDDING_LOOKUP, HASHTABLE_LOOKUP."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.registry import define
from nnvk.ops.shapes import MOVED_INT_3, axis_index, check_same_quantisation, check_shape, keeps_quantisation
from nnvk.ops.signature import F16, F32, I32, Q8, Q8S, Signature, i32, one_of, tensor
from nnvk.ops.strided import Box, Span
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def check_indices(indices: Tensor, size: int) -> None:
    """Raise BAD_DATA where an index, once known, is not in [0, size)."""
    if not indices.is_constant or not indices.size:
        return
    for index in (indices.data.min(), indices.data.max()):
        if not 0 <= index < size:
            raise bad_data(f"{indices.name} must be in [0, {size}), got {index}")


def _gathered_shape(call: Call) -> list[Shape]:
    shape = call.input.shape
    axis = axis_index("axis", call.axis, len(shape))
    check_indices(call.indices, shape[axis])
    return [(*shape[:axis], *call.indices.shape, *shape[axis + 1 :])]


def _gather(call: Call) -> np.ndarray:
    gathered: np.ndarray = np.take(call.input.data, call.indices.data, axis=call.axis)
    return gathered


def _check_rows(call: Call, least: int) -> None:
    if call.value.rank < least:
        raise bad_data(f"value must have rank {least} or more, got shape {list(call.value.shape)}")


def _embedding_shape(call: Call) -> list[Shape]:
    _check_rows(call, 2)
    check_indices(call.lookup, call.value.shape[0])
    return [(*call.lookup.shape, *call.value.shape[1:])]


def _embedding_lookup(call: Call) -> np.ndarray:
    found: np.ndarray = np.take(call.value.data, call.lookup.data, axis=0)
    return found


def _hashtable_shapes(call: Call) -> list[Shape]:
    _check_rows(call, 1)
    check_shape(call.key, call.value.shape[:1])
    if call.key.is_constant:
        after_larger = call.key.data[1:][call.key.data[1:] < call.key.data[:-1]]
        if after_larger.size:
            raise bad_data(f"key must ascend, got {after_larger[0]} after a larger one")
    return [(*call.lookup.shape, *call.value.shape[1:]), call.lookup.shape]


def _check_hits(call: Call) -> None:
    check_same_quantisation(call.value, call.output)
    if (call.hits.scale, call.hits.zero_point) != (1.0, 0):
        raise bad_data(f"hits must have scale 1 and zero point 0, got {call.hits.type}")


def _hashtable_lookup(call: Call) -> list[np.ndarray]:
    """Missed rows are zero bytes, whatever the zero point, as in Android."""
    keys, lookups = call.key.data, call.lookup.data
    rows = np.searchsorted(keys, lookups)
    hits = rows < keys.size
    hits[hits] = keys[rows[hits]] == lookups[hits]
    output = np.zeros(call.output.shape, call.output.dtype)
    output[hits] = call.value.data[rows[hits]]
    return [output, hits.astype(call.hits.dtype)]


def evenly_spaced(source: Tensor, axis: int, indices: Tensor) -> Box | None:
    """The elements of a tensor at constant indices along an axis, each as far from the one before; None for others."""
    if not indices.is_constant or not indices.size:
        return None
    first, *others = indices.data.reshape(-1).tolist()
    stride = others[0] - first if others else 1
    if not stride or any(each != first + place * stride for place, each in enumerate(others, start=1)):
        return None
    spans = [Span(0, size) for size in source.shape]
    spans[axis] = Span(first, 1 + len(others), stride)
    return Box.of_spans(source.shape, spans)


def _slice(call: Call) -> list[Box] | None:
    box = evenly_spaced(call.input, call.axis % call.input.rank, call.indices)
    return None if box is None else [box]


_INTEGERS = one_of(I32)

define(
    OperationCode.GATHER,
    traits=Traits(foldable=True, fp16=Fp16.FOLLOWS, effects=Effect.CHECKS_DATA, boxes=_slice),
    types=MOVED_INT_3,
    signatures=Signature(tensor("input"), i32("axis"), tensor("indices", _INTEGERS)),
    infer=_gathered_shape,
    reference=_gather,
    validate=keeps_quantisation(),
    wide=True,
)
define(
    OperationCode.EMBEDDING_LOOKUP,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types={F32: 1, I32: 3, Q8: 3, F16: 4, Q8S: 4},
    signatures=Signature(tensor("lookup", _INTEGERS, rank=1), tensor("value")),
    leading="value",
    infer=_embedding_shape,
    reference=_embedding_lookup,
    validate=keeps_quantisation("value"),
)
define(
    OperationCode.HASHTABLE_LOOKUP,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types={F32: 1, I32: 1, Q8: 1},
    signatures=Signature(tensor("lookup", _INTEGERS, rank=1), tensor("key", _INTEGERS, rank=1), tensor("value")),
    leading="value",
    outputs=(tensor("output"), tensor("hits", one_of(Q8))),
    infer=_hashtable_shapes,
    reference=_hashtable_lookup,
    validate=_check_hits,
)
