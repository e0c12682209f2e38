"""Two engines on one model, layer by layer: how large the differences are, and where they begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from nnvk.api import Device
from nnvk.base.errors import bad_data
from nnvk.importers.ports import ImportedModel
from nnvk.inputs.randoms import random_ports
from nnvk.insight.difference import HALF, Difference, Tolerance, difference
from nnvk.insight.engines import Engine, OnDevice, Values
from nnvk.types.extract import extract


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a device's results differ from a reference's."""

    device: str
    reference: str
    alone: bool
    """Whether each operation had the reference's inputs; it ends with the first that is off then."""
    operations: int
    """The number of operations of the model."""
    outputs: tuple[Difference, ...]
    """The outputs of the model as it is, fused as the device does it."""
    inside: tuple[Difference, ...]
    """The differences of operations, in the order of execution. All results are outputs then, so that less is fused."""

    @property
    def begins(self) -> Difference | None:
        """The first operation that is off."""
        return next((difference for difference in self.inside if difference.is_off), None)

    @property
    def is_off(self) -> bool:
        """Whether anything is."""
        return self.begins is not None or any(difference.is_off for difference in self.outputs)


def compare(
    imported: ImportedModel,
    device: Device | Engine,
    reference: Device | Engine,
    inputs: Sequence[np.ndarray] | None = None,
    *,
    alone: bool = False,
    tolerance: Tolerance | None = None,
) -> Comparison:
    """Compute a model twice and compare the results of all operations.

    ``inputs`` are the file's, random without. With ``alone`` each operation is computed by itself on ``device``, on
    what ``reference`` has for its inputs, until one is off: that one has made the difference. Where the reference
    is no device, what it knows is the file's tensors, and operators of the file are computed by themselves.

    Raises BAD_DATA where inputs don't fit or ``device`` is no device and ``alone``, and what computing raises.
    """
    imported.require_whole("a comparison")
    one, other = (each if isinstance(each, Engine) else OnDevice(each) for each in (device, reference))
    limits = tolerance or Tolerance()
    if imported.model.frozen.relaxed:
        limits = replace(limits, of_range=max(limits.of_range, HALF))
    given = random_ports(imported) if inputs is None else list(inputs)
    encoded = imported.encode(given)
    frozen = imported.model.frozen
    want = {**dict(zip(frozen.inputs, encoded, strict=True)), **other.results(imported, given, inside=True)}
    places = one.places(imported.model) if isinstance(one, OnDevice) else [one.name] * len(frozen.operations)
    subject = _Subject(imported, places, want, limits)
    whole = one.results(imported, given, inside=False)
    if not alone:
        inside = tuple(subject.of_all(one.results(imported, given, inside=True)))
    elif isinstance(one, OnDevice):
        inside = tuple(subject.until_off(one, by_layer=not isinstance(other, OnDevice)))
    else:
        raise bad_data(f"operations can be computed by themselves on devices, not on {one.name}")
    outputs = tuple(subject.of_outputs(whole))
    return Comparison(one.name, other.name, alone, len(frozen.operations), outputs, inside)


def joined_comparisons(several: Sequence[Comparison]) -> Comparison:
    """The comparison of a model that consists of parts: operations and outputs are numbered through all parts."""
    operations, outputs, inside = 0, list[Difference](), list[Difference]()
    for one in several:
        first = len(outputs)
        outputs += [replace(each, output=each.output + first) for each in one.outputs]
        inside += [
            replace(each, number=None if each.number is None else each.number + operations) for each in one.inside
        ]
        operations += one.operations
    return replace(several[0], operations=operations, outputs=tuple(outputs), inside=tuple(inside))


@dataclass(frozen=True, slots=True)
class _Subject:
    """A model, and what its operands are on the reference."""

    imported: ImportedModel
    places: Sequence[str]
    want: Values
    tolerance: Tolerance

    def of_all(self, got: Values) -> Iterator[Difference]:
        """Compare all operands that both engines know."""
        for number, operation in enumerate(self.imported.model.frozen.operations):
            for output, index in enumerate(operation.outputs):
                if index in got and index in self.want:
                    yield self._of(number, output, index, got[index])

    def of_outputs(self, got: Values) -> Iterator[Difference]:
        """Compare the model's outputs."""
        for output, index in enumerate(self.imported.model.frozen.outputs):
            if index in got and index in self.want:
                yield self._of(None, output, index, got[index])

    def until_off(self, device: OnDevice, *, by_layer: bool) -> Iterator[Difference]:
        """Compare operations, or all operations of an operator of the file, one by one, up to the first that is off."""
        whole = self.imported.model.frozen
        for numbers in self._units(by_layer):
            part = extract(whole, numbers)
            if not all(index in self.want for index in part.inputs):
                continue  # the reference does not know what it gets
            got = dict(zip(part.outputs, device.part(part.model, [*map(self._given, part.inputs)]), strict=True))
            found = [
                self._of(number, output, index, got[index])
                for number in numbers
                for output, index in enumerate(whole.operations[number].outputs)
                if index in got and index in self.want
            ]
            yield from found
            if any(difference.is_off for difference in found):
                return

    def _given(self, index: int) -> np.ndarray:
        """Return the reference's value of an operand, in the operand's form."""
        type_, array = self.imported.model.frozen.operands[index].type, self.want[index]
        shape = type_.dimensions if type_.is_fully_specified and type_.is_tensor else array.shape
        return np.ascontiguousarray(array, type_.dtype).reshape(shape)

    def _units(self, by_layer: bool) -> list[list[int]]:
        numbers = range(len(self.imported.model.frozen.operations))
        sources = self.imported.sources
        if not by_layer or not sources:
            return [[number] for number in numbers]
        return [list(group) for _, group in groupby(numbers, lambda number: sources[number])]

    def _of(self, number: int | None, output: int, index: int, got: np.ndarray) -> Difference:
        model, sources = self.imported.model.frozen, self.imported.sources
        operation = layer = device = None
        if number is not None:
            operation, device = model.operations[number].code.name, self.places[number]
            layer = sources[number] if sources else None
        about = (number, operation or "", layer, device or "", output)
        return difference(about, model.operands[index].type, got, self.want[index], self.tolerance)
