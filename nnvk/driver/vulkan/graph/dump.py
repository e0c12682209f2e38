"""Graphs as text, one line for each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.ops.call import Call, Tensor

Observe = Callable[[str, Iterable[str]], None]
"""Takes the name of a pass and the lines of what it has made."""
BUILD, LOWER = "build", "lower"
"""The names that stand for the operations before all passes, and for the commands that they are lowered to."""


def lines(graph: Graph) -> Iterator[str]:
    """The nodes of a graph in order: number of the operation, outputs, code, inputs and attributes.

    Calls that a node computes with another one follow in lines without a number.
    """
    for node in graph.nodes:
        number = f"{node.operation:>4}"
        for call in node.calls:
            outputs = ", ".join(_named(tensor) for tensor in call.outputs)
            yield f"{number}  {outputs} = {call.code.name}({', '.join(_arguments(call))})"
            number = " " * len(number)


def _arguments(call: Call) -> Iterator[str]:
    given = {tensor.index for tensor in call.outputs}
    for name, value in call.items():
        tensors = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Tensor)]
        if tensors:
            yield from (f"{name}={_named(tensor)}" for tensor in tensors if tensor.index not in given)
        elif not _is_default(value):
            yield f"{name}={value}"


def _is_default(value: Any) -> bool:
    return value is None or value == [] or value is False


def _named(tensor: Tensor) -> str:
    mark = "#" if tensor.is_constant else "%"
    kind = tensor.code.name.removeprefix("TENSOR_").lower()
    view = "" if tensor.view is None else f"@{tensor.view.box}"
    return f"{mark}{tensor.index}:{kind}{list(tensor.shape)}{view}".replace(" ", "")
