"""Models of the oldest versions of ONNX's operators, whose arithmetic did not broadcast as it does now."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, checker, shape_inference, version_converter

from nnvk.base.text import printable
from nnvk.importers.onnx.errors import Malformed
from nnvk.importers.onnx.node import domain_of
from nnvk.importers.onnx.reader import OLDEST, is_known, stated_version

_ERROR_SHOWN = 200


def converted(model: ModelProto) -> ModelProto:
    """The model with operators of the version `OLDEST`, by the onnx package, if its own are older.

    Those with graphs inside stay as they are, because the package does not convert these. `Malformed`: it can't be
    converted.
    """
    version = stated_version(model)
    inside = any(
        attribute.HasField("g") or attribute.graphs for node in model.graph.node for attribute in node.attribute
    )
    if is_known(model, version) or not 1 <= version < OLDEST or inside or model.functions:
        return model
    try:
        checker.check_model(model)
        result: ModelProto = version_converter.convert_version(model, OLDEST)
        _shape_slopes(result)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError, ValueError) as error:
        reason = printable(" ".join(str(error).split()), _ERROR_SHOWN)
        raise Malformed(f"operators of opset {version} can't be converted to opset {OLDEST}: {reason}") from error
    return result


def _shape_slopes(model: ModelProto) -> None:
    """Give slopes of PRelu, one for each channel, the dimensions that they have since version 7."""
    slopes = {one.name: one for one in model.graph.initializer}
    found = [node for node in model.graph.node if node.op_type == "PRelu" and not domain_of(node.domain)]
    if not found:
        return
    graph = shape_inference.infer_shapes(model).graph
    ranks = {
        one.name: len(one.type.tensor_type.shape.dim)
        for one in (*graph.input, *graph.value_info, *graph.output)
        if one.type.tensor_type.HasField("shape")
    }
    for node in found:
        slope = slopes.get(node.input[1])
        if slope is None or node.input[0] not in ranks:
            raise ValueError(f"the slopes or the shape of PRelu '{node.name}' are not known")
        if len(slope.dims) == 1 and slope.dims[0] > 1:
            _reshape(model, slope, [slope.dims[0], *[1] * (ranks[node.input[0]] - 2)])


def _reshape(model: ModelProto, tensor: TensorProto, dims: list[int]) -> None:
    """Give an initializer other dimensions, and the input of its name, which old versions want."""
    tensor.dims[:] = dims
    for one in model.graph.input:
        if one.name == tensor.name:
            one.type.tensor_type.shape.ClearField("dim")
            for size in dims:
                one.type.tensor_type.shape.dim.add(dim_value=size)
