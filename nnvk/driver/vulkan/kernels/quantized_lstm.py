"""QUANTIZED_LSTM, with everything that is optional in it."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.kernels.recurrent import refuse_long
from nnvk.driver.vulkan.lowering.gates import by_gate, matrix, vectors
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import offset, zero_point
from nnvk.driver.vulkan.lowering.sums import SUMS_SHADERS, add_up
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.lstm_cell import GATES, CellOperands
from nnvk.ops.quant import limits
from nnvk.ops.quantized_lstm import (
    cell_state_bits,
    clip_range,
    gate_multiplier,
    hidden_multiplier,
    norm_multiplier,
    projection_multiplier,
)
from nnvk.types.codes import OperationCode
from nnvk.types.operand import OperandType

CELL = Shader("quantized_lstm")
PROJECTION = Shader("quantized_projection")
LOCAL = 64
_MOST_INVOCATIONS = 128
MOST_NORMALISED = 1 << 15
"""Units whose 16-bit numbers and squares, and their mean, add up in the bits that the shader has for them."""


def refuse(call: Call) -> str:
    """Vectors that are too long."""
    operands = CellOperands.of(call)
    units, outputs = operands.recurrent_weights["output"].shape
    if operands.norm and units > MOST_NORMALISED:
        return f"{units} units are normalised together, the shader takes at most {MOST_NORMALISED}"
    return refuse_long(call.input.shape[1], units, outputs)


def _multipliers(call: Call, operands: CellOperands) -> np.ndarray:
    """[what is multiplied, mantissa or shift, gate]: products of input, state and cell state; the normalisation."""
    table = np.zeros((4, 2, len(GATES)), np.int32)
    for row, (source, weights) in enumerate(
        (("input", operands.input_weights), ("recurrent", operands.recurrent_weights), ("cell", operands.peephole))
    ):
        for gate in weights:
            table[row, :, GATES.index(gate)] = gate_multiplier(call, gate, source)
    for gate, tensor in operands.norm.items():
        table[3, :, GATES.index(gate)] = norm_multiplier(tensor)
    return table


@kernel(OperationCode.QUANTIZED_LSTM, shaders=(CELL, PROJECTION, *SUMS_SHADERS), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """The sums of input and state, then the gates, then the projection if there is one."""
    operands = CellOperands.of(call)
    batches = call.input.shape[0]
    units = operands.recurrent_weights["output"].shape[0]
    bias = g.tensor(vectors(g, units, [by_gate(operands.bias)]))
    sections = [by_gate(section) for section in (operands.peephole, operands.norm) if section]
    parameters = g.tensor(vectors(g, units, sections)) if sections else bias
    hidden = call.output_state_out
    if operands.projection_weights is not None:
        # TensorFlow Lite counts the zero point from the other side.
        type_ = OperandType(hidden.code, (batches, units), call.hidden_state_scale, -call.hidden_state_zero_point)
        hidden = g.intermediate("hidden", type_)
    low, high = clip_range(call.cell_clip, call.cell_state_in.scale, limits(call.cell_state_in.code))
    mantissa, shift = hidden_multiplier(call)
    local = min(_MOST_INVOCATIONS, max(8, 1 << (units - 1).bit_length()))
    g.dispatch(
        CELL.variant(),
        groups=(batches, 1, 1),
        spec={
            "local_x": local,
            "LOCAL": local,
            "CIFG": len(operands.gates) < len(GATES),
            "PEEPHOLE": bool(operands.peephole),
            "NORM": bool(operands.norm),
        },
        tensors={
            "driven": add_up(g, matrix(g, units, [by_gate(operands.input_weights)]), call.input),
            "recurrent": add_up(g, matrix(g, units, [by_gate(operands.recurrent_weights)]), operands.output_state),
            "bias": bias,
            "parameters": parameters,
            "multipliers": g.constant(_multipliers(call, operands)),
            "before": g.tensor(operands.cell_state),
            "after": g.tensor(call.cell_state_out),
            "dst": g.tensor(hidden),
        },
        units=units,
        cell_bits=cell_state_bits(call),
        cell_low=low,
        cell_high=high,
        mantissa=mantissa,
        shift=shift,
        output_zero=call.hidden_state_zero_point,
    )
    if operands.projection_weights is not None:
        _project(call, g, operands.projection_weights, operands.projection_bias, hidden)
    g.alias(call.output_state_out, call.result)


def _project(call: Call, g: Lowering, weights: Tensor, bias: Tensor | None, hidden: Tensor) -> None:
    output = call.output_state_out
    outputs = weights.shape[0]
    columns = matrix(g, outputs, [[weights]])
    low, high = clip_range(call.projection_clip, output.scale, limits(output.code))
    mantissa, shift = projection_multiplier(call)
    count = -(-output.size // 4)
    g.dispatch(
        PROJECTION.variant(),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "sums": add_up(g, columns, hidden),
            "bias": g.tensor(vectors(g, outputs, [[bias]])),
            "dst": g.tensor(output),
        },
        count=count,
        elements=output.size,
        width=outputs,
        sums_row=columns.shape[0],
        mantissa=mantissa,
        shift=shift,
        zero=zero_point(output),
        low=low + offset(output),
        high=high + offset(output),
    )
