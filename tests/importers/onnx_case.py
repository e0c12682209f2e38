"""A node of ONNX that the importer can't map, and the least change of one that it maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx_net import model, op

from nnvk.base.packets import Writer
from nnvk.importers.onnx import ImportedModel, OnnxImportError, load
from nnvk.types.encoding import write_model

F, I64 = np.float32, np.int64
MICROSOFT = "com.microsoft"


@dataclass
class Case:
    """A node; its inputs are those that are tensors and those that are constants, in the order of their names."""

    kind: str
    inputs: Mapping[str, Any]
    reason: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    good: Mapping[str, Any] = field(default_factory=dict)
    """The inputs and attributes by which a node that is mapped differs."""
    outputs: str = "y"
    opset: int = 17
    domain: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"

    def load(self, **changes: Any) -> ImportedModel:
        """Import the node, with other inputs or attributes."""
        given = {**self.inputs, **{name: value for name, value in changes.items() if name in self.inputs}}
        attributes = {**self.attributes, **{name: value for name, value in changes.items() if name not in given}}
        attributes = {name: value for name, value in attributes.items() if value is not None}
        free = {name: value for name, value in given.items() if isinstance(value, tuple)}
        constants = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        free = free or {"unread": x(1)}  # a model has at least one input
        names = " ".join("-" if value is None else name for name, value in given.items())
        node = op(self.kind, names, self.outputs, domain=self.domain, **attributes)
        wanted = [name for name in self.outputs.split() if name != "-"]
        return load(model([node], free, wanted, constants, opset=self.opset).SerializeToString())

    def encoded(self, **changes: Any) -> bytes:
        """All of the model of the node, with other inputs or attributes: operations, operands, constants and edges."""
        imported, writer = self.load(**changes), Writer()
        write_model(writer, imported.model.frozen)
        edges = [(port.file_type, port.shape) for port in imported.outputs]
        return b"".join([*map(bytes, writer.parts), repr(edges).encode()])

    def check(self) -> None:
        """The node is refused for the reason, and the one beside it is mapped."""
        with pytest.raises(OnnxImportError) as raised:
            self.load()
        assert self.reason in raised.value.reason, raised.value.reason
        assert f"operator 0 ({f'{self.domain}.' * bool(self.domain)}{self.kind})" in raised.value.reason
        self.load(**self.good)


def x(*shape: int, dtype: Any = F) -> tuple[Any, list[int]]:
    """An input of the model."""
    return dtype, list(shape)


def ints(*values: int) -> np.ndarray:
    """A constant."""
    return np.array(values, I64)
