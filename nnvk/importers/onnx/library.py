"""onnxruntime beside nnvk: it computes the nodes of a file that NNAPI has nothing for."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from nnvk.api import Device
from nnvk.base import forks
from nnvk.base.errors import bad_data
from nnvk.base.text import printable
from nnvk.importers.cutting import scheduled
from nnvk.importers.emitter import F32
from nnvk.importers.errors import NAME_SHOWN, ModelImportError, Unmapped
from nnvk.importers.limited import Refused
from nnvk.importers.mixed import MixedFile, PlacedOperator, Step, failing, first_reason
from nnvk.importers.onnx.conversion import converted
from nnvk.importers.onnx.edges import edges_of
from nnvk.importers.onnx.errors import Malformed
from nnvk.importers.onnx.file import OnnxFile, PartOfFile, bytes_beside
from nnvk.importers.onnx.importer import fixed, metadata_of, port_of
from nnvk.importers.onnx.narrow import narrow_of
from nnvk.importers.onnx.node import Node
from nnvk.importers.onnx.partition import examine
from nnvk.importers.onnx.parts import edges_of_nodes, part_of
from nnvk.importers.onnx.probe import FOLDER, check, graphs_in, typed
from nnvk.importers.onnx.reader import Elements, is_external, parse, read_file, types_of
from nnvk.importers.onnx.scope import Scope
from nnvk.importers.onnx.stored import StoredTensor, stored, stored_bytes
from nnvk.importers.onnx.tensors import carrier
from nnvk.importers.parts import FileInParts
from nnvk.importers.ports import Port
from nnvk.importers.shapes import Shapes, wanted_shapes

NAME = "onnxruntime"
_INVENTED = "unk__"
"""Names that onnxruntime gives to sizes begin so."""
_NARROW = frozenset(
    f"tensor({TensorProto.DataType.Name(number).lower()})"
    for number in TensorProto.DataType.values()
    if number in helper.get_all_tensor_dtypes() and narrow_of(np.dtype(helper.tensor_dtype_to_np_dtype(number)))
)
"""onnxruntime's names of the types that NumPy itself has not."""
_ERRORS_ONLY = 3


class Library:
    """An ``.onnx`` file for onnxruntime."""

    name = NAME

    def __init__(self, source: str | os.PathLike[str] | bytes, options: Mapping[str, Any]) -> None:
        """``options`` are those of the importer."""
        self._source = source
        self._shapes: Shapes = options["shapes"]
        self._constants: Mapping[str, Any] = options["constants"]
        self._relaxed: bool = options["relaxed"]
        self._folder = None if isinstance(source, bytes) else Path(source).parent

    def mixed(self, refusal: ModelImportError, devices: Sequence[Device]) -> MixedFile:
        """See `nnvk.importers.mixed.Library`."""
        try:
            model, types = self._looked_at()
        except Malformed as error:
            refusal.add(f"{NAME} is not asked to run it: {error}")
            raise refusal from error
        except Refused as error:
            refusal.add(f"{NAME} can't run it either: {error}")
            raise refusal from error
        numbers = _sort(model.graph)
        _declare(model.graph, types)
        file = _TypedFile(self._folder, model, numbers)
        choice = examine(file, devices, self._relaxed, parts_wait=True)
        ports = {one.name: _port(one) for one in _edges(model.graph)}
        whole = self._model()  # imports free the elements that they have read
        _sort(whole.graph)
        _declare(whole.graph, types)
        steps = []
        edges = edges_of_nodes(whole.graph.node)
        for part, positions in scheduled(edges, choice.parts):
            step_model = part_of(whole, positions, edges)
            names = [one.name for one in step_model.graph.input], [one.name for one in step_model.graph.output]
            sources = [Node(whole.graph.node[at], 1, numbers[at]).source for at in positions]
            operators = [
                PlacedOperator(one, NAME, choice.reasons[at]) for one, at in zip(sources, positions, strict=True)
            ]
            own = file.part_at(positions) if part else None
            steps.append(
                Step(*names, OnnxPart(step_model, *names, self._folder, operators), own, {"relaxed": self._relaxed})
            )
        return MixedFile(
            tuple(ports[name] for name in _inputs(model.graph)),
            tuple(_port(one) for one in model.graph.output),
            steps,
            _inputs(model.graph),
            [one.name for one in model.graph.output],
            _stored(whole.graph, file),
            metadata_of(model),
            reason=first_reason(refusal),
        )

    def whole(self, inputs: Sequence[str], outputs: Sequence[str]) -> OnnxPart:
        """See `nnvk.importers.mixed.Library`."""
        try:
            model, _ = self._looked_at()
        except (Malformed, Refused) as error:
            raise bad_data(str(error)) from error
        if sorted(inputs) != sorted(_inputs(model.graph)):
            raise bad_data(f"the file has the inputs {_inputs(model.graph)}, got {list(inputs)}")
        operators = [PlacedOperator(Node(one, 1, at).source, NAME, "") for at, one in enumerate(model.graph.node)]
        return OnnxPart(model, inputs, outputs, self._folder, operators)

    def _looked_at(self) -> tuple[ModelProto, dict[str, ValueInfoProto]]:
        """The model, and the types of its tensors, which onnxruntime infers. Raises `Malformed` and `Refused`."""
        model = self._model()
        check(model, self._folder)
        return model, typed(model, model.ByteSize(), self._folder)

    def _model(self) -> ModelProto:
        """The file, with sizes and constants that the caller gives."""
        source = self._source
        model = parse(source if isinstance(source, bytes) else read_file(Path(source)))
        model = converted(model)
        graph = model.graph
        replaced = {one.name for one in graph.input}.intersection(self._constants)
        kept = [one for one in graph.initializer if one.name not in replaced]
        if len(kept) < len(graph.initializer):
            del graph.initializer[:]
            graph.initializer.extend(kept)
        edges = edges_of(GraphProto(input=[one for one in _edges(graph) if _port(one).has_numbers]), needs_shapes=False)
        given = fixed(edges, self._constants)
        graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in given.items())
        if self._shapes:
            left = [edge for edge in edges if edge.name not in given]
            wanted = dict(zip((edge.name for edge in left), wanted_shapes(left, self._shapes), strict=True))
            named = {name for edge in left if edge.name in self._shapes for name in edge.symbols} | {*self._shapes}
            for port in graph.input:
                for dim, size in zip(port.type.tensor_type.shape.dim, wanted.get(port.name, ()), strict=False):
                    if port.name in self._shapes or (not dim.HasField("dim_value") and dim.dim_param in named):
                        dim.dim_value = size
        return model


