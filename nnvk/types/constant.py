"""The elements of constants, which may be computed from a smaller source whenever they are read."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nnvk.base.extents import Computed, fixed, hint, is_open
from nnvk.types.operand import Shape

_FIRST = 16
"""The number of elements in the beginning of a constant."""


class Origin(NamedTuple):
    """The memory that the elements of a constant are made of. It does not change."""

    key: Hashable
    """Constants whose origins have equal keys have equal elements, as long as `memory` is alive."""
    memory: np.ndarray


class DeferredConstant:
    """The elements of a constant that ``make`` gives anew each time: real numbers of 8-bit weights, for example.

    Only the smaller source stays in memory. An array that was made lives as long as somebody refers to it, and all who
    look meanwhile get the same one.

    Args:
        shape: The dimensions.
        dtype: The NumPy type of one element.
        make: Gives an array of this shape and type, or a view. Any thread may call it, and it must not fail.
        source: The constant that ``make`` works on, if there is one.
        form: Tells apart all that ``make`` may make of the source in this shape and type.
    """

    __slots__ = ("__weakref__", "_beginning", "_form", "_made", "_make", "_source", "dtype", "shape")

    def __init__(
        self,
        shape: Shape,
        dtype: np.dtype,
        make: Callable[[], np.ndarray],
        source: Constant | None = None,
        form: Hashable = None,
    ) -> None:
        self._source = source
        self._form = form
        self.shape = shape
        self.dtype = dtype
        self._make = make
        self._made: weakref.ref[np.ndarray] | None = None
        self._beginning: bytes | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

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
    def origin(self) -> Origin | None:
        """The memory that the elements are made of; None if it is not known."""
        source = None if self._source is None else origin(self._source)
        return None if source is None else self._made_of(source, self._form)

    def formed(self, source: Constant, form: Hashable) -> DeferredConstant:
        """The same elements, with what they are made of."""
        return DeferredConstant(self.shape, self.dtype, self._make, source, form)

    def _made_of(self, source: Origin, form: Hashable) -> Origin:
        return source._replace(key=(self.shape, self.dtype.str, form, source.key))

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

    @property
    def origin(self) -> Origin | None:
        """The memory that the elements are made of; None if it is not known."""
        levels = origin(self.levels)
        return None if levels is None else self._made_of(levels, (self.scales.tobytes(), self.zero_point, self.axis))

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


class SizeDependent(Exception):
    """Elements are asked for that differ with sizes which a plan does not know."""


class SizedConstant(DeferredConstant):
    """Stands for an operand's elements that differ with sizes: a plan for several sizes must not look at them."""

    __slots__ = ("fill", "operand")

    def __init__(self, operand: int, shape: Shape, dtype: np.dtype, fill: np.ndarray | None = None) -> None:
        super().__init__(shape, dtype, self._refuse)
        self.operand = operand
        self.fill = fill
        """The element that it has everywhere, for all sizes; None if it is not known."""

    def _refuse(self) -> np.ndarray:
        raise SizeDependent(f"the elements of operand {self.operand} differ with the sizes of the model")


class ComputedConstant(DeferredConstant):
    """Elements that are computed of sizes which are not numbers yet (`nnvk.base.extents`)."""

    __slots__ = ("value",)

    def __init__(self, shape: Shape, dtype: np.dtype, value: Computed) -> None:
        super().__init__(shape, dtype, lambda: hint(value))
        self.value = value


class OpenConstant(ComputedConstant):
    """The same, during an import: whoever looks at the elements decides by them, so that the sizes become fixed."""

    __slots__ = ("bounds",)

    def __init__(self, shape: Shape, dtype: np.dtype, value: Computed) -> None:
        super().__init__(shape, dtype, value)
        self.bounds: tuple[int, int] | None = None
        """The least and the largest number that an element may be, of whole numbers."""

    @classmethod
    def made(cls, shape: Shape, dtype: np.dtype, function: Callable[..., np.ndarray], *arguments: Any) -> OpenConstant:
        """Elements that a function gives, of constants and of numbers or tuples of them."""
        given = tuple(map(_later, arguments))
        made = cls(shape, dtype, Computed(function, given))
        made.bounds = next((one.bounds for one in arguments if isinstance(one, OpenConstant)), None)
        return made

    @property
    def array(self) -> np.ndarray:
        """The elements for the present sizes, for which alone the import then holds."""
        return np.asarray(fixed(self.value), self.dtype).reshape(fixed(self.shape))


