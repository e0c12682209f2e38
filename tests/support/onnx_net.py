"""Builds small ``.onnx`` models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

OPSET = 17

Shape = Sequence[int | str | None]


def op(kind: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """A node; names of tensors are apart by spaces, and ``-`` is one that is left out."""
    domain = attributes.pop("domain", "")
    names = [["" if name == "-" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(kind, *names, domain=domain, **attributes)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[Any, Shape]],
    outputs: Sequence[str] | Mapping[str, Any],
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = OPSET,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model with inputs of NumPy's types and these shapes, whose outputs are of types that the checker infers."""
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(name, element(dtype), shape) for name, (dtype, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(one.domain, 1) for one in functions)]
    made = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    made.ir_version = 8
    try:
        return onnx.shape_inference.infer_shapes(made)
    except onnx.shape_inference.InferenceError:  # of operators that it does not know
        return made


def element(dtype: Any) -> TensorProto.DataType:
    """The element type of a NumPy type."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def subgraph(
    nodes: Sequence[NodeProto],
    outputs: Sequence[str],
    inputs: Mapping[str, tuple[Any, Shape]] | None = None,
    types: Mapping[str, tuple[Any, Shape]] | None = None,
) -> onnx.GraphProto:
    """A graph in a node."""
    known = types or {}
    ports = {**dict.fromkeys(outputs, (np.float32, None)), **known}
    return helper.make_graph(
        list(nodes),
        "inside",
        [helper.make_tensor_value_info(name, element(dtype), shape) for name, (dtype, shape) in (inputs or {}).items()],
        [helper.make_tensor_value_info(name, element(ports[name][0]), ports[name][1]) for name in outputs],
    )
