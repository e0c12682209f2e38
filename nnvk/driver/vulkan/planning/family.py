"""Plans of models that differ in sizes alone: one is traced, and the others' numbers are computed of its sizes.

A model of a file is imported anew for each set of input sizes. The models have the same operations on the same weights;
dimensions, and parameters such as the shape of a RESHAPE, differ. Planning one of them on extents
(`nnvk.base.extents`) gives commands whose numbers are expressions, and guards: the conditions under which planning
would have decided the same. A later model whose sizes meet them needs no planning but for memory and barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from nnvk.base.extents import Computed, Extent, Number, Trace, attempted
from nnvk.base.log import logger
from nnvk.base.settings import settings
from nnvk.driver.vulkan.graph.builder import NeedsValue
from nnvk.driver.vulkan.planning.command_passes import TensorPart
from nnvk.driver.vulkan.planning.lowered import Lowered
from nnvk.driver.vulkan.planning.memory_plan import Placements
from nnvk.driver.vulkan.shaders.commands import Choice, Clear, Copy, Dispatch, StridedView, TensorRef
from nnvk.types.constant import ComputedConstant, Constant, SizedConstant, SizeDependent, bytes_of, elements, origin
from nnvk.types.model import Model, Operand
from nnvk.types.operand import Shape
from nnvk.types.template import ModelTemplate, Sizes, sizes_of

_log = logger("driver")

_MOST = 16
"""The most families of a model that are kept."""
_FEW = 16
"""The most elements of a constant of whole numbers that may be sizes: a shape, the begin of a slice."""

Place = tuple[str, int, int]
"""A number of a model: a dimension of an operand or an input, or an element of a constant."""
Lower = Callable[[Model, Sequence[Shape]], Lowered]


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between two models of the same structure."""

    places: frozenset[Place]
    data: frozenset[int]
    """The constants, by their operands, whose elements planning must not look at."""

    def within(self, other: Differences) -> bool:
        """Whether another one has all of these."""
        return self.places <= other.places and self.data <= other.data

    def joined(self, other: Differences) -> Differences:
        """Both together."""
        return Differences(self.places | other.places, self.data | other.data)


@dataclass(frozen=True, slots=True)
class Sized:
    """A model, and the shapes of its inputs."""

    model: Model
    shapes: Sequence[Shape]

    def number_at(self, place: Place) -> int:
        """The number at a place."""
        kind, index, at = place
        if kind == "input":
            return self.shapes[index][at]
        operand = self.model.operands[index]
        if kind == "dimension":
            return operand.type.dimensions[at]
        assert operand.constant is not None
        return int(elements(operand.constant).flat[at])


class Scope(Protocol):
    """Models that differ in sizes alone, and the sizes in which they do."""

    def sizes_of(self, sized: Sized) -> Sequence[int] | None:
        """The sizes of a model, one for each symbol; None if it is no such model."""

    def opened(self, sized: Sized, sizes: Sequence[Extent]) -> tuple[Model, Sequence[Shape]]:
        """One of the models, and the shapes of its inputs, with extents in the place of sizes."""


class ByTemplate:
    """Models that are filled from a template, for the shapes of inputs that they have."""

    def __init__(self, template: ModelTemplate) -> None:
        self._template = template

    def sizes_of(self, sized: Sized) -> Sequence[int] | None:
        """See `Scope`."""
        sizes = filled_with(sized)
        return sizes.numbers if sizes is not None and sizes.template is self._template else None

    def opened(self, sized: Sized, sizes: Sequence[Extent]) -> tuple[Model, Sequence[Shape]]:
        """See `Scope`."""
        model = self._template.opened(sizes, sized.model)
        return model, [type_.dimensions for type_ in model.input_types()]