class OnnxPart:
    """A graph for onnxruntime. Its session is made when it is needed."""

    def __init__(
        self,
        model: ModelProto,
        reads: Sequence[str],
        writes: Sequence[str],
        folder: Path | None,
        operators: Sequence[PlacedOperator] = (),
    ) -> None:
        """``folder`` has the elements that are beside the model."""
        self.operators = operators
        self._model: ModelProto | None = model
        self._reads = list(reads)
        self._writes = list(writes)
        self._folder = folder
        self._session: Any = None
        self._has_narrow = False
        """Whether there are elements of types that NumPy itself has not, which onnxruntime gives as bytes alone."""
        self._lock = forks.lock()

    def prepare(self) -> None:
        """See `nnvk.importers.mixed.LibraryPart`."""
        with self._lock:
            if self._session is not None:
                return
            assert self._model is not None
            options = onnxruntime.SessionOptions()
            options.log_severity_level = _ERRORS_ONLY
            if self._folder is not None:
                options.add_session_config_entry(FOLDER, os.fspath(self._folder.resolve()))
            with failing(NAME):
                data = self._model.SerializeToString()
                self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            edges = (*self._session.get_inputs(), *self._session.get_outputs())
            self._has_narrow = any(one.type in _NARROW for one in edges)
            self._model = None

    def reset(self) -> None:
        """See `nnvk.importers.mixed.LibraryPart`: graphs of ONNX have no states."""

    def run(self, values: Sequence[Any]) -> list[Any]:
        """See `nnvk.importers.mixed.LibraryPart`."""
        if self._session is None:
            self.prepare()
        feeds = dict(zip(self._reads, values, strict=True))
        with failing(NAME):
            if not self._has_narrow:
                results: list[Any] = self._session.run(self._writes, feeds)
                return results
            given = {name: _as_value(value) for name, value in feeds.items()}
            return [_from_value(one) for one in self._session.run_with_ort_values(self._writes, given)]


def _as_value(value: Any) -> onnxruntime.OrtValue:
    """An array for onnxruntime, whose elements may be of a type that NumPy itself has not."""
    if narrow_of(value.dtype) is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(value)
    data, type_ = bytes(stored(np.ascontiguousarray(value))), helper.np_dtype_to_tensor_dtype(value.dtype)
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type(value.shape, type_)
    ctypes.memmove(made.data_ptr(), data, len(data))
    return made


def _from_value(value: onnxruntime.OrtValue) -> Any:
    """The reverse of `_as_value`."""
    if not value.is_tensor() or value.data_type() not in _NARROW:
        return value.numpy()
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.element_type()))
    shape = tuple(value.shape())
    data = ctypes.string_at(value.data_ptr(), stored_bytes(dtype, shape))
    return StoredTensor(memoryview(data), dtype, shape).read().copy()


