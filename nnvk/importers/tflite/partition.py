"""Parts of a graph that TensorFlow Lite has loaded: which operators can be taken, and the model of a partition.

The delegate hands over tensors and nodes as TensorFlow Lite's C interface has them; they become the records that are
read of a file otherwise, and the mappers don't know the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import tflite

from nnvk.api import Model
from nnvk.base.fields import F32S
from nnvk.base.packets import Malformed, Reader
from nnvk.importers.budget import Budget
from nnvk.importers.errors import OverBudget, Unmapped
from nnvk.importers.ports import Port
from nnvk.importers.tflite.c_options import Options
from nnvk.importers.tflite.errors import TfliteImportError
from nnvk.importers.tflite.finished import Finished
from nnvk.importers.tflite.operands import has_offset
from nnvk.importers.tflite.resizing import resized
from nnvk.importers.tflite.schema import MAX_RANK, Operator, SignatureDef, Subgraph, Tensor
from nnvk.importers.tflite.subgraphs import Builder, Import
from nnvk.types.operand import Shape

_NAME = "the graph"
_BUILTINS = {number: name for name, number in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
_TYPES = (
    *("NOTYPE", "FLOAT32", "INT32", "UINT8", "INT64", "STRING", "BOOL", "INT16", "COMPLEX64", "INT8", "FLOAT16"),
    *("FLOAT64", "COMPLEX128", "UINT64", "RESOURCE", "VARIANT", "UINT32", "UINT16", "INT4", "BFLOAT16"),
)
"""Names of TensorFlow Lite's C types, in the order of their numbers, which are not the file's."""
_STATIC, _VARIABLE, _SPARSE, _CONSTANT, _DECLARED = 1, 2, 4, 8, 16
"""Flags of a tensor."""
_TRIED_SIZES = (32, 224)
"""Sizes that are tried for those that the file leaves open: a sequence's, an image's."""


@dataclass(frozen=True, slots=True, eq=False)
class Node(Operator):
    """A node; ``raw`` is its structure of options."""

    def options(self, table: str) -> Options:
        """The options; `Unmapped` where they are another operator's."""
        return Options(table, self.raw)

    def custom_options(self) -> bytes:
        """The bytes of a custom operator's options."""
        return bytes(self.raw)


@dataclass(slots=True, eq=False)
class Loaded:
    """A graph that is loaded, as `Import` wants it."""

    graph: Subgraph
    numbers: tuple[int, ...]
    """The numbers of its tensors in TensorFlow Lite's graph."""
    nbytes: int
    """The bytes of all constants."""
    declared: frozenset[int]
    """Tensors between the edges whose shape the file has: as it was before inputs were resized, perhaps."""
    data: bytes = b""
    description: str = ""
    metadata: bytes | None = None
    signatures: list[SignatureDef] = field(default_factory=list)

    def subgraph(self, index: int) -> Subgraph:
        """The graph; `Unmapped` for those that control flow refers to, which belong to another context."""
        if index:
            raise Unmapped("its subgraphs stay with TensorFlow Lite")
        return self.graph

    def believed(self) -> Loaded:
        """The graph with the shapes that the file has; itself if it has no others."""
        if all(self.graph.tensors[index].is_static for index in self.declared):
            return self
        tensors = [
            replace(tensor, is_static=tensor.is_static or tensor.index in self.declared)
            for tensor in self.graph.tensors
        ]
        return replace(self, graph=replace(self.graph, tensors=tuple(tensors)))

    def opened(self) -> Iterator[Loaded]:
        """The graph with other sizes where the file leaves them open."""
        inputs = [self.graph.tensors[index] for index in self.graph.inputs]
        if any(-1 in tensor.signature for tensor in inputs):
            for size in _TRIED_SIZES:
                shapes = [
                    tuple(size if open_ == -1 else known for known, open_ in zip(t.shape, t.signature, strict=True))
                    for t in inputs
                ]
                yield replace(self, graph=resized(self.graph, shapes))


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """The model of a partition. Its inputs and outputs are those of the graph, and then the states'."""

    model: Model
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[int, ...]
    """Numbers of the variable tensors."""


