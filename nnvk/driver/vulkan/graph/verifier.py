"""Checks of graphs: their structure, their shapes and types, and that a pass does not change what they compute."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.ops import internal, registry
from nnvk.ops.call import Tensor
from nnvk.ops.internal import InternalCode
from nnvk.types.codes import OperandCode

_FLOAT16_TOLERANCE = 2.0**-8
"""A few units in the last place of 16-bit floats."""


class InvalidGraph(AssertionError):
    """A pass has made a graph that breaks a rule. The message names the pass, the node and the rule."""


def check(graph: Graph, after: str) -> None:
    """Raise InvalidGraph unless the graph is well formed. ``after`` is the name of the pass that made it.

    Each tensor is given once, before it is read; outputs of the model are given; an index has one type and one shape
    everywhere; and each call's outputs have the shapes that follow from its inputs.
    """
    seen: dict[int, Tensor] = {}
    given: set[int] = set()
    produced = {tensor.index for node in graph.nodes for tensor in node.outputs}
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor.index in produced and tensor.index not in given:
                raise _fault(after, node, f"{_named(tensor)} is read before it is given")
            if tensor.index < 0 and tensor.index not in produced and not tensor.is_constant:
                raise _fault(after, node, f"{_named(tensor)} is given by no node")
        for tensor in node.outputs:
            if tensor.index in given:
                raise _fault(after, node, f"{_named(tensor)} is given twice")
            given.add(tensor.index)
        for tensor in (each.whole for each in (*node.inputs, *node.outputs)):
            first = seen.setdefault(tensor.index, tensor)
            if first.type.code is not tensor.type.code or first.shape != tensor.shape:
                raise _fault(after, node, f"{_named(tensor)} was {_named(first)} before")
        _check_views(node, after)
        _check_shapes(node, after)
    inputs = set(graph.inputs)
    for index in graph.outputs:
        if index not in given and index not in inputs:
            raise InvalidGraph(f"{after}: no node gives operand {index}, an output of the model")


def _check_views(node: Node, after: str) -> None:
    for tensor in (*node.inputs, *node.outputs):
        if tensor.view is None:
            continue
        box, source = tensor.view.box, tensor.view.source
        if box.elements != tensor.size or not box.is_inside(source.size):
            raise _fault(after, node, f"{_named(tensor)} is no view of {_named(source)}: {box}")
        if tensor in node.outputs and not box.reorders(source.size):
            raise _fault(after, node, f"{_named(source)} is not written whole: {box}")


def _check_shapes(node: Node, after: str) -> None:
    if _has_largest(node):
        return
    for call in node.calls:
        inferred = internal.infer(call)
        for tensor, shape in zip(call.outputs, inferred or (), strict=inferred is not None):
            if tensor.shape != shape:
                raise _fault(after, node, f"output {_named(tensor)} has to have shape {list(shape)}")


def check_kept(before: Graph, graph: Graph, after: str) -> None:
    """Raise InvalidGraph if a pass has dropped or doubled a node that has effects, or changed the model's outputs."""
    if before.inputs != graph.inputs or before.outputs != graph.outputs:
        raise InvalidGraph(f"{after}: the graph has other inputs or outputs")
    missing = _named_operations(before.live) - _named_operations(graph)
    if missing:
        raise InvalidGraph(f"{after}: no node names operations {sorted(missing)} any more")
    lost = set(_effects(before)) - set(_effects(graph))
    if lost or len(_effects(graph)) != len(set(_effects(graph))):
        raise InvalidGraph(f"{after}: operations {sorted(lost)}, which have effects, are not computed once each")


def _named_operations(graph: Graph) -> set[int]:
    return {operation for node in graph.nodes for operation in node.operations}


def _effects(graph: Graph) -> list[int]:
    return [node.operation for node in graph.nodes if node.has_effects]


def compare(before: Graph, graph: Graph, after: str, tolerance: float) -> None:
    """Compute both graphs on the reference device, on drawn inputs, and raise InvalidGraph if outputs differ.

    ``tolerance`` is the largest difference of floats, as a share of the largest number; it is larger where small
    differences are rounded to 16 bits. Graphs whose results are random or whose shapes depend on data are not compared.
    """
    if any(_is_open(node) for node in before.nodes):
        return
    if tolerance and any(tensor.code is OperandCode.TENSOR_FLOAT16 for node in graph.nodes for tensor in node.outputs):
        tolerance = max(tolerance, _FLOAT16_TOLERANCE)
    rng = np.random.default_rng(len(before.nodes))
    drawn = {tensor.index: _drawn(tensor, rng) for tensor in _inputs(before)}
    expected, got = (_outputs(each, drawn) for each in (before, graph))
    for index in before.outputs:
        if index in expected and not _is_close(expected[index], got[index], tolerance):
            raise InvalidGraph(f"{after}: operand {index}, an output of the model, is no longer the same")


def _is_open(node: Node) -> bool:
    return _has_largest(node) or node.has_effects


def _has_largest(node: Node) -> bool:
    """Whether data decides on the shapes of the node's outputs, which are the largest ones in a graph."""
    return not isinstance(node.code, InternalCode) and registry.lookup(node.code).largest is not None


def _inputs(graph: Graph) -> list[Tensor]:
    found = {
        tensor.index: tensor
        for node in graph.nodes
        for tensor in (each.whole for each in node.inputs)
        if tensor.index in graph.inputs and not tensor.is_constant
    }
    return list(found.values())


def _drawn(tensor: Tensor, rng: np.random.Generator) -> np.ndarray:
    if tensor.dtype.kind == "f":
        return rng.standard_normal(tensor.shape).astype(tensor.dtype)
    high = 2 if tensor.dtype.kind == "b" else min(np.iinfo(tensor.dtype).max, 100)
    return rng.integers(0, high, tensor.shape).astype(tensor.dtype)


def _outputs(graph: Graph, drawn: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The outputs of the model, by index."""
    values = dict(drawn)

    def known(tensor: Tensor) -> Tensor:
        data = values.get(tensor.index)
        if tensor.view is not None and data is not None:
            data = tensor.view.box.of(data).reshape(tensor.shape)
        return tensor if data is None else Tensor(tensor.name, tensor.index, tensor.type, data.shape, data)

    for call in (call for node in graph.nodes for call in node.calls):
        with np.errstate(all="ignore"):
            results = internal.compute(call.with_tensors(known))
        values.update((tensor.index, _stored(tensor, each)) for tensor, each in zip(call.outputs, results, strict=True))
    return {index: values[index] for index in graph.outputs if index in values}


def _stored(tensor: Tensor, result: np.ndarray) -> np.ndarray:
    """The operand that has a result where its tensor views it."""
    if tensor.view is None:
        return result
    return tensor.view.box.inverse.of(result).reshape(tensor.view.source.shape)


def _is_close(expected: np.ndarray, got: np.ndarray, tolerance: float) -> bool:
    if expected.dtype.kind != "f" or not tolerance:
        return expected.dtype == got.dtype and expected.tobytes() == got.tobytes()
    largest = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0))
    return np.allclose(expected, got, rtol=0, atol=tolerance * largest, equal_nan=True)


def _named(tensor: Tensor) -> str:
    return f"{tensor.name} (operand {tensor.index}, {tensor.type.code.name}{list(tensor.shape)})"


def _fault(after: str, node: Node, reason: str) -> InvalidGraph:
    return InvalidGraph(f"{after}: {node.code.name} of operation {node.operation}: {reason}")
