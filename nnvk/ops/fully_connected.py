"""FULLY_CONNECTED."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.fused import check_activation
from nnvk.ops.linear import (
    BIAS_TYPES,
    centred,
    check_bias,
    check_bias_scale,
    check_channel_dim,
    check_scales,
    check_wide,
    finish,
    matrix_product,
    products,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import (
    EXTENSIONS_SINCE,
    FLOATS,
    Q8,
    Q8_CHANNEL,
    Q8S,
    Q16_SYMM,
    QUANT8,
    Param,
    Signature,
    activation,
    boolean,
    by_type,
    tensor,
)
from nnvk.ops.traits import Fp16, Gemm, Traits
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape


def _validate(call: Call) -> None:
    check_bias_scale(call.input, call.weights, call.bias)
    check_channel_dim(call.weights, 0)


def _infer(call: Call) -> list[Shape]:
    check_activation(call.activation)
    units, size = call.weights.shape
    check_bias(call.input, call.bias, units)
    check_scales(call.weights, units)
    check_wide(call, call.weights, units)
    if not size or call.input.size % size:
        raise bad_data(
            f"input must have a multiple of {size} elements, the input size of weights {list(call.weights.shape)}, "
            f"got shape {list(call.input.shape)}"
        )
    return [(call.input.size // size, units)]


def _reference(call: Call) -> np.ndarray:
    with np.errstate(all="ignore"):
        weights = centred(call.weights)
        summed = products(call.input, weights, 1)
        source = centred(call.input).astype(summed.dtype, copy=False).reshape(call.output.shape[0], weights.shape[1])
        sums = matrix_product(source, weights.astype(summed.dtype, copy=False).T)
        return finish(call, summed, sums, call.input, call.weights)


def _signature(weights: Mapping[OperandCode, frozenset[OperandCode]], *more: Param) -> Signature:
    return Signature(
        tensor("input", rank=(2, 4)),
        tensor("weights", by_type(weights), rank=2),
        tensor("bias", BIAS_TYPES, rank=1),
        activation(),
        *more,
    )


_SIGNED_WEIGHTS = frozenset({Q8S, Q8_CHANNEL})

define(
    OperationCode.FULLY_CONNECTED,
    traits=Traits(foldable=False, fp16=Fp16.STARTS, gemm=Gemm("input", "weights", "bias", summed=slice(1, 2))),
    types={**FLOATS, **QUANT8},
    signatures=_signature({}),
    infer=_infer,
    reference=_reference,
    validate=_validate,
    # The extension's is TensorFlow Lite's: sums are rounded once, and signed weights may have scales per channel.
    extended=(
        dict.fromkeys((Q8, Q8S, Q16_SYMM), EXTENSIONS_SINCE),
        _signature(dict.fromkeys((Q8S, Q16_SYMM), _SIGNED_WEIGHTS), boolean("rounds_once", True)),
    ),
)