def read(reader: Reader) -> Loaded:
    """Read a graph; operators are numbered from 0 on. `Malformed` where it contradicts itself."""
    numbers: dict[int, int] = {-1: -1}
    tensors, declared, nbytes = [], set(), 0
    for index in range(reader.u32()):
        number = reader.i32()
        if number < 0 or number in numbers:
            raise Malformed(f"tensor {number} comes twice, or is none")
        numbers[number] = index
        tensor, is_declared = _tensor(reader, index)
        if is_declared:
            declared.add(index)
        nbytes += 0 if tensor.data is None else tensor.data.size
        tensors.append(tensor)
    nodes = tuple(_node(reader, index, numbers) for index in range(reader.u32()))
    inputs, outputs = (_indexes(reader, numbers) for _ in range(2))
    if -1 in (*inputs, *outputs):
        raise Malformed("the graph has an input or output that is left out")
    reader.end()
    places = tuple(number for number in numbers if number >= 0)
    return Loaded(Subgraph(0, "", tuple(tensors), nodes, inputs, outputs), places, nbytes, frozenset(declared))


def _tensor(reader: Reader, index: int) -> tuple[Tensor, bool]:
    """A tensor, and whether the file has its shape."""
    type_, flags = reader.u32(), reader.u8()
    shape, signature, scales = reader.u32s(), _i32s(reader), np.array(F32S.read(reader), np.float32)
    zero_points = np.array(_i32s(reader), np.int64)
    channel_dim, name, size = reader.i32(), reader.string(), reader.u64()
    data = np.frombuffer(reader.aligned(size), np.uint8) if flags & _CONSTANT else None
    if len(shape) > MAX_RANK or (data is None and size):
        raise Malformed(f"tensor {index} has {len(shape)} dimensions, and {size} bytes")
    name_of_type = _TYPES[type_] if type_ < len(_TYPES) else f"type {type_}"
    tensor = Tensor(
        index=index,
        name=name,
        type=f"sparse {name_of_type}" if flags & _SPARSE else name_of_type,  # which nothing is mapped from
        shape=shape,
        is_static=bool(flags & _STATIC),
        signature=signature if len(signature) == len(shape) else shape,
        scales=scales,
        zero_points=zero_points,
        channel_dim=channel_dim,
        data=data if data is not None and data.size else None,
        is_variable=bool(flags & _VARIABLE),
        sparsity=None,
    )
    return tensor, bool(flags & _DECLARED)


def _i32s(reader: Reader) -> tuple[int, ...]:
    return tuple(number - (1 << 32) if number >> 31 else number for number in reader.u32s())


def _indexes(reader: Reader, numbers: Mapping[int, int]) -> tuple[int, ...]:
    """Tensors by their numbers, as indexes."""
    found = _i32s(reader)
    missing = [number for number in found if number not in numbers]
    if missing:
        raise Malformed(f"the tensors {missing} don't come along")
    return tuple(numbers[number] for number in found)


def _node(reader: Reader, index: int, numbers: Mapping[int, int]) -> Node:
    code, custom, version = reader.i32(), reader.string(), reader.i32()
    inputs, outputs, intermediates = (_indexes(reader, numbers) for _ in range(3))
    raw = bytes(reader.bytes(reader.u32()))
    name = custom or _BUILTINS.get(code, f"builtin {code}")
    return Node(index, name, bool(custom), version, inputs, outputs, intermediates, raw)


class _Examiner(Builder):
    """Maps what can be mapped; what other operators give is an input."""

    def give_up(self, operator: Operator) -> None:
        """Make the operator's results inputs, if they can be such."""
        super().give_up(operator)
        for index in operator.outputs:
            try:
                self.add_input(self.subgraph.tensors[index])
            except Unmapped:
                continue
            self.lost.discard(index)


def examine(loaded: Loaded) -> list[str]:
    """The reason why each operator can't be taken; empty where it can.

    Inputs may have been resized since the file's shapes were true, and may be resized later, where these are but
    placeholders: what can be taken with one idea of the shapes is.
    """
    fewest: list[str] = []
    for tried in dict.fromkeys((loaded.believed(), loaded, *loaded.opened())):
        reasons = _examined(tried)
        if not fewest or sum(map(bool, reasons)) < sum(map(bool, fewest)):
            fewest = reasons
        if not any(fewest):
            break
    return fewest


