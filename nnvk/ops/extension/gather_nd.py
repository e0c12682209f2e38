"""GATHER_ND: slices of a tensor by indices of several of its first axes."""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.extension.coordinates import ELEMENTS, check_coordinates, depth_of, flat_coordinates
from nnvk.ops.registry import define
from nnvk.ops.shapes import at_least_1d, keeps_quantisation
from nnvk.ops.signature import I32, Signature, i32, one_of, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape


def split_shape(call: Call) -> tuple[Shape, Shape, Shape]:
    """The input's shape in three parts: the batch axes, the axes that the indices name, and the axes of a slice."""
    shape, batch = call.input.shape, call.batch_dims
    end = batch + call.indices.shape[-1]
    return shape[:batch], shape[batch:end], shape[end:]


def _gathered_shape(call: Call) -> list[Shape]:
    shape, places, batch = call.input.shape, call.indices.shape, call.batch_dims
    if not 0 <= batch < len(places) or places[:batch] != shape[:batch]:
        raise bad_data(
            f"input and indices must have the first {batch} dimensions (batch_dims) in common, got {list(shape)} and "
            f"{list(places)}"
        )
    depth_of(call.indices, len(shape) - batch)
    _, sizes, rest = split_shape(call)
    check_coordinates(call.indices, sizes, batch)
    return [at_least_1d((*places[:-1], *rest))]


def _gather_nd(call: Call) -> np.ndarray:
    batches, sizes, rest = split_shape(call)
    rows = call.input.data.reshape(math.prod(batches) * math.prod(sizes), *rest)
    found: np.ndarray = rows[flat_coordinates(call.indices.data, sizes, math.prod(batches))]
    return found.reshape(call.output.shape)


define(
    ExtendedOperationCode.GATHER_ND,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types=ELEMENTS,
    signatures=Signature(tensor("input"), tensor("indices", one_of(I32)), i32("batch_dims", 0)),
    infer=_gathered_shape,
    reference=_gather_nd,
    validate=keeps_quantisation(),
)
