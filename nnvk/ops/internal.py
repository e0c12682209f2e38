"""Operations, and attributes of operations, that only passes of drivers make: no model has them.

As operations of models, they have the shapes of their outputs and a reference in NumPy, so that a rewritten model can
be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

import numpy as np

from nnvk.ops import registry
from nnvk.ops.call import Call, Tensor
from nnvk.ops.strided import Box
from nnvk.ops.traits import Effect, Fp16, Traits, View
from nnvk.types.codes import OperationCode
from nnvk.types.extension import KnownCode
from nnvk.types.operand import Shape


class InternalCode(Enum):
    """The codes of these operations."""

    CONVERT_FLOAT = "CONVERT_FLOAT"
    """``output`` has the numbers of ``input`` as floats of another size. If ``saturate`` is true, numbers beyond the
    range become the ends of the range."""
    ROW_NORM = "ROW_NORM"
    """``output`` has each row of ``length`` elements of ``input``, less its mean if ``is_centred`` is true, times the
    inverse of the root of its mean square plus ``epsilon``; it is divided by the root if ``is_divided`` is true.

    The rows ``weights`` and ``bias`` are the factors and terms of all rows; either may be None.
    """
    SOFTMAX_ROWS = "SOFTMAX_ROWS"
    """``output`` has the softmax of each row of ``length`` elements of ``input``, with the factor ``beta``.

    The input is multiplied by the number ``scale`` before, and the tensor ``mask`` is added to it; either may be None.
    With ``zeros``, the shares of a row are zeros where they would be NaN, because it is masked out completely.
    """
    ATTENTION = "ATTENTION"
    """``output`` [.., rows, columns] has the sums of ``value`` [.., keys, columns] by shares: the softmax, with the
    factor ``beta``, of the products of ``query`` [.., rows, depth] and ``key`` [.., keys, depth].

    ``own_key`` and ``own_value`` follow the others; both may be None. The products are multiplied by the number
    ``scale`` before, and the tensor ``mask`` is added to them; either may be None. If ``masks_own`` is false, the mask
    is for ``key`` alone. ``key``, ``value`` and ``mask`` may have 32 bits where the other tensors have 16. ``zeros`` is
    that of `SOFTMAX_ROWS`.
    """
    GATHER_WRAPPED = "GATHER_WRAPPED"
    """``output`` has the rows of ``input`` along ``axis`` that ``indices`` name. Indices below 0 count from the end."""
    ARRANGE = "ARRANGE"
    """``output`` has the elements of ``input`` that are in ``box``, in its order."""
    VIEW = "VIEW"
    """``output`` has the elements of ``input`` in the same order, in another shape."""


@dataclass(frozen=True, slots=True)
class InternalOp:
    """The definition of an internal operation."""

    infer: Callable[[Call], Shape]
    """The shape of the output."""
    reference: Callable[[Call], np.ndarray]
    """The output."""
    traits: Traits = field(default_factory=lambda: Traits(foldable=False, fp16=Fp16.NEVER))


def _converted(call: Call) -> np.ndarray:
    if call.saturate:
        return _saturated(call.input.data, call.output.dtype)
    with np.errstate(over="ignore"):
        return call.input.data.astype(call.output.dtype)


def _saturated(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats of another size; numbers beyond the range become the ends of the range."""
    most = np.finfo(dtype).max
    return np.where(np.isfinite(data), np.clip(data, -most, most), data).astype(dtype)


def _normalised_rows(call: Call) -> np.ndarray:
    rows = call.input.data.reshape(-1, call.length).astype(np.float64)
    if call.is_centred:
        rows = rows - rows.mean(axis=1, keepdims=True)
    results = rows / np.sqrt((rows * rows).mean(axis=1, keepdims=True) + call.epsilon)
    if call.weights is not None:
        results = results * call.weights.data.reshape(-1)
    if call.bias is not None:
        results = results + call.bias.data.reshape(-1)
    return _saturated(results, call.output.dtype).reshape(call.output.shape)


def _softmax_rows(call: Call) -> np.ndarray:
    scores = call.input.data
    if call.scale is not None:
        scores = (scores.astype(np.float32) * np.float32(call.scale)).astype(scores.dtype)
    if call.mask is not None:
        scores = scores + call.mask.data
    rows = scores.reshape(-1, call.length).astype(np.float32)
    return _shares(rows, call).astype(scores.dtype).reshape(call.output.shape)


def _shares(rows: np.ndarray, call: Call) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        powers = np.exp((rows - rows.max(axis=-1, keepdims=True)) * rows.dtype.type(call.beta))
        shares = powers / powers.sum(axis=-1, keepdims=True, dtype=np.float64)
    return np.nan_to_num(shares, nan=0.0) if call.zeros else shares


