"""DYNAMIC_QUANTIZE: a tensor rounded to 256 levels that cover its own range, as by ONNX's DynamicQuantizeLinear."""

from __future__ import annotations

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.signature import EXTENSIONS_SINCE, F32, Signature, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

_ZERO, _LAST = np.float32(0), np.float32(255)


def _shapes(call: Call) -> list[Shape]:
    return [call.input.shape, (1,), (1,)]


def _dynamic_quantize(call: Call) -> list[np.ndarray]:
    numbers = call.input.data
    with np.errstate(all="ignore"):
        low, high = np.minimum(numbers.min(), _ZERO), np.maximum(numbers.max(), _ZERO)
        scale = (high - low) / _LAST
        scale = np.float32(1) if scale == 0 else scale
        zero_point = _within(np.rint(-low / scale))
        levels = _within(np.rint(numbers / scale) + zero_point) - zero_point
    return [levels, scale.reshape(1), zero_point.reshape(1)]


def _within(levels: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(levels, _ZERO), _LAST) + _ZERO


define(
    ExtendedOperationCode.DYNAMIC_QUANTIZE,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={F32: EXTENSIONS_SINCE},
    signatures=Signature(tensor("input")),
    outputs=(tensor("output"), tensor("scale"), tensor("zero_point")),
    infer=_shapes,
    reference=_dynamic_quantize,
)
"""``output`` has the levels less the zero point, as real numbers. The scale of a tensor of zeros is 1."""
