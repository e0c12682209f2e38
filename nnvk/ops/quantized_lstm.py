"""QUANTIZED_LSTM: one time step of a cell with 8-bit weights and activations, 16-bit gates and cell state.

The arithmetic is TensorFlow Lite's of 8x8->16 bits, with everything optional that the floating-point cell has.
"""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fixed_point import clip, inverse_square_root, logistic, saturate16, tanh
from nnvk.ops.lstm_cell import check_cell, norm_params, state_params, weight_params
from nnvk.ops.quant import multiply_by_quantized_multiplier, quantize_multiplier, rounding_divide_by_pot
from nnvk.ops.recurrent import matrix, present
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_same_quantisation
from nnvk.ops.signature import I32, Q8_SYMM, Q8S, Q16_SYMM, Signature, i32, one_of, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape

_GATE_BITS = 3
"""Integer bits of what enters a gate's activation: [-8, 8)."""
_INTERMEDIATE_SCALES = tuple(f"{gate}_intermediate_scale" for gate in ("input", "forget", "cell", "output"))
_FLOAT32 = one_of(OperandCode.FLOAT32)


def cell_state_bits(call: Call) -> int:
    """Integer bits of the cell state, whose scale is a power of two."""
    scale = call.cell_state_in.scale
    exponent = round(math.log2(scale))
    if abs(math.log2(scale) - exponent) > 1e-3 or not -15 <= exponent <= -9:
        raise bad_data(f"cell_state_in must have a power of two from 2^-15 to 2^-9 as its scale, got {scale:g}")
    return exponent + 15


def _validate(call: Call) -> None:
    cell_state_bits(call)
    check_same_quantisation(call.cell_state_in, call.cell_state_out)
    for result in (call.output_state_out, call.result):
        check_same_quantisation(call.output_state_in, result)


def _infer(call: Call) -> list[Shape]:
    batches, input_size = matrix(call, "input")
    cell = check_cell(call, "", batches, input_size)
    for name in ("cell_clip", "projection_clip"):
        threshold = getattr(call, name)
        if not threshold >= 0:
            raise bad_data(f"{name} must be 0 (no clipping) or more, got {threshold:g}")
    for name in (*_INTERMEDIATE_SCALES[cell.cifg :], "hidden_state_scale"):
        if not getattr(call, name) > 0:
            raise bad_data(f"{name} must be more than 0, got {getattr(call, name):g}")
    return [(batches, cell.outputs), (batches, cell.units), (batches, cell.outputs)]


# --- arithmetic ----------------------------------------------------------------------------------------------


def _product(vectors: np.ndarray, zero_point: int, weights: Tensor, bias: np.ndarray | int = 0) -> np.ndarray:
    """Accumulators of a matrix product of levels; exact, as products of 8-bit numbers are in float64."""
    centred = vectors.astype(np.float64) - zero_point
    accumulators = (centred @ weights.data.T.astype(np.float64)).astype(np.int64) + bias
    return accumulators.astype(np.int32)  # they wrap round


def _multiplier(real: float) -> tuple[int, int]:
    return quantize_multiplier(float(np.float32(real)))


def gate_multiplier(call: Call, gate: str, source: str) -> tuple[int, int]:
    """Mantissa and shift of products of a gate's weights with its source: ``input``, ``recurrent``, or the ``cell``."""
    vectors = {"input": call.input, "recurrent": call.output_state_in, "cell": call.cell_state_in}[source]
    weights = getattr(call, f"{source}_to_{gate}_weights")
    return _multiplier(weights.scale * vectors.scale / getattr(call, f"{gate}_intermediate_scale"))


def norm_multiplier(weights: Tensor) -> tuple[int, int]:
    """Mantissa and shift of what a layer normalisation's weights make of a gate."""
    mantissa, shift = quantize_multiplier(weights.scale)
    return mantissa, min(shift + 12, 31)


def hidden_multiplier(call: Call) -> tuple[int, int]:
    """Mantissa and shift of the output gate's products with the squashed cell state."""
    return _multiplier(2.0**-15 / call.hidden_state_scale * 2.0**-15)


def projection_multiplier(call: Call) -> tuple[int, int]:
    """Mantissa and shift of the projection's products."""
    return _multiplier(call.projection_weights.scale * call.hidden_state_scale / call.output_state_in.scale)


def clip_range(threshold: float, scale: float, limits: tuple[int, int]) -> tuple[int, int]:
    """The levels that clipping at a real threshold keeps: all of them if it is 0 or less than one quantisation step."""
    bound = int(min(float(np.float32(threshold) / np.float32(scale)), limits[1])) if threshold > 0 else 0
    return (-bound, bound) if bound else limits


