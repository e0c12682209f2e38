"""Parts of a graph as models of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from nnvk.importers.cutting import Cut, Node, cut, read_by
from nnvk.importers.onnx.scope import graphs_of, reads
from nnvk.importers.ports import Port

_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
"""Operators whose results differ in a copy of a node, even if all inputs are constant. Programs may map Multinomial."""


def part_of(model: ModelProto, positions: Sequence[int], edges: Sequence[Node[str]] = ()) -> ModelProto:
    """A model of some nodes. Its outputs are what other nodes, or the caller of the graph, read of them.

    ``edges`` are those of all nodes (`edges_of_nodes`), for who takes several parts.
    """
    edges = edges or edges_of_nodes(model.graph.node)
    inside = set(positions)
    wanted = {port.name for port in model.graph.output}
    wanted.update(*(node.reads for at, node in enumerate(edges) if at not in inside))
    own = [edges[position] for position in positions]
    outputs = [name for node in own for name in node.writes if name in wanted]
    return _model(model, positions, read_by(own), outputs)


def edges_of_nodes(nodes: Iterable[NodeProto]) -> list[Node[str]]:
    """The tensors that each node reads, and those that it writes."""
    return list(map(_edges, nodes))


def _model(
    model: ModelProto,
    positions: Sequence[int],
    read: Iterable[str],
    outputs: Sequence[str],
    constants: Sequence[TensorProto] = (),
) -> ModelProto:
    """A model of some nodes; ``read`` are its inputs, except for the constants among them.

    ``constants`` are tensors that the whole model has as inputs.
    """
    graph = model.graph
    nodes = [graph.node[position] for position in positions]
    named = set(read)
    written = {name for node in nodes for name in node.output}
    ports = {port.name: port for port in (*graph.value_info, *graph.output, *graph.input)}
    made = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    made.graph.name = graph.name
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(one for one in (*graph.initializer, *constants) if one.name in named)
    stored = {one.name for one in made.graph.initializer}
    made.graph.input.extend(ports.get(name, ValueInfoProto(name=name)) for name in read if name not in stored)
    made.graph.output.extend(ports.get(name, ValueInfoProto(name=name)) for name in outputs)
    made.graph.value_info.extend(ports[name] for name in written if name in ports and name not in outputs)
    return made


# --- a graph in two --------------------------------------------------------------------------------------------------


def cut_model(
    model: ModelProto, waiting: Collection[int], constants: Sequence[TensorProto] = ()
) -> tuple[Cut[str], ModelProto, ModelProto]:
    """Cut a graph in front of nodes, by their positions. The rest's inputs are not declared yet.

    The first part has all inputs of the graph. ``constants`` are inputs that have a value.
    """
    graph = model.graph
    stored = {one.name for one in (*graph.initializer, *constants)}
    inputs = [port.name for port in graph.input if port.name not in stored]
    random = {*_RANDOM}
    if not random.isdisjoint(_kinds(node for one in model.functions for node in one.node)):
        random.update(one.name for one in model.functions)  # one may use another
    edges = [_edges(node, varies=not random.isdisjoint(_kinds([node]))) for node in graph.node]
    found = cut(edges, inputs, [port.name for port in graph.output], stored, waiting)
    ahead, behind = (read_by(edges[position] for position in positions) for positions in (found.first, found.rest))
    constant_outputs = [name for name in found.first_outputs if name in stored]
    read = dict.fromkeys([*inputs, *ahead, *constant_outputs])
    first = _model(model, found.first, read, found.first_outputs, constants)
    first.doc_string, first.producer_name = model.doc_string, model.producer_name
    first.model_version, first.graph.doc_string = model.model_version, graph.doc_string
    rest = _model(model, found.rest, [name for name in behind if name in stored], found.rest_outputs, constants)
    return found, first, rest


def _edges(node: NodeProto, varies: bool = False) -> Node[str]:
    return Node(list(reads(node)), [name for name in node.output if name], varies)


def _kinds(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """The operators of nodes and of the graphs in them."""
    for node in nodes:
        yield node.op_type
        for graph in graphs_of(node):
            yield from _kinds(graph.node)


def declare(rest: ModelProto, ports: Sequence[Port]) -> None:
    """Declare the inputs of a model: they are like these outputs of another one, and their sizes are open."""
    del rest.graph.input[:]
    for port in ports:
        type_ = helper.np_dtype_to_tensor_dtype(port.dtype)
        rest.graph.input.append(helper.make_tensor_value_info(port.name, type_, [None] * len(port.shape)))


def is_declared(model: ModelProto, ports: Sequence[Port]) -> bool:
    """Whether a model has been declared to have inputs like these outputs of another one."""
    wanted = ModelProto()
    declare(wanted, ports)
    return list(wanted.graph.input) == list(model.graph.input)
