"""QUANTIZED_16BIT_LSTM: one time step of a cell with 8-bit weights and activations and a 16-bit cell state."""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fixed_point import logistic, multiply, rescale, saturate16, tanh
from nnvk.ops.lstm_cell import GATES, state_params
from nnvk.ops.quant import multiply_by_quantized_multiplier, quantize_multiplier, rounding_divide_by_pot
from nnvk.ops.recurrent import check, matrix
from nnvk.ops.registry import define
from nnvk.ops.signature import I32, Q8, Q16_SYMM, Signature, one_of, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_ACTIVATION = (1 / 128, 128)
"""Scale and zero point of input and output: [-1, 127/128]."""
_CELL_STATE_BITS = 4
"""Integer bits of the cell state: [-16, 16)."""
_GATE_BITS = 3
"""Integer bits of what enters a gate: [-8, 8)."""

_WEIGHTS = tuple(f"{source}_to_{gate}_weights" for source in ("input", "recurrent") for gate in GATES)
_BIASES = tuple(f"{gate}_gate_bias" for gate in GATES)


def _quantised(operand: Tensor, scale: float, zero_point: int) -> None:
    type_ = operand.type
    if not math.isclose(type_.scale, scale, rel_tol=1e-6) or type_.zero_point != zero_point:
        raise bad_data(f"{operand.name} must have scale {scale:g} and zero point {zero_point}, got {type_}")


def _validate(call: Call) -> None:
    cell_state_scale = 2.0 ** (_CELL_STATE_BITS - 15)
    for operand in (call.input, call.output_state_in, call.output_state_out):
        _quantised(operand, *_ACTIVATION)
    for operand in (call.cell_state_in, call.cell_state_out):
        _quantised(operand, cell_state_scale, 0)
    weights = call.input_to_input_weights.type
    for name in _WEIGHTS:
        _quantised(getattr(call, name), weights.scale, weights.zero_point)
    for name in _BIASES:
        _quantised(getattr(call, name), weights.scale * _ACTIVATION[0], 0)


def _infer(call: Call) -> list[Shape]:
    batches, input_size = matrix(call, "input")
    units = matrix(call, "output_state_in")[1]
    for gate in GATES:
        check(call, f"input_to_{gate}_weights", units, input_size)
        check(call, f"recurrent_to_{gate}_weights", units, units)
        check(call, f"{gate}_gate_bias", units)
    check(call, "output_state_in", batches, units)
    check(call, "cell_state_in", batches, units)
    return [(batches, units), (batches, units)]


def gate_weights(call: Call) -> list[list[Tensor]]:
    """For each gate the weights, side by side, that [input, output state] is multiplied with.

    Android has the recurrent ones first, so that the weights' first columns meet the input. The conformance vectors
    hold it to that.
    """
    return [[getattr(call, f"{source}_to_{gate}_weights") for source in ("recurrent", "input")] for gate in GATES]


def gate_biases(call: Call) -> list[Tensor]:
    """The bias of each gate."""
    return [getattr(call, name) for name in _BIASES]


def gate_multiplier(call: Call) -> tuple[int, int]:
    """Mantissa and shift that take accumulators, whose scale is the biases', to that of gates, 2^-12."""
    return quantize_multiplier(2.0 ** (15 - _GATE_BITS) * call.input_gate_bias.scale)


def _reference(call: Call) -> list[np.ndarray]:
    weights_type = call.input_to_input_weights.type
    weights = np.block([[part.data for part in parts] for parts in gate_weights(call)]).astype(np.float64)
    levels = np.concatenate((call.input.data, call.output_state_in.data), axis=1).astype(np.float64)
    # Products of 8-bit numbers are exact in float64.
    sums = ((levels - _ACTIVATION[1]) @ (weights - weights_type.zero_point).T).astype(np.int64)
    sums += np.concatenate([bias.data for bias in gate_biases(call)])
    accumulators = sums.astype(np.int32)  # they wrap round
    scaled = saturate16(multiply_by_quantized_multiplier(accumulators, *gate_multiplier(call)))
    gates = np.split(scaled, len(GATES), axis=1)
    write, forget, output = (logistic(gates[GATES.index(gate)], _GATE_BITS) for gate in ("input", "forget", "output"))
    candidate = tanh(gates[GATES.index("cell")], _GATE_BITS)
    cell_state = saturate16(
        rescale(multiply(write, candidate), 0, _CELL_STATE_BITS) + multiply(forget, call.cell_state_in.data)
    )
    squashed = tanh(rescale(cell_state, _CELL_STATE_BITS, _GATE_BITS), _GATE_BITS)
    result = np.clip(rounding_divide_by_pot(multiply(output, squashed), 8), -128, 127) + _ACTIVATION[1]
    return [cell_state.astype(np.int16), result.astype(np.uint8)]


define(
    OperationCode.QUANTIZED_16BIT_LSTM,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={Q8: 3},
    signatures=Signature(
        tensor("input", rank=2),
        *(tensor(name, rank=2) for name in _WEIGHTS),
        *(tensor(name, one_of(I32), rank=1) for name in _BIASES),
        *reversed(state_params(cell=one_of(Q16_SYMM))),
    ),
    outputs=(tensor("cell_state_out", one_of(Q16_SYMM)), tensor("output_state_out")),
    infer=_infer,
    reference=_reference,
    validate=_validate,
)
