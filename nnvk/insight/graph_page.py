"""A model's graph as one HTML file that needs no network, with search and zoom by Cytoscape.js."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from nnvk.base.text import dimensions, plural, printable
from nnvk.insight.graph import Graph
from nnvk.insight.html import Table, render, script
from nnvk.insight.placement import Placed


def graph_page(title: str, graph: Graph, placed: Sequence[Placed]) -> str:
    """The file's text. Below the graph, a table has its operations and the reasons why devices refuse them."""
    rows = [
        (
            str(number),
            one.operation,
            "" if one.layer is None else one.layer.name,
            ", ".join(
                f"{type_.brief.partition(' ')[0]} {dimensions(type_.dimensions, unknown=0)}" for type_ in one.outputs
            ),
            one.device,
            one.reason,
        )
        for number, one in enumerate(placed)
    ]
    columns = ["#", "operation", "layer", "output", "device", "refused by"]
    nodes = [
        {
            **asdict(node),
            "label": "\n".join(printable(line) for line in node.lines),
            "text": " ".join(node.lines).lower(),
            "colour": graph.colour(node.device),
        }
        for node in graph.nodes
    ]
    return render(
        "graph.html",
        [script("cytoscape.min.js"), script("graph.js"), script("sort.js")],
        title=title,
        description=f"{plural(len(placed), 'operation')}, {plural(len(graph.edges), 'tensor')} between them",
        devices=[(device, graph.colour(device)) for device in graph.devices],
        graph={"nodes": nodes, "edges": [asdict(edge) for edge in graph.edges]},
        operations=Table("operations", "Operations in the order of execution", columns, rows, numbers=(0,)),
    )
