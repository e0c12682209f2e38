"""Operands of quantised products: if inputs, weights and outputs are quantised, NNAPI multiplies the levels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nnvk.importers import charged
from nnvk.importers.emitter import is_quantised, same_quantisation
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.quantisation import quantised_type
from nnvk.importers.onnx.tensors import Levels, Tensor
from nnvk.types.codes import OperandCode
from nnvk.types.operand import QUANT8_CODES, ChannelQuant, OperandType

_SIGNED = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
_LIMITS = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class QuantisedOperands:
    """The operands of a product of levels."""

    source: Value
    weights: np.ndarray
    """The levels of the weights, in the layout of the file."""
    scales: np.ndarray
    """One scale, or one for each output."""
    weights_type: OperandType | None
    """The type of weights of one scale; None where there are several."""
    bias: np.ndarray
    """The bias in INT32."""
    out: OperandType

    def type_of(self, channel_dim: int) -> OperandType:
        """The type of weights that are laid so that outputs are along this dimension."""
        if self.weights_type is not None:
            return self.weights_type
        scales = tuple(float(scale) for scale in self.scales)
        code = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
        return OperandType(code, channel_quant=ChannelQuant(scales, channel_dim))

    @property
    def bias_type(self) -> OperandType:
        """The type of the bias. Its scale is the product of the scales of input and weights."""
        if self.weights_type is None:
            return OperandType(OperandCode.TENSOR_INT32)
        scale = float(np.float32(self.source.type.scale) * np.float32(self.weights_type.scale))
        return OperandType(OperandCode.TENSOR_INT32, scale=scale)


def requantised(c: Context) -> OperandType | None:
    """The quantised type that the node's output is converted to next, perhaps after a RELU. None if it stays real."""
    after = c.outside.follower(c.node.outputs[0])
    if after is not None and after.op_type == "Relu":
        after = c.outside.follower(after.outputs[0])
    if after is None or after.op_type != "QuantizeLinear" or len(after.inputs) < 2:
        return None
    scale = c.outside.constant(after.inputs[1])
    point = c.outside.constant(after.inputs[2]) if len(after.inputs) > 2 and after.inputs[2] else None
    if scale is None or (point is None and len(after.inputs) > 2 and after.inputs[2]):
        return None
    return quantised_type(np.dtype(np.uint8) if point is None else point.dtype, scale, point)


def wanted_operands(c: Context, output_axis: int = 0) -> QuantisedOperands | None:
    """The operands of a node with input, weights and perhaps a bias, where all of it is quantised."""
    weights = c.tensor(1).axis_levels
    if weights is None or c.tensor(0).is_constant:
        return None
    source = c.value(0)
    out = requantised(c)
    if out is None or source.code not in QUANT8_CODES:
        return None
    bias = c.optional(2)
    if bias is not None and not bias.is_constant:
        return None
    units = c.tensor(1).shape[output_axis]
    return quantised_operands(source, weights, output_axis, units, None if bias is None else bias.array, out)


def quantised_operands(
    source: Value, weights: Levels, output_axis: int, units: int, bias: np.ndarray | None, out: OperandType
) -> QuantisedOperands | None:
    """The operands of a product; None where NNAPI has none of these types. ``bias`` is of real numbers."""
    array, scales, points = weights.array, weights.scale.reshape(-1), weights.zero_point.reshape(-1)
    if array.dtype not in (np.int8, np.uint8) or not np.all(np.isfinite(scales) & (scales > 0)):
        return None
    if scales.size > 1:
        if weights.axis != output_axis or scales.size != units or array.dtype != np.int8 or np.any(points):
            return None
        type_ = None
    else:
        array, point = _with_sign(array, int(points[0]), source.code is _SIGNED)
        type_ = OperandType(source.code, (), float(np.float32(scales[0])), point)
    product = scales.astype(np.float64) * source.type.scale
    real = charged.zeros(units) if bias is None else charged.broadcast_to(bias.reshape(-1), (units,))
    whole = np.rint(real / product)
    if np.any(np.abs(whole) > _LIMITS.max):
        return None
    if out.code is not source.code:
        shift = 128 if source.code is not _SIGNED else -128
        out = replace(out, code=source.code, zero_point=out.zero_point + shift)
    return QuantisedOperands(source, array, scales, type_, whole.astype(np.int32), out)


def _with_sign(array: np.ndarray, point: int, signed: bool) -> tuple[np.ndarray, int]:
    """Move levels and zero point by 128 if their type's sign is not the input's."""
    if (array.dtype == np.int8) == signed:
        return array, point
    shift = -128 if signed else 128
    return (array.astype(np.int16) + shift).astype(np.int8 if signed else np.uint8), point + shift


def quantised_pair(c: Context, first: Tensor, second: Tensor) -> tuple[Value, Value, OperandType] | None:
    """The two quantised inputs of an operation, and its output type. None if one of them is real."""
    if first.is_constant or second.is_constant:
        return None
    values = c.carried(first), c.carried(second)
    if not all(is_quantised(value) for value in values):
        return None
    out = requantised(c)
    if out is None or not values[0].code is values[1].code is out.code:
        return None
    return *values, out


def as_levels(c: Context, tensor: Tensor, type: OperandType) -> Value:
    """An 8-bit tensor as levels of ``type``, which the file declares."""
    value = c.carried(tensor)
    if is_quantised(value) and value.code is type.code and same_quantisation(value.type, type):
        return value
    if tensor.is_constant:
        return c.constant(tensor.array, type)
    real = c.cast(c.plain(tensor), np.dtype(np.float32))
    return c.quantized(c.scaled(real, type.scale, type.zero_point), type)
