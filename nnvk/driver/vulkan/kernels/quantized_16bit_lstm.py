"""QUANTIZED_16BIT_LSTM."""

from __future__ import annotations

from functools import partial

from nnvk.driver.vulkan.kernels.recurrent import refuse_long
from nnvk.driver.vulkan.lowering.gemm.verification import exact
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.recurrent.gates import columns, matrix, vectors
from nnvk.driver.vulkan.lowering.recurrent.sums import (
    ARITHMETICS,
    SUMS_SHADERS,
    TILES,
    Sums,
    add_up,
    sums_of,
    without_products,
)
from nnvk.driver.vulkan.lowering.recurrent.time_steps import time_steps_of
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
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
    sums, driven, row = _sums_of(call, g, weights)
    of_inputs = {} if driven is None else {"driven": driven}
    mantissa, shift = gate_multiplier(call)
    g.dispatch(
        sums.variant,
        groups=sums.groups,
        spec={**sums.spec, "WHOLE_WORDS": batches == 1 or units % 4 == 0},
        tensors={
            **sums.tensors,
            **of_inputs,
            "bias": g.tensor(vectors(g, units, [gate_biases(call)])),
            "before": g.tensor(call.cell_state_in),
            "after": g.tensor(call.cell_state_out),
            "dst": g.tensor(call.output_state_out),
        },
        **sums.push,
        **({} if driven is None else {"driven_row": row}),
        units=units,
        mantissa=mantissa,
        shift=shift,
    )


def _sums_of(call: Call, g: Lowering, weights: Tensor) -> tuple[Sums, TensorRef | None, int]:
    """The sums of the gates that the shader computes, and where others are that it adds: from which row on, if any."""
    state, size, length = call.output_state_in, call.input.shape[1], weights.shape[1]
    driven = partial(SHADER.variant, INPUT="driven")
    if exact.may_verify_sums(g, length):
        of_input = exact.add_up(g, weights, call.input)
        every = exact.add_up(g, weights, state, first=size, before=of_input)
        return without_products(sums_of(g, driven, weights, state)), every, 0
    if weights.is_constant:
        for_input = columns(g, weights, 0, size)
        time_steps = time_steps_of(g, call.input, for_input)
        if time_steps is not None:
            of_inputs = time_steps.once(g, for_input.index, lambda inputs: add_up(g, for_input, inputs))
            return sums_of(g, driven, columns(g, weights, size, length), state), of_inputs, time_steps.row
    return sums_of(g, partial(SHADER.variant, INPUT="behind"), weights, call.input, state), None, 0
