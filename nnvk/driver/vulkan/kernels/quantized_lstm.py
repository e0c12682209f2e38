"""QUANTIZED_LSTM, with all optional operands."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.kernels.recurrent import refuse_long
from nnvk.driver.vulkan.lowering.gemm.verification import exact
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import offset, zero_point
from nnvk.driver.vulkan.lowering.recurrent.gates import by_gate, matrix, vectors
from nnvk.driver.vulkan.lowering.recurrent.sums import ARITHMETICS, SUMS_SHADERS, TILES, add_up, sums_of
from nnvk.driver.vulkan.lowering.recurrent.time_steps import time_steps_of
from nnvk.driver.vulkan.shaders.commands import TensorRef
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
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

TIME_STEP = Shader("quantized_lstm_step", TILE=TILES, ARITHMETIC=ARITHMETICS)
CELL = Shader("quantized_lstm")
PROJECTION = Shader("quantized_projection")
LOCAL = 64
_MOST_INVOCATIONS = 128
MOST_NORMALISED = 1 << 15
"""The most units in a layer normalisation, so that sums of 16-bit numbers and of their squares fit the shader's types.
"""


def refuse(call: Call) -> str | None:
    """The reason why a vector is too long, or None."""
    operands = CellOperands.of(call)
    units, outputs = operands.recurrent_weights["output"].shape
    if operands.norm and units > MOST_NORMALISED:
        return f"{units} units are normalised together, the shader takes at most {MOST_NORMALISED}"
    return refuse_long(call.input.shape[1], units, outputs)


def _multipliers(call: Call, operands: CellOperands) -> np.ndarray:
    """The multipliers [factor, mantissa or shift, gate] of the input, the state and the cell state, and of the
    normalisation.
    """
    table = np.zeros((4, 2, len(GATES)), np.int32)
    for row, (source, weights) in enumerate(
        (("input", operands.input_weights), ("recurrent", operands.recurrent_weights), ("cell", operands.peephole))
    ):
        for gate in weights:
            table[row, :, GATES.index(gate)] = gate_multiplier(call, gate, source)
    for gate, tensor in operands.norm.items():
        table[3, :, GATES.index(gate)] = norm_multiplier(tensor)
    return table


@kernel(OperationCode.QUANTIZED_LSTM, shaders=(TIME_STEP, CELL, PROJECTION, *SUMS_SHADERS), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower QUANTIZED_LSTM: the contribution of the input, then the state and the gates, then the projection."""
    operands = CellOperands.of(call)
    units, outputs = operands.recurrent_weights["output"].shape
    hidden = call.output_state_out
    if operands.projection_weights is not None:
        # TensorFlow Lite counts the zero point from the other side.
        type_ = OperandType(
            hidden.code, (call.input.shape[0], units), call.hidden_state_scale, -call.hidden_state_zero_point
        )
        hidden = g.intermediate("hidden", type_)
    if operands.peephole or operands.norm or not outputs or exact.may_verify_sums(g, outputs):
        _whole_rows(call, g, operands, hidden)
    else:
        _time_step(call, g, operands, hidden)
    if operands.projection_weights is not None:
        _project(call, g, operands.projection_weights, operands.projection_bias, hidden)
    g.alias(call.output_state_out, call.result)


def _time_step(call: Call, g: Lowering, operands: CellOperands, hidden: Tensor) -> None:
    """Dispatch a time step. A workgroup computes eight units and adds the contribution of the inputs, which one GEMM
    may have computed for all time steps.
    """
    batches, units = hidden.shape
    weights = matrix(g, units, [by_gate(operands.input_weights)])
    time_steps = time_steps_of(g, call.input, weights)
    if time_steps is None:
        driven, row = add_up(g, weights, call.input), 0
    else:
        driven, row = time_steps.once(g, weights.index, lambda inputs: add_up(g, weights, inputs)), time_steps.row
    sums = sums_of(g, TIME_STEP.variant, matrix(g, units, [by_gate(operands.recurrent_weights)]), operands.output_state)
    table = _multipliers(call, operands)
    type_ = OperandType(OperandCode.TENSOR_INT32, (table.size,))
    multipliers = g.once(
        ("multipliers", table.tobytes()), lambda: g.intermediate("multipliers", type_, table.reshape(-1))
    )
    bias = vectors(g, units, [by_gate(operands.bias)], multipliers, table.size)
    g.dispatch(
        sums.variant,
        groups=sums.groups,
        spec={**sums.spec, "CIFG": operands.is_coupled, "WHOLE_WORDS": batches == 1 or units % 4 == 0},
        tensors={
            **sums.tensors,
            "driven": driven,
            "bias": g.tensor(bias),
            **_states(call, g, operands, hidden),
        },
        **sums.push,
        driven_row=row,
        units=units,
        **_outputs(call),
    )


def _whole_rows(call: Call, g: Lowering, operands: CellOperands, hidden: Tensor) -> None:
    """Dispatch one workgroup for each batch, as layer normalisation needs."""
    batches, units = hidden.shape
    bias = g.tensor(vectors(g, units, [by_gate(operands.bias)]))
    sections = [by_gate(section) for section in (operands.peephole, operands.norm) if section]
    local = min(_MOST_INVOCATIONS, max(8, 1 << (units - 1).bit_length()))
    g.dispatch(
        CELL.variant(),
        groups=(batches, 1, 1),
        spec={
            "local_x": local,
            "LOCAL": local,
            "CIFG": operands.is_coupled,
            "PEEPHOLE": bool(operands.peephole),
            "NORM": bool(operands.norm),
        },
        tensors={
            "driven": add_up(g, matrix(g, units, [by_gate(operands.input_weights)]), call.input),
            "recurrent": add_up(g, matrix(g, units, [by_gate(operands.recurrent_weights)]), operands.output_state),
            "bias": bias,
            "parameters": g.tensor(vectors(g, units, sections)) if sections else bias,
            "multipliers": g.constant(_multipliers(call, operands)),
            **_states(call, g, operands, hidden),
        },
        units=units,
        **_outputs(call),
    )


def _states(call: Call, g: Lowering, operands: CellOperands, hidden: Tensor) -> dict[str, TensorRef]:
    return {"before": g.tensor(operands.cell_state), "after": g.tensor(call.cell_state_out), "dst": g.tensor(hidden)}


def _outputs(call: Call) -> dict[str, int]:
    """The push constants that clamp the cell state and the output to their types."""
    low, high = clip_range(call.cell_clip, call.cell_state_in.scale, limits(call.cell_state_in.code))
    mantissa, shift = hidden_multiplier(call)
    return {
        "cell_bits": cell_state_bits(call),
        "cell_low": low,
        "cell_high": high,
        "mantissa": mantissa,
        "shift": shift,
        "output_zero": call.hidden_state_zero_point,
    }


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
