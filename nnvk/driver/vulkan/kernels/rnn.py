"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN."""

from __future__ import annotations

from collections.abc import Iterator

from nnvk.driver.vulkan.kernels.recurrent import (
    SHADERS,
    Layer,
    Limits,
    Rows,
    Span,
    both_directions,
    drive_time_steps,
    one_direction,
    refuse_long,
    time_step,
)
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.recurrent.gates import matrix, vectors
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call, Tensor
from nnvk.ops.recurrent import sequence_shape
from nnvk.ops.rnn import rnn_linking
from nnvk.types.codes import OperationCode


class _RnnLayer(Layer):
    """``state = activation(input @ weights.T + state @ recurrent_weights.T + bias)`` over a sequence."""

    def __init__(
        self, g: Lowering, call: Call, prefix: str, span: Span, source: Tensor, target: TensorRef, *, aux: bool = False
    ) -> None:
        def operand(name: str) -> Tensor:
            tensor: Tensor = getattr(call, prefix + name)
            return tensor

        units = operand("recurrent_weights").shape[0]
        super().__init__(g, span, -(-units // 4), units, operand("hidden_state_in"), target)
        self._limits = Limits.of(call.activation)
        if span.time:
            names = ("weights", "aux_weights") if aux else ("weights",)
            weights = matrix(g, units, [[operand(name)] for name in names])
            self._driven = drive_time_steps(g, source, weights, vectors(g, units, [[operand("bias")]]))
            self._recurrent = matrix(g, units, [[operand("recurrent_weights")]])

    def _time_step(self, number: int, state: Rows) -> Iterator[None]:
        time_step(
            self._g,
            self.cell,
            rows=self._span.batches,
            columns=self._width,
            source=state,
            length=self._width,
            weights=self._recurrent,
            driven=self._sums(number),
            target=self._rows(number),
            limits=self._limits,
        )
        yield


def _refuse(call: Call) -> str | None:
    return refuse_long(call.input.shape[-1], call.recurrent_weights.shape[0])


@kernel(OperationCode.RNN, shaders=SHADERS, refuse=_refuse)
def lower_time_step(call: Call, g: Lowering) -> None:
    """Lower one time step."""
    one_direction(g, call, _RnnLayer, Span(1, call.input.shape[0], True), call.result, [call.hidden_state_out])


@kernel(OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN, shaders=SHADERS, refuse=_refuse)
def lower_sequence(call: Call, g: Lowering) -> None:
    """Lower a sequence of time steps."""
    time, batches, _ = sequence_shape(call)
    one_direction(g, call, _RnnLayer, Span(time, batches, bool(call.time_major)), call.result, call.outputs[1:])


def _refuse_bidirectional(call: Call) -> str | None:
    backward_input, crossed = rnn_linking(call)
    aux = call.aux_input.shape[-1] if crossed else 0
    inputs = [getattr(call, name).shape[-1] + aux for name in ("input", backward_input)]
    return refuse_long(*inputs, call.fw_recurrent_weights.shape[0], call.bw_recurrent_weights.shape[0])


@kernel(OperationCode.BIDIRECTIONAL_SEQUENCE_RNN, shaders=SHADERS, refuse=_refuse_bidirectional)
def lower_bidirectional(call: Call, g: Lowering) -> None:
    """Both directions, in turns."""
    units = [call.fw_recurrent_weights.shape[0], call.bw_recurrent_weights.shape[0]]
    both_directions(g, call, _RnnLayer, rnn_linking(call), units, 1)
