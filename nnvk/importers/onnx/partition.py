"""Parts of a graph that onnxruntime has loaded: which nodes a device can run, and in which parts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from nnvk.api import Device
from nnvk.importers.cutting import Node as Operator
from nnvk.importers.cutting import connected_parts
from nnvk.importers.errors import NotConstant, OverBudget, Unmapped
from nnvk.importers.onnx.builder import DAMAGE, Shared
from nnvk.importers.onnx.edges import Edge, edges_of, resized
from nnvk.importers.onnx.errors import Malformed, OnnxImportError
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.importer import Import
from nnvk.importers.onnx.kinds import ELEMENTWISE
from nnvk.importers.onnx.node import Node
from nnvk.importers.onnx.parts import edges_of_nodes, part_of
from nnvk.importers.ports import ImportedModel
from nnvk.importers.shapes import is_far_too_large
from nnvk.types.operand import Shape

_NAME = "the graph"
_TRIED_SIZES = ((1, 1), (1, 32), (1, 48), (1, 224), (32, 32), (224, 224), (1, 16000))
"""Sizes that are tried for those that the graph leaves open: that of the first axis, often the batch, and of others.

They are a single one, a sequence's, a line of text's, an image's, and a second of speech's.
"""
_FEW = 64
"""The most elements of an input whose values a part waits for: for other values it is imported again."""
_CHEAP = ELEMENTWISE | {
    *("Concat", "Constant", "ConstantOfShape", "DepthToSpace", "DequantizeLinear", "Expand", "Flatten", "Gather"),
    *("GatherElements", "GatherND", "Identity", "NonZero", "OneHot", "Pad", "Range", "Reshape", "Shape", "Size"),
    *("Slice", "SpaceToDepth", "Split", "Squeeze", "ThresholdedRelu", "Tile", "Transpose", "Trilu", "Unsqueeze"),
}
"""Operators of ONNX that move elements, or compute each from few others."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes that a device runs."""

    reasons: list[str]
    """The reason why each node stays; empty where it does not."""
    parts: list[list[int]]
    """Positions of the nodes of each part, in the order of the graph."""


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
    reasons, values = _mapped(file, relaxed)
    alone = [one for one in values if takes_values and _waits_for_values(file, part_of(model, [one]), relaxed)]
    known: dict[tuple[int, ...], dict[int, str]] = {}
    while True:
        parts = connected_parts(nodes, [not reason for reason in reasons])
        refused: dict[int, str] = {}
        for part in parts:
            key = tuple(part)
            if key not in known:
                known[key] = _refusals(file, part_of(model, part), part, devices, relaxed, parts_wait)
            refused.update(known[key])
        if not refused:
            for position in alone:
                reasons[position] = ""
            choice = Choice(reasons, [*parts, *([position] for position in alone)])
            return choice if takes_all else _without_cheap(model.graph.node, nodes, choice)
        for position, reason in refused.items():
            reasons[position] = reason


def _without_cheap(protos: Sequence[NodeProto], nodes: Sequence[Operator[str]], choice: Choice) -> Choice:
    """The choice without parts of one cheap node that exchanges tensors with a node that stays."""
    reasons, parts = choice.reasons, choice.parts
    stays = [node for node, reason in zip(nodes, reasons, strict=True) if reason]
    written = {name for node in stays for name in node.writes}
    wanted = {name for node in stays for name in node.reads}
    kept = []
    for part in parts:
        proto, node = protos[part[0]], nodes[part[0]]
        is_cheap = len(part) == 1 and proto.op_type in _CHEAP and not proto.domain
        if is_cheap and (written.intersection(node.reads) or wanted.intersection(node.writes)):
            reasons[part[0]] = "it costs less than the way to the device and back, between nodes that stay"
        else:
            kept.append(part)
    return Choice(reasons, kept)


def fixed_shapes(file: OnnxFile) -> dict[str, Shape] | None:
    """The shapes of the inputs, or None where one is open or has no elements."""
    edges = edges_of(file.proto().graph)
    if any(size < 1 for edge in edges for size in edge.signature):
        return None
    return {edge.name: edge.shape for edge in edges}


# --- which nodes can be mapped ---------------------------------------------------------------------------------------


def _mapped(file: OnnxFile, relaxed: bool) -> tuple[list[str], list[int]]:
    """Why each node can't be mapped, and the positions of those that must know values of inputs.

    Open sizes are those that most nodes can be mapped with.
    """
    fewest: list[str] | None = None
    values: list[int] = []
    for sizes in _TRIED_SIZES:
        examiner = _Examiner(file.shared(relaxed), sizes)
        reasons = examiner.examine()
        if fewest is None or sum(map(bool, reasons)) < sum(map(bool, fewest)):
            fewest, values = reasons, examiner.values
        if not any(fewest):
            break
    return fewest or [], values


