"""L2_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION and INSTANCE_NORMALIZATION."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.fixed_point import inverse_square_root
from nnvk.ops.quant import INT32_MAX, dequantize, is_quantised, multiply_by_quantized_multiplier, quantize, saturate
from nnvk.ops.registry import define
from nnvk.ops.shapes import axis_index
from nnvk.ops.signature import F16, F32, FLOATS, Q8, Q8S, Signature, boolean, i32, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_ZERO_POINTS = {Q8: 128, Q8S: 0}
_SMALLEST_NORM = np.float32(1e-6)
"""Slices shorter than this are divided by it: zeros stay zeros."""


def _validate(call: Call) -> None:
    type_ = call.output.type
    if is_quantised(type_.code) and (type_.scale, type_.zero_point) != (1 / 128, _ZERO_POINTS[type_.code]):
        raise bad_data(f"output must have scale {1 / 128} and zero point {_ZERO_POINTS[type_.code]}, got {type_}")


def _infer(call: Call) -> list[Shape]:
    axis_index("axis", call.axis, call.input.rank)
    return [call.input.shape]


def _l2(call: Call) -> np.ndarray:
    smallest: float | np.float32
    if call.input.code is Q8:
        return _l2_of_unsigned(call)
    if is_quantised(call.input.code):  # the scale cancels out, and TFLite has no smallest norm then
        values, smallest = call.input.data.astype(np.float64) - call.input.zero_point, 1.0
    else:
        values, smallest = call.input.data.astype(np.float32), _SMALLEST_NORM
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.square(values, dtype=np.float64).sum(axis=call.axis, keepdims=True))
        return quantize(values / np.maximum(norms, smallest), call.output)


def _l2_of_unsigned(call: Call) -> np.ndarray:
    """TensorFlow Lite and Android round levels of this type twice, in fixed point."""
    levels = call.input.data.astype(np.int64) - call.input.zero_point
    squares = np.square(levels).sum(axis=call.axis, keepdims=True)
    factors = inverse_square_root(np.minimum(squares, INT32_MAX))
    return saturate(multiply_by_quantized_multiplier(128 * levels, *factors) + call.output.zero_point, call.output)


def _infer_local(call: Call) -> list[Shape]:
    if call.radius < 0:
        raise bad_data(f"radius must not be negative, got {call.radius}")
    return _infer(call)


def _local_response(call: Call) -> np.ndarray:
    values = np.moveaxis(dequantize(call.input), call.axis, -1)
    size = values.shape[-1]
    with np.errstate(all="ignore"):
        squares = values * values
        sums = squares.copy()
        for distance in range(1, min(call.radius, size - 1) + 1):
            sums[..., distance:] += squares[..., :-distance]
            sums[..., :-distance] += squares[..., distance:]
        divisors = np.power(np.float32(call.bias) + np.float32(call.alpha) * sums, np.float32(call.beta))
        return np.ascontiguousarray(quantize(np.moveaxis(values / divisors, -1, call.axis), call.output))


def _infer_instance(call: Call) -> list[Shape]:
    return [call.input.shape]


def _instance(call: Call) -> np.ndarray:
    values = dequantize(call.input)
    image = (2, 3) if call.nchw else (1, 2)
    with np.errstate(all="ignore"):
        centred = values - values.mean(axis=image, keepdims=True, dtype=np.float64)
        variance = (centred * centred).mean(axis=image, keepdims=True)
        scaled = centred * (np.float32(call.gamma) / np.sqrt(variance + np.float32(call.epsilon)))
        return quantize(scaled + np.float32(call.beta), call.output)


define(
    OperationCode.L2_NORMALIZATION,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={F32: 1, F16: 3, Q8: 3, Q8S: 4},
    signatures=Signature(tensor("input", rank=(1, 4)), i32("axis", -1, since=3)),
    infer=_infer,
    reference=_l2,
    validate=_validate,
)
define(
    OperationCode.LOCAL_RESPONSE_NORMALIZATION,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=FLOATS,
    signatures=Signature(
        tensor("input", rank=(1, 4)), i32("radius"), real("bias"), real("alpha"), real("beta"), i32("axis", -1, since=3)
    ),
    infer=_infer_local,
    reference=_local_response,
)
define(
    OperationCode.INSTANCE_NORMALIZATION,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={F32: 3, F16: 3},
    signatures=Signature(tensor("input", rank=4), real("gamma"), real("beta"), real("epsilon"), boolean("nchw")),
    infer=_infer_instance,
    reference=_instance,
)
