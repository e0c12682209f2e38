"""Parts of a graph that onnxruntime has loaded: which nodes a device can run, and in which parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, ValueInfoProto

from nnvk.api import Device
from nnvk.importers import charged
from nnvk.importers.choosing import Choice, choose, refused_by, without_cheap
from nnvk.importers.cutting import Node as Operator
from nnvk.importers.errors import NotConstant, OverBudget, Unmapped
from nnvk.importers.onnx.builder import DAMAGE, Shared
from nnvk.importers.onnx.edges import Edge, edges_of, resized
from nnvk.importers.onnx.errors import Malformed, OnnxImportError
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.importer import Import
from nnvk.importers.onnx.kinds import ELEMENTWISE
from nnvk.importers.onnx.node import Node
from nnvk.importers.onnx.parts import edges_of_nodes, part_of
from nnvk.importers.shapes import is_far_too_large, sums
from nnvk.types.operand import Shape

_NAME = "the graph"

_Sizes = tuple[int, int, str]
"""Sizes that are tried for those that the graph leaves open: on the first axis, often the batch, and on others.

The last is the name of the size that is the sum of both.
"""
_TRIED_SIZES = tuple((*sizes, "") for sizes in ((1, 1), (1, 32), (1, 48), (1, 224), (32, 32), (224, 224), (1, 16000)))
"""A single one, a sequence's, a line of text's, an image's, and a second of speech's."""
_FEW = 64
"""The most elements of an input whose values a part waits for: for other values it is imported again."""
_CHEAP = ELEMENTWISE | {
    *("Concat", "Constant", "ConstantOfShape", "DepthToSpace", "DequantizeLinear", "Expand", "Flatten", "Gather"),
    *("GatherElements", "GatherND", "Identity", "NonZero", "OneHot", "Pad", "Range", "Reshape", "Shape", "Size"),
    *("Slice", "SpaceToDepth", "Split", "Squeeze", "ThresholdedRelu", "Tile", "Transpose", "Trilu", "Unsqueeze"),
}
"""Operators of ONNX that move elements, or compute each from few others."""


def examine(
    file: OnnxFile,
    devices: Sequence[Device],
    relaxed: bool,
    *,
    takes_all: bool = False,
    takes_values: bool = False,
    parts_wait: bool = False,
) -> Choice:
    """The largest connected parts of a graph that can be imported and that ``devices`` run.

    A part of one cheap node beside nodes that stay would cost more to hand over than to run: it stays, unless
    ``takes_all``. With ``takes_values`` a node that must know small inputs at import, such as a shape, is a part by
    itself, which is imported when they are there. ``parts_wait``: so may whole parts be.
    """
    model = file.proto()
    nodes = edges_of_nodes(model.graph.node)
    mapped = _mapped(file, relaxed)
    alone = [
        one for one in mapped.values if takes_values and _waits_for_values(file, part_of(model, [one], nodes), relaxed)
    ]
    parts = _Parts(file, model, nodes, devices, relaxed, parts_wait, mapped.sizes)
    choice = choose(nodes, mapped.reasons, parts.refusals)
    for position in alone:
        choice.reasons[position] = ""
    choice.parts.extend([position] for position in alone)
    cheap = {at for at, node in enumerate(model.graph.node) if node.op_type in _CHEAP and not node.domain}
    return choice if takes_all else without_cheap(choice, nodes, cheap)


def fixed_shapes(file: OnnxFile) -> dict[str, Shape] | None:
    """The shapes of the inputs, or None where one is open or has no elements."""
    edges = edges_of(file.proto().graph)
    is_open = any(size < 1 for edge in edges for size in edge.signature)
    return None if is_open else {edge.name: edge.shape for edge in edges}


# --- which nodes can be mapped ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mapped:
    """The nodes that can be mapped with some sizes in the place of open ones."""

    reasons: list[str]
    """The reason why each node can't be mapped; empty where it can."""
    values: list[int]
    """The positions of the nodes that must know values of their inputs."""
    sizes: _Sizes


def _mapped(file: OnnxFile, relaxed: bool) -> _Mapped:
    """The nodes that can be mapped with the sizes that most can be mapped with."""
    best: _Mapped | None = None
    tried: list[tuple[list[Edge], dict[str, Shape]]] = []
    for sizes in _sizes_to_try(tried):
        if any(_opened(edges, sizes) == shapes for edges, shapes in tried):
            continue  # nothing else depends on them
        examiner = _Examiner(file.shared(relaxed), sizes, None if best is None else sum(map(bool, best.reasons)))
        best = examiner.examine() or best
        if best is not None and not any(best.reasons):
            break
        tried.append((examiner.edges, _opened(examiner.edges, sizes)))
    assert best is not None
    return best


def _sizes_to_try(tried: Sequence[tuple[Sequence[Edge], object]]) -> Iterator[_Sizes]:
    """All sizes in turn; those of sums are found in the inputs of the graph, which ``tried`` has."""
    yield from _TRIED_SIZES
    yield from ((1, 1, symbol) for symbol in sums(tried[0][0]))


