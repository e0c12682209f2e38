"""The interface of ``onnx.backend``: a model by `prepare`, which its `run` computes on one of nnvk's devices.

Where the importer has to know an input beforehand (axes, shapes, counts), the model is imported when `run` has it, and
kept for these values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

from nnvk.api import Compilation, Device, get_devices, run
from nnvk.base.errors import NnapiError
from nnvk.base.log import logger
from nnvk.importers.measured import LIBRARY, Choices, Shapes
from nnvk.importers.mixed import LibraryPart, may_compute
from nnvk.importers.onnx.errors import OnnxImportError
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.parts import ByValue, Loadable
from nnvk.importers.plan_folder import PlanFolder
from nnvk.importers.ports import ImportedModel
from nnvk.runtime.inputs import as_array
from nnvk.types.operand import Shape

_log = logger("model")
_R = TypeVar("_R")
_Compiled = tuple[ImportedModel, Compilation] | list[np.ndarray]
"""A model that is compiled, or the outputs of one that needs no execution."""
_MOST_REFUSED = 256
"""Keys of inputs that are remembered because they can't be imported."""
_KEPT = 8
"""The most sets of shapes and values that compiled models are kept for."""


class PreparedModel(BackendRep):
    """A model that is compiled for a device. Several threads may run it at once."""

    def __init__(
        self,
        file: Loadable,
        names: Sequence[str],
        devices: Sequence[Device],
        *,
        relaxed: bool = False,
        plans: PlanFolder | None = None,
        cpu: Callable[[], LibraryPart] | None = None,
        choices: Choices | None = None,
    ) -> None:
        """``cpu`` gives what computes the inputs that nnvk can't, with ``choices`` also what it computes faster."""
        self.names = names
        """The names of the inputs, in their order."""
        self._source = ByValue(file, names, {"relaxed": relaxed})
        self._devices = devices
        self._plans = plans
        self._lock = Lock()
        self._compiled: dict[Hashable, _Compiled] = {}
        self._families: dict[Hashable, Any] = {}
        self._choices = choices
        self._faster: LibraryPart | None = None
        """The library while it is measured or computes, because it is faster."""
        self._make_cpu = cpu
        self._cpu: LibraryPart | None = None
        self._refused: set[Hashable] = set()
        """The keys of inputs for which the model can't be imported."""

    def instead(self, error: NnapiError, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for all inputs, as the CPU computes them. Raises the error if nothing may."""
        if self._make_cpu is None or not may_compute(error):
            raise error
        with self._lock:
            if self._cpu is None:
                _log.warning("onnxruntime computes a part on the CPU: %s", error.reason)
                self._cpu = self._make_cpu()
        try:
            return self._cpu.run(inputs)
        except NnapiError:
            raise error from None

    def chosen(self, shapes: Shapes, device: Callable[[], _R], library: Callable[[LibraryPart], _R]) -> _R:
        """Have a device compute, or the library if it is faster for these shapes, which are in the order of names."""
        if self._choices is None:
            return device()
        results = self._choices.compute(shapes, device, lambda: library(self._library()))
        if not self._choices.needs_library:
            self._faster = None
        return results

    def is_librarys(self, shapes: Shapes) -> bool:
        """Whether the library is known to compute inputs of these shapes faster."""
        return self._choices is not None and self._choices.known(shapes) == LIBRARY

    def _library(self) -> LibraryPart:
        with self._lock:
            if self._faster is None:
                assert self._make_cpu is not None
                self._faster = self._make_cpu()
            return self._faster

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, for all inputs by position or by name. Raises `OnnxImportError`."""
        by_position = dict(zip(self.names, inputs, strict=False))
        given = dict(inputs) if isinstance(inputs, Mapping) else by_position
        arrays = {name: as_array(value, f"'{name}'") for name, value in given.items()}
        try:
            with self._lock:
                compiled = self._for(arrays)
            if not isinstance(compiled, tuple):
                return tuple(compiled)
            imported, _ = compiled
            return tuple(self._computed(compiled, [arrays[port.name] for port in imported.inputs]))
        except NnapiError as error:
            return tuple(self.instead(error, [arrays[name] for name in self.names]))

    def _computed(self, compiled: tuple[ImportedModel, Compilation], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        imported, compilation = compiled
        results, _ = imported.decode(run(compilation, imported.encode(arrays)))
        rest = imported.rest
        if rest is None:
            return results
        with self._lock:
            late = self._found(lambda: (rest, rest.key(results)), lambda: rest.load(results))
        if not isinstance(late, tuple):
            return rest.outputs_of(results, late)
        return rest.outputs_of(results, self._computed(late, rest.taken(results, late[0])))

    def compiled_for(self, inputs: Sequence[np.ndarray]) -> tuple[ImportedModel, Compilation] | None:
        """The compiled model for all inputs of these shapes; None if it, or sizes of outputs, depend on values too.

        Raises `OnnxImportError`.
        """
        with self._lock:
            try:
                compiled = self._for(dict(zip(self.names, inputs, strict=True)))
            except NnapiError as error:
                if self._make_cpu is None or not may_compute(error):
                    raise
                return None
            is_by_shapes = self._source.is_by_shapes and not any(0 in array.shape for array in inputs)
        if not isinstance(compiled, tuple) or not is_by_shapes or compiled[0].rest is not None:
            return None
        imported, compilation = compiled
        is_fixed = all(type_.is_fully_specified for type_ in compilation.model.output_types())
        return compiled if is_fixed and not any(-1 in port.shape for port in imported.outputs) else None

    def compile(self, shapes: Mapping[str, Shape]) -> ImportedModel | None:
        """Compile for inputs of these shapes; None if values of them must be known. Raises `OnnxImportError`."""
        with self._lock:
            try:
                imported = self._source.file.load_in_parts(shapes=shapes, knows_inputs=True, **self._source.options)
            except OnnxImportError as error:
                if not (error.unknown or (self._make_cpu is not None and may_compute(error))):
                    raise
                return None
            self._keep(tuple(shapes[name] for name in self.names), imported)
            return imported

    def _keep(self, key: Hashable, imported: ImportedModel) -> _Compiled:
        """Compile a model, and keep it in the place of the oldest one."""
        compilation = Compilation(imported.model, self._devices)
        compilation.share_families(self._families)
        if self._plans is not None:
            self._plans.apply(compilation, [port.shape for port in imported.inputs])
        compilation.finish()
        while len(self._compiled) >= _KEPT:
            self._compiled.pop(next(iter(self._compiled)))
        self._compiled[key] = imported, compilation
        return self._compiled[key]

    def _for(self, arrays: Mapping[str, np.ndarray]) -> _Compiled:
        return self._found(lambda: self._source.key(arrays), lambda: self._source.load(arrays))

    def _found(self, key: Callable[[], Hashable], load: Callable[[], ImportedModel | list[np.ndarray]]) -> _Compiled:
        """Look up a compiled model. Its key may be another one when the model is imported."""
        known = key()
        found = self._compiled.get(known)
        if known in self._refused:
            raise OnnxImportError("NNAPI can't express this model", "the part", is_valid=True)
        if found is None:
            try:
                imported = load()
            except OnnxImportError as error:
                if self._make_cpu is not None and may_compute(error) and len(self._refused) < _MOST_REFUSED:
                    self._refused.add(key())
                raise
            found = self._keep(key(), imported) if isinstance(imported, ImportedModel) else imported
        return found


class NnvkBackend(Backend):
    """nnvk as a backend of ONNX. It runs on the preferred device alone, whatever ONNX calls its devices."""

    devices: Sequence[Device] | None = None
    """The devices to run on, in the order of preference; None is the preferred one. Subclasses choose others."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """A model that is ready to run as far as it can be without inputs."""
        constants = {one.name for one in model.graph.initializer}
        names = [port.name for port in model.graph.input if port.name not in constants]
        return PreparedModel(OnnxFile(model.SerializeToString()), names, cls.devices or get_devices()[:1])

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """ONNX's tests have one device more, CUDA."""
        return device == "CPU"


prepare = NnvkBackend.prepare
run_model = NnvkBackend.run_model
supports_device = NnvkBackend.supports_device
