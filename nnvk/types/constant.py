"""The elements of constants, which may be computed from a smaller source whenever they are read."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import numpy as np

from nnvk.types.operand import Shape

_FIRST = 16
"""The number of elements in the beginning of a constant."""


class DeferredConstant:
    """The elements of a constant that ``make`` gives anew each time: real numbers of 8-bit weights, for example.

    Only the smaller source stays in memory. An array that was made lives as long as somebody refers to it, and all who
    look meanwhile get the same one.

    Args:
        shape: The dimensions.
        dtype: The NumPy type of one element.
        make: Gives an array of this shape and type, or a view. Any thread may call it, and it must not fail.
    """

    __slots__ = ("_beginning", "_made", "_make", "dtype", "shape")

    def __init__(self, shape: Shape, dtype: np.dtype, make: Callable[[], np.ndarray]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._make = make
        self._made: weakref.ref[np.ndarray] | None = None
        self._beginning: bytes | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def array(self) -> np.ndarray:
        """The elements, read-only, in any order in memory. ValueError: ``make`` gave another number of them."""
        made = None if self._made is None else self._made()
        if made is None:
            made = np.asarray(self._make(), self.dtype)
            if made.size != self.size:
                raise ValueError(f"{made.nbytes} bytes were made, not {self.nbytes}")
            made = made.reshape(self.shape)  # a new view, or a copy
            made.setflags(write=False)
            self._made = weakref.ref(made)
        return made

    @property
    def beginning(self) -> bytes:
        """The bytes of the first elements, which tell most constants apart; kept once they are known."""
        if self._beginning is None:
            self._beginning = _beginning(self.array)
        return self._beginning

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        made = self.array
        return made if dtype is None else made.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"DeferredConstant({self.shape}, {self.dtype})"


class QuantisedConstant(DeferredConstant):
    """Real numbers (float32) that are 8-bit levels: ``(levels - zero_point) * scale``.

    Args:
        levels: int8 or uint8.
        scales: One number, float32, or one for each index along ``axis``.
        zero_point: One for all.
        axis: The dimension that scales are along.

    Raises:
        ValueError: There are neither one scale nor as many as indexes along ``axis``.
    """

    __slots__ = ("axis", "levels", "scales", "zero_point")

    def __init__(self, levels: np.ndarray, scales: np.ndarray, zero_point: int, axis: int = 0) -> None:
        if scales.size != 1 and scales.size != levels.shape[axis]:
            raise ValueError(f"{scales.size} scales do not fit levels of shape {list(levels.shape)} along axis {axis}")
        super().__init__(levels.shape, np.dtype(np.float32), self._real)
        self.levels = levels
        self.scales = scales.reshape(-1)
        self.zero_point = zero_point
        self.axis = axis

    def _real(self) -> np.ndarray:
        shape = [1] * self.levels.ndim
        if self.scales.size > 1:
            shape[self.axis] = -1
        scales = self.scales.reshape(shape)
        with np.errstate(over="ignore"):
            if not self.zero_point:
                return np.multiply(self.levels, scales, dtype=np.float32)
            real = np.subtract(self.levels, self.zero_point, dtype=np.float32)
            real *= scales  # in place, for copies of large constants are large
        return real


def deferred_bytes(nbytes: int, make: Callable[[], np.ndarray]) -> DeferredConstant:
    """The bytes of an array, of any type and shape, that ``make`` gives."""
    return DeferredConstant((nbytes,), np.dtype(np.uint8), lambda: bytes_of(make()))


Constant = np.ndarray | DeferredConstant
"""The elements of a constant."""


def elements(constant: Constant) -> np.ndarray:
    """The elements of a constant, which are made if they are deferred."""
    return constant.array if isinstance(constant, DeferredConstant) else constant


def bytes_of(constant: Constant) -> np.ndarray:
    """The bytes of a constant, one after the other: a view where it is contiguous and not deferred."""
    return np.ascontiguousarray(elements(constant)).reshape(-1).view(np.uint8)


def _beginning(array: np.ndarray) -> bytes:
    return array.flat[:_FIRST].tobytes()


def beginning(constant: Constant) -> bytes:
    """The bytes of the first elements of a constant, which tell most constants apart."""
    return constant.beginning if isinstance(constant, DeferredConstant) else _beginning(constant)


def transposed(constant: Constant, order: Sequence[int]) -> Constant:
    """The same elements with the axes in another order; those that are deferred stay deferred."""
    if isinstance(constant, QuantisedConstant):
        axis = list(order).index(constant.axis)
        return QuantisedConstant(constant.levels.transpose(order), constant.scales, constant.zero_point, axis)
    if isinstance(constant, DeferredConstant):
        shape = tuple(constant.shape[axis] for axis in order)
        return DeferredConstant(shape, constant.dtype, lambda: constant.array.transpose(order))
    return constant.transpose(order)


def portion(constant: Constant, axis: int, first: int, count: int) -> Constant:
    """So many indexes along an axis, from the first one on; those that are deferred stay deferred."""
    taken = tuple(slice(first, first + count) if one == axis else slice(None) for one in range(len(constant.shape)))
    if isinstance(constant, QuantisedConstant):
        scales = constant.scales
        if scales.size > 1 and axis == constant.axis:
            scales = scales[first : first + count]
        return QuantisedConstant(constant.levels[taken], scales, constant.zero_point, constant.axis)
    if isinstance(constant, DeferredConstant):
        shape = *constant.shape[:axis], count, *constant.shape[axis + 1 :]
        return DeferredConstant(shape, constant.dtype, lambda: constant.array[taken])
    return constant[taken]


def reshaped(constant: Constant, shape: Shape) -> Constant:
    """The same elements in another shape; those that are deferred stay deferred."""
    if isinstance(constant, QuantisedConstant) and constant.scales.size == 1:
        return QuantisedConstant(constant.levels.reshape(shape), constant.scales, constant.zero_point)
    if isinstance(constant, DeferredConstant):
        return DeferredConstant(shape, constant.dtype, lambda: constant.array.reshape(shape))
    return constant.reshape(shape)
