"""Maps the nodes of graphs, and of the graphs and functions in them, into one graph of NNAPI operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from nnvk.api import Model
from nnvk.base.text import printable
from nnvk.importers.budget import PART_COST, Budget
from nnvk.importers.decompositions.int64 import together
from nnvk.importers.dynamic_extents import cut
from nnvk.importers.emitter import Emitter
from nnvk.importers.errors import NAME_SHOWN, NotConstant, OverBudget, Unmapped
from nnvk.importers.graph_builder import Graph, Value, at_least_1d
from nnvk.importers.onnx import extent_rules, int64
from nnvk.importers.onnx import mappers as mappers  # registers them
from nnvk.importers.onnx.by_function import by_function
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.folding import folded, is_foldable
from nnvk.importers.onnx.functions import Functions, versions_in
from nnvk.importers.onnx.node import Node, domain_of
from nnvk.importers.onnx.reader import Arrays
from nnvk.importers.onnx.registry import find
from nnvk.importers.onnx.scope import Scope, free_names, graphs_of
from nnvk.importers.onnx.tensors import F16, Tensor, constant
from nnvk.importers.recovery import Damage
from nnvk.importers.user_functions import is_function
from nnvk.types.codes import OperationCode

_MAX_DEPTH = 24
"""The most graphs and functions nested in each other."""
NODE_COST = 4 * PART_COST
"""The cost of a node, charged each time that a loop is unrolled: most of it is time."""
DAMAGE = Damage(
    (IndexError, KeyError, ValueError, TypeError, ArithmeticError, AttributeError, AssertionError),
    lambda error: f"its attributes or shapes make no sense ({type(error).__name__}: {error})",
)
_REAL = (np.float16, np.float32)
NO_COUNTERPART = "NNAPI has no counterpart of this operator"
"""The reason for an operator with neither a mapper nor a function."""


@dataclass(slots=True, eq=False)
class Shared:
    """The state that all graphs of an import share."""

    model: ModelProto
    versions: Mapping[str, int]
    functions: Functions
    arrays: Arrays
    budget: Budget
    relaxed: bool
    depth: int = 0
    scope: Scope | None = None
    """The scope of the model's graph, which is entered once, unlike a branch and the body of a loop."""
    numbers: Sequence[int] = ()
    """The numbers of the model's nodes, if they are a part of those of the file."""
    infers_lost: bool = True
    """See `OnnxFile`."""
    lists_all: bool = True
    """Whether an error is to have all problems: else an import ends at one that no waiting explains."""
    keeps_doubles: bool = False
    """See `FileInParts`."""


