"""Files of TensorFlow Lite: read once, imported for the shapes and options that a caller wants."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.base.files import open_regular
from nnvk.base.log import logger
from nnvk.importers.budget import Budget
from nnvk.importers.cutting import Node, cut
from nnvk.importers.parts import FileCut, FileInParts
from nnvk.importers.ports import ImportedModel, Port, Signature, Signatures
from nnvk.importers.shapes import Shapes, wanted_shapes
from nnvk.importers.source import ModelSource, path_or_bytes
from nnvk.importers.tflite.errors import TfliteImportError
from nnvk.importers.tflite.finished import late_port
from nnvk.importers.tflite.resizing import resized
from nnvk.importers.tflite.schema import HEAD, HEAD_OF_OTHERS, File, SignatureDef, Subgraph, Tensor, is_model
from nnvk.importers.tflite.subgraphs import Import, Subgraphs

_log = logger("model")


def load(
    source: ModelSource,
    *,
    shapes: Shapes | None = None,
    round_hybrid: bool = True,
    relaxed: bool = False,
) -> ImportedModel:
    """Import a ``.tflite`` model, from a path or from its bytes.

    ``shapes`` gives inputs, by name, other shapes than the file's, in elements: another batch, a larger image, and
    above all the sizes that the file leaves open (`Port.signature`), which are mostly 1 without it. None or -1 for a
    size keeps the file's.

    Where weights of 8 bits meet real activations (dynamic-range quantisation), TFLite rounds the activations to
    8 bits as well. ``round_hybrid`` adds operations that do so too, and give TFLite's results; without it, the
    model is faster and nearer to what was trained, and its results differ from TFLite's by that rounding.
    ``relaxed`` allows devices to compute FLOAT32 as FLOAT16.

    Raises `TfliteImportError` where the file is malformed, or has operators that NNAPI can't express, or that would
    make more of a small file than its size warrants (`nnvk.importers.budget`): it then lists them all. Raises
    OSError where the path can't be read, BAD_DATA for ``shapes`` that the inputs can't have, and OUT_OF_MEMORY.
    """
    return TfliteFile(source).load(shapes=shapes, round_hybrid=round_hybrid, relaxed=relaxed)


class TfliteFile(FileInParts):
    """A ``.tflite`` file whose tables are read once. `load` makes models of it, each for other shapes.

    Raises what the function `load` raises of a file that can't be read.
    """

    refusal = TfliteImportError

    def __init__(self, source: ModelSource) -> None:
        source = path_or_bytes(source)
        super().__init__("the model" if isinstance(source, bytes) else os.fspath(source))
        with self._guarded():
            self._file: Subgraphs = File(source if isinstance(source, bytes) else _read(Path(source)))

    def load(self, *, shapes: Shapes | None = None, round_hybrid: bool = True, relaxed: bool = False) -> ImportedModel:
        """A model of the file; arguments and errors are those of the function `load`."""
        with self._guarded():
            budget = Budget(len(self._file.data))
            return Import(self._file, self._name, budget, shapes or {}, round_hybrid, relaxed).run()

    def known_outputs(self, shapes: Shapes, constants: Mapping[str, Any]) -> list[np.ndarray] | None:
        """None: outputs of ``.tflite`` files need an execution."""
        return None

    def _load_whole(self, shapes: Shapes, constants: Mapping[str, Any], options: Mapping[str, Any]) -> ImportedModel:
        return self.load(shapes=shapes, **options)

    def _cut_before(self, waiting: frozenset[int], constants: Mapping[str, Any]) -> FileCut:
        return _Cut(self, self._file.subgraph(0), waiting)

    def inputs(self) -> list[Tensor]:
        """The inputs as the file declares them."""
        main = self._file.subgraph(0)
        return [main.tensors[tensor] for tensor in main.inputs]


def _read(path: Path) -> bytes:
    """A file, or what begins it where that is no model: other files may be endless."""
    with open_regular(path) as file:
        head = file.read(HEAD)
        return head + (file.read() if is_model(head) else file.read(HEAD_OF_OTHERS))


# --- parts -----------------------------------------------------------------------------------------------------------


class _PartOfFile:
    """A file whose first subgraph is a part of another file's."""

    def __init__(self, whole: Subgraphs, main: Subgraph, metadata: bytes | None = None) -> None:
        self.whole = whole
        self.main = main
        self.data = whole.data
        self.description = whole.description
        self.metadata = metadata
        self.signatures: list[SignatureDef] = []

    def subgraph(self, index: int) -> Subgraph:
        """A subgraph by its index."""
        return self.whole.subgraph(index) if index else self.main