class _Examiner(Import):
    """Maps what can be mapped. The outputs of a node that can't be are inputs for those behind it.

    The problems of an import won't do: they leave out the nodes that depend on another one.
    """

    def __init__(self, shared: Shared, sizes: tuple[int, int]) -> None:
        """``sizes`` are in the place of open ones: on the first axis and on others."""
        super().__init__(shared, _NAME)
        self._reasons: dict[int, str] = {}
        self._ports = {port.name: port for port in (*self._proto.value_info, *self._proto.output)}
        self._sizes = sizes
        self.values: list[int] = []
        """The positions of the nodes that must know values of their inputs."""

    def examine(self) -> list[str]:
        """The reason why each node can't be mapped; empty where it can."""
        edges: list[Edge] = []
        for port in self._proto.input:
            try:
                edges += edges_of(GraphProto(input=[port], initializer=self._proto.initializer))
            except Malformed:  # an input of strings or of unknown rank
                self.lost.add(port.name)
        count = len(self._proto.node)
        try:
            self._map_nodes(self._without_empty(resized(edges, _opened(edges, self._sizes))))
        except OverBudget as error:
            return [str(error)] * count
        return [self._reasons.get(position, "") for position in range(count)]

    def has_stand_in(self, tensor: str) -> bool:
        """One is made of the type and shape that onnxruntime has inferred, as an input of a part would be."""
        caught: tuple[type[Exception], ...] = (Malformed, *DAMAGE.caught)
        try:
            edges = edges_of(GraphProto(input=[self._ports.get(tensor, ValueInfoProto(name=tensor))]))
            for edge in resized(edges, _opened(edges, self._sizes)):
                self._input(edge, None)
        except caught:
            return False
        return True

    def try_to_map(self, operator: Node) -> None:
        """Map a node, or keep the reason why it can't be mapped."""
        caught: tuple[type[Exception], ...] = (*DAMAGE.caught, RecursionError)
        inputs, _ = self.tensors_of(operator)
        lost = [name for name in inputs if name in self.lost]
        found = [name for name in lost if self.has_stand_in(name)]
        self.lost.difference_update(found)
        try:
            if len(found) < len(lost):
                raise Unmapped("the type or the shape of what it reads is known only when it runs")
            self.map(operator)
        except OverBudget:
            raise
        except caught as error:
            self._reasons[operator.index] = DAMAGE.reason(error)
            if isinstance(error, NotConstant):
                self.values.append(operator.index)
            self.give_up(operator)


def _opened(edges: Iterable[Edge], sizes: tuple[int, int]) -> dict[str, Shape]:
    """The shapes of inputs with open sizes, with other sizes in their place, on the first axis and on others.

    Where these make a tensor far too large, such as one with four open sizes, its open sizes are 1.
    """
    shapes = {
        edge.name: tuple(sizes[axis > 0] if own == -1 else own for axis, own in enumerate(edge.signature))
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


def _refusals(
    whole: OnnxFile,
    model: ModelProto,
    positions: Sequence[int],
    devices: Sequence[Device],
    relaxed: bool,
    parts_wait: bool,
) -> dict[int, str]:
    """Why nodes of a part, by their positions in the graph, stay all the same."""
    failed: OnnxImportError | Malformed | None = None
    fewest: dict[int, str] | None = None
    for sizes in _TRIED_SIZES:
        try:
            file = whole.part(model)
            file.infers_lost = False  # which takes a process
            imported = file.load(shapes=_opened(edges_of(model.graph), sizes), relaxed=relaxed)
        except (OnnxImportError, Malformed) as error:
            if parts_wait and isinstance(error, OnnxImportError) and error.waiting and _has_few(model, error.unknown):
                return {}
            failed = failed or error
            continue
        refused = _refused_by(devices, imported, positions)
        if fewest is None or len(refused) < len(fewest):
            fewest = refused
        if not refused:
            break
    if fewest is not None:
        return fewest
    problems = failed.problems if isinstance(failed, OnnxImportError) else ()
    of_nodes = {positions[one.index]: one.reason for one in problems if one.operation not in ("input", "output")}
    return of_nodes or dict.fromkeys(positions, f"its part can't be built: {failed}")


def _refused_by(devices: Sequence[Device], imported: ImportedModel, positions: Sequence[int]) -> dict[int, str]:
    """Why devices refuse the nodes of a part, by their positions in the graph."""
    refused: dict[int, str] = {}
    answers = zip(*(imported.model.get_support(device) for device in devices), strict=True)
    for source, answer in zip(imported.sources, answers, strict=True):
        if any(one.supported for one in answer):
            continue
        reasons = [f"{device.name}: {one.reason}" for device, one in zip(devices, answer, strict=True)]
        reason = f"the device does not run it: {', '.join(reasons)}"
        if source is None:
            return dict.fromkeys(positions, reason)
        refused.setdefault(positions[source.number], reason)
    return refused
