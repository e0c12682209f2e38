"""Convert a file's graph to a finished model, or list what cannot be mapped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto

from nnvk.base.errors import NnapiError, WrongKind, bad_data
from nnvk.base.log import logger
from nnvk.base.text import did_you_mean, printable
from nnvk.importers import errors
from nnvk.importers.bounds import INT32, Bounds, of_dtype
from nnvk.importers.emitter import is_quantised
from nnvk.importers.errors import NAME_SHOWN, NotConstant, OverBudget, Unmapped
from nnvk.importers.graph_builder import Graph, Value, at_least_1d, edge_shape
from nnvk.importers.metadata import Metadata
from nnvk.importers.onnx.builder import DAMAGE, NO_COUNTERPART, Builder, Shared, made_of
from nnvk.importers.onnx.edges import Edge, edges_of, input_types, resized
from nnvk.importers.onnx.errors import Malformed, OnnxImportError
from nnvk.importers.onnx.inference import inferred
from nnvk.importers.onnx.narrow import Narrow, narrow_of
from nnvk.importers.onnx.node import Node, domain_of
from nnvk.importers.onnx.reader import types_of
from nnvk.importers.onnx.scope import reads
from nnvk.importers.onnx.tensors import F16, Tensor, carrier, constant
from nnvk.importers.ports import ImportedModel, Port
from nnvk.importers.recovery import Recovery
from nnvk.importers.shapes import Shapes
from nnvk.runtime.inputs import as_array, is_array
from nnvk.types.operand import OperandType, Shape

_log = logger("model")


class Import(Recovery[Node, str]):
    """One import."""

    def __init__(self, shared: Shared, name: str) -> None:
        super().__init__([], DAMAGE, shared.budget)
        self._shared = shared
        self._name = name
        self._proto = shared.model.graph
        self._builder = Builder(shared, Graph(shared.budget, shared.relaxed))
        self._scope = shared.scope = self._builder.enter(self._proto)
        self._inputs: list[tuple[Edge, Value]] = []
        self._inferred: dict[str, Tensor] | None = None
        self._unknown: set[str] = set()

    def _edges(self, shapes: Shapes, constants: Mapping[str, Any]) -> list[Edge]:
        """The inputs, without those that are known, which become constants."""
        edges = edges_of(self._proto, given=constants)
        known = fixed(edges, constants)
        edges = [edge for edge in edges if edge.name not in known]
        for name, array in known.items():
            self._scope.tensors[name] = constant(array)
        return self._without_empty(resized(edges, shapes))

    def _without_empty(self, edges: Iterable[Edge]) -> list[Edge]:
        """The inputs that have elements; the others become constants."""
        left = []
        for edge in edges:
            if 0 in edge.shape:
                self._scope.tensors[edge.name] = constant(np.zeros(edge.shape, edge.stored))
            else:
                left.append(edge)
        return left

    def _unread(self, constants: Mapping[str, Any]) -> list[Edge]:
        """An input that nobody reads, since it is a constant as well: NNAPI's models have at least one input."""
        declared = edges_of(self._proto, given=constants)
        known = fixed(declared, constants)
        edges = [edge for edge in declared if edge.name in known and known[edge.name].size]
        return [replace(edge, shape=known[edge.name].shape) for edge in edges[:1]]

    def known_outputs(self, shapes: Shapes, constants: Mapping[str, Any]) -> list[np.ndarray] | None:
        """See the function of this name."""
        edges = self._edges(shapes, constants)
        with suppress(OverBudget):
            self._map_nodes(edges)
        if self.problems:
            return None
        found = [_known_elements(self._builder.read(self._scope, port.name)) for port in self._proto.output]
        return None if any(one is None for one in found) else [one for one in found if one is not None]

    def run(self, shapes: Shapes, constants: Mapping[str, Any]) -> ImportedModel:
        """Import the model. Raises `OnnxImportError`, whose ``unknown`` names inputs that ``constants`` must give."""
        edges = self._edges(shapes, constants)
        is_valid = True
        try:
            unread = [] if edges else self._unread(constants)
            self.require("input", [*edges, *unread])
            self.require("output", self._proto.output)
            self._map_nodes(edges)
            self._inputs += [(edge, self._operand(edge, None)) for edge in unread]
            outputs = self._outputs()
            if not self.problems:
                return self._finished(outputs)
        except OverBudget:
            is_valid = False  # the reason is among the problems
        unknown = [edge.name for edge in edges if edge.name in self._unknown]
        hint = _hint(edges, unknown)
        waiting = self.waiting_operators(self.problems)
        raise OnnxImportError(
            "NNAPI can't express this model", self._name, self.problems, hint, unknown, waiting, is_valid
        )

    def _map_nodes(self, edges: list[Edge]) -> None:
        types = input_types(edges, self._scope, self._constants())
        for position, edge in enumerate(edges):
            with self.guarded("input", position, edge.name):
                self._input(edge, types.get(edge.name))
        for position in self._scope.order:
            if position not in self._scope.absorbed:
                proto = self._proto.node[position]
                number = self._shared.numbers[position] if self._shared.numbers else position
                node = Node(proto, self._shared.versions.get(domain_of(proto.domain), 1), number)
                self._builder.graph.source = node.source
                self.try_to_map(node)
            self._scope.forget_constants(position)

    def _constants(self) -> dict[str, np.ndarray]:
        """Single numbers that are constants of the file: what scales and zero points may be."""
        found = {}
        arrays = self._shared.arrays
        given = [(one.name, one, arrays.look) for one in self._proto.initializer if one.name not in self._scope.tensors]
        for node in self._proto.node:
            values = [one.t for one in node.attribute if one.name == "value" and one.HasField("t")]
            if node.op_type == "Constant" and values:
                given += [(name, values[0], arrays.read) for name in node.output]
        for name, tensor, read in given:
            if math.prod(tensor.dims) == 1:
                with suppress(Unmapped, errors.Malformed):
                    found[name] = read(tensor)
        return found

    def _input(self, edge: Edge, type: OperandType | None) -> None:
        if edge.name in self._scope.tensors:
            raise Unmapped(f"'{printable(edge.name, NAME_SHOWN)}' is an input twice")
        value = self._operand(edge, type)
        self._scope.tensors[edge.name] = Tensor(
            edge.dtype, edge.shape, self._builder.widened(value), narrow=edge.narrow
        )
        self._inputs.append((edge, value))

    def _operand(self, edge: Edge, type: OperandType | None) -> Value:
        carried = F16 if edge.dtype == np.float16 else carrier(edge.dtype)
        type_ = (type or carried).with_dimensions(at_least_1d(edge.shape))
        self._shared.budget.admit(type_.size)
        return self._builder.graph.input(type_, _bounds(edge.dtype))

    def describe(self, operator: Node) -> tuple[str, int, str]:
        """The node's operator, position and name."""
        return operator.kind, operator.index, operator.name

    def tensors_of(self, operator: Node) -> tuple[Sequence[str], Sequence[str]]:
        """The names of the inputs and outputs."""
        return [name for name in operator.inputs if name], [name for name in operator.outputs if name]

    def look_up(self, operator: Node) -> None:
        """A node of which an input is lost needs a mapper or a function: it can't be folded."""
        if not self._builder.is_known(operator):
            raise Unmapped(NO_COUNTERPART)

    def map(self, operator: Node) -> None:
        """Map a node, and remember which tensors had to be known."""
        try:
            self._builder.map(self._scope, operator, self._shared.versions)
        except OverBudget:
            raise
        except Unmapped as error:
            missing = self._builder.missing_in(operator, self._shared.versions)
            self._note_waiting(operator, error, is_enough=not missing)
            if not missing:
                raise
            self.failed_itself(operator)
            reasons = [f"in it, {_counted(kind, count)}: {NO_COUNTERPART}" for kind, count in missing.items()]
            if not str(error).endswith(NO_COUNTERPART):  # which names the first of them only
                reasons.append(str(error))
            for reason in reasons[:-1]:
                self.problem(operator.kind, operator.index, Unmapped(reason), operator.name)
            raise Unmapped(reasons[-1]) from error

    def _note_waiting(self, operator: Node, error: Unmapped, is_enough: bool) -> None:
        """Remember what a node must know that it does not, if that is why it can't be mapped.

        ``is_enough``: it can be mapped then, as far as its operators are known.
        """
        read = set(reads(operator.proto))
        if isinstance(error, NotConstant):
            tensors = {name: self._scope.tensors[name] for name in read if name in self._scope.tensors}
            numbers = {name for name, one in tensors.items() if one.dtype.kind in "iu" and not one.is_constant}
            needed = read.intersection(error.tensors or numbers)
            self._unknown |= self._parameters(error.tensors)
        else:
            needed = {name for name in read if name in self._scope.tensors and self._scope.tensors[name].extent}
        if is_enough:
            self.waits(operator, needed)

    def _parameters(self, names: Iterable[str]) -> set[str]:
        """The tensors of these that are inputs, and all that parameters which nodes compute are made of."""
        edges = {edge.name for edge, _ in self._inputs}
        computed = [name for name in names if name not in edges]
        found = made_of(self._scope, computed)
        tensors = (self._scope.tensors[name] for name in found if name in self._scope.tensors)
        are_parameters = all(one.is_constant or one.dtype.kind in "iub" for one in tensors)
        return edges.intersection(names) | (found if are_parameters else set())

    def give_up(self, operator: Node) -> None:
        """A node could not be mapped, which ends an import if nothing is to be said of other nodes."""
        super().give_up(operator)
        if self.problems and not self._shared.lists_all and not self.waiting_operators(self.problems):
            raise OverBudget("the import has failed, and other problems are not looked for")

    def may_be_parameter(self, tensor: str) -> bool:
        """Whole numbers may be indexes, axes and shapes."""
        return self._scope.tensors[tensor].dtype.kind in "iu"

    def has_stand_in(self, tensor: str) -> bool:
        """One is made of the type and shape that ONNX infers."""
        if tensor not in self._scope.tensors:
            if not self._shared.infers_lost:
                return False
            if self._inferred is None:
                self._inferred = inferred(self._shared.model, {edge.name: edge.shape for edge, _ in self._inputs})
            known = self._inferred.get(tensor)
            if known is None or 0 in known.shape:
                return False
            type_ = carrier(known.dtype).with_dimensions(at_least_1d(known.shape))
            self._scope.tensors[tensor] = Tensor(known.dtype, known.shape, self._builder.graph.input(type_))
        return True

    def _outputs(self) -> list[Tensor]:
        found = []
        for position, port in enumerate(self._proto.output):
            if port.name in self.lost:
                continue
            with self.guarded("output", position):
                tensor = self._builder.read(self._scope, port.name)
                if not tensor.size:
                    raise Unmapped(
                        f"'{printable(port.name, NAME_SHOWN)}' of shape {list(tensor.shape)} has no elements"
                    )
                self._builder.output(tensor)
                found.append(tensor)
        return found

    def _finished(self, outputs: list[Tensor]) -> ImportedModel:
        names = [edge.name for edge, _ in self._inputs]
        values = [self._builder.output(tensor) for tensor in outputs]
        try:
            model = self._builder.graph.finish(values, names)
        except (NnapiError, Unmapped) as error:
            raise OnnxImportError(
                "NNAPI can't express this model",
                self._name,
                detail=DAMAGE.reason(error),
                is_valid=not isinstance(error, OverBudget),
            ) from error
        return ImportedModel(
            model,
            tuple(
                port_of(edge.name, value.type, edge.stored, edge.shape, edge.signature, edge.symbols)
                for edge, value in self._inputs
            ),
            tuple(
                _result_port(port, value, tensor)
                for port, value, tensor in zip(self._proto.output, values, outputs, strict=True)
            ),
            description=self._shared.model.doc_string,
            metadata=metadata_of(self._shared.model),
            sources=self._builder.graph.sources(model),
            tensors=self._places(),
        )

    def _places(self) -> dict[int | str, int]:
        """The operands of the model that have a tensor's elements, by its name."""
        places: dict[int | str, int] = {}
        for name, tensor in self._scope.tensors.items():
            place = None if tensor.value is None else self._builder.graph.place(tensor.value)
            if place is not None:
                places[name] = place
        return places


