"""``device=auto`` of the execution provider: a device or onnxruntime computes a part, whichever is faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto

from nnvk.api import Device
from nnvk.base.errors import bad_data
from nnvk.base.text import plural
from nnvk.importers.choosing import Choice
from nnvk.importers.errors import Unmapped
from nnvk.importers.measured import LIBRARY, Choices, Shapes, version_of
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.partition import fixed_shapes
from nnvk.importers.onnx.parts import edges_of_nodes, part_of
from nnvk.importers.onnx.probe import graphs_in
from nnvk.types.operand import Shape

_LIBRARY = "onnxruntime"
_STAYS = "onnxruntime was measured to be faster: device=auto"


def choices_of(file: OnnxFile, devices: Sequence[Device], relaxed: bool) -> Choices:
    """The choices for a part, which may be a graph of its own, or taken out of a larger one. Raises BAD_DATA."""
    model = file.proto()
    content = sorted([*_values(file, model), *(_bytes(node) for node in model.graph.node)])
    digest = sha256(repr((_LIBRARY, relaxed)).encode())
    digest.update(b"".join(sha256(each).digest() for each in content))
    name = f"a part of {plural(len(model.graph.node), 'node')}"
    return Choices(name, digest.hexdigest(), devices[0], version_of(_LIBRARY), lambda: _LIBRARY)


def by_name(shapes: Mapping[str, Shape]) -> Shapes:
    """The shapes of inputs as a key: their order is that of the names, since it may differ between runs."""
    return tuple(shape for _, shape in sorted(shapes.items()))


def without_faster(choice: Choice, file: OnnxFile, devices: Sequence[Device], relaxed: bool) -> Choice:
    """The choice without parts of fixed shapes that onnxruntime was measured to compute faster."""
    model = file.proto()
    edges = edges_of_nodes(model.graph.node)
    reasons, parts = list(choice.reasons), []
    for positions in choice.parts:
        part = file.part(part_of(model, positions, edges))
        shapes = fixed_shapes(part)
        if shapes is not None and choices_of(part, devices, relaxed).known(by_name(shapes)) == LIBRARY:
            for position in positions:
                reasons[position] = _STAYS
        else:
            parts.append(positions)
    return Choice(reasons, parts)


def _values(file: OnnxFile, model: ModelProto) -> Iterator[bytes]:
    """The constants of all graphs, wherever their elements are; those that are in the weights lose their places."""
    for graph in graphs_in(model):
        for tensor in graph.initializer:
            elements = b""
            if tensor.data_location == TensorProto.EXTERNAL:
                try:
                    elements = np.ascontiguousarray(file.elements_of(tensor)).tobytes()
                except Unmapped as error:
                    raise bad_data(str(error)) from error
                tensor.ClearField("external_data")
            yield _bytes(tensor) + elements


def _bytes(message: NodeProto | TensorProto) -> bytes:
    return message.SerializeToString(deterministic=True)