class ByDifferences:
    """Models that differ from a base in numbers at certain places."""

    def __init__(self, base: Sized, differences: Differences, classes: Sequence[Sequence[Place]]) -> None:
        """``classes`` are the places of numbers that are the same in each model: those of one symbol."""
        self.base = base
        self.differences = differences
        self._classes = classes

    def sizes_of(self, sized: Sized) -> Sequence[int] | None:
        """See `Scope`."""
        differences = differences_of(self.base, sized)
        if differences is None or not differences.within(self.differences):
            return None
        sizes = []
        for places in self._classes:
            first, *others = map(sized.number_at, places)
            if any(other != first for other in others):
                return None
            sizes.append(first)
        return sizes

    def opened(self, sized: Sized, sizes: Sequence[Extent]) -> tuple[Model, Sequence[Shape]]:
        """See `Scope`."""
        pairs = zip(self._classes, sizes, strict=True)
        extents = {place: extent for places, extent in pairs for place in places}
        return _opened(sized, extents, self.differences.data)


class PlanFamily:
    """The commands of all models of a scope for whose sizes planning decides the same."""

    def __init__(self, scope: Scope, base: Sequence[int], lowered: Lowered, trace: Trace) -> None:
        """``base`` are the sizes of the model that it was made of."""
        self.scope = scope
        self.choices = lowered.choices
        self.guards = trace.guards
        """The conditions under which planning decides the same."""
        self._base = base
        filling = _Filling()
        self._fill = filling.function(lowered)
        self._evaluate = trace.function(list(filling.extents.values()))

    def lowered(self, sized: Sized, lower: Lower) -> Lowered | None:
        """The commands of a model; None if it is of another family.

        ``lower`` makes them anew for the comparison that ``NNVK_VERIFY_SIZES`` asks for. AssertionError: they differ.
        """
        sizes = self.scope.sizes_of(sized)
        numbers = None if sizes is None else self._evaluate(sizes)
        if sizes is None or numbers is None:
            return None
        found = self._fill(numbers, sized.model)
        if settings().verify_sizes:
            again = traced(sized, self.scope, lower, self._base)
            assert again is not None, "another size can't be traced"
            numbers = again._evaluate(sizes)
            assert numbers is not None, "a guard of a trace does not hold for its own sizes"
            other = again._fill(numbers, sized.model)
            for name in ("commands", "parts", "inputs", "outputs", "output_shapes", "flags", "counts"):
                assert getattr(found, name) == getattr(other, name), f"{name} of other sizes differ"
        return found


def filled_with(sized: Sized) -> Sizes | None:
    """The template of a model and its sizes, if its inputs have the shapes that it says."""
    shapes = [type_.dimensions for type_ in sized.model.input_types()]
    return sizes_of(sized.model) if shapes == list(sized.shapes) else None


class PlanFamilies:
    """The families of the models of one file."""

    def __init__(self) -> None:
        self._last: Sized | None = None
        """The last model of which a family was wanted."""
        self._families: tuple[PlanFamily, ...] = ()
        self.placements: Placements = {}
        """The placements that were found for one of the sizes."""

    def __len__(self) -> int:
        return len(self._families)

    def lowered(
        self, model: Model, shapes: Sequence[Shape], lower: Lower, stands: Callable[[Choice], bool] = lambda _: True
    ) -> Lowered | None:
        """The commands of a model, of a family that may be new. None: it is the first one, or can't be traced.

        ``stands``: whether what was chosen among several candidates would be chosen again.
        """
        sized = Sized(model, shapes)
        self._families = tuple(family for family in self._families if all(map(stands, family.choices)))
        for family in self._families:
            found = family.lowered(sized, lower)
            if found is not None:
                return found
        scope = self._scope_for(sized)
        made = None if scope is None else traced(sized, scope, lower)
        if made is None:
            return None
        if len(self._families) == _MOST:
            self.placements.clear()  # nothing tells those of the family that goes
        self._families = (made, *self._families[: _MOST - 1])
        return made.lowered(sized, lower)

    def _scope_for(self, sized: Sized) -> Scope | None:
        """The scope of a new family; None if nothing tells in which sizes others may differ."""
        last, self._last = self._last, sized
        sizes = filled_with(sized)
        if sizes is not None:
            return ByTemplate(sizes.template)
        differences = None if last is None else differences_of(last, sized)
        if last is None or differences is None or not differences.places:
            return None
        for family in self._families:
            if isinstance(family.scope, ByDifferences):
                others = differences_of(family.scope.base, sized)
                if others is not None:
                    differences = differences.joined(family.scope.differences).joined(others)
        classes: dict[tuple[int, int], list[Place]] = {}
        for place in sorted(differences.places):
            classes.setdefault((last.number_at(place), sized.number_at(place)), []).append(place)
        return ByDifferences(sized, differences, list(classes.values()))


