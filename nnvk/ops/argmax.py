"""Operations that say where the largest or smallest elements are: ARGMAX, ARGMIN, TOPK_V2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import MOVED_INT_3, at_least_1d, axis_index, keeps_quantisation
from nnvk.ops.signature import I32, Signature, i32, one_of, tensor
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _arg_shape(call: Call) -> list[Shape]:
    shape = call.input.shape
    axis = axis_index("axis", call.axis, len(shape))
    if shape[axis] == 0:
        raise bad_data(f"input must not be empty along axis {axis}, got {list(shape)}")
    return [at_least_1d(shape[:axis] + shape[axis + 1 :])]


def _arg(search: Callable[..., np.ndarray]) -> Callable[[Call], np.ndarray]:
    """The first of equal elements wins."""

    def run(call: Call) -> np.ndarray:
        found = np.asarray(search(call.input.data, axis=call.axis))
        return found.astype(np.int32).reshape(call.output.shape)

    return run


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


_INTEGERS = one_of(I32)

for _code, _search in ((OperationCode.ARGMAX, np.argmax), (OperationCode.ARGMIN, np.argmin)):
    define(
        _code,
        types=MOVED_INT_3,
        signatures=Signature(tensor("input"), i32("axis")),
        outputs=(tensor("output", _INTEGERS),),
        infer=_arg_shape,
        reference=_arg(_search),
    )

define(
    OperationCode.TOPK_V2,
    types=MOVED_INT_3,
    signatures=Signature(tensor("input"), i32("k")),
    outputs=(tensor("output"), tensor("indices", _INTEGERS)),
    infer=_top_shapes,
    reference=_top,
    validate=keeps_quantisation(),
)
