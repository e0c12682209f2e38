"""The elements of constants, which may be made from something smaller whenever somebody looks at them."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from nnvk.types.operand import Shape

_FIRST = 16
"""Elements that are a constant's beginning."""


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


def reshaped(constant: Constant, shape: Shape) -> Constant:
    """The same elements in another shape; those that are deferred stay deferred."""
    if isinstance(constant, DeferredConstant):
        return DeferredConstant(shape, constant.dtype, lambda: constant.array.reshape(shape))
    return constant.reshape(shape)
