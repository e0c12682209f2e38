"""A model on the device: segments, each recorded as a whole, and control flow between them, decided by the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnvk.base import forks
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.running.buffer import Buffers
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.running.segment import Segment, segment_options
from nnvk.driver.vulkan.running.workspaces import Workspaces
from nnvk.ops.flow import CONTROL_FLOW, handed_on, referenced_models
from nnvk.ops.registry import lookup
from nnvk.types.extract import Extract, extract
from nnvk.types.model import Model, Operation
from nnvk.types.request import PrepareOptions


@dataclass(frozen=True, slots=True, eq=False)
class Straight:
    """Operations without control flow, which run as one segment."""

    operations: range
    part: Extract
    segment: Segment


@dataclass(frozen=True, slots=True, eq=False)
class Control:
    """An IF or WHILE."""

    number: int
    operation: Operation
    programs: tuple[ModelProgram, ...]
    """The programs of the models that the operation refers to."""


Node = Straight | Control


class Factory:
    """Makes the programs of a model and of all models that it refers to, each once."""

    def __init__(self, gpu: Gpu, buffers: Buffers, planner: Planner, options: PrepareOptions) -> None:
        self._gpu = gpu
        self._buffers = buffers
        self._planner = planner
        families = {} if options.families is None else options.families
        self._options = replace(options, families=families)
        self.workspaces: Workspaces = families.setdefault((Workspaces, gpu), Workspaces())
        """The memory that executions of all segments use in turn."""
        self._segments = 0

    def program(self, model: Model) -> ModelProgram:
        """The program of a model."""
        made: dict[Model, ModelProgram] = {}
        for each in (*model.referenced(), model):
            made[each] = ModelProgram(each, self, made)
        return made[model]

    def segment(self, model: Model) -> Segment:
        """A segment that runs a model."""
        name, self._segments = str(self._segments), self._segments + 1
        options = segment_options(self._options, name) if self._segments > 1 else self._options
        return Segment(self._gpu, self._buffers, self.workspaces, self._planner, model, options)


class ModelProgram:
    """The program of a model: nodes in the order of execution.

    A segment ends before an IF or WHILE and after an operation whose data decides the shapes of its outputs. Planning
    may split it before an operation that is lowered for a value that the segment computes.
    """

    def __init__(self, model: Model, factory: Factory, programs: dict[Model, ModelProgram]) -> None:
        self.model = model
        """The model that the program runs."""
        self._factory = factory
        self._lock = forks.lock()
        nodes: list[Node] = []
        begin = 0
        for number, operation in enumerate(model.operations):
            if operation.code in CONTROL_FLOW:
                nodes += self._straight(range(begin, number))
                inner = tuple(programs[referenced] for referenced in referenced_models(model, operation))
                nodes.append(Control(number, operation, inner))
                begin = number + 1
            elif lookup(operation.code).largest is not None:
                nodes += self._straight(range(begin, number + 1))
                begin = number + 1
        nodes += self._straight(range(begin, len(model.operations)))
        self.nodes: tuple[Node, ...] = tuple(nodes)

    @property
    def single(self) -> Segment | None:
        """The segment that runs the whole model, if there is one."""
        if len(self.nodes) != 1 or not isinstance(self.nodes[0], Straight):
            return None
        return self.nodes[0].segment

    def split(self, node: Straight, operation: int) -> None:
        """Split a segment before the operation at this position in it."""
        with self._lock:
            if node in self.nodes:
                at = self.nodes.index(node)
                first, second = node.operations[:operation], node.operations[operation:]
                self.nodes = (*self.nodes[:at], *self._straight(first), *self._straight(second), *self.nodes[at + 1 :])

    def read_after(self, position: int) -> frozenset[int]:
        """Operands that nodes after the one at a position read."""
        return frozenset(index for node in self.nodes[position + 1 :] for index in inputs_of(node))

    def _straight(self, operations: range) -> list[Straight]:
        if not operations:
            return []
        model = self.model
        whole = len(operations) == len(model.operations)
        part = Extract(model, model.inputs, model.outputs) if whole else extract(model, operations)
        return [Straight(operations, part, self._factory.segment(part.model))]


def inputs_of(node: Node) -> Sequence[int]:
    """Operands of the program's model that a node reads."""
    return node.part.inputs if isinstance(node, Straight) else handed_on(node.operation)
