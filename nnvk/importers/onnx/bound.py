"""Runs of a part of a graph on arrays that another process writes and reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.api import Execution
from nnvk.base.errors import NnapiError, bad_data, bad_state, op_failed
from nnvk.importers.mixed import LibraryPart
from nnvk.importers.onnx.backend import PreparedModel
from nnvk.importers.onnx.part_choices import by_name
from nnvk.importers.onnx.stored import StoredTensor
from nnvk.importers.ports import ImportedModel, Port


class BoundRun:
    """Runs of a model on the same arrays. If sizes of outputs depend on shapes alone, one execution makes all runs.

    Arrays whose elements the operands have too are the execution's own: nothing is copied. One thread at a time may
    use it.
    """

    def __init__(self, model: PreparedModel, inputs: Sequence[StoredTensor]) -> None:
        """Raises `OnnxImportError`, and BAD_DATA for inputs that do not fit the model."""
        self._model = model
        self._inputs = list(inputs)
        self._shapes = by_name({name: one.shape for name, one in zip(model.names, self._inputs, strict=True)})
        compiled = None
        if not model.is_librarys(self._shapes):
            compiled = model.compiled_for([one.read() for one in self._inputs])
        self._imported: ImportedModel | None = None
        self._encoded: list[tuple[np.ndarray, Port, StoredTensor]] = []
        self._decoded: list[tuple[np.ndarray, Port, StoredTensor]] = []
        self._targets: list[StoredTensor] = []
        self._is_bound = False
        if compiled is not None:
            self._imported, compilation = compiled
            self._execution = Execution(compilation)
            self._execution.set_reusable(True)
            tensors = dict(zip(model.names, self._inputs, strict=True))
            for index, port in enumerate(self._imported.inputs):
                self._execution.set_input(index, self._operand(tensors[port.name], port))

    def _operand(self, tensor: StoredTensor, port: Port) -> np.ndarray:
        """The array of an operand: the input itself, or one that is filled before each run."""
        array = tensor.read()
        encoded = port.encode(np.zeros_like(array))  # each run decides whether nnvk can compute its values
        if port.is_plain:
            return array.reshape(encoded.shape)
        self._encoded.append((encoded, port, tensor))
        return encoded

    @property
    def outputs(self) -> tuple[Port, ...] | None:
        """The outputs; None if their sizes depend on more than the shapes of the inputs."""
        return None if self._imported is None else self._imported.outputs

    def set_outputs(self, places: Sequence[memoryview]) -> None:
        """Have the outputs written to places in memory. BAD_STATE: they are bound. BAD_DATA: these do not fit."""
        if self._imported is None or self._is_bound:
            raise bad_state(
                "the run has its outputs already" if self._is_bound else "the sizes of outputs are not known"
            )
        if len(places) != len(self._imported.outputs):
            raise bad_data(f"expected {len(self._imported.outputs)} outputs, got {len(places)}")
        types = self._execution.compilation.model.output_types()
        for index, (port, place, type_) in enumerate(zip(self._imported.outputs, places, types, strict=True)):
            target = StoredTensor(place, port.dtype, port.shape)
            self._targets.append(target)
            if port.is_plain:
                self._execution.set_output(index, target.read().reshape(type_.dimensions))
            else:
                decoded = np.empty(type_.dimensions, type_.dtype)
                self._execution.set_output(index, decoded)
                self._decoded.append((decoded, port, target))
        self._is_bound = True

    def compute(self) -> Sequence[np.ndarray] | None:
        """Compute; the outputs, unless they have their places. Raises what `Execution.compute` raises."""
        return self._model.chosen(self._shapes, self._on_device, self._in_library)

    def _in_library(self, library: LibraryPart) -> Sequence[np.ndarray] | None:
        results = library.run([one.read() for one in self._inputs])
        if not self._is_bound:
            return results
        if not self._write(results):
            raise op_failed("the library gives outputs of other shapes")
        return None

    def _write(self, results: Sequence[np.ndarray]) -> bool:
        """Write outputs to their places, if they have the shapes."""
        fits = all(result.shape == target.shape for result, target in zip(results, self._targets, strict=True))
        for result, target in zip(results, self._targets, strict=True):
            if fits:
                target.write(result)
        return fits

    def _on_device(self) -> Sequence[np.ndarray] | None:
        if not self._is_bound:
            return self._model.run([one.read() for one in self._inputs])
        try:
            for operand, port, tensor in self._encoded:
                operand[...] = port.encode(tensor.read())
            self._execution.compute()
        except NnapiError as error:
            if not self._write(self._model.instead(error, [one.read() for one in self._inputs])):
                raise
            return None
        for operand, port, tensor in self._decoded:
            tensor.write(port.decode(operand))
        return None