def _attended(call: Call) -> np.ndarray:
    query = call.query.data.astype(np.float64) * (1.0 if call.scale is None else call.scale)
    mask = np.zeros((), np.float64) if call.mask is None else call.mask.data.astype(np.float64)
    keys, values, has_own = call.key.data, call.value.data, call.own_key is not None
    if has_own and call.masks_own:
        keys = np.concatenate([keys, call.own_key.data], axis=-2)
    scores = query @ np.swapaxes(keys, -1, -2) + mask
    if has_own and not call.masks_own:
        scores = np.concatenate([scores, query @ np.swapaxes(call.own_key.data, -1, -2)], axis=-1)
    if has_own:
        values = np.concatenate([values, call.own_value.data], axis=-2)
    return (_shares(scores, call) @ values).astype(call.output.dtype)


INTERNAL: Mapping[InternalCode, InternalOp] = {
    InternalCode.CONVERT_FLOAT: InternalOp(
        lambda call: call.input.shape, _converted, Traits(foldable=False, fp16=Fp16.NEVER, converts=True)
    ),
    InternalCode.ROW_NORM: InternalOp(lambda call: call.output.shape, _normalised_rows),
    InternalCode.SOFTMAX_ROWS: InternalOp(lambda call: call.output.shape, _softmax_rows),
    InternalCode.ATTENTION: InternalOp(lambda call: call.output.shape, _attended),
    InternalCode.GATHER_WRAPPED: InternalOp(
        lambda call: call.output.shape,
        lambda call: np.take(call.input.data, call.indices.data, axis=call.axis),
        Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    ),
    InternalCode.ARRANGE: InternalOp(
        lambda call: call.output.shape,
        lambda call: call.box.of(call.input.data).reshape(call.output.shape),
        Traits(foldable=False, fp16=Fp16.NEVER, boxes=lambda call: [call.box]),
    ),
    InternalCode.VIEW: InternalOp(
        lambda call: call.output.shape,
        lambda call: call.input.data.reshape(call.output.shape),
        Traits(foldable=False, fp16=Fp16.NEVER, view=View.RESHAPED, boxes=lambda call: [Box(((call.input.size, 1),))]),
    ),
}
"""The definitions, by code."""


@dataclass(frozen=True, slots=True)
class PoolPadding:
    """The attribute ``pool_padding`` of a pool: elements around its images, which count as if they were in the images.

    A PAD in front of the pool gives them otherwise.
    """

    top: int
    bottom: int
    left: int
    right: int
    value: float | int
    """The real number, or the quantised value, of each of them."""


POOL_PADDING = "pool_padding"
"""The name of the attribute."""


def with_padded_input(call: Call) -> Call:
    """A call without `PoolPadding`, on an input that has these elements."""
    if not call.has(POOL_PADDING):
        return call
    around, source = call.pool_padding, call.input
    spatial = [(around.top, around.bottom), (around.left, around.right)]
    pairs = [(0, 0), (0, 0), *spatial] if call.nchw else [(0, 0), *spatial, (0, 0)]
    shape = tuple(before + size + after for size, (before, after) in zip(source.shape, pairs, strict=True))
    data = np.pad(source.data, pairs, constant_values=around.value) if source.is_constant else None
    return call.replaced(
        [POOL_PADDING], input=Tensor(source.name, source.index, source.type.with_dimensions(shape), shape, data)
    )


def call_of(code: KnownCode | InternalCode, output: Tensor, **values: Any) -> Call:
    """A call of an operation that gives ``output``; ``values`` are its inputs by name."""
    return Call(cast(OperationCode, code), {**values, "output": output}, [output])


def code_of(call: Call) -> KnownCode | InternalCode:
    """The code of a call, of a model's operation or an internal one."""
    return cast("KnownCode | InternalCode", call.code)


def traits_of(code: KnownCode | InternalCode) -> Traits:
    """The traits of a model's operation or an internal one."""
    return INTERNAL[code].traits if isinstance(code, InternalCode) else registry.lookup(code).traits


def infer(call: Call) -> Sequence[Shape] | None:
    """The shapes of a call's outputs, of a model's operation or an internal one; None if they are not known yet.

    Raises BAD_DATA if operands don't fit together.
    """
    if isinstance(call.code, InternalCode):
        return [INTERNAL[call.code].infer(call)]
    plain = with_padded_input(call)
    fresh = plain.with_tensors(lambda tensor: copy(tensor) if tensor in plain.outputs else tensor)
    return registry.infer(fresh)


def compute(call: Call) -> list[np.ndarray]:
    """The outputs of a call, whose inputs are all known, by its reference."""
    if isinstance(call.code, InternalCode):
        return [INTERNAL[call.code].reference(call)]
    reference = registry.lookup(call.code).reference
    assert reference is not None, f"{call.code.name} has no reference"
    result = reference(with_padded_input(call))
    return result if isinstance(result, list) else [result]