def traced(sized: Sized, scope: Scope, lower: Lower, base: Sequence[int] | None = None) -> PlanFamily | None:
    """The family of a model; None if planning has to know what differs with sizes.

    ``base`` are the sizes by which costs are compared, if not the model's (`nnvk.base.extents.hint`).
    """
    sizes = scope.sizes_of(sized)
    assert sizes is not None
    base = sizes if base is None else base
    trace = Trace()
    symbols = [trace.symbol(*pair) for pair in zip(sizes, base, strict=True)]
    return attempted(
        trace,
        lambda: PlanFamily(scope, base, lower(*scope.opened(sized, symbols)), trace),
        _log,
        "plans of other sizes are made one by one",
        (NeedsValue, SizeDependent),
    )


# --- models ----------------------------------------------------------------------------------------------------------


def differences_of(one: Sized, other: Sized) -> Differences | None:
    """The differences between two models and the shapes of their inputs; None if not only sizes differ."""
    places: set[Place] = set()
    data: set[int] = set()
    for index, (sizes, others) in enumerate(zip(one.shapes, other.shapes, strict=False)):
        if len(sizes) != len(others):
            return None
        places.update(("input", index, axis) for axis in _differing(sizes, others))
    first, second = one.model, other.model
    if first is second:
        return Differences(frozenset(places), frozenset())
    if len(first.operands) != len(second.operands) or _structure(first) != _structure(second):
        return None
    for index, (mine, theirs) in enumerate(zip(first.operands, second.operands, strict=True)):
        if mine.lifetime is not theirs.lifetime or mine.subgraph is not theirs.subgraph:
            return None
        if mine.type != theirs.type:
            sizes, others = mine.type.dimensions, theirs.type.dimensions
            if len(sizes) != len(others) or mine.type.with_dimensions(others) != theirs.type:
                return None
            places.update(("dimension", index, axis) for axis in _differing(sizes, others))
        if mine.constant is not None and theirs.constant is not None and not _are_equal(mine.constant, theirs.constant):
            if _are_sizes(mine.constant, theirs.constant):
                both = elements(mine.constant).flat, elements(theirs.constant).flat
                places.update(("element", index, at) for at in _differing(*both))
            elif mine.constant.shape == theirs.constant.shape:
                return None
            else:
                data.add(index)
    return Differences(frozenset(places), frozenset(data))


def _structure(model: Model) -> object:
    return model.operations, model.inputs, model.outputs, model.relaxed, model.reproducible


def _differing(one: Iterable[int], other: Iterable[int]) -> list[int]:
    return [place for place, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]


def _are_equal(one: Constant, other: Constant) -> bool:
    if one is other:
        return True
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    known = origin(one), origin(other)
    if known[0] is not None and known[1] is not None and known[0].key == known[1].key:
        return True
    return bytes_of(one).tobytes() == bytes_of(other).tobytes()


def _are_sizes(one: Constant, other: Constant) -> bool:
    """Whether constants of one structure may be sizes."""
    return one.shape == other.shape and one.dtype == np.int32 and one.size <= _FEW


def _opened(sized: Sized, extents: Mapping[Place, Extent], data: Collection[int]) -> tuple[Model, list[Shape]]:
    """A model with extents in the places of numbers, and with constants that nobody may look at."""
    operands = list(sized.model.operands)
    for index in {index for kind, index, _ in extents if kind != "input"}.union(data):
        operand = operands[index]
        shape = _extended("dimension", index, operand.type.dimensions, extents)
        constant = operand.constant
        if index in data:
            constant = SizedConstant(index, shape, operand.type.dtype)
        elif constant is not None:
            flat = _extended("element", index, elements(constant).reshape(-1).tolist(), extents)
            constant = np.array([*flat, None], object)[:-1].reshape(constant.shape)
        operands[index] = Operand(operand.type.with_dimensions(shape), operand.lifetime, constant, operand.subgraph)
    shapes = [_extended("input", index, shape, extents) for index, shape in enumerate(sized.shapes)]
    return replace(sized.model, operands=tuple(operands)), shapes