def metadata_of(model: ModelProto) -> Metadata:
    """The metadata of a file."""
    text, version = model.doc_string or model.graph.doc_string, str(model.model_version or "")
    return Metadata(name=model.graph.name, description=text, version=version, author=model.producer_name)


def _counted(kind: str, count: int) -> str:
    """An operator's kind, and the number of nodes where that is not 1."""
    return printable(kind, NAME_SHOWN) + (f" ({count} nodes)" if count > 1 else "")


def _hint(edges: list[Edge], unknown: list[str]) -> str:
    """A hint on what ``load`` could be told about the inputs."""
    told = [
        f"'{printable(name, NAME_SHOWN)}' is not known at import, --constant or load(..., constants=...) gives it"
        for name in unknown
    ]
    told += [
        f"'{printable(edge.name, NAME_SHOWN)}' of shape {list(edge.signature)} is taken as {list(edge.shape)}, "
        "--shape or load(..., shapes=...) gives others"
        for edge in edges
        if -1 in edge.signature
    ]
    return "; ".join(told)


def fixed(edges: list[Edge], constants: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The elements of inputs that are constants. BAD_DATA: one is not there, or can't have these elements."""
    if not isinstance(constants, Mapping):
        raise WrongKind(f"the constants must be by name, {{'axes': array}}, got {type(constants).__name__}")
    known = {edge.name: edge for edge in edges}
    found = {}
    for name, given in constants.items():
        if name not in known:
            names = ", ".join(repr(printable(one, NAME_SHOWN)) for one in known)
            wrong, hint = printable(str(name), NAME_SHOWN), did_you_mean(str(name), known)
            raise bad_data(f"no input of the model is called {wrong!r}, there are [{names}]{hint}")
        edge = known[name]
        array = as_array(given, f"'{printable(name, NAME_SHOWN)}'")
        if not is_array(given) and array.dtype.kind in "biuf":  # numbers of Python
            array = _fitting(array, edge)
        fits = len(array.shape) == len(edge.signature) and all(
            size in (-1, own) for size, own in zip(edge.signature, array.shape, strict=True)
        )
        if array.dtype != edge.stored or not fits:
            raise bad_data(
                f"'{printable(name, NAME_SHOWN)}' must be {edge.stored} {list(edge.signature)}, "
                f"got {array.dtype} {list(array.shape)}"
            )
        found[name] = array
    return found


def _fitting(array: np.ndarray, edge: Edge) -> np.ndarray:
    """Python's numbers in the type of an input, as far as that has them."""
    with np.errstate(all="ignore"):
        cast = array.astype(edge.stored)
    return cast if np.array_equal(cast, array) or edge.dtype.kind == "f" else array


def _bounds(dtype: np.dtype) -> Bounds | None:
    """Between which numbers the elements of an input lie: those of more than 32 bits are refused."""
    if dtype.kind not in "iu":
        return None
    low, high = of_dtype(dtype)
    return max(low, INT32[0]), min(high, INT32[1])


def _known_elements(tensor: Tensor) -> np.ndarray | None:
    """The elements of an output that needs no execution, otherwise None."""
    dtype = tensor.dtype if tensor.narrow is None else tensor.narrow.dtype
    if not tensor.size:
        return np.zeros(tensor.shape, dtype)
    if tensor.is_constant:
        return tensor.stored
    value = tensor.value
    if value is None or not value.is_constant or is_quantised(value) or tensor.extent is not None:
        return None
    return value.array.reshape(tensor.shape).astype(dtype)


def _known(tensor: Tensor) -> Shape:
    """The shape of an output, with -1 for a size that data decide."""
    extent = tensor.extent
    return tuple(-1 if extent and axis == extent.axis else size for axis, size in enumerate(tensor.shape))


def _result_port(port: ValueInfoProto, value: Value, tensor: Tensor) -> Port:
    """The edge of an output: of numbers of 64 bits, the operand has a last dimension more, of two words.

    Numbers whose type NumPy itself has not are rounded to it by the caller's side, if the file says that they are.
    """
    shape = _known(tensor)
    if tensor.words is None or tensor.extent is not None:
        narrow = tensor.narrow or _declared(port)
        is_narrow = narrow is not None and narrow.carrier == tensor.dtype
        return port_of(port.name, value.type, narrow.dtype if narrow and is_narrow else tensor.dtype, shape)
    type_ = value.type.with_dimensions(edge_shape((*at_least_1d(shape), 2)))
    return Port(port.name, type_, tensor.dtype.name.upper(), shape, in_words=True)


def _declared(port: ValueInfoProto) -> Narrow | None:
    """The type that a file declares for an output, if NumPy itself has none."""
    with suppress(Unmapped, Malformed):
        return types_of(port.type.tensor_type.elem_type, "")[1]
    return None


def port_of(
    name: str, type: OperandType, dtype: np.dtype, shape: Shape, signature: Shape = (), symbols: tuple[str, ...] = ()
) -> Port:
    """An input or output of the file, which an operand of this type is."""
    type_ = type if -1 in shape else type.with_dimensions(edge_shape(at_least_1d(shape)))
    array_type = None if narrow_of(dtype) is None else dtype
    return Port(name, type_, dtype.name.upper(), shape, signature, symbols=symbols, array_type=array_type)