class Builder:
    """Maps nodes into one graph of NNAPI operations."""

    def __init__(self, shared: Shared, graph: Graph) -> None:
        self.shared = shared
        self.graph = graph

    def enter(self, graph: GraphProto, outer: Scope | None = None) -> Scope:
        """The scope of a graph."""
        scope = Scope(graph.node, [one.name for one in graph.output], outer)
        for tensor in graph.initializer:
            scope.initializers[tensor.name] = tensor
        return scope

    # --- nodes ---------------------------------------------------------------------------------------------------

    def run(
        self, scope: Scope, versions: Mapping[str, int], index: int, arguments: Mapping[str, AttributeProto]
    ) -> None:
        """Map all nodes of a graph or function in another node, the one at ``index``."""
        if self.shared.depth >= _MAX_DEPTH:
            raise Unmapped(f"graphs and functions are nested more than {_MAX_DEPTH} deep")
        self.shared.budget.charge(NODE_COST)
        self.shared.depth += 1
        try:
            for position in scope.order:
                if position in scope.absorbed:
                    continue
                proto = scope.nodes[position]
                node = Node(proto, versions.get(domain_of(proto.domain), 1), index, arguments)
                try:
                    self.map(scope, node, versions)
                except OverBudget:
                    raise
                except DAMAGE.caught as error:
                    named = f" '{printable(node.name, NAME_SHOWN)}'" if node.name else ""
                    text = f"in it, {printable(node.kind, NAME_SHOWN)}{named}: {DAMAGE.reason(error)}"
                    if isinstance(error, NotConstant):
                        raise NotConstant(text, made_of(scope, error.tensors)) from error
                    raise Unmapped(text) from error
        finally:
            self.shared.depth -= 1

    def map(self, scope: Scope, node: Node, versions: Mapping[str, int]) -> None:
        """Map one node, and bind its outputs."""
        self.shared.budget.charge(NODE_COST)
        inputs = [self.read(scope, name) if name else None for name in node.inputs]
        around = _Around(self, scope, node, versions)
        self._keep_doubles(node, inputs)  # before it may wait for values
        outputs = self._outputs(node, inputs, around)
        self._keep_doubles(node, inputs, outputs)
        names = list(node.outputs)
        if around.absorbed is not None:
            names[0] = around.absorbed.outputs[0]
            scope.absorbed.add(around.absorbed.position)
        for name, tensor in zip(names, outputs, strict=False):
            if name and tensor is not None:
                if scope.has(name):
                    raise Unmapped(f"its output '{printable(name, NAME_SHOWN)}' has a value already")
                scope.tensors[name] = tensor

    def _keep_doubles(self, node: Node, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None] = ()) -> None:
        """`Unmapped`: it depends on FLOAT64 that a model computes, or has as an input, other than by its FLOAT32."""
        if not self.shared.keeps_doubles or is_function(node.kind) or node.op_type in ("Shape", "Size"):
            return
        needs = any(map(_is_double, (*inputs, *outputs)))
        if needs and node.op_type in ("Cast", "CastLike"):
            if not outputs or (source := inputs[0]) is None or (result := outputs[0]) is None:
                return
            needs = result.dtype not in _REAL if _is_double(source) else not np.can_cast(source.dtype, np.float32)
        if needs:
            raise Unmapped("it computes with FLOAT64, which NNAPI does not have")

    def is_known(self, node: Node) -> bool:
        """Whether there is a mapper or a function for a node, whatever its inputs are."""
        return bool(
            is_function(node.kind) or find(node.kind) or self.shared.functions.body(node, [None] * len(node.inputs))
        )

    def missing_in(self, node: Node, versions: Mapping[str, int]) -> Counter[str]:
        """The operators without a counterpart in the graphs and functions that a node has, and how many nodes of each.

        Functions that several nodes use count once.
        """
        missing: Counter[str] = Counter()
        seen: set[tuple[str, str]] = set()
        pending: list[tuple[Node, Mapping[str, int]]] = [(node, versions)]
        while pending:
            self.shared.budget.charge(NODE_COST)
            outer, known = pending.pop()
            inner = [(proto, known) for graph in graphs_of(outer.proto) for proto in graph.node]
            body = self.shared.functions.of_model(outer)
            key = domain_of(outer.proto.domain), outer.op_type
            if body is not None and key not in seen:
                seen.add(key)
                own = versions_in(body, known)
                inner += [(proto, own) for proto in body.node]
            for proto, given in inner:
                one = Node(proto, given.get(domain_of(proto.domain), 1), node.index)
                if not (self.is_known(one) or is_foldable(one)):
                    missing[one.kind] += 1
                pending.append((one, given))
        return missing

    def _outputs(self, node: Node, inputs: Sequence[Tensor | None], around: _Around) -> Sequence[Tensor | None]:
        if is_function(node.kind):
            return by_function(Context(self.graph, node, inputs, around))
        done = folded(node, inputs, self.shared.budget)
        if done is not None:
            return done
        mapper = find(node.kind)
        if mapper is not None:
            context = Context(self.graph, node, inputs, around)
            extent_rules.check(context)
            result = int64.mapped(context, mapper)
            several = [result] if isinstance(result, Value | Tensor) or result is None else result
            outputs = [context.give(one) if isinstance(one, Value) else one for one in several]
            extent_rules.pass_on(context, outputs)
            return outputs
        body = self.shared.functions.body(node, inputs)
        if body is None:
            raise Unmapped(NO_COUNTERPART)
        return self._function(node, inputs, *body)

    def _function(
        self,
        node: Node,
        inputs: Sequence[Tensor | None],
        body: FunctionProto,
        arguments: Mapping[str, AttributeProto],
    ) -> list[Tensor | None]:
        versions = versions_in(body, self.shared.versions)
        scope = Scope(body.node, list(body.output))
        for name, tensor in zip(body.input, inputs, strict=False):
            if tensor is not None:
                scope.tensors[name] = tensor
        # An input that is left out is left out by the nodes in the body as well.
        absent = {*body.input} - scope.tensors.keys()
        scope.nodes = [_without(proto, absent) for proto in scope.nodes] if absent else scope.nodes
        try:
            self.run(scope, versions, node.index, arguments)
        except NotConstant as error:
            outside = dict(zip(body.input, node.inputs, strict=False))
            tensors = frozenset(outside[name] for name in error.tensors if name in outside)
            raise NotConstant(str(error), tensors) from error
        return [
            self.read(scope, name) if wanted else None for name, wanted in zip(body.output, node.outputs, strict=False)
        ]

    # --- tensors -------------------------------------------------------------------------------------------------

    def read(self, scope: Scope, name: str) -> Tensor:
        """The tensor of a name."""
        found = scope.find(name)
        if found is None:
            where, shown = scope.writer(name), printable(name, NAME_SHOWN)
            if where is not None and not scope.has_cycle:
                kind = printable(scope.nodes[where].op_type, NAME_SHOWN)
                raise Unmapped(f"node {where} ({kind}) has no such output as '{shown}'")
            behind = "" if where is None else f", node {where} behind it does: there is a cycle"
            raise Unmapped(f"no node before it gives '{shown}'{behind}")
        owner, tensor = found
        if tensor is None:
            proto = owner.initializers.pop(name)
            arrays = self.shared.arrays
            # Scopes inside the model's are entered as often as a loop is unrolled.
            array = arrays.take(proto) if owner is self.shared.scope else arrays.read(proto)
            tensor = owner.tensors[name] = constant(array)
        return tensor

    def edge(self, tensor: Tensor) -> Value:
        """A tensor as an output of a graph: what it stands for, where it is of real numbers, and what of it counts."""
        helper = Context(self.graph, _NOBODY, [tensor], _Nowhere())
        value = helper.plain(tensor) if tensor.dtype.kind == "f" else helper.carried(tensor)
        known = tensor.extent
        return value if known is None else value.once("cut", lambda: cut(helper, value, known))

    def widened(self, value: Value) -> Value:
        """An input of the model as nodes read it: FLOAT16 in FLOAT32."""
        if value.code is not F16.code:
            return value
        wide = Emitter(self.graph).widened(value)
        wide.once("half", lambda: value)
        return wide

    def output(self, tensor: Tensor) -> Value:
        """A tensor as an output of the whole model: FLOAT16 rounded, and both words of numbers that may need them."""
        helper = Context(self.graph, _NOBODY, [tensor], _Nowhere())
        if tensor.extent is None and helper.needs_words(tensor):
            assert tensor.words is not None
            return together(helper, tensor.words)
        value = self.edge(tensor)
        return helper.halved(value) if tensor.dtype == np.float16 else value


