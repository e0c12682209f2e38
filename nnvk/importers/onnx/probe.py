"""A first look of onnxruntime at a graph, in a process with limits: it crashes or never ends on some files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from onnx import FunctionProto, GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto, helper

from nnvk.base.settings import settings
from nnvk.base.text import printable
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.limited import LIBRARY_BYTES, Refused, run_limited
from nnvk.importers.onnx.errors import Malformed
from nnvk.importers.onnx.reader import open_beside
from nnvk.importers.onnx.scope import graphs_of

_LARGEST_CONSTANT = 1 << 10
"""Bytes of a constant beyond which the first look does without its elements."""
_LARGEST_WHOLE = 1 << 28
"""Bytes of a file that is looked at with all elements, if onnxruntime needs some of a large constant."""
FOLDER = "session.model_external_initializers_file_folder_path"
"""The option of a session that names the folder of the elements beside a model; else it is the process's folder."""
_LOOK = f"""
import json
import os
import onnxruntime
from onnx import ModelProto
from onnx.shape_inference import infer_shapes
limit()
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.intra_op_num_threads = 1
options.log_severity_level = 4
folder, _, data = sys.stdin.buffer.read().partition(b"\\0")
if folder:
    options.add_session_config_entry("{FOLDER}", os.fsdecode(folder))
try:
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
except Exception as error:
    refuse(error)
known = [[one.name, one.type, one.shape] for one in session.get_outputs()]
model = ModelProto.FromString(data)
try:
    model = infer_shapes(model)  # which tells tensors of rank 0 from those of unknown rank
except Exception:
    pass
del model.graph.initializer[:], model.graph.node[:], model.functions[:]
sys.stdout.buffer.write(json.dumps(known).encode() + b"\\n" + model.SerializeToString())
"""


def check(model: ModelProto, folder: Path | None) -> None:
    """Look for what onnxruntime must not meet. `Malformed` says what it is."""
    for body in _bodies(model):
        for node, attribute in ((own, one) for own in body.node for one in own.attribute):
            if node.op_type == "Einsum" and attribute.name == "equation":
                _check_equation(attribute.s.decode(errors="replace"))
        for tensor in body.initializer if isinstance(body, GraphProto) else ():
            _check_place(tensor, folder)


def _check_equation(equation: str) -> None:
    """Onnxruntime never ends on a term with two ellipses."""
    terms = re.split(",|->", equation.replace(" ", ""))
    if any("." in term.replace("...", "", 1) for term in terms):
        raise Malformed(f"a term of an Einsum must have at most one ellipsis, got '{printable(equation, NAME_SHOWN)}'")


def _check_place(tensor: TensorProto, folder: Path | None) -> None:
    if tensor.data_location != TensorProto.EXTERNAL:
        return
    what = f"tensor '{printable(tensor.name, NAME_SHOWN)}'"
    location = next((one.value for one in tensor.external_data if one.key == "location"), "")
    try:
        if folder is None:
            raise Unmapped(f"{what} is in a file beside the model: load it from its path")
        open_beside(folder, location, what).close()
    except (OSError, ValueError, RuntimeError, Unmapped) as error:
        raise Malformed(str(error)) from error


def graphs_in(model: ModelProto) -> Iterator[GraphProto]:
    """The graph of a model, and those in its nodes and functions."""
    return (body for body in _bodies(model) if isinstance(body, GraphProto))


def _bodies(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    pending: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while pending:
        body = pending.pop()
        yield body
        pending += (inner for node in body.node for inner in graphs_of(node))


def typed(model: ModelProto, nbytes: int, folder: Path | None) -> dict[str, ValueInfoProto]:
    """The types and shapes of a graph's tensors by name, as onnxruntime infers them. Raises `Refused`.

    ``nbytes`` is the size of the model with all its elements, and ``folder`` has those of inner graphs in other files.
    """
    copy, is_stripped = _open(model)
    try:
        return _looked_at(copy, folder)
    except Refused:
        has_files = any(one.data_location == TensorProto.EXTERNAL for one in model.graph.initializer)
        if not is_stripped or nbytes > _LARGEST_WHOLE or has_files:
            raise
    copy, _ = _open(model, largest=nbytes)  # a kernel wants to know a constant
    return _looked_at(copy, folder)


def _open(model: ModelProto, largest: int = _LARGEST_CONSTANT) -> tuple[ModelProto, bool]:
    """A copy in which all tensors are outputs, and large constants inputs; whether there are large constants.

    onnxruntime tells the types of inputs and outputs alone.
    """
    graph = model.graph
    large = {
        one.name: one
        for one in graph.initializer
        if one.data_location == TensorProto.EXTERNAL or one.ByteSize() > largest
    }
    copy = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    copy.graph.name = graph.name or "graph"
    copy.graph.node.extend(graph.node)
    copy.graph.initializer.extend(one for one in graph.initializer if one.name not in large)
    copy.graph.input.extend(one for one in graph.input if one.name not in large)
    copy.graph.input.extend(helper.make_tensor_value_info(one.name, one.data_type, one.dims) for one in large.values())
    copy.graph.output.extend(graph.output)
    known = {one.name for one in graph.output}
    inside = dict.fromkeys(name for node in graph.node for name in node.output if name and name not in known)
    copy.graph.output.extend(ValueInfoProto(name=name) for name in inside)
    return copy, bool(large)


def _looked_at(model: ModelProto, folder: Path | None) -> dict[str, ValueInfoProto]:
    place = b"" if folder is None else os.fsencode(folder.resolve())
    done = run_limited(_LOOK, place + b"\0" + model.SerializeToString(), settings().patience, LIBRARY_BYTES)
    line, _, rest = done.partition(b"\n")
    graph = ModelProto.FromString(rest).graph
    found = {one.name: one for one in (*graph.value_info, *graph.input, *graph.output) if _is_typed(one)}
    for name, type_, sizes in json.loads(line):
        if name not in found or not found[name].type.HasField("tensor_type"):
            found[name] = ValueInfoProto(name=name, type=_type(type_, sizes))
    return found


def _is_typed(value: ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return value.type.WhichOneof("value") is not None and not (
        value.type.HasField("tensor_type") and not (tensor.elem_type and tensor.HasField("shape"))
    )


def _type(text: str, sizes: list[int | str | None]) -> TypeProto:
    """A type as onnxruntime writes it: ``tensor(float)``, ``seq(tensor(int64))``. No sizes: the rank is not known."""
    kind, _, inner = text[:-1].partition("(")
    if kind == "tensor":
        return helper.make_tensor_type_proto(TensorProto.DataType.Value(inner.upper()), sizes or None)
    if kind == "seq":
        return helper.make_sequence_type_proto(_type(inner, []))
    if kind == "optional":
        return helper.make_optional_type_proto(_type(inner, []))
    key, _, value = inner.partition(",")
    return helper.make_map_type_proto(TensorProto.DataType.Value(key.upper()), _type(value, []))