def _extended(kind: str, index: int, numbers: Sequence[int], extents: Mapping[Place, Extent]) -> Shape:
    return tuple(extents.get((kind, index, at), number) for at, number in enumerate(numbers))  # type: ignore[misc]


# --- commands --------------------------------------------------------------------------------------------------------

_HOLDERS = (Lowered, Dispatch, Copy, Clear, TensorRef, TensorPart, StridedView)
"""The classes of commands whose fields may be extents."""


class _Filling:
    """The source of a function that makes commands anew for the numbers of extents and the constants of a model.

    It makes objects that differ with sizes, each in a line. All others stay as they are.
    """

    def __init__(self) -> None:
        self.extents: dict[str, Extent] = {}
        """The extents whose numbers the function takes, in this order, by their names."""
        self._kept: dict[str, Any] = {"__builtins__": {}}
        self._lines: list[str] = []
        self._known: dict[int, str | None] = {}

    def function(self, lowered: Lowered) -> Callable[[Sequence[Number], Model], Lowered]:
        """The function for these commands."""
        text = self._part(lowered)
        unpacked = "".join(f"{name}, " for name in self.extents)
        head = ["def fill(numbers, model):", *([f" {unpacked}= numbers"] if unpacked else [])]
        exec("\n".join([*head, *self._lines, f" return {text}"]), self._kept)  # names of this class alone
        fill: Callable[[Sequence[Number], Model], Lowered] = self._kept["fill"]
        return fill

    def _part(self, value: Any) -> str:
        return self._made(value) or self._keep(value)

    def _keep(self, value: Any) -> str:
        name = f"kept{len(self._kept)}"
        self._kept[name] = value
        return name

    def _made(self, value: Any) -> str | None:
        """The name of a value that differs with sizes; None for others."""
        if value.__class__ is Extent:
            self.extents[value.name] = value
            return value.name
        if id(value) not in self._known:
            text = self._expression(value)
            if text is not None:
                self._lines.append(f" made{len(self._lines)} = {text}")
            self._known[id(value)] = None if text is None else f"made{len(self._lines) - 1}"
        return self._known[id(value)]

    def _expression(self, value: Any) -> str | None:
        if isinstance(value, SizedConstant):
            return f"model.operands[{value.operand}].constant"
        if isinstance(value, Computed):
            return self._call(value.function, value.arguments)
        if isinstance(value, ComputedConstant):
            return self._call(np.ascontiguousarray, (value.value,))
        if isinstance(value, _HOLDERS):
            return self._call(type(value), [getattr(value, each.name) for each in fields(value)])
        if isinstance(value, (tuple, list)):
            inside = self._joined(value)
            return None if inside is None else f"[{inside}]" if isinstance(value, list) else f"({inside})"
        if isinstance(value, dict):
            keys, values = list(value), list(value.values())
            if any(map(self._made, keys)):
                return "{" + ", ".join(f"{self._part(key)}: {self._part(each)}" for key, each in value.items()) + "}"
            changed = [
                f"{self._keep(key)}: {made}" for key, made in zip(keys, map(self._made, values), strict=True) if made
            ]
            return f"{{**{self._keep(value)}, {', '.join(changed)}}}" if changed else None
        return None

    def _call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> str | None:
        inside = self._joined(arguments)
        return None if inside is None else f"{self._keep(function)}({inside})"

    def _joined(self, parts: Sequence[Any]) -> str | None:
        """The parts with a comma behind each; None if none of them differs with sizes."""
        found = list(map(self._made, parts))
        if not any(found):
            return None
        return "".join(f"{made or self._keep(part)}, " for part, made in zip(parts, found, strict=True))
