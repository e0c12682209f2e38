"""BITS: logic on the bits of integers, and shifts. BITCAST: the bits of one type as a number of another."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import EXTENSIONS_SINCE, F32, I32, Signature, i32, one_of, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

WIDTH = 32
"""The bits of an element."""


class Kind(IntEnum):
    """The function of two integers. Shifts by less than 0, or by all bits, shift all of them out."""

    AND = 0
    OR = 1
    XOR = 2
    SHIFT_LEFT = 3
    SHIFT_RIGHT = 4
    """Copies of the sign come in from the left."""


def _infer(call: Call) -> list[Shape]:
    check_shape(call.other, call.input.shape)
    if call.kind not in list(Kind):
        raise bad_data(f"kind must be 0 to {max(Kind)}, got {call.kind}")
    return [call.input.shape]


def _bits(call: Call) -> np.ndarray:
    x, y = call.input.data, call.other.data
    logic = {Kind.AND: np.bitwise_and, Kind.OR: np.bitwise_or, Kind.XOR: np.bitwise_xor}
    if call.kind in logic:
        combined: np.ndarray = logic[Kind(call.kind)](x, y)
        return combined
    is_within = (y >= 0) & (y < WIDTH)
    by = np.where(is_within, y, WIDTH - 1)
    if call.kind == Kind.SHIFT_RIGHT:
        return x >> by
    shifted = (x.view(np.uint32) << by.astype(np.uint32)).view(np.int32)
    return np.where(is_within, shifted, np.int32(0))


define(
    ExtendedOperationCode.BITS,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types={I32: EXTENSIONS_SINCE},
    signatures=Signature(tensor("input"), tensor("other"), i32("kind")),
    infer=_infer,
    reference=_bits,
)
define(
    ExtendedOperationCode.BITCAST,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={F32: EXTENSIONS_SINCE, I32: EXTENSIONS_SINCE},
    signatures=Signature(tensor("input")),
    outputs=(tensor("output", one_of(F32, I32)),),
    infer=lambda call: [call.input.shape],
    reference=lambda call: call.input.data.view(call.output.dtype),
)
