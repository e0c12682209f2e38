"""ROUNDED_MEAN: MEAN of quantised tensors to any scale and zero point, with TensorFlow Lite's bits.

NNAPI's MEAN truncates, and keeps the quantisation.
"""

from __future__ import annotations

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.quant import float32, multiply_by_quantized_multiplier, quantize_multiplier, saturate
from nnvk.ops.reduce import MEAN_INPUTS, nonempty_reduced_shape, reduced_axes, reduced_count
from nnvk.ops.registry import define
from nnvk.ops.signature import Q8, Q8S, Q16_SYMM, Signature
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode


def mean_factors(call: Call) -> tuple[int, int]:
    """The mantissa and shift of the ratio of the scales, divided by the number of elements that go into one."""
    mantissa, shift = quantize_multiplier(float32(call.input.scale) / float32(call.output.scale))
    count = reduced_count(call)
    left = min(count.bit_length() - 1, 32, 31 + shift)
    return (mantissa << left) // count, shift - left


def _rounded_mean(call: Call) -> np.ndarray:
    sums = (call.input.data.astype(np.int64) - call.input.zero_point).sum(axis=reduced_axes(call))
    rounded = multiply_by_quantized_multiplier(sums.astype(np.int32), *mean_factors(call)) + call.output.zero_point
    return saturate(rounded, call.output).reshape(call.output.shape)


define(
    ExtendedOperationCode.ROUNDED_MEAN,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types={Q8: 3, Q8S: 4, Q16_SYMM: 4},
    signatures=Signature(*MEAN_INPUTS),
    infer=nonempty_reduced_shape,
    reference=_rounded_mean,
)
