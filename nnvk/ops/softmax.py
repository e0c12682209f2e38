"""SOFTMAX and LOG_SOFTMAX."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops import interpolated
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised, quantize
from nnvk.ops.registry import define
from nnvk.ops.shapes import axis_index
from nnvk.ops.signature import F16, F32, FLOATS, Q8, Q8S, Q16_SYMM, QUANT8, Signature, i32, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.ops.unary import fixed_output
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _infer(call: Call) -> list[Shape]:
    if not call.beta > 0:
        raise bad_data(f"beta must be positive, got {call.beta:g}")
    return _infer_log(call)


def _infer_log(call: Call) -> list[Shape]:
    axis_index("axis", call.axis, call.input.rank)
    return [call.input.shape]


def _shifted(call: Call) -> np.ndarray:
    """Logits times beta, less the largest of them in each slice, so that no exponential overflows."""
    logits, beta = call.input.data.astype(np.float32), call.beta
    if is_quantised(call.input.code):
        beta = min(beta * call.input.scale, float(np.finfo(np.float32).max))  # times 0 it is 0, as infinity is not
    extreme, start = (logits.max, -np.inf) if call.beta > 0 else (logits.min, np.inf)
    return np.asarray((logits - extreme(axis=call.axis, keepdims=True, initial=start)) * np.float32(beta))


def _softmax(call: Call) -> np.ndarray:
    if call.input.code is Q16_SYMM:
        return interpolated.softmax(call)
    with np.errstate(all="ignore"):  # a slice of infinities has no softmax
        if is_quantised(call.input.code):  # as TensorFlow Lite's optimised kernel, which adds up in the elements' order
            powers = np.exp(_shifted(call), dtype=np.float64).astype(np.float32)
            sums = np.add.accumulate(powers, axis=call.axis).max(axis=call.axis, keepdims=True, initial=0)
            return quantize((powers * (1 / sums)).astype(np.float64), call.output)
        powers = np.exp(_shifted(call))
        return quantize(powers / powers.sum(axis=call.axis, keepdims=True, dtype=np.float64), call.output)


def _log_softmax(call: Call) -> np.ndarray:
    with np.errstate(all="ignore"):
        shifted = _shifted(call)
        sums = np.exp(shifted).sum(axis=call.axis, keepdims=True, dtype=np.float64)
        return quantize(shifted - np.log(sums), call.output)


define(
    OperationCode.SOFTMAX,
    traits=Traits(foldable=False, fp16=Fp16.FOLLOWS),
    types={**FLOATS, **QUANT8},
    signatures=Signature(tensor("input", rank=(1, 4)), real("beta"), i32("axis", -1, since=3)),
    infer=_infer,
    reference=_softmax,
    validate=fixed_output(1 / 256, {Q8: 0, Q8S: -128}),
    wide=True,
)
define(
    OperationCode.LOG_SOFTMAX,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={F32: 3, F16: 3},
    signatures=Signature(tensor("input"), real("beta"), i32("axis")),
    infer=_infer_log,
    reference=_log_softmax,
)