class _Part(TfliteFile):
    """Some operators of a file's first subgraph, which keep their numbers."""

    def __init__(self, whole: TfliteFile, file: _PartOfFile) -> None:
        FileInParts.__init__(self, whole._name)
        self._share(whole)
        self._file = file
        self._main = file.main
        self._numbers = [operator.index for operator in self._main.operators]

    def _load_whole(self, shapes: Shapes, constants: Mapping[str, Any], options: Mapping[str, Any]) -> ImportedModel:
        part = _Part(self, _PartOfFile(self._file, self._fixed(shapes, constants)))
        return part.load(shapes={name: shape for name, shape in shapes.items() if name not in constants}, **options)

    def _cut_before(self, waiting: frozenset[int], constants: Mapping[str, Any]) -> FileCut:
        return _Cut(self, self._fixed({}, constants), waiting, constants)

    def _fixed(self, shapes: Shapes, constants: Mapping[str, np.ndarray]) -> Subgraph:
        """The subgraph for inputs of these shapes, with elements for some of them."""
        main = self._main
        names = [main.tensors[index].name for index in main.inputs]
        arrays = {index: constants[name] for index, name in zip(main.inputs, names, strict=True) if name in constants}
        wanted = wanted_shapes([main.tensors[index] for index in main.inputs], shapes)
        sizes = [
            arrays[index].shape if index in arrays else shape for index, shape in zip(main.inputs, wanted, strict=True)
        ]
        main = resized(main, sizes)
        tensors = list(main.tensors)
        for index in main.inputs:
            tensors[index] = replace(tensors[index], is_static=True)
        for index, array in arrays.items():
            data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
            tensors[index] = replace(tensors[index], data=data)
        inputs = [index for index in main.inputs if index not in arrays]
        unread = [index for index in main.inputs if index in arrays and arrays[index].size]
        if not inputs and unread:  # NNAPI's models have at least one input; nobody reads this one
            inputs = [len(tensors)]
            tensors.append(replace(tensors[unread[0]], index=len(tensors), data=None))
        return replace(main, tensors=tuple(tensors), inputs=tuple(inputs))


class _Cut(FileCut):
    """The first subgraph of a file in two parts."""

    def __init__(
        self,
        whole: TfliteFile,
        main: Subgraph,
        waiting: frozenset[int],
        constants: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        nodes = [
            Node([one for one in operator.inputs if one >= 0], operator.outputs, operator.name in _RANDOM)
            for operator in main.operators
        ]
        stored = [tensor.index for tensor in main.tensors if tensor.data is not None]
        places = [place for place, operator in enumerate(main.operators) if operator.index in waiting]
        found = cut(nodes, main.inputs, main.outputs, stored, places)
        super().__init__(waiting, constants or {}, len(found.taken), found.places, whole._name)
        self._whole, self._file, self._main = whole, whole._file, main
        first, self._operators = (
            tuple(main.operators[place] for place in several) for several in (found.first, found.rest)
        )
        self._taken_tensors, self._rest_outputs = tuple(found.taken), tuple(found.rest_outputs)
        part = replace(main, operators=first, outputs=tuple(found.first_outputs))
        self._first = _Part(whole, _PartOfFile(self._file, part, self._file.metadata))

    def load(self, shapes: Shapes, options: Mapping[str, Any]) -> ImportedModel:
        """Import the first part, with the file's signatures of its first subgraph."""
        imported = super().load(shapes, options)
        known = {one.key: one for one in self._file.signatures if not one.subgraph}

        def signature(key: str) -> Signature:
            inputs, outputs = (
                {name: edges.index(index) for name, index in named.items()}
                for named, edges in (
                    (known[key].inputs, self._main.inputs),
                    (known[key].outputs, self._main.outputs),
                )
            )
            return Signature(key, whole, inputs, outputs)

        whole = replace(imported, signatures=Signatures(tuple(known), signature))
        return whole

    def _rest_for(self, taken: Sequence[Port]) -> tuple[TfliteFile, Sequence[str]]:
        tensors = list(self._main.tensors)
        names: list[str] = []
        for index, port in zip(self._taken_tensors, taken, strict=True):
            tensor = tensors[index]
            shape = tensor.shape if tensor.is_static else tuple(max(size, 1) for size in port.shape)
            name = port.name if port.name not in names else f"{port.name} ({index})"
            names.append(name)
            tensors[index] = replace(tensor, name=name, shape=shape, signature=(-1,) * len(shape))
        rest = replace(
            self._main,
            tensors=tuple(tensors),
            operators=self._operators,
            inputs=self._taken_tensors,
            outputs=self._rest_outputs,
        )
        return _Part(self._whole, _PartOfFile(self._file, rest)), names

    def _late_output(self, position: int) -> Port:
        return late_port(self._main.tensors[self._main.outputs[position]])


_RANDOM = frozenset({"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"})
"""Operators whose results differ from one to a copy of it."""
