"""Models as an importer takes them: without the arithmetic of the oldest operators, and without sparse tensors."""

from __future__ import annotations

import math

import numpy as np
from onnx import (
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    checker,
    helper,
    numpy_helper,
    shape_inference,
    version_converter,
)

from nnvk.base.text import printable
from nnvk.importers.budget import Budget
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.onnx.errors import Malformed
from nnvk.importers.onnx.node import domain_of
from nnvk.importers.onnx.probe import graphs_in
from nnvk.importers.onnx.reader import OLDEST, Arrays, is_external, is_known, stated_version

_ERROR_SHOWN = 200
_BROADCASTING = frozenset({"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"})
"""Operators that had an attribute ``axis``: the first axis of the second input among those of the first."""


def converted(model: ModelProto) -> ModelProto:
    """The model with operators of the version `OLDEST`, by the onnx package, if its own are older, and dense tensors.

    Those with graphs inside stay as they are, because the package does not convert these. `Malformed`: it can't be
    converted.
    """
    _make_dense(model)
    version = stated_version(model)
    attributes = [attribute for node in model.graph.node for attribute in node.attribute]
    has_graphs = any(one.HasField("g") or one.graphs for one in attributes)
    if is_known(model, version) or not 1 <= version < OLDEST or has_graphs or model.functions:
        return model
    if any(is_external(one) for one in model.graph.initializer):  # the onnx package would look for it by itself
        raise Malformed(f"operators of opset {version} can't be converted to opset {OLDEST} with elements elsewhere")
    try:
        checker.check_model(model)
        _name_axes(model)
        result: ModelProto = version_converter.convert_version(model, OLDEST)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError, ValueError) as error:
        reason = printable(" ".join(str(error).split()), _ERROR_SHOWN)
        raise Malformed(f"operators of opset {version} can't be converted to opset {OLDEST}: {reason}") from error
    return result


def _make_dense(model: ModelProto) -> None:
    """Replace sparse tensors by dense ones, with the file's budget. `Malformed`: one has no such elements."""
    budget = Budget(model.ByteSize())
    for graph in graphs_in(model):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse, budget))
        del graph.sparse_initializer[:]
        for attribute in (one for node in graph.node for one in node.attribute if one.HasField("sparse_tensor")):
            attribute.CopyFrom(helper.make_attribute("value", _dense(attribute.sparse_tensor, budget)))


def _dense(sparse: SparseTensorProto, budget: Budget) -> TensorProto:
    what, shape = f"sparse tensor '{printable(sparse.values.name, NAME_SHOWN)}'", tuple(sparse.dims)
    arrays = Arrays(None, budget)
    try:
        values, places = arrays.read(sparse.values), arrays.read(sparse.indices)
        budget.charge(math.prod(shape) * values.itemsize)
        dense = np.zeros(shape, values.dtype)
        flat = np.ravel_multi_index(tuple(places.T), shape) if places.ndim == 2 else places
        if flat.shape != values.shape or np.any(flat < 0):
            raise IndexError(f"{values.shape} elements at {places.shape} places")
        dense.reshape(-1)[flat] = values
    except (Unmapped, ValueError, IndexError, TypeError) as error:
        raise Malformed(f"{what} of shape {list(shape)} has no such elements ({error})") from error
    return numpy_helper.from_array(dense, sparse.values.name)


def _name_axes(model: ModelProto) -> None:
    """Give second inputs, whose axes are not the last ones, dimensions of 1 behind, which the package does not do.

    These are terms with an ``axis``, and slopes of PRelu, of which there is one for each channel.
    """
    nodes = list(model.graph.node)
    if not any(_first_axis(node) is not None for node in nodes):
        return
    graph = shape_inference.infer_shapes(model).graph
    ranks = {
        one.name: len(one.type.tensor_type.shape.dim)
        for one in (*graph.input, *graph.value_info, *graph.output)
        if one.type.tensor_type.HasField("shape")
    }
    ranks.update({one.name: len(one.dims) for one in graph.initializer})
    del model.graph.node[:]
    for number, node in enumerate(nodes):
        axis = _first_axis(node)
        if axis is not None:
            first, second = (ranks.get(name) for name in node.input[:2])
            if first is None or second is None:
                raise ValueError(f"the shapes of inputs of {node.op_type} '{node.name}' are not known")
            if not -first <= axis < first and node.op_type != "PRelu":
                raise ValueError(f"axis {axis} of {node.op_type} '{node.name}' is none of {first}")
            begin = axis % first if first > 1 else 0
            missing = first - begin - second
            if missing > 0 and not (node.op_type == "PRelu" and second != 1):
                name = f"nnvk_axes_{number}"
                model.graph.node.append(
                    helper.make_node("Unsqueeze", [node.input[1]], [name], axes=list(range(second, second + missing)))
                )
                node.input[1] = name
            kept = [one for one in node.attribute if one.name != "axis"]
            del node.attribute[:]
            node.attribute.extend(kept)
        model.graph.node.append(node)


def _first_axis(node: NodeProto) -> int | None:
    """The axis of the first input that the first one of the second input belongs to, where the node says so."""
    if domain_of(node.domain) or len(node.input) < 2:
        return None
    if node.op_type == "PRelu":
        return 1
    axes = [one.i for one in node.attribute if one.name == "axis"]
    return axes[0] if axes and node.op_type in _BROADCASTING else None
