"""Scales and zero points as ONNX has them, and the types of 8 bits that NNAPI has for them."""

from __future__ import annotations

import math

import numpy as np

from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

_CODES = {
    np.dtype(np.uint8): OperandCode.TENSOR_QUANT8_ASYMM,
    np.dtype(np.int8): OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
}


def quantised_type(dtype: np.dtype, scale: np.ndarray, zero_point: np.ndarray | None) -> OperandType | None:
    """The operand type of levels of one scale; None where NNAPI has none."""
    if dtype not in _CODES or scale.size != 1 or (zero_point is not None and zero_point.size != 1):
        return None
    one = float(np.float32(scale.reshape(())))
    if not math.isfinite(one) or one <= 0:
        return None
    return OperandType(_CODES[dtype], (), one, 0 if zero_point is None else int(zero_point.reshape(())))
