"""An ``.onnx`` file, from which models are imported: whole, or in parts where nodes wait for what others compute."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, numpy_helper

from nnvk.base.log import logger
from nnvk.base.text import printable
from nnvk.importers.budget import Budget
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.onnx.builder import Shared
from nnvk.importers.onnx.conversion import converted
from nnvk.importers.onnx.edges import Edge, edges_of
from nnvk.importers.onnx.errors import OnnxImportError
from nnvk.importers.onnx.functions import Functions
from nnvk.importers.onnx.importer import Import, fixed, port_of
from nnvk.importers.onnx.parts import cut_model, declare, is_declared
from nnvk.importers.onnx.probe import graphs_in
from nnvk.importers.onnx.reader import Arrays, Elements, open_beside, parse, read_file, types_of, versions
from nnvk.importers.onnx.tensors import carrier
from nnvk.importers.parts import FileCut, FileInParts
from nnvk.importers.ports import ImportedModel, Port
from nnvk.importers.shapes import Shapes
from nnvk.importers.source import ModelSource, path_or_bytes

_log = logger("model")
_BLOCK_BYTES = 512
"""The unit of ``st_blocks``, whatever the file system's blocks are."""
_UNCOUNTED_BYTES = 4096
"""A file of so few bytes may be kept in its inode."""


def load(
    source: ModelSource,
    *,
    shapes: Shapes | None = None,
    constants: Mapping[str, Any] | None = None,
    relaxed: bool = False,
) -> ImportedModel:
    """Import an ``.onnx`` model, from a path or from its bytes.

    ``shapes`` gives inputs, by name, other shapes than the file's: above all the sizes that the file leaves open
    (`Port.signature`), which are 1 without it; sizes that have one name in the file are one size. ``constants`` gives
    inputs their values for good: what NNAPI has to know beforehand, such as axes, shapes and counts. They are no inputs
    of the model then, and neither are those without elements; if no other is left, the model has an input that nobody
    reads. ``relaxed`` allows devices to compute FLOAT32 as FLOAT16.

    INT64 and other whole numbers are INT32 in NNAPI, FLOAT64 is FLOAT32, and so is FLOAT16 between operators. Inputs
    and outputs keep the file's types. Results of INT64 and UINT32 that may need more than 32 bits are two words
    (`nnvk.importers.decompositions.int64`).

    Raises `OnnxImportError` where the file is malformed, or has operators that NNAPI can't express, or that would
    make more of a small file than its size warrants (`nnvk.importers.budget`): it then lists them all. Raises OSError
    where the path can't be read, BAD_DATA for ``shapes`` and ``constants`` that the inputs can't have, and
    OUT_OF_MEMORY.
    """
    return OnnxFile(source).load(shapes=shapes, constants=constants, relaxed=relaxed)


class OnnxFile(FileInParts):
    """An ``.onnx`` file. `load` makes models of it, each for other shapes.

    A file that leaves sizes of inputs open is read and parsed once, and its models share the elements of its tensors.
    Another file is read again by the second import, so that its tensors take no memory meanwhile. ``weights`` are the
    external data of a model that is given by its bytes. Raises what the function `load` raises of a file that can't be
    read.
    """

    refusal = OnnxImportError
    infers_lost = True
    """Whether an import infers the shapes behind a node that it can't map, to find the problems there as well."""

    def __init__(self, source: ModelSource, weights: memoryview | None = None) -> None:
        self._source = source = path_or_bytes(source)
        super().__init__("the model" if isinstance(source, bytes) else os.fspath(source))
        self._folder = None if isinstance(source, bytes) else Path(source).parent
        self._weights = weights
        self._nbytes = 0
        with self._guarded():
            self._model: ModelProto | None = self._parsed()
            is_open = weights is not None or any(-1 in edge.signature for edge in edges_of(self._model.graph))
            self._elements = Elements() if is_open else None

    def load(
        self,
        *,
        shapes: Shapes | None = None,
        constants: Mapping[str, Any] | None = None,
        relaxed: bool = False,
        lists_all: bool = True,
    ) -> ImportedModel:
        """A model of the file; arguments and errors are those of the function `load`.

        Without ``lists_all`` the error need not have more than one problem, and comes as soon as possible.
        """
        with self._guarded():
            shared = self.shared(relaxed)
            shared.lists_all = lists_all
            return Import(shared, self._name).run(shapes or {}, constants or {})

    def _load_whole(self, shapes: Shapes, constants: Mapping[str, Any], options: Mapping[str, Any]) -> ImportedModel:
        return self.load(shapes=shapes, constants=constants, **options)

    def _cut_before(self, waiting: frozenset[int], constants: Mapping[str, Any]) -> _Cut:
        with self._guarded():
            return _Cut(self, waiting, constants)

    def inputs(self) -> list[Edge]:
        """The inputs as the file declares them."""
        return edges_of(self._current().graph)

    def known_outputs(self, shapes: Shapes, constants: Mapping[str, Any]) -> list[np.ndarray] | None:
        """The outputs of a model that need no execution, by position: all are known at import, or without elements.

        None: the model has other outputs. Takes and raises what `load` does.
        """
        with self._guarded():
            return Import(self.shared(relaxed=False), self._name).known_outputs(shapes, constants)

    def shared(self, relaxed: bool) -> Shared:
        """The state of a new import of the file."""
        model = self._current()
        self._model = None if self._elements is None else model
        budget = Budget(self._nbytes)
        arrays = Arrays(self._folder if self._weights is None else self._weights, budget, self._elements)
        known = versions(model), Functions(model), arrays, budget, relaxed
        return Shared(
            model, *known, numbers=self._numbers, infers_lost=self.infers_lost, keeps_doubles=self.keeps_doubles
        )

    def proto(self) -> ModelProto:
        """A model of the caller's own: imports free the bytes of the tensors that they have read."""
        with self._guarded():
            return self._parsed()

    def elements_of(self, tensor: TensorProto) -> np.ndarray:
        """The elements of a constant, which may be in the weights. Raises `Unmapped` if there are none."""
        return Arrays(self._folder if self._weights is None else self._weights, Budget(self._nbytes)).read(tensor)

    def part(self, model: ModelProto) -> OnnxFile:
        """A model whose tensors are in the same weights."""
        part = OnnxFile(model.SerializeToString(), self._weights)
        part.keeps_doubles = self.keeps_doubles
        return part

    def _current(self) -> ModelProto:
        return self._parsed() if self._model is None else self._model

    def _parsed(self) -> ModelProto:
        source = self._source
        data = source if isinstance(source, bytes) else read_file(Path(source))
        model = converted(parse(data))
        self._nbytes = len(data) + bytes_beside(model, self._folder) + len(self._weights or b"")
        return model


