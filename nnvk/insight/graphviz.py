"""A model's graph in the language of Graphviz."""

from __future__ import annotations

from nnvk.base.text import printable
from nnvk.insight.graph import Graph, Node


def to_dot(graph: Graph, name: str) -> str:
    """The graph for the program ``dot``.

    Operations are boxes, model inputs and outputs ellipses; edges carry dimensions. Edges between columns don't put
    their ends below each other, so that ``dot`` keeps the columns.
    """
    lines = [
        f"digraph {_quoted(name)} {{",
        "  rankdir=TB; newrank=true;",
        '  node [shape=box, style="filled,rounded", fontname=sans]; edge [fontname=sans, fontsize=10];',
        *_legend(graph),
        *(_node(graph, node) for node in graph.nodes),
    ]
    for edge in graph.edges:
        more = "" if edge.in_column else ", constraint=false, style=dashed"
        lines.append(f"  {edge.source} -> {edge.target} [label={_quoted(edge.label)}{more}];")
    return "\n".join([*lines, "}", ""])


def _node(graph: Graph, node: Node) -> str:
    shape = "" if node.device else "shape=ellipse, "
    label = _quoted(*node.lines)
    return f'  {node.key} [{shape}fillcolor="{graph.colour(node.device)}", label={label}];'


def _legend(graph: Graph) -> list[str]:
    nodes = [
        f'    legend{place} [label={_quoted(device)}, fillcolor="{graph.colour(device)}"];'
        for place, device in enumerate(graph.devices)
    ]
    return ["  subgraph cluster_devices {", '    label="devices"; fontname=sans;', *nodes, "  }"] if nodes else []


def _quoted(*lines: str) -> str:
    """A string of lines in quotes. Names may hold anything."""
    escaped = (printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
