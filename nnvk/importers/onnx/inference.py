"""Shape inference by the onnx package, in a process of its own with limits.

Some files of a few hundred bytes make it run for ever, take all memory, or crash.
"""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto

from nnvk.importers.errors import Unmapped
from nnvk.importers.limited import Refused, run_limited
from nnvk.importers.onnx.errors import Malformed
from nnvk.importers.onnx.reader import dtype_of
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.operand import Shape

_SECONDS, _BYTES = 2, 512 << 20
"""The process may take this processor time, and this memory beside what it takes to start."""
_LARGEST_CONSTANT = 1 << 10
"""Bytes of a constant beyond which its elements are not looked at: they are neither shapes nor axes."""
_INFER = """
from onnx.shape_inference import infer_shapes
from onnx import ModelProto
limit()
model = ModelProto.FromString(sys.stdin.buffer.read())
known = infer_shapes(model)  # without data_prop, which lays out whatever sizes a file names
del known.graph.initializer[:], known.graph.node[:], known.functions[:]
sys.stdout.buffer.write(known.SerializeToString())
"""


def _without_large_constants(model: ModelProto) -> ModelProto:
    """Copy a model for inference. Large constants keep only their types and shapes."""
    whole = model.graph
    graph = GraphProto(
        name=whole.name, node=whole.node, input=whole.input, output=whole.output, value_info=whole.value_info
    )
    for tensor in whole.initializer:
        if tensor.ByteSize() > _LARGEST_CONSTANT:
            graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            graph.initializer.append(tensor)
    return ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph
    )


def inferred(model: ModelProto, shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
    """The types and shapes of a graph's tensors as far as they are known, for inputs of these shapes."""
    copy = _without_large_constants(model)
    for port in copy.graph.input:
        for size, dim in zip(shapes.get(port.name, ()), port.type.tensor_type.shape.dim, strict=False):
            dim.dim_value = size
    try:
        known = ModelProto.FromString(run_limited(_INFER, copy.SerializeToString(), _SECONDS, _BYTES)).graph
    except (ValueError, Refused, DecodeError):
        return {}
    found = {}
    for one in (*known.value_info, *known.output):
        type_ = one.type.tensor_type
        if type_.HasField("shape") and all(dim.HasField("dim_value") for dim in type_.shape.dim):
            try:
                dtype = dtype_of(type_.elem_type, "")
            except (Unmapped, Malformed):
                continue
            found[one.name] = Tensor(dtype, tuple(dim.dim_value for dim in type_.shape.dim))
    return found
