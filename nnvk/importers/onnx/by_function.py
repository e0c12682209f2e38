"""Nodes that a function of the user computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import AttributeProto, helper, numpy_helper

from nnvk.base.text import printable
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.node import Node
from nnvk.importers.onnx.tensors import Tensor, carrier
from nnvk.importers.user_functions import Given, add, has_states
from nnvk.importers.user_functions import Node as FunctionNode

_NUMBERS = frozenset({AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.FLOATS, AttributeProto.INTS})


def by_function(c: Context) -> list[Tensor | None]:
    """The outputs of a node that a function computes."""
    if any(one is not None and one.extent is not None for one in c.inputs):
        raise Unmapped("data decide the size of an input, which a function can't take")
    if has_states(c.node.kind):
        raise Unmapped("its function keeps states, which only .tflite files have")
    named = f" '{printable(c.node.name, NAME_SHOWN)}'" if c.node.name else ""
    node = FunctionNode(
        c.node.kind,
        f"operator {c.node.index} ({printable(c.node.kind, NAME_SHOWN)}{named})",
        [None if one is None else Given(c.plain(one), one.dtype, one.shape) for one in c.inputs],
        _attributes(c.node),
        len(c.node.outputs),
    )
    results = add(c.graph, node, lambda _, dtype: carrier(dtype))
    return [Tensor(result.dtype, result.shape, result.value) for result in results]


def _attributes(node: Node) -> dict[str, Any]:
    """Numbers, texts, arrays, and lists of numbers and texts, by name."""
    found: dict[str, Any] = {}
    for name, one in node.attributes().items():
        if one.type in _NUMBERS:
            value = helper.get_attribute_value(one)
            found[name] = value if isinstance(value, int | float) else list(value)
        elif one.type == AttributeProto.STRING:
            found[name] = node.text(name, "")
        elif one.type == AttributeProto.STRINGS:
            found[name] = node.texts(name)
        elif one.type == AttributeProto.TENSOR:
            array = numpy_helper.to_array(one.t)
            if array.dtype.kind not in "biuf" or array.dtype != np.dtype(array.dtype.name):
                raise Unmapped(f"attribute '{name}' must be of numbers that NumPy has, got {array.dtype}")
            found[name] = array
        else:
            kind = AttributeProto.AttributeType.Name(one.type)
            raise Unmapped(f"attribute '{name}' is {kind}, which a function can't take")
    return found
