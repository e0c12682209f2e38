"""SVDF: a dense layer over a window of past inputs, each filter a feature vector and a time vector."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.recurrent import (
    NEAREST,
    Arithmetic,
    check,
    check_activation,
    check_state,
    floats,
    matrix,
    optional_floats,
    present,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import FLOATS, Signature, activation, i32, optional_tensor, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def shapes_of_filters(call: Call) -> list[Shape]:
    """The shapes of the state and of the output of a call with SVDF's operands, quantised or not."""
    batches, input_size = matrix(call, "input")
    filters, width = matrix(call, "weights_feature")
    if width != input_size:
        raise bad_data(f"weights_feature must have {input_size} columns as the input has, got {width}")
    memory = matrix(call, "weights_time")[1]
    check(call, "weights_time", filters, memory)
    if memory < 1:
        raise bad_data(f"weights_time must have at least 1 column, got shape {list(call.weights_time.shape)}")
    if call.rank < 1 or filters % call.rank:
        raise bad_data(f"rank must be a divisor of the {filters} rows of weights_feature, got {call.rank}")
    units = filters // call.rank
    check_state(call, "state_in", batches, filters * memory, any_shape=True)
    if present(call, "bias"):
        check(call, "bias", units)
    return [(batches, filters * memory), (batches, units)]


def _infer(call: Call) -> list[Shape]:
    check_activation(call.activation)
    return shapes_of_filters(call)


def svdf(call: Call, arithmetic: Arithmetic = NEAREST) -> list[np.ndarray]:
    """The reference of SVDF."""
    filters, memory = call.weights_time.shape
    batches = call.input.shape[0]
    # The state has a free place for the newest entry at the end of each filter's memory, [batch, filter, time].
    state = floats(call, "state_in").reshape(batches, filters, memory).copy()
    state[:, :, -1] = arithmetic.dense(floats(call, "input"), floats(call, "weights_feature"), None)
    filtered = arithmetic.total(state * floats(call, "weights_time"))
    output = arithmetic.total(filtered.reshape(batches, filters // call.rank, call.rank))
    bias = optional_floats(call, "bias")
    if bias is not None:
        output = output + bias
    output = arithmetic.activations[call.activation](output)
    state = np.concatenate((state[:, :, 1:], np.zeros((batches, filters, 1), np.float32)), axis=2)
    dtype = call.output.dtype
    return [state.reshape(batches, filters * memory).astype(dtype), output.astype(dtype)]


define(
    OperationCode.SVDF,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types=FLOATS,
    signatures=Signature(
        tensor("input", rank=2),
        tensor("weights_feature", rank=2),
        tensor("weights_time", rank=2),
        optional_tensor("bias", rank=1),
        tensor("state_in"),
        i32("rank"),
        activation(),
    ),
    outputs=(tensor("state_out"), tensor("result")),
    infer=_infer,
    reference=svdf,
)
