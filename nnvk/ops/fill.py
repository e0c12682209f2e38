"""FILL and RANK: a tensor from a scalar, and a scalar from a tensor's shape."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import at_least_1d, vector
from nnvk.ops.signature import (
    BOOL8,
    F16,
    F32,
    I32,
    Q8,
    Q8_CHANNEL,
    Q8_SYMM,
    Q8S,
    Q16_ASYMM,
    Q16_SYMM,
    Param,
    Signature,
    by_type,
    one_of,
    same,
    tensor,
)
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape

_TENSORS = {OperandCode.FLOAT32: F32, OperandCode.FLOAT16: F16, OperandCode.INT32: I32}


def _filled_shape(call: Call) -> list[Shape]:
    sizes = vector(call.dims)
    if any(size < 0 for size in sizes):
        raise bad_data(f"dims must not be negative, got {sizes}")
    return [at_least_1d(tuple(sizes))]


def _fill(call: Call) -> np.ndarray:
    return np.full(call.output.shape, call.value, call.output.dtype)


def _scalar_shape(call: Call) -> list[Shape]:
    return [()]


def _rank(call: Call) -> np.ndarray:
    return np.array(call.input.rank, np.int32)


define(
    OperationCode.FILL,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types=dict.fromkeys(_TENSORS, 4),
    signatures=Signature(tensor("dims", one_of(I32), rank=1), Param("value", same)),
    leading="value",
    outputs=(tensor("output", by_type(_TENSORS)),),
    infer=_filled_shape,
    reference=_fill,
)
define(
    OperationCode.RANK,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=dict.fromkeys((F32, F16, I32, BOOL8, Q8, Q8S, Q8_SYMM, Q8_CHANNEL, Q16_SYMM, Q16_ASYMM), 4),
    signatures=Signature(tensor("input")),
    outputs=(Param("output", one_of(OperandCode.INT32)),),
    infer=_scalar_shape,
    reference=_rank,
)
