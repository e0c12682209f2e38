"""One node of a graph, with its attributes checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Source

T = TypeVar("T")
_Kind = AttributeProto.AttributeType
_DEFAULT_DOMAINS = ("", "ai.onnx")


def domain_of(name: str) -> str:
    """A domain by its one name: ONNX's own has two."""
    return "" if name in _DEFAULT_DOMAINS else name


@dataclass(slots=True, eq=False)
class Node:
    """A node. ``index`` is its position in the model's graph, of what is in another node that node's."""

    proto: NodeProto
    version: int
    """The version of its domain's operators."""
    index: int
    arguments: Mapping[str, AttributeProto] = field(default_factory=dict)
    """The attributes of the function that the node is in, which its own may refer to."""
    position: int = -1
    """Its position in the graph that it is in, of a node that is looked at ahead."""

    @property
    def kind(self) -> str:
        """The operator's name, with its domain where that is not ONNX's own."""
        domain = domain_of(self.proto.domain)
        return f"{domain}.{self.proto.op_type}" if domain else self.proto.op_type

    @property
    def op_type(self) -> str:
        """The operator's name in its domain."""
        return self.proto.op_type

    @property
    def name(self) -> str:
        """The node's name in the file."""
        return self.proto.name

    @property
    def source(self) -> Source:
        """The node for messages; one without a name has that of its first output."""
        return Source(self.index, self.kind, self.name or next(iter(self.proto.output), ""))

    @property
    def inputs(self) -> list[str]:
        """Names of tensors, empty for one that is left out."""
        return list(self.proto.input)

    @property
    def outputs(self) -> list[str]:
        """Names of tensors, empty for one that nobody wants."""
        return list(self.proto.output)

    def attributes(self) -> dict[str, AttributeProto]:
        """All attributes that are given, those of the function in the place of what refers to them."""
        found = {}
        for one in self.proto.attribute:
            if one.ref_attr_name:
                if one.ref_attr_name in self.arguments:
                    found[one.name] = self.arguments[one.ref_attr_name]
            else:
                found[one.name] = one
        return found

    def _attribute(self, name: str, kind: int, get: str, default: T) -> Any | T:
        one = self.attributes().get(name)
        if one is None:
            return default
        if one.type != kind:
            raise Unmapped(f"attribute '{name}' must be {_Kind.Name(kind)}, got {_Kind.Name(one.type)}")
        return getattr(one, get)

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.attributes()

    def integer(self, name: str, default: int) -> int:
        """An INT."""
        return int(self._attribute(name, _Kind.INT, "i", default))

    def real(self, name: str, default: float) -> float:
        """A FLOAT; a default is rounded as the file would have it."""
        return float(np.float32(self._attribute(name, _Kind.FLOAT, "f", default)))

    def text(self, name: str, default: str) -> str:
        """A STRING."""
        found = self._attribute(name, _Kind.STRING, "s", default)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)

    def integers(self, name: str) -> list[int] | None:
        """INTS, None where they are not given."""
        found = self._attribute(name, _Kind.INTS, "ints", None)
        return None if found is None else [int(one) for one in found]

    def reals(self, name: str) -> list[float] | None:
        """FLOATS, None where they are not given."""
        found = self._attribute(name, _Kind.FLOATS, "floats", None)
        return None if found is None else [float(one) for one in found]

    def texts(self, name: str) -> list[str] | None:
        """STRINGS, None where they are not given."""
        found = self._attribute(name, _Kind.STRINGS, "strings", None)
        return None if found is None else [one.decode("utf-8", "replace") for one in found]

    def tensor(self, name: str) -> TensorProto | None:
        """A TENSOR, None where it is not given."""
        found: TensorProto | None = self._attribute(name, _Kind.TENSOR, "t", None)
        return found

    def graph(self, name: str) -> GraphProto:
        """A GRAPH, which must be given."""
        found: GraphProto | None = self._attribute(name, _Kind.GRAPH, "g", None)
        if found is None:
            raise Unmapped(f"attribute '{name}' is missing, a graph")
        return found
