"""QUANTIZED_16BIT_LSTM."""

from __future__ import annotations

from functools import partial

from nnvk.driver.vulkan.kernels.recurrent import refuse_long
from nnvk.driver.vulkan.lowering.gates import columns, matrix, vectors
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.sums import ARITHMETICS, SUMS_SHADERS, TILES, add_up, sums_of
from nnvk.driver.vulkan.lowering.time_steps import time_steps_of
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.quantized_16bit_lstm import gate_biases, gate_multiplier, gate_weights
from nnvk.types.codes import OperationCode

SHADER = Shader("quantized_16bit_lstm", TILE=TILES, ARITHMETIC=ARITHMETICS, INPUT=("behind", "driven"))


def refuse(call: Call) -> str | None:
    """The reason why a vector is too long, or None."""
    return refuse_long(call.input.shape[1] + call.output_state_in.shape[1])


@kernel(OperationCode.QUANTIZED_16BIT_LSTM, shaders=(SHADER, *SUMS_SHADERS), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Compute the sums of all gates and the gates in one dispatch. In an unrolled layer, a second dispatch computes the
    contribution of the inputs for all time steps.
    """
    batches, units = call.output_state_in.shape
    weights = matrix(g, units, list(zip(*gate_weights(call), strict=True)))
    size, length = call.input.shape[1], weights.shape[1]
    time_steps = None
    if weights.is_constant:
        of_input = columns(g, weights, 0, size)
        time_steps = time_steps_of(g, call.input, of_input)
    if time_steps is None:
        sums = sums_of(g, partial(SHADER.variant, INPUT="behind"), weights, call.input, call.output_state_in)
        tensors, push = sums.tensors, sums.push
    else:
        of_state = columns(g, weights, size, length)
        sums = sums_of(g, partial(SHADER.variant, INPUT="driven"), of_state, call.output_state_in)
        driven = time_steps.once(g, of_input.index, lambda inputs: add_up(g, of_input, inputs))
        tensors, push = {**sums.tensors, "driven": driven}, {**sums.push, "driven_row": time_steps.row}
    mantissa, shift = gate_multiplier(call)
    g.dispatch(
        sums.variant,
        groups=sums.groups,
        spec={**sums.spec, "WHOLE_WORDS": batches == 1 or units % 4 == 0},
        tensors={
            **tensors,
            "bias": g.tensor(vectors(g, units, [gate_biases(call)])),
            "before": g.tensor(call.cell_state_in),
            "after": g.tensor(call.cell_state_out),
            "dst": g.tensor(call.output_state_out),
        },
        **push,
        units=units,
        mantissa=mantissa,
        shift=shift,
    )
