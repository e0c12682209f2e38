"""The fused activation of many operations."""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Tensor
from nnvk.ops.quant import is_quantised, quantised_activation_range
from nnvk.types.codes import FuseCode

REAL_RANGES = {
    FuseCode.NONE: (-math.inf, math.inf),
    FuseCode.RELU: (0.0, math.inf),
    FuseCode.RELU1: (-1.0, 1.0),
    FuseCode.RELU6: (0.0, 6.0),
}


def check_activation(activation: int) -> None:
    """Raise BAD_DATA for a number that is no FuseCode."""
    if activation not in REAL_RANGES:
        raise bad_data(f"activation must be a FuseCode (0 to 3), got {activation}")


def activation_range(activation: int, output: Tensor) -> tuple[float, float]:
    """The smallest and largest output: real numbers for floats, levels for quantised types."""
    if is_quantised(output.code):
        return quantised_activation_range(activation, output)
    return REAL_RANGES[FuseCode(activation)]


def activate(values: np.ndarray, activation: int, output: Tensor) -> np.ndarray:
    """Apply the fused activation (to levels, where the output is quantised) and convert to the output's dtype."""
    if output.code.name == "TENSOR_INT32":
        return values.astype(np.int32)
    low, high = activation_range(activation, output)
    if math.isinf(low) and math.isinf(high):
        return values.astype(output.dtype, copy=False)
    return np.clip(values, low, high).astype(output.dtype, copy=False)