# --- parts -----------------------------------------------------------------------------------------------------------


class PartOfFile(OnnxFile):
    """Some nodes of a file."""

    def __init__(self, whole: OnnxFile, model: ModelProto, elements: Elements, numbers: Sequence[int]) -> None:
        """``numbers`` are those of the nodes in errors."""
        FileInParts.__init__(self, whole._name)
        self._folder, self._weights, self._nbytes = whole._folder, whole._weights, whole._nbytes
        self._model: ModelProto = model
        self._elements = elements
        self._numbers = numbers
        self.keeps_doubles, self.infers_lost = whole.keeps_doubles, whole.infers_lost
        self._share(whole)

    def _parsed(self) -> ModelProto:
        return self._model


class _Cut(FileCut):
    """A file in two parts."""

    def __init__(self, whole: OnnxFile, waiting: frozenset[int], constants: Mapping[str, Any]) -> None:
        """``waiting`` are the numbers of nodes that wait."""
        model = whole._current()
        given = fixed(edges_of(model.graph, given=constants), constants)
        numbers = whole._numbers or range(len(model.graph.node))
        found, first, self._rest_model = cut_model(
            model,
            [place for place, number in enumerate(numbers) if number in waiting],
            [numpy_helper.from_array(array, name) for name, array in given.items()],
        )
        super().__init__(waiting, given, len(found.taken), found.places, whole._name)
        self._declared = list(model.graph.output)
        self._numbers = [numbers[place] for place in found.rest]
        self._elements = whole._elements or Elements()
        self._first = PartOfFile(whole, first, self._elements, [numbers[place] for place in found.first])
        self._rest: PartOfFile | None = None

    def _rest_for(self, taken: Sequence[Port]) -> tuple[OnnxFile, Sequence[str]]:
        model = self._rest_model
        if self._rest is not None and not is_declared(model, taken):
            model = ModelProto()
            model.CopyFrom(self._rest_model)
            self._rest = None
        if self._rest is None:
            declare(model, taken)
            self._rest = PartOfFile(self._first, model, self._elements, self._numbers)
        return self._rest, [port.name for port in taken]

    def _late_output(self, position: int) -> Port:
        return _port(self._declared[position])


def _port(declared: ValueInfoProto) -> Port:
    """An output of the rest, as the file declares it; its sizes are open."""
    dtype, narrow = types_of(declared.type.tensor_type.elem_type, f"output '{printable(declared.name, NAME_SHOWN)}'")
    dims = declared.type.tensor_type.shape.dim
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims)
    if not declared.type.tensor_type.HasField("shape"):
        shape = (-1,)
    type_ = carrier(narrow.carrier if narrow else dtype).with_dimensions(tuple(max(size, 0) for size in shape))
    return port_of(declared.name, type_, dtype if narrow is None else narrow.dtype, shape)


def bytes_beside(model: ModelProto, folder: Path | None) -> int:
    """Bytes of the files that keep constants of the model's graphs, as far as the disk has them: no holes."""
    if folder is None:
        return 0
    tensors = (one for graph in graphs_in(model) for one in graph.initializer)
    names = {entry.value for one in tensors for entry in one.external_data if entry.key == "location"}
    files: dict[tuple[int, int], int] = {}
    for name in names:
        with (
            suppress(OSError, ValueError, RuntimeError, Unmapped),  # which whoever reads it says
            open_beside(folder, name, "a constant") as file,
        ):
            status = os.fstat(file.fileno())
            # One file may have many names, and a file system that packs small files gives them no blocks.
            on_disk = max(status.st_blocks * _BLOCK_BYTES, min(status.st_size, _UNCOUNTED_BYTES))
            files[status.st_dev, status.st_ino] = min(status.st_size, on_disk)
    return sum(files.values())