def part_of_file(file: OnnxFile, names: Sequence[str]) -> OnnxPart:
    """A whole file for onnxruntime, with inputs in this order, such as a part whose weights are in memory."""
    model = file.proto()
    for graph in graphs_in(model):
        for tensor in graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                tensor.CopyFrom(numpy_helper.from_array(file.elements_of(tensor), tensor.name))
    return OnnxPart(model, names, [one.name for one in model.graph.output], None)


class _TypedFile(OnnxFile):
    """A file whose tensors have the types that onnxruntime has inferred."""

    infers_lost = False
    keeps_doubles = True
    _elements: Elements

    def __init__(self, folder: Path | None, model: ModelProto, numbers: Sequence[int]) -> None:
        """``numbers`` are those of the nodes."""
        FileInParts.__init__(self, "the model")
        self._folder, self._weights = folder, None
        self._nbytes = model.ByteSize() + bytes_beside(model, folder)
        self._model: ModelProto = model
        self._elements = Elements()
        self._numbers = numbers

    def part(self, model: ModelProto) -> PartOfFile:
        """Nodes that are numbered anew, as those that choose nodes expect it."""
        return PartOfFile(self, model, self._elements, range(len(model.graph.node)))

    def part_at(self, positions: Sequence[int]) -> PartOfFile:
        """Nodes, by their positions, that keep their numbers."""
        model = part_of(self._model, positions)
        return PartOfFile(self, model, self._elements, [self._numbers[at] for at in positions])

    def _parsed(self) -> ModelProto:
        return self._model


def _sort(graph: GraphProto) -> list[int]:
    """Bring nodes into an order in which they can be computed, and return their positions in the file."""
    order = Scope(graph.node, [one.name for one in graph.output]).order
    if order != list(range(len(order))):
        nodes = [NodeProto.FromString(graph.node[position].SerializeToString()) for position in order]
        del graph.node[:]
        graph.node.extend(nodes)
    return order


def _declare(graph: GraphProto, types: Mapping[str, ValueInfoProto]) -> None:
    """Say what the types of a graph's tensors are."""
    edges = {one.name for one in (*graph.input, *graph.output)}
    for one in graph.output:
        if one.name in types:
            one.CopyFrom(types[one.name])
    del graph.value_info[:]
    graph.value_info.extend(one for one in types.values() if one.name not in edges)


def _edges(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs that a caller gives."""
    stored = {one.name for one in graph.initializer}
    return [one for one in graph.input if one.name not in stored]


def _inputs(graph: GraphProto) -> list[str]:
    return [one.name for one in _edges(graph)]


def _stored(graph: GraphProto, file: OnnxFile) -> dict[str, np.ndarray]:
    """The outputs that are constants of the file, or beside it; onnx would look in the process's folder."""
    wanted = [one for one in graph.initializer if one.name in {port.name for port in graph.output}]
    return {one.name: file.elements_of(one) if is_external(one) else numpy_helper.to_array(one) for one in wanted}


_KINDS = {"sequence_type": "SEQUENCE", "optional_type": "OPTIONAL", "map_type": "MAP"}


def _port(declared: ValueInfoProto) -> Port:
    """An input or output. Its operand type is FLOAT32, which nothing uses, if NNAPI has no such tensors."""
    type_ = declared.type.tensor_type
    kind = declared.type.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        return Port(declared.name, F32, _KINDS.get(kind, kind.upper()), (), array_type=np.dtype(object))
    dims = type_.shape.dim
    signature = tuple(int(one.dim_value) if one.HasField("dim_value") else -1 for one in dims)
    symbols = tuple("" if one.dim_param.startswith(_INVENTED) else one.dim_param for one in dims)
    has_rank = type_.HasField("shape")
    try:
        dtype, narrow = types_of(type_.elem_type, f"'{printable(declared.name, NAME_SHOWN)}'")
        operand = carrier(dtype if narrow is None else narrow.carrier)
    except Unmapped:
        name = TensorProto.DataType.Name(type_.elem_type)
        is_text = type_.elem_type == TensorProto.STRING
        dtype = np.dtype(object) if is_text else helper.tensor_dtype_to_np_dtype(type_.elem_type)
        return Port(
            declared.name, F32, name, signature, signature, symbols=symbols, array_type=dtype, has_rank=has_rank
        )
    return replace(port_of(declared.name, operand, dtype, signature, signature, symbols), has_rank=has_rank)
