"""Floats rounded to 8 bits by their own range: ROUND_ROWS, as TensorFlow Lite's hybrid kernels do; DYNAMIC_QUANTIZE.

The latter is ONNX's DynamicQuantizeLinear, but ``output`` has the levels less the zero point, as real numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.quant import round_half_away
from nnvk.ops.registry import define
from nnvk.ops.signature import EXTENSIONS_SINCE, F32, Signature, boolean, i32, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

Divide = Callable[[np.ndarray | np.float32, np.ndarray | np.float32], np.ndarray]
_ZERO, _LAST, _SMALLEST = np.float32(0), np.float32(255), np.float32(1e-30)


def _row_shape(call: Call) -> list[Shape]:
    if call.rows < 1 or call.input.size % call.rows:
        raise bad_data(f"rows must divide the {call.input.size} elements of input, got {call.rows}")
    return [call.input.shape]


def round_rows(call: Call, divide: Divide = np.divide) -> np.ndarray:
    """The reference of ROUND_ROWS."""
    with np.errstate(all="ignore"):
        rows = call.input.data.reshape(call.rows, -1)
        if call.asymmetric:
            low = np.minimum(rows.min(axis=1, keepdims=True), _ZERO)
            width = np.maximum(np.maximum(rows.max(axis=1, keepdims=True), _ZERO) - low, _SMALLEST)
            inverse = divide(_LAST, width)
            zero_point = _whole(np.float32(-128) - low * inverse)
            rounded = (_whole(rows * inverse + zero_point) - zero_point) * divide(width, _LAST)
        else:
            extent = np.maximum(np.abs(rows).max(axis=1, keepdims=True), _SMALLEST)
            rounded = _whole(rows * divide(np.float32(127), extent)) * divide(extent, np.float32(127))
    return rounded.reshape(call.input.shape)


def _whole(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers from -128 to 127; NaN becomes the highest, as QUANTIZE has it, and -0 becomes 0."""
    return np.maximum(np.fmin(round_half_away(numbers), np.float32(127)), np.float32(-128)) + _ZERO


def _shapes(call: Call) -> list[Shape]:
    if not call.input.size:
        raise bad_data(f"input must not be empty, got {list(call.input.shape)}")
    return [call.input.shape, (1,), (1,)]


def dynamic_quantize(call: Call, divide: Divide = np.divide) -> list[np.ndarray]:
    """The reference of DYNAMIC_QUANTIZE."""
    numbers = call.input.data
    with np.errstate(all="ignore"):
        low, high = np.minimum(numbers.min(), _ZERO), np.maximum(numbers.max(), _ZERO)
        scale = divide(high - low, _LAST) or np.float32(1)
        zero_point = _within(np.rint(divide(-low, scale)))
        levels = _within(np.rint(divide(numbers, scale)) + zero_point) - zero_point
    return [levels, scale.reshape(1), zero_point.reshape(1)]


def _within(levels: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(levels, _ZERO), _LAST) + _ZERO


define(
    ExtendedOperationCode.ROUND_ROWS,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types={F32: EXTENSIONS_SINCE},
    signatures=Signature(tensor("input"), i32("rows"), boolean("asymmetric")),
    infer=_row_shape,
    reference=round_rows,
)
define(
    ExtendedOperationCode.DYNAMIC_QUANTIZE,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={F32: EXTENSIONS_SINCE},
    signatures=Signature(tensor("input")),
    outputs=(tensor("output"), tensor("scale"), tensor("zero_point")),
    infer=_shapes,
    reference=dynamic_quantize,
)
