"""UNIDIRECTIONAL_SEQUENCE_GRU: gated recurrent units over a sequence, as ONNX's GRU has them."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.recurrent import (
    NEAREST,
    Arithmetic,
    check,
    check_activation,
    floats,
    forbid,
    matrix,
    optional_floats,
    present,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import EXTENSIONS_SINCE, F16, F32, Signature, activation, boolean, optional_tensor, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

GATES = ("update", "reset", "candidate")
_INNER_BIAS = "recurrent_to_candidate_bias"


def _infer(call: Call) -> list[Shape]:
    check_activation(call.activation)
    if call.reset_after not in (0, 1):
        raise bad_data(f"reset_after must be 0 or 1, got {call.reset_after}")
    time, batches, size = call.input.shape
    units, _ = matrix(call, "input_to_update_weights")
    for gate in GATES:
        check(call, f"input_to_{gate}_weights", units, size)
        check(call, f"recurrent_to_{gate}_weights", units, units)
        check(call, f"{gate}_bias", units)
    if call.reset_after and present(call, _INNER_BIAS):
        check(call, _INNER_BIAS, units)
    elif not call.reset_after:
        forbid(call, _INNER_BIAS, "without reset_after, because candidate_bias does the same")
    check(call, "hidden_state_in", batches, units)
    return [(time, batches, units), (batches, units)][: len(call.outputs)]


def gru(call: Call, arithmetic: Arithmetic = NEAREST) -> list[np.ndarray]:
    """The reference of UNIDIRECTIONAL_SEQUENCE_GRU.

    Each time step computes, with the sums of the inputs in ``driven``::

        update, reset = logistic(driven + state @ recurrent_weights.T)
        candidate = activation(driven + reset * (state @ recurrent_weights.T + recurrent_to_candidate_bias))
        state = (1 - update) * candidate + update * state

    Without ``reset_after`` the candidate multiplies ``reset * state`` by its recurrent weights instead.
    """
    source, state = floats(call, "input"), floats(call, "hidden_state_in")
    dense, logistic, activate = arithmetic.dense, arithmetic.logistic, arithmetic.activations[call.activation]
    recurrent = {gate: floats(call, f"recurrent_to_{gate}_weights") for gate in GATES}
    weights = {gate: floats(call, f"input_to_{gate}_weights") for gate in GATES}
    driven = {gate: dense(source, weights[gate], floats(call, f"{gate}_bias")) for gate in GATES}
    inner = optional_floats(call, _INNER_BIAS)
    bias = np.zeros(1, np.float32) if inner is None else inner
    outputs = np.empty((*source.shape[:2], state.shape[1]), np.float32)
    for time_step in range(len(source)):
        update, reset = (
            logistic(dense(state, recurrent[gate], None) + driven[gate][time_step]) for gate in ("update", "reset")
        )
        if call.reset_after:
            product = reset * (dense(state, recurrent["candidate"], None) + bias)
        else:
            product = dense(reset * state, recurrent["candidate"], None)
        candidate = activate(driven["candidate"][time_step] + product)
        state = (1 - update) * candidate + update * state
        outputs[time_step] = state
    return [data.astype(call.output.dtype) for data in (outputs, state)][: len(call.outputs)]


define(
    ExtendedOperationCode.UNIDIRECTIONAL_SEQUENCE_GRU,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=dict.fromkeys((F32, F16), EXTENSIONS_SINCE),
    signatures=Signature(
        tensor("input", rank=3),
        *(tensor(f"input_to_{gate}_weights", rank=2) for gate in GATES),
        *(tensor(f"recurrent_to_{gate}_weights", rank=2) for gate in GATES),
        *(tensor(f"{gate}_bias", rank=1) for gate in GATES),
        optional_tensor(_INNER_BIAS, rank=1),
        tensor("hidden_state_in", rank=2),
        activation(),
        boolean("reset_after"),
    ),
    outputs=(tensor("result"), optional_tensor("hidden_state_out")),
    infer=_infer,
    reference=gru,
)
