"""The inputs of a model as its file declares them, and the quantisation of 8-bit inputs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import GraphProto

from nnvk.base.text import printable
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.onnx.errors import Inexpressible, Malformed
from nnvk.importers.onnx.narrow import Narrow
from nnvk.importers.onnx.quantisation import quantised_type
from nnvk.importers.onnx.reader import MAX_RANK, types_of
from nnvk.importers.onnx.scope import Scope
from nnvk.importers.shapes import Shapes, wanted_shapes
from nnvk.types.operand import OperandType, Shape

_LARGEST_SIZE, _MOST_ELEMENTS = (1 << 31) - 1, 1 << 59
"""Sizes are INT32 in NNAPI's shapes; NumPy's arrays can't be of more elements, not even where a size is 0."""
_OPEN = 1
"""The size that stands for one that the file leaves open."""
_MOVING = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_QUANTISED = {
    "DequantizeLinear": {0: (1, 2)},
    "QLinearConv": {0: (1, 2), 3: (4, 5)},
    "QLinearMatMul": {0: (1, 2), 3: (4, 5)},
}
"""Operators by the positions of their quantised inputs, and where the scale and the zero point of each are."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An input."""

    name: str
    dtype: np.dtype
    """The NumPy type that carries the elements."""
    shape: Shape
    signature: Shape
    """The shape in the file, with -1 for a size that it leaves open."""
    symbols: tuple[str, ...]
    """Names of open sizes, empty where they have none."""
    narrow: Narrow | None = None
    """The file's type if NumPy itself has none."""

    @property
    def stored(self) -> np.dtype:
        """The NumPy type of the elements as a caller has them."""
        return self.dtype if self.narrow is None else self.narrow.dtype


def edges_of(graph: GraphProto, needs_shapes: bool = True, given: Collection[str] = ()) -> list[Edge]:
    """The inputs of a graph; `Malformed` where one is no tensor of numbers.

    One without a shape is `Malformed`, too, or it is left out. One that has a value in the file is left out, unless a
    caller has ``given`` it another one.
    """
    constants = {one.name for one in graph.initializer}.difference(given)
    edges = []
    for port in graph.input:
        if port.name in constants:
            continue
        what = f"input '{printable(port.name, NAME_SHOWN)}'"
        declared = port.type
        if declared.WhichOneof("value") == "optional_type":  # a caller always gives it
            declared = declared.optional_type.elem_type
        if declared.WhichOneof("value") != "tensor_type":
            kind = declared.WhichOneof("value")
            raise (Inexpressible if kind else Malformed)(f"{what} must be a tensor, got {kind or 'no type'}")
        type_ = declared.tensor_type
        if not type_.HasField("shape"):
            if not needs_shapes:
                continue
            raise Inexpressible(f"{what} must have a shape, of which single sizes may be open")
        dims = type_.shape.dim
        if len(dims) > MAX_RANK or any(dim.dim_value < -1 for dim in dims):
            raise Malformed(f"{what} must have at most {MAX_RANK} dimensions from 0 up")
        signature = tuple(int(dim.dim_value) if dim.HasField("dim_value") else -1 for dim in dims)
        shape = tuple(_OPEN if size == -1 else size for size in signature)
        try:
            dtype, narrow = types_of(type_.elem_type, what)
        except Unmapped as error:
            raise Inexpressible(str(error)) from error
        carrier = dtype if narrow is None else narrow.carrier
        edges.append(Edge(port.name, carrier, shape, signature, tuple(dim.dim_param for dim in dims), narrow))
    return edges


def resized(edges: Sequence[Edge], shapes: Shapes) -> list[Edge]:
    """Inputs in other shapes; an open size that has a name is that size wherever the name is."""
    bound = []
    for edge, shape in zip(edges, wanted_shapes(edges, shapes), strict=True):
        if any(size > _LARGEST_SIZE for size in shape) or math.prod(size or 1 for size in shape) > _MOST_ELEMENTS:
            raise Malformed(f"input '{printable(edge.name, NAME_SHOWN)}' can't be of shape {list(shape)}")
        bound.append(replace(edge, shape=shape))
    return bound


def input_types(edges: Sequence[Edge], scope: Scope, constants: Mapping[str, np.ndarray]) -> dict[str, OperandType]:
    """The quantisation of 8-bit inputs, if an operator that reads them says it with ``constants``."""
    types = {}
    for edge in edges:
        if edge.dtype.kind not in "iu" or edge.dtype.itemsize != 1 or edge.narrow is not None:
            continue
        pending, seen = [edge.name], {edge.name}
        while pending and edge.name not in types:
            name = pending.pop()
            for position in scope.readers(name):
                node = scope.nodes[position]
                if node.op_type in _MOVING and node.input[0] == name:
                    moved = [one for one in node.output if one not in seen]
                    pending += moved
                    seen.update(moved)
                places = _QUANTISED.get(node.op_type, {})
                for place in (places.get(at, ()) for at, read in enumerate(node.input) if read == name):
                    given = [constants.get(node.input[one]) if one < len(node.input) else None for one in place]
                    type_ = None if not given or given[0] is None else quantised_type(edge.dtype, given[0], given[1])
                    if type_ is not None:
                        types[edge.name] = type_
    return types
