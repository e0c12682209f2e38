"""A model as a Graphviz graph, coloured by the device that runs each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnvk.base.text import dimensions
from nnvk.types.model import Lifetime, Model

_COLOURS = ("#8dd3c7", "#ffffb3", "#bebada", "#fb8072", "#80b1d3", "#fdb462", "#b3de69", "#fccde5")


def to_dot(model: Model, device_of: Mapping[int, str], name: str = "model") -> str:
    """The graph in the dot language. ``device_of`` names the device of each operation, by position.

    Operations are boxes, model inputs and outputs ellipses; edges carry the operand's type. Constants are left out.
    """
    devices = list(dict.fromkeys(device_of.values()))
    lines = [
        f"digraph {_quoted(name)} {{",
        "  rankdir=TB;",
        '  node [shape=box, style="filled,rounded", fontname=sans];',
    ]
    lines += _legend(devices)
    for kind, indexes in (("input", model.inputs), ("output", model.outputs)):
        for position, index in enumerate(indexes):
            label = _quoted(f"{kind} {position}\\n{model.operands[index].type.brief}")
            lines.append(f"  {kind}{position} [shape=ellipse, fillcolor=white, label={label}];")
    for number, operation in enumerate(model.operations):
        device = device_of.get(number, "")
        colour = _COLOURS[devices.index(device) % len(_COLOURS)] if device else "white"
        label = _quoted(f"{number} {operation}\\n{device}")
        lines.append(f'  op{number} [fillcolor="{colour}", label={label}];')
    return "\n".join([*lines, *_edges(model), "}", ""])


def _edges(model: Model) -> list[str]:
    writer = {index: f"op{number}" for number, operation in enumerate(model.operations) for index in operation.outputs}
    writer |= {index: f"input{position}" for position, index in enumerate(model.inputs)}
    edges = []
    for number, operation in enumerate(model.operations):
        for index in dict.fromkeys(operation.inputs):
            operand = model.operands[index]
            if index in writer and operand.lifetime is not Lifetime.CONSTANT:
                edges.append(f"  {writer[index]} -> op{number} [label={_quoted(dimensions(operand.type.dimensions))}];")
    edges += [
        f"  {writer[index]} -> output{position};" for position, index in enumerate(model.outputs) if index in writer
    ]
    return edges


def _legend(devices: Sequence[str]) -> list[str]:
    if not devices:
        return []
    nodes = [
        f'    legend{position} [label={_quoted(device)}, fillcolor="{_COLOURS[position % len(_COLOURS)]}"];'
        for position, device in enumerate(devices)
    ]
    return ["  subgraph cluster_devices {", '    label="devices"; fontname=sans;', *nodes, "  }"]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
