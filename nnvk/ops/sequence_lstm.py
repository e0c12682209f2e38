"""UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.lstm_cell import (
    LstmCell,
    aux_names,
    aux_params,
    check_cell,
    check_options,
    norm_params,
    state_params,
    states,
    weight_params,
)
from nnvk.ops.recurrent import (
    FLOATS_3,
    NEAREST,
    Arithmetic,
    bidirectional_outputs,
    bidirectional_shapes,
    check,
    layout,
    linking,
    sequence,
    sequence_shape,
    to_layout,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import Signature, boolean, i32, optional_tensor, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_OPTIONS = (i32("activation"), real("cell_clip"), real("proj_clip"))
_STATES = ("output_state_in", "cell_state_in")


# --- one direction -------------------------------------------------------------------------------------------


def _infer(call: Call) -> list[Shape]:
    if len(call.outputs) not in (1, 3):
        raise bad_data(f"expected 1 output, or 3 with the final states, got {len(call.outputs)}")
    check_options(call)
    time, batches, input_size = sequence_shape(call)
    cell = check_cell(call, "", batches, input_size)
    shapes = [layout(call, time, batches, cell.outputs), (batches, cell.outputs), (batches, cell.units)]
    return shapes[: len(call.outputs)]


def one_direction(call: Call, arithmetic: Arithmetic = NEAREST) -> list[np.ndarray]:
    """The reference of UNIDIRECTIONAL_SEQUENCE_LSTM."""
    source = sequence(call)
    outputs, *final = LstmCell.of(call, arithmetic).run(source, *states(call, "", source.shape[1]))
    results = [to_layout(call, outputs), *(state.astype(call.output.dtype, copy=False) for state in final)]
    return results[: len(call.outputs)]


define(
    OperationCode.UNIDIRECTIONAL_SEQUENCE_LSTM,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=FLOATS_3,
    signatures=Signature(
        tensor("input", rank=3), *weight_params(), *state_params(), *_OPTIONS, boolean("time_major"), *norm_params()
    ),
    outputs=(
        tensor("result"),
        optional_tensor("output_state_out", since=4),
        optional_tensor("cell_state_out", since=4),
    ),
    infer=_infer,
    reference=one_direction,
)


# --- both directions -----------------------------------------------------------------------------------------


def lstm_linking(call: Call) -> tuple[str, bool]:
    """How BIDIRECTIONAL_SEQUENCE_LSTM feeds its cells: see `linking`."""
    return linking(call, aux_names(call, "fw_") + aux_names(call, "bw_"))


def _infer_bidirectional(call: Call) -> list[Shape]:
    check_options(call)
    _, batches, input_size = sequence_shape(call)
    backward_input, crossed = lstm_linking(call)
    forward = check_cell(call, "fw_", batches, input_size, any_shape=True)
    backward = check_cell(call, "bw_", batches, sequence_shape(call, backward_input)[2], any_shape=True)
    if crossed:
        aux_size = sequence_shape(call, "aux_input")[2]
        for prefix, cell in (("fw_", forward), ("bw_", backward)):
            for name in aux_names(call, prefix):
                check(call, name, cell.units, aux_size)
    # As in Android, states come out in the shapes that they went in.
    shapes = [getattr(call, prefix + name).shape for prefix in ("fw_", "bw_") for name in _STATES]
    return bidirectional_shapes(call, forward.outputs, backward.outputs, shapes)


def both_directions(call: Call, arithmetic: Arithmetic = NEAREST) -> list[np.ndarray]:
    """The reference of BIDIRECTIONAL_SEQUENCE_LSTM."""
    backward_input, crossed = lstm_linking(call)
    aux = sequence(call, "aux_input") if crossed else None
    sequences: list[np.ndarray] = []
    final: list[np.ndarray] = []
    for prefix, source in (("fw_", "input"), ("bw_", backward_input)):
        cell = LstmCell.of(call, arithmetic, prefix, aux=crossed)
        inputs = sequence(call, source)
        before = states(call, prefix, inputs.shape[1])
        outputs, *states_out = cell.run(inputs, *before, aux, reverse=prefix == "bw_")
        sequences.append(outputs)
        final += states_out
    forward, backward = sequences
    return bidirectional_outputs(call, forward, backward, final)


define(
    OperationCode.BIDIRECTIONAL_SEQUENCE_LSTM,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=FLOATS_3,
    signatures=Signature(
        tensor("input", rank=3),
        *weight_params("fw_"),
        *weight_params("bw_"),
        *state_params("fw_", any_shape=True),
        *state_params("bw_", any_shape=True),
        optional_tensor("aux_input", rank=3),
        *aux_params("fw_"),
        *aux_params("bw_"),
        *_OPTIONS,
        boolean("merge_outputs"),
        boolean("time_major"),
        *norm_params("fw_"),
        *norm_params("bw_"),
    ),
    # With merged outputs the second one is absent and the states follow the first, so that names only number them:
    # [forward, backward] or [merged], then output and cell state of the forward and of the backward cell.
    outputs=(tensor("output0"), *(optional_tensor(f"output{number}", since=4) for number in range(1, 6))),
    infer=_infer_bidirectional,
    reference=both_directions,
)
