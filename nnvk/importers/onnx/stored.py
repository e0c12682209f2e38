"""Tensors in memory that another process writes or reads, as ONNX's files and onnxruntime store them.

Elements of fewer than 8 bits share bytes there, the first one in the lowest bits. NumPy has each in a byte of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from nnvk.importers.onnx.narrow import narrow_of
from nnvk.types.operand import Shape

_BYTE = 8
"""Bits."""


def _bits(dtype: np.dtype) -> int:
    """The bits of an element."""
    narrow = narrow_of(dtype)
    return dtype.itemsize * _BYTE if narrow is None else narrow.bits


def stored_bytes(dtype: np.dtype, shape: Shape) -> int:
    """The bytes of a tensor. The last one may have bits that belong to no element."""
    return -(-math.prod(shape) * _bits(dtype) // _BYTE)


def stored(array: np.ndarray) -> bytes | memoryview:
    """The bytes of a tensor that is in the order of its elements."""
    if _bits(array.dtype) < _BYTE:
        packed: bytes = numpy_helper.from_array(array).raw_data
        return packed
    return array.reshape(-1).view(np.uint8).data if array.size else b""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor whose elements are in ``memory``, which has `stored_bytes` of it."""

    memory: memoryview
    dtype: np.dtype
    shape: Shape

    @property
    def is_packed(self) -> bool:
        """Whether elements share a byte."""
        return _bits(self.dtype) < _BYTE

    def read(self) -> np.ndarray:
        """The elements: those in the memory itself, or a copy of elements that share a byte."""
        if not self.is_packed:
            return np.frombuffer(self.memory, self.dtype).reshape(self.shape)
        element = helper.np_dtype_to_tensor_dtype(self.dtype)
        packed = TensorProto(data_type=element, dims=self.shape, raw_data=bytes(self.memory))
        array: np.ndarray = numpy_helper.to_array(packed)
        return array

    def write(self, array: np.ndarray) -> None:
        """Put elements into the memory."""
        if self.is_packed:
            self.memory[:] = stored(array)
        else:
            self.read()[...] = array