class _Examiner(Import):
    """Maps what can be mapped. The outputs of a node that can't be are inputs for those behind it.

    The problems of an import won't do: they leave out the nodes that depend on another one.
    """

    def __init__(self, shared: Shared, sizes: _Sizes, most: int | None) -> None:
        """``sizes`` are in the place of open ones: on the first axis and on others.

        Others have left ``most`` nodes, unless it is None: no more than are fewer are of use.
        """
        super().__init__(shared, _NAME)
        self._reasons: dict[int, str] = {}
        self._ports = {port.name: port for port in (*self._proto.value_info, *self._proto.output)}
        self._sizes = sizes
        self._most = most
        self._values: list[int] = []
        self.edges: list[Edge] = []
        """The inputs, and those in the place of what nodes can't give."""

    def examine(self) -> _Mapped | None:
        """Map all nodes. None: the sizes are no better than others."""
        for port in self._proto.input:
            try:
                self.edges += edges_of(GraphProto(input=[port], initializer=self._proto.initializer))
            except Malformed:  # an input of strings or of unknown rank
                self.lost.add(port.name)
        count = len(self._proto.node)
        reasons = self._reasons
        try:
            self._map_nodes(self._without_empty(resized(self.edges, _opened(self.edges, self._sizes))))
        except OverBudget as error:
            if self._most is not None:
                return None
            reasons = dict.fromkeys(range(count), str(error))
        return _Mapped([reasons.get(position, "") for position in range(count)], self._values, self._sizes)

    def has_stand_in(self, tensor: str) -> bool:
        """One is made of the type and shape that onnxruntime has inferred, as an input of a part would be."""
        caught: tuple[type[Exception], ...] = (Malformed, *DAMAGE.caught)
        try:
            edges = edges_of(GraphProto(input=[self._ports.get(tensor, ValueInfoProto(name=tensor))]))
            self.edges += edges
            for edge in resized(edges, _opened(edges, self._sizes)):
                self._input(edge, None)
        except caught:
            return False
        return True

    def try_to_map(self, operator: Node) -> None:
        """Map a node, or keep the reason why it can't be mapped."""
        caught: tuple[type[Exception], ...] = (*DAMAGE.caught, RecursionError)
        lost = [name for name in self.tensors_of(operator)[0] if name in self.lost]
        found = [name for name in lost if self.has_stand_in(name)]
        self.lost.difference_update(found)
        try:
            if len(found) < len(lost):
                raise Unmapped("it reads texts or a list, or a tensor whose type or shape is known when it runs")
            with charged.against(self._budget):
                self.map(operator)
        except OverBudget:
            raise
        except caught as error:
            self._reasons[operator.index] = DAMAGE.reason(error)
            if isinstance(error, NotConstant):
                self._values.append(operator.index)
            self.give_up(operator)
            if len(self._reasons) == self._most:
                raise OverBudget("these sizes are no better than others") from error


def _opened(edges: Iterable[Edge], sizes: _Sizes) -> dict[str, Shape]:
    """The shapes of inputs with open sizes, with other sizes in their place, on the first axis and on others.

    Where these make a tensor far too large, such as one with four open sizes, its open sizes are 1.
    """
    first, others, total = sizes

    def size(axis: int, own: int, symbol: str) -> int:
        return own if own >= 0 else first + others if symbol and symbol == total else others if axis else first

    shapes = {
        edge.name: tuple(map(size, itertools.count(), edge.signature, edge.symbols))
        for edge in edges
        if -1 in edge.signature and 0 not in edge.signature
    }
    return {name: shape for name, shape in shapes.items() if not is_far_too_large(shape)}


def _waits_for_values(whole: OnnxFile, model: ModelProto, relaxed: bool) -> bool:
    """Whether a part can't be imported for nothing but the values of inputs, which are few.

    Graphs of control flow may be refused once the values are there.
    """
    if any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute):
        return False
    try:
        whole.part(model).load(shapes=_opened(edges_of(model.graph), _TRIED_SIZES[0]), relaxed=relaxed)
    except OnnxImportError as error:
        return _has_few(model, error.unknown)
    except Malformed:
        pass
    return False


def _has_few(model: ModelProto, unknown: Collection[str]) -> bool:
    """Whether inputs whose values an import must know are there, and all have few elements."""
    edges = edges_of(model.graph)
    few = {edge.name for edge in edges if -1 not in edge.signature and math.prod(edge.signature) <= _FEW}
    return bool(unknown) and few.issuperset(unknown)


# --- parts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of a file, which are tried for devices."""

    whole: OnnxFile
    model: ModelProto
    nodes: Sequence[Operator[str]]
    devices: Sequence[Device]
    relaxed: bool
    may_wait: bool
    likely: _Sizes
    """The sizes for which a part most likely can be imported."""

    def refusals(self, positions: Sequence[int]) -> dict[int, str]:
        """Why nodes of a part, by their positions in the graph, stay all the same."""
        model = part_of(self.model, positions, self.nodes)
        try:
            file = self.whole.part(model)
            edges = edges_of(model.graph)
        except (OnnxImportError, Malformed) as error:
            return dict.fromkeys(positions, f"its part can't be built: {error}")
        file.infers_lost = False  # which takes a process
        tried = [_opened(edges, sizes) for sizes in (*_TRIED_SIZES, self.likely)]
        tried = [shapes for at, shapes in enumerate(tried) if shapes not in tried[:at]]
        likely = _opened(edges, self.likely)
        refused: dict[int, dict[int, str]] = {}
        failed: dict[int, OnnxImportError] = {}
        for at, shapes in sorted(enumerate(tried), key=lambda one: one[1] != likely):
            try:
                refused[at] = refused_by(self.devices, file.load(shapes=shapes, relaxed=self.relaxed), positions)
                if not refused[at]:
                    return {}
            except OnnxImportError as error:
                if self.may_wait and error.waiting and _has_few(model, error.unknown):
                    return {}
                failed[at] = error
        if refused:
            return min((refused[at] for at in sorted(refused)), key=len)
        problems = [one for one in failed[0].problems if one.operation not in ("input", "output")]
        of_nodes = {positions[one.index]: one.reason for one in problems}
        return of_nodes or dict.fromkeys(positions, f"its part can't be built: {failed[0]}")
