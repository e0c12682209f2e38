"""Operations that fold whole axes into one element: MEAN and the REDUCE family."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised
from nnvk.ops.registry import define
from nnvk.ops.shapes import (
    MOVED_2,
    MOVED_3,
    at_least_1d,
    axis_index,
    keeps_quantisation,
    vector,
)
from nnvk.ops.signature import BOOL8, F16, F32, I32, Signature, boolean, i32, one_of, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def reduced_axes(call: Call) -> tuple[int, ...]:
    """The axes to fold, ascending, each once. No axes are no axes, not all of them."""
    return tuple(sorted({axis_index("axes", axis, call.input.rank) for axis in vector(call.axes)}))


def _reduced_shape(call: Call) -> list[Shape]:
    axes, shape = reduced_axes(call), call.input.shape
    if call.keep_dims > 0:
        return [tuple(1 if axis in axes else size for axis, size in enumerate(shape))]
    return [at_least_1d(tuple(size for axis, size in enumerate(shape) if axis not in axes))]


def nonempty_reduced_shape(call: Call) -> list[Shape]:
    """The shape, for those that have no result over nothing."""
    shapes = _reduced_shape(call)
    if any(call.input.shape[axis] == 0 for axis in reduced_axes(call)):
        raise bad_data(f"input must not be empty along axes {list(reduced_axes(call))}, got {list(call.input.shape)}")
    return shapes


def reduced_count(call: Call) -> int:
    """How many elements go into one."""
    return math.prod(call.input.shape[axis] for axis in reduced_axes(call))


def _mean(call: Call) -> np.ndarray:
    """Android's CPU divides sums of levels as C divides whole numbers: towards level 0, whatever the zero point is."""
    axes, count = reduced_axes(call), reduced_count(call)
    if is_quantised(call.input.code):
        sums = call.input.data.sum(axis=axes, dtype=np.int64)
        result = np.sign(sums) * (np.abs(sums) // count)
    else:
        result = call.input.data.sum(axis=axes, dtype=np.float64) / count
    return result.astype(call.output.dtype).reshape(call.output.shape)


Fold = Callable[..., np.ndarray]


def _folded(fold: Fold) -> Callable[[Call], np.ndarray]:
    def run(call: Call) -> np.ndarray:
        source = call.input.data
        if source.dtype == np.float16:
            source = source.astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # infinity and NaN are results, as on a device
            result = np.asarray(fold(source, axis=reduced_axes(call)))
            return result.astype(call.output.dtype).reshape(call.output.shape)

    return run


_INPUTS = (tensor("input", rank=(1, 4)), tensor("axes", one_of(I32), rank=1))
MEAN_INPUTS = (*_INPUTS, i32("keep_dims"))
"""Parameters of MEAN, whose flag is a number."""

define(
    OperationCode.MEAN,
    traits=Traits(foldable=True, fp16=Fp16.FOLLOWS),
    types=MOVED_2,
    signatures=Signature(*MEAN_INPUTS),
    infer=nonempty_reduced_shape,
    reference=_mean,
    validate=keeps_quantisation(),
)

for _code, _types, _fp16, _fold, _infer in (
    (OperationCode.REDUCE_ALL, {BOOL8: 3}, Fp16.NEVER, np.all, _reduced_shape),
    (OperationCode.REDUCE_ANY, {BOOL8: 3}, Fp16.NEVER, np.any, _reduced_shape),
    (OperationCode.REDUCE_MAX, MOVED_3, Fp16.FOLLOWS, np.max, nonempty_reduced_shape),
    (OperationCode.REDUCE_MIN, MOVED_3, Fp16.FOLLOWS, np.min, nonempty_reduced_shape),
    (OperationCode.REDUCE_PROD, {F32: 3, F16: 3}, Fp16.NEVER, np.prod, _reduced_shape),
    (OperationCode.REDUCE_SUM, {F32: 3, F16: 3}, Fp16.NEVER, np.sum, _reduced_shape),
):
    define(
        _code,
        traits=Traits(foldable=True, fp16=_fp16),
        types=_types,
        signatures=Signature(*_INPUTS, boolean("keep_dims")),
        infer=_infer,
        reference=_folded(_fold),
        validate=keeps_quantisation(),
    )
