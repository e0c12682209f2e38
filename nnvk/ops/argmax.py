"""ARGMAX and ARGMIN: the position of the largest or smallest element along an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import MOVED_INT_3, at_least_1d, axis_index
from nnvk.ops.signature import I32, Signature, i32, one_of, tensor
from nnvk.ops.traits import Fp16, Traits
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


for _code, _search in ((OperationCode.ARGMAX, np.argmax), (OperationCode.ARGMIN, np.argmin)):
    define(
        _code,
        traits=Traits(foldable=True, fp16=Fp16.NEVER),
        types=MOVED_INT_3,
        signatures=Signature(tensor("input"), i32("axis")),
        outputs=(tensor("output", one_of(I32)),),
        infer=_arg_shape,
        reference=_arg(_search),
    )