def _later(argument: Any) -> Any:
    """An argument in a form in which its extents are found."""
    if isinstance(argument, OpenConstant):
        return argument.value
    if isinstance(argument, np.ndarray) and is_open(argument):
        return Computed(_reshaped, (tuple(argument.flat), argument.shape))
    return argument


def _reshaped(numbers: Sequence[Any], shape: Shape) -> np.ndarray:
    return np.array(numbers).reshape(shape)


def deferred_bytes(nbytes: int, make: Callable[[], np.ndarray]) -> DeferredConstant:
    """The bytes of an array, of any type and shape, that ``make`` gives."""
    return DeferredConstant((nbytes,), np.dtype(np.uint8), lambda: bytes_of(make()))


Constant = np.ndarray | DeferredConstant
"""The elements of a constant."""


def elements(constant: Constant) -> np.ndarray:
    """The elements of a constant, which are made if they are deferred."""
    return constant.array if isinstance(constant, DeferredConstant) else constant


def fill_of(constant: Constant) -> np.ndarray | None:
    """The element that a constant has everywhere; None if it has several, or may have."""
    if isinstance(constant, SizedConstant):
        return constant.fill
    if isinstance(constant, OpenConstant):
        value = constant.value
        is_filled = isinstance(value, Computed) and value.function is np.broadcast_to
        return value.arguments[0] if is_filled and np.size(value.arguments[0]) == 1 else None
    array = elements(constant)
    return array.flat[0] if array.size and (array == array.flat[0]).all() else None


def origin(constant: Constant) -> Origin | None:
    """The memory that the elements of a constant are made of; None if it may change, or is not known."""
    if isinstance(constant, DeferredConstant):
        return constant.origin
    memory = constant
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    if not _is_immutable(memory.base):
        return None
    place = constant.__array_interface__["data"][0]
    return Origin((place, constant.shape, constant.strides, constant.dtype.str), memory)


def _is_immutable(memory: object) -> bool:
    """Whether an object is bytes, or a view of bytes. Other memory that is read-only here may be written elsewhere."""
    return isinstance(memory.obj if isinstance(memory, memoryview) else memory, bytes)


def converted(constant: Constant, shape: Shape, dtype: np.dtype) -> DeferredConstant:
    """The same elements in another shape and type, deferred."""
    if isinstance(constant, OpenConstant):
        return OpenConstant.made(shape, dtype, _converted, constant, shape, dtype)
    return DeferredConstant(shape, dtype, lambda: _converted(elements(constant), shape, dtype), constant)


def _converted(array: np.ndarray, shape: Shape, dtype: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False).reshape(shape)


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
    if isinstance(constant, OpenConstant):
        shape = tuple(constant.shape[axis] for axis in order)
        return OpenConstant.made(shape, constant.dtype, np.transpose, constant, tuple(order))
    if isinstance(constant, DeferredConstant):
        shape = tuple(constant.shape[axis] for axis in order)
        return DeferredConstant(shape, constant.dtype, lambda: constant.array.transpose(order), constant, tuple(order))
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
        return DeferredConstant(shape, constant.dtype, lambda: constant.array[taken], constant, (axis, first))
    return constant[taken]


def reshaped(constant: Constant, shape: Shape) -> Constant:
    """The same elements in another shape; those that are deferred stay deferred."""
    if isinstance(constant, QuantisedConstant) and constant.scales.size == 1:
        return QuantisedConstant(constant.levels.reshape(shape), constant.scales, constant.zero_point)
    if isinstance(constant, OpenConstant):
        return OpenConstant.made(shape, constant.dtype, np.reshape, constant, shape)
    if isinstance(constant, DeferredConstant):
        return DeferredConstant(shape, constant.dtype, lambda: constant.array.reshape(shape), constant)
    return constant.reshape(shape)
