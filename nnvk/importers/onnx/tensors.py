"""The tensors of a file during its import, and their types in NNAPI."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nnvk.base.extents import once
from nnvk.importers.decompositions.int64 import Words
from nnvk.importers.dynamic_extents import DynamicExtent
from nnvk.importers.emitter import BOOL8, F32, I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import MaybeConstant, Value
from nnvk.importers.onnx.narrow import Narrow, narrow_of
from nnvk.types.codes import OperandCode
from nnvk.types.constant import Constant, elements
from nnvk.types.operand import OperandType, Shape

F16 = OperandType(OperandCode.TENSOR_FLOAT16)
"""The type of inputs and outputs of FLOAT16."""


def carrier(dtype: np.dtype) -> OperandType:
    """The operand type that carries numbers of a type of ONNX: whole numbers are INT32, real ones FLOAT32.

    FLOAT16 is FLOAT32 between operators, as in onnxruntime: sums and squares that a later operator brings back into
    the range of FLOAT16 may leave it.
    """
    if dtype == np.bool_:
        return BOOL8
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return F32
    if dtype.kind in "iu":
        return I32
    raise Unmapped(f"NNAPI has no tensors of {dtype}")


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """The levels that a constant of real numbers was before it was dequantised."""

    array: np.ndarray
    """The levels, of 8 bits or of INT32."""
    scale: np.ndarray
    """One scale, or one for each index along ``axis``."""
    zero_point: np.ndarray
    """As many zero points."""
    axis: int

    def transposed(self, order: Sequence[int]) -> Levels:
        """The same with the axes in another order."""
        return replace(self, array=self.array.transpose(order), axis=list(order).index(self.axis))


@dataclass(frozen=True, slots=True, eq=False)
class BlockLevels:
    """The levels of 4 bits that a constant of real numbers was before its blocks were dequantised."""

    array: np.ndarray
    """The levels, signed or unsigned."""
    scales: np.ndarray
    """One for each block."""
    zero_points: np.ndarray | None
    """The same; None for 0."""
    axis: int
    """The axis along which blocks lie."""
    size: int
    """Levels of a block."""

    def transposed(self, order: Sequence[int]) -> BlockLevels:
        """The same with the axes in another order."""
        points = None if self.zero_points is None else self.zero_points.transpose(order)
        axis = list(order).index(self.axis)
        return BlockLevels(self.array.transpose(order), self.scales.transpose(order), points, axis, self.size)


@dataclass(slots=True, eq=False)
class Tensor(MaybeConstant):
    """A constant, or the result of an operation. ``shape`` has all dimensions; a single element of rank 0 has none."""

    dtype: np.dtype
    shape: Shape
    value: Value | None = None
    """The NNAPI tensor. It may be quantised if ``dtype`` is a float or 8-bit type. None for a constant that is not used
    so far, and if there are ``words``.
    """
    constant: Constant | None = None
    """The elements of a constant, which may be deferred."""
    levels: Levels | BlockLevels | None = None
    is_cast: bool = False
    """Whether FLOAT16 has another type's numbers, which are rounded to FLOAT16 if they are cast once more."""
    words: Words | None = None
    """The NNAPI tensors, instead of ``value``, of whole numbers that may need 64 bits."""
    narrow: Narrow | None = None
    """The file's type, of a constant, an input or a cast, if ``dtype`` only carries its numbers."""
    extent: DynamicExtent | None = None
    """The dynamic extent if data decide the number of elements. ``shape`` then has the most that there can be."""
    laid: dict[Any, tuple[Any, Value]] = field(default_factory=dict)
    """Values that were made of a constant before, so that nodes that share it share them too."""

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value that ``make`` gave when it was first called for ``key``."""
        return once(self.laid, key, make)

    @property
    def axis_levels(self) -> Levels | None:
        """The levels, where scales are not those of blocks."""
        return self.levels if isinstance(self.levels, Levels) else None

    @property
    def stored(self) -> np.ndarray:
        """The elements of a constant in the file's type."""
        return self.array if self.narrow is None else self.array.astype(self.narrow.dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


def constant(array: Constant, levels: Levels | BlockLevels | None = None) -> Tensor:
    """A tensor of these elements, which are carried by another type if NumPy has none of theirs."""
    narrow = narrow_of(array.dtype)
    if narrow is not None:
        carried = elements(array).astype(narrow.carrier)
        return Tensor(narrow.carrier, array.shape, None, carried, narrow=narrow)
    return Tensor(array.dtype, array.shape, None, array, levels)
