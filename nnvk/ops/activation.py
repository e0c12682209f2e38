"""Activations with parameters or with fixed-point arithmetic of their own: ELU and HARD_SWISH."""

from __future__ import annotations

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.fixed_point import INT16_MAX, multiply, saturate16
from nnvk.ops.quant import (
    dequantize,
    float32,
    is_quantised,
    map_levels,
    quantize,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturate,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import F16, F32, Q8, Q8S, Signature, real, tensor
from nnvk.ops.traits import Elementwise, Fp16, Function, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _same_shape(call: Call) -> list[Shape]:
    return [call.input.shape]


def _elu(call: Call) -> np.ndarray:
    values = dequantize(call.input)
    with np.errstate(all="ignore"):
        negative = np.minimum(np.float32(call.alpha) * np.expm1(np.minimum(values, 0)), 0)
        return quantize(np.where(values >= 0, values, negative), call.output)


def _hard_swish(call: Call) -> np.ndarray:
    if is_quantised(call.input.code):
        return map_levels(lambda levels: hard_swish_levels(call, levels), call.input.data)
    with np.errstate(all="ignore"):
        return quantize(_real_hard_swish(dequantize(call.input)), call.output)


def _real_hard_swish(values: np.ndarray) -> np.ndarray:
    return np.where(values >= 3, values, values * np.clip(values + 3, 0, 6) / np.float32(6))


def hard_swish_levels(call: Call, levels: np.ndarray) -> np.ndarray:
    """The quantised output of quantised inputs, in TFLite's 16-bit fixed-point arithmetic.

    This arithmetic has no multipliers over 1. An output scale below 1/128 of the input's is therefore computed in
    float32.
    """
    # The scale of inputs shifted left by 7 bits, and the one in which 3.0 is 2^15.
    shifted_scale = np.float32(call.input.scale) / np.float32(128)
    output_mantissa, output_shift = _multiplier16(float(shifted_scale) / float32(call.output.scale))
    gate_mantissa, gate_shift = _multiplier16(float(shifted_scale) / float32(3 / 32768))
    centred = levels.astype(np.int64) - call.input.zero_point
    if output_shift > 0:
        return quantize(_real_hard_swish(centred.astype(np.float32) * np.float32(call.input.scale)), call.output)
    shifted = centred << 7
    value = multiply(shifted, output_mantissa)
    gate = shifted
    # Saturating early to the left can't change the gate, which ends up between 0 and 1 anyway.
    if gate_shift > 0:
        gate = saturate16(gate << (gate_shift - 1))
    gate = multiply(gate, gate_mantissa)
    gate = saturate16(gate << 1) if gate_shift > 0 else rounding_divide_by_pot(gate, -gate_shift)
    gate = (gate + (1 << 15)) >> 1
    product = rounding_divide_by_pot(_towards_zero(gate * value, 15), -output_shift)
    return saturate(product + call.output.zero_point, call.output)


def _multiplier16(real_multiplier: float) -> tuple[int, int]:
    """The mantissa in Q15 and the shift of a multiplier."""
    mantissa, shift = quantize_multiplier(real_multiplier)
    return min((mantissa + (1 << 15)) >> 16, INT16_MAX), shift


def _towards_zero(values: np.ndarray, bits: int) -> np.ndarray:
    quotient: np.ndarray = np.where(values >= 0, values >> bits, -(-values >> bits))
    return quotient


define(
    OperationCode.ELU,
    traits=Traits(
        foldable=True, fp16=Fp16.FOLLOWS, elementwise=Elementwise("elu", numbers=("alpha",), function=Function.ELU)
    ),
    types={F32: 4, F16: 4},
    signatures=Signature(tensor("input"), real("alpha")),
    infer=_same_shape,
    reference=_elu,
)
define(
    OperationCode.HARD_SWISH,
    traits=Traits(
        foldable=True, fp16=Fp16.FOLLOWS, elementwise=Elementwise("hard_swish", function=Function.HARD_SWISH)
    ),
    types={F32: 4, F16: 4, Q8: 4, Q8S: 4},
    signatures=Signature(tensor("input")),
    infer=_same_shape,
    reference=_hard_swish,
)
