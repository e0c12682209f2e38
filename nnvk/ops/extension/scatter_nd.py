"""SCATTER_ND: write slices to a tensor, or combine them with its slices, at indices into its first axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import IntEnum

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.extension.coordinates import ELEMENTS, check_coordinates, depth_of, flat_coordinates
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_same_quantisation, check_shape, vector
from nnvk.ops.signature import F16, F32, I32, Signature, i32, one_of, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape


class Reduction(IntEnum):
    """The function that combines an update with the element at its place. Updates are applied in order."""

    NONE = 0
    """The update replaces the element."""
    ADD = 1
    MUL = 2
    MAX = 3
    MIN = 4


_NUMBERS = (F32, F16, I32)
CombineAt = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
"""Combines the rows of an array at some places with updates, in place."""
_AT: Mapping[Reduction, CombineAt] = {
    Reduction.ADD: np.add.at,
    Reduction.MUL: np.multiply.at,
    Reduction.MAX: np.maximum.at,
    Reduction.MIN: np.minimum.at,
}


def reduction_of(call: Call) -> Reduction:
    """The way in which updates are combined. The overload without an input adds them up."""
    if not call.has("reduction"):
        return Reduction.ADD
    try:
        reduction = Reduction(call.reduction)
    except ValueError:
        raise bad_data(f"reduction must be 0 to {max(Reduction)}, got {call.reduction}") from None
    if reduction > Reduction.ADD and call.updates.code not in _NUMBERS:
        names = " or ".join(code.name for code in _NUMBERS)
        raise bad_data(f"updates must be {names} for reduction {reduction.name}, got {call.updates.type}")
    return reduction


def _check_quantisation(call: Call) -> None:
    check_same_quantisation(call.updates, call.output)
    if call.has("input"):
        check_same_quantisation(call.input, call.updates)


def _scattered_shape(call: Call) -> list[Shape]:
    shape: Shape
    if call.has("input"):
        shape = call.input.shape
    else:
        shape = tuple(vector(call.shape))
        if not shape or min(shape) < 0:
            raise bad_data(f"shape must be one or more sizes from 0 on, got {list(shape)}")
    depth = depth_of(call.indices, len(shape))
    check_shape(call.updates, (*call.indices.shape[:-1], *shape[depth:]) or (1,))
    check_coordinates(call.indices, shape[:depth])
    reduction_of(call)
    return [shape]


def scatter_nd(call: Call, combine_at: Mapping[Reduction, CombineAt] = _AT) -> np.ndarray:
    """The reference of SCATTER_ND."""
    shape = call.output.shape
    depth = call.indices.shape[-1]
    slices, inner = math.prod(shape[:depth]), math.prod(shape[depth:])
    before = call.input.data if call.has("input") else np.zeros(shape, call.output.dtype)
    result: np.ndarray = before.reshape(slices, inner).copy()
    coordinates, updates = flat_coordinates(call.indices.data, shape[:depth]), call.updates.data.reshape(-1, inner)
    reduction = reduction_of(call)
    if reduction is Reduction.NONE:
        last = {int(place): number for number, place in enumerate(coordinates)}
        result[list(last)] = updates[list(last.values())]
    else:
        combine_at[reduction](result, coordinates, updates)
    return result.reshape(shape)


define(
    ExtendedOperationCode.SCATTER_ND,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types=ELEMENTS,
    signatures=(
        Signature(tensor("indices", one_of(I32)), tensor("updates"), tensor("shape", one_of(I32), rank=1)),
        Signature(tensor("input"), tensor("indices", one_of(I32)), tensor("updates"), i32("reduction")),
    ),
    leading="updates",
    infer=_scattered_shape,
    reference=scatter_nd,
    validate=_check_quantisation,
)
