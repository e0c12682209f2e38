"""TFLite's tensor types in NNAPI, and the elements of constants."""

from __future__ import annotations

import math

import numpy as np

from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import at_least_1d
from nnvk.importers.ports import COMPLEX, DTYPES
from nnvk.importers.tflite.schema import Tensor
from nnvk.importers.tflite.sparse import densified
from nnvk.types.codes import OperandCode
from nnvk.types.operand import ChannelQuant, OperandType

_CODES = {
    "FLOAT32": OperandCode.TENSOR_FLOAT32,
    "FLOAT16": OperandCode.TENSOR_FLOAT16,
    "INT32": OperandCode.TENSOR_INT32,
    # Indexes and shapes: NNAPI has them in 32 bits.
    "INT64": OperandCode.TENSOR_INT32,
    "UINT8": OperandCode.TENSOR_QUANT8_ASYMM,
    "INT8": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "INT4": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "INT16": OperandCode.TENSOR_QUANT16_SYMM,
    "BOOL": OperandCode.TENSOR_BOOL8,
    # Two numbers each, along a last dimension more.
    COMPLEX: OperandCode.TENSOR_FLOAT32,
    # The bits of unsigned numbers, for operators that compute nothing or know them; those of 64 bits are two elements,
    # along a last dimension more, the low word first.
    "UINT32": OperandCode.TENSOR_INT32,
    "UINT64": OperandCode.TENSOR_INT32,
}
UNSIGNED = frozenset({"UINT32", "UINT64"})
"""Types whose operands have the bits of numbers, not the numbers."""
PAIRS = frozenset({COMPLEX, "UINT64"})
"""Types of which a number is two elements of the operand, along a last dimension more."""
_QUANTISED = frozenset({"UINT8", "INT8", "INT4", "INT16"})
_INT32 = np.iinfo(np.int32)


def has_offset(tensor: Tensor) -> bool:
    """Whether a tensor is of INT16 with a zero point, which NNAPI lacks: see `offset_levels`."""
    return tensor.type == "INT16" and tensor.scales.size == 1 and bool(tensor.zero_points.any())


def operand_type(tensor: Tensor) -> OperandType:
    """The operand type of a tensor, as Android's NNAPI delegate chooses it. `Unmapped` where there is none."""
    if tensor.type not in _CODES:
        raise Unmapped(f"{tensor} is of type {tensor.type}, which NNAPI does not have")
    if tensor.sparsity is not None and (tensor.data is None or tensor.type == "INT4"):
        raise Unmapped(f"{tensor} is sparse and no constant of whole bytes, which NNAPI does not have")
    if tensor.type == COMPLEX and tensor.data is not None:
        raise Unmapped(f"{tensor} is a constant of type {tensor.type}, which NNAPI does not have")
    code, dimensions = _CODES[tensor.type], at_least_1d(tensor.shape)
    if tensor.type in PAIRS:
        dimensions += (2,)
    if has_offset(tensor):
        if tensor.is_variable or tensor.data is not None or not _scale(tensor):
            raise Unmapped(f"{tensor} is of INT16 with a zero point, but no result, which NNAPI does not have")
        return OperandType(OperandCode.TENSOR_INT32, dimensions)
    if tensor.type not in _QUANTISED:
        # A bias keeps its scale; other integers and real numbers have none.
        is_bias = tensor.type == "INT32" and tensor.scales.size == 1
        return OperandType(code, dimensions, _scale(tensor) if is_bias else 0.0)
    if tensor.scales.size > 1:
        return OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, dimensions, channel_quant=_channel_quant(tensor))
    # Integers that stand for themselves: NNAPI wants a scale of its 8-bit types all the same.
    scale = (_scale(tensor) or 1.0) if tensor.scales.size else 1.0
    zero_point = int(tensor.zero_points[0]) if tensor.zero_points.size else 0
    type_ = OperandType(code, dimensions, scale, zero_point)
    type_.check(str(tensor))
    return type_


def _scale(tensor: Tensor) -> float:
    scale = float(tensor.scales[0])
    if not math.isfinite(scale) or scale < 0:
        raise Unmapped(f"{tensor} must have a finite scale from 0 up, got {scale}")
    return scale


def _channel_quant(tensor: Tensor) -> ChannelQuant:
    if tensor.type not in ("INT8", "INT4"):
        raise Unmapped(f"{tensor} is {tensor.type} with a scale per channel, NNAPI has that for INT8 only")
    if np.any(tensor.zero_points):
        raise Unmapped(f"{tensor} has a scale per channel and zero points, NNAPI has that symmetric only")
    if not 0 <= tensor.channel_dim < len(tensor.shape) or tensor.shape[tensor.channel_dim] != tensor.scales.size:
        raise Unmapped(
            f"{tensor} of shape {list(tensor.shape)} has {tensor.scales.size} scales "
            f"along dimension {tensor.channel_dim}"
        )
    if not np.all(np.isfinite(tensor.scales) & (tensor.scales > 0)):
        raise Unmapped(f"{tensor} must have positive, finite scales")
    return ChannelQuant(tuple(float(scale) for scale in tensor.scales), tensor.channel_dim)


def constant(tensor: Tensor) -> np.ndarray:
    """The elements of a constant in its operand's dtype and shape; a view of the file where they can be.

    Those of a sparse one are all there too: NNAPI has no sparse tensors.
    """
    assert tensor.data is not None
    shape = at_least_1d(tensor.shape)
    if tensor.type == "INT4":
        # Two elements in a byte, the first in its low half.
        halves = np.stack([tensor.data << 4, tensor.data & 0xF0], axis=1).reshape(-1)[: tensor.elements]
        return (halves.view(np.int8) >> 4).reshape(shape)
    dtype = DTYPES[tensor.type].newbyteorder("<")
    elements = tensor.data[: tensor.data.size // dtype.itemsize * dtype.itemsize].view(dtype)
    if tensor.sparsity is not None:
        elements = densified(elements, tensor.shape, tensor.sparsity)
    elements = elements.reshape(shape)
    if tensor.type in UNSIGNED:
        return (elements[..., np.newaxis] if tensor.type == "UINT64" else elements).copy().view(np.int32)
    if dtype.itemsize == 8:
        if elements.size and not _INT32.min <= int(elements.min()) <= int(elements.max()) <= _INT32.max:
            raise Unmapped(f"{tensor} of type {tensor.type} has values beyond 32 bits, which NNAPI does not have")
        return elements.astype(np.int32)
    if tensor.type == "BOOL":
        return elements.view(np.uint8) != 0
    return elements if elements.flags.aligned else elements.copy()
