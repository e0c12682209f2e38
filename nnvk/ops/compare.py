"""Operations on truth values: comparisons, LOGICAL_AND, LOGICAL_OR and SELECT."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from nnvk.ops.binary import broadcast_shape
from nnvk.ops.call import Call, Tensor
from nnvk.ops.quant import is_quantised, requantize
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import BOOL8, F16, F32, I32, Q8, Q8S, Signature, one_of, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape

_Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
_LEAST_SCALE = 2.0**-40
"""The smallest scale beside a scale of at least 1/2: 255 quantisation steps are less than one of the other."""


def comparable_scales(first: Tensor, second: Tensor) -> tuple[float, float]:
    """Scales with which two 8-bit tensors compare as with their own, and no number is subnormal or infinite.

    Both scales are divided by one power of two, which rounds nothing. A scale that is too small to matter beside the
    other one is enlarged to a size at which it matters as little.
    """
    exponent = math.frexp(max(first.scale, second.scale))[1]

    def comparable(scale: float) -> float:
        return max(math.ldexp(scale, -exponent), _LEAST_SCALE)

    return comparable(first.scale), comparable(second.scale)


def _infer(call: Call) -> list[Shape]:
    return [broadcast_shape(call.input0, call.input1)]


def _compare(function: _Function) -> Callable[[Call], np.ndarray]:
    """Quantised inputs are compared as the float32 numbers that they stand for."""

    def run(call: Call) -> np.ndarray:
        first, second = call.input0, call.input1
        if not is_quantised(first.code):
            return function(first.data, second.data)
        scales = comparable_scales(first, second)
        numbers = (
            (tensor.data.astype(np.float32) - np.float32(tensor.zero_point)) * np.float32(scale)
            for tensor, scale in zip((first, second), scales, strict=True)
        )
        return function(*numbers)

    return run


_NUMBERS = {**dict.fromkeys((BOOL8, F16, F32, I32, Q8), 3), Q8S: 4}
_TRUTH_VALUES = {BOOL8: 3}

_ROWS: dict[OperationCode, tuple[_Function, Mapping[OperandCode, int]]] = {
    OperationCode.EQUAL: (np.equal, _NUMBERS),
    OperationCode.GREATER: (np.greater, _NUMBERS),
    OperationCode.GREATER_EQUAL: (np.greater_equal, _NUMBERS),
    OperationCode.LESS: (np.less, _NUMBERS),
    OperationCode.LESS_EQUAL: (np.less_equal, _NUMBERS),
    OperationCode.NOT_EQUAL: (np.not_equal, _NUMBERS),
    OperationCode.LOGICAL_AND: (np.logical_and, _TRUTH_VALUES),
    OperationCode.LOGICAL_OR: (np.logical_or, _TRUTH_VALUES),
}
for _code, (_function, _types) in _ROWS.items():
    define(
        _code,
        traits=Traits(foldable=True, fp16=Fp16.NEVER),
        types=_types,
        signatures=Signature(tensor("input0"), tensor("input1")),
        outputs=(tensor("output", one_of(BOOL8)),),
        infer=_infer,
        reference=_compare(_function),
    )


def _infer_select(call: Call) -> list[Shape]:
    shape: Shape = call.condition.shape
    check_shape(call.input1, shape)
    check_shape(call.input2, shape)
    return [shape]


def _select(call: Call) -> np.ndarray:
    first, second = (
        requantize(source, call.output) if is_quantised(source.code) else source.data
        for source in (call.input1, call.input2)
    )
    return np.where(call.condition.data, first, second)


define(
    OperationCode.SELECT,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types={F32: 3, F16: 3, I32: 3, Q8: 3, Q8S: 4},
    signatures=Signature(tensor("condition", one_of(BOOL8)), tensor("input1"), tensor("input2")),
    infer=_infer_select,
    reference=_select,
    leading="input1",
    wide=True,
)
