"""QUANTIZED_16BIT_LSTM."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.recurrent import refuse_long
from nnvk.driver.vulkan.lowering.gates import matrix, vectors
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.sums import ARITHMETICS, SUMS_SHADERS, TILES, sums_of
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.quantized_16bit_lstm import gate_biases, gate_multiplier, gate_weights
from nnvk.types.codes import OperationCode

SHADER = Shader("quantized_16bit_lstm", TILE=TILES, ARITHMETIC=ARITHMETICS)


def refuse(call: Call) -> str:
    """Vectors that are too long."""
    return refuse_long(call.input.shape[1] + call.output_state_in.shape[1])


@kernel(OperationCode.QUANTIZED_16BIT_LSTM, shaders=(SHADER, *SUMS_SHADERS), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """The sums of all gates, and the gates, in one dispatch."""
    batches, units = call.output_state_in.shape
    weights = matrix(g, units, list(zip(*gate_weights(call), strict=True)))
    sums = sums_of(g, weights, call.input, call.output_state_in)
    mantissa, shift = gate_multiplier(call)
    g.dispatch(
        SHADER.variant(**sums.axes),
        groups=sums.groups,
        spec={**sums.spec, "WHOLE_WORDS": batches == 1 or units % 4 == 0},
        tensors={
            **sums.tensors,
            "bias": g.tensor(vectors(g, units, [gate_biases(call)])),
            "before": g.tensor(call.cell_state_in),
            "after": g.tensor(call.cell_state_out),
            "dst": g.tensor(call.output_state_out),
        },
        **sums.push,
        units=units,
        mantissa=mantissa,
        shift=shift,
    )
