"""Inputs in other shapes than the file's: whose shapes that leaves open, and what a caller may ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnvk.base.checks import sequence, whole
from nnvk.base.errors import bad_data
from nnvk.base.text import printable
from nnvk.importers.tflite.errors import NAME_SHOWN
from nnvk.importers.tflite.operands import at_least_1d
from nnvk.importers.tflite.schema import MAX_BYTES, Subgraph, Tensor
from nnvk.types.operand import Shape

Shapes = Mapping[str, Sequence[int | None]]
"""Shapes of inputs by name. A size of None or -1 is the file's."""
_LARGEST_ELEMENT = 8


def wanted_shapes(subgraph: Subgraph, shapes: Shapes) -> list[Shape]:
    """The shapes of all inputs of a subgraph where a caller wants some to be others.

    BAD_DATA: a name is none of an input's, or that of several; a rank is not the file's; a size is below 1 or far too
    large. TypeError: an object is of a wrong kind.
    """
    if not isinstance(shapes, Mapping):
        raise TypeError(f"the shapes must be by name, {{'input': (4, 224, 224, 3)}}, got {type(shapes).__name__}")
    inputs = [subgraph.tensors[index] for index in subgraph.inputs]
    names = [tensor.name for tensor in inputs]
    for name in shapes:
        if names.count(name) != 1:
            known = ", ".join(repr(printable(known, NAME_SHOWN)) for known in names)
            how_many = "inputs" if name in names else "no input"
            raise bad_data(
                f"{how_many} of the model is called {printable(str(name), NAME_SHOWN)!r}, there are [{known}]"
            )
    return [_wanted(tensor, shapes[tensor.name]) if tensor.name in shapes else tensor.shape for tensor in inputs]


def _wanted(tensor: Tensor, given: Sequence[int | None]) -> Shape:
    what = f"the shape of '{printable(tensor.name, NAME_SHOWN)}'"
    sizes = list(sequence(what, given))
    if len(sizes) != len(tensor.shape):
        raise bad_data(f"{what} must have {len(tensor.shape)} sizes, as in {list(tensor.signature)}, got {len(sizes)}")
    shape = tuple(
        known if size is None or size == -1 else whole(f"a size in {what}", size, 1)
        for size, known in zip(sizes, tensor.shape, strict=True)
    )
    if math.prod(shape) * _LARGEST_ELEMENT > MAX_BYTES:
        raise bad_data(f"{what}, {list(shape)}, is far too large")
    return shape


def resized(subgraph: Subgraph, shapes: Sequence[Shape]) -> Subgraph:
    """A subgraph whose inputs have these shapes. What operators make of them is of a shape that is not known yet."""
    tensors = list(subgraph.tensors)
    open_: set[int] = set()
    for index, shape in zip(subgraph.inputs, shapes, strict=True):
        if at_least_1d(tensors[index].shape) != at_least_1d(shape):
            tensors[index] = replace(tensors[index], shape=shape, is_static=True)
            open_.add(index)
    for operator in subgraph.operators:
        if open_.isdisjoint(operator.inputs):
            continue
        for index in operator.outputs:
            open_.add(index)
            tensor = tensors[index]
            if tensor.shape or not tensor.is_static:  # a single element stays one
                tensors[index] = replace(tensor, shape=(), is_static=False)
    return replace(subgraph, tensors=tuple(tensors))
