"""Inputs with other shapes than the file's, and the sizes that become unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnvk.importers.graph_builder import at_least_1d
from nnvk.importers.tflite.schema import Subgraph
from nnvk.types.operand import Shape


def resized(subgraph: Subgraph, shapes: Sequence[Shape]) -> Subgraph:
    """A subgraph whose inputs have these shapes. The shapes of its operators' results are unknown."""
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