def _normalise(x: np.ndarray, weights: Tensor, bias: np.ndarray) -> np.ndarray:
    """Layer normalisation of 16-bit rows; the result has `_GATE_BITS` integer bits."""
    size = x.shape[1]
    mean = _divide(x.sum(axis=1, keepdims=True) * 1024, size)
    variance = _divide((x * x).sum(axis=1, keepdims=True) * ((1 << 20) // size) - mean * mean, 1 << 20)
    mantissa, shift = inverse_square_root(np.maximum(variance, 0))
    rescaled = multiply_by_quantized_multiplier(1024 * x - mean, mantissa, shift)
    weighted = rescaled * weights.data.astype(np.int64) + bias
    reduced = _divide(np.where(weighted > 0, weighted + 512, weighted - 512), 1024)
    return saturate16(multiply_by_quantized_multiplier(reduced, *norm_multiplier(weights)))


def _divide(a: np.ndarray, b: int) -> np.ndarray:
    """Division towards zero, as C's."""
    return np.where(a < 0, -(-a // b), a // b)


def _gate(call: Call, gate: str, cell_state: np.ndarray) -> np.ndarray:
    """The input of a gate's activation, with `_GATE_BITS` integer bits."""
    bias = getattr(call, f"{gate}_gate_bias").data.astype(np.int64)
    normed = present(call, f"{gate}_layer_norm_weights")
    sums: np.ndarray = np.zeros_like(cell_state)
    for source, vectors, added in (
        ("input", call.input, 0 if normed else bias),
        ("recurrent", call.output_state_in, 0),
    ):
        weights = getattr(call, f"{source}_to_{gate}_weights")
        accumulators = _product(vectors.data, vectors.zero_point, weights, added)
        sums = saturate16(sums + multiply_by_quantized_multiplier(accumulators, *gate_multiplier(call, gate, source)))
    if gate != "cell" and present(call, f"cell_to_{gate}_weights"):
        products = getattr(call, f"cell_to_{gate}_weights").data.astype(np.int64) * cell_state
        sums = saturate16(sums + multiply_by_quantized_multiplier(products, *gate_multiplier(call, gate, "cell")))
    return _normalise(sums, getattr(call, f"{gate}_layer_norm_weights"), bias) if normed else sums


def _reference(call: Call) -> list[np.ndarray]:
    state_bits = cell_state_bits(call)
    cell_state = call.cell_state_in.data.astype(np.int64)
    forget = logistic(_gate(call, "forget", cell_state), _GATE_BITS)
    candidate = tanh(_gate(call, "cell", cell_state), _GATE_BITS)
    if present(call, "input_to_input_weights"):
        write = logistic(_gate(call, "input", cell_state), _GATE_BITS)
    else:
        write = 32767 - forget
    cell_state = saturate16(
        rounding_divide_by_pot(forget * cell_state, 15) + rounding_divide_by_pot(write * candidate, 15 + state_bits)
    )
    cell_state = clip(cell_state, *clip_range(call.cell_clip, call.cell_state_in.scale, (-32768, 32767)))
    output = logistic(_gate(call, "output", cell_state), _GATE_BITS)
    hidden = multiply_by_quantized_multiplier(output * tanh(cell_state, state_bits), *hidden_multiplier(call))
    # TensorFlow Lite counts the hidden state's zero point from the other side: it is subtracted here and added below.
    result = np.clip(hidden - call.hidden_state_zero_point, -128, 127)
    if present(call, "projection_weights"):
        result = _project(call, result)
    levels = result.astype(np.int8)
    return [levels, cell_state.astype(np.int16), levels.copy()]


def _project(call: Call, hidden: np.ndarray) -> np.ndarray:
    weights, state = call.projection_weights, call.output_state_in
    bias = call.projection_bias.data.astype(np.int64) if present(call, "projection_bias") else 0
    accumulators = _product(hidden, -call.hidden_state_zero_point, weights, bias)
    projected = multiply_by_quantized_multiplier(accumulators, *projection_multiplier(call)) + state.zero_point
    return clip(np.clip(projected, -128, 127), *clip_range(call.projection_clip, state.scale, (-128, 127)))


define(
    OperationCode.QUANTIZED_LSTM,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={Q8S: 4},
    signatures=Signature(
        tensor("input", rank=2),
        *weight_params(weights=one_of(Q8_SYMM), peephole=one_of(Q16_SYMM), bias=one_of(I32)),
        *state_params(cell=one_of(Q16_SYMM)),
        *norm_params(accepts=one_of(Q16_SYMM)),
        *(real(name, accepts=_FLOAT32) for name in ("cell_clip", "projection_clip", *_INTERMEDIATE_SCALES)),
        i32("hidden_state_zero_point"),
        real("hidden_state_scale", accepts=_FLOAT32),
    ),
    outputs=(tensor("output_state_out"), tensor("cell_state_out", one_of(Q16_SYMM)), tensor("result")),
    infer=_infer,
    reference=_reference,
    validate=_validate,
)
