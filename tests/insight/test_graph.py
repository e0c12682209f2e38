"""The graph of a model: its shape, its edges, and its text for Graphviz."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tflite_net import Net, T, write

from nnvk.cli.importing import Importing
from nnvk.importers.ports import ImportedModel
from nnvk.insight.graph import HEIGHT, WIDTH, Graph, graph_of
from nnvk.insight.graphviz import to_dot
from nnvk.insight.placement import compile_model, where


def made(net: Net, folder: Path) -> tuple[Graph, ImportedModel]:
    path = folder / "model.tflite"
    path.write_bytes(write(net))
    imported = Importing().load(path)
    placed = where(imported.model, compile_model(imported.model, None), imported.sources)
    return graph_of(imported.model.frozen, placed), imported


def chain(length: int, name: str = "layer") -> Net:
    """NEG, again and again."""
    net = Net([T("FLOAT32", (1, 2))], [T("FLOAT32", (1, 2))])
    before = net.inputs[0]
    for number in range(length - 1):
        after = T("FLOAT32", (1, 2), name=f"{name}{number}")
        net.op("NEG", [before], [after])
        before = after
    net.op("NEG", [before], net.outputs)
    return net


@pytest.mark.parametrize("length", [1, 5, 40, 150])
def test_a_chain_has_the_shape_of_a_screen(tmp_path: Path, length: int) -> None:
    graph, _ = made(chain(length), tmp_path)
    assert len(graph.nodes) == length + 2
    assert len({(node.x, node.y) for node in graph.nodes}) == length + 2
    wide = max(node.x for node in graph.nodes) - min(node.x for node in graph.nodes) + WIDTH
    high = max(node.y for node in graph.nodes) - min(node.y for node in graph.nodes) + HEIGHT
    if length >= 40:
        assert 1.2 < wide / high < 2.1
    columns = {node.key: node.column for node in graph.nodes}
    for edge in graph.edges:
        assert edge.in_column == (columns[edge.source] == columns[edge.target])
    assert sum(not edge.in_column for edge in graph.edges) == max(columns.values())


def test_branches_lie_beside_each_other(tmp_path: Path) -> None:
    net = Net([T("FLOAT32", (1, 2))], [T("FLOAT32", (1, 2))])
    left, right = (T("FLOAT32", (1, 2), name=name) for name in ("left", "right"))
    net.op("NEG", net.inputs, [left])
    net.op("ABS", net.inputs, [right])
    net.op("MAXIMUM", [left, right], net.outputs)
    graph, _ = made(net, tmp_path)
    ends = {(edge.source, edge.target): edge.label for edge in graph.edges}
    assert ends == dict.fromkeys(
        [("input0", "op0"), ("input0", "op1"), ("op0", "op2"), ("op1", "op2"), ("op2", "output0")], "1x2"
    )
    at = {node.key: node for node in graph.nodes}
    if at["op0"].column == at["op1"].column:
        assert at["op0"].y == at["op1"].y
        assert at["op0"].x != at["op1"].x
    assert at["op0"].lines[:2] == ("0 NEG", "left")
    assert at["op0"].device in graph.devices
    assert not at["input0"].device


def test_long_names_keep_their_ends(tmp_path: Path) -> None:
    graph, _ = made(chain(3, "a" * 60), tmp_path)
    line = graph.nodes[1].lines[1]
    assert len(line) == 28
    assert line.startswith("..a") and line.endswith("a0")


@pytest.mark.skipif(shutil.which("dot") is None, reason="there is no Graphviz")
def test_graphviz_reads_it_and_keeps_the_columns(tmp_path: Path) -> None:
    graph, _ = made(chain(40, 'x"\\n</a>\x1b '), tmp_path)
    text = to_dot(graph, 'a"b\\')
    drawn = json.loads(subprocess.run(["dot", "-Tjson"], input=text, capture_output=True, text=True, check=True).stdout)
    positions = {one["name"]: [float(x) for x in one["pos"].split(",")] for one in drawn["objects"] if "pos" in one}
    assert {node.key for node in graph.nodes} <= positions.keys()
    _, _, wide, high = (float(x) for x in drawn["bb"].split(","))
    assert 0.5 < wide / high < 2.5
    columns: dict[int, list[float]] = {}
    for node in graph.nodes:
        columns.setdefault(node.column, []).append(positions[node.key][0])
    middles = [sum(xs) / len(xs) for _, xs in sorted(columns.items())]
    assert len(middles) > 1
    assert all(max(xs) - min(xs) < 100 for xs in columns.values())
