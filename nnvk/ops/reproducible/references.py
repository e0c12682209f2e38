"""The references of the operations that reproducible models may have.

Every number is rounded by operations of IEEE 754, in the order that docs/reproducible.md states. The shaders compute
the same numbers where their specialisation constant REPRODUCIBLE is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from nnvk.ops import registry
from nnvk.ops.call import Call, Tensor
from nnvk.ops.extension.round_rows import dynamic_quantize, round_rows
from nnvk.ops.extension.scatter_nd import CombineAt, Reduction, scatter_nd
from nnvk.ops.reproducible import elementary, functions, normalizations, products, reductions
from nnvk.ops.reproducible.cells import CELLS
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import AnyCode
from nnvk.types.extension import ExtendedOperationCode as Extended
from nnvk.types.operand import OperandType

_FLOATS = frozenset({OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16})
_MOVING = frozenset(
    {
        *(Op.BATCH_TO_SPACE_ND, Op.CHANNEL_SHUFFLE, Op.CONCATENATION, Op.DEPTH_TO_SPACE, Op.EMBEDDING_LOOKUP),
        *(Op.EXPAND_DIMS, Op.FILL, Op.GATHER, Op.HASHTABLE_LOOKUP, Op.IF, Op.MIRROR_PAD, Op.PACK, Op.PAD, Op.PAD_V2),
        *(Op.RANK, Op.RESHAPE, Op.RESIZE_NEAREST_NEIGHBOR, Op.REVERSE, Op.SELECT, Op.SLICE, Op.SPACE_TO_BATCH_ND),
        *(Op.SPACE_TO_DEPTH, Op.SPLIT, Op.SQUEEZE, Op.STRIDED_SLICE, Op.TILE, Op.TOPK_V2, Op.TRANSPOSE, Op.WHILE),
        *(Extended.BITCAST, Extended.BLOCK_QUANTIZED_EMBEDDING_LOOKUP, Extended.GATHER_ND),
    }
)
"""Operations that only move elements."""
_ROUNDED_ALIKE = frozenset(
    {
        *(Op.ABS, Op.ARGMAX, Op.ARGMIN, Op.CAST, Op.DEQUANTIZE, Op.EQUAL, Op.FLOOR, Op.GREATER, Op.GREATER_EQUAL),
        *(Op.LESS, Op.LESS_EQUAL, Op.NEG, Op.NOT_EQUAL, Op.PRELU, Op.QUANTIZE, Op.RESIZE_BILINEAR),
        *(Extended.DEQUANTIZE, Extended.FLOAT_TO_INT64, Extended.FLOOR_MOD, Extended.FMOD, Extended.INT64_TO_FLOAT),
        *(Extended.QUANTIZE, Extended.QUANTIZE_TIES_TO_EVEN, Extended.ROUND_FLOAT),
        *(Op.AXIS_ALIGNED_BBOX_TRANSFORM, Op.BOX_WITH_NMS_LIMIT, Op.DETECTION_POSTPROCESSING, Op.GENERATE_PROPOSALS),
        *(Op.HEATMAP_MAX_KEYPOINT, Op.LSH_PROJECTION, Op.ROI_ALIGN, Op.ROI_POOLING, Extended.ROI_ALIGN_V2),
        Extended.NON_MAX_SUPPRESSION,
    }
)
"""Operations whose reference for all models rounds as the shaders do."""
_ROUNDED_EACH_TIME: frozenset[AnyCode] = frozenset({Extended.SCATTER_ND})
"""Operations that round to FLOAT16 each time."""


def refuse(code: AnyCode, types: Iterable[OperandType]) -> str | None:
    """Why an operation on operands of these types has no reproducible results; None if it has."""
    has_floats = bool({type_.code for type_ in types} & _FLOATS)
    is_defined = code in (_MOVING | _ROUNDED_ALIKE | _REFERENCES.keys() if has_floats else registry.definitions())
    return None if is_defined else "its arithmetic is not defined for reproducible models"


def reference(call: Call) -> registry.Reference | None:
    """The reference of an operation in a reproducible model; None for control flow."""
    codes = {tensor.code for tensor in call.every_tensor()}
    own = _REFERENCES.get(call.code) if codes & _FLOATS or call.code is Op.SOFTMAX else None
    if own is None:
        return registry.lookup(call.code).reference
    is_wide = call.output.code is OperandCode.TENSOR_FLOAT16 and call.code not in _ROUNDED_EACH_TIME
    return _in_float32(own) if is_wide else own


def _in_float32(own: registry.Reference) -> registry.Reference:
    """The reference of FLOAT16: that of FLOAT32, whose results are rounded once more."""

    def widened(tensor: Tensor) -> Tensor:
        if tensor.code is not OperandCode.TENSOR_FLOAT16:
            return tensor
        data = tensor.data.astype(np.float32) if tensor.is_constant else None
        return Tensor(tensor.name, tensor.index, tensor.type, tensor.shape, data)

    def run(call: Call) -> list[np.ndarray]:
        results = own(call.with_tensors(widened))
        return [each.astype(np.float16) for each in (results if isinstance(results, list) else [results])]

    return run


def _pair(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Call], np.ndarray]:
    def run(call: Call) -> np.ndarray:
        result = function(call.input0.data, call.input1.data)
        return functions.activated(result, call.activation) if call.has("activation") else result

    return run


def _each(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Call], np.ndarray]:
    return lambda call: np.asarray(function(call.input.data))


def _clip(activation: FuseCode) -> Callable[[Call], np.ndarray]:
    return lambda call: functions.activated(call.input.data, activation)


def _one_by_one(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> CombineAt:
    def combine_at(result: np.ndarray, places: np.ndarray, updates: np.ndarray) -> None:
        for place, update in zip(places, updates, strict=True):
            result[place] = function(update, result[place])

    return combine_at


_AT = {
    **{Reduction.ADD: _one_by_one(np.add), Reduction.MUL: _one_by_one(np.multiply)},
    **{Reduction.MAX: _one_by_one(functions.larger), Reduction.MIN: _one_by_one(functions.smaller)},
}


def _gelu(call: Call) -> np.ndarray:
    return (functions.gelu_by_tanh if call.approximate else functions.gelu)(call.input.data)


_EACH: Mapping[AnyCode, Callable[[np.ndarray], np.ndarray]] = {
    Extended.ACOS: elementary.acos,
    Extended.ACOSH: elementary.acosh,
    Extended.ASIN: elementary.asin,
    Extended.ASINH: elementary.asinh,
    Extended.ATAN: elementary.atan,
    Extended.ATANH: elementary.atanh,
    Extended.CBRT: elementary.cbrt,
    Extended.COS: functions.cos,
    Extended.COSH: elementary.cosh,
    Extended.ERF: functions.erf,
    Op.EXP: functions.exp,
    Op.HARD_SWISH: functions.hard_swish,
    Op.LOG: functions.log,
    Op.LOGISTIC: functions.logistic,
    Extended.MISH: functions.mish,
    Op.RSQRT: functions.inverse_square_root,
    Op.SIN: functions.sin,
    Extended.SINH: elementary.sinh,
    Extended.SOFTPLUS: functions.softplus,
    Op.SQRT: functions.square_root,
    Extended.TAN: elementary.tan,
    Op.TANH: functions.tanh,
}
_PAIRS: Mapping[AnyCode, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    Op.ADD: np.add,
    Extended.ATAN2: elementary.atan2,
    Op.DIV: functions.quotient,
    Extended.FLOOR_DIV: lambda a, b: np.floor(functions.quotient(a, b)),
    Op.MAXIMUM: functions.larger,
    Op.MINIMUM: functions.smaller,
    Op.MUL: np.multiply,
    Op.SUB: np.subtract,
}
_REFERENCES: dict[AnyCode, registry.Reference] = {
    **{code: _each(function) for code, function in _EACH.items()},
    **{code: _pair(function) for code, function in _PAIRS.items()},
    **CELLS,
    Op.AVERAGE_POOL_2D: reductions.pool,
    Op.BATCH_MATMUL: products.batch_matmul,
    Extended.BLOCK_QUANTIZED_FULLY_CONNECTED: products.block_quantized,
    Op.CONV_2D: products.convolution,
    Op.DEPTHWISE_CONV_2D: products.depthwise,
    Extended.DYNAMIC_QUANTIZE: lambda call: dynamic_quantize(call, functions.quotient),
    Op.ELU: lambda call: functions.elu(call.input.data, call.alpha),
    Op.FULLY_CONNECTED: products.fully_connected,
    Extended.GELU: _gelu,
    Op.GROUPED_CONV_2D: products.convolution,
    Op.INSTANCE_NORMALIZATION: normalizations.instance,
    Op.L2_NORMALIZATION: normalizations.l2,
    Op.L2_POOL_2D: reductions.pool,
    Op.LOCAL_RESPONSE_NORMALIZATION: normalizations.local_response,
    Op.LOG_SOFTMAX: reductions.log_softmax,
    Op.MAX_POOL_2D: reductions.largest_of_windows,
    Op.MEAN: reductions.mean,
    Op.POW: lambda call: elementary.power(call.base.data, call.exponent.data),
    Op.REDUCE_MAX: reductions.reduction(functions.larger, 0.0),
    Op.REDUCE_MIN: reductions.reduction(functions.smaller, 0.0),
    Op.REDUCE_PROD: reductions.reduction(np.multiply, 1.0),
    Op.REDUCE_SUM: reductions.reduction(np.add, 0.0),
    Op.RELU: _clip(FuseCode.RELU),
    Op.RELU1: _clip(FuseCode.RELU1),
    Op.RELU6: _clip(FuseCode.RELU6),
    Extended.ROUND_ROWS: lambda call: round_rows(call, functions.quotient),
    Extended.SCATTER_ND: lambda call: scatter_nd(call, _AT),
    Op.SOFTMAX: reductions.softmax,
    Extended.SWISH: lambda call: functions.swish(call.input.data, call.alpha),
    Op.TRANSPOSE_CONV_2D: products.transposed,
}
