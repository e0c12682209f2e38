"""Models in which numbers are expressions of sizes: models for other sizes are filled, and not built and checked anew.

The expressions come of a trace (`nnvk.base.extents`) of what has built the model, and guards are the conditions under
which it would have built the same for other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from nnvk.base.extents import Extent, Number, Trace, attempted, extents_in, filled, is_open
from nnvk.base.log import logger
from nnvk.types.constant import Constant, OpenConstant, SizedConstant, fill_of
from nnvk.types.model import Model, Operand

T = TypeVar("T")
Holds = Callable[[tuple[int, ...]], bool]
"""Whether what was decided for a model holds for other sizes."""
_log = logger("model")


class ModelTemplate:
    """A model whose operands' dimensions and constants may be extents of a trace, which ends here."""

    def __init__(self, model: Model, trace: Trace, others: Iterable[Any] = ()) -> None:
        """``others`` are numbers, and tuples of them, that are filled beside the model's."""
        self.model = model
        self._open = [place for place, operand in enumerate(model.operands) if has_open(_numbers_of(operand))]
        values = (*(_numbers_of(model.operands[place]) for place in self._open), *others)
        results = {one.name: one for value in values for one in extents_in(value)}
        self._names = tuple(results)
        self._evaluate = trace.function(list(results.values()))
        self.is_checked = False
        """Whether the structure of one of the models was checked, which is that of all."""
        self.guards = trace.guards
        """The conditions on sizes, which are s0, s1 and so on."""

    def numbers(self, sizes: Sequence[Any]) -> Mapping[str, Number] | None:
        """The numbers of the expressions, by their names; None if a guard does not hold. Sizes may be extents."""
        found = self._evaluate(sizes)
        return None if found is None else dict(zip(self._names, found, strict=True))

    def filled(self, sizes: Sequence[int], numbers: Mapping[str, Number]) -> Model:
        """The model for these sizes, whose numbers `numbers` has given."""
        made: dict[int, Any] = {}
        operands = self._operands(numbers, lambda _, operand: _filled_constant(operand, numbers, made))
        return replace(self.model, operands=operands, sizes=Sizes(self, tuple(sizes), operands))

    def opened(self, sizes: Sequence[Extent], model: Model) -> Model:
        """A model of `filled` with extents of another trace in the place of its sizes.

        Nobody may look at the elements that depend on them, other than few whole numbers. The trace is of these sizes.
        """
        numbers = self.numbers(sizes)
        assert numbers is not None, "a guard does not hold for the sizes of a model"
        return replace(model, operands=self._operands(numbers, lambda at, one: _opened_constant(at, one, numbers)))

    def decided(self, model: Model, decide: Callable[[Model], T]) -> tuple[Holds, T]:
        """A decision on one of the models of `filled`, and the test whether it is the same for other sizes."""
        sizes = sizes_of(model)
        assert sizes is not None
        trace = Trace()

        def traced() -> tuple[Holds, T]:
            made = decide(self.opened([trace.symbol(size) for size in sizes.numbers], model))
            evaluate = trace.function([])
            return lambda numbers: evaluate(numbers) is not None, made

        found = attempted(trace, traced, _log, "what was decided for a size is decided for each anew")
        return found or (lambda numbers: numbers == sizes.numbers, decide(model))

    def _operands(
        self, numbers: Mapping[str, Number], constant: Callable[[int, Operand], Constant | None]
    ) -> tuple[Operand, ...]:
        operands = list(self.model.operands)
        for place in self._open:
            operand = operands[place]
            type_ = operand.type.with_dimensions(filled(operand.type.dimensions, numbers))
            operands[place] = Operand(type_, operand.lifetime, constant(place, operand), operand.subgraph)
        return tuple(operands)


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The template and the sizes of a model that was filled."""

    template: ModelTemplate
    numbers: tuple[int, ...]
    operands: tuple[Operand, ...]
    """Those of the model: one of others has other sizes."""


def sizes_of(model: Model) -> Sizes | None:
    """The template and the sizes of a model; None for one that was not filled, also if it was made of such a model."""
    sizes = model.sizes
    if not isinstance(sizes, Sizes) or sizes.operands is not model.operands:
        return None
    return sizes if sizes.template.model.operations is model.operations else None


def has_open(value: Any) -> bool:
    """Whether there are extents in a number, in a computed result, or in tuples of these."""
    return next(extents_in(value), None) is not None


def _numbers_of(operand: Operand) -> tuple[Any, ...]:
    constant = operand.constant
    if isinstance(constant, OpenConstant):
        return *operand.type.dimensions, constant.value
    if isinstance(constant, np.ndarray) and is_open(constant):
        return *operand.type.dimensions, *constant.flat
    return operand.type.dimensions


def _filled_constant(operand: Operand, numbers: Mapping[str, Number], made: dict[int, Any]) -> Constant | None:
    constant, dtype = operand.constant, operand.type.dtype
    if isinstance(constant, OpenConstant):
        array = np.ascontiguousarray(filled(constant.value, numbers, made), dtype)
        return array.reshape(filled(constant.shape, numbers))
    if isinstance(constant, np.ndarray) and is_open(constant):
        return np.array(filled(tuple(constant.flat), numbers), dtype).reshape(constant.shape)
    return constant


def _opened_constant(place: int, operand: Operand, numbers: Mapping[str, Number]) -> Constant | None:
    constant = operand.constant
    if isinstance(constant, OpenConstant):
        return SizedConstant(place, filled(constant.shape, numbers), operand.type.dtype, fill_of(constant))
    if isinstance(constant, np.ndarray) and is_open(constant):
        array = np.empty(constant.shape, object)
        array.flat[:] = filled(tuple(constant.flat), numbers)
        return array
    return constant