def made_of(scope: Scope, names: Iterable[str]) -> frozenset[str]:
    """The tensors, and all tensors that they are computed from."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        writer = scope.writer(name)
        if writer is not None:
            pending += scope.nodes[writer].input
    return frozenset(found)


def _is_double(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype == np.float64 and not tensor.is_constant


def _without(proto: NodeProto, absent: set[str]) -> NodeProto:
    if absent.isdisjoint(proto.input):
        return proto
    plain = NodeProto()
    plain.CopyFrom(proto)
    for position, name in enumerate(plain.input):
        if name in absent:
            plain.input[position] = ""
    return plain


class _Around:
    """The interface to the graph of a node that its mapper may use."""

    def __init__(self, builder: Builder, scope: Scope, node: Node, versions: Mapping[str, int]) -> None:
        self._builder = builder
        self._scope = scope
        self._node = node
        self._versions = versions
        self.absorbed: Node | None = None
        """The follower whose work the node does."""

    def follower(self, name: str) -> Node | None:
        """The one node that reads a tensor, which is no output of the model; None where there are others."""
        position = self._scope.only_reader(name)
        if position is None:
            return None
        proto = self._scope.nodes[position]
        return Node(
            proto, self._versions.get(domain_of(proto.domain), 1), self._node.index, self._node.arguments, position
        )

    def constant(self, name: str) -> np.ndarray | None:
        """The elements of a tensor, where they are known before it is read."""
        if self._scope.find(name) is not None:
            return self._builder.read(self._scope, name).known_array
        writer = self._scope.writer(name)
        if writer is None or self._scope.nodes[writer].op_type != "Constant":
            return None
        with suppress(Unmapped):
            proto = self._scope.nodes[writer]
            done = folded(Node(proto, self._versions.get("", 1), self._node.index), [], self._builder.shared.budget)
            return done[0].known_array if done else None
        return None

    def absorb(self, node: Node) -> None:
        """Say that a follower is done: its output is that of the node that is mapped."""
        self.absorbed = node

    def inlined(self, graph: GraphProto, given: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of a graph in this one, whose inputs are ``given``."""
        if len(graph.input) != len(given):
            raise Unmapped(f"its graph must have {len(given)} inputs, got {len(graph.input)}")
        scope = self._builder.enter(graph, self._scope)
        for port, tensor in zip(graph.input, given, strict=True):
            scope.tensors[port.name] = tensor
        self._builder.run(scope, self._versions, self._node.index, self._node.arguments)
        return [self._builder.read(scope, one.name) for one in graph.output]

    def choice(self, condition: Value, branches: Sequence[GraphProto]) -> list[Tensor]:
        """The outputs of an IF between two graphs."""
        names = list(dict.fromkeys(name for graph in branches for name in free_names(graph)))
        captured = {name: self._builder.read(self._scope, name) for name in names}
        inputs = {name: tensor for name, tensor in captured.items() if not tensor.is_constant}
        for name, tensor in captured.items():
            if tensor.extent is not None:
                raise Unmapped(
                    f"data decide the size of tensor '{printable(name, NAME_SHOWN)}', which goes into a branch"
                )
        try:
            made = [self._branch(graph, captured) for graph in branches]
            (model, ports), (other, others) = made
            for one, two in zip(ports, others, strict=True):
                if (one.dtype, one.shape) != (two.dtype, two.shape):
                    raise Unmapped(
                        f"its branches give {one.dtype} {list(one.shape)} and {two.dtype} {list(two.shape)}: "
                        "NNAPI's have one shape"
                    )
        except OverBudget:
            raise
        except Unmapped as error:  # a branch that is not the one: whoever knows the condition does not need it
            raise NotConstant(str(error), frozenset(self._node.inputs)) from error
        outs = list(model.frozen.output_types())
        edges = [self._builder.graph.edge(self._builder.edge(tensor)) for tensor in inputs.values()]
        values = self._builder.graph.emit(
            OperationCode.IF,
            [condition, model, other, *edges],
            outs,
            declared=[out.dimensions for out in outs],
        )
        helper = Context(self._builder.graph, self._node, [], self)
        return [
            Tensor(port.dtype, port.shape, helper.reshape(value, at_least_1d(port.shape)))
            for value, port in zip(values, ports, strict=True)
        ]

    def _branch(self, graph: GraphProto, captured: Mapping[str, Tensor]) -> tuple[Model, list[Tensor]]:
        shared = self._builder.shared
        builder = Builder(shared, Graph(shared.budget, shared.relaxed))
        scope = builder.enter(graph)
        names = []
        for name, tensor in captured.items():
            if tensor.is_constant:
                scope.tensors[name] = Tensor(tensor.dtype, tensor.shape, None, tensor.constant, tensor.levels)
                continue
            edge = self._builder.edge(tensor)
            value = builder.graph.input(edge.type, edge.known)
            scope.tensors[name] = Tensor(
                tensor.dtype, tensor.shape, builder.graph.reshape(value, at_least_1d(tensor.shape))
            )
            names.append(name)
        builder.run(scope, self._versions, self._node.index, self._node.arguments)
        outputs = [builder.read(scope, one.name) for one in graph.output]
        if any(tensor.extent is not None for tensor in outputs):
            raise Unmapped("data decide the size of what a branch gives")
        # Levels of the other branch may have another scale.
        plain = [Context(builder.graph, _NOBODY, [tensor], _Nowhere()).plain(tensor) for tensor in outputs]
        model = builder.graph.finish(plain, names)
        return model, outputs


class _Nowhere:
    """The surroundings of no node."""

    def follower(self, name: str) -> Node | None:
        return None

    def constant(self, name: str) -> np.ndarray | None:
        return None

    def absorb(self, node: Node) -> None:
        raise AssertionError("there is no follower")

    def inlined(self, graph: GraphProto, given: Sequence[Tensor]) -> list[Tensor]:
        raise AssertionError("there is no graph")

    def choice(self, condition: Value, branches: Sequence[GraphProto]) -> list[Tensor]:
        raise AssertionError("there is no graph")


_NOBODY = Node(NodeProto(), 1, 0)
