"""Models of the oldest versions of ONNX's operators, whose arithmetic did not broadcast as it does now."""

from __future__ import annotations

from onnx import ModelProto, NodeProto, checker, helper, shape_inference, version_converter

from nnvk.base.text import printable
from nnvk.importers.onnx.errors import Malformed
from nnvk.importers.onnx.node import domain_of
from nnvk.importers.onnx.reader import OLDEST, is_external, is_known, stated_version

_ERROR_SHOWN = 200
_BROADCASTING = frozenset({"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"})
"""Operators that had an attribute ``axis``: the first axis of the second input among those of the first."""


def converted(model: ModelProto) -> ModelProto:
    """The model with operators of the version `OLDEST`, by the onnx package, if its own are older.

    Those with graphs inside stay as they are, because the package does not convert these. `Malformed`: it can't be
    converted.
    """
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
