"""LSTM: one time step of a cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.lstm_cell import (
    LstmCell,
    check_cell,
    check_options,
    norm_params,
    state_params,
    states,
    weight_params,
)
from nnvk.ops.recurrent import NEAREST, Arithmetic, floats, matrix
from nnvk.ops.registry import define
from nnvk.ops.signature import FLOATS, Signature, i32, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _infer(call: Call) -> list[Shape]:
    check_options(call)
    batches, input_size = matrix(call, "input")
    cell = check_cell(call, "", batches, input_size, any_shape=True)
    scratch = (batches, cell.units * (3 if cell.cifg else 4))
    return [scratch, (batches, cell.outputs), (batches, cell.units), (batches, cell.outputs)]


def time_step(call: Call, arithmetic: Arithmetic = NEAREST) -> list[np.ndarray]:
    """The reference of LSTM."""
    sequence = floats(call, "input")[np.newaxis]
    _, output_state, cell_state = LstmCell.of(call, arithmetic).run(sequence, *states(call, "", sequence.shape[1]))
    dtype = call.output.dtype
    output = output_state.astype(dtype)
    # Nothing is said of the scratch buffer's contents; zeros keep runs reproducible.
    return [np.zeros(call.outputs[0].shape, dtype), output, cell_state.astype(dtype), output.copy()]


_INPUTS = (
    tensor("input", rank=2),
    *weight_params(),
    *state_params(any_shape=True),
    i32("activation"),
    real("cell_clip"),
    real("proj_clip"),
)

define(
    OperationCode.LSTM,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=FLOATS,
    signatures=(Signature(*_INPUTS), Signature(*_INPUTS, *(replace(param, listed=True) for param in norm_params()))),
    outputs=(tensor("scratch_buffer"), tensor("output_state_out"), tensor("cell_state_out"), tensor("result")),
    infer=_infer,
    reference=time_step,
)
