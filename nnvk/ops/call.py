"""One operation with its operands by name: what validation, inference, references and kernels see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnvk.ops.signature import Param
from nnvk.ops.strided import Box
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.constant import Constant, OpenConstant, SizedConstant, elements
from nnvk.types.operand import OperandType, Shape

_SIZE_DEPENDENT = (SizedConstant, OpenConstant)


class UnknownValue(Exception):
    """Raised on a look at a value that is known only when the model runs. ``operand`` is its index in the model."""

    def __init__(self, reason: str, operand: int | None = None) -> None:
        super().__init__(reason)
        self.operand = operand


class UnknownShape(UnknownValue):
    """Raised on a look at a shape that is known only when the model runs."""


class Tensor:
    """A tensor operand. Its shape and data may not be known yet: looking at them then raises `UnknownValue`."""

    __slots__ = ("_data", "_shape", "index", "may_be_omitted", "name", "type", "view")

    def __init__(
        self,
        name: str,
        index: int,
        type: OperandType,
        shape: Shape | None = None,
        data: Constant | None = None,
        *,
        may_be_omitted: bool = False,
    ) -> None:
        self.name = name
        self.index = index
        """Index of the operand in its model."""
        self.type = type
        self.may_be_omitted = may_be_omitted
        """Whether it is an input of the model, which an execution yet to come may omit."""
        self._shape = shape if data is None else data.shape
        self._data = data
        self.view: TensorView | None = None
        """The elements of another tensor of the same index that this one is; None for all that the operand is."""

    @property
    def code(self) -> OperandCode:
        """The operand's code."""
        return self.type.code

    @property
    def scale(self) -> float:
        """Real units per quantisation step."""
        return self.type.scale

    @property
    def zero_point(self) -> int:
        """The level that stands for 0.0."""
        return self.type.zero_point

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of one element."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """All dimensions, known."""
        if self._shape is None:
            raise UnknownShape(f"the shape of {self.name} is not known yet", self.index)
        return self._shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        self._shape = shape

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def known_dimensions(self) -> Shape | None:
        """Dimensions, where at least their number is known, 0 for those that are not; else None."""
        return self._shape if self._shape is not None else self.type.dimensions or None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape if self._shape is None else self._shape)

    @property
    def data(self) -> np.ndarray:
        """The elements, shaped, of the type's dtype."""
        return elements(self.constant)

    @property
    def constant(self) -> Constant:
        """The elements as they are kept: those that are deferred are not made."""
        if self._data is None or isinstance(self._data, _SIZE_DEPENDENT):
            raise UnknownValue(f"the value of {self.name} is not known yet", self.index)
        return self._data

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known (always so while a reference runs)."""
        return self._data is not None and not isinstance(self._data, _SIZE_DEPENDENT)

    @property
    def stored(self) -> Constant | None:
        """The elements if the model has them, those that a plan for several sizes must not look at too."""
        return self._data

    @property
    def whole(self) -> Tensor:
        """The tensor that a view is of; another tensor itself."""
        return self if self.view is None else self.view.source

    def viewed(self, shape: Shape, box: Box) -> Tensor:
        """The tensor of this shape that is a box of this one: it is read and written where its elements lie here."""
        tensor = Tensor(self.name, self.index, self.type.with_dimensions(shape), shape)
        tensor.view = TensorView(self, box)
        return tensor

    def as_viewed(self, other: Tensor) -> Tensor:
        """The view that another tensor is, of this tensor; this tensor itself if the other one is no view."""
        return self if other.view is None else self.viewed(other.shape, other.view.box)

    def __repr__(self) -> str:
        return f"Tensor({self.name}, {self.type}, shape={self._shape})"


@dataclass(frozen=True, slots=True)
class TensorView:
    """The place of a tensor's elements in another one. Only passes of drivers make views."""

    source: Tensor
    box: Box


class Unknown:
    """Stands for a scalar that is known only when the model runs."""

    __slots__ = ("index", "name")

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        """Index of the operand in its model."""


class Call:
    """An operation's operands under the names of its signature.

    ``call.input`` is a `Tensor`, a list of them for a variadic parameter, a Python number for a scalar, or the
    parameter's default where the operand was left out. Outputs are there under their names too.
    """

    __slots__ = ("_values", "code", "outputs", "relaxed", "tensors", "unknown")

    def __init__(
        self,
        code: OperationCode,
        values: Mapping[str, Any],
        outputs: list[Tensor],
        relaxed: bool = False,
        tensors: Sequence[tuple[Param, Tensor]] = (),
    ) -> None:
        self.code = code
        """An operation of an extension has one that no table of NNAPI's operations has."""
        self._values = values
        self.outputs = outputs
        self.relaxed = relaxed
        self.tensors = tensors
        """The inputs that are tensors, with the parameters that they are given for."""
        self.unknown: UnknownValue | None = None
        """The value that inference lacked, where it could not tell the outputs' shapes."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = self._values[name]
        except KeyError:
            raise AttributeError(f"{self.code.name} has no operand {name!r}") from None
        if value.__class__ is Unknown:  # planning asks all the time: this is quicker than isinstance
            raise UnknownValue(f"the value of {name} is not known yet", value.index)
        return value

    def values(self) -> Iterable[Any]:
        """Everything that has a name, inputs first: tensors, lists of them, numbers, None."""
        return self._values.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values, inputs first."""
        return self._values.items()

    def every_tensor(self) -> Iterator[Tensor]:
        """All tensors, inputs first."""
        for value in self._values.values():
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, Tensor):
                    yield item

    def known(self, name: str) -> Any:
        """The value of this name; None if it is known only when the model runs."""
        value = self._values[name]
        return None if isinstance(value, Unknown) else value

    @property
    def output(self) -> Tensor:
        """The first (mostly the only) output."""
        return self.outputs[0]

    def with_tensors(self, other: Callable[[Tensor], Tensor]) -> Call:
        """The same call on other tensors, inputs and outputs: what ``other`` gives for each."""

        def replaced(value: Any) -> Any:
            if isinstance(value, list):
                return [replaced(item) for item in value]
            return other(value) if isinstance(value, Tensor) else value

        values = {name: replaced(value) for name, value in self._values.items()}
        tensors = [(param, other(tensor)) for param, tensor in self.tensors]
        call = Call(self.code, values, [other(tensor) for tensor in self.outputs], self.relaxed, tensors)
        call.unknown = self.unknown
        return call

    def replaced(self, without: Sequence[str] = (), **values: Any) -> Call:
        """The same call with other inputs under these names, and without the inputs of those in ``without``."""
        kept = {name: value for name, value in self._values.items() if name not in without}
        instead = {id(kept[name]): value for name, value in values.items() if isinstance(kept.get(name), Tensor)}
        tensors = [(param, instead.get(id(tensor), tensor)) for param, tensor in self.tensors]
        return Call(self.code, {**kept, **values}, self.outputs, self.relaxed, tensors)

    def has(self, name: str) -> bool:
        """Whether the chosen signature has this parameter."""
        return name in self._values