def _examined(loaded: Loaded) -> list[str]:
    owner = Import(loaded, _NAME, Budget(loaded.nbytes), {}, round_hybrid=True, relaxed=False)
    builder = _Examiner(owner, loaded.graph)
    with suppress(OverBudget):  # which is the reason of the operator that it was too much for
        builder.add_inputs()
        builder.map_operators()
    reasons = {problem.index: problem.reason for problem in owner.problems if problem.operation != "input"}
    for operator in loaded.graph.operators:
        if operator.index not in builder.mapped:
            reasons.setdefault(operator.index, "what it reads has a size that is known only when it runs")
        elif foreign := _foreign(builder, operator):
            reasons[operator.index] = foreign
    return [reasons.get(operator.index, "") for operator in loaded.graph.operators]


def _foreign(builder: Builder, operator: Operator) -> str:
    """Why an operator that can be mapped stays all the same; empty where it need not."""
    tensors = [builder.subgraph.tensors[index] for index in (*operator.inputs, *operator.outputs) if index >= 0]
    if any(tensor.type == "RESOURCE" for tensor in tensors):
        return "variables stay with TensorFlow Lite"
    if builder.keeps_state(operator):
        return "a state that is no tensor can't be handed over"
    if any(tensor.type == "INT4" and tensor.data is None for tensor in tensors):
        return "tensors of 4 bits can't be handed over"
    if any(map(has_offset, tensors)):
        return "tensors of INT16 with a zero point can't be handed over"
    values = [builder.values[tensor.index] for tensor in tensors if tensor.index in builder.values]
    if not builder.extents.keys().isdisjoint(tensor.index for tensor in tensors) or any(
        0 in value.shape and not value.is_constant for value in values
    ):
        return "a tensor of it has a size that is known only when it runs"
    try:
        builder.expose(operator)
    except Unmapped as error:
        return f"its output can't be handed over: {error}"
    return ""


def model(loaded: Loaded, relaxed: bool) -> Partition:
    """The model of a partition. `TfliteImportError` lists what can't be mapped."""
    if not all(loaded.graph.tensors[index].elements for index in loaded.graph.inputs):
        return _empty(loaded, relaxed)
    refusals = []
    for tried in dict.fromkeys((loaded.believed(), loaded)):
        try:
            return _built(tried, relaxed)
        except TfliteImportError as error:
            refusals.append(error)
    raise refusals[0]


def _empty(loaded: Loaded, relaxed: bool) -> Partition:
    """The model where inputs have no elements, which is not for execution: outputs have none either, or it is an error.

    NNAPI has no such sizes. Those of the outputs follow from what is there with one and with two in their place.
    """
    inputs = [loaded.graph.tensors[index].shape for index in loaded.graph.inputs]
    one, two = (
        _built(replace(loaded, graph=resized(loaded.graph, [_filled(shape, size) for shape in inputs])), relaxed)
        for size in (1, 2)
    )
    outputs = [
        replace(port, shape=tuple(2 * size - larger for size, larger in zip(port.shape, other.shape, strict=True)))
        for port, other in zip(one.outputs, two.outputs, strict=True)
    ]
    if one.states or any(min(port.shape, default=1) != 0 for port in outputs):
        raise TfliteImportError("NNAPI can't compute anything out of inputs that have no elements", _NAME)
    return replace(one, outputs=tuple(outputs))


def _filled(shape: Shape, size: int) -> Shape:
    return tuple(known or size for known in shape)


def _built(loaded: Loaded, relaxed: bool) -> Partition:
    owner = Import(loaded, _NAME, Budget(loaded.nbytes), {}, round_hybrid=True, relaxed=relaxed)
    builder = Builder(owner, loaded.graph)
    built: Finished | None = None
    with suppress(OverBudget):  # which is among the problems
        built = builder.build()
    if built is None:
        raise TfliteImportError("NNAPI can't express this partition", _NAME, owner.problems)
    outputs = (*built.outputs, *(state.output for state in built.states))
    inputs = (*built.inputs, *(state.input for state in built.states))
    return Partition(built.model, inputs, outputs, tuple(loaded.numbers[index] for index in builder.states))
