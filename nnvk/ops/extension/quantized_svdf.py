"""QUANTIZED_SVDF: SVDF of 8-bit levels with a state of 16 bits, in TensorFlow Lite's integer arithmetic."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.quant import limits, multiply_by_quantized_multiplier, quantize_multiplier
from nnvk.ops.recurrent import present
from nnvk.ops.registry import define
from nnvk.ops.signature import EXTENSIONS_SINCE, I32, Q8S, Q16_SYMM, Signature, i32, one_of, optional_tensor, tensor
from nnvk.ops.svdf import shapes_of_filters
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode


def feature_multiplier(call: Call) -> tuple[int, int]:
    """Mantissa and shift that make levels of the state of the sums over the input. The scales are single numbers."""
    scales = (np.float32(tensor.scale) for tensor in (call.input, call.weights_feature, call.state_in))
    source, weights, state = scales
    return quantize_multiplier(float(source * weights / state))


def time_multiplier(call: Call) -> tuple[int, int]:
    """Mantissa and shift that make levels of the result of the sums over time."""
    scales = (np.float32(tensor.scale) for tensor in (call.state_in, call.weights_time, call.result))
    state, weights, result = scales
    return quantize_multiplier(float(state * weights / result))


def _validate(call: Call) -> None:
    if call.state_out.scale != call.state_in.scale:
        raise bad_data(f"state_out must have the scale of state_in, {call.state_in.scale}, got {call.state_out.scale}")


def _levels(sums: np.ndarray, multiplier: tuple[int, int], zero_point: int, low: int, high: int) -> np.ndarray:
    """Sums, which wrap round as 32 bits do, as levels."""
    wrapped = sums.astype(np.int32)
    return np.clip(multiply_by_quantized_multiplier(wrapped, *multiplier) + zero_point, low, high)


def _reference(call: Call) -> list[np.ndarray]:
    filters, memory = call.weights_time.shape
    batches = call.input.shape[0]
    source, features = (
        tensor.data.astype(np.int64) - tensor.zero_point for tensor in (call.input, call.weights_feature)
    )
    state = call.state_in.data.reshape(batches, filters, memory).astype(np.int64)
    newest = _levels(source @ features.T, feature_multiplier(call), 0, *limits(Q16_SYMM))
    state = np.concatenate((state[:, :, 1:], newest[:, :, np.newaxis]), axis=2)
    sums = np.einsum("bft,ft->bf", state, call.weights_time.data.astype(np.int64))
    sums = sums.reshape(batches, filters // call.rank, call.rank).sum(axis=2)
    if present(call, "bias"):
        sums = sums + call.bias.data
    result = _levels(sums, time_multiplier(call), call.result.zero_point, *limits(Q8S))
    return [state.reshape(batches, filters * memory).astype(np.int16), result.astype(np.int8)]


define(
    ExtendedOperationCode.QUANTIZED_SVDF,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={Q8S: EXTENSIONS_SINCE},
    signatures=Signature(
        tensor("input", rank=2),
        tensor("weights_feature", rank=2),
        tensor("weights_time", one_of(Q16_SYMM), rank=2),
        optional_tensor("bias", one_of(I32), rank=1),
        tensor("state_in", one_of(Q16_SYMM)),
        i32("rank"),
    ),
    outputs=(tensor("state_out", one_of(Q16_SYMM)), tensor("result")),
    infer=shapes_of_filters,
    reference=_reference,
    validate=_validate,
)
