"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.recurrent import (
    FLOATS_3,
    NEAREST,
    Arithmetic,
    bidirectional_outputs,
    bidirectional_shapes,
    check,
    check_activation,
    check_state,
    floats,
    initial_state,
    layout,
    linking,
    matrix,
    sequence,
    sequence_shape,
    to_layout,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import FLOATS, Param, Signature, activation, boolean, i32, optional_tensor, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_AUX_WEIGHTS = ("fw_aux_weights", "bw_aux_weights")


def rnn_linking(call: Call) -> tuple[str, bool]:
    """How BIDIRECTIONAL_SEQUENCE_RNN feeds its cells: see `linking`."""
    return linking(call, _AUX_WEIGHTS)


def _cell_params(prefix: str = "", *, any_shape: bool = False) -> list[Param]:
    ranks = {"weights": 2, "recurrent_weights": 2, "bias": 1, "hidden_state_in": None if any_shape else 2}
    return [tensor(prefix + name, rank=rank) for name, rank in ranks.items()]


def _check_cell(call: Call, prefix: str, batches: int, input_size: int, *, any_shape: bool = False) -> int:
    """Units of a cell; BAD_DATA where its operands don't fit together. The state may be of ``any_shape``."""
    units, width = matrix(call, prefix + "weights")
    if width != input_size:
        raise bad_data(f"{prefix}weights must have {input_size} columns as the input has, got {width}")
    check(call, prefix + "recurrent_weights", units, units)
    check(call, prefix + "bias", units)
    check_state(call, prefix + "hidden_state_in", batches, units, any_shape=any_shape)
    return units


def _run(
    call: Call,
    arithmetic: Arithmetic,
    prefix: str,
    inputs: np.ndarray,
    aux: np.ndarray | None = None,
    *,
    reverse: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Run a cell over a time-major sequence [time, batches, size]: outputs of each time step, final hidden state.

    ``state = activation(input @ weights.T + state @ recurrent_weights.T + bias)`` is state and output of a time step.
    """
    weights = floats(call, prefix + "weights")
    if aux is not None:
        inputs = np.concatenate((inputs, aux), axis=2)
        weights = np.concatenate((weights, floats(call, prefix + "aux_weights")), axis=1)
    driven = arithmetic.dense(inputs, weights, floats(call, prefix + "bias"))
    recurrent = floats(call, prefix + "recurrent_weights")
    hidden = initial_state(call, prefix + "hidden_state_in", inputs.shape[1], len(recurrent))
    activate = arithmetic.activations[call.activation]
    outputs = np.empty((*inputs.shape[:2], hidden.shape[1]), np.float32)
    time_steps = range(len(inputs))
    for time_step in reversed(time_steps) if reverse else time_steps:
        hidden = activate(arithmetic.dense(hidden, recurrent, None) + driven[time_step])
        outputs[time_step] = hidden
    return outputs, hidden


# --- one time step ------------------------------------------------------------------------------------------------


def _infer_time_step(call: Call) -> list[Shape]:
    check_activation(call.activation)
    batches, input_size = matrix(call, "input")
    units = _check_cell(call, "", batches, input_size, any_shape=True)
    return [(batches, units)] * 2


def time_step(call: Call, arithmetic: Arithmetic = NEAREST) -> list[np.ndarray]:
    """The reference of RNN."""
    _, state = _run(call, arithmetic, "", floats(call, "input")[np.newaxis])
    output = state.astype(call.output.dtype)
    return [output, output.copy()]


define(
    OperationCode.RNN,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=FLOATS,
    signatures=Signature(tensor("input", rank=2), *_cell_params(any_shape=True), activation()),
    outputs=(tensor("hidden_state_out"), tensor("result")),
    infer=_infer_time_step,
    reference=time_step,
)


# --- one direction -------------------------------------------------------------------------------------------


def _infer_sequence(call: Call) -> list[Shape]:
    check_activation(call.activation)
    if call.time_major not in (0, 1):
        raise bad_data(f"time_major must be 0 or 1, got {call.time_major}")
    time, batches, input_size = sequence_shape(call)
    units = _check_cell(call, "", batches, input_size)
    return [layout(call, time, batches, units), (batches, units)][: len(call.outputs)]


def one_direction(call: Call, arithmetic: Arithmetic = NEAREST) -> list[np.ndarray]:
    """The reference of UNIDIRECTIONAL_SEQUENCE_RNN."""
    outputs, state = _run(call, arithmetic, "", sequence(call))
    return [to_layout(call, outputs), state.astype(call.output.dtype, copy=False)][: len(call.outputs)]


define(
    OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=FLOATS_3,
    signatures=Signature(tensor("input", rank=3), *_cell_params(), activation(), i32("time_major")),
    outputs=(tensor("result"), optional_tensor("hidden_state_out", since=4)),
    infer=_infer_sequence,
    reference=one_direction,
)


# --- both directions -----------------------------------------------------------------------------------------


def _infer_bidirectional(call: Call) -> list[Shape]:
    check_activation(call.activation)
    _, batches, input_size = sequence_shape(call)
    backward_input, crossed = rnn_linking(call)
    forward = _check_cell(call, "fw_", batches, input_size)
    backward = _check_cell(call, "bw_", batches, sequence_shape(call, backward_input)[2])
    if crossed:
        aux_size = sequence_shape(call, "aux_input")[2]
        for name, units in zip(_AUX_WEIGHTS, (forward, backward), strict=True):
            check(call, name, units, aux_size)
    return bidirectional_shapes(call, forward, backward, [(batches, forward), (batches, backward)])


def both_directions(call: Call, arithmetic: Arithmetic = NEAREST) -> list[np.ndarray]:
    """The reference of BIDIRECTIONAL_SEQUENCE_RNN."""
    backward_input, crossed = rnn_linking(call)
    aux = sequence(call, "aux_input") if crossed else None
    forward, forward_state = _run(call, arithmetic, "fw_", sequence(call), aux)
    backward, backward_state = _run(call, arithmetic, "bw_", sequence(call, backward_input), aux, reverse=True)
    return bidirectional_outputs(call, forward, backward, [forward_state, backward_state])


define(
    OperationCode.BIDIRECTIONAL_SEQUENCE_RNN,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=FLOATS_3,
    signatures=Signature(
        tensor("input", rank=3),
        *_cell_params("fw_"),
        *_cell_params("bw_"),
        optional_tensor("aux_input", rank=3),
        optional_tensor("fw_aux_weights", rank=2),
        optional_tensor("bw_aux_weights", rank=2),
        activation(),
        boolean("time_major"),
        boolean("merge_outputs"),
    ),
    # With merged outputs the second one is absent and the states follow the first, so that names only number them:
    # [forward, backward] or [merged], then hidden states of the forward and of the backward cell.
    outputs=(
        tensor("output0"),
        optional_tensor("output1"),
        optional_tensor("output2", since=4),
        optional_tensor("output3", since=4),
    ),
    infer=_infer_bidirectional,
    reference=both_directions,
)
